/*
 * launch_take: a job takes over a parked launch of its warm pool (PREPARE with pool and parked).
 *
 * The folders, processes, container, token and launch id stay those of the parking; job, attempt and epoch
 * become the job's. The one record of it is the replacement of RUN/POOL.PARKING/plan by the job's plan: an
 * agent that dies before finds the launch parked, and one that dies after finds it taken. The files of the
 * job then come into the folder as they do into that of a cold launch, and the launch is READY. At GO each
 * shim gets the whole command and environment of its rank.
 *
 * A take-over that fails is reported as FAILED for the job's attempt: hearthd starts it cold. An agent alone
 * cannot, because mpirun and its orteds belong together.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/launch/launch_park.h"
#include "agent/launch/launch_steps.h"
#include "agent/launch/shimlink.h"
#include "agent/link/outbox.h"
#include "agent/pool/pools.h"
#include "common/base/fault.h"
#include "common/base/log.h"

#define ANSWER_US  2000000u /* after staging, for shims */
#define GO_US      2000000u
#define ACCOUNT_US 5000000u /* after staging; a cold launch has more time to ask */

/* ---- does it fit ------------------------------------------------------------------------------------ */

static int same_numbers(const struct wire_u32v *a, const struct wire_u32v *b)
{
	return a->n == b->n && (!a->n || memcmp(a->v, b->v, a->n * sizeof(*a->v)) == 0);
}

static int same_words(const struct wire_strv *a, const struct wire_strv *b)
{
	for (uint32_t i = 0; i < a->n && a->n == b->n; i++)
		if (strcmp(a->v[i], b->v[i]) != 0)
			return 0;
	return a->n == b->n;
}

static uint32_t cpus_per_rank(const struct plan *p)
{
	const struct spec_group *g = spec_group_of(p->spec, p->m->node_rank);

	return g ? g->cpus_per_rank : 0;
}

/* hearthd has matched more than this; here is what would give a job what is not its own, or too much. */
static const char *first_difference(const struct plan *a, const struct plan *b)
{
	const struct wm_prepare *x = a->m, *y = b->m;

	return strcmp(x->account, y->account) != 0                           ? "account"
	       : a->spec->launcher != b->spec->launcher                      ? "launcher"
	       : x->node_rank != y->node_rank                                ? "node rank"
	       : !same_words(&a->g->nodes, &b->g->nodes)                     ? "nodes"
	       : !same_words(&a->g->addresses, &b->g->addresses)             ? "addresses"
	       : !same_numbers(&a->g->ranks_per_node, &b->g->ranks_per_node) ? "ranks"
	       : !same_words(&a->g->groups, &b->g->groups)                   ? "groups"
	       : !same_numbers(&x->gpus, &y->gpus)                           ? "GPUs"
	       : !same_numbers(&x->cpu_ids, &y->cpu_ids)                     ? "CPUs"
	       : cpus_per_rank(a) != cpus_per_rank(b)                        ? "CPUs of a rank"
	       : x->memory_bytes != y->memory_bytes                          ? "memory"
	       : x->disk_bytes != y->disk_bytes                              ? "disk"
	                                                                     : NULL;
}

static int check_take(const struct launch *l, const struct plan *plan, struct err *e)
{
	const char *field = first_difference(l->plan, plan);

	if (l->state != LAUNCH_PARKED || l->stopping || l->to_fence)
		return err_set(e, ERR_CONFLICT, "launch %s does not wait for a job", l->key);
	if (field)
		return err_set(e, ERR_CONFLICT, "launch %s was parked with another value of: %s", l->key, field);
	return launch_park_check(l, e);
}

static int by_number(const void *a, const void *b)
{
	gid_t x = *(const gid_t *)a, y = *(const gid_t *)b;

	return (x > y) - (x < y);
}

static int same_account(const struct launch_user *a, const struct launch_user *b)
{
	size_t size = a->n_groups * sizeof(*a->groups);
	cleanup_free gid_t *x = NULL, *y = NULL;

	if (a->uid != b->uid || a->gid != b->gid || a->n_groups != b->n_groups)
		return 0;
	if (!size)
		return 1;
	x = xmemdup(a->groups, size);
	y = xmemdup(b->groups, size);
	qsort(x, a->n_groups, sizeof(*x), by_number);
	qsort(y, b->n_groups, sizeof(*y), by_number);
	return memcmp(x, y, size) == 0;
}

/* ---- the take-over ---------------------------------------------------------------------------------- */

static void replace(char **to, const char *text)
{
	free(*to);
	*to = xstrdup(text);
}

static void become(struct launch *l, struct plan *plan)
{
	const struct launch_host *host = l->host;
	const struct wm_prepare *m = plan->m;

	/* What was not acknowledged is over. */
	outbox_drop(host->outbox, l->key);
	if (host->launch_renamed)
		host->launch_renamed(l->job, l->attempt, m->job, m->attempt, host->arg);
	plan_destroy(l->plan);
	l->plan = plan;
	l->job = m->job;
	l->attempt = m->attempt;
	l->epoch = m->epoch;
	free(l->key);
	l->key = xasprintf("%" PRIu64 ".%u", m->job, m->attempt);
	l->state = LAUNCH_PREPARING;
	l->going = 0;
	replace(&l->text, "");
	while (l->n_phases)
		free(l->phases[--l->n_phases].name);
}

