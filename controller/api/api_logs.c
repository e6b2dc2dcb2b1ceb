/*
 * api_logs: logs as bytes or as events, at rest and as they grow.
 *
 * A follower reads the log store's files itself, on its I/O thread; the log thread only reports growth
 * (data_watch). The follower holds no bytes but those in its connection's output, and reads on when these
 * have drained. A follower that had caught up and then fell LAG_MAX behind skips, with a line that says how
 * much; the disk still has everything. Before a stream exists, its follower waits without an answer, so that
 * 404 remains possible.
 *
 * A reader of bytes learns by X-Hearth-Offset alone where they are from. At a hole in the stream its answer
 * breaks off, so that it asks again.
 *
 * The end comes when the stream is complete, or when the attempt is over and nothing has come for
 * END_QUIET_US (its node never sent the end).
 */
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/api/api_jobs.h"
#include "controller/api/log_events.h"
#include "controller/api/log_names.h"
#include "controller/api/thread.h"
#include "controller/files/data_threads.h"
#include "controller/http/route.h"
#include "controller/http/sse.h"
#include "store/read/find.h"
#include "store/read/retain.h"

#define PIECE        (128u * 1024)
#define QUEUE_MAX    (256u * 1024)
#define LAG_MAX      (16ull * 1024 * 1024)
#define LAG_KEEP     (256u * 1024)
#define FOLLOWER_MAX 4096u
#define TICK_US      1000000u
#define BEAT_US      15000000ull
#define END_QUIET_US                                                                                         \
	8000000ull /* longer than the log thread waits before it ends the streams of a dead attempt */

struct reader {
	struct reader *prev, *next;
	struct follow *fo;
	struct call *call; /* held */
	uint64_t job;
	uint32_t attempt;
	char stream[LOGSTORE_STREAM_MAX + 1];
	uint64_t offset;  /* next byte to send */
	int64_t from_end; /* > 0: begin so many bytes before the end */
	uint64_t left;    /* bytes still wanted */
	uint64_t grown_us, beat_us;
	int follow, sse, skip;
	int started; /* the answer has begun */
	int live;    /* was at the end once */
	int watched; /* the log thread reports its growth */
	int over;    /* its attempt is over */
};

struct follow {
	struct io *io;
	struct reader *list;
	unsigned n;
	struct loop_timer *tick;
};

static uint64_t now_us(void)
{
	return clock_boot_us(clock_real());
}

static void reader_free(struct reader *r)
{
	DL_DELETE(r->fo->list, r);
	r->fo->n--;
	if (r->follow)
		atomic_fetch_sub(&r->fo->io->api->listeners, 1);
	r->call->on_gone = r->call->on_drain = NULL;
	call_drop(r->call);
	free(r);
}

static void finish_reader(struct reader *r)
{
	struct call *c = call_hold(r->call);
	struct evbuffer *b;

	if (r->sse) {
		b = evbuffer_new();
		sse_put(b, r->offset, "end", "{}");
		call_stream_put(c, b);
		evbuffer_free(b);
	}
	reader_free(r);
	call_stream_end(c);
	call_drop(c);
}

static void fail_reader(struct reader *r, const struct err *e)
{
	struct call *c = call_hold(r->call);
	int started = r->started;

	reader_free(r);
	if (started)
		call_stream_abort(c); /* the reader must not believe that this is the end */
	else
		call_fail(c, e);
	call_drop(c);
}

/* ---- sending ---------------------------------------------------------------------------------- */

static void begin_answer(struct reader *r)
{
	char text[32];

	r->started = 1;
	snprintf(text, sizeof(text), "%" PRIu64, r->offset);
	call_add_header(r->call, "X-Hearth-Offset", text);
	snprintf(text, sizeof(text), "%u", r->attempt);
	call_add_header(r->call, "X-Hearth-Attempt", text);
	call_add_header(r->call, "X-Hearth-Stream", r->stream);
	if (r->sse)
		sse_begin(r->call);
	else
		call_stream_start(r->call, 200, "application/octet-stream", -1);
}

static int read_piece(struct reader *r, void *out, size_t max, size_t *n, uint64_t *size, int *complete,
                      struct err *e)
{
	return logstore_read(data_log_dir(api_of(r->fo->io)->data), r->job, r->attempt, r->stream, r->offset, out,
	                     max, n, size, complete, e);
}

