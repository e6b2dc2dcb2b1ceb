/*
 * collect: see collect.h.
 */
#include "controller/run/collect.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/ckpt.h"
#include "controller/record/rec.h"
#include "controller/run/attempt.h"
#include "controller/run/replace.h"
#include "controller/share/cost.h"
#include "controller/state/core_state.h"
#include "controller/state/turn.h"

/* ---- when it may begin ------------------------------------------------------------------------------- */

/* Returns the newest whole checkpoint that the next attempt may begin with; NULL none. */
static const struct ckpt *newest_whole(const struct job_rec *r)
{
	const struct ckpt *k = ckpt_first(r);

	while (k && (!ckpt_is_complete(k) || k->set_aside))
		k = ckpt_before(r, k);
	return k;
}

/* 1: the nodes restore it from what they hold. */
static int is_usable(const struct ckpt *k, const struct ckpt_nodes *on)
{
	TEXT(why);

	for (uint32_t i = 0; i < k->n_parts; i++)
		if (!k->parts[i].digest)
			return 0;
	return ckpt_usable(k, on, &why);
}

/* 1: the next attempt can begin with the checkpoint, and with all other files of its step, on the nodes that
 * it has for sure. */
static int can_begin_with(struct core *c, const struct cjob *j, const struct ckpt *k)
{
	const char **names = xcalloc(j->r.att->n_places, sizeof(*names));
	const struct ckpt_nodes on = {names, j->r.att->n_places};
	int can;

	replace_names(c, j, names);
	can = ckpt_is_verified(k) || is_usable(k, &on);
	for (uint32_t i = 0; can && i < j->r.ckpts->n; i++) {
		const struct ckpt *other = &j->r.ckpts->v[i];

		if (ckpt_is_sibling(other, k) && ckpt_is_complete(other) && !other->set_aside)
			can = ckpt_is_verified(other) || is_usable(other, &on);
	}
	free(names);
	return can;
}

/* Returns how far the end of each launch has to be, so that the next attempt begins with the newest whole
 * checkpoint. A node may say OVER_COPIED of one that it could not copy: then only the uploaded folder has it.
 */
static enum launch_over needed(struct core *c, const struct cjob *j)
{
	const struct ckpt *k = newest_whole(&j->r);

	if (!rec_any_rank_started(j->r.att))
		return OVER_STOPPED;
	return k && can_begin_with(c, j, k) ? OVER_STOPPED : OVER_SAVED;
}

int collect_may_begin(struct core *c, struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;
	uint8_t over = OVER_SAVED; /* of the node that is least far */
	TEXT(spent);

	if (j->collect || a->outcome == OUT_NONE || !rec_keeps_nodes(&j->r) ||
	    cost_used_up(j, j->act->spec, spent.at, spent.size))
		return 0;
	for (uint32_t i = 0; i < a->n_places; i++)
		if (a->places[i].state < PLACE_CLEANED && j->act->rt[i].over < over)
			over = j->act->rt[i].over;
	return over >= OVER_STOPPED && over >= needed(c, j);
}

/* ---- looking at it ----------------------------------------------------------------------------------- */

static void exchange_attempts(struct cjob *j, int both)
{
	struct attempt_rec *a = j->r.att;
	struct active *act = j->act;

	if (both) {
		j->r.att = j->r.old;
		j->r.old = a;
	}
	j->act = j->collect;
	j->collect = act;
}

void collect_look(struct cjob *j)
{
	int both = j->r.old && j->r.old->number == j->collect_attempt;

	exchange_attempts(j, both);
	j->looks_back = both ? LOOKS_AT_OLD : LOOKS_AT_NEWEST;
}

void collect_back(struct cjob *j)
{
	exchange_attempts(j, j->looks_back == LOOKS_AT_OLD);
	j->looks_back = 0;
}

struct cjob *collect_of_report(struct core *c, uint16_t type, const void *msg)
{
	const struct wm_run_info *head = msg; /* all reports about an attempt begin in the same way */
	struct attempt_rec *a;
	struct cjob *j;

