/*
 * points: see points.h.
 *
 * DIR/metrics: "HMP2", u64 job, u32 attempt, u64 number of the batch, u32 sources, each: name, u64 offset,
 * i64 step; then the frame of the batch, which is empty when only reading went on. Big-endian, as buf writes.
 */
#include "agent/logs/points.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"

#define MAGIC         "HMP1"
#define POINTS_LAYOUT 2 /* version of the protocol that lays out the stored batch */
#define BATCH_MAX     1000u
#define BATCH_ROOM    16384u /* a line may bring many points, and the line that fills a batch is taken whole */
#define NAMES_MAX     1000u
#define BATCH_US      200000u
#define RESEND_US     15000000u
#define SAVE_BYTES    (256u * 1024) /* reading without points is written down so often */
#define STATE_MAX     (16u * 1024 * 1024)
#define SOURCES_MAX   4096u

struct points_src {
	struct points *p;
	char *name;
	uint32_t rank;
	void (*room)(void *arg);
	void *arg;
	uint64_t offset, saved;
	int64_t step, saved_step;
	int in_batch;      /* points of it are in the batch that grows */
	uint64_t last_seq; /* batch that its last points went with; 0 none */
	int wants_room;
	struct points_src *next;
};

struct old { /* a source that an earlier agent read and that is not open (yet) */
	char *name;
	uint64_t offset;
	int64_t step;
	struct old *next;
};

struct known_name {   /* in the batch that grows */
	const char *name; /* the batch's */
	uint32_t ix;
	UT_hash_handle hh;
};

struct points {
	struct agent_env *env;
	struct data_link *b;
	struct data_link_sub *sub;
	uint64_t job, epoch;
	uint32_t attempt;
	char *file;
	uint64_t seq, acked;        /* last number given, last one acknowledged */
	struct wm_metrics *pending; /* under way; NULL none */
	struct wm_metrics *grows;
	struct known_name *known;
	uint32_t names_cap, dropped;
	uint64_t cut_us; /* boot time of the last cut */
	struct loop_timer *timer;
	struct points_src *sources;
	struct old *old;
	struct log_limit complaints;
};

static void send_later(struct points *p);

/* ---- batch that grows ------------------------------------------------------------------------------------
 */

static struct wm_metrics *batch_new(const struct points *p)
{
	struct wm_metrics *m = xcalloc(1, sizeof(*m));

	m->job = p->job;
	m->attempt = p->attempt;
	m->name_ix.v = xcalloc(BATCH_ROOM, sizeof(*m->name_ix.v));
	m->ranks.v = xcalloc(BATCH_ROOM, sizeof(*m->ranks.v));
	m->steps.v = xcalloc(BATCH_ROOM, sizeof(*m->steps.v));
	m->values.v = xcalloc(BATCH_ROOM, sizeof(*m->values.v));
	m->times.v = xcalloc(BATCH_ROOM, sizeof(*m->times.v));
	return m;
}

/* Users choose the names, so the look-up is by hash. */
static int name_index(struct points *p, const char *name, uint32_t *ix)
{
	struct known_name *k;

	HASH_FIND_STR(p->known, name, k);
	if (!k) {
		if (p->grows->names.n >= NAMES_MAX)
			return -1;
		wire_strv_add(&p->grows->names, name);
		k = xcalloc(1, sizeof(*k));
		k->ix = p->grows->names.n - 1;
		k->name = p->grows->names.v[k->ix];
		HASH_ADD_KEYPTR(hh, p->known, k->name, strlen(k->name), k);
	}
	*ix = k->ix;
	return 0;
}

/* Before the batch is sent or freed. */
static void forget_names(struct points *p)
{
	struct known_name *k, *tmp;

	HASH_ITER (hh, p->known, k, tmp) {
		HASH_DEL(p->known, k);
		free(k);
	}
}

void points_add(struct points_src *s, const struct metric_point *mp)
{
	struct points *p = s->p;
	struct wm_metrics *m;
	uint32_t i, ix;

	if (!p->grows)
		p->grows = batch_new(p);
	m = p->grows;
	i = m->name_ix.n;
	if (i >= BATCH_ROOM || name_index(p, mp->name, &ix) < 0) {
		p->dropped++;
		return;
	}
	m->name_ix.v[i] = ix;
	m->ranks.v[i] = s->rank;
	m->steps.v[i] = mp->step;
	m->values.v[i] = mp->value;
	m->times.v[i] = mp->at_us;
	m->name_ix.n = m->ranks.n = m->steps.n = m->values.n = m->times.n = i + 1;
	s->in_batch = 1;
}

static uint32_t count_waiting(const struct points *p)
{
	return p->grows ? p->grows->name_ix.n : 0;
}

int points_full(const struct points_src *s)
{
	if (count_waiting(s->p) < BATCH_MAX)
		return 0;
	((struct points_src *)(uintptr_t)s)->wants_room = 1;
	return 1;
}

/* ---- on disk ---------------------------------------------------------------------------------------------
 */

static void put_source(struct buf *b, const char *name, uint64_t offset, int64_t step)
{
	buf_put_str(b, name);
	buf_put_u64(b, offset);
	buf_put_u64(b, (uint64_t)step);
}

