/*
 * keeper: the checkpoints of one launch on this node, on the agent's loop.
 *
 * It looks at the folder of checkpoints twice a second (one fstat of an open folder). At the first sign of a
 * change it starts one thread with a helper (watch.h) that finds and holds checkpoints; a launch without
 * checkpoints has neither. A second thread (carry.h) copies the newest one that has no copy.
 *
 *   DATA/held/J.A/index    what is held (keep_index.h); the agent's
 *   DATA/held/J.A/files/N  the held copy with the number N (`seq`); the account's
 *
 * DATA/held is open to the agent alone. What is held outlives the launch, for the next attempt on this node:
 * until hearthd no longer needs it, or HELD_AGE_S (held_sweep.h).
 */
#ifndef HEARTH_AGENT_KEEP_KEEPER_H
#define HEARTH_AGENT_KEEP_KEEPER_H

#include "agent/base/agent_env.h"
#include "agent/base/user.h"
#include "agent/keep/removals.h"
#include "agent/link/data_link.h"
#include "agent/link/outbox.h"
#include "common/net/wire_msg.h"

#define KEEPER_HELD 64 /* checkpoints at a time; the oldest of more, or of too many bytes, is dropped */

struct keeper;
struct keeper_params {
	struct agent_env *env;
	struct data_link *link;
	struct outbox *outbox;
	struct removals *removals;
	uint64_t job, epoch;
	uint32_t attempt, node_rank, n_nodes;
	const char *key; /* "17.2" */
	const char *ml;  /* the job's folder */
	const struct launch_user *user;
	const char *uri;      /* file:// folder for copies; NULL: hearthd's store */
	const uint32_t *cpus; /* of the job: copies run on others */
	uint32_t n_cpus;
	uint64_t from_us; /* wall clock of the start: what is older is not of this launch */
	int restored;     /* the folder began with a checkpoint */
	/* A sentence for the owner of the job. key: the same for the same thing. */
	void (*warn)(const char *key, const char *text, void *arg);
	void (*over)(void *arg); /* keeper_how_over has a new answer */
	void *arg;
};
struct keeper *keeper_create(const struct keeper_params *p);
void keeper_destroy(struct keeper *k); /* NULL allowed. What is held stays */
void keeper_set_epoch(struct keeper *k, uint64_t epoch);

/* A rank reported that step. */
void keeper_step(struct keeper *k, int64_t step, uint64_t at_us);
/* A rank ended; well: with exit code 0. */
void keeper_rank_ended(struct keeper *k, uint64_t at_us, int well);
/* No process of the launch is left. */
void keeper_over(struct keeper *k);
/* After keeper_over: how much is done. OVER_STOPPED: all whole checkpoints are held and reported. */
enum launch_over keeper_how_over(const struct keeper *k);
/* After keeper_over: done(arg) when the newest checkpoint has its copy, or cannot have one. */
void keeper_flush(struct keeper *k, void (*done)(void *arg), void *arg);
/* The launch is over for this node: what a copy that is not complete has left goes. */
void keeper_end(struct keeper *k);
void keeper_stop(struct keeper *k); /* nothing more is copied or reported */
/* hearthd needs that one no longer: it goes, and so does a copy (its path; NULL none). 0: it is not held. */
int keeper_forget(struct keeper *k, uint64_t seq, const char *copy);
/* hearthd does not count its copy in the store: it is copied again later, if a keeper has the launch. Else
 * its index says so. */
void keeper_copy_again(struct agent_env *env, const char *launch, uint64_t seq, const char *why);
void keeper_removed(struct keeper *k, uint64_t seq);                         /* its files are gone */
struct keeper *keeper_find(const struct agent_env *env, const char *launch); /* "17.2"; NULL none */
int keeper_ended_well(const struct keeper *k); /* all ranks that ended did so with 0 */
int keeper_all_copied(const struct keeper *k); /* nothing is on this node alone */

#endif
