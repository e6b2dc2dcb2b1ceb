/*
 * logs: the bytes that ranks and Hearth wrote, on disk: an acknowledged log line is never lost. This folder
 * knows files only, no thread and no connection.
 *
 * logstore: one stream for each (job, attempt, stream), under DIR/JOB/ATTEMPT/STREAM.*
 *
 *   STREAM.log   the bytes as they came, while the stream grows
 *   STREAM.ix    side index: which bytes came when, on which descriptor; gaps; what was synced; the end
 *   STREAM.zst   instead of .log after the end: 1 MiB frames in zstd's seekable format (zstdcat reads it)
 *   STREAM.tail  what came after that; rare
 *
 * There are two offsets. The *source* offset counts what the agent sent, the *stream* offset what readers
 * see. They are the same until bytes are lost at the source. Then the stream has a line that says how many,
 * and from there on source = stream + a constant.
 *
 * struct logstore belongs to one thread (the log thread): it appends, syncs, compresses. The reading
 * functions take the directory and have no state. Any thread may call them at any time, also while the
 * stream grows, is compressed or is removed (then ERR_NOT_FOUND).
 *
 * on_durable comes after fdatasync. After a crash of the process nothing is lost. After a power loss the
 * unsynced end of a stream is cut off, and the agent sends it again.
 */
#ifndef HEARTH_CONTROLLER_FILES_LOGS_LOGSTORE_H
#define HEARTH_CONTROLLER_FILES_LOGS_LOGSTORE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/err.h"

struct logstore;
struct loop;

#define LOGSTORE_STREAM_MAX 64         /* bytes of a stream's name */
#define LOGSTORE_AT_END     UINT64_MAX /* offset: the end (hearthd's own lines) */
#define LOGSTORE_REC_SIZE   16         /* bytes of one record of `rec` below */
#define LOGSTORE_FIRST      (1u << 20) /* bytes of a stream's beginning that are never cut out */
#define LOGSTORE_LEAST      (8u << 20) /* a stream of so many bytes is never cut */

struct logstore_config {
	const char *dir; /* DATA/logs; made when missing */
	const struct clock *clock;
	struct loop *loop; /* of the thread that appends */
	uint32_t sync_ms;  /* from a write to its fdatasync at most; 0 = 50 */
	unsigned max_open; /* streams with open files; 0 = 512 */
	uint32_t retry_ms; /* from a failed compression to the next try; 0 = 60,000 */
	/* Everything up to source offset `offset` is on the disk now; eof: the stream's end, too. */
	void (*on_durable)(uint64_t job, uint32_t attempt, const char *stream, uint64_t offset, int eof,
	                   void *arg);
	/* The stream now has `size` bytes; complete: it has ended. For followers. May be NULL. */
	void (*on_grown)(uint64_t job, uint32_t attempt, const char *stream, uint64_t size, int complete,
	                 void *arg);
	/* Writing behind (sync) failed: what is not durable must be sent again. Close the connection that it came
	 * from. May be NULL. */
	void (*on_error)(uint64_t job, uint32_t attempt, const char *stream, const struct err *e, void *arg);
	/* How many bytes a stream of that job may have on the disk now; 0: any number. NULL: any. */
	uint64_t (*limit)(uint64_t job, void *arg);
	/* The streams of the job have so many bytes more, or less, on the disk. May be NULL. */
	void (*on_kept)(uint64_t job, int64_t bytes, void *arg);
	/* A stream is cut for the first time. May be NULL. */
	void (*on_cut)(uint64_t job, uint32_t attempt, const char *stream, void *arg);
	void *arg;
};
struct logstore *logstore_open(const struct logstore_config *c, struct err *e);
void logstore_close(struct logstore *ls); /* syncs (with on_durable), NULL allowed */

/* Bytes of a stream at a source offset. Known bytes are dropped; a chunk that begins after the end makes a
 * gap with a visible line. rec: records of the wire's LOG_DATA (u32 offset in data | u64 real_us | u32 fd,
 * big-endian), rec_n a multiple of 16 and ascending; NULL: stamped with the present time. On -1 nothing was
 * taken: nothing is acknowledged, the same bytes must come again (close the connection they came from: what
 * follows on it would look like a gap). */
