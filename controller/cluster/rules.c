/*
 * rules: see rules.h. An agent gets them with its first sign of life and after each change, so a change needs
 * no walk over all nodes.
 */
#include "controller/cluster/rules.h"

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/state/core_state.h"
#include "controller/state/turn.h"

void rules_set(struct core *c, const char *file, const char *text, unsigned rules, int first, const char *why)
{
	cJSON *d;

	if (text) {
		log_info("event=failure_patterns file=%s rules=%u", file, rules);
		free(c->rules.text);
		c->rules.text = xstrdup(text);
		c->rules.gen++;
	} else {
		log_error("event=failure_patterns_refused file=%s text=\"%s\"", file, why);
	}
	if ((text && first) || c->life.stopping || !c->life.loaded || c->life.failing)
		return;
	d = cJSON_CreateObject();
	json_add_str(d, "file", file);
	if (text)
		json_add_u64(d, "rules", rules);
	else
		json_add_str(d, "text", why);
	cluster_post(c, EV_FAILURE_PATTERNS, d);
}

void rules_tell(struct core *c, struct cnode *n)
{
	struct wm_failure_patterns m = {.text = c->rules.text};

	if (!c->rules.text || n->rules_sent == c->rules.gen)
		return;
	c->io.send(n->name, n->session, WM_FAILURE_PATTERNS, &m, 0, c->io.arg);
	n->rules_sent = c->rules.gen;
}
