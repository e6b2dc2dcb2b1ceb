/*
 * data_threads: the two threads, and the work of the log thread. Blobs of agents: data_threads_blob.c.
 *
 * Each stream that grows or is followed has an entry with the session that sends it (which gets the
 * acknowledgements) and its watchers. An entry lives until the stream has ended and nobody watches it, or
 * until its attempt is over.
 */
#include "controller/files/data_threads.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "controller/files/blobs/blob_rights.h"
#include "controller/files/blobs/blobstore.h"
#include "controller/files/data_threads_int.h"
#include "controller/files/logs/logstore.h"
#include "store/base/rows.h"

#define QUEUE_MESSAGES 16384u
#define QUEUE_BYTES    (64u * 1024 * 1024)
#define UNSAID_MAX     65536u
#define KEY_SIZE       128
#define WATCHERS_MAX   32u /* bits of a stream */

struct work { /* a message to one of the threads */
	data_fn fn;
	void *arg;
	size_t bytes;
	void (*drop)(void *arg);
};

struct stream {
	char key[KEY_SIZE]; /* job/attempt/name */
	uint64_t job;
	uint32_t attempt;
	char name[LOGSTORE_STREAM_MAX + 1];
	uint64_t session;  /* connection that sends it; 0 none */
	uint64_t checked;  /* session whose node has a place in the attempt; 0 none yet */
	uint32_t watchers; /* bits */
	int ended;
	UT_hash_handle hh;
};

/* ---- threads ---------------------------------------------------------------------------------- */

static int post_work(struct worker *w, data_fn fn, void *arg, size_t bytes, void (*drop)(void *))
{
	struct work *m;

	if (atomic_load(&w->bytes) + bytes > QUEUE_BYTES) {
		atomic_fetch_add(&w->full, 1);
		return -1;
	}
	m = xmalloc(sizeof(*m));
	m->fn = fn;
	m->arg = arg;
	m->bytes = bytes;
	m->drop = drop;
	atomic_fetch_add(&w->bytes, bytes);
	if (chan_send(w->in, m) == 0)
		return 0;
	atomic_fetch_sub(&w->bytes, bytes);
	atomic_fetch_add(&w->full, 1);
	free(m);
	return -1;
}

int data_post_blob(struct data_threads *b, data_fn fn, void *arg, size_t bytes, void (*drop)(void *arg))
{
	return post_work(&b->blobs, fn, arg, bytes, drop);
}

static void take_unsaid(struct data_threads *b);

static void on_work(void *msg, void *arg)
{
	struct work *m = msg;
	struct worker *w = arg;

	m->fn(w->b, m->arg);
	atomic_fetch_sub(&w->bytes, m->bytes);
	free(m);
	if (w == &w->b->logs &&
	    atomic_load(&w->b->n_unsaid)) /* last, so that ends that found no room until now are seen */
		take_unsaid(w->b);
}

static void drop_work(void *msg)
{
	struct work *m = msg;

	if (m->drop)
		m->drop(m->arg);
	free(m);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	loop_run(w->loop);
	return NULL;
}

static int worker_start(struct data_threads *b, struct worker *w, struct err *e)
{
	sigset_t all, old;
	int rc;

	w->b = b;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&w->thread, NULL, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return err_sys(e, rc, "thread for files");
	pthread_setname_np(w->thread, w == &b->logs ? "hearthd-logs" : "hearthd-blobs");
	w->started = 1;
	return 0;
}

static void stop_logs(struct data_threads *b, void *arg)
{
	(void)arg;
	loop_stop(b->logs.loop);
}

static void stop_blobs(struct data_threads *b, void *arg)
{
	(void)arg;
	loop_stop(b->blobs.loop);
}

static void worker_stop(struct worker *w, data_fn fn)
{
	struct work *m;

	if (!w->started)
		return;
	m = xcalloc(1, sizeof(*m));
	m->fn = fn;
	chan_send_wait(w->in, m);
	pthread_join(w->thread, NULL);
	w->started = 0;
}

