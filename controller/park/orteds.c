/*
 * orteds: see orteds.h.
 *
 * Nothing of this is stored. The asking agent repeats its requests after each connection, and the other agent
 * repeats its report about the orted, so the table is complete again after a restart of the controller. The
 * order to launch is durable before mpirun runs, so no step here waits for the store. A wait would add a disk
 * write to every start.
 */
#include "controller/park/orteds.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

#define RSH_PER_NODE 4 /* requests stored; mpirun asks once for each node */

static struct rsh *find_rsh(const struct orted_launch *l, const char *id)
{
	for (struct rsh *r = *l->list; r; r = r->next)
		if (strcmp(r->id, id) == 0)
			return r;
	return NULL;
}

static void tell_launcher(struct core *c, const struct orted_launch *l, const struct rsh *r, const char *text)
{
	const struct cnode *main_node = node_by_id(c, l->main_node);
	struct wm_rsh_state m = {.job = l->job,
	                         .attempt = l->attempt,
	                         .epoch = l->epoch,
	                         .rsh_id = r->id,
	                         .state = r->state,
	                         .exit_code = r->exit_code,
	                         .signal = r->signal,
	                         .text = (char *)(uintptr_t)text};

	if (main_node)
		send_now(c, main_node, WM_RSH_STATE, &m);
}

void orteds_refuse(struct core *c, const struct orted_launch *l, const char *rsh_id, uint8_t state,
                   const char *text)
{
	tell_launcher(c, l, &(struct rsh){.id = (char *)(uintptr_t)rsh_id, .state = state}, text);
}

static void order_orted(struct core *c, const struct orted_launch *l, const struct rsh *r)
{
	const struct cnode *n = node_by_id(c, r->node_id);
	struct wm_orted_start m = {
	    .job = l->job, .attempt = l->attempt, .epoch = l->epoch, .rsh_id = r->id, .argv = r->argv};

	if (n && n->synced)
		send_now(c, n, WM_ORTED_START, &m);
}

static void argv_fini(struct rsh *r)
{
	for (uint32_t i = 0; i < r->argv.n; i++)
		free(r->argv.v[i]);
	free(r->argv.v);
	r->argv = (struct wire_strv){0};
}

static struct rsh *add_rsh(const struct orted_launch *l, const struct wm_rsh_request *m, uint32_t place,
                           uint64_t node_id)
{
	struct rsh *r;
	uint32_t n = 0;

	LL_COUNT(*l->list, r, n);
	if (n >= l->n_nodes * RSH_PER_NODE)
		return NULL;
	r = xcalloc(1, sizeof(*r));
	r->id = xstrdup(m->rsh_id);
	r->place = place;
	r->node_id = node_id;
	for (uint32_t i = 0; i < m->argv.n; i++)
		wire_strv_add(&r->argv, m->argv.v[i]);
	LL_APPEND(*l->list, r);
	return r;
}

int orteds_place(const struct orted_launch *l, const char *host, uint32_t *place)
{
	uint64_t k = 0;

	if (strncmp(host, "algo-", 5) != 0 || str_parse_u64(host + 5, &k) < 0 || k < 1 || k > l->n_nodes)
		return -1;
	*place = (uint32_t)k - 1;
	return 0;
}

void orteds_ask(struct core *c, const struct orted_launch *l, const struct wm_rsh_request *m, uint32_t place,
                uint64_t node_id)
{
	struct rsh *r = find_rsh(l, m->rsh_id);

	if (!r)
		r = add_rsh(l, m, place, node_id);
	if (!r)
		orteds_refuse(c, l, m->rsh_id, PS_FAILED, "too many requests");
	else if (r->state >= PS_RUNNING)
		tell_launcher(c, l, r, "");
	else
		order_orted(c, l, r);
}

void orteds_cancel(const struct orted_launch *l, const char *rsh_id)
{
	struct rsh *r = find_rsh(l, rsh_id);

	if (!r)
		return;
	/* The orted ends by itself when mpirun is gone; only the order is not repeated. */
	LL_DELETE(*l->list, r);
	argv_fini(r);
	free(r->id);
	free(r);
}

void orteds_report(struct core *c, const struct orted_launch *l, uint32_t place,
                   const struct wm_proc_report *m)
{
	for (struct rsh *r = *l->list; r; r = r->next) {
		if (r->place != place || m->state <= PS_WAITING)
			continue;
		r->state = m->state;
		r->exit_code = m->exit_code;
		r->signal = m->signal;
		argv_fini(r); /* the order is not repeated */
		tell_launcher(c, l, r, m->text);
	}
}

void orteds_resend(struct core *c, const struct orted_launch *l, uint32_t place)
{
	for (struct rsh *r = *l->list; r; r = r->next) {
		if (r->place == place && r->state < PS_RUNNING)
			order_orted(c, l, r);
		if (place == 0 && r->state >= PS_RUNNING)
			tell_launcher(c, l, r, "");
	}
}

void orteds_lost(struct core *c, const struct orted_launch *l, uint32_t place)
{
	for (struct rsh *r = *l->list; r; r = r->next) {
		if (r->place != place || r->state > PS_RUNNING)
			continue;
		r->state = PS_LOST;
		r->exit_code = r->signal = 0;
		tell_launcher(c, l, r, "its node was lost");
	}
}
