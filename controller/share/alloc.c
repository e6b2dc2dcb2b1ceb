/*
 * alloc: feeds jobs to the scheduler library and returns its decisions. decide.c carries them out.
 */
#include "controller/share/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/ckpt.h"
#include "controller/record/event.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/share/await.h"
#include "controller/share/forecast.h"
#include "controller/share/instances.h"
#include "controller/share/node_feed.h"
#include "controller/share/node_health.h"
#include "controller/share/pool_want.h"
#include "controller/share/pools.h"
#include "controller/state/core_state.h"
#include "controller/state/history.h"
#include "controller/state/jobs.h"
#include "controller/state/observer.h"
#include "controller/state/turn.h"

/* Significant binary digits of a time limit that the library gets, rounded up by 3 % at most. Each distinct
 * limit makes a kind of job in the library, which costs memory and time. A million jobs with a million limits
 * become a few hundred kinds. */
#define LIMIT_BITS 6

struct wishes { /* a job for the library, and the memory that it borrows */
	struct sched_job in;
	struct sched_group *groups;
	struct sched_dep deps[SPEC_MAX_AFTER];
	struct strv types;
	char owner[136];
	char warm[HASH_HEX_SIZE]; /* key of the environment */
};

void alloc_open(struct core *c)
{
	static const enum sched_backfill ways[] = {[BACKFILL_EASY] = SCHED_RESERVE,
	                                           [BACKFILL_NONE] = SCHED_BLOCK,
	                                           [BACKFILL_CONSERVATIVE] = SCHED_CONSERVATIVE};
	struct sched_policy policy = sched_policy_live();

	policy.backfill = ways[c->cfg.backfill];
	policy.starve_s = c->cfg.starve_s;
	c->sched = sched_create();
	sched_policy_set(c->sched, &policy);
	sched_now(c->sched, sched_time(c));
	history_open(c);
}

/* Follows S-230. */
uint64_t alloc_limit_s(const struct core *c, const struct cjob *j, const struct job_spec *spec)
{
	uint64_t limit = max_runtime_s(c, j, spec), held = j->r.held_us / 1000000,
	         s = (limit > held ? limit - held : 0) + (spec->grace_s ? spec->grace_s : c->cfg.default_grace_s);

	return round_up_bits(s, LIMIT_BITS);
}

/* Returns the time in seconds that the job is believed to take; 0: its time limit. Follows S-231. */
static uint64_t believed_limit_s(const struct core *c, const struct job_spec *spec, const struct cjob *j,
                                 const char *owner)
{
	if (spec->max_runtime_s || (j && j->r.max_runtime_s))
		return 0;
	return believed_s(c, owner, j ? j->r.name : spec->name);
}

/* Returns the required span. Without a condition the span is only a preference. Follows S-127. */
static enum sched_span span_of(const struct job_spec *s)
{
	if (!s->span || !s->span_hard)
		return SCHED_SPAN_PREFER;
	return strcmp(s->span, "switch") == 0 ? SCHED_SPAN_SWITCH
	       : strcmp(s->span, "rack") == 0 ? SCHED_SPAN_RACK
	                                      : SCHED_SPAN_PREFER; /* node: one instance */
}

/* Returns since when the job waits, as if the wait before its last attempt had just gone on. */
static uint64_t queued_since(const struct cjob *j)
{
	return j->r.queued_us - (j->waited_us < j->r.queued_us ? j->waited_us : 0);
}

/* The key says what the job would find in a pool. Only jobs of users of pools have one. */
static void add_pool_wishes(struct core *c, struct wishes *w, const struct job_spec *spec, const char *owner,
                            const char *source)
{
	cJSON *environment;
	char *text;

	if (spec->keep_alive_s > 0)
		pool_user_add(c, owner);
	else if (!pool_user_is(c, owner))
		return;
	w->in.keeps = spec->keep_alive_s > 0;
	environment = pool_wants(c, spec, source);
	text = json_text(environment);
	w->in.warm = pool_key(text, w->warm);
	free(text);
	cJSON_Delete(environment);
}

