/*
 * api_stream: GET /api/v1/stream, the live events of the cluster or of one job, as server-sent events; ids
 * are the store's event ids.
 *
 * A follower is in one of two modes. Behind: it reads pages of events from the store after the last id that
 * it was sent, one page each time its output has drained. Live: it sends the notices of the state thread
 * directly. It starts behind and turns live when a page is short; it skips by their id the notices that
 * arrived meanwhile. A follower whose output piles up returns to behind, and so does every follower when
 * notices were lost. So no event is missing or comes twice, also across restarts of hearthd, and memory is
 * bounded.
 */
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/api/api_cluster.h"
#include "controller/api/thread.h"
#include "controller/http/route.h"
#include "controller/http/sse.h"
#include "store/read/find.h"
#include "store/read/query.h"

#define BEAT_US      15000000u
#define PAGE         256u
#define QUEUE_MAX    (256u * 1024) /* output waiting: the follower is too slow for live */
#define FOLLOWER_MAX 1024u         /* per thread */

struct follower {
	struct follower *prev, *next;
	struct sse *s;
	struct call *call; /* held */
	uint64_t job;      /* 0 all */
	uint64_t last_id;  /* newest that was sent */
	int behind;
};

struct sse {
	struct io *io;
	struct follower *list;
	unsigned n;
	struct loop_timer *beat;
	uint64_t lost_seen; /* notices_lost at the last check */
};

static void follower_free(struct follower *f)
{
	DL_DELETE(f->s->list, f);
	f->s->n--;
	atomic_fetch_sub(&f->s->io->api->listeners, 1);
	f->call->on_gone = f->call->on_drain = NULL;
	call_drop(f->call);
	free(f);
}

static void on_gone(struct call *c)
{
	follower_free(c->state);
}

static const char *text_of(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsString(v) ? v->valuestring : "";
}

static int is_token_event(const char *type)
{
	return strcmp(type, "token_made") == 0 || strcmp(type, "token_removed") == 0;
}

/* Ids are no secrets, but who has which token is: of those events, users see their own only. An event that
 * names no user is an administrator's. */
static int may_see(const struct follower *f, const char *type, const cJSON *data)
{
	const char *user;

	if (f->call->who.role >= ROLE_ADMIN || !is_token_event(type))
		return 1;
	user = text_of(data, "user");
	return *user && strcmp(user, f->call->who.user) == 0;
}

static void put_row(struct evbuffer *b, struct follower *f, const cJSON *row)
{
	const cJSON *id = cJSON_GetObjectItemCaseSensitive(row, "id");
	const char *type = text_of(row, "type");
	char *text;

	f->last_id = (uint64_t)id->valuedouble;
	if (!may_see(f, type, cJSON_GetObjectItemCaseSensitive(row, "data")))
		return;
	text = json_text(row);
	sse_put(b, f->last_id, *type ? type : NULL, text);
	free(text);
}

/* One page from the store. */
static void catch_up(struct follower *f)
{
	struct err e;
	cJSON *page = store_events_json(f->s->io->reader, f->job, f->last_id, PAGE, &e), *rows, *row;
	struct evbuffer *b;

	if (!page) { /* the client sees the end, and reconnects with its last id */
		struct call *c = f->call;

		follower_free(f);
		call_stream_abort(c);
		return;
	}
	b = evbuffer_new();
	rows = cJSON_GetObjectItemCaseSensitive(page, "events");
	cJSON_ArrayForEach (row, rows)
		put_row(b, f, row);
	if (cJSON_GetArraySize(rows) < (int)PAGE)
		f->behind = 0;
	cJSON_Delete(page);
	call_stream_put(f->call, b); /* on_drain continues while it is behind */
	evbuffer_free(b);
}

static void on_drain(struct call *c)
{
	struct follower *f = c->state;

	if (f->behind)
		catch_up(f);
}

/* The same text as store_events_json: a follower cannot see where its event came from. */
static char *event_text(const struct event_row *ev)
{
	cJSON *o = cJSON_CreateObject();
	char *text;

	json_add_u64(o, "id", ev->id);
	json_add_u64(o, "job", ev->job);
	json_add_u64(o, "attempt", ev->attempt);
	json_add_time(o, "at", ev->at_us);
	cJSON_AddStringToObject(o, "type", ev->type);
	cJSON_AddRawToObject(o, "data", ev->data && *ev->data ? ev->data : "{}");
	text = json_text(o);
	cJSON_Delete(o);
	return text;
}