static void send_skip_note(struct reader *r, uint64_t bytes)
{
	struct evbuffer *b = evbuffer_new();
	TEXT(note);

	text_add(&note,
	         "[hearth: %" PRIu64 " bytes skipped, this reader is too slow; read them from offset %" PRIu64
	         "]",
	         bytes, r->offset);
	if (r->sse)
		log_events_note(b, r->offset + bytes, note.at);
	else
		evbuffer_add_printf(b, "\n%s\n", note.at);
	call_stream_put(r->call, b);
	evbuffer_free(b);
}

/* To a place near the end, at the beginning of a line where there is one. */
static void skip_ahead(struct reader *r, uint64_t size)
{
	uint64_t old = r->offset, to = size - LAG_KEEP;
	char piece[4096];
	const char *line;
	size_t n = 0;

	r->offset = to;
	if (read_piece(r, piece, sizeof(piece), &n, NULL, NULL, NULL) == 0 && n &&
	    (line = memchr(piece, '\n', n)))
		to += (uint64_t)(line - piece) + 1;
	r->offset = old;
	send_skip_note(r, to - old);
	r->offset = to;
}

/* The end of the hole that the reader is in, because the stream was cut there; 0: it is in none. */
static uint64_t find_hole_end(const struct reader *r)
{
	const char *dir = data_log_dir(api_of(r->fo->io)->data);
	uint64_t to = 0;

	if (r->offset < LOGSTORE_FIRST || logstore_cut(dir, r->job, r->attempt, r->stream, &to, NULL) < 0 ||
	    to <= r->offset)
		return 0;
	return to;
}

static void send_hole_note(struct reader *r, uint64_t to)
{
	struct evbuffer *b = evbuffer_new();
	TEXT(note);

	text_add(&note, "[hearth: %" PRIu64 " bytes are missing here: the log is longer than its limit]",
	         to - r->offset);
	log_events_note(b, to, note.at);
	call_stream_put(r->call, b);
	evbuffer_free(b);
}

enum step { STEP_MORE, STEP_WAIT, STEP_DONE };

/* Events have offsets. A reader of bytes counts them, and knows only where its answer begins: an answer that
 * has begun breaks off when its last byte is written, and the next one begins behind the hole. */
static enum step pass_hole(struct reader *r, uint64_t to)
{
	struct call *c = r->call;

	if (r->started && !r->sse) {
		if (call_stream_queued(c))
			return STEP_WAIT; /* until it has drained */
		call_hold(c);
		reader_free(r);
		call_stream_abort(c);
		call_drop(c);
		return STEP_DONE;
	}
	if (r->sse) {
		if (!r->started)
			begin_answer(r);
		send_hole_note(r, to);
	}
	r->offset = to;
	return STEP_MORE;
}

static void send_bytes(struct reader *r, const char *p, size_t n)
{
	struct evbuffer *b = evbuffer_new();

	if (r->sse)
		n = log_events_put(b, data_log_dir(api_of(r->fo->io)->data), r->job, r->attempt, r->stream, r->offset,
		                   p, n);
	else
		evbuffer_add(b, p, n);
	r->offset += n;
	r->left -= n < r->left ? n : r->left;
	call_stream_put(r->call, b);
	evbuffer_free(b);
}

/* One piece. STEP_DONE: r is gone. */
static enum step send_piece(struct reader *r, char *piece)
{
	size_t n = 0, max = r->left < PIECE ? (size_t)r->left : PIECE;
	uint64_t size = 0, to;
	int complete = 0;
	struct err e;

	if (read_piece(r, piece, max, &n, &size, &complete, &e) < 0) {
		if (e.code == ERR_NOT_FOUND && r->follow && !r->started && !r->over)
			return STEP_WAIT;
		fail_reader(r, &e);
		return STEP_DONE;
	}
	if (r->from_end > 0) { /* only now is it known where that is */
		r->offset = size > (uint64_t)r->from_end ? size - (uint64_t)r->from_end : 0;
		r->from_end = 0;
		return STEP_MORE;
	}
	if (r->live && r->skip && size > r->offset + LAG_MAX) {
		skip_ahead(r, size);
		return STEP_MORE;
	}
	if (n == 0 && r->left && (to = find_hole_end(r)))
		return pass_hole(r, to);
	if (!r->started)
		begin_answer(r);
	if (n)
		send_bytes(r, piece, n);
	if (r->left == 0 || (n == 0 && (complete || !r->follow))) {
		finish_reader(r);
		return STEP_DONE;
	}
	if (n == 0) {
		r->live = 1;
		return STEP_WAIT;
	}
	return STEP_MORE;
}

