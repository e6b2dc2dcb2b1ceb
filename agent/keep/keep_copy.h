/*
 * keep_copy: the thread that copies one held checkpoint out of the node: into a folder that the job's owner
 * named, or into hearthd's store. hearth-files reads and writes, as the job's account, at idle priority on
 * CPUs that the job does not have.
 *
 * A copy counts when it was read back: a folder is read again, and hearthd, which checks the digest of each
 * chunk that it stores, is asked for all of them again. What a store has already is not sent again.
 */
#ifndef HEARTH_AGENT_KEEP_KEEP_COPY_H
#define HEARTH_AGENT_KEEP_KEEP_COPY_H

#include "agent/base/agent_env.h"
#include "agent/base/user.h"
#include "agent/keep/keep_index.h"
#include "agent/link/data_link.h"

struct keep_copy;
struct keep_copy_params {
	struct agent_env *env;
	struct data_link *link;
	const struct launch_user *user;
	const char *held; /* DATA/held/J.A/files */
	const char *cpus;
	uint64_t rate; /* bytes a second, 0 no limit */
	int idle;      /* only when nothing else runs */
	const struct keep_entry *entry;
	const char *uri; /* file:// folder; NULL: hearthd's store */
	uint64_t job, epoch;
	uint32_t attempt, node_rank;
};
struct keep_copied {
	uint64_t seq;
	int rc;                     /* 0: a verified copy */
	int changed;                /* the held one is no longer what it was */
	char digest[HASH_HEX_SIZE]; /* "" not known; known also where rc is -1 */
	const char *uri;
	const char *text; /* why not */
};
struct keep_copy *keep_copy_start(const struct keep_copy_params *p,
                                  void (*done)(const struct keep_copied *r, void *arg), void *arg,
                                  struct err *e);
void keep_copy_cancel(struct keep_copy *c);
/* The path of a copy below the folder of its uri, malloc'ed. */
char *keep_copy_place(const struct agent_env *env, uint64_t job, uint32_t attempt, uint64_t seq,
                      uint32_t node_rank);

#endif
