/*
 * data_threads: the two threads that touch log and blob files for the others.
 *
 * The log thread owns every append, so the bytes of a stream are in order, followers hear of them at once,
 * and acknowledgements follow the disk. The blob thread does what may take long (hashing and syncing pieces
 * of 4 MiB), so that it never delays a log line.
 *
 * Each has a channel bounded by messages and by bytes; when it is full the sender pauses its connection or
 * answers 503. Towards an I/O thread whose channel is full they wait: an I/O thread never waits for them, so
 * that cannot lock.
 */
#ifndef HEARTH_CONTROLLER_DATA_THREADS_H
#define HEARTH_CONTROLLER_DATA_THREADS_H

#include "common/base/err.h"
#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

struct blobstore;
struct data_threads;
struct event_row;
struct io;
struct disk_space;
struct server;

struct data_threads *data_threads_create(struct server *s, struct err *e);
void data_threads_destroy(
    struct data_threads *b); /* writes what waits, then ends the threads; NULL allowed */

/* Runs fn(b, arg) on the blob thread; bytes = memory that arg holds. -1: full, nothing was posted. drop frees
 * arg when the thread ends first. */
typedef void (*data_fn)(struct data_threads *b, void *arg);
int data_post_blob(struct data_threads *b, data_fn fn, void *arg, size_t bytes, void (*drop)(void *arg));
/* From a bulk thread to an I/O thread; waits for room. */
void data_to_io(struct data_threads *b, unsigned io, void (*fn)(struct io *io, void *arg), void *arg,
                void (*drop)(void *arg));

/* A message of an agent's bulk connection: LOG_DATA, BLOB_GET, BLOB_HAVE, BLOB_PUT. Takes msg on 0. -1: full.
 */
int data_agent_msg(struct data_threads *b, uint64_t session, const char *node, uint16_t type, uint64_t id,
                   void *msg);
void data_remove_job(struct data_threads *b, uint64_t job); /* any thread */
/* State thread: an event that was committed. The streams of an attempt that has ended get their end a little
 * later. */
void data_notice(struct data_threads *b, const struct event_row *ev);
void data_stats(struct data_threads *b, cJSON *o); /* any thread */

/* An I/O thread wants to hear, by follow_grown, of the growth of a stream (on = 1), until it says otherwise.
 * It hears once at the beginning. -1: full. */
int data_watch(struct data_threads *b, unsigned io, uint64_t job, uint32_t attempt, const char *stream,
               int on);

struct disk_space *data_room(struct data_threads *b); /* NULL: not looked at */
struct blobstore *data_blobs(struct data_threads *b); /* any thread; the functions block on the disk */
const char *data_log_dir(const struct data_threads *b);

#endif