static void pump_reader(struct reader *r)
{
	static _Thread_local char piece[PIECE];

	while (call_stream_queued(r->call) < QUEUE_MAX)
		if (send_piece(r, piece) != STEP_MORE)
			return;
}

static void on_drain(struct call *c)
{
	pump_reader(c->state);
}

static void on_gone(struct call *c)
{
	reader_free(c->state);
}

/* ---- news ------------------------------------------------------------------------------------- */

static int is_same_stream(const struct reader *r, uint64_t job, uint32_t attempt, const char *stream)
{
	return r->job == job && r->attempt == attempt && strcmp(r->stream, stream) == 0;
}

void follow_grown(struct io *io, void *arg)
{
	struct log_grown *g = arg;
	struct reader *r, *tmp;
	int any = 0;

	DL_FOREACH_SAFE (io->api->follow ? io->api->follow->list : NULL, r, tmp) {
		if (!is_same_stream(r, g->job, g->attempt, g->stream))
			continue;
		any = 1;
		r->grown_us = now_us();
		pump_reader(r);
	}
	if (!any) /* the last reader is gone; if this finds no room, the next growth tries again */
		data_watch(api_of(io)->data, io->index, g->job, g->attempt, g->stream, 0);
	free(g);
}

/* Is the attempt over, as far as the store knows? Then its stream's end will not come by itself. */
static int attempt_over(struct reader *r)
{
	struct job_row row;
	int over;

	memset(&row, 0, sizeof(row));
	if (store_job_get(r->fo->io->reader, r->job, &row, NULL) < 0)
		return 1;
	over = r->attempt < row.attempts || strcmp(row.status, "completed") == 0 ||
	       strcmp(row.status, "failed") == 0 || strcmp(row.status, "stopped") == 0;
	job_row_fini(&row);
	return over;
}

void follow_notice(struct io *io, const struct event_row *ev)
{
	struct reader *r;

	DL_FOREACH (io->api->follow ? io->api->follow->list : NULL, r)
		if (r->job == ev->job && !r->over &&
		    (strcmp(ev->type, "ended") == 0 || strcmp(ev->type, "attempt_ended") == 0))
			r->over = attempt_over(r); /* the tick ends its stream */
}

static void tick_one(struct reader *r, uint64_t now)
{
	struct evbuffer *b;

	if (r->follow && !r->watched)
		r->watched =
		    data_watch(api_of(r->fo->io)->data, r->fo->io->index, r->job, r->attempt, r->stream, 1) == 0;
	if (!r->started && r->over) {
		pump_reader(r); /* now it is there, or is not found */
		return;
	}
	if (r->over && r->live && now - r->grown_us > END_QUIET_US) {
		finish_reader(r);
		return;
	}
	if (r->sse && r->started && call_stream_queued(r->call) == 0 && now - r->beat_us > BEAT_US) {
		r->beat_us = now;
		b = evbuffer_new();
		sse_comment(b, "beat");
		call_stream_put(r->call, b);
		evbuffer_free(b);
	}
}

static void on_tick(void *arg)
{
	struct follow *fo = arg;
	struct reader *r, *tmp;
	uint64_t now = now_us();

	DL_FOREACH_SAFE (fo->list, r, tmp)
		tick_one(r, now);
	loop_timer_arm(fo->tick, TICK_US);
}

/* ---- handlers --------------------------------------------------------------------------------- */

static int attempt_of(struct call *c, struct io *io, uint32_t *attempt, int *over, struct err *e)
{
	uint64_t v = query_u64(c, "attempt", 0);
	struct job_row row;

	memset(&row, 0, sizeof(row));
	if (store_job_get(io->reader, c->target_id, &row, e) < 0)
		return -1;
	/* The record decides: the log thread may not have removed the files yet. */
	if (store_check_kept(io->reader, c->target_id, STORE_LOGS, NULL, e) < 0) {
		job_row_fini(&row);
		return -1;
	}
	if (v == 0)
		v = row.attempts ? row.attempts : 1; /* a waiting job's first */
	*over = v < row.attempts ||
	        (row.status && (strcmp(row.status, "completed") == 0 || strcmp(row.status, "failed") == 0 ||
	                        strcmp(row.status, "stopped") == 0));
	job_row_fini(&row);
	*attempt = (uint32_t)v;
	return v > UINT32_MAX ? err_set(e, ERR_NOT_FOUND, "job %s has no attempt %" PRIu64, c->params[0], v) : 0;
}

