/*
 * launches: see launches.h. The greatest epoch of a job stays known after its launches are forgotten, for
 * EPOCHS_MAX jobs. Orders older than their connection cannot arrive, so that is far more than can be under
 * way.
 */
#include "agent/launch/launches.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "agent/base/priority.h"
#include "agent/base/trash.h"
#include "agent/keep/held_sweep.h"
#include "agent/keep/keeper.h"
#include "agent/launch/env_ahead.h"
#include "agent/launch/fence_mark.h"
#include "agent/launch/launch_park.h"
#include "agent/launch/launch_steps.h"
#include "agent/launch/unreadable_launch.h"
#include "agent/link/outbox.h"
#include "agent/pool/pools.h"
#include "agent/stage/prefetch.h"
#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"

#define LAUNCHES_MAX  4096
#define EPOCHS_MAX    16384
#define FENCE_TURN_US 5000u    /* of the loop */
#define URGENT_US     2000000u /* after the last launch of a fence */

struct epoch {
	uint64_t job, epoch;
	UT_hash_handle hh;
};

/* Checkpoints that hearthd no longer needs: each order has all of them, and a removal costs a process. */
#define DROPS      256u
#define DROP_TIMES 2 /* one may fail */
struct drop {
	uint64_t job, seq;
	uint32_t attempt;
	unsigned times;
	uint8_t uri[HASH_BYTES]; /* seq 0: copies of other nodes differ by it alone */
};

struct launches {
	struct launch_host *host;
	struct launch *list;
	uint32_t n;
	struct epoch *epochs;
	struct unreadable_launches *unreadable; /* of earlier agents, whose plans cannot be read */
	struct held_sweep *sweep;
	struct loop_timer *fence;
	char *fence_why;
	uint64_t fenced_us;                    /* the last launch of a fence */
	int marked;                            /* fence_mark.h, to be removed */
	const struct fence_mark *adopted_mark; /* while launches are adopted */
	struct drop drops[DROPS];              /* a ring */
	unsigned n_drops;
};

static struct launch *find_launch(const struct launches *t, uint64_t job, uint32_t attempt)
{
	struct launch *l;

	DL_FOREACH (t->list, l)
		if (l->job == job && l->attempt == attempt)
			return l;
	return NULL;
}

/* 0: obey; -1: from an older life of this job. */
static int check_epoch(struct launches *t, uint64_t job, uint64_t epoch)
{
	struct epoch *en;

	HASH_FIND(hh, t->epochs, &job, sizeof(job), en);
	if (en && epoch < en->epoch && !FAULT("mistake.old_epoch"))
		return -1;
	if (!en) {
		if (HASH_COUNT(t->epochs) >= EPOCHS_MAX) {
			struct epoch *oldest = t->epochs; /* uthash keeps the order of insertion */

			HASH_DEL(t->epochs, oldest);
			free(oldest);
		}
		en = xcalloc(1, sizeof(*en));
		en->job = job;
		HASH_ADD(hh, t->epochs, job, sizeof(en->job), en);
	}
	en->epoch = epoch;
	return 0;
}

/* Finds another launch of the job on this node that may still have processes. */
static struct launch *find_alive(const struct launches *t, const struct launch *than)
{
	struct launch *l;

	DL_FOREACH (t->list, l)
		if (l->job == than->job && l != than && !launch_is_over(l))
			return l;
	return NULL;
}

static void add_launch(struct launches *t, struct launch *l)
{
	DL_APPEND(t->list, l);
	t->n++;
	if (t->host->launches_changed)
		t->host->launches_changed(t->host->arg);
}

/* ---- answers about launches that are not here ------------------------------------------------------- */

