/*
 * writer: an open store: the queue between the state thread and the writer thread.
 *
 * The state thread owns struct store, except the queue, which its mutex guards.
 */
#ifndef HEARTH_STORE_WRITE_WRITER_H
#define HEARTH_STORE_WRITE_WRITER_H

#include <pthread.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#include "common/os/chan.h"
#include "store/write/marks.h"
#include "store/write/stats.h"
#include "store/write/wdb.h"

struct store {
	char *path;
	const struct clock *clock;
	struct chan *chan; /* writer -> state thread: struct group */
	sqlite3 *read;     /* the state thread's, for loading */
	size_t limit;
	uint64_t fails_seen; /* state thread */

	pthread_t writer;
	int wake_fd;          /* eventfd: the queue has something again, or stop */
	pthread_mutex_t lock; /* guards what follows */
	struct store_txn *head, *tail;
	size_t pending, pending_bytes; /* accepted and not delivered */
	int stop;
	struct store_stats stats;

	struct wdb w;       /* the writer's */
	struct marks marks; /* the writer's */
};

struct group { /* completions on their way back, in order */
	struct store *store;
	struct store_txn *head;
};
void *writer_main(void *store); /* the thread; ends after stop */

#endif
