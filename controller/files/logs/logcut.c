/*
 * logcut: a stream that is longer than it may be loses the oldest part of its middle. Its first
 * LOGSTORE_FIRST bytes and the newest ones stay.
 *
 * The bytes are punched out of STREAM.log, so all offsets stay as they are. The head of the index has the end
 * of the hole; it is written first, so a reader never takes a hole for bytes. It is not synced: after a power
 * loss the hole itself is found. Half of what may stay is cut at once, so that this is rare.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "common/base/log.h"
#include "controller/files/logs/logstore_int.h"

#define BLOCK 4096u

uint64_t log_cut_bytes(const struct stream *s)
{
	return s->cut_to ? s->cut_to - LOGSTORE_FIRST : 0;
}

static void punch_hole(struct logstore *ls, const struct stream *s, uint64_t from)
{
	static int said;

	if (fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
	              (off_t)(s->cut_to - from)) == 0) {
		if (ls->c.on_kept)
			ls->c.on_kept(s->job, -(int64_t)(s->cut_to - from), ls->c.arg);
	} else if (!said) {
		said = 1;
		log_warn("event=log_cut_failed job=%" PRIu64 " stream=%s errno=%d text=\"the file system of the logs "
		         "cannot free a part of a file\"",
		         s->job, s->name, errno);
	}
}

void log_cut(struct logstore *ls, struct stream *s)
{
	uint64_t from = s->cut_to ? s->cut_to : LOGSTORE_FIRST, live = s->size - log_cut_bytes(s), limit, to;
	struct err e;

	if (!ls->c.limit || s->base || live <= LOGSTORE_LEAST)
		return;
	limit = ls->c.limit(s->job, ls->c.arg);
	if (!limit || live <= limit)
		return;
	if (limit < LOGSTORE_LEAST)
		limit = LOGSTORE_LEAST;
	to = s->size - limit / 2 + LOGSTORE_FIRST;
	to = (to < s->synced ? to : s->synced) / BLOCK * BLOCK;
	if (to <= from)
		return;
	s->cut_to = to;
	if (log_put_head(s, &e) < 0) {
		s->cut_to = from == LOGSTORE_FIRST ? 0 : from;
		log_warn("event=log_cut_failed job=%" PRIu64 " stream=%s text=\"%s\"", s->job, s->name, e.text);
		return;
	}
	punch_hole(ls, s, from);
	if (from == LOGSTORE_FIRST && ls->c.on_cut)
		ls->c.on_cut(s->job, s->attempt, s->name, ls->c.arg);
}

void log_cut_find(struct stream *s)
{
	off_t data;

	if (s->base || s->size <= LOGSTORE_FIRST)
		return;
	data = lseek(s->fd, LOGSTORE_FIRST, SEEK_DATA);
	if (data > (off_t)LOGSTORE_FIRST && (uint64_t)data > s->cut_to && (uint64_t)data <= s->size)
		s->cut_to = (uint64_t)data;
}