	if (type != WM_LAUNCH_REPORT && type != WM_PROC_REPORT && type != WM_ARTIFACT_REPORT &&
	    type != WM_CHECKPOINT_REPORT && type != WM_FAILURE_LINE && type != WM_RUN_INFO)
		return NULL;
	j = job_find(c, head->job);
	a = j && j->collect && j->collect_attempt == head->attempt ? rec_attempt(&j->r, head->attempt) : NULL;
	if (!rec_collects(a))
		return NULL;
	collect_look(j);
	return j;
}

/* ---- life -------------------------------------------------------------------------------------------- */

static void add_to_nodes(struct core *c, struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;

	for (uint32_t i = 0; i < a->n_places; i++) {
		struct cnode *n = node_by_id(c, a->places[i].node_id);

		j->act->rt[i].progress_us = now_boot(c);
		if (n && a->places[i].state < PLACE_CLEANED)
			node_job_add(n, j);
	}
}

void collect_begin(struct core *c, struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;

	for (uint32_t i = 0; i < a->n_places; i++) {
		struct cnode *n = node_by_id(c, a->places[i].node_id);

		if (n)
			node_job_del(n, j);
	}
	j->collect = j->act;
	j->collect_attempt = a->number;
	j->act = NULL;
	collect_look(j);
	add_to_nodes(c, j);
	collect_back(j);
	log_info("event=collects job=%" PRIu64 " attempt=%u", j->r.id, a->number);
	job_touch(c, j);
}

void collect_loaded(struct core *c, struct cjob *j)
{
	struct attempt_rec *a = rec_collects(j->r.old) ? j->r.old : j->r.att;
	struct err e;

	if (!rec_collects(a))
		return;
	j->collect_attempt = a->number;
	j->collect = active_new(c, j, &e);
	if (!j->collect) {
		log_error("event=spec_refused job=%" PRIu64 " text=\"%s\"", j->r.id, e.text);
		return;
	}
	j->collect->rt = xcalloc(a->n_places, sizeof(*j->collect->rt));
	collect_look(j);
	add_to_nodes(c, j);
	collect_back(j);
	job_touch(c, j);
}

static void end_collection(struct core *c, struct cjob *j)
{
	log_info("event=collected job=%" PRIu64 " attempt=%u", j->r.id, j->r.att->number);
	active_free(c, j);
	collect_back(j);
	j->awaits_collect = 0;
	job_touch(c, j); /* the end of the job, or of its next attempt, may have waited */
}

void collect_review(struct core *c, struct cjob *j)
{
	uint64_t at;

	if (!j->collect)
		return;
	collect_look(j);
	at = review_open_places(c, j);
	if (at == UINT64_MAX) {
		end_collection(c, j);
		return;
	}
	if (!j->heap_at || at < j->deadline_us)
		job_deadline(c, j, at);
	send_orders(c, j);
	collect_back(j);
}

/* ---- nodes ------------------------------------------------------------------------------------------- */

void collect_sync_begin(struct cnode *n)
{
	for (uint32_t i = 0; i < n->n_collects; i++) {
		struct cjob *j = n->collects[i];
		struct place_rt *rt;

		collect_look(j);
		rt = place_rt(j, rec_place_of(j->r.att, n->r.id));
		rt->reported = 0;
		rt->session = n->session;
		rt->sent = 0;
		collect_back(j);
	}
}

void collect_sync_end(struct core *c, struct cnode *n)
{
	uint32_t count = n->n_collects;
	struct cjob **jobs = xmemdup(n->collects, count * sizeof(*jobs)); /* the list changes below */

	for (uint32_t i = 0; i < count; i++) {
		struct cjob *j = jobs[i];
		const struct place_rec *p;

		collect_look(j);
		p = rec_place_of(j->r.att, n->r.id);
		if (!place_rt(j, p)->reported)
			place_lost(c, j, place_index(j, p), 0, 0, "its agent knows nothing of the launch any more");
		collect_back(j);
		job_touch(c, j);
	}
	free(jobs);
}

void collect_node_lost(struct core *c, struct cnode *n, uint64_t silent_us, const char *why)
{
	while (n->n_collects) { /* place_lost takes each off the list */
		struct cjob *j = n->collects[n->n_collects - 1];

		collect_look(j);
		place_lost(c, j, place_index(j, rec_place_of(j->r.att, n->r.id)), silent_us, 0, why);
		node_job_del(n, j);
		collect_back(j);
	}
}
