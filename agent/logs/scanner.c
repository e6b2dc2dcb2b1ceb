/*
 * scanner: see scanner.h.
 */
#include "agent/logs/scanner.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/text.h"

struct source { /* one of the two */
	struct scanner *s;
	struct points_src *src;  /* NULL: there is no such source */
	struct match_feed *feed; /* NULL: as src, or given up */
	uint64_t pos;            /* behind the bytes that were handed over; a metrics file's */
	uint64_t chunk_at;       /* where the chunk under way begins */
	uint64_t pending;        /* bytes of an unfinished line, after the last task */
	int rest;                /* the end is a task of its own */
	int ended;
};

struct scanner {
	struct scanner_params p; /* without spec; the texts are copies */
	char *stream, *json_path;
	struct source out, json;
	struct segment_cursor cursor;
	int json_fd; /* -1 none */
	int finishing;
	uint64_t end_us; /* boot: then the searches are given up; 0: not yet counted */
	struct loop_timer *timer;
};

/* ---- chunks ----------------------------------------------------------------------------------------- */

static void end_source(struct source *src)
{
	src->ended = 1;
	loop_timer_arm(src->s->timer, 0);
}

/* Nothing is left to read: once the stream has ended, its unfinished line is the last task. */
static int end_chunk(struct match_chunk *c, struct source *src, uint64_t pos)
{
	src->chunk_at = pos;
	if (!src->s->finishing)
		return 0;
	if (!src->pending && !src->rest) {
		end_source(src);
		return 0;
	}
	c->end = 1;
	return 1;
}

static int fill_output(struct match_chunk *c, void *arg)
{
	struct source *src = arg;
	struct scanner *s = src->s;
	struct err e;
	uint64_t gap;
	ptrdiff_t n;

	if (src->ended || points_full(src->src))
		return 0;
	n = segment_cursor_read(&s->cursor, c->data, MATCH_CHUNK, &c->recs, &gap, &e);
	if (n <= 0)
		return end_chunk(c, src, s->cursor.pos);
	c->n = (size_t)n;
	c->fresh = gap > 0; /* the rest of that line is lost */
	src->chunk_at = c->at = s->cursor.pos - (uint64_t)n;
	return 1;
}

