#include "tests/unit/controller/run/ckptkit.h"

#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "store/read/query.h"
#include "tests/lib/tap.h"

static const char digest[] = DIGEST;

void ck_report(struct world *w, uint64_t id, const char *node, const struct ck_part *r)
{
	char name[40], format[] = "plain", by[] = "name", empty[] = "", hex[sizeof digest];
	char *uri = xstrdup(r->uri ? r->uri : "");
	struct wm_checkpoint_report m = {.job = id,
	                                 .attempt = r->attempt,
	                                 .epoch = r->attempt,
	                                 .seq = r->seq,
	                                 .step = r->step,
	                                 .name = name,
	                                 .format = format,
	                                 .step_by = by,
	                                 .state = r->state,
	                                 .shards = r->shards,
	                                 .size_bytes = r->size,
	                                 .files = 1,
	                                 .digest = hex,
	                                 .uri = uri,
	                                 .at_us = 1800000000000000u,
	                                 .save_ms = 1500,
	                                 .text = empty};

	memcpy(hex, digest, sizeof hex);
	snprintf(name, sizeof name, "%s-%lld", r->file ? r->file : "step", (long long)r->step);
	world_msg(w, node, 0, WM_CHECKPOINT_REPORT, &m);
	world_turn(w);
	free(uri);
}

void ck_start(struct world *w, uint64_t id, uint32_t attempt)
{
	const char *const nodes[] = {"a", "b"};

	for (int i = 0; i < 2; i++)
		world_launch(w, nodes[i], id, attempt, LAUNCH_READY, 0, NULL);
	for (uint32_t i = 0; i < 2; i++) {
		world_launch(w, nodes[i], id, attempt, LAUNCH_RUNNING, 0, NULL);
		world_rank(w, nodes[i], id, attempt, i, PS_RUNNING, 0, 0, NULL);
	}
}

struct world *ck_make(uint64_t seed, uint64_t *id)
{
	struct world *w = world_create(seed);

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	*id = world_submit(w, TWO);
	ck_start(w, *id, 1);
	return w;
}

cJSON *ck_list(struct world *w, uint64_t id)
{
	struct err e;

	return store_checkpoints_json(w->reader, id, &e);
}

char *ck_json(struct world *w, uint64_t id)
{
	cJSON *list = ck_list(w, id);
	char *text = json_text(list);

	cJSON_Delete(list);
	return text;
}

void ck_verified(struct world *w, uint64_t id, const char *node, uint32_t attempt, uint64_t seq, int64_t step,
                 const char *uri)
{
	ck_report(
	    w, id, node,
	    &(struct ck_part){
	        .attempt = attempt, .seq = seq, .step = step, .size = 1, .state = CKPT_VERIFIED, .uri = uri});
}

void ck_requeue(struct world *w, uint64_t id, uint32_t attempt, const char *body)
{
	const char *const nodes[] = {"a", "b"};

	world_request(w, REQ_REQUEUE, id, NULL, body);
	ok(w->status == 200, "requeue of attempt %u", attempt);
	for (uint32_t i = 0; i < 2; i++) {
		world_rank(w, nodes[i], id, attempt, i, PS_EXITED, 0, 15, NULL);
		world_launch(w, nodes[i], id, attempt, LAUNCH_ENDED, 0, NULL);
	}
	world_forget(w);
	for (int i = 0; i < 2; i++)
		world_launch(w, nodes[i], id, attempt, LAUNCH_CLEANED, 0, NULL);
}

/* What the node gets, as text: "STEP NAME LOCAL URI..." */
void ck_begins(struct world *w, const char *node, const char *want, const char *what)
{
	struct sent *s = world_sent(w, node, WM_PREPARE);
	const struct wm_prepare *m = s ? s->msg : NULL;
	char text[400] = "none";

	if (m)
		snprintf(text, sizeof text, "%lld %s %s", (long long)m->resume_step, m->resume_name,
		         *m->resume_local ? m->resume_local : "-");
	for (uint32_t i = 0; m && i < m->resume_uris.n; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), " %s",
		         *m->resume_uris.v[i] ? m->resume_uris.v[i] : "-");
	is_str(text, want, what);
	sent_free(s);
}

void ck_finish(struct world *w, uint64_t id, uint32_t attempt)
{
	const char *const nodes[] = {"a", "b"};

	for (uint32_t i = 0; i < 2; i++) {
		world_rank(w, nodes[i], id, attempt, i, PS_EXITED, 0, 0, NULL);
		world_launch(w, nodes[i], id, attempt, LAUNCH_ENDED, 0, NULL);
	}
	for (int i = 0; i < 2; i++)
		world_launch(w, nodes[i], id, attempt, LAUNCH_CLEANED, 0, NULL);
}

void ck_loss(struct world *w, uint64_t id, int64_t step, double value)
{
	struct wm_metrics m = {.job = id, .attempt = 1, .epoch = 1, .seq = (uint64_t)step};

	wire_strv_add(&m.names, "loss");
	wire_u32v_add(&m.name_ix, 0);
	wire_u32v_add(&m.ranks, 0);
	m.steps.n = m.values.n = m.times.n = 1;
	m.steps.v = &step;
	m.values.v = &value;
	m.times.v = (uint64_t[]){1};
	core_agent_msg(w->core, "a", 0, WM_METRICS, 0, wire_copy(WM_METRICS, &m));
	world_turn(w);
	free(m.names.v[0]);
	free(m.names.v);
	free(m.name_ix.v);
	free(m.ranks.v);
}
