/*
 * core: the entry points. core.h has the contract, and state/core_state.h the order of a turn.
 */
#include "controller/core.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/cluster/lease.h"
#include "controller/cluster/looks.h"
#include "controller/cluster/nodes.h"
#include "controller/cluster/prefetch.h"
#include "controller/cluster/rules.h"
#include "controller/cluster/sync.h"
#include "controller/load.h"
#include "controller/park/park.h"
#include "controller/record/cluster.h"
#include "controller/record/states.h"
#include "controller/requests/requests.h"
#include "controller/run/array.h"
#include "controller/run/attempt.h"
#include "controller/run/checkpoints.h"
#include "controller/run/collect.h"
#include "controller/run/failures.h"
#include "controller/run/report.h"
#include "controller/run/rsh.h"
#include "controller/share/alloc.h"
#include "controller/share/budget.h"
#include "controller/share/forecast.h"
#include "controller/share/instances.h"
#include "controller/share/node_feed.h"
#include "controller/share/pools.h"
#include "controller/share/queues.h"
#include "controller/share/reserve.h"
#include "controller/state/core_state.h"
#include "controller/state/history.h"
#include "controller/state/idem.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/observer.h"
#include "controller/state/quota.h"
#include "controller/state/request.h"
#include "controller/state/role.h"
#include "controller/state/turn.h"
#include "controller/watch/watch.h"

#define REVIEWS_A_TURN 100000 /* a job that changes without end must not stop all others */

static const char *own_copy(const char *s)
{
	return xstrdup(s ? s : "");
}

/* Functions that follow each change of a record, in this order. */
static const struct observer observers[] = {
    {.before_event = queue_before_event, .after_event = queue_after_event, .before_commit = usage_write},
    {.before_event = alloc_before_event, .after_event = alloc_after_event},
    {.after_event = array_after_event, .job_goes = array_free},
    {.after_event = pools_after_event},
    {.after_event = parks_after_event},
    {.before_reply = idem_keep},
    {.after_event = watch_after_event, .job_goes = watch_job_goes},
    {.commit_failed = core_fail, .store_recovered = core_recovered},
};

struct core *core_create(const struct core_config *cfg, const struct core_io *io)
{
	struct core *c = xcalloc(1, sizeof(*c));

	c->cfg = *cfg;
	c->cfg.cluster = own_copy(cfg->cluster);
	c->cfg.url = own_copy(cfg->url);
	c->cfg.owner_of_admin = own_copy(cfg->owner_of_admin);
	if (!c->cfg.beat_ms)
		c->cfg.beat_ms = 1000;
	if (!c->cfg.lease_ms)
		c->cfg.lease_ms = 10000;
	if (!c->cfg.max_runtime_default_s)
		c->cfg.max_runtime_default_s = 86400;
	if (!c->cfg.max_runtime_limit_s)
		c->cfg.max_runtime_limit_s = 30 * 86400;
	if (!c->cfg.prepare_timeout_s)
		c->cfg.prepare_timeout_s = 600;
	if (!c->cfg.prepare_limit_s)
		c->cfg.prepare_limit_s = 4 * 3600;
	if (!c->cfg.ready_timeout_s)
		c->cfg.ready_timeout_s = 30;
	if (!c->cfg.rendezvous_timeout_s)
		c->cfg.rendezvous_timeout_s = 300;
	if (!c->cfg.default_grace_s)
		c->cfg.default_grace_s = 30;
	if (!c->cfg.warm_keep_alive_max_s)
		c->cfg.warm_keep_alive_max_s = 6 * 3600;
	if (!c->cfg.warm_chain_max_s)
		c->cfg.warm_chain_max_s = 28 * 86400;
	if (!c->cfg.queue_limit)
		c->cfg.queue_limit = 2000000;
	if (!c->cfg.port_lo || c->cfg.port_hi < c->cfg.port_lo) {
		c->cfg.port_lo = 20000;
		c->cfg.port_hi = 29999;
	}
	c->io = *io;
	c->observers = observers;
	c->n_observers = sizeof(observers) / sizeof(*observers);
	c->alloc.base_s = now_real(c) > now_boot(c) ? (now_real(c) - now_boot(c)) / 1000000 : 0;
	alloc_open(c);
	nodes_open(c);
	reserves_open(c);
	pools_open(c);
	cluster_init(&c->records);
	instances_open(c);
	budgets_clear(c);
	c->life.started_us = now_boot(c);
	c->peers.gen = now_real(c); /* differs from those of an earlier controller */
	c->life.loaded = 1;
	return c;
}

static const struct err closing = {.code = ERR_UNAVAILABLE, .text = "hearthd is stopping"};

void core_stop(struct core *c)
{
	c->life.stopping = 1;
	turn_stop(c, &closing);
}

int core_stopped(const struct core *c)
{
	return c->life.stopping && !c->turn.flying && !c->turn.metrics_flying;
}