static int set_range(struct call *c, struct reader *r, struct err *e)
{
	int64_t offset = query_i64(c, "offset", 0);
	uint64_t last;
	int given = r->sse ? sse_last_id(c, &last) : 0;

	if (given < 0)
		return err_set(e, ERR_INVALID, "Last-Event-ID is not an offset");
	r->left = query_u64(c, "limit", UINT64_MAX);
	if (given)
		r->offset = last;
	else if (offset >= 0)
		r->offset = (uint64_t)offset;
	else
		r->from_end = -offset;
	return 0;
}

void api_logs_read(struct call *c, struct io *io)
{
	struct reader *r;
	struct err e;
	int over = 0;

	if (!io->api->follow || io->api->follow->n >= FOLLOWER_MAX) {
		call_problem(c, 503, "try again", "too many readers follow logs");
		return;
	}
	r = xcalloc(1, sizeof(*r));
	r->fo = io->api->follow;
	r->job = c->target_id;
	r->follow = query_bool(c, "follow");
	r->skip = query_str(c, "skip") ? query_bool(c, "skip") : 1;
	r->sse = sse_wanted(c);
	if (attempt_of(c, io, &r->attempt, &over, &e) < 0 || set_range(c, r, &e) < 0 ||
	    log_name_resolve(io->reader, r->job, r->attempt, c->params[1], query_str(c, "node"), r->stream,
	                     sizeof(r->stream), &e) < 0) {
		free(r);
		call_fail(c, &e);
		return;
	}
	r->over = over;
	r->grown_us = r->beat_us = now_us();
	r->call = call_hold(c);
	c->state = r;
	c->on_gone = on_gone;
	c->on_drain = on_drain;
	DL_APPEND(io->api->follow->list, r);
	io->api->follow->n++;
	if (r->follow) {
		atomic_fetch_add(&io->api->listeners, 1);
		r->watched = data_watch(api_of(io)->data, io->index, r->job, r->attempt, r->stream, 1) == 0;
	}
	pump_reader(r);
}

static int list_one(const struct log_stream *s, void *arg)
{
	cJSON *list = arg, *o = cJSON_CreateObject();

	cJSON_AddNumberToObject(o, "attempt", s->attempt);
	cJSON_AddStringToObject(o, "stream", s->name);
	json_add_u64(o, "size", s->size);
	json_add_u64(o, "lost", s->lost);
	json_add_time(o, "first_at", s->first_us);
	json_add_time(o, "last_at", s->last_us);
	cJSON_AddBoolToObject(o, "complete", s->complete);
	cJSON_AddItemToArray(list, o);
	return 0;
}

void api_logs_list(struct call *c, struct io *io)
{
	uint64_t attempt = query_u64(c, "attempt", 0);
	cJSON *o = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(o, "streams");
	uint32_t newest;
	struct err e;
	int over;

	if (attempt > UINT32_MAX || attempt_of(c, io, &newest, &over, &e) < 0 ||
	    logstore_streams(data_log_dir(api_of(io)->data), c->target_id, (uint32_t)attempt, list_one, list,
	                     &e) < 0) {
		cJSON_Delete(o);
		if (attempt > UINT32_MAX)
			err_set(&e, ERR_NOT_FOUND, "job %s has no attempt %" PRIu64, c->params[0], attempt);
		call_fail(c, &e);
		return;
	}
	call_json(c, 200, o);
}

struct follow *follow_create(struct io *io)
{
	struct follow *fo = xcalloc(1, sizeof(*fo));

	fo->io = io;
	fo->tick = loop_timer_create(io->loop, on_tick, fo);
	loop_timer_arm(fo->tick, TICK_US);
	return fo;
}

void follow_destroy(struct follow *fo)
{
	struct reader *r, *tmp;
	struct err e;

	if (!fo)
		return;
	err_set(&e, ERR_UNAVAILABLE, "hearthd is stopping");
	DL_FOREACH_SAFE (fo->list, r, tmp)
		fail_reader(r, &e); /* the stream is cut, not ended, so that its reader comes again */
	loop_timer_destroy(fo->tick);
	free(fo);
}
