/*
 * load: fills memory from the store, at start and after a transaction that the store refused.
 *
 * The store has rows of unfinished jobs, nodes, join tokens and idempotency keys. News from the nodes comes
 * with their agents' reports. Time limits continue from the recorded start. Waits for an answer (kill,
 * launch, preparation) begin again.
 */
#include "controller/load.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/cluster/nodes.h"
#include "controller/cluster/peers.h"
#include "controller/core.h"
#include "controller/park/park.h"
#include "controller/park/ports.h"
#include "controller/record/cluster.h"
#include "controller/record/cluster_rows.h"
#include "controller/record/event.h"
#include "controller/record/inventory.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/run/array.h"
#include "controller/run/attempt.h"
#include "controller/run/collect.h"
#include "controller/run/recover.h"
#include "controller/run/resolve.h"
#include "controller/share/alloc.h"
#include "controller/share/budget.h"
#include "controller/share/cost.h"
#include "controller/share/forecast.h"
#include "controller/share/instances.h"
#include "controller/share/node_feed.h"
#include "controller/share/pools.h"
#include "controller/share/queues.h"
#include "controller/share/reserve.h"
#include "controller/state/core_state.h"
#include "controller/state/idem.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/quota.h"
#include "controller/state/refs.h"
#include "controller/state/turn.h"
#include "controller/watch/watch.h"
#include "store/read/load.h"