/* With the pending batch, or none. */
static void save_state(struct points *p)
{
	uint32_t n = 0;
	struct buf b;
	struct err e = {0};
	unsigned held;
	int rc = 0;

	for (struct points_src *s = p->sources; s; s = s->next)
		n++;
	for (struct old *o = p->old; o; o = o->next)
		n++;
	buf_init(&b, STATE_MAX);
	buf_put(&b, MAGIC, 4);
	buf_put_u64(&b, p->job);
	buf_put_u32(&b, p->attempt);
	buf_put_u64(&b, p->seq);
	buf_put_u32(&b, n);
	for (struct points_src *s = p->sources; s; s = s->next)
		put_source(&b, s->name, s->offset, s->step);
	for (struct old *o = p->old; o; o = o->next)
		put_source(&b, o->name, o->offset, o->step);
	if (p->pending)
		rc = wire_encode_at(POINTS_LAYOUT, WM_METRICS, p->pending, 0, &b, &e);
	if (rc == 0)
		rc = fs_replace(p->file, buf_head(&b), buf_left(&b), 0600, &e);
	buf_fini(&b);
	if (rc < 0) {
		/* Sent all the same: a doubled point after two failures is better than none. */
		if (log_limit_ok(&p->complaints, clock_boot_us(p->env->clock), &held))
			log_warn("event=metrics_not_saved job=%" PRIu64 " reason=\"%s\" suppressed=%u", p->job, e.text,
			         held);
		return;
	}
	for (struct points_src *s = p->sources; s; s = s->next) {
		s->saved = s->offset;
		s->saved_step = s->step;
	}
}

static int load_source(struct points *p, struct buf *b)
{
	struct old *o = xcalloc(1, sizeof(*o));
	uint64_t step = 0;

	if (buf_get_str(b, &o->name, 4096) < 0 || buf_get_u64(b, &o->offset) < 0 || buf_get_u64(b, &step) < 0) {
		free(o->name);
		free(o);
		return -1;
	}
	o->step = (int64_t)step;
	o->next = p->old;
	p->old = o;
	return 0;
}

static int load_all(struct points *p, struct buf *b, struct err *e)
{
	struct wire_frame f;
	char magic[4];
	uint64_t job;
	void *msg;
	uint32_t n, attempt;
	int rc;

	if (buf_get(b, magic, 4) < 0 || buf_get_u64(b, &job) < 0 || buf_get_u32(b, &attempt) < 0 ||
	    job != p->job || attempt != p->attempt || memcmp(magic, MAGIC, 4) != 0 ||
	    buf_get_u64(b, &p->seq) < 0 || buf_get_u32(b, &n) < 0 || n > SOURCES_MAX)
		return err_set(e, ERR_PROTOCOL, "not a state of metrics");
	while (n--)
		if (load_source(p, b) < 0)
			return err_set(e, ERR_PROTOCOL, "sources are cut off");
	p->acked = p->seq;
	if (buf_left(b) == 0)
		return 0;
	rc = wire_next(b, &f, e);
	if (rc <= 0 || f.type != WM_METRICS || wire_decode_at(POINTS_LAYOUT, f.type, f.body, f.n, &msg, e) < 0)
		return rc < 0 ? -1 : err_set(e, ERR_PROTOCOL, "batch is cut off");
	p->pending = msg;
	p->acked = p->seq - 1;
	return 0;
}

static void load_state(struct points *p)
{
	struct err e;
	struct buf b;
	char *data;
	size_t n;

	if (fs_read_file(p->file, STATE_MAX, &data, &n, &e) < 0) {
		if (e.code != ERR_NOT_FOUND)
			log_warn("event=metrics_state_lost job=%" PRIu64 " reason=\"%s\"", p->job, e.text);
		return;
	}
	buf_view(&b, data, n);
	if (load_all(p, &b, &e) < 0)
		log_warn("event=metrics_state_lost job=%" PRIu64 " file=%s reason=\"%s\"", p->job, p->file, e.text);
	free(data);
}

/* ---- sending --------------------------------------------------------------------------------------------
 */

static void send_pending(struct points *p)
{
	struct err e;

	if (!p->pending)
		return;
	p->pending->epoch = p->epoch;
	if (data_link_send_metrics(p->sub, p->pending, &e) == 0)
		loop_timer_arm(p->timer, RESEND_US);
	else if (e.code != ERR_BUSY && e.code != ERR_UNAVAILABLE)
		log_error("event=metrics_not_sent job=%" PRIu64 " reason=\"%s\"", p->job, e.text);
}

static void wake_sources(struct points *p)
{
	struct points_src *next;

	for (struct points_src *s = p->sources; s; s = next) {
		next = s->next;
		if (!s->wants_room)
			continue;
		s->wants_room = 0;
		s->room(s->arg); /* may close itself, not others */
	}
}

