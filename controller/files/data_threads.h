/*
 * files: logs and blobs on the disk of hearthd. This folder owns every byte below DATA/logs and DATA/blobs,
 * and watches the free space. It knows no job but its number, and no connection.
 *
 * data_threads: the two threads that touch log and blob files for the others.
 *
 * The log thread owns every append: the bytes of a stream are in order, followers hear of them at once, and
 * acknowledgements follow the disk. The blob thread does slow work (hashing and syncing pieces of 4 MiB), so
 * that it never delays a log line.
 *
 * Each has a channel bounded by messages and by bytes. When it is full, the sender pauses its connection or
 * answers 503. Towards an I/O thread whose channel is full the data threads wait. An I/O thread never waits
 * for them, so that cannot deadlock.
 */
#ifndef HEARTH_CONTROLLER_FILES_DATA_THREADS_H
#define HEARTH_CONTROLLER_FILES_DATA_THREADS_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "controller/files/log_quota.h"
#include "controller/files/logs/logstore.h"

struct blobstore;
struct data_threads;
struct event_row;
struct wm_prefetch;
struct wm_prepare;

struct log_grown { /* the stream now has size bytes (0: unknown, look); complete: it has ended */
	uint64_t job, size;
	uint32_t attempt;
	int complete;
	char stream[LOGSTORE_STREAM_MAX + 1];
};

/* Messages of the data threads to others. Each may block until the receiver has room. */
struct data_ops {
	void (*send)(uint64_t session, uint16_t type, void *msg, uint64_t id, void *arg); /* takes msg */
	void (*hang_up)(uint64_t session, const char *why, void *arg);
	/* To a watcher (data_watch). Takes g. */
	void (*grown)(unsigned watcher, struct log_grown *g, void *arg);
	/* A log of that attempt is above its quota; text is for users. NULL: hearthd only logs it. */
	void (*over_quota)(uint64_t job, uint32_t attempt, const char *text, void *arg);
	void *arg;
	struct log_limits limits;
	unsigned blob_wait_ms; /* how long a question for a blob waits for its order; 0: 10 s */
};
struct data_threads *data_threads_create(const char *data_dir, const struct data_ops *ops, struct err *e);
void data_threads_destroy(
    struct data_threads *d); /* writes what waits, then ends the threads; NULL allowed */

/* Runs fn(d, arg) on the blob thread; bytes = memory that arg holds. -1: full, nothing was posted. drop frees
 * arg when the thread ends first. */
typedef void (*data_fn)(struct data_threads *d, void *arg);
int data_post_blob(struct data_threads *d, data_fn fn, void *arg, size_t bytes, void (*drop)(void *arg));

/* A message of an agent's bulk connection: LOG_DATA, BLOB_GET, BLOB_HAVE, BLOB_PUT. Takes msg on 0. -1: full.
 */
int data_agent_msg(struct data_threads *d, uint64_t session, const char *node, uint16_t type, uint64_t id,
                   void *msg);
/* An I/O thread is about to send that order: the node may read its trees until the attempt has ended. */
void data_order(struct data_threads *d, const char *node, const struct wm_prepare *m);
void data_order_ahead(struct data_threads *d, const char *node, const struct wm_prefetch *m); /* the same */
void data_remove_job(struct data_threads *d, uint64_t job);                                   /* any thread */
/* State thread: an event that was committed. The streams of an attempt that has ended get their end a little
 * later. */
void data_notice(struct data_threads *d, const struct event_row *ev);
void data_stats(struct data_threads *d, cJSON *o); /* any thread */

/* Starts (on = 1) or ends reports of a stream's growth to a watcher, a number below 32, by ops.grown. The
 * first report comes at once. -1: full. */
int data_watch(struct data_threads *d, unsigned watcher, uint64_t job, uint32_t attempt, const char *stream,
               int on);

struct blobstore *data_blobs(struct data_threads *d); /* any thread; the functions block on the disk */
const char *data_log_dir(const struct data_threads *d);

#endif
