/*
 * watch: see watch.h.
 */
#include "controller/watch/watch.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/record/ckpt.h"
#include "controller/state/core_state.h"
#include "controller/state/turn.h"
#include "controller/watch/watch_int.h"

#define RATE     1000     /* points of a job that are judged in a second */
#define BURST_US 4000000  /* of that rate, at once */
#define TOTAL    50000    /* of all jobs, a second */
#define SAVE_US  10000000 /* between two writes of a state */
#define TICK_US  1000000
#define SAVES    16 /* states that a tick writes */
#define READS    4  /* loaded states that a tick brings up to date */

/* ---- life ------------------------------------------------------------------------------------------- */

static int64_t newest_checkpoint(void *arg, int64_t at_most)
{
	const struct cjob *j = arg;
	const struct ckpt *k = j->r.att ? ckpt_newest(&j->r, at_most, NULL) : NULL;

	return k ? k->step : -1;
}

static struct job_watch *watch_of(struct core *c, struct cjob *j)
{
	struct job_watch *w = j->watch;

	if (w)
		return w;
	w = j->watch = xcalloc(1, sizeof(*w));
	w->job = j;
	w->saved_us = now_boot(c);
	DL_APPEND(c->watch.all, w);
	if (c->watch.at_us < now_boot(c))
		c->watch.at_us = now_boot(c) + TICK_US;
	return w;
}

void watch_load(struct core *c, uint64_t job, const char *state)
{
	struct cjob *j = job_find(c, job);
	struct job_watch *w;

	if (!j || j->r.members)
		return;
	w = watch_of(c, j);
	free(w->stored);
	w->stored = xstrdup(state);
	w->has_row = 1;
}

static void read_stored(struct job_watch *w, const struct spec_watch *spec, struct watch_source source)
{
	cJSON *o = json_parse(w->stored, strlen(w->stored), NULL);
	const cJSON *v;
	struct err e;

	w->feed = o ? feed_load(spec, source, o, &e) : NULL;
	watch_rules_load(w, cJSON_GetObjectItemCaseSensitive(o, "rules"), (uint32_t)json_whole(o, "attempt", 0));
	if (!w->feed)
		log_warn("event=watch_state_lost job=%" PRIu64 " text=\"%s\"", w->job->r.id, o ? e.text : "not JSON");
	cJSON_ArrayForEach (v, cJSON_GetObjectItemCaseSensitive(o, "pins"))
		if (cJSON_IsNumber(v) && w->n_pins < WATCH_PINS)
			w->pins[w->n_pins++] = (uint32_t)v->valuedouble;
	cJSON_Delete(o);
	free(w->stored);
	w->stored = NULL;
}

static void save_state(struct core *c, struct job_watch *w)
{
	cJSON *o = feed_save(w->feed), *pins = cJSON_AddArrayToObject(o, "pins");
	char *text;

	for (uint32_t i = 0; i < w->n_pins; i++)
		cJSON_AddItemToArray(pins, cJSON_CreateNumber(w->pins[i]));
	cJSON_AddItemToObject(o, "rules", watch_rules_save(w));
	text = json_text(o);
	store_txn_watch(turn_now(c)->txn, w->job->r.id, text);
	turn_now(c)->n++;
	free(text);
	cJSON_Delete(o);
	w->dirty = 0;
	w->has_row = 1;
	w->saved_attempt = w->job->r.attempts;
	w->saved_us = now_boot(c);
}

static struct watch_feed *feed_of(struct core *c, struct job_watch *w)
{
	const struct spec_watch *spec = &w->job->act->spec->watch;
	struct watch_source source = {newest_checkpoint, w->job};
	const struct attempt_rec *a = w->job->r.att;
	int replays = 0;

	if (w->stored) {
		read_stored(w, spec, source);
		w->seen_us = now_boot(c); /* silence counts from here */
		replays = w->feed != NULL;
	}
	if (!w->feed)
		w->feed = feed_new(spec, source);
	if (feed_attempt(w->feed, a->number, a->resumed_from_step))
		w->seen_us = 0; /* a program may load for long before its first step */
	if (replays && watch_replay(c, w) && w->job->watch)
		save_state(c, w);
	return w->feed;
}

void watch_job_goes(struct core *c, struct cjob *j)
{
	struct job_watch *w = j->watch;

	if (!w)
		return;
	DL_DELETE(c->watch.all, w);
	feed_destroy(w->feed);
	free(w->stored);
	free(w->rules);
	free(w);
	j->watch = NULL;
}

/* ---- state ------------------------------------------------------------------------------------------- */