static void report_absent(struct launches *t, uint64_t job, uint32_t attempt, uint64_t epoch,
                          enum launch_state state, enum reason_class cls, const char *text)
{
	char none[] = "";
	cleanup_free char *key = xasprintf("%" PRIu64 ".%u", job, attempt);
	struct wm_launch_report m = {.job = job,
	                             .attempt = attempt,
	                             .epoch = epoch,
	                             .state = (uint8_t)state,
	                             .phase = none,
	                             .cls = (uint8_t)cls,
	                             .text = (char *)(uintptr_t)text};

	outbox_put(t->host->outbox, WM_LAUNCH_REPORT, key, &m);
}

/* ---- orders ----------------------------------------------------------------------------------------------
 */

static void stop_launch(struct launch *l, uint32_t grace_ms, const char *why)
{
	if (l->cls == RC_NONE && !launch_is_over(l))
		l->cls = RC_STOPPED;
	launch_kill(l, grace_ms, why);
}

/* An older launch of the job can only be killed and collected. */
static void end_older(struct launches *t, const struct launch *l)
{
	struct launch *older;

	DL_FOREACH (t->list, older)
		if (older->job == l->job && older != l && !launch_is_over(older))
			stop_launch(older, 0, "a later attempt is being prepared");
}

static void go_launch(struct launches *t, struct launch *l)
{
	const struct launch *older = find_alive(t, l);
	cleanup_free char *text = NULL;

	if (!older) {
		launch_go(l);
		return;
	}
	text = xasprintf("attempt %u of the job has not ended on this node", older->attempt);
	launch_fail(l, RC_AGENT, text);
}

/* Takes plan. The attempt does not go on cold by itself: all its nodes do, or none. */
static void on_take(struct launches *t, struct plan *plan)
{
	const struct wm_prepare *m = plan->m;
	struct launch *l = find_launch(t, m->pool, m->parked);
	struct err e = {0};
	int rc = l ? launch_take(l, plan, &e)
	           : err_set(&e, ERR_NOT_FOUND, "launch %" PRIu64 ".%u is not parked on this node", m->pool,
	                     m->parked);

	if (rc == 0) {
		end_older(t, l);
		return;
	}
	log_warn("event=not_taken job=%" PRIu64 " attempt=%u reason=\"%s\"", m->job, m->attempt, e.text);
	report_absent(t, m->job, m->attempt, m->epoch, LAUNCH_FAILED, RC_AGENT, e.text);
	plan_destroy(plan);
}

static void on_prepare(struct launches *t, struct wm_prepare *m)
{
	uint64_t job = m->job, epoch = m->epoch;
	uint32_t attempt = m->attempt;
	struct launch *l = find_launch(t, job, attempt);
	struct err e = {0};
	struct plan *plan;

	if (l && l->epoch == epoch) {
		wire_free(WM_PREPARE, m);
		launch_report(l); /* twice is fine */
		return;
	}
	if (l) { /* of a time line that hearthd has lost: never taken for the new one */
		wire_free(WM_PREPARE, m);
		launch_kill(l, 0, "hearthd gave its number again, after a backup was restored");
		report_absent(t, job, attempt, epoch, LAUNCH_FAILED, RC_AGENT,
		              "an older launch with this number is still on this node");
		return;
	}
	if (t->n >= LAUNCHES_MAX) {
		wire_free(WM_PREPARE, m);
		report_absent(t, job, attempt, epoch, LAUNCH_FAILED, RC_AGENT, "this node has too many launches");
		return;
	}
	plan = plan_create(m, &e);
	if (!plan) {
		log_error("event=bad_plan job=%" PRIu64 " attempt=%u reason=\"%s\"", job, attempt, e.text);
		report_absent(t, job, attempt, epoch, LAUNCH_FAILED, RC_AGENT, e.text);
		return;
	}
	if (plan->m->parked) {
		on_take(t, plan);
		return;
	}
	prefetch_cancel(t->host->prefetch, job); /* staging fetches the rest */
	env_ahead_launched(t->host->env_ahead, job);
	l = launch_new(t->host, plan);
	add_launch(t, l);
	launch_prepare(l);
	end_older(t, l);
}