void core_destroy(struct core *c)
{
	if (!c)
		return;
	turns_drop(c, &closing);
	metrics_drop(c, &closing);
	state_clear(c);
	array_rm_clear(c);
	queues_clear(c);
	instances_clear(c);
	reserves_clear(c);
	budgets_clear(c);
	cluster_clear(&c->records);
	learned_clear(c);
	sched_destroy(c->sched);
	history_fini(c);
	free(c->peers.askable);
	free(c->jobs.heap);
	free(c->pools.lost);
	free(c->pools.touched);
	pool_users_free(c);
	free(c->pools.wanting);
	free(c->alloc.avoiders);
	free(c->alloc.exchangers);
	free(c->life.no_room);
	free(c->rules.text);
	free((char *)(uintptr_t)c->cfg.cluster);
	free((char *)(uintptr_t)c->cfg.url);
	free((char *)(uintptr_t)c->cfg.owner_of_admin);
	free(c);
}

void core_record_incarnation(struct core *c, const char *why, uint64_t logs_set_aside)
{
	struct store_txn *t = turn_now(c)->txn;
	cleanup_free char *number = xasprintf("%" PRIu64, c->cfg.incarnation),
	                  *first = xasprintf("%" PRIu64, c->cfg.first_job);
	cJSON *d;

	store_txn_setting(t, "incarnation", number);
	store_txn_setting(t, "first_job", first);
	store_txn_setting(t, "backup", NULL);
	turn_now(c)->n += 3;
	if (!why)
		return;
	d = cJSON_CreateObject();
	json_add_u64(d, "incarnation", c->cfg.incarnation);
	json_add_u64(d, "first_job", c->cfg.first_job);
	json_add_u64(d, "logs_set_aside", logs_set_aside);
	json_add_str(d, "text", why);
	cluster_post(c, EV_INCARNATION, d);
}

/* Sets the library's time; call it before other calls of the library. */
static void clock_sched(struct core *c)
{
	sched_now(c->sched, sched_time(c));
}

/* ---- agents ---------------------------------------------------------------------------------- */

void core_agent_up(struct core *c, const char *node, uint64_t session, const struct wm_hello *hello)
{
	clock_sched(c);
	if (c->life.stopping)
		c->io.close_agent(node, session, closing.text, c->io.arg);
	else if (c->life.loaded)
		agent_connected(c, node, session, hello);
	else
		c->io.close_agent(node, session, "hearthd cannot read its records at the moment", c->io.arg);
}

void core_agent_down(struct core *c, const char *node, uint64_t session, const char *why)
{
	clock_sched(c);
	if (!c->life.stopping)
		agent_gone(c, node, session, why);
}

static void dispatch_message(struct core *c, struct cnode *n, uint16_t type, uint64_t id, void *msg)
{
	struct cjob *collects = collect_of_report(c, type, msg);

	switch (type) {
	case WM_BEAT:
		on_beat(c, n, msg);
		break;
	case WM_INVENTORY:
		on_inventory(c, n, msg);
		break;
	case WM_SYNC_BEGIN:
		on_sync_begin(c, n);
		break;
	case WM_SYNC_END:
		on_sync_end(c, n);
		break;
	case WM_LAUNCH_REPORT:
		on_launch_report(c, n, id, msg);
		break;
	case WM_PROC_REPORT:
		on_proc_report(c, n, id, msg);
		break;
	case WM_ARTIFACT_REPORT:
		on_artifact(c, n, id, msg);
		break;
	case WM_CHECKPOINT_REPORT:
		on_checkpoint(c, n, id, msg);
		break;
	case WM_NODE_SEEN:
		on_node_seen(c, n, msg);
		break;
	case WM_PREFETCHED:
		on_prefetched(n, msg);
		break;
	case WM_FAILURE_LINE:
		on_failure_line(c, n, id, msg);
		break;
	case WM_RUN_INFO:
		on_run_info(c, n, id, msg);
		break;
	case WM_POOL_BAD:
		pool_bad(c, n, msg);
		break;
	case WM_RSH_REQUEST:
		rsh_request(c, n, msg);
		break;
	case WM_RSH_CANCEL:
		rsh_cancel(c, msg);
		break;
	default:
		log_warn("event=unexpected_message node=%s type=%s", n->name, wire_name(type));
	}
	if (collects)
		collect_back(collects);
}

static void take_points(struct core *c, const char *node, const struct wm_metrics *m)
{
	if (on_metrics(c, node, m))
		watch_points(c, node, m);
}

void core_agent_msg(struct core *c, const char *node, uint64_t session, uint16_t type, uint64_t id, void *msg)
{
	struct cnode *n = node_find(c, node);

	clock_sched(c);
	if (c->life.stopping)
		;                        /* no acknowledgement: the agent sends it again, to the next hearthd */
	else if (type == WM_METRICS) /* the data connection has no control session */
		take_points(c, node, msg);
	else if (n && n->connected && n->session == session && (type == WM_BEAT || !c->life.failing))
		dispatch_message(c, n, type, id, msg);
	wire_free(type, msg);
}

void core_over_quota(struct core *c, uint64_t job, uint32_t attempt, const char *text)
{
	struct cjob *j = job_find(c, job);

	clock_sched(c);
	if (!c->life.stopping && !c->life.failing && j && j->act && j->r.att && j->r.att->number == attempt)
		quota_say(c, j, QUOTA_LOG, text);
}