/* Fills w. j NULL: a job of that owner with that source (NULL none) that is not submitted yet. */
static void wishes_init(struct core *c, struct wishes *w, const struct job_spec *spec, const struct cjob *j,
                        const char *owner, const char *source)
{
	static const struct cjob none;

	w->types = (struct strv){0};
	instance_types(c, spec, &w->types);
	w->groups = xcalloc(spec->n_groups, sizeof(*w->groups));
	for (size_t i = 0; i < spec->n_groups; i++)
		w->groups[i] = (struct sched_group){
		    .instances = spec->groups[i].instances,
		    .gpus = spec->groups[i].gpus_per_instance,
		    .ranks = spec->groups[i].ranks_per_instance,
		    .cpus_per_rank = spec->groups[i].cpus_per_rank,
		};
	/* A user is "@name" below a queue; no queue can have such a name. */
	snprintf(w->owner, sizeof(w->owner), "@%s", owner && *owner ? owner : "nobody");
	w->in = (struct sched_job){
	    .id = j ? j->r.id : c->jobs.last_id + 1,
	    .priority = j ? j->r.priority : spec->priority,
	    .order = j ? j->r.id : c->jobs.last_id + 1,
	    .groups = w->groups,
	    .n_groups = (uint32_t)spec->n_groups,
	    .memory_bytes = spec->memory_bytes,
	    .disk_bytes = spec->disk_bytes,
	    .exclusive = spec->exclusive,
	    .firm = !spec->preemptible,
	    .instance_types = (const char *const *)w->types.v,
	    .gpu_model = spec->gpu_model,
	    .gpu_memory_bytes = spec->gpu_memory_bytes,
	    .requires = (const char *const *)spec->requires.v,
	    .span = span_of(spec),
	    .queue = j && j->r.queue ? j->r.queue : spec->queue,
	    .owner = w->owner,
	    .name = j ? j->r.name : spec->name,
	    .first = j && j->goes_first,
	    .submit_s = j && j->r.queued_us ? queued_since(j) / 1000000 : sched_time(c),
	    .limit_s = alloc_limit_s(c, j ? j : &none, spec),
	    .believed_s = believed_limit_s(c, spec, j, owner),
	    .pool = j ? j->r.wants_pool : 0,
	    .after = w->deps,
	};
	if (owner)
		add_pool_wishes(c, w, spec, owner, j ? j->r.bundle : source);
}

static void wishes_fini(struct wishes *w)
{
	free(w->groups);
	strv_fini(&w->types);
}

int alloc_possible(struct core *c, const struct job_spec *spec, struct sched_reason *r)
{
	struct wishes w;
	int rc;

	wishes_init(c, &w, spec, NULL, NULL, NULL);
	rc = sched_possible(c->sched, &w.in, r);
	wishes_fini(&w);
	return rc;
}

int alloc_change(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner,
                 const char *const *queues, int ever, struct sched_change *out)
{
	struct wishes w;
	int rc;

	wishes_init(c, &w, s, j, owner, NULL);
	rc = sched_change(c->sched, &w.in, queues, ever, out);
	wishes_fini(&w);
	return rc;
}

size_t alloc_resume(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner,
                    int empty, uint64_t *nodes, size_t max)
{
	struct wishes w;
	size_t n;

	wishes_init(c, &w, s, j, owner, NULL);
	n = sched_resume(c->sched, &w.in, empty, nodes, max);
	wishes_fini(&w);
	return n;
}

/* Returns a decided job to the queue, because the pass served only to try another job. */
static void undo_decision(struct core *c, uint64_t job)
{
	struct cjob *j = job_find(c, job);
	struct job_spec *s;
	struct err e;

	sched_job_park(c->sched, job);
	s = j ? job_parse_spec(c, j, &e) : NULL;
	if (s)
		alloc_queue(c, j, s);
	spec_destroy(s);
}

/* Returns 1 when the job would start now; f then has the places. */
static int try_now(struct core *c, uint64_t id, struct sched_forecast *f)
{
	struct sched_decision *d;
	int now;

	if (c->alloc.dirty || c->life.failing) /* a pass is due, so other jobs may come first */
		return 0;
	for (uint32_t i = 0; i < c->alloc.n_exchangers; i++) /* what such a job gets cannot be undone */
		if (sched_job_exchanges(c->sched, c->alloc.exchangers[i]))
			return 0;
	d = sched_step(c->sched);
	if (!d)
		return 0;
	now = d->job == id;
	if (now) {
		*f = (struct sched_forecast){.start_s = sched_time(c), .whole = 1, .n = d->n};
		f->places = xcalloc(d->n, sizeof(*f->places));
		for (uint32_t i = 0; i < d->n; i++)
			f->places[i] = (struct sched_place){
			    .node = d->places[i].node, .group = d->places[i].group, .pool = d->places[i].pool};
	} else {
		undo_decision(c, d->job);
	}
	sched_decision_free(d);
	return now;
}

/* Follows S-323. */
void alloc_ask(struct core *c, const struct job_spec *spec, const struct alloc_new *of,
               struct sched_reason *r, struct sched_forecast *f)
{
	const struct spec_after *never;
	struct wishes w;
	struct err e;