/* ---- streams ---------------------------------------------------------------------------------- */

static int key_of(char key[KEY_SIZE], uint64_t job, uint32_t attempt, const char *stream)
{
	int n = snprintf(key, KEY_SIZE, "%" PRIu64 "/%u/%s", job, attempt, stream);

	return n > 0 && n < KEY_SIZE && strlen(stream) <= LOGSTORE_STREAM_MAX ? 0 : -1;
}

static struct stream *find_stream(struct data_threads *b, uint64_t job, uint32_t attempt, const char *stream)
{
	char key[KEY_SIZE];
	struct stream *st = NULL;

	if (key_of(key, job, attempt, stream) == 0)
		HASH_FIND_STR(b->streams, key, st);
	return st;
}

static struct stream *find_or_make_stream(struct data_threads *b, uint64_t job, uint32_t attempt,
                                          const char *stream)
{
	char key[KEY_SIZE];
	struct stream *st = NULL;

	if (key_of(key, job, attempt, stream) < 0)
		return NULL;
	HASH_FIND_STR(b->streams, key, st);
	if (st)
		return st;
	st = xcalloc(1, sizeof(*st));
	memcpy(st->key, key, sizeof(key));
	st->job = job;
	st->attempt = attempt;
	snprintf(st->name, sizeof(st->name), "%s", stream);
	HASH_ADD_STR(b->streams, key, st);
	return st;
}

static void forget_if_idle(struct data_threads *b, struct stream *st)
{
	if (st->watchers || (st->session && !st->ended))
		return; /* a watcher waits for its growth, or a sender for its acknowledgements */
	HASH_DEL(b->streams, st);
	free(st);
}

static void send_growth(struct data_threads *b, struct stream *st, unsigned watcher, uint64_t size,
                        int complete)
{
	struct log_grown *g = xcalloc(1, sizeof(*g));

	g->job = st->job;
	g->attempt = st->attempt;
	memcpy(g->stream, st->name, sizeof(g->stream));
	g->size = size;
	g->complete = complete;
	b->ops.grown(watcher, g, b->ops.arg);
}

/* ---- callbacks of the log store --------------------------------------------------------------- */

static void on_grown(uint64_t job, uint32_t attempt, const char *stream, uint64_t size, int complete,
                     void *arg)
{
	struct data_threads *b = arg;
	struct stream *st = find_stream(b, job, attempt, stream);
	unsigned i;

	if (!st)
		return;
	for (i = 0; i < WATCHERS_MAX; i++)
		if (st->watchers & (1u << i))
			send_growth(b, st, i, size, complete);
}

static void on_durable(uint64_t job, uint32_t attempt, const char *stream, uint64_t offset, int eof,
                       void *arg)
{
	struct data_threads *b = arg;
	struct stream *st = find_stream(b, job, attempt, stream);
	struct wm_log_ack *ack;

	if (!st)
		return;
	if (st->session) {
		ack = xcalloc(1, sizeof(*ack));
		ack->job = job;
		ack->attempt = attempt;
		ack->stream = xstrdup(stream);
		ack->offset = offset;
		b->ops.send(st->session, WM_LOG_ACK, ack, 0, b->ops.arg);
	}
	if (eof) {
		st->ended = 1;
		forget_if_idle(b, st);
	}
}

/* Further data of this connection would look like a gap: they are dropped from now on. */
static void refuse_session(struct data_threads *b, uint64_t session, const char *why)
{
	b->hung[b->n_hung++ % HUNG_MAX] = session;
	b->ops.hang_up(session, why, b->ops.arg);
}

static int is_refused(const struct data_threads *b, uint64_t session)
{
	unsigned i;

	for (i = 0; i < HUNG_MAX; i++)
		if (b->hung[i] == session)
			return 1;
	return 0;
}

