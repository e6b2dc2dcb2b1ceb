/*
 * This room keeps what pools hold ready: launches that wait for a job (docs/spec/15-pools.md). It orders
 * them, learns how far they are, and ends those that no job takes.
 *
 * orteds: mpirun asks for an orted on another node by hearth-rsh. Its agent asks hearthd, and hearthd orders
 * the other node's agent to start the orted. The same for launches of jobs and of pools, and a job gets the
 * orteds of the launch that it takes over.
 */
#ifndef HEARTH_CONTROLLER_PARK_ORTEDS_H
#define HEARTH_CONTROLLER_PARK_ORTEDS_H

#include "controller/state/jobs.h"

struct orted_launch { /* whose orteds they are */
	uint64_t job;     /* or pool */
	uint32_t attempt; /* or number of its parking */
	uint64_t epoch;
	uint64_t main_node; /* where mpirun runs */
	uint32_t n_nodes;
	struct rsh **list;
};

/* A request for that place of the launch, which is on that node. */
void orteds_ask(struct core *c, const struct orted_launch *l, const struct wm_rsh_request *m, uint32_t place,
                uint64_t node_id);
/* Which place "algo-2" is: 0 and the place, or -1. */
int orteds_place(const struct orted_launch *l, const char *host, uint32_t *place);
/* Answers a request that starts nothing. */
void orteds_refuse(struct core *c, const struct orted_launch *l, const char *rsh_id, uint8_t state,
                   const char *text);
void orteds_cancel(const struct orted_launch *l, const char *rsh_id);
void orteds_report(struct core *c, const struct orted_launch *l, uint32_t place,
                   const struct wm_proc_report *m);
/* Repeats messages that the place's node may have missed, after its complete report. */
void orteds_resend(struct core *c, const struct orted_launch *l, uint32_t place);
void orteds_lost(struct core *c, const struct orted_launch *l, uint32_t place);

#endif