struct log_chunk {
	uint64_t job;
	uint32_t attempt;
	const char *stream;
	uint64_t offset;
	const void *data;
	size_t n;
	const uint8_t *rec;
	size_t rec_n;
	int eof;
};
int logstore_append(struct logstore *ls, const struct log_chunk *c, struct err *e);
/* For a chunk that finds no room: cuts its stream when it is longer than it may be. Without it the appends
 * that follow would find no room either. */
void logstore_shorten(struct logstore *ls, const struct log_chunk *c);
/* No more will come for this attempt: streams without an end get one, all are compressed behind. May be
 * repeated. */
int logstore_finish(struct logstore *ls, uint64_t job, uint32_t attempt, struct err *e);
/* Removes all of a job; nothing there is fine. */
int logstore_remove(struct logstore *ls, uint64_t job, struct err *e);
/* Source offset up to which the stream is durable (0: the stream is missing): where an agent resumes. */
int logstore_durable(struct logstore *ls, uint64_t job, uint32_t attempt, const char *stream,
                     uint64_t *offset, struct err *e);
/* Sets aside, in TO/logs/JOB or TO/logs/JOB/ATTEMPT, what the record does not know; on a disk of its own, DIR
 * has it below .lost. No store may be open. known: 1 and the number of its attempts, 0 unknown, -1. */
struct log_aside {
	uint64_t jobs, attempts; /* moved as a whole; of known jobs */
};
typedef int (*log_known_fn)(uint64_t job, uint32_t *attempts, void *arg, struct err *e);
int logstore_set_aside(const char *dir, const char *to, log_known_fn known, void *arg, struct log_aside *out,
                       struct err *e);
/* Nothing is unsynced and nothing waits for compression: for tests. */
int logstore_idle(const struct logstore *ls);

/* ---- reading: any thread --------------------------------------------------------------------------------
 */

/* Up to max bytes at a stream offset; *n 0 at the end. *size: present length; *complete: it has ended. Any
 * may be NULL but n. */
int logstore_read(const char *dir, uint64_t job, uint32_t attempt, const char *stream, uint64_t offset,
                  void *out, size_t max, size_t *n, uint64_t *size, int *complete, struct err *e);

/* The bytes from LOGSTORE_FIRST to *to were cut out because the stream was too long; 0: none. logstore_read
 * gives none of them. */
int logstore_cut(const char *dir, uint64_t job, uint32_t attempt, const char *stream, uint64_t *to,
                 struct err *e);

struct log_stream {
	uint64_t job;
	uint32_t attempt;
	const char *name;           /* valid during the call */
	uint64_t size;              /* bytes that readers see */
	uint64_t lost;              /* bytes that were lost at the source, or cut out */
	uint64_t cut_to;            /* the end of what was cut out; 0 nothing */
	uint64_t first_us, last_us; /* time of the first and the last bytes, 0 unknown */
	int complete;
};
/* Streams of an attempt (0: of all) in order of attempt and name; fn -1 stops. None is not an error. */
int logstore_streams(const char *dir, uint64_t job, uint32_t attempt,
                     int (*fn)(const struct log_stream *s, void *arg), void *arg, struct err *e);
int logstore_stat(const char *dir, uint64_t job, uint32_t attempt, const char *stream, struct log_stream *out,
                  struct err *e);

struct log_mark { /* bytes from `offset` on came at `at_us` on descriptor fd (1, 2; 0 = Hearth's own line
	                 about lost bytes) */
	uint64_t offset, at_us;
	uint32_t fd;
};
/* Marks of the index that say something about bytes offset .. offset + len: from the one that covers offset
 * on. *v malloc'ed. */
int logstore_marks(const char *dir, uint64_t job, uint32_t attempt, const char *stream, uint64_t offset,
                   uint64_t len, struct log_mark **v, size_t *n, struct err *e);

#endif
