/*
 * logindex: paths of a stream's files and its side index.
 */
#include "controller/files/logs/logindex.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/files/logs/logstore.h"

#define READ_RECS 4096

int log_attempt_path(char out[LOG_PATH_MAX], const char *dir, uint64_t job, uint32_t attempt, struct err *e)
{
	int n = snprintf(out, LOG_PATH_MAX, "%s/%" PRIu64 "/%" PRIu32, dir, job, attempt);

	return n > 0 && n < LOG_PATH_MAX ? 0 : err_set(e, ERR_LIMIT, "path of the logs is too long");
}

int log_path(char out[LOG_PATH_MAX], const char *dir, uint64_t job, uint32_t attempt, const char *stream,
             enum log_part part, struct err *e)
{
	static const char *const suffix[] = {[LOG_RAW] = "log",
	                                     [LOG_INDEX] = "ix",
	                                     [LOG_ZST] = "zst",
	                                     [LOG_ZST_TMP] = "zst.tmp",
	                                     [LOG_TAIL] = "tail"};
	int n;

	if (str_check_name(stream, LOGSTORE_STREAM_MAX, "stream", e) < 0)
		return -1;
	n = snprintf(out, LOG_PATH_MAX, "%s/%" PRIu64 "/%" PRIu32 "/%s.%s", dir, job, attempt, stream,
	             suffix[part]);
	return n > 0 && n < LOG_PATH_MAX ? 0 : err_set(e, ERR_LIMIT, "path of the logs is too long");
}

static void put_u64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, 8);
}

static uint64_t get_u64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return be64toh(v);
}

void log_rec_put(uint8_t out[LOG_REC_SIZE], const struct log_rec *r)
{
	put_u64(out, r->offset);
	put_u64(out + 8, r->at_us);
	put_u64(out + 16, r->src);
	put_u64(out + 24, (uint64_t)r->kind << 32 | r->aux);
}

int log_rec_get(const uint8_t in[LOG_REC_SIZE], struct log_rec *r)
{
	uint64_t last = get_u64(in + 24);

	r->offset = get_u64(in);
	r->at_us = get_u64(in + 8);
	r->src = get_u64(in + 16);
	r->kind = (uint32_t)(last >> 32);
	r->aux = (uint32_t)last;
	return r->kind >= LOG_HEAD && r->kind <= LOG_EOF ? 0 : -1;
}

/* 0 when the record is invalid: the valid part ends before it. */
static int take_record(struct log_index *ix, const struct log_rec *r, uint64_t limit)
{
	uint64_t end = r->offset + (r->kind == LOG_GAP ? r->aux : 0);

	if (r->kind == LOG_HEAD || r->kind == LOG_SYNC)
		return 0;
	if (end > limit || end < r->offset || r->offset < ix->last_offset)
		return 0;
	switch ((enum log_kind)r->kind) {
	case LOG_HEAD:
	case LOG_SYNC:
		break;
	case LOG_DATA:
		ix->last_us = r->at_us;
		ix->last_fd = r->aux;
		break;
	case LOG_GAP:
		ix->lost += r->src - (uint64_t)((int64_t)r->offset + ix->delta);
		ix->delta = (int64_t)(r->src - end);
		ix->last_us = r->at_us;
		ix->last_fd = 0;
		break;
	case LOG_BOOT:
		ix->boot = r->src;
		break;
	case LOG_EOF:
		break;
	}
	if (r->kind == LOG_DATA || r->kind == LOG_GAP)
		ix->eof = 0;
	if (r->kind == LOG_EOF)
		ix->eof = 1;
	ix->last_offset = end;
	return 1;
}

/* The records of fixed place. 0 when it is no index (or a new one); -1 when that cannot be told: what is not
 * an index is begun anew, and its log with it. */
static int read_fixed(int fd, struct log_index *ix, struct log_rec sync[2], struct err *e)
{
	uint8_t raw[LOG_FIXED * LOG_REC_SIZE];
	ssize_t n = pread(fd, raw, sizeof(raw), 0);
	struct log_rec head;

	if (n < 0)
		return err_sys(e, errno, "read an index of logs");
	if (n != (ssize_t)sizeof(raw) || log_rec_get(raw, &head) < 0 || head.kind != LOG_HEAD)
		return 0;
	ix->first_us = head.at_us;
	ix->cut_to = head.src;
	ix->ix_size = sizeof(raw);
	for (int i = 0; i < 2; i++)
		if (log_rec_get(raw + (i + 1) * LOG_REC_SIZE, &sync[i]) < 0 || sync[i].kind != LOG_SYNC)
			sync[i].kind = 0;
	return 1;
}

/* The newer of the valid ones, whose bytes exist. */
static void choose_sync(struct log_index *ix, const struct log_rec sync[2], uint64_t limit)
{
	for (unsigned i = 0; i < 2; i++) {
		uint64_t ix_size = (uint64_t)sync[i].aux * LOG_REC_SIZE;

		if (!sync[i].kind || sync[i].offset > limit || ix_size > ix->ix_size ||
		    (ix->synced_ix && (sync[i].offset < ix->synced || ix_size < ix->synced_ix)))
			continue;
		ix->synced = sync[i].offset;
		ix->synced_ix = ix_size;
		ix->synced_delta = (int64_t)(sync[i].src - sync[i].offset);
		ix->slot = i;
	}
}

int log_index_scan(int fd, uint64_t limit, struct log_index *ix, struct err *e)
{
	uint8_t *recs;
	struct log_rec r, sync[2];
	ssize_t n = 0;
	int proper = read_fixed(fd, memset(ix, 0, sizeof(*ix)), sync, e), why = 0;

	if (proper <= 0)
		return proper;
	recs = xmalloc((size_t)READ_RECS * LOG_REC_SIZE);
	while (proper &&
	       (n = pread(fd, recs, (size_t)READ_RECS * LOG_REC_SIZE, (off_t)ix->ix_size)) >= LOG_REC_SIZE) {
		for (ssize_t i = 0; proper && i + LOG_REC_SIZE <= n; i += LOG_REC_SIZE) {
			proper = log_rec_get(recs + i, &r) == 0 && take_record(ix, &r, limit);
			if (proper)
				ix->ix_size += LOG_REC_SIZE;
		}
	}
	if (n < 0)
		why = errno;
	free(recs);
	choose_sync(ix, sync, limit);
	return why ? err_sys(e, why, "read an index of logs") : 0;
}