	*f = (struct sched_forecast){.start_s = UINT64_MAX};
	wishes_init(c, &w, spec, NULL, of->owner, of->source);
	w.in.pool = of->pool;
	if (await_fill(c, spec, w.deps, &w.in.n_after, &never, &e) < 0 || never)
		w.in.n_after = 0;
	history_note(c, "try");
	sched_job_add(c->sched, &w.in);
	sched_explain(c->sched, w.in.id, r);
	if (r->why != SCHED_DEPENDS && try_now(c, w.in.id, f))
		r->why = SCHED_FITS;
	else if (r->why != SCHED_DEPENDS)
		forecast_job(c, w.in.id, of->owner, spec->name, f);
	sched_job_remove(c->sched, w.in.id);
	pools_settle(c);
	history_note(c, "tried");
	c->alloc.dirty = 1;
	wishes_fini(&w);
}

/* Adds the job to a list, once. */
static void remember_job(uint64_t **v, uint32_t *n, uint32_t *cap, uint64_t id)
{
	for (uint32_t i = 0; i < *n; i++)
		if ((*v)[i] == id)
			return;
	if (*n == *cap) {
		*cap = *cap ? *cap * 2 : 8;
		*v = xreallocarray(*v, *cap, sizeof(**v));
	}
	(*v)[(*n)++] = id;
}

/* Returns since when the job waits. The release of a held array starts the wait of its members again. */
static uint64_t waits_since(const struct core *c, const struct cjob *j)
{
	const struct cjob *whole = j->r.array ? job_find(c, j->r.array) : NULL;

	return whole && whole->r.queued_us > j->r.queued_us ? whole->r.queued_us : j->r.queued_us;
}

/* Sets the end of the longest wait by the boot clock, once each time that the job is queued, so that a change
 * of the wall clock has no effect. A new hearthd uses the wall clock to count the wait before its start. */
static void wait_begin(struct core *c, struct cjob *j, uint64_t max_wait_s)
{
	uint64_t now = now_real(c), limit = max_wait_s * 1000000, since = waits_since(c, j),
	         waited = now > since ? now - since : 0;

	j->max_wait_s = (uint32_t)max_wait_s;
	if (!max_wait_s)
		return;
	if (j->wait_of_us != since) {
		j->wait_of_us = since;
		j->wait_end_us = now_boot(c) + (waited < limit ? limit - waited : 0);
	}
	job_deadline(c, j, j->wait_end_us);
}

void wait_review(struct core *c, struct cjob *j)
{
	struct sched_reason r;
	char span[40];
	cJSON *d;
	TEXT(reason);

	if (j->r.status != JOB_QUEUED || !j->max_wait_s || (j->r.array && !j->admitted))
		return;
	if (now_boot(c) < j->wait_end_us) {
		job_deadline(c, j, j->wait_end_us);
		return;
	}
	sched_explain(c->sched, j->r.id, &r);
	text_add(&reason, "waited for %s, its limit (limits.max_wait_s)%s%s",
	         str_duration(j->max_wait_s, span, sizeof(span)), r.text[0] ? "; the last reason: " : "", r.text);
	alloc_unqueue(c, j);
	d = cJSON_CreateObject();
	json_add_str(d, "status", state_name(STATE_JOB, JOB_FAILED));
	json_add_str(d, "reason", reason.at);
	ckpt_add_line(&j->r, d);
	job_post(c, j, EV_ENDED, d);
}

void alloc_queue(struct core *c, struct cjob *j, const struct job_spec *spec)
{
	struct wishes w;
	struct sched_reason r;
	uint32_t n_deps;

	if (await_queue(c, j, spec, w.deps, &n_deps) < 0)
		return;
	wait_begin(c, j, spec->max_wait_s);
	pool_want_note(c, j);
	wishes_init(c, &w, spec, j, j->r.owner, NULL);
	w.in.n_after = n_deps;
	j->typed = spec->instance_types.n > 0;
	if (j->avoid) {
		w.in.avoid = (const char *const *)j->avoid->v;
		remember_job(&c->alloc.avoiders, &c->alloc.n_avoiders, &c->alloc.cap_avoiders, j->r.id);
		/* The job avoids a node that failed while another node fits. Without another it may use that node
		 * again, because the number of replacements is bounded. */
		if (!sched_placeable(c->sched, &w.in, &r))
			w.in.avoid = NULL;
	}
	if (sched_job_add(c->sched, &w.in) < 0)
		log_error("event=queued_while_holding job=%" PRIu64, j->r.id);
	wishes_fini(&w);
	c->alloc.dirty = 1;
}

