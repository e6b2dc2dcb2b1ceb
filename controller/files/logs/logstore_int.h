/*
 * logstore_int: what logstore.c (appending), logread.c (reading), logindex.c (side index) and logzst.c
 * (compressed streams) share.
 */
#ifndef HEARTH_CONTROLLER_LOGSTORE_INT_H
#define HEARTH_CONTROLLER_LOGSTORE_INT_H

#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

#include "common/base/err.h"
#include "common/base/xalloc.h"
#include "controller/files/logs/logstore.h"

#define LOG_PATH_MAX 4096

enum log_part { LOG_RAW, LOG_INDEX, LOG_ZST, LOG_ZST_TMP, LOG_TAIL };
/* DIR/JOB/ATTEMPT/STREAM.suffix; -1 when the name is not one or the path too long. */
int log_path(char out[LOG_PATH_MAX], const char *dir, uint64_t job, uint32_t attempt, const char *stream,
             enum log_part part, struct err *e);
int log_attempt_path(char out[LOG_PATH_MAX], const char *dir, uint64_t job, uint32_t attempt, struct err *e);

/* ---- side index: records of 32 bytes, big-endian; three of fixed place, the others ascending by offset ----
 */

#define LOG_REC_SIZE 32
#define LOG_FIXED    3 /* LOG_HEAD, and two places for LOG_SYNC that are written in turn */

enum log_kind {
	LOG_HEAD = 1, /* offset: bytes lost at the source; at_us: of the first bytes; aux: format, 1 */
	LOG_DATA,     /* bytes from offset on came at at_us on descriptor aux */
	LOG_GAP,      /* at offset stands a line of aux bytes about lost ones; src: source offset behind it */
	LOG_SYNC,     /* everything below offset (src), and aux records of the index, were synced */
	LOG_BOOT,     /* written by another boot of the machine from here on; src: hash of the boot id */
	LOG_EOF,      /* the stream ends at offset; aux 1: nobody said so, the attempt was over */
};
struct log_rec {
	uint64_t offset, at_us, src;
	uint32_t kind, aux;
};
void log_rec_put(uint8_t out[LOG_REC_SIZE], const struct log_rec *r);
int log_rec_get(const uint8_t in[LOG_REC_SIZE], struct log_rec *r); /* -1: no such kind */

/* What an index says, read from its beginning. */
struct log_index {
	uint64_t ix_size; /* bytes of whole, proper records; 0 = it is none */
	uint64_t lost, first_us, last_us;
	uint32_t last_fd;
	uint64_t boot;              /* 0 = none */
	int64_t delta;              /* source offset - stream offset at the end */
	uint64_t last_offset;       /* of the last mark or gap, end of its line */
	uint64_t synced, synced_ix; /* of the valid LOG_SYNC: offset, and size of the index; 0 none */
	int64_t synced_delta;
	unsigned slot; /* 0, 1: which LOG_SYNC that is */
	int eof;       /* the last word is LOG_EOF */
};
/* limit: stream bytes that are there; a gap whose line is beyond is not counted, nor what follows it. */
int log_index_scan(int fd, uint64_t limit, struct log_index *ix, struct err *e);

/* ---- compressed streams ---- */

#define LOG_FRAME (1u << 20) /* bytes of the stream in one frame */

struct log_zst; /* compression in the making */
struct log_zst *log_zst_start(int in_fd, int out_fd);
/* One frame: 1 more waits, 0 all is written and synced, -1. */
int log_zst_step(struct log_zst *z, struct err *e);
void log_zst_free(struct log_zst *z); /* closes both descriptors; NULL allowed */

int log_zst_size(int fd, uint64_t *size, struct err *e);
/* Up to max bytes at offset; *n 0 at the end. */
int log_zst_read(int fd, uint64_t offset, void *out, size_t max, size_t *n, struct err *e);

/* ---- the one that appends (logstore.c, logfinish.c) ---- */

struct stream {
	char key[96]; /* "job/attempt/name" */
	uint64_t job;
	uint32_t attempt;
	const char *name; /* in key */
	int fd, ix_fd;
	uint64_t base; /* stream offset of the file's first byte: > 0 for a tail behind a compressed part */
	uint64_t size; /* stream bytes */
	int64_t delta; /* source offset = stream offset + delta */
	uint64_t ix_size;
	uint64_t synced, synced_ix;
	int64_t synced_delta;
	unsigned slot; /* 0, 1: which LOG_SYNC says so */
	uint64_t lost, first_us, last_us;
	uint32_t last_fd;
	int eof, at_line_start;
	int dirty;                  /* in the list of those to sync and acknowledge */
	struct stream *prev, *next; /* by use, newest last */
	struct stream *dirty_prev, *dirty_next;
	UT_hash_handle hh;
};

struct task { /* an attempt whose streams are to be compressed */
	uint64_t job;
	uint32_t attempt;
	struct strv names; /* left to do from `at` on */
	size_t at;
	struct task *prev, *next;
};

struct logstore {
	char *dir;
	struct logstore_config c;
	uint64_t boot;
	struct stream *streams; /* by key */
	struct stream *used;    /* by use */
	struct stream *dirty;
	struct loop_timer *sync_timer, *work_timer;
	struct log_names *names; /* that are not synced yet (logdirs.c) */
	int top_new;             /* among them some in the folder of all jobs */
	struct task *tasks;
	/* compression of the first task's present stream */
	struct log_zst *zst;
	char zst_name[LOGSTORE_STREAM_MAX + 1];
};

struct stream *log_stream_find(struct logstore *ls, uint64_t job, uint32_t attempt,
                               const char *name); /* open ones only */
struct stream *log_stream_get(struct logstore *ls, uint64_t job, uint32_t attempt, const char *name,
                              struct err *e);
void log_stream_close(struct logstore *ls, struct stream *s);
uint64_t log_src_end(const struct stream *s);
int log_open_part(struct logstore *ls, const struct stream *s, enum log_part part, int flags, struct err *e);
int log_put_rec(struct stream *s, uint32_t kind, uint64_t offset, uint64_t at_us, uint64_t src, uint32_t aux,
                struct err *e);
void log_mark_dirty(struct logstore *ls, struct stream *s);
void log_sync_one(struct logstore *ls, struct stream *s); /* s may be gone afterwards */
void log_grown(struct logstore *ls, const struct stream *s);

/* ---- folders, and names that are not on the disk yet (logdirs.c) ---- */

int log_sync_dir(const char *path, struct err *e);
/* The attempt's folder. made: it was not there. Not durable: log_names_new. */
int log_make_dirs(struct logstore *ls, uint64_t job, uint32_t attempt, int *made, struct err *e);
/* A file of the attempt is new; folders: or its folder may be. */
void log_names_new(struct logstore *ls, uint64_t job, uint32_t attempt, int folders);
/* To be called before anything of the attempt is called durable. */
int log_names_sync(struct logstore *ls, uint64_t job, uint32_t attempt, struct err *e);
void log_names_sync_all(struct logstore *ls);
void log_names_drop(struct logstore *ls, uint64_t job); /* they are gone; 0: all */

void log_finish_work(void *logstore);                  /* the work timer's callback */
int log_finish_load(const char *name, void *logstore); /* of an entry of .finish */
void log_finish_stop(struct logstore *ls);

#endif