void watch_after_event(struct core *c, struct cjob *j, enum event_type t, const struct job_before *before)
{
	struct job_watch *w = j->watch;

	if (t == EV_RANK_STARTED && !before->refused && j->act && j->act->spec->n_rules) {
		w = watch_of(c, j); /* a rule may wait for a line that never comes */
		feed_of(c, w);
		if (!w->has_row) {
			save_state(c, w);
			w->saved_attempt = 0; /* the first points are still to be noted */
		}
		return;
	}
	if (!w || before->refused || (t != EV_ENDED && t != EV_REMOVED))
		return;
	if (w->has_row) {
		store_txn_watch(turn_now(c)->txn, j->r.id, NULL);
		turn_now(c)->n++;
	}
	watch_job_goes(c, j);
}

/* ---- points ------------------------------------------------------------------------------------------ */

/* Returns 1 when the rates allow it to judge one more point. */
static int may_judge(struct core *c, struct job_watch *w, uint64_t now)
{
	if (w->refill_us + BURST_US < now)
		w->refill_us = now - BURST_US;
	if (c->watch.refill_us + TICK_US < now)
		c->watch.refill_us = now - TICK_US;
	if (w->refill_us >= now || c->watch.refill_us >= now)
		return 0;
	w->refill_us += TICK_US / RATE;
	c->watch.refill_us += TICK_US / TOTAL;
	return 1;
}

/* Returns 1 when there was an alarm or an order. */
static int judge_point(struct core *c, struct job_watch *w, const struct feed_batch *b, const char *node,
                       const struct feed_point *p, uint32_t rules)
{
	int64_t before = feed_step(w->feed);
	struct watch_seen by = {p->rank, node};
	struct watch_out out;
	int found, may = feed_wants(w->feed, p) && may_judge(c, w, now_boot(c));

	feed_add(w->feed, b, p, may, &out);
	if (feed_step(w->feed) != before)
		w->seen_us = now_boot(c);
	w->dirty |= (uint8_t)may;
	found = watch_report(c, w, &by, &out);
	if (rules && (may || may_judge(c, w, now_boot(c)))) {
		found |= watch_rules_judge(c, w, rules, &by, p);
		w->dirty = 1;
	}
	return found;
}

void watch_points(struct core *c, const char *node, const struct wm_metrics *m)
{
	struct cjob *j = job_find(c, m->job);
	const struct attempt_rec *a = j ? j->r.att : NULL;
	struct feed_batch b = {.seq = m->seq};
	struct job_watch *w;
	uint32_t *masks;
	int found = 0;

	if (!j || !j->act || !a || a->number != m->attempt || !m->ranks.n || m->ranks.v[0] >= a->n_ranks)
		return;
	b.place = a->ranks[m->ranks.v[0]].place;
	if (strcmp(a->places[b.place].node, node) != 0)
		return;
	w = watch_of(c, j);
	if (feed_is_old(feed_of(c, w), &b))
		return;
	masks = watch_rules_of(w, &m->names);
	for (uint32_t i = 0; i < m->ranks.n && j->watch; i++) {
		struct feed_point p = {.name = m->names.v[m->name_ix.v[i]],
		                       .rank = m->ranks.v[i],
		                       .step = m->steps.v[i],
		                       .value = m->values.v[i],
		                       .at_us = m->times.v[i]};

		if (p.rank < a->n_ranks && a->ranks[p.rank].place == b.place)
			found |= judge_point(c, w, &b, node, &p, masks ? masks[m->name_ix.v[i]] : 0);
	}
	free(masks);
	if (j->watch && (found || w->saved_attempt != a->number))
		save_state(c, w);
}

/* ---- time -------------------------------------------------------------------------------------------- */

static void look_for_silence(struct core *c, struct job_watch *w)
{
	const struct cjob *j = w->job;
	double seconds = (double)(now_boot(c) - w->seen_us) / 1e6;
	struct watch_seen by = {NO_RANK, NULL};
	struct watch_out out;

	/* The feed learns of an attempt with its first point. */
	if (!j->act || j->r.att->state != ATT_RUNNING || !w->seen_us ||
	    feed_attempt_of(w->feed) != j->r.att->number || seconds <= feed_hang_limit(w->feed))
		return;
	feed_silence(w->feed, seconds, &out);
	if (watch_report(c, w, &by, &out) && j->watch)
		save_state(c, w);
}

void watch_tick(struct core *c)
{
	uint64_t now = now_boot(c);
	struct job_watch *w, *next;
	unsigned saves = 0, reads = 0;

	c->watch.at_us = now + TICK_US;
	DL_FOREACH_SAFE (c->watch.all, w, next) {
		if (w->stored && w->job->act) {
			if (reads++ == READS)
				c->watch.at_us = now;
			if (reads <= READS)
				feed_of(c, w);
		}
		if (!w->feed)
			continue;
		look_for_silence(c, w);
		if (watch_rules_tick(c, w) && w->job->watch)
			save_state(c, w);
		if (w->dirty && saves < SAVES && now - w->saved_us >= SAVE_US) {
			save_state(c, w);
			saves++;
		}
	}
}

uint64_t watch_next_us(const struct core *c)
{
	return c->watch.all ? c->watch.at_us : UINT64_MAX;
}