static void on_account(struct launch_user *u, const struct err *why, void *arg);

/* The parked processes have the groups of their start: an account that has lost one since, or that is refused
 * now, must not use them. The answer comes while the files are staged. */
static void ask_account(struct launch *l)
{
	struct err e = {0};

	l->asking = user_ask(l->host->env, data_link_workers(l->host->link, POOL_ACCOUNTS), l->plan->m->account,
	                     on_account, l, &e);
	if (!l->asking)
		launch_fail(l, RC_AGENT, e.text);
}

int launch_take(struct launch *l, struct plan *plan, struct err *e)
{
	cleanup_free char *parked = xstrdup(l->key);

	if (check_take(l, plan, e) < 0)
		return -1;
	/* Its processes carry them. */
	replace(&plan->m->token, l->plan->m->token);
	replace(&plan->m->launch_id, l->plan->m->launch_id);
	launch_take_point();
	if (plan_save(plan, l->paths.run, e) < 0)
		return -1;
	launch_take_point();
	become(l, plan);
	log_info("event=launch_taken job=%" PRIu64 " attempt=%u parked=%s", l->job, l->attempt, parked);
	launch_take_files(l);
	if (!l->stopping)
		ask_account(l);
	for (struct lproc *p = l->procs; p; p = p->next)
		shimlink_probe(p->link); /* GO comes too late to find out that one hangs */
	launch_take_point();
	return 0;
}

void launch_take_point(void)
{
	if (FAULT("agent.take"))
		raise(SIGKILL);
}

int launch_is_taken(const struct launch *l)
{
	return l->plan->m->parked != 0;
}

/* Before READY: what fails later fails the job. */
static int make_starts(struct launch *l, struct err *e)
{
	int rc = 0;

	for (struct lproc *p = l->procs; p && rc == 0; p = p->next)
		if (p->kind == PROC_RANK)
			rc = launch_make_start(p, e);
	return rc;
}

static const struct lproc *silent_proc(const struct launch *l)
{
	for (const struct lproc *p = l->procs; p; p = p->next)
		if (p->link && !shimlink_has_answered(p->link))
			return p;
	return NULL;
}

static void answer_late(struct launch *l)
{
	const struct lproc *p = silent_proc(l);
	cleanup_free char *text = p ? xasprintf("the shim of %s does not answer any more", p->name) : NULL;

	launch_fail(l, RC_AGENT, text ? text : "no answer about the account in time");
}

void launch_take_answered(struct launch *l)
{
	if (l->state == LAUNCH_PREPARING && l->on_timer == answer_late && !l->asking && !silent_proc(l))
		launch_take_ready(l);
}

static void on_account(struct launch_user *u, const struct err *why, void *arg)
{
	struct launch *l = arg;
	int same = u && same_account(u, &l->user);

	l->asking = NULL;
	if (u)
		user_fini(u);
	if (!same)
		launch_fail(l, RC_AGENT,
		            u ? "the account has other groups than when the launch was parked" : why->text);
	else
		launch_take_answered(l);
}

/* Staging has filled the folder. */
void launch_take_ready(struct launch *l)
{
	struct err e = {0};

	if (l->asking || silent_proc(l)) {
		launch_arm(l, l->asking ? ACCOUNT_US : ANSWER_US, answer_late);
		return;
	}
	if (launch_park_check(l, &e) < 0 || make_starts(l, &e) < 0) {
		launch_fail(l, RC_AGENT, e.text);
		return;
	}
	launch_arm(l, 0, NULL);
	launch_say(l, "ready: %u rank(s) of %u on %s, as %s, parked before as %s", l->plan->local_ranks,
	           l->plan->world, plan_node_name(l->plan), l->user.name, l->folder);
	launch_take_point();
	launch_set_state(l, LAUNCH_READY);
	launch_take_point();
	for (struct lproc *p = l->procs; p; p = p->next) {
		lproc_follow(p);
		lproc_report(p);
	}
	pools_used_by(l->pool, l->job);
	launch_show_line(l);
	launch_info_software(l);
}

void launch_take_changed(struct lproc *p)
{
	struct launch *l = p->l;

	if (lproc_ended(p))
		launch_fail(l, RC_AGENT, p->text[0] ? p->text : "a parked process ended before the start");
}

static void no_go(struct launch *l)
{
	launch_fail(l, RC_AGENT, "a parked process ended before the start");
}

/* Another node may have got its GO before: then the job has ended there, and GO comes here, too. */
void launch_take_await(struct launch *l)
{
	if (l->on_timer != no_go)
		launch_arm(l, GO_US, no_go);
}

/* The shim got its go from hearth-rank before, or needs none. */
void launch_take_go(struct launch *l)
{
	launch_take_point();
	for (struct lproc *p = l->procs; p; p = p->next)
		if (p->kind == PROC_RANK && p->state == PS_PARKED) {
			launch_start_rank(p);
			launch_take_point();
		}
	if (l->host->ask_orteds)
		l->host->ask_orteds(l->job, l->attempt, l->host->arg);
}