static void on_log_error(uint64_t job, uint32_t attempt, const char *stream, const struct err *e, void *arg)
{
	struct data_threads *b = arg;
	struct stream *st = find_stream(b, job, attempt, stream);

	log_error("event=log_not_durable job=%" PRIu64 " attempt=%u stream=%s error=\"%s\"", job, attempt, stream,
	          e->text);
	if (st && st->session)
		refuse_session(b, st->session, "its log could not be made durable; send it again");
}

static uint64_t limit_of(uint64_t job, void *arg)
{
	return log_quota_limit(((struct data_threads *)arg)->quota, job);
}

static void on_kept(uint64_t job, int64_t bytes, void *arg)
{
	log_quota_add(((struct data_threads *)arg)->quota, job, bytes);
}

static void on_cut(uint64_t job, uint32_t attempt, const char *stream, void *arg)
{
	struct data_threads *b = arg;
	TEXT(text);

	log_quota_text(b->quota, stream, &text);
	log_warn("event=log_over_quota job=%" PRIu64 " attempt=%u stream=%s text=\"%s\"", job, attempt, stream,
	         text.at);
	if (b->ops.over_quota)
		b->ops.over_quota(job, attempt, text.at, b->ops.arg);
}

/* ---- log data --------------------------------------------------------------------------------- */

struct agent_msg {
	uint64_t session, id;
	uint16_t type;
	void *msg;
	char node[TLS_NODE_MAX + 1];
};

static void agent_msg_free(void *arg)
{
	struct agent_msg *m = arg;

	wire_free(m->type, m->msg);
	free(m);
}

/* The data were already here and durable: the log store does not report them, but their sender waits for the
 * acknowledgement. */
static void ack_again(struct data_threads *b, const struct wm_log_data *d, struct stream *st)
{
	uint64_t durable = 0;

	if (logstore_durable(b->store, d->job, d->attempt, d->stream, &durable, NULL) == 0 &&
	    durable >= d->offset + d->data.n)
		on_durable(d->job, d->attempt, st->name, durable, 0, b);
}

static void log_refused(struct data_threads *b, const struct wm_log_data *d, const struct err *e)
{
	unsigned held;

	if (log_limit_ok(&b->complaints, clock_boot_us(clock_real()), &held))
		log_error("event=log_refused job=%" PRIu64 " stream=%s error=\"%s\" suppressed=%u", d->job, d->stream,
		          e->text, held);
}

/* Has its node a place in the attempt? Data of other nodes are dropped and acknowledged: an agent with a
 * launch that the record does not have (a backup was restored) must be able to finish it. Nothing is dropped
 * while the rows cannot be read. */
static int is_stranger(struct data_threads *b, const struct agent_msg *m, const struct wm_log_data *d)
{
	struct stream *st = find_stream(b, d->job, d->attempt, d->stream);
	struct wm_log_ack *ack;
	unsigned held;

	if (st && st->checked == m->session)
		return 0;
	if (log_places_has(b->places, b->reader, d->job, d->attempt, m->node) != 0)
		return 0;
	if (log_limit_ok(&b->strangers, clock_boot_us(clock_real()), &held))
		log_warn("event=log_of_stranger job=%" PRIu64 " attempt=%u stream=%s node=%s suppressed=%u", d->job,
		         d->attempt, d->stream, m->node, held);
	ack = xcalloc(1, sizeof(*ack));
	ack->job = d->job;
	ack->attempt = d->attempt;
	ack->stream = xstrdup(d->stream);
	ack->offset = d->offset + d->data.n;
	b->ops.send(m->session, WM_LOG_ACK, ack, 0, b->ops.arg);
	return 1;
}