void state_clear(struct core *c)
{
	struct cjob *j, *jt;

	array_rm_clear(c);
	parks_clear(c);
	HASH_ITER (hh, c->jobs.all, j, jt)
		job_free(c, j);
	for (struct cnode *n = node_first(c); n; n = node_next(n))
		node_detach(c, n);
	peers_changed(c);
	c->nodes.changed = NULL;
	c->jobs.touched = c->turn.jobs = NULL;
	idem_clear(c);
	sched_destroy(c->sched);
	queues_clear(c);
	instances_clear(c);
	reserves_clear(c);
	budgets_clear(c);
	alloc_open(c);
	cluster_clear(&c->records);
	cluster_init(&c->records);
	instances_open(c);
	c->alloc.n_avoiders = c->alloc.n_exchangers = 0;
	c->jobs.unfinished = 0;
	memset(c->jobs.counts, 0, sizeof(c->jobs.counts));
	memset(c->ports.used, 0, sizeof(c->ports.used));
	c->alloc.dirty = c->alloc.more = 0;
	c->pools.n_lost = c->pools.n_ended = 0;
	c->pools.live = c->pools.ended = NULL;
	c->points.late_job = 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void note_recorded(struct core *c, uint64_t real_us)
{
	if (real_us > c->life.recorded_us)
		c->life.recorded_us = real_us;
}

static int on_job(const struct job_row *row, void *arg)
{
	struct core *c = arg;
	struct cjob *j = job_new(c, row->id);
	struct job_spec *s;
	struct err e;

	if (rec_from_job_row(&j->r, row, &e) < 0) {
		log_error("event=row_refused text=\"%s\"", e.text);
		job_free(c, j);
		return 0;
	}
	c->jobs.counts[j->r.status] += !j->r.members;
	c->jobs.unfinished++;
	queue_jobs(c, j->r.queue, 1);
	j->spec_saved = 1;
	if (j->r.members) {
		if (!row->spec || array_open(c, j, row->spec, row->run, &e) < 0)
			log_error("event=spec_refused job=%" PRIu64 " text=\"%s\"", row->id, row->spec ? e.text : "none");
		return 0;
	}
	if (j->r.array) {
		j->admitted = j->r.status >= JOB_STARTING && j->r.status <= JOB_STOPPING;
		array_load(c, j);
		if (j->r.status == JOB_QUEUED && array_parks(c, j))
			return 0;
	}
	if (j->r.status != JOB_QUEUED || j->r.attempts) {
		if (j->r.status != JOB_HELD) {
			j->spec = xstrdup(row->spec);
			j->run = xstrdup(row->run);
		}
		return 0;
	}
	/* The common case, maybe a million of them: its specification is read once and not kept. */
	s = row->spec ? spec_parse(row->spec, strlen(row->spec), &e) : NULL;
	if (s && s->n_after)
		j->to_queue = 1; /* when all jobs are loaded */
	else if (s)
		array_queue(c, j, s);
	else
		log_error("event=spec_refused job=%" PRIu64 " text=\"%s\"", row->id, row->spec ? e.text : "none");
	spec_destroy(s);
	return 0;
}

/* Learns from an ended attempt which nodes kept it from starting. Its nodes may still collect it. */
static void learn_attempt(struct cjob *j, const struct attempt_row *row)
{
	struct job_rec r = {.id = row->job};
	struct err e;

	if (rec_from_attempt_row(&r, row, &e) == 0)
		recover_learn(j, r.att);
	if (row->number + 1 == j->r.attempts && rec_collects(r.att)) {
		j->r.old = r.att;
		return;
	}
	attempt_rec_free(r.att);
}

static int on_attempt(const struct attempt_row *row, void *arg)
{
	struct core *c = arg;
	struct cjob *j = job_find(c, row->job);
	struct err e;
	int over;

	if (!j)
		return 0;
	if (row->ended_us > row->started_us)
		j->spent_uusd += cost_uusd(row->price_uusd, row->ended_us - row->started_us);
	over = row->number < j->r.attempts || strcmp(row->state ? row->state : "", "ended") == 0;
	if (over)
		learn_attempt(j, row);
	/* The last attempt of a job between two attempts says what follows. */
	if (over && (row->number < j->r.attempts || j->r.status != JOB_RECOVERING))
		return 0;
	if (rec_from_attempt_row(&j->r, row, &e) < 0)
		log_error("event=row_refused text=\"%s\"", e.text);
	return 0;
}

static int on_rank(const struct rank_row *row, void *arg)
{
	struct core *c = arg;
	struct cjob *j = job_find(c, row->job);

	if (j && j->r.att && j->r.att->number == row->attempt) {
		rec_from_rank_row(&j->r, row);
	} else if (j && j->r.old && j->r.old->number == row->attempt) {
		struct job_rec old = {.id = j->r.id, .att = j->r.old};

		rec_from_rank_row(&old, row);
	}
	return 0;
}

static int on_checkpoint(const struct checkpoint_row *row, void *arg)
{
	struct cjob *j = job_find(arg, row->job);

	if (j && ckpt_from_row(&j->r, row) < 0)
		log_error("event=row_refused job=%" PRIu64 " checkpoint=%u", row->job, row->number);
	return 0;
}

static int on_checkpoint_part(const struct checkpoint_part_row *row, void *arg)
{
	struct cjob *j = job_find(arg, row->job);

	if (j && ckpt_part_from_row(&j->r, row) < 0)
		log_error("event=row_refused job=%" PRIu64 " checkpoint=%u part=%u", row->job, row->number,
		          row->part);
	return 0;
}

/* Lines of failures are in no row: their events are applied again. */
static int on_failure(uint64_t job, uint32_t attempt, uint64_t at_us, const char *data, void *arg)
{
	struct core *c = arg;
	struct cjob *j = job_find(c, job);
	cJSON *d = cJSON_Parse(data);
	struct err e;

	if (j && d && event_apply(&j->r, EV_FAILURE_LINE, attempt, at_us, d, &e) < 0)
		log_warn("event=failure_line_refused job=%" PRIu64 " text=\"%s\"", job, e.text);
	cJSON_Delete(d);
	return 0;
}

static int on_watch(uint64_t job, const char *state, void *arg)
{
	watch_load(arg, job, state);
	return 0;
}

static int on_node(const struct node_row *row, void *arg)
{
	struct core *c = arg;
	struct cnode *n = (struct cnode *)cluster_load(&c->records, &(struct store_cluster_row){.node = row});

	if (!n)
		return 0;
	node_attach(c, n);
	note_recorded(c, n->r.seen_us);
	n->list_unknown = 1;
	if (n->r.inventory)
		inv_parse(&n->inv, n->r.inventory);
	return 0;
}

static int on_token(const struct token_row *row, void *arg)
{
	struct core *c = arg;

	cluster_load(&c->records, &(struct store_cluster_row){.token = row});
	return 0;
}

static int on_idem(const char *key, const char *digest, uint64_t job, void *arg)
{
	idem_add(arg, key, digest, job);
	return 0;
}

static int on_answer(const struct answer_row *row, void *arg)
{
	idem_load(arg, row);
	return 0;
}

static int on_queue(const struct queue_row *row, void *arg)
{
	return queue_load(arg, row);
}

static int on_reservation(const struct reservation_row *row, void *arg)
{
	return reserve_load(arg, row);
}

static int on_pool(const struct pool_row *row, void *arg)
{
	struct core *c = arg;

	cluster_load(&c->records, &(struct store_cluster_row){.pool = row});
	return 0;
}

static int on_pool_job(const struct pool_job_row *row, void *arg)
{
	struct core *c = arg;

	cluster_load(&c->records, &(struct store_cluster_row){.pool_job = row});
	return 0;
}

static int on_usage(const struct usage_row *row, void *arg)
{
	usage_load(arg, row);
	return 0;
}

static int on_took(const char *owner, const char *name, uint64_t took_us, void *arg)
{
	forecast_learn(arg, owner, name, (double)took_us / 1e6);
	return 0;
}

static int on_instance(const char *name, const char *own, void *arg)
{
	instance_load(arg, name, own);
	return 0;
}

static int on_budget(const struct budget_row *r, void *arg)
{
	budget_load(arg, r);
	return 0;
}

static int on_spent(const struct spent_row *r, void *arg)
{
	spent_load(arg, r);
	return 0;
}

/* ---- from records to a running controller ---------------------------------------------------- */

/* Leaves out the ends of ranks: those are times of other machines. */
static void attempt_recorded(struct core *c, const struct attempt_rec *a)
{
	for (int i = 0; i < N_PHASE; i++) {
		note_recorded(c, a->phases[i].started_us);
		note_recorded(c, a->phases[i].ended_us);
	}
}

/* Returns the time since real_us, by the wall clock: the boot clock may have started again, so it cannot
 * store a time limit. A wall clock that was set back adds no time to a limit. */
static uint64_t span_since(const struct core *c, uint64_t real_us)
{
	uint64_t now = now_real(c) > c->life.recorded_us ? now_real(c) : c->life.recorded_us;

	return now > real_us ? now - real_us : 0;
}

/* Output of a success that was lost with a node: the record of the node has it, as place_lost does not post
 * an event of its own for it. */
static void resume_lost_output(struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;

	for (uint32_t i = 0; i < a->n_places && a->outcome == OUT_SUCCEEDED && !j->act->upload_failed; i++)
		if (a->places[i].state == PLACE_LOST && !a->places[i].saved) {
			j->act->upload_failed = 1;
			j->act->upload_text = xstrdup(a->places[i].text ? a->places[i].text : "its node was lost");
		}
}

static void resume_clocks(struct core *c, struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;
	struct active *act = j->act;

	if (a->state == ATT_LAUNCHING)
		act->go_us = now_boot(c);
	act->placed_us = now_boot(c);
	act->before_us = j->r.held_us;
	act->held_us = span_since(c, a->started_us);
	if (a->state != ATT_ENDING)
		return;
	act->end_us = now_boot(c);
	if (a->outcome == OUT_NONE && end_wants_kill(&j->r))
		act->kill_us = now_boot(c);
	if (j->r.cleanup && strncmp(j->r.cleanup, "not uploaded: ", 14) == 0) {
		act->upload_failed = 1;
		act->upload_text = xstrdup(j->r.cleanup + 14);
	}
	resume_lost_output(j);
}

static void resume_active(struct core *c, struct cjob *j)
{
	struct attempt_rec *a = j->r.att;
	struct err e;

	if (a && a->state == ATT_ENDED && j->r.status == JOB_RECOVERING) {
		recover_loaded(c, j);
		collect_loaded(c, j);
		return;
	}
	if (!a || a->state == ATT_ENDED) {
		log_error("event=no_attempt job=%" PRIu64 " status=%s", j->r.id,
		          state_name(STATE_JOB, (int)j->r.status));
		return;
	}
	j->act = active_new(c, j, &e);
	if (!j->act) {
		log_error("event=spec_refused job=%" PRIu64 " text=\"%s\"", j->r.id, e.text);
		return;
	}
	/* References matter only when an order to prepare must be sent again. */
	if (refs_resolve(c, j->act->spec, &j->act->inputs, &e) < 0 ||
	    begins_again(c, j, j->act->spec, &j->act->begin, &e) < 0)
		log_warn("event=reference_gone job=%" PRIu64 " text=\"%s\"", j->r.id, e.text);
	j->act->rt = xcalloc(a->n_places, sizeof(*j->act->rt));
	pool_note_used(j);
	for (uint32_t i = 0; i < a->n_places; i++) {
		struct cnode *n = node_by_id(c, a->places[i].node_id);

		j->act->rt[i].progress_us = now_boot(c);
		if (n && a->places[i].state < PLACE_CLEANED)
			node_job_add(n, j);
	}
	alloc_holds(c, j, j->act->spec, span_since(c, a->started_us) / 1000000);
	port_mark(c, a->master_port, 1);
	resume_clocks(c, j);
	cost_begins(c, j, span_since(c, a->started_us));
	collect_loaded(c, j);
	job_touch(c, j);
}

static int on_member(const struct member_row *row, void *arg)
{
	array_load_ended(arg, row);
	return 0;
}

static int on_ended(const char *status, uint64_t jobs, void *arg)
{
	int s = state_find(STATE_JOB, status);

	if (s >= 0)
		((struct core *)arg)->jobs.counts[s] = jobs;
	return 0;
}

static int load_records(struct core *c, struct err *e)
{
	struct store_load l = {.job = on_job,
	                       .attempt = on_attempt,
	                       .rank = on_rank,
	                       .checkpoint = on_checkpoint,
	                       .checkpoint_part = on_checkpoint_part,
	                       .watch = on_watch,
	                       .event = on_failure,
	                       .event_type = "failure_line",
	                       .node = on_node,
	                       .token = on_token,
	                       .idem = on_idem,
	                       .answer = on_answer,
	                       .member = on_member,
	                       .ended = on_ended,
	                       .queue = on_queue,
	                       .usage = on_usage,
	                       .instance = on_instance,
	                       .took = on_took,
	                       .reservation = on_reservation,
	                       .budget = on_budget,
	                       .pool = on_pool,
	                       .pool_job = on_pool_job,
	                       .spent = on_spent,
	                       .arg = c};
	uint64_t job = 0, event = 0, node = 0, since[3];

	c->life.loaded = 0;
	learned_clear(c);
	budget_periods(now_real(c), since);
	l.day_us = since[0];
	l.week_us = since[1];
	l.month_us = since[2];
	l.pools_us = pools_shown_since(c);
	if (store_max_ids(c->store, &job, &event, &node, e) < 0 || store_load(c->store, &l, e) < 0)
		return -1;
	job = job + 1 > c->cfg.first_job ? job : c->cfg.first_job - 1;
	event = event + 1 > c->cfg.first_event ? event : c->cfg.first_event - 1;
	/* Numbers of a refused transaction are not used again. */
	c->jobs.last_id = job > c->jobs.last_id ? job : c->jobs.last_id;
	c->turn.last_event_id = event > c->turn.last_event_id ? event : c->turn.last_event_id;
	c->nodes.last_id = node > c->nodes.last_id ? node : c->nodes.last_id;
	for (struct cjob *j = c->jobs.all; j; j = j->hh.next) {
		note_recorded(c, j->r.queued_us);
		quota_stored(c, j, 0);
		if (j->r.att)
			attempt_recorded(c, j->r.att);
	}
	for (struct cnode *n = node_first(c); n; n = node_next(n))
		node_changed(c, n, 1);
	node_feed(c);
	queues_loaded(c);
	reserves_loaded(c);
	pool_users_loaded(c); /* jobs that wait need it */
	for (struct cjob *j = c->jobs.all; j; j = j->hh.next) {
		if (j->r.members) {
			array_loaded(c, j);
		} else if (j->to_queue) {
			job_touch(c, j);
		} else if (j->r.status >= JOB_STARTING && j->r.status <= JOB_STOPPING) {
			resume_active(c, j);
		} else if (j->r.status == JOB_QUEUED && j->spec) {
			struct job_spec *s = job_parse_spec(c, j, e);

			if (s)
				array_queue(c, j, s);
			spec_destroy(s);
			if (c->io.job_row) {
				free(j->spec);
				free(j->run);
				j->spec = j->run = NULL;
			}
		}
	}
	pools_loaded(c);
	parks_loaded(c);
	budgets_review(c, 1);
	c->life.started_us = now_boot(c);
	c->peers.gen++;
	peers_changed(c);
	c->alloc.dirty = 1;
	c->life.loaded = 1;
	return 0;
}

int core_load(struct core *c, struct store *s, struct err *e)
{
	c->store = s;
	if (load_records(c, e) < 0)
		return -1;
	log_info("event=loaded unfinished=%" PRIu64 " nodes=%u", c->jobs.unfinished,
	         HASH_COUNT(c->records.all[CLUSTER_NODE]));
	return 0;
}

/* ---- the store refused ----------------------------------------------------------------------- */

struct session {
	char *node;
	uint64_t session;
};

/* Saves the connections over a reload: beats are still answered, and no lease expires because of hearthd's
 * disk. */
static struct session *sessions_take(struct core *c, size_t *n)
{
	struct session *s = xcalloc(HASH_COUNT(c->records.all[CLUSTER_NODE]) + 1, sizeof(*s));

	*n = 0;
	for (struct cnode *x = node_first(c); x; x = node_next(x))
		if (x->connected)
			s[(*n)++] = (struct session){xstrdup(x->name), x->session};
	return s;
}

static void sessions_give(struct core *c, struct session *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct cnode *x = node_find(c, s[i].node);

		if (x) {
			x->connected = 1;
			x->session = s[i].session;
			x->beat_us = now_boot(c);
		} else {
			c->io.close_agent(s[i].node, s[i].session, "its join is not on record; connect again", c->io.arg);
		}
		free(s[i].node);
	}
	free(s);
}

