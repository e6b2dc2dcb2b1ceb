/*
 * segments: reads the segment files of a log folder (shim/shim.h) as one stream of bytes, while they grow,
 * are replaced by newer ones, and vanish.
 *
 * A cursor is a place in the stream, and several cursors may read one folder. Memory holds only the
 * descriptors of the present segment, which also keep a removed file readable.
 */
#ifndef HEARTH_AGENT_LOGS_SEGMENTS_H
#define HEARTH_AGENT_LOGS_SEGMENTS_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include <stddef.h>
#include <stdint.h>

#define SEGMENT_NAME_SIZE 48
#define SEGMENT_REC_SIZE  16

struct segments {
	char *path;
	uint64_t *offsets; /* of the segments, ascending */
	size_t n, cap;
};
int segments_open(struct segments *d, const char *path,
                  struct err *e); /* the folder need not hold anything yet */
void segments_close(struct segments *d);
int segments_scan(struct segments *d, struct err *e);                                 /* looks again */
void segment_name(char name[SEGMENT_NAME_SIZE], uint64_t offset, const char *suffix); /* "log", "idx" */
/* End of the stream as it is on disk now; 0 when there is nothing. */
uint64_t segments_end(const struct segments *d);
/* Removes segments that lie wholly before offset, but never the last one. Returns how many. */
unsigned segments_remove_before(struct segments *d, uint64_t offset);

struct segment_cursor {
	struct segments *d;
	uint64_t pos;     /* stream offset of the next byte */
	uint64_t seg;     /* offset of the open segment */
	int fd, idx_fd;   /* -1 none open */
	uint64_t idx_pos; /* bytes of the index that were taken */
	uint64_t rec_us;  /* the record in effect at pos; 0 none */
	uint32_t rec_fd, rec_off;
};
void segment_cursor_init(struct segment_cursor *c, struct segments *d, uint64_t pos);
void segment_cursor_fini(struct segment_cursor *c);
void segment_cursor_seek(struct segment_cursor *c, uint64_t pos);
void segment_cursor_park(
    struct segment_cursor *c); /* closes its files until the next read: a quiet stream holds no descriptors */
/* Reads at most max bytes at pos, from one segment, and moves on. *gap: bytes that were skipped before them
 * because they are not there any more. recs (may be NULL) gets the index records of these bytes, re-based to
 * the first one. 0: nothing (yet); -1 error. */
ptrdiff_t segment_cursor_read(struct segment_cursor *c, void *out, size_t max, struct buf *recs,
                              uint64_t *gap, struct err *e);

#endif