/* Follows S-159. */
void alloc_goes_first(struct cjob *j, const struct attempt_rec *last)
{
	const struct phase_rec *p = &last->phases[PHASE_QUEUED];

	j->goes_first = 1;
	j->waited_us = p->ended_us > p->started_us ? p->ended_us - p->started_us : 0;
}

void alloc_unqueue(struct core *c, struct cjob *j)
{
	sched_job_park(c->sched, j->r.id);
	c->alloc.dirty = 1;
}

/* ---- between two attempts ------------------------------------------------------------------------ */

int alloc_lasts(struct core *c, uint64_t node)
{
	const struct cnode *n = node_by_id(c, node);

	return n && n->r.state == NODE_UP && !n->r.drain;
}

int alloc_exchanges(const struct core *c, const struct cjob *j)
{
	return sched_job_exchanges(c->sched, j->r.id);
}

/* Returns 1 when usable nodes, spares among them, could replace what the job lacks if they were empty. */
static int is_replaceable(const struct core *c, const struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;
	struct sched_reason r;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < a->n_places; i++) {
		const struct cnode *n = a->places[i].kept ? node_by_id(c, a->places[i].node_id) : NULL;

		kept += n && n->sched_usable;
	}
	sched_explain(c->sched, j->r.id, &r);
	return !r.need_instances || r.possible_instances >= r.need_instances + kept;
}

/* A node where the job keeps its place is not avoided: it would not count as one that could take it. */
static int is_avoided(const struct core *c, const struct cjob *j, const char *name)
{
	const struct cnode *n = node_find(c, name);
	const struct place_rec *p = n ? rec_place_of(j->r.att, n->r.id) : NULL;

	return n && !(p && p->kept);
}

/* Follows S-160. */
int alloc_exchange(struct core *c, struct cjob *j, const struct job_spec *spec, const uint64_t *drop,
                   uint32_t n_drop)
{
	struct strv avoid = {0};
	struct wishes w;
	int rc;

	for (size_t i = 0; j->avoid && i < j->avoid->n; i++)
		if (is_avoided(c, j, j->avoid->v[i]))
			strv_add(&avoid, j->avoid->v[i]);
	for (uint32_t i = 0; i < n_drop; i++)
		if (node_by_id(c, drop[i]))
			strv_add(&avoid, node_by_id(c, drop[i])->name);
	wishes_init(c, &w, spec, j, j->r.owner, NULL);
	w.in.avoid = (const char *const *)avoid.v;
	rc = sched_job_exchange(c->sched, &w.in, drop, n_drop);
	if (rc == 0 && avoid.n && !is_replaceable(c, j)) {
		w.in.avoid = NULL;
		rc = sched_job_exchange(c->sched, &w.in, NULL, 0);
	}
	if (rc < 0)
		log_error("event=no_exchange job=%" PRIu64, j->r.id);
	else
		remember_job(&c->alloc.exchangers, &c->alloc.n_exchangers, &c->alloc.cap_exchangers, j->r.id);
	wishes_fini(&w);
	strv_fini(&avoid);
	c->alloc.dirty = 1;
	return rc;
}

void alloc_after_event(struct core *c, struct cjob *j, enum event_type t, const struct job_before *before)
{
	(void)t;
	if (before->refused || !job_ended(j->r.status) || (!before->is_new && before->status == j->r.status))
		return;
	sched_job_finished(c->sched, j->r.id, j->r.status == JOB_COMPLETED);
	c->alloc.dirty = 1;
}

void alloc_holds(struct core *c, struct cjob *j, const struct job_spec *spec, uint64_t held_s)
{
	const struct attempt_rec *a = j->r.att;
	uint64_t now = sched_time(c);
	struct wishes w;
	struct sched_decision d = {.job = j->r.id, .places = xcalloc(a->n_places, sizeof(*d.places))};

	for (uint32_t i = 0; i < a->n_places; i++) {
		const struct place_rec *p = &a->places[i];

		if (!rec_holds(&j->r, p))
			continue;
		d.places[d.n++] = (struct sched_place){.node = p->node_id,
		                                       .group = p->group,
		                                       .n_gpus = p->gpus.n,
		                                       .gpus = p->gpus.v,
		                                       .n_cpus = p->cpus.n,
		                                       .cpus = p->cpus.v};
	}
	wishes_init(c, &w, spec, j, j->r.owner, NULL);
	sched_job_restore(c->sched, &w.in, &d, held_s < now ? now - held_s : 0);
	wishes_fini(&w);
	free(d.places);
}

void alloc_release(struct core *c, struct cjob *j, uint64_t node)
{
	sched_job_release_place(c->sched, j->r.id, node);
	c->alloc.dirty = 1;
}