/* Returns the number after the key; 0: none. */
static uint64_t number_of(const char *data, const char *key)
{
	const char *at = data ? strstr(data, key) : NULL;

	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* Follows store_events_json: events of pools belong to the jobs that they name. */
static int is_of_job(const struct event_row *ev, uint64_t job)
{
	if (!job || ev->job == job)
		return 1;
	return !ev->job && strncmp(ev->type, "pool_", 5) == 0 &&
	       (number_of(ev->data, "\"job\":") == job || number_of(ev->data, "\"left_by\":") == job);
}

static void fall_behind(struct follower *f)
{
	if (f->behind)
		return;
	f->behind = 1;
	if (call_stream_queued(f->call) == 0)
		catch_up(f);
}

void sse_notice(struct io *io, struct event_row *ev)
{
	struct follower *f, *tmp;
	char *text = NULL;
	cJSON *data = is_token_event(ev->type) && ev->data ? cJSON_Parse(ev->data) : NULL;
	uint64_t lost = atomic_load(&io->api->notices_lost);
	int missed = io->api->sse && lost != io->api->sse->lost_seen;

	if (io->api->sse)
		io->api->sse->lost_seen = lost;
	DL_FOREACH_SAFE (io->api->sse ? io->api->sse->list : NULL, f, tmp) {
		struct evbuffer *b;

		if (missed) {
			fall_behind(f);
			continue;
		}
		if (f->behind || ev->id <= f->last_id || !is_of_job(ev, f->job))
			continue;
		if (call_stream_queued(f->call) > QUEUE_MAX) {
			f->behind = 1; /* continues when its output has drained */
			continue;
		}
		if (!may_see(f, ev->type, data)) {
			f->last_id = ev->id;
			continue;
		}
		if (!text)
			text = event_text(ev);
		b = evbuffer_new();
		sse_put(b, ev->id, ev->type, text);
		f->last_id = ev->id;
		call_stream_put(f->call, b);
		evbuffer_free(b);
	}
	free(text);
	cJSON_Delete(data);
	event_row_fini(ev);
	free(ev);
}

/* Lets proxies see that the connection lives and finds dead ones; makes up for lost notices while no new ones
 * come. */
static void on_beat(void *arg)
{
	struct sse *s = arg;
	struct follower *f, *tmp;
	struct evbuffer *b = evbuffer_new();
	uint64_t lost = atomic_load(&s->io->api->notices_lost);

	DL_FOREACH_SAFE (s->list, f, tmp) {
		if (lost != s->lost_seen) {
			fall_behind(f);
			continue;
		}
		if (call_stream_queued(f->call))
			continue;
		sse_comment(b, "beat");
		call_stream_put(f->call, b);
	}
	s->lost_seen = lost;
	evbuffer_free(b);
	loop_timer_arm(s->beat, BEAT_US);
}

struct sse *sse_create(struct io *io)
{
	struct sse *s = xcalloc(1, sizeof(*s));

	s->io = io;
	s->beat = loop_timer_create(io->loop, on_beat, s);
	loop_timer_arm(s->beat, BEAT_US);
	return s;
}

void sse_destroy(struct sse *s)
{
	struct follower *f, *tmp;

	if (!s)
		return;
	DL_FOREACH_SAFE (s->list, f, tmp) {
		struct call *c = call_hold(f->call);

		follower_free(f);
		call_stream_end(c);
		call_drop(c);
	}
	loop_timer_destroy(s->beat);
	free(s);
}

void api_stream(struct call *c, struct io *io)
{
	uint64_t last;
	int given = sse_last_id(c, &last);
	struct follower *f;
	struct job_row row;
	struct err e;

	if (given < 0) {
		call_problem(c, 400, NULL, "Last-Event-ID is not an event's id");
		return;
	}
	if (!given)
		last = query_u64(c, "after", atomic_load(&api_of(io)->notice_id));
	if (c->who.role == ROLE_JOB && query_u64(c, "job", 0) != c->who.token_job) {
		call_problem(c, 403, NULL, "a job's token follows that job only: add job=%" PRIu64, c->who.token_job);
		return;
	}
	memset(&row, 0, sizeof(row));
	if (query_str(c, "job") && store_job_get(io->reader, query_u64(c, "job", 0), &row, &e) < 0) {
		call_fail(c, &e);
		return;
	}
	job_row_fini(&row);
	if (!io->api->sse || io->api->sse->n >= FOLLOWER_MAX) {
		call_problem(c, 503, "share one stream between the tabs of a browser",
		             "too many clients follow events");
		return;
	}
	f = xcalloc(1, sizeof(*f));
	f->s = io->api->sse;
	f->call = call_hold(c);
	f->job = query_u64(c, "job", 0);
	f->last_id = last;
	f->behind = 1;
	c->state = f;
	c->on_gone = on_gone;
	c->on_drain = on_drain;
	DL_APPEND(io->api->sse->list, f);
	io->api->sse->n++;
	atomic_fetch_add(&io->api->listeners, 1); /* before the store is read: see server_notice */
	sse_begin(c);
	catch_up(f);
}