static void take_log(struct data_threads *b, void *arg)
{
	struct agent_msg *m = arg;
	const struct wm_log_data *d = m->msg;
	struct stream *st;
	struct log_chunk c = {.job = d->job,
	                      .attempt = d->attempt,
	                      .stream = d->stream,
	                      .offset = d->offset,
	                      .data = d->data.data,
	                      .n = d->data.n,
	                      .rec = d->rec.data,
	                      .rec_n = d->rec.n,
	                      .eof = d->eof};
	struct err e;
	int room;

	if (is_refused(b, m->session) || is_stranger(b, m, d)) {
		agent_msg_free(m);
		return;
	}
	st = find_or_make_stream(b, d->job, d->attempt, d->stream);
	if (st) {
		st->checked = m->session;
		atomic_fetch_add(&b->log_bytes, d->data.n);
		if (m->session > st->session) /* an older connection may have left data in the queue */
			st->session = m->session;
		room = log_quota_room(b->quota, &e) == 0;
		if (!room)
			logstore_shorten(b->store, &c);
		if (room && logstore_append(b->store, &c, &e) == 0) {
			ack_again(b, d, st);
		} else {
			log_refused(b, d, &e);
			refuse_session(b, m->session, e.text);
			st->session = 0;
			forget_if_idle(b, st);
		}
	} else {
		refuse_session(b, m->session, "invalid name of a stream");
	}
	agent_msg_free(m);
}

int data_agent_msg(struct data_threads *b, uint64_t session, const char *node, uint16_t type, uint64_t id,
                   void *msg)
{
	struct agent_msg *m;
	const struct wm_log_data *d = msg;
	size_t bytes;

	if (type != WM_LOG_DATA)
		return data_blob_msg(b, session, node, type, id, msg);
	m = xcalloc(1, sizeof(*m));
	m->session = session;
	m->id = id;
	m->type = type;
	m->msg = msg;
	snprintf(m->node, sizeof(m->node), "%s", node);
	bytes = sizeof(*m) + sizeof(*d) + d->data.n + d->rec.n;
	if (post_work(&b->logs, take_log, m, bytes, agent_msg_free) == 0)
		return 0;
	free(m);
	return -1;
}

void data_order(struct data_threads *b, const char *node, const struct wm_prepare *m)
{
	blob_rights_add(b->rights, node, m);
}

void data_order_ahead(struct data_threads *b, const char *node, const struct wm_prefetch *m)
{
	blob_rights_ahead(b->rights, node, m);
}

/* ---- watching --------------------------------------------------------------------------------- */

struct watch {
	unsigned watcher;
	uint64_t job;
	uint32_t attempt;
	int on;
	char stream[LOGSTORE_STREAM_MAX + 1];
};

static void take_watch(struct data_threads *b, void *arg)
{
	struct watch *w = arg;
	struct stream *st = w->on ? find_or_make_stream(b, w->job, w->attempt, w->stream)
	                          : find_stream(b, w->job, w->attempt, w->stream);

	if (st && w->on && !(st->watchers & 1u << w->watcher)) {
		st->watchers |= 1u << w->watcher;
		send_growth(b, st, w->watcher, 0, 0); /* look now: nobody reported earlier growth */
	} else if (st && !w->on) {
		st->watchers &= ~(1u << w->watcher);
		forget_if_idle(b, st);
	}
	free(w);
}

int data_watch(struct data_threads *b, unsigned watcher, uint64_t job, uint32_t attempt, const char *stream,
               int on)
{
	struct watch *w = xcalloc(1, sizeof(*w));

	w->watcher = watcher;
	w->job = job;
	w->attempt = attempt;
	w->on = on;
	snprintf(w->stream, sizeof(w->stream), "%s", stream);
	if (post_work(&b->logs, take_watch, w, sizeof(*w), free) == 0)
		return 0;
	free(w);
	return -1;
}

/* ---- ends ------------------------------------------------------------------------------------- */

static void arm_endings(struct data_threads *b)
{
	uint64_t now = clock_boot_us(clock_real()), at = log_retry_next_us(&b->ends);

	if (at != UINT64_MAX)
		loop_timer_arm(b->end_timer, at > now ? at - now : 0);
}

