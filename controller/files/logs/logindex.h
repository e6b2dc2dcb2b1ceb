/*
 * logindex: paths of a stream's files, and its side index: records of 32 bytes, big-endian; three have a
 * fixed place, the others ascend by offset.
 */
#ifndef HEARTH_CONTROLLER_FILES_LOGS_LOGINDEX_H
#define HEARTH_CONTROLLER_FILES_LOGS_LOGINDEX_H

#include <stdint.h>

#include "common/base/err.h"

#define LOG_PATH_MAX 4096

enum log_part { LOG_RAW, LOG_INDEX, LOG_ZST, LOG_ZST_TMP, LOG_TAIL };
/* DIR/JOB/ATTEMPT/STREAM.suffix; -1 when the name is not one or the path too long. */
int log_path(char out[LOG_PATH_MAX], const char *dir, uint64_t job, uint32_t attempt, const char *stream,
             enum log_part part, struct err *e);
int log_attempt_path(char out[LOG_PATH_MAX], const char *dir, uint64_t job, uint32_t attempt, struct err *e);

/* ---- side index ------------------------------------------------------------------------------- */

#define LOG_REC_SIZE 32
#define LOG_FIXED    3 /* LOG_HEAD, and two places for LOG_SYNC that are written in turn */

enum log_kind {
	LOG_HEAD = 1, /* offset: bytes lost; at_us: of the first bytes; src: end of what was cut out, 0 none;
	                 aux: format, 1 */
	LOG_DATA,     /* bytes from offset on came at at_us on descriptor aux */
	LOG_GAP,      /* at offset is a line of aux bytes about lost ones; src: source offset behind it */
	LOG_SYNC,     /* everything below offset (src), and aux records of the index, were synced */
	LOG_BOOT,     /* written by another boot of the machine from here on; src: hash of the boot id */
	LOG_EOF,      /* the stream ends at offset; aux 1: ended by hearthd, since the attempt was over */
};
struct log_rec {
	uint64_t offset, at_us, src;
	uint32_t kind, aux;
};
void log_rec_put(uint8_t out[LOG_REC_SIZE], const struct log_rec *r);
int log_rec_get(const uint8_t in[LOG_REC_SIZE], struct log_rec *r); /* -1: no such kind */

/* The content of an index, read from its beginning. */
struct log_index {
	uint64_t ix_size; /* bytes of whole, valid records; 0: not an index */
	uint64_t lost, first_us, last_us;
	uint64_t cut_to; /* of the head */
	uint32_t last_fd;
	uint64_t boot;              /* 0 = none */
	int64_t delta;              /* source offset - stream offset at the end */
	uint64_t last_offset;       /* of the last mark or gap, end of its line */
	uint64_t synced, synced_ix; /* of the valid LOG_SYNC: offset, and size of the index; 0 none */
	int64_t synced_delta;
	unsigned slot; /* 0, 1: which LOG_SYNC that is */
	int eof;       /* the last record is LOG_EOF */
};
/* limit: stream bytes that exist; a gap whose line is beyond is not counted, nor anything after it. */
int log_index_scan(int fd, uint64_t limit, struct log_index *ix, struct err *e);

#endif
