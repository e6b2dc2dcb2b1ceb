/*
 * park: launches that wait in warm pools for a job.
 *
 * A parking is a launch for the agents: its job is the pool, its attempt the number of the parking. It begins
 * when all of a pool is idle, and becomes a job's launch, or is killed when the pool is no longer what it was
 * made for. Number and epoch are on record before the first order; nothing else of it is needed after a
 * restart, because agents report what they have.
 */
#ifndef HEARTH_CONTROLLER_PARK_PARK_H
#define HEARTH_CONTROLLER_PARK_PARK_H

#include "controller/record/pool.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/observer.h"

/* ---- life, in park.c ---------------------------------------------------------------------------------- */

void parks_review(struct core *c);            /* pools that changed in this turn, and what is due */
uint64_t parks_next_us(const struct core *c); /* boot: when something is due; UINT64_MAX never */
void parks_after_event(struct core *c, struct cjob *j, enum event_type t, const struct job_before *before);
void parks_loaded(struct core *c); /* pools are loaded: what was parked is expected to be reported */
void parks_clear(struct core *c);
/* The attempt takes over what is parked in the pool: it gets its orteds. */
void park_taken(struct core *c, struct cjob *j);
/* An attempt that was to take over a parked launch has failed before its go: nothing of that may stay. */
void park_spoiled(struct core *c, const struct cjob *j);
/* {"number", "state", "since", "level", "text"}, or null. launch: the pool's, parsed. */
cJSON *park_json(const struct core *c, const struct pool_rec *p, const cJSON *launch);

/* ---- the end, in park_ends.c -------------------------------------------------------------------------- */

/* 1: the launch is of a pool and must not be there any more, as after a restart of hearthd: it is ended, and
 * its node may work meanwhile. 0: unknown. */
int park_stray(struct core *c, const struct cnode *n, const struct wm_launch_report *m);

/* 1: processes that waited for a job may still use GPUs of this place, for at most a second. */
int park_in_way(const struct core *c, const struct place_rec *p);

/* ---- agents, in park_reports.c ------------------------------------------------------------------------ */

/* 1: it is a launch of a pool that may be there, or is being ended. 0: unknown. */
int park_report(struct core *c, const struct cnode *n, const struct wm_launch_report *m);
void park_proc(struct core *c, const struct cnode *n, const struct wm_proc_report *m);
void park_rsh(struct core *c, const struct cnode *n, const struct wm_rsh_request *m);
void park_rsh_cancel(struct core *c, const struct wm_rsh_cancel *m);
void park_sync_begin(struct core *c, const struct cnode *n);
void park_sync_end(struct core *c, const struct cnode *n);

/* ---- orders, in park_orders.c ------------------------------------------------------------------------- */

/* The specification for agents, without what is hearthd's part; malloc'ed. */
char *agent_spec(const struct job_spec *s);
/* The launch token of a place. Each node has its own: two agents on one machine must not treat each other's
 * processes as strays. */
void launch_token(const char *secret, uint32_t place, char out[33]);

#endif