/* All other orders begin with job, attempt, epoch. */
struct head {
	uint64_t job;
	uint32_t attempt;
	uint64_t epoch;
};

#define HEAD(m) ((struct head){(m)->job, (m)->attempt, (m)->epoch})

static struct head head_of(uint16_t type, const void *msg)
{
	switch (type) {
	case WM_PREPARE:
		return HEAD((const struct wm_prepare *)msg);
	case WM_LAUNCH_GO:
		return HEAD((const struct wm_launch_go *)msg);
	case WM_ORTED_START:
		return HEAD((const struct wm_orted_start *)msg);
	case WM_KILL:
		return HEAD((const struct wm_kill *)msg);
	case WM_COLLECT:
		return HEAD((const struct wm_collect *)msg);
	case WM_NOTE:
		return HEAD((const struct wm_note *)msg);
	case WM_CHECKPOINT_KEEP:
		return HEAD((const struct wm_checkpoint_keep *)msg);
	case WM_CHECKPOINT_AGAIN:
		return HEAD((const struct wm_checkpoint_again *)msg);
	default:
		return (struct head){0};
	}
}

static void report_unknown(struct launches *t, uint16_t type, const struct head *h)
{
	switch (type) {
	case WM_KILL:
		report_absent(t, h->job, h->attempt, h->epoch, LAUNCH_ENDED, RC_UNKNOWN,
		              "nothing of this launch is on this node");
		break;
	case WM_COLLECT:
		report_absent(t, h->job, h->attempt, h->epoch, LAUNCH_CLEANED, RC_NONE, "");
		break;
	case WM_LAUNCH_GO:
	case WM_ORTED_START:
		report_absent(t, h->job, h->attempt, h->epoch, LAUNCH_FAILED, RC_UNKNOWN,
		              "nothing of this launch is on this node");
		break;
	default:
		break;
	}
}

static void on_kill(struct launch *l, const struct wm_kill *m)
{
	stop_launch(l, m->grace_ms, m->reason[0] ? m->reason : "stopped");
}

static void fence_launch(struct launches *t, struct launch *l)
{
	l->to_fence = 0;
	launch_fence(l, t->fence_why);
}

void launches_set_rules(struct launches *t, const char *text)
{
	tailer_set_rules(t->host->tailer, text);
}

/* Returns 1 when it was removed often enough. */
static int was_dropped(struct launches *t, struct drop *one)
{
	struct drop *d;

	for (unsigned i = 0; i < DROPS; i++) {
		d = &t->drops[i];
		if (d->times && d->job == one->job && d->attempt == one->attempt && d->seq == one->seq &&
		    memcmp(d->uri, one->uri, sizeof(d->uri)) == 0)
			return d->times++ >= DROP_TIMES;
	}
	one->times = 1;
	t->drops[t->n_drops++ % DROPS] = *one;
	return 0;
}

/* All attempts of a job have one account; only a launch has its groups. NULL: not known (yet). */
static const struct launch_user *find_user(const struct launches *t, uint64_t job)
{
	const struct launch *l;

	DL_FOREACH (t->list, l)
		if (l->job == job && l->user.name)
			return &l->user;
	return NULL;
}

/* Also for launches that are forgotten: what is held outlives them. A copy of another node waits for an
 * account: each later order has it, too. */