/* ---- requests -------------------------------------------------------------------------------- */

static const struct op {
	void (*fn)(struct core *c, struct request *rq);
	enum user_role role; /* the lowest role that may */
} ops[] = {
#define R(op, handler, role, effect, text) [op] = {handler, role},
    REQUEST_OPS(R)
#undef R
};

void core_request(struct core *c, struct request *rq)
{
	const struct op *op = (size_t)rq->op < sizeof(ops) / sizeof(*ops) ? &ops[rq->op] : NULL;

	clock_sched(c);
	node_feed(c);
	if (c->life.stopping)
		rq->reply(rq, err_http_status(closing.code), NULL, &closing);
	else if (!op || !op->fn)
		reply_fail(c, rq, ERR_UNSUPPORTED, "unknown operation");
	else if (rq->role < op->role)
		reply_fail(c, rq, rq->role == ROLE_NONE ? ERR_UNAUTHORIZED : ERR_DENIED, "%s: %s",
		           request_op_text(rq->op),
		           rq->role == ROLE_NONE    ? "log in first"
		           : op->role == ROLE_ADMIN ? "only an administrator may"
		                                    : "a job's token may not");
	else if (c->life.failing && (request_op_writes(rq->op) || !c->life.loaded))
		reply_fail(c, rq, c->life.fail_err.code, "nothing can be recorded at the moment: %s",
		           c->life.fail_err.text);
	else if (!request_op_repeats(rq->op) || !idem_seen(c, rq))
		op->fn(c, rq);
}

/* ---- time ------------------------------------------------------------------------------------ */

uint64_t core_next_us(const struct core *c)
{
	uint64_t at = turn_next_us(c);

	if (c->life.stopping)
		return UINT64_MAX;
	if (c->alloc.more)
		return 0;
	if (c->life.failing)
		return at;
	if (job_next_deadline(c) < at)
		at = job_next_deadline(c);
	if (c->budgets.at_us < at)
		at = c->budgets.at_us;
	if (silence_next_us(c) < at)
		at = silence_next_us(c);
	if (reserve_first(c) && c->reserves.at_us < at)
		at = c->reserves.at_us;
	if (pools_next_us(c) < at)
		at = pools_next_us(c);
	if (parks_next_us(c) < at)
		at = parks_next_us(c);
	if (watch_next_us(c) < at)
		at = watch_next_us(c);
	if (prefetch_next_us(c) < at)
		at = prefetch_next_us(c);
	if (alloc_next_us(c) < at)
		at = alloc_next_us(c);
	return at;
}

uint64_t core_oldest_attempt_us(const struct core *c)
{
	uint64_t at = 0;

	for (const struct cnode *n = node_first(c); n; n = node_next(n))
		for (uint32_t i = 0; i < n->n_jobs; i++)
			if (!at || n->jobs[i]->r.att->started_us < at)
				at = n->jobs[i]->r.att->started_us;
	return at;
}

void core_tick(struct core *c)
{
	struct cjob *j;

	clock_sched(c);
	if (c->life.stopping)
		return;
	turn_tick(c);
	if (c->life.failing)
		return;
	while ((j = job_due(c, now_boot(c))))
		job_touch(c, j);
	if (now_boot(c) >= silence_next_us(c))
		lease_check(c);
	if (reserve_first(c) && now_boot(c) >= c->reserves.at_us)
		reserve_review(c);
	if (now_boot(c) >= pools_next_us(c))
		pools_review(c);
	if (now_boot(c) >= watch_next_us(c))
		watch_tick(c);
	if (now_boot(c) >= prefetch_next_us(c))
		prefetch_tick(c);
	alloc_tick(c);
}

static void review_touched(struct core *c)
{
	struct cjob *j;

	for (unsigned i = 0; (j = c->jobs.touched); i++) {
		if (i == REVIEWS_A_TURN) {
			c->alloc.more = 1;
			return;
		}
		DL_DELETE2(c->jobs.touched, j, touch_prev, touch_next);
		j->touched = 0;
		if (!job_ended(j->r.status) && !c->life.failing)
			job_review(c, j);
		else if (job_ended(j->r.status) && !j->in_turn)
			job_free(c, j);
	}
}

void core_no_room(struct core *c, const char *why)
{
	free(c->life.no_room);
	c->life.no_room = why ? xasprintf("no new work is accepted: %s", why) : NULL;
}

void core_set_rules(struct core *c, const char *file, const char *text, unsigned rules, int first,
                    const char *why)
{
	clock_sched(c);
	rules_set(c, file, text, rules, first, why);
}

void core_turns(struct core *c, const struct loop_turns *turns)
{
	c->life.turns = *turns;
}

void core_end_turn(struct core *c)
{
	clock_sched(c);
	if (c->life.stopping)
		return;
	node_feed(c); /* reviews ask the scheduler */
	review_touched(c);
	arrays_step(c);
	budgets_review(c, 0);
	decide(c);
	parks_review(c);
	review_touched(c);
	if (arrays_busy(c)) /* the rest follows in the next turn: reports must not wait */
		c->alloc.more = 1;
	turn_commit(c);
}