static void forget_attempt(struct data_threads *b, uint64_t job, uint32_t attempt)
{
	struct stream *st, *tmp;

	HASH_ITER (hh, b->streams, st, tmp)
		if (st->job == job && (attempt == 0 || st->attempt == attempt)) {
			st->ended = 1;
			forget_if_idle(b, st);
		}
	log_quota_forget(b->quota, job);
	blob_rights_end(b->rights, job, attempt);
}

/* The disk may be full: tries again later, with growing pauses. */
static void end_failed(struct data_threads *b, struct log_end *x, const struct err *e)
{
	x->tries++;
	if (x->tries < LOG_RETRY_TRIES) {
		log_warn("event=log_finish_failed job=%" PRIu64 " attempt=%u tries=%u error=\"%s\"", x->job,
		         x->attempt, x->tries, e->text);
		log_retry_add(&b->ends, x, clock_boot_us(clock_real()));
		return;
	}
	log_error("event=log_finish_given_up job=%" PRIu64 " attempt=%u tries=%u error=\"%s\"", x->job,
	          x->attempt, x->tries, e->text);
	forget_attempt(b, x->job, x->attempt);
	free(x);
}

static void on_end_timer(void *arg)
{
	struct data_threads *b = arg;
	uint64_t now = clock_boot_us(clock_real());
	struct log_end *x;
	struct err e;

	while ((x = log_retry_due(&b->ends, now))) {
		if (logstore_finish(b->store, x->job, x->attempt, &e) < 0) {
			end_failed(b, x, &e);
			continue;
		}
		forget_attempt(b, x->job, x->attempt);
		free(x);
	}
	arm_endings(b);
}

static void take_ending(struct data_threads *b, void *arg)
{
	log_retry_add(&b->ends, arg, clock_boot_us(clock_real()));
	arm_endings(b);
}

static void take_nothing(struct data_threads *b, void *arg)
{
	(void)b;
	(void)arg;
}

/* The log thread calls this after each message. */
static void take_unsaid(struct data_threads *b)
{
	struct log_end *x = atomic_exchange(&b->unsaid, NULL), *next;

	for (; x; x = next) {
		next = x->next;
		atomic_fetch_sub(&b->n_unsaid, 1);
		log_retry_add(&b->ends, x, clock_boot_us(clock_real()));
	}
	arm_endings(b);
}

void data_notice(struct data_threads *b, const struct event_row *ev)
{
	struct log_end *x;

	if (!ev->job || !ev->attempt || strcmp(ev->type, "attempt_ended") != 0)
		return;
	x = xcalloc(1, sizeof(*x));
	x->job = ev->job;
	x->attempt = ev->attempt;
	if (!FAULT("log.end") && post_work(&b->logs, take_ending, x, sizeof(*x), free) == 0)
		return;
	if (atomic_load(&b->n_unsaid) >= UNSAID_MAX) {
		/* Its streams stay open; readers see what they have. */
		log_error("event=log_end_unsaid job=%" PRIu64 " attempt=%u", ev->job, ev->attempt);
		free(x);
		return;
	}
	atomic_fetch_add(&b->n_unsaid, 1);
	x->next = atomic_load(&b->unsaid);
	while (!atomic_compare_exchange_weak(&b->unsaid, &x->next, x))
		;
	post_work(&b->logs, take_nothing, NULL, 0, NULL); /* in case no other message comes */
}

static void take_removal(struct data_threads *b, void *arg)
{
	uint64_t *job = arg;
	struct err e;

	forget_attempt(b, *job, 0);
	if (logstore_remove(b->store, *job, &e) < 0)
		log_warn("event=log_remove_failed job=%" PRIu64 " error=\"%s\"", *job, e.text);
	free(job);
}

void data_remove_job(struct data_threads *b, uint64_t job)
{
	uint64_t *copy = xmalloc(sizeof(*copy));

	*copy = job;
	if (post_work(&b->logs, take_removal, copy, sizeof(*copy), free) < 0) {
		log_error("event=log_remove_failed job=%" PRIu64 " error=\"too much to do; remove it again\"", job);
		free(copy);
	}
}

/* ---- create, destroy -------------------------------------------------------------------------- */

