/*
 * maintain: the hourly work: expired data of ended jobs is removed, then blobs that nothing refers to.
 *
 * Nothing is removed from the disk before its removal is durable. What a hearthd that died in between left
 * is found by the first pass of the next one.
 */
#ifndef HEARTH_CONTROLLER_MAINTAIN_H
#define HEARTH_CONTROLLER_MAINTAIN_H

#include "common/os/loop.h"
#include "store/read/retain.h"

struct maintain;
struct maintain_config {
	struct loop *loop;
	struct store *store;
	struct store_reader *reader; /* the state thread's */
	const char *data_dir, *db_path;
	struct store_retention keep;
	uint64_t first_us; /* from the start to the first pass; 0: a minute */
	/* Removes the log files of a job whose removal is durable in the record. May be called twice, from any
	 * thread. */
	void (*remove_logs)(uint64_t job, void *arg);
	/* Start of the oldest attempt that may still upload, real time; 0 none. */
	uint64_t (*oldest)(void *arg);
	void *arg;
};
struct maintain *maintain_create(const struct maintain_config *c);
void maintain_destroy(struct maintain *m); /* waits for a running collection */

#endif