static void reload_records(struct core *c)
{
	struct session *s;
	struct err e;
	size_t n;

	s = sessions_take(c, &n);
	state_clear(c);
	c->life.loaded = 0;
	if (!c->store)
		err_set(&e, ERR_INTERNAL, "no store to load from");
	if (!c->store || load_records(c, &e) < 0) {
		/* Without records every launch would look unknown. hearthd decides nothing until it has them. */
		state_clear(c);
		log_error("event=reload_failed text=\"%s\"", e.text);
	}
	sessions_give(c, s, n);
}

void core_fail(struct core *c, const struct err *e)
{
	static const struct err unknown = {.code = ERR_IO, .text = "the store failed"};

	c->life.fail_err = e ? *e : unknown;
	if (c->life.fail_err.code != ERR_NOSPACE)
		c->life.fail_err.code = ERR_IO;
	log_error("event=store_failed text=\"%s\"", c->life.fail_err.text);
	c->life.failing = 1;
	c->turn.probe_us = now_boot(c) + PROBE_US;
	c->turn.retry_us = 0;
	turns_drop(c, &c->life.fail_err);
	reload_records(c);
}

void core_recovered(struct core *c)
{
	if (!c->life.loaded)
		reload_records(c);
	if (!c->life.loaded)
		return;
	c->life.failing = 0;
	c->life.started_us = now_boot(c);
	c->alloc.dirty = 1;
	log_info("event=store_recovered");
	for (struct cnode *n = node_first(c); n; n = node_next(n)) {
		if (!n->connected)
			continue;
		/* Its reports in the meantime were dropped: it connects again and reports everything. */
		c->io.close_agent(n->name, n->session, "please report again", c->io.arg);
		n->connected = n->synced = n->syncing = 0;
	}
	for (struct cjob *j = c->jobs.all; j; j = j->hh.next)
		if (j->act || j->to_queue || j->r.status == JOB_RECOVERING)
			job_touch(c, j);
}