static void drop_held(struct launches *t, const struct wm_checkpoint_keep *m)
{
	const struct launch_user *user = find_user(t, m->job);

	for (uint32_t i = 0; i < m->seqs.n && i < m->attempts.n; i++) {
		cleanup_free char *key = xasprintf("%" PRIu64 ".%u", m->job, m->attempts.v[i]);
		const char *uri = i < m->uris.n ? m->uris.v[i] : "";
		const char *copy = strncmp(uri, "file:///", 8) == 0 ? uri + 7 : NULL;
		struct launch *l = find_launch(t, m->job, m->attempts.v[i]);
		struct drop one = {.job = m->job, .seq = m->seqs.v[i], .attempt = m->attempts.v[i]};

		hash_bytes(uri, strlen(uri), one.uri);
		if (!one.seq && !user)
			continue;
		if (was_dropped(t, &one))
			continue;
		if (!l || !l->keeper || !one.seq || !keeper_forget(l->keeper, one.seq, copy))
			removals_add(t->host->removals,
			             &(struct removal){.launch = key, .user = user, .seq = one.seq, .copy = copy});
	}
}

static void copy_again(const struct launches *t, const struct wm_checkpoint_again *m)
{
	cleanup_free char *key = xasprintf("%" PRIu64 ".%u", m->job, m->attempt);

	keeper_copy_again(t->host->env, key, m->seq, m->text);
}

void launches_order(struct launches *t, uint16_t type, void *msg)
{
	struct head h = head_of(type, msg);
	struct launch *l;

	if (type == WM_POOLS) {
		if (t->host->pools)
			pools_order(t->host->pools, msg);
		wire_free(type, msg);
		return;
	}
	if (type == WM_PREFETCH) {
		prefetch_order(t->host->prefetch, msg);
		env_ahead_order(t->host->env_ahead, msg);
		wire_free(type, msg);
		return;
	}
	if (h.job == 0) {
		log_warn("event=unknown_order type=%s", wire_name(type));
		wire_free(type, msg);
		return;
	}
	if (check_epoch(t, h.job, h.epoch) < 0) {
		log_warn("event=old_order type=%s job=%" PRIu64 " attempt=%u epoch=%" PRIu64, wire_name(type), h.job,
		         h.attempt, h.epoch);
		/* Not obeyed; but a controller whose store was put back waits for a word of what it knows of. */
		if ((type == WM_KILL || type == WM_COLLECT) && !find_launch(t, h.job, h.attempt) &&
		    !unreadable_launches_order(t->unreadable, type, h.job, h.attempt, h.epoch))
			report_unknown(t, type, &h);
		wire_free(type, msg);
		return;
	}
	if (type == WM_CHECKPOINT_KEEP || type == WM_CHECKPOINT_AGAIN) {
		if (type == WM_CHECKPOINT_KEEP)
			drop_held(t, msg);
		else
			copy_again(t, msg);
		wire_free(type, msg);
		return;
	}
	if (unreadable_launches_order(t->unreadable, type, h.job, h.attempt, h.epoch)) {
		wire_free(type, msg);
		return;
	}
	if (type == WM_PREPARE) {
		on_prepare(t, msg); /* takes */
		return;
	}
	l = find_launch(t, h.job, h.attempt);
	if (!l) {
		report_unknown(t, type, &h);
		wire_free(type, msg);
		return;
	}
	l->epoch = h.epoch;
	if (l->to_fence)
		fence_launch(t, l);
	if (type == WM_LAUNCH_GO)
		go_launch(t, l);
	else if (type == WM_ORTED_START)
		launch_orted(l, msg);
	else if (type == WM_KILL)
		on_kill(l, msg);
	else if (type == WM_COLLECT)
		launch_collect(l, ((struct wm_collect *)msg)->keep);
	else if (type == WM_NOTE)
		launch_say(l, "%s", ((struct wm_note *)msg)->text);
	wire_free(type, msg);
}

/* ---- reports ----------------------------------------------------------------------------------------------
 */

void launches_report_all(struct launches *t)
{
	struct launch *l;

	DL_FOREACH (t->list, l) {
		/* Processes first: an ENDED that comes before the ends of its ranks would leave their fate unknown.
		 */
		for (struct lproc *p = l->procs; p; p = p->next)
			lproc_report(p);
		launch_report(l);
	}
	unreadable_launches_report_all(t->unreadable);
}