struct blobstore *data_blobs(struct data_threads *b)
{
	return b->blobstore;
}

const char *data_log_dir(const struct data_threads *b)
{
	return b->log_dir;
}

void data_stats(struct data_threads *b, cJSON *o)
{
	if (!b)
		return;
	cJSON_AddNumberToObject(o, "log_bytes_total", (double)atomic_load(&b->log_bytes));
	cJSON_AddNumberToObject(o, "log_queue_bytes", (double)atomic_load(&b->logs.bytes));
	cJSON_AddNumberToObject(o, "log_queue_full_total", (double)atomic_load(&b->logs.full));
	cJSON_AddNumberToObject(o, "blob_queue_bytes", (double)atomic_load(&b->blobs.bytes));
	cJSON_AddNumberToObject(o, "blob_queue_full_total", (double)atomic_load(&b->blobs.full));
}

struct data_threads *data_threads_create(const char *data_dir, const struct data_ops *ops, struct err *e)
{
	cleanup_free char *db_path = xasprintf("%s/hearth.db", data_dir);
	struct data_threads *b = xcalloc(1, sizeof(*b));
	struct logstore_config c = {.clock = clock_real(),
	                            .on_durable = on_durable,
	                            .on_grown = on_grown,
	                            .on_error = on_log_error,
	                            .limit = limit_of,
	                            .on_kept = on_kept,
	                            .on_cut = on_cut,
	                            .arg = b};

	b->ops = *ops;
	b->log_dir = xasprintf("%s/logs", data_dir);
	b->complaints.per_minute = b->strangers.per_minute = b->blob_strangers.per_minute = 6;
	b->places = log_places_create();
	b->reader = store_reader_open(db_path, e);
	b->quota = log_quota_create(&ops->limits, data_dir, b->reader);
	b->logs.loop = loop_create();
	b->logs.in = chan_create(b->logs.loop, QUEUE_MESSAGES, 0, on_work, &b->logs);
	b->blobs.loop = loop_create();
	b->blobs.in = chan_create(b->blobs.loop, QUEUE_MESSAGES, 0, on_work, &b->blobs);
	b->end_timer = loop_timer_create(b->logs.loop, on_end_timer, b);
	b->blob_timer = loop_timer_create(b->blobs.loop, data_blob_retry, b);
	c.dir = b->log_dir;
	c.loop = b->logs.loop;
	b->blobstore = b->reader ? blobstore_open(data_dir, clock_real(), e) : NULL;
	b->rights = blob_rights_create(b->blobstore);
	b->store = b->blobstore ? logstore_open(&c, e) : NULL;
	if (!b->store || worker_start(b, &b->logs, e) < 0 || worker_start(b, &b->blobs, e) < 0) {
		data_threads_destroy(b);
		return NULL;
	}
	return b;
}

void data_threads_destroy(struct data_threads *b)
{
	struct stream *st, *tmp;
	struct log_end *x, *next;

	if (!b)
		return;
	worker_stop(&b->blobs, stop_blobs);
	worker_stop(&b->logs, stop_logs);
	chan_destroy(b->blobs.in, drop_work);
	chan_destroy(b->logs.in, drop_work);
	data_blob_end(b);
	logstore_close(b->store);
	blob_rights_destroy(b->rights);
	blobstore_close(b->blobstore);
	HASH_ITER (hh, b->streams, st, tmp) {
		HASH_DEL(b->streams, st);
		free(st);
	}
	for (x = atomic_load(&b->unsaid); x; x = next) {
		next = x->next;
		free(x);
	}
	log_retry_fini(&b->ends);
	log_places_destroy(b->places);
	log_quota_destroy(b->quota);
	store_reader_close(b->reader);
	loop_timer_destroy(b->end_timer);
	loop_timer_destroy(b->blob_timer);
	loop_destroy(b->logs.loop);
	loop_destroy(b->blobs.loop);
	free(b->log_dir);
	free(b);
}
