/*
 * launches: all launches of this node. Orders of hearthd find their launch here. One place decides by the
 * epoch: an order below the greatest epoch of its job is dropped.
 */
#ifndef HEARTH_AGENT_LAUNCH_LAUNCHES_H
#define HEARTH_AGENT_LAUNCH_LAUNCHES_H

#include "common/base/err.h"
#include <stdint.h>
#include <sys/types.h>

struct launch;
struct launch_host;
struct launches;

struct launch_id {
	uint64_t job;
	uint32_t attempt;
};

struct launches *launches_create(struct launch_host *host);
void launches_destroy(struct launches *t);             /* memory only: jobs go on */
int launches_adopt(struct launches *t, struct err *e); /* scans RUN */
/* Rules of an administrator for lines of failures; "": none. */
void launches_set_rules(struct launches *t, const char *text);
void launches_order(struct launches *t, uint16_t type, void *msg); /* takes msg */
void launches_report_all(struct launches *t);
uint32_t launches_count(const struct launches *t);
int launches_alive(const struct launches *t); /* 1: a fence would end something */
/* Lets the sweeper kill them all at once. After the turns that follow no upload goes on, and all are
 * STOPPING. */
void launches_fence(struct launches *t, const char *why);
/* Runs the ladder over all that run, as KILL does. */
void launches_stop(struct launches *t, uint32_t grace_ms, const char *why);
/* Calls fn for each launch whose plan can be read; fn frees none. */
void launches_each(struct launches *t, void (*fn)(struct launch *l, void *arg), void *arg);
void launches_acked(struct launches *t, uint16_t type,
                    const void *msg); /* hearthd has this report on record */
/* Takes one step of giving all up, after a fence: cleans and forgets launches that are over, without reports.
 * Returns how many are left.
 */
uint32_t launches_discard(struct launches *t);

/* Finds the launch with that token for rshd. -1: this account runs none. */
int launches_by_token(struct launches *t, const char *token, uid_t uid, uint64_t *job, uint32_t *attempt);
/* Returns 1 when a launch here runs as this account. */
int launches_has_user(struct launches *t, uid_t uid);
/* Returns the number of nodes of a launch here; 0 unknown. */
uint32_t launches_nodes(struct launches *t, uint64_t job, uint32_t attempt);
int launches_has_node(struct launches *t, uint64_t job, uint32_t attempt, const char *host);
int launches_epoch(struct launches *t, uint64_t job, uint32_t attempt, uint64_t *epoch); /* 1 known */

#endif
