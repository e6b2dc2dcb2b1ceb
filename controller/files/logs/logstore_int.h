/*
 * logstore_int: the one thread that appends: what logstore.c, logfinish.c (ends) and logdirs.c (folders)
 * share.
 */
#ifndef HEARTH_CONTROLLER_FILES_LOGS_LOGSTORE_INT_H
#define HEARTH_CONTROLLER_FILES_LOGS_LOGSTORE_INT_H

#include <uthash.h>

#include "common/base/xalloc.h"
#include "controller/files/logs/logindex.h"
#include "controller/files/logs/logstore.h"
#include "controller/files/logs/logzst.h"

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
	unsigned slot;                    /* 0, 1: the LOG_SYNC that notes it */
	uint64_t lost, first_us, last_us; /* lost: at the source */
	uint64_t cut_to;                  /* bytes from LOGSTORE_FIRST to here are cut out; 0 none */
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

/* ---- open streams (logstore.c) ---------------------------------------------------------------- */

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

/* ---- streams that are too long (logcut.c) ----------------------------------------------------- */

uint64_t log_cut_bytes(const struct stream *s);
void log_cut(struct logstore *ls, struct stream *s); /* when it is longer than it may be */
/* After a power loss: a hole that the index does not know was cut. */
void log_cut_find(struct stream *s);
int log_put_head(const struct stream *s, struct err *e);

/* ---- folders, and names that are not on the disk yet (logdirs.c) ------------------------------ */

int log_sync_dir(const char *path, struct err *e);
/* The attempt's folder. made: it was not there. Not durable: log_names_new. */
int log_make_dirs(struct logstore *ls, uint64_t job, uint32_t attempt, int *made, struct err *e);
/* A file of the attempt is new; folders: or its folder may be. */
void log_names_new(struct logstore *ls, uint64_t job, uint32_t attempt, int folders);
/* To be called before anything of the attempt is called durable. */
int log_names_sync(struct logstore *ls, uint64_t job, uint32_t attempt, struct err *e);
void log_names_sync_all(struct logstore *ls);
void log_names_drop(struct logstore *ls, uint64_t job); /* they are gone; 0: all */

/* ---- ends (logfinish.c) ----------------------------------------------------------------------- */

void log_finish_work(void *logstore);                  /* the work timer's callback */
int log_finish_load(const char *name, void *logstore); /* of an entry of .finish */
void log_finish_stop(struct logstore *ls);

#endif
