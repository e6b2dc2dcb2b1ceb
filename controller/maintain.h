/*
 * maintain: what is done once an hour: what ended jobs hold past its time goes, then blobs that nothing
 * refers to any more.
 */
#ifndef HEARTH_CONTROLLER_MAINTAIN_H
#define HEARTH_CONTROLLER_MAINTAIN_H

#include "common/loop.h"
#include "controller/server.h"
#include "store/store.h"

struct maintain;
struct maintain_config {
	struct loop *loop;
	struct store *store;
	struct store_reader *reader; /* the state thread's */
	struct server *server;
	const char *data_dir, *db_path;
	struct store_retention keep;
	/* Start of the oldest attempt that may still upload, real time; 0 none. */
	uint64_t (*oldest)(void *arg);
	void *arg;
};
struct maintain *maintain_create(const struct maintain_config *c);
void maintain_destroy(struct maintain *m); /* waits for a collection that goes on */

#endif