static int is_known(const char *name, void *arg)
{
	unsigned long long job;
	unsigned attempt;

	return sscanf(name, "%llu.%u", &job, &attempt) == 2 && find_launch(arg, job, attempt);
}

/* Frees it. */
static void launches_forget(struct launches *t, struct launch *l)
{
	struct err e = {0};

	/* Until here the folder said CLEANED to whoever came next. */
	if (fs_rm_rf(l->paths.run, &e) < 0)
		log_warn("event=not_removed job=%" PRIu64 " attempt=%u reason=\"%s\"", l->job, l->attempt, e.text);
	log_info("event=forgotten job=%" PRIu64 " attempt=%u", l->job, l->attempt);
	DL_DELETE(t->list, l);
	t->n--;
	outbox_drop(t->host->outbox, l->key);
	t->host->launch_over(l->job, l->attempt, t->host->arg);
	launch_free(l);
	if (t->host->launches_changed)
		t->host->launches_changed(t->host->arg);
	held_sweep_ask(t->sweep);
}

void launches_acked(struct launches *t, uint16_t type, const void *msg)
{
	const struct wm_launch_report *r = msg;
	const struct wm_proc_report *p = msg;
	const struct wm_artifact_report *a = msg;
	struct launch *l;

	if (type == WM_PROC_REPORT || type == WM_ARTIFACT_REPORT) {
		l = type == WM_PROC_REPORT ? find_launch(t, p->job, p->attempt) : find_launch(t, a->job, a->attempt);
		if (l && type == WM_ARTIFACT_REPORT && l->checkpoints_saved && l->state == LAUNCH_ENDED)
			launch_report(l); /* how far its end is may be new */
		if (l)
			launch_collect_step(l);
		return;
	}
	if (type != WM_LAUNCH_REPORT)
		return;
	l = find_launch(t, r->job, r->attempt);
	if (l && l->state == LAUNCH_CLEANED && r->state == LAUNCH_CLEANED)
		launches_forget(t, l);
	if (!l && r->state == LAUNCH_CLEANED)
		unreadable_launches_cleaned(t->unreadable, r->job, r->attempt);
}

/* ---- the node was removed ----------------------------------------------------------------------------- */

uint32_t launches_discard(struct launches *t)
{
	struct launch *l, *next;

	DL_FOREACH_SAFE (t->list, l, next) {
		if (l->state == LAUNCH_CLEANED)
			launches_forget(t, l);
		else if (launch_is_over(l))
			launch_discard(l);
	}
	unreadable_launches_discard(t->unreadable);
	return launches_count(t);
}

/* ---- questions -------------------------------------------------------------------------------------- */

uint32_t launches_count(const struct launches *t)
{
	return t->n + unreadable_launches_count(t->unreadable);
}

int launches_alive(const struct launches *t)
{
	struct launch *l;

	DL_FOREACH (t->list, l)
		if (!launch_is_over(l) || launch_is_uploading(l))
			return 1;
	return unreadable_launches_alive(t->unreadable);
}

/* ---- the fence ------------------------------------------------------------------------------------------
 */

/* The rest of a fence: states, reports and shims, some launches a turn. */
static void on_fence(void *arg)
{
	struct launches *t = arg;
	uint64_t end = clock_boot_us(t->host->env->clock) + FENCE_TURN_US;
	struct launch *l;

	if (FAULT("agent.fence")) { /* as if it died here */
		loop_timer_arm(t->fence, FENCE_TURN_US);
		return;
	}
	DL_FOREACH (t->list, l) {
		if (!l->to_fence)
			continue;
		if (clock_boot_us(t->host->env->clock) >= end) {
			loop_timer_arm(t->fence, 0);
			return;
		}
		fence_launch(t, l);
		t->fenced_us = clock_boot_us(t->host->env->clock);
	}
	if (t->marked)
		fence_mark_remove(t->host); /* all states are written */
	t->marked = 0;
	/* The ends that follow come while thousands die. */
	if (clock_boot_us(t->host->env->clock) < t->fenced_us + URGENT_US)
		loop_timer_arm(t->fence, URGENT_US);
	else
		priority_urgent(0);
}

