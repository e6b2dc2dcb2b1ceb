/*
 * spec_rules: the list `rules` of a job specification (common/watch/rule.h).
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/pattern.h"
#include "common/spec/spec_rules.h"

#define ABSENT_MOST (7.0 * 86400)

void spec_v_rule_pattern(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                         void *out)
{
	const char *s = spec_string(p, where, v, (size_t)r->max, 1);
	struct pattern *pattern;
	struct err e;

	if (!s)
		return;
	pattern = *s ? pattern_compile(s, &e) : NULL;
	if (!*s)
		spec_problem(p, where, "the pattern is empty");
	else if (!pattern)
		spec_problem(p, where, "%s", e.text);
	else
		spec_set_text(out, r->offset, s);
	pattern_destroy(pattern);
}

void spec_v_rule_action(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                        void *out)
{
	const char *given = cJSON_IsString(v) ? v->valuestring : "";

	for (int a = 0; a < WATCH_ACTIONS; a++)
		if (strcmp(watch_action_name((enum watch_action)a), given) == 0) {
			*(enum watch_action *)(void *)((char *)out + r->offset) = (enum watch_action)a;
			return;
		}
	if (strcmp(given, "checkpoint") == 0 || strcmp(given, "checkpoint_restart") == 0)
		spec_unsupported(p, where, "\"%s\" is reserved and not built yet", given);
	else
		spec_problem(p, where,
		             "expected \"alert\", \"pin\", \"rollback\", \"restart\" or \"stop\", got %s%.64s%s",
		             *given ? "\"" : "", *given ? given : "no string", *given ? "\"" : "");
}

static void check_condition(struct spec_parse *p, const char *where, const struct watch_rule *r)
{
	int above = !isnan(r->above), below = !isnan(r->below);

	if (!r->name)
		spec_problem(p, where, "needs a name");
	if ((r->metric != NULL) == (r->pattern != NULL))
		spec_problem(p, where, "needs a metric or a pattern, and not both");
	else if (r->metric && above == below)
		spec_problem(
		    p, where,
		    "needs \"above\" or \"below\", and not both: {\"metric\": \"grad_norm\", \"above\": 1000}");
	else if (r->pattern && (above || below))
		spec_problem(p, where, "\"above\" and \"below\" are for a metric; this rule has a pattern");
	else if (r->metric && r->absent_s != 0)
		spec_problem(p, where, "\"absent_s\" is for a pattern; this rule has a metric");
	if (r->absent_s != 0 && !(r->absent_s >= 1 && r->absent_s <= ABSENT_MOST))
		spec_problem(p, where, "\"absent_s\": expected a number from 1 to %.0f", ABSENT_MOST);
}

static void check_name(struct spec_parse *p, const char *where, const struct watch_rule *r)
{
	for (const struct watch_rule *other = p->s.rules; r->name && other < r; other++)
		if (other->name && strcmp(other->name, r->name) == 0) {
			spec_problem(p, where, "another rule is called \"%s\"", r->name);
			return;
		}
}

void spec_v_rules(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out)
{
	const cJSON *item;
	size_t i = 0;

	(void)out;
	if (!cJSON_IsArray(v)) {
		spec_wrong_type(
		    p, where,
		    "a list such as [{\"name\": \"gradients\", \"metric\": \"grad_norm\", \"above\": 1000}]", v);
		return;
	}
	if (cJSON_GetArraySize(v) > r->max) {
		spec_problem(p, where, "has %d entries; at most %" PRId64 " are allowed", cJSON_GetArraySize(v),
		             r->max);
		return;
	}
	if (!v->child || !spec_once(p, where, p->s.rules))
		return;
	p->s.rules = xcalloc((size_t)cJSON_GetArraySize(v), sizeof(*p->s.rules));
	cJSON_ArrayForEach (item, v) {
		char path[SPEC_WHERE_SIZE];
		struct watch_rule *one = &p->s.rules[p->s.n_rules++];

		*one = (struct watch_rule){.above = (double)NAN, .below = (double)NAN, .for_steps = 1, .budget = 3};
		spec_where_index(path, where, i++);
		spec_object(p, "rules[]", path, item, one);
		if (cJSON_IsObject(item)) {
			check_condition(p, path, one);
			check_name(p, path, one);
		}
	}
}

cJSON *spec_rules_json(const struct job_spec *s)
{
	cJSON *list = cJSON_CreateArray();

	for (size_t i = 0; i < s->n_rules; i++) {
		const struct watch_rule *r = &s->rules[i];
		cJSON *o = cJSON_CreateObject();

		json_add_str(o, "name", r->name);
		if (r->metric)
			json_add_str(o, "metric", r->metric);
		if (r->pattern)
			json_add_str(o, "pattern", r->pattern);
		if (!isnan(r->above))
			cJSON_AddNumberToObject(o, "above", r->above);
		if (!isnan(r->below))
			cJSON_AddNumberToObject(o, "below", r->below);
		cJSON_AddNumberToObject(o, "for_steps", (double)r->for_steps);
		if (r->absent_s > 0)
			cJSON_AddNumberToObject(o, "absent_s", r->absent_s);
		json_add_str(o, "action", watch_action_name(r->action));
		cJSON_AddNumberToObject(o, "budget", (double)r->budget);
		cJSON_AddItemToArray(list, o);
	}
	return list;
}