static void cut_batch(struct points *p)
{
	unsigned held;

	forget_names(p);
	p->pending = p->grows;
	p->grows = NULL;
	p->pending->seq = ++p->seq;
	p->cut_us = clock_boot_us(p->env->clock);
	for (struct points_src *s = p->sources; s; s = s->next) {
		if (s->in_batch)
			s->last_seq = p->seq;
		s->in_batch = 0;
	}
	if (p->dropped && log_limit_ok(&p->complaints, p->cut_us, &held))
		log_warn("event=points_dropped job=%" PRIu64
		         " count=%u reason=\"too many names or points in one line\"",
		         p->job, p->dropped);
	p->dropped = 0;
	save_state(p);
	send_pending(p);
}

static void send_later(struct points *p)
{
	uint64_t now = clock_boot_us(p->env->clock), due = p->cut_us + BATCH_US;

	if (p->pending || !count_waiting(p))
		return;
	if (count_waiting(p) < BATCH_MAX && p->cut_us && now < due) {
		loop_timer_arm(p->timer, due - now);
		return;
	}
	cut_batch(p);
}

static void on_timer(void *arg)
{
	struct points *p = arg;

	if (p->pending)
		send_pending(p);
	else
		send_later(p);
	wake_sources(p);
}

static void on_up(void *arg)
{
	send_pending(arg);
}

static void on_ack(uint64_t seq, void *arg)
{
	struct points *p = arg;

	if (!p->pending || seq < p->pending->seq)
		return;
	p->acked = p->pending->seq;
	wire_free(WM_METRICS, p->pending);
	p->pending = NULL;
	loop_timer_cancel(p->timer);
	send_later(p);
	wake_sources(p);
}

/* ---- sources --------------------------------------------------------------------------------------------
 */

struct points_src *points_source(struct points *p, const char *name, uint32_t rank, void (*room)(void *arg),
                                 void *arg)
{
	struct points_src *s = xcalloc(1, sizeof(*s));
	struct old **o = &p->old, *gone;

	*s = (struct points_src){.p = p,
	                         .name = xstrdup(name),
	                         .rank = rank,
	                         .room = room,
	                         .arg = arg,
	                         .step = METRIC_NO_STEP,
	                         .saved_step = METRIC_NO_STEP};
	while (*o && strcmp((*o)->name, name) != 0)
		o = &(*o)->next;
	if ((gone = *o)) {
		s->offset = s->saved = gone->offset;
		s->step = s->saved_step = gone->step;
		*o = gone->next;
		free(gone->name);
		free(gone);
	}
	s->next = p->sources;
	p->sources = s;
	return s;
}

void points_source_close(struct points_src *s)
{
	struct points_src **at;
	struct old *o;

	if (!s)
		return;
	for (at = &s->p->sources; *at != s; at = &(*at)->next)
		continue;
	*at = s->next;
	/* Its place is kept: the attempt may be read again. */
	o = xcalloc(1, sizeof(*o));
	*o = (struct old){.name = s->name, .offset = s->saved, .step = s->saved_step, .next = s->p->old};
	s->p->old = o;
	free(s);
}

void points_where(const struct points_src *s, uint64_t *offset, int64_t *step)
{
	*offset = s->saved;
	*step = s->saved_step;
}

void points_mark(struct points_src *s, uint64_t offset, int64_t step)
{
	s->offset = offset;
	s->step = step;
	if (count_waiting(s->p))
		send_later(s->p);
	else if (!s->p->pending && offset > s->saved + SAVE_BYTES)
		save_state(s->p);
}

uint64_t points_saved(const struct points_src *s)
{
	return s->saved;
}

int points_flush(struct points_src *s)
{
	struct points *p = s->p;

	if (s->in_batch && !p->pending)
		cut_batch(p);
	if (!s->in_batch && s->last_seq <= p->acked) {
		if (s->saved != s->offset && !p->pending && !count_waiting(p))
			save_state(p);
		return 1;
	}
	s->wants_room = 1;
	return 0;
}

/* ---- life ------------------------------------------------------------------------------------------------
 */

struct points *points_open(struct agent_env *env, struct data_link *b, uint64_t job, uint32_t attempt,
                           const char *dir)
{
	static const struct data_link_sub_ops ops = {.up = on_up, .room = on_up, .metrics_ack = on_ack};
	struct points *p = xcalloc(1, sizeof(*p));

	*p = (struct points){
	    .env = env, .b = b, .job = job, .attempt = attempt, .file = xasprintf("%s/metrics", dir)};
	p->complaints.per_minute = 4;
	p->timer = loop_timer_create(env->loop, on_timer, p);
	p->sub = data_link_subscribe(b, job, attempt, NULL, &ops, p);
	load_state(p);
	return p;
}

void points_close(struct points *p)
{
	struct old *o;

	if (!p)
		return;
	while ((o = p->old)) {
		p->old = o->next;
		free(o->name);
		free(o);
	}
	data_link_unsubscribe(p->sub);
	loop_timer_destroy(p->timer);
	forget_names(p);
	wire_free(WM_METRICS, p->pending);
	wire_free(WM_METRICS, p->grows);
	free(p->file);
	free(p);
}

void points_set_epoch(struct points *p, uint64_t epoch)
{
	p->epoch = epoch;
	if (p->pending && data_link_is_up(p->b)) /* of an earlier agent */
		send_pending(p);
}
