/*
 * rsh: starts an orted on another node for mpirun. hearth-rsh asks its agent, the agent asks hearthd, and
 * hearthd orders the other node's agent to start the orted.
 *
 * Nothing of this is stored. The asking agent repeats its requests after each connection, and the other agent
 * repeats its report about the orted, so the table is complete again after a restart of the controller. The
 * order to launch is durable before mpirun runs, so no step here waits for the store. A wait would add a disk
 * write to every start.
 */
#include "controller/run/rsh.h"

#include <stdio.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

#define RSH_PER_NODE 4 /* requests stored; mpirun asks once for each node */

static struct rsh *find_rsh(const struct cjob *j, const char *id)
{
	for (struct rsh *r = j->act->rsh; r; r = r->next)
		if (strcmp(r->id, id) == 0)
			return r;
	return NULL;
}

static void tell_launcher(struct core *c, struct cjob *j, const char *id, uint8_t state, uint32_t exit_code,
                          uint32_t signo, const char *text)
{
	const struct cnode *main_node = node_by_id(c, j->r.att->places[0].node_id);
	struct wm_rsh_state m = {.job = j->r.id,
	                         .attempt = j->r.att->number,
	                         .epoch = j->r.att->epoch,
	                         .rsh_id = (char *)(uintptr_t)id,
	                         .state = state,
	                         .exit_code = exit_code,
	                         .signal = signo,
	                         .text = (char *)(uintptr_t)text};

	if (main_node)
		send_now(c, main_node, WM_RSH_STATE, &m);
}

static void order_orted(struct core *c, struct cjob *j, const struct rsh *r)
{
	const struct cnode *n = node_by_id(c, j->r.att->places[r->place].node_id);
	struct wm_orted_start m = {.job = j->r.id,
	                           .attempt = j->r.att->number,
	                           .epoch = j->r.att->epoch,
	                           .rsh_id = r->id,
	                           .argv = r->argv};

	if (n && n->synced)
		send_now(c, n, WM_ORTED_START, &m);
}

static struct rsh *add_rsh(struct cjob *j, const struct wm_rsh_request *m, uint32_t place)
{
	struct rsh *r;
	uint32_t n = 0;

	LL_COUNT(j->act->rsh, r, n);
	if (n >= j->r.att->n_places * RSH_PER_NODE)
		return NULL;
	r = xcalloc(1, sizeof(*r));
	r->id = xstrdup(m->rsh_id);
	r->place = place;
	for (uint32_t i = 0; i < m->argv.n; i++)
		wire_strv_add(&r->argv, m->argv.v[i]);
	LL_APPEND(j->act->rsh, r);
	return r;
}

void rsh_request(struct core *c, struct cnode *n, const struct wm_rsh_request *m)
{
	struct cjob *j = job_find(c, m->job);
	const struct attempt_rec *a = j ? j->r.att : NULL;
	uint64_t k = 0;
	struct rsh *r;

	if (!a || !j->act || a->number != m->attempt || a->epoch != m->epoch || a->places[0].node_id != n->r.id)
		return;
	if (strncmp(m->host, "algo-", 5) != 0 || str_parse_u64(m->host + 5, &k) < 0 || k < 1 || k > a->n_places) {
		tell_launcher(c, j, m->rsh_id, PS_FAILED, 0, 0, "no node of that name in this job");
		return;
	}
	if (a->state != ATT_LAUNCHING && a->state != ATT_RUNNING) {
		tell_launcher(c, j, m->rsh_id, PS_FAILED, 0, 0, "the attempt has come to its end");
		return;
	}
	if (place_over(a->places[k - 1].state)) {
		tell_launcher(c, j, m->rsh_id, PS_LOST, 0, 0, "that node is no more part of the launch");
		return;
	}
	r = find_rsh(j, m->rsh_id);
	if (!r)
		r = add_rsh(j, m, (uint32_t)k - 1);
	if (!r)
		tell_launcher(c, j, m->rsh_id, PS_FAILED, 0, 0, "too many requests");
	else if (r->state >= PS_RUNNING)
		tell_launcher(c, j, r->id, r->state, r->exit_code, r->signal, "");
	else
		order_orted(c, j, r);
}

void rsh_cancel(struct core *c, const struct wm_rsh_cancel *m)
{
	struct cjob *j = job_find(c, m->job);
	struct rsh *r;

	if (!j || !j->act || !j->r.att || j->r.att->epoch != m->epoch)
		return;
	r = find_rsh(j, m->rsh_id);
	if (!r)
		return;
	/* The orted ends by itself when mpirun is gone; only the order is not repeated. */
	LL_DELETE(j->act->rsh, r);
	for (uint32_t i = 0; i < r->argv.n; i++)
		free(r->argv.v[i]);
	free(r->argv.v);
	free(r->id);
	free(r);
}

void rsh_orted(struct core *c, struct cjob *j, uint32_t place, const struct wm_proc_report *m)
{
	for (struct rsh *r = j->act->rsh; r; r = r->next) {
		if (r->place != place || m->state <= PS_WAITING)
			continue;
		r->state = m->state;
		r->exit_code = m->exit_code;
		r->signal = m->signal;
		tell_launcher(c, j, r->id, r->state, r->exit_code, r->signal, m->text);
	}
}

/* Repeats messages that the place's node may have missed, after its complete report. */
void rsh_resend(struct core *c, struct cjob *j, uint32_t place)
{
	for (struct rsh *r = j->act->rsh; r; r = r->next) {
		if (r->place == place && r->state < PS_RUNNING)
			order_orted(c, j, r);
		if (place == 0 && r->state >= PS_RUNNING)
			tell_launcher(c, j, r->id, r->state, r->exit_code, r->signal, "");
	}
}

void rsh_lost(struct core *c, struct cjob *j, uint32_t place)
{
	if (!j->act)
		return;
	for (struct rsh *r = j->act->rsh; r; r = r->next) {
		if (r->place != place || r->state > PS_RUNNING)
			continue;
		r->state = PS_LOST;
		tell_launcher(c, j, r->id, PS_LOST, 0, 0, "its node was lost");
	}
}