/* Without it the fence goes on: the kill counts more. */
static void mark_fence(struct launches *t, const char *why)
{
	struct fence_mark m = {.at_us = clock_boot_us(t->host->env->clock), .why = xstrdup(why)};
	struct launch *l;
	struct err e = {0};

	DL_FOREACH (t->list, l) {
		strv_add(&m.keys, l->folder);
		log_warn("event=fence job=%" PRIu64 " attempt=%u", l->job, l->attempt);
	}
	if (fence_mark_save(t->host, &m, &e) < 0)
		log_error("event=fence_not_saved reason=\"%s\"", e.text);
	fence_mark_fini(&m);
	t->marked = 1;
}

void launches_fence(struct launches *t, const char *why)
{
	struct launch *l;
	char *copy = xstrdup(why);

	mark_fence(t, why);
	/* No launch waits for the work that another one makes. */
	DL_FOREACH (t->list, l) {
		launch_halt(l);
		l->to_fence = 1;
		if (!launch_is_over(l))
			l->cls = RC_NODE_LOST; /* also where it ends before its turn */
	}
	unreadable_launches_kill(t->unreadable);
	priority_urgent(1);
	free(t->fence_why);
	t->fence_why = copy;
	loop_timer_arm(t->fence, 0);
}

void launches_stop(struct launches *t, uint32_t grace_ms, const char *why)
{
	struct launch *l;

	DL_FOREACH (t->list, l)
		if (!launch_is_over(l))
			stop_launch(l, grace_ms, why);
	unreadable_launches_kill(t->unreadable);
}

void launches_each(struct launches *t, void (*fn)(struct launch *l, void *arg), void *arg)
{
	struct launch *l;

	DL_FOREACH (t->list, l)
		fn(l, arg);
}

int launches_by_token(struct launches *t, const char *token, uid_t uid, uint64_t *job, uint32_t *attempt)
{
	size_t n = strlen(token);
	struct launch *l;

	DL_FOREACH (t->list, l) {
		const char *own = l->plan->m->token;

		if (strlen(own) != n || !const_time_equal(own, token, n))
			continue;
		if (uid != 0 && uid != l->user.uid)
			return -1;
		*job = l->job;
		*attempt = l->attempt;
		return 0;
	}
	return -1;
}

int launches_has_user(struct launches *t, uid_t uid)
{
	struct launch *l;

	DL_FOREACH (t->list, l)
		if (l->user.uid == uid)
			return 1;
	return 0;
}

uint32_t launches_nodes(struct launches *t, uint64_t job, uint32_t attempt)
{
	const struct launch *l = find_launch(t, job, attempt);

	return l ? l->plan->n_nodes : 0;
}

int launches_has_node(struct launches *t, uint64_t job, uint32_t attempt, const char *host)
{
	const struct launch *l = find_launch(t, job, attempt);

	return l && plan_node_index(l->plan, host) >= 0;
}

int launches_epoch(struct launches *t, uint64_t job, uint32_t attempt, uint64_t *epoch)
{
	const struct launch *l = find_launch(t, job, attempt);

	if (l)
		*epoch = l->epoch;
	return l != NULL;
}

/* ---- life ------------------------------------------------------------------------------------------- */

struct launches *launches_create(struct launch_host *host)
{
	struct launches *t = xcalloc(1, sizeof(*t));

	t->host = host;
	t->unreadable = unreadable_launches_create(host);
	t->fence = loop_timer_create(host->env->loop, on_fence, t);
	host->removals = removals_create(host->env, host->link);
	t->sweep = held_sweep_create(&(struct held_sweep_params){.env = host->env,
	                                                         .link = host->link,
	                                                         .trash = host->trash,
	                                                         .outbox = host->outbox,
	                                                         .removals = host->removals,
	                                                         .in_use = is_known,
	                                                         .arg = t});
	return t;
}