/* Queues the jobs that avoid nodes again after nodes changed: the nodes to avoid may differ now. */
static void review_avoiders(struct core *c)
{
	uint32_t n = 0;

	c->alloc.recheck_avoiders = 0;
	for (uint32_t i = 0; i < c->alloc.n_avoiders; i++) {
		struct cjob *j = job_find(c, c->alloc.avoiders[i]);
		struct job_spec *s;
		struct err e;

		if (!j || !j->avoid || j->r.status != JOB_QUEUED)
			continue;
		c->alloc.avoiders[n++] = c->alloc.avoiders[i];
		if (j->r.array && !j->admitted)
			continue;
		s = job_parse_spec(c, j, &e);
		if (s)
			alloc_queue(c, j, s);
		spec_destroy(s);
	}
	c->alloc.n_avoiders = n;
}

/* Follows S-302. */
void alloc_before_event(struct core *c, const struct cjob *j, enum event_type t, cJSON *data)
{
	(void)j;
	switch (t) {
	case EV_SUBMITTED:
	case EV_RELEASED:
	case EV_REQUEUED:
	case EV_PLACED:
	case EV_NODE_CLEANED:
	case EV_NODE_LOST:
	case EV_ENDED:
	case EV_CONNECTED:
	case EV_DRAINED:
	case EV_RESUMED:
	case EV_SPARE:
	case EV_SPARE_OFF:
	case EV_QUEUE_SET:
		json_add_u64(data, "sched_s", sched_clock(c->sched));
		json_add_u64(data, "pass", c->alloc.n_passes);
		json_add_u64(data, "pass_s", c->alloc.pass_s);
		break;
	default:
		break;
	}
}

/* A reserved place becomes free by time alone. A time that alloc_tick has seen does not count again. */
uint64_t alloc_next_us(const struct core *c)
{
	uint64_t at = sched_next_kept(c->sched);

	if (at <= c->alloc.kept_seen_s)
		at = UINT64_MAX;
	if (c->alloc.again_s && c->alloc.again_s < at)
		at = c->alloc.again_s;
	return at == UINT64_MAX || at <= c->alloc.base_s ? UINT64_MAX : (at - c->alloc.base_s) * 1000000;
}

/* Ends a pass. All passes of one second keep the reservation of the first one. A job that came since may go
 * first, so another pass is due in the next second. */
static void end_pass(struct core *c)
{
	uint64_t now = sched_clock(c->sched);

	if (c->alloc.n_passes && c->alloc.pass_s == now && sched_reserved(c->sched, NULL))
		c->alloc.again_s = now + 1;
	c->alloc.dirty = 0;
	c->alloc.n_passes++;
	c->alloc.pass_s = now;
}

void alloc_tick(struct core *c)
{
	if (now_boot(c) < alloc_next_us(c))
		return;
	c->alloc.kept_seen_s = sched_time(c);
	c->alloc.again_s = 0;
	c->alloc.dirty = 1;
}

void alloc_prepare(struct core *c)
{
	c->alloc.more = 0;
	node_feed(c); /* it says whether avoided nodes and healths are to be looked at */
	if (c->alloc.recheck_avoiders && !c->life.failing)
		review_avoiders(c);
	if (c->alloc.dirty)
		node_health_review(c);
	node_feed(c); /* of nodes whose level fell */
	pools_settle(c);
	pool_want_review(c);
}

/* Kept places stay where the last attempt had them, so that node ranks change as little as can be. */
static void order_places(const struct cjob *j, struct sched_decision *d)
{
	const struct attempt_rec *was = j ? j->r.att : NULL;

	if (d->turn != SCHED_TURN_REPLACED || !was || was->n_places != d->n)
		return;
	/* Each kept place changes with whatever is at its old position, which is a new one or comes later. */
	for (uint32_t i = 0; i < d->n; i++) {
		uint32_t k = 0;

		while (k < d->n &&
		       (d->places[k].node != was->places[i].node_id || d->places[k].group != d->places[i].group))
			k++;
		if (k < d->n) {
			struct sched_place p = d->places[k];

			d->places[k] = d->places[i];
			d->places[i] = p;
		}
	}
}

struct sched_decision *alloc_step(struct core *c, int n)
{
	struct sched_decision *d;

	if (!c->alloc.dirty || c->life.failing)
		return NULL;
	if (n == DECISIONS_A_TURN || !await_settle(c)) { /* reports must not wait */
		c->alloc.more = 1;
		return NULL;
	}
	d = sched_step(c->sched);
	if (d)
		order_places(job_find(c, d->job), d);
	else
		end_pass(c);
	return d;
}