static int fill_json(struct match_chunk *c, void *arg)
{
	struct source *src = arg;
	struct scanner *s = src->s;
	ssize_t n = 0;

	if (src->ended || points_full(src->src))
		return 0;
	if (s->json_fd < 0)
		s->json_fd = open(s->json_path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (s->json_fd >= 0)
		n = pread(s->json_fd, c->data, MATCH_CHUNK, (off_t)src->pos);
	if (n <= 0)
		return end_chunk(c, src, src->pos);
	c->n = (size_t)n;
	src->chunk_at = src->pos;
	return 1;
}

static void add_point(const struct metric_point *p, void *arg)
{
	struct source *src = arg;

	if (p->step != METRIC_NO_STEP)
		src->s->p.step(p->step, p->at_us, src->s->p.arg);
	points_add(src->src, p);
}

static void output_searched(const struct match_result *r, void *arg)
{
	struct source *src = arg;
	struct segment_cursor *c = &src->s->cursor;

	if (src->chunk_at + r->took < c->pos)
		segment_cursor_seek(c, src->chunk_at + r->took);
	src->pending = r->pending;
	src->rest = r->rest;
	points_mark(src->src, c->pos - r->pending, r->step);
	if (r->ended)
		end_source(src);
}

static void json_searched(const struct match_result *r, void *arg)
{
	struct source *src = arg;

	src->pos = src->chunk_at + r->took;
	src->pending = r->pending;
	points_mark(src->src, src->pos - r->pending, r->step);
	if (r->ended)
		end_source(src);
}

static void pattern_off(const struct match_off *o, void *arg)
{
	struct scanner *s = ((struct source *)arg)->s;
	cleanup_free char *key = xasprintf("pattern %s %.200s", o->metric, o->pattern);
	int is_rule = strncmp(o->metric, RULE_METRIC, sizeof(RULE_METRIC) - 1) == 0;
	TEXT(t);

	if (o->rank != NO_RANK)
		text_add(&t, "rank %u: ", o->rank);
	text_add(&t, "%s \"%s\" is no longer read: its pattern '%.200s' ", is_rule ? "rule" : "metric",
	         o->metric + (is_rule ? sizeof(RULE_METRIC) - 1 : 0), o->pattern);
	if (o->gave_up)
		text_add(&t, "took over %u ms of CPU time on each of %u lines", PATTERN_SEARCH_US / 1000, o->gave_up);
	else
		text_add(&t, "used up the launch's %u s of CPU time for patterns", MATCH_BURST_US / 1000000);
	text_add(&t, ". Begin it with fixed text, such as loss=([0-9.]+), or use hearth.log()");
	s->p.warn(key, t.at, s->p.arg);
}

static void report_failure(const struct cause *c, void *arg)
{
	struct scanner *s = ((struct source *)arg)->s;

	s->p.failure(c, s->p.arg);
}

/* ---- the end ---------------------------------------------------------------------------------------- */

static void on_timer(void *arg)
{
	struct scanner *s = arg;

	s->p.changed(s->p.arg);
}

static void on_room(void *arg)
{
	/* From a timer: this is called in the middle of the group's own work. */
	loop_timer_arm(((struct source *)arg)->s->timer, 0);
}

static int is_open(const struct source *src)
{
	return src->src && !src->ended;
}

int scanner_is_through(struct scanner *s)
{
	int through = !is_open(&s->out) && !is_open(&s->json);

	if (!through)
		return 0;
	if (s->out.src)
		through &= points_flush(s->out.src);
	if (s->json.src)
		through &= points_flush(s->json.src);
	return through;
}

static void give_up(struct source *src)
{
	match_feed_destroy(src->feed);
	src->feed = NULL;
	src->ended = 1;
}

static void end_late(struct scanner *s)
{
	cleanup_free char *key = xasprintf("late %s", s->stream);
	TEXT(t);

	text_add(&t,
	         "%s: the end of the log was not searched for metrics within %u s. Print less between two "
	         "metrics, or use hearth.log()",
	         s->stream, SCAN_END_US / 1000000);
	log_warn("event=search_given_up stream=%s", s->stream);
	give_up(&s->out);
	give_up(&s->json);
	s->p.warn(key, t.at, s->p.arg);
	loop_timer_arm(s->timer, 0);
}

/* Whether points wait for hearthd: then the searches wait, too, and it is not their time that counts. */
static int waits_for_room(const struct scanner *s)
{
	return (is_open(&s->out) && points_full(s->out.src)) || (is_open(&s->json) && points_full(s->json.src));
}

void scanner_tick(struct scanner *s, uint64_t now_us)
{
	if (!s->finishing || (!is_open(&s->out) && !is_open(&s->json)))
		return;
	if (!s->end_us || waits_for_room(s))
		s->end_us = now_us + SCAN_END_US;
	else if (now_us >= s->end_us)
		end_late(s);
}

/* ---- life ------------------------------------------------------------------------------------------- */

static void open_output(struct scanner *s, enum match_kind kind)
{
	struct match_feed_ops ops = {.fill = fill_output,
	                             .point = add_point,
	                             .searched = output_searched,
	                             .off = pattern_off,
	                             .failure = s->p.failure ? report_failure : NULL};
	cleanup_free char *name = xasprintf("%s/out", s->stream);
	uint64_t offset;
	int64_t step;

	s->out.src = points_source(s->p.points, name, s->p.rank, on_room, &s->out);
	points_where(s->out.src, &offset, &step);
	segment_cursor_seek(&s->cursor, offset);
	s->out.feed = match_feed_create(s->p.matcher, kind, s->p.rank, step, &ops, &s->out);
}

static void open_json(struct scanner *s)
{
	static const struct match_feed_ops ops = {
	    .fill = fill_json, .point = add_point, .searched = json_searched, .off = pattern_off};
	cleanup_free char *name = xasprintf("%s/json", s->stream);
	int64_t step;

	s->json.src = points_source(s->p.points, name, s->p.rank, on_room, &s->json);
	points_where(s->json.src, &s->json.pos, &step);
	s->json.feed = match_feed_create(s->p.matcher, MATCH_JSON, s->p.rank, step, &ops, &s->json);
}

struct scanner *scanner_create(const struct scanner_params *p)
{
	struct scanner *s = xcalloc(1, sizeof(*s));

	s->p = *p;
	s->stream = xstrdup(p->stream);
	s->json_path = xasprintf("%s/" SCAN_JSON_FILE, p->logdir);
	s->json_fd = -1;
	s->out.s = s->json.s = s;
	s->timer = loop_timer_create(p->env->loop, on_timer, s);
	segment_cursor_init(&s->cursor, p->dir, 0);
	if (p->spec && matcher_patterns(p->matcher, p->spec))
		open_output(s, MATCH_OUTPUT);
	else if (p->failure)
		open_output(s, MATCH_PLAIN);
	if (p->rank != NO_RANK)
		open_json(s);
	s->p.spec = NULL;
	s->p.stream = s->p.logdir = NULL;
	return s;
}

void scanner_destroy(struct scanner *s)
{
	if (!s)
		return;
	match_feed_destroy(s->out.feed);
	match_feed_destroy(s->json.feed);
	points_source_close(s->out.src);
	points_source_close(s->json.src);
	segment_cursor_fini(&s->cursor);
	if (s->json_fd >= 0)
		close(s->json_fd);
	loop_timer_destroy(s->timer);
	free(s->stream);
	free(s->json_path);
	free(s);
}

void scanner_look(struct scanner *s)
{
	if (s->out.feed)
		match_feed_want(s->out.feed);
	if (s->json.feed)
		match_feed_want(s->json.feed);
}

void scanner_finish(struct scanner *s)
{
	s->finishing = 1;
	scanner_look(s);
}

int scanner_has_read(const struct scanner *s)
{
	const struct source *src = &s->out;

	/* Both are equal when the last chunk was searched and the next one had no bytes. */
	return !is_open(src) || points_full(src->src) ||
	       (src->chunk_at == s->cursor.pos && s->cursor.pos >= segments_end(s->p.dir));
}

uint64_t scanner_needs(const struct scanner *s)
{
	return s->out.src ? points_saved(s->out.src) : UINT64_MAX;
}

void scanner_park(struct scanner *s)
{
	segment_cursor_park(&s->cursor);
}