void launches_destroy(struct launches *t)
{
	struct epoch *en, *next;

	if (!t)
		return;
	while (t->list) {
		struct launch *l = t->list;

		DL_DELETE(t->list, l);
		launch_free(l);
	}
	unreadable_launches_destroy(t->unreadable);
	held_sweep_destroy(t->sweep);
	removals_destroy(t->host->removals);
	t->host->removals = NULL;
	loop_timer_destroy(t->fence);
	free(t->fence_why);
	HASH_ITER (hh, t->epochs, en, next) {
		HASH_DEL(t->epochs, en);
		free(en);
	}
	free(t);
}

static int adopt_one(const char *name, void *arg)
{
	struct launches *t = arg;
	unsigned long long job;
	unsigned attempt;
	const char *fenced = NULL;
	struct launch *l;
	struct err e = {0};
	int end = 0, unreadable = 0;

	if (sscanf(name, "%llu.%u%n", &job, &attempt, &end) != 2 || name[end] != '\0')
		return 0; /* lease, peers, fenced, agent.sock, lock */
	if (t->adopted_mark && fence_mark_has(t->adopted_mark, name))
		fenced = t->adopted_mark->why;
	l = launch_adopt(t->host, name, fenced, &unreadable, &e);
	if (!l && unreadable) {
		unreadable_launches_add(t->unreadable, name, job, attempt, &e);
		return 0;
	}
	if (!l) {
		log_warn("event=not_adopted launch=%s reason=\"%s\"", name, e.text);
		return 0;
	}
	check_epoch(t, l->job, l->epoch);
	add_launch(t, l);
	return 0;
}

/* A machine that starts again has lost RUN, and with it the launches: nobody collects their folders any more.
 * Those with outputs that could not be uploaded stay. */
static int remove_orphan(const char *name, void *arg)
{
	struct launches *t = arg;
	struct agent_env *env = t->host->env;
	cleanup_free char *run = xasprintf("%s/%s", env->cfg.run_dir, name);
	cleanup_free char *work = xasprintf("%s/jobs/%s", env->cfg.data_dir, name);
	cleanup_free char *mark = xasprintf("%s/" KEPT_OUTPUTS_FILE, work);
	unsigned long long job;
	unsigned attempt;
	struct err e = {0};

	if (sscanf(name, "%llu.%u", &job, &attempt) != 2 || access(run, F_OK) == 0 || access(mark, F_OK) == 0)
		return 0;
	log_info("event=orphan_removed job=%llu attempt=%u", job, attempt);
	if (trash_put(t->host->trash, work, name, &e) < 0)
		log_warn("event=not_removed job=%llu attempt=%u reason=\"%s\"", job, attempt, e.text);
	return 0;
}

static void remove_orphans(struct launches *t)
{
	cleanup_free char *jobs = xasprintf("%s/jobs", t->host->env->cfg.data_dir);

	fs_each(jobs, remove_orphan, t, NULL);
}

int launches_adopt(struct launches *t, struct err *e)
{
	struct fence_mark m;
	int rc;

	t->adopted_mark = fence_mark_load(t->host, &m) ? &m : NULL;
	rc = fs_each(t->host->env->cfg.run_dir, adopt_one, t, e);
	if (t->adopted_mark && rc == 0) {
		log_warn("event=fence_adopted launches=%zu", m.keys.n);
		unreadable_launches_kill(t->unreadable);
		if (!t->host->env->cfg.alone) /* it has left some to the next agent */
			fence_mark_remove(t->host);
	}
	t->adopted_mark = NULL;
	fence_mark_fini(&m);
	if (rc == 0 && !t->host->env->cfg.alone)
		remove_orphans(t);
	held_sweep_ask(t->sweep);
	return rc;
}
