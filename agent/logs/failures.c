/*
 * failures: see failures.h.
 */
#include "agent/logs/failures.h"

#include <string.h>

#include "common/base/xalloc.h"

/* ---- the table -------------------------------------------------------------------------------------- */

struct failure_table {
	struct classify_table *rules;
	unsigned users;
};

struct failure_table *failure_table_create(struct classify_table *t)
{
	struct failure_table *f = xcalloc(1, sizeof(*f));

	*f = (struct failure_table){.rules = t, .users = 1};
	return f;
}

struct failure_table *failure_table_hold(struct failure_table *t)
{
	t->users++;
	return t;
}

void failure_table_release(struct failure_table *t)
{
	if (!t || --t->users)
		return;
	classify_table_destroy(t->rules);
	free(t);
}

const struct classify_table *failure_table_rules(const struct failure_table *t)
{
	return t->rules;
}

/* ---- lines ------------------------------------------------------------------------------------------ */

static void forget_tail(struct failure_scan *s)
{
	free(s->tail);
	s->tail = NULL;
	s->n_tail = 0;
}

void failure_scan_fini(struct failure_scan *s)
{
	forget_tail(s);
	free(s->line);
	free(s->cause);
	free(s->later);
	*s = (struct failure_scan){0};
}

static void judge_line(struct failure_scan *s, struct classify_reader *r, const char *line, size_t n)
{
	const char *cr = memrchr(line, '\r', n ? n - 1 : 0);
	struct line_finding f;

	if (n && line[n - 1] == '\r')
		n--;
	if (cr) { /* a progress bar wrote over itself */
		n -= (size_t)(cr + 1 - line);
		line = cr + 1;
	}
	if (cause_is_echo(&s->frame, line, n))
		return;
	f = classify_line(r, line, n);
	if (f.verdict == VERDICT_UNKNOWN)
		return;
	if (!s->cause)
		s->cause = xcalloc(1, sizeof(*s->cause));
	if (cause_consider(s->cause, &f, line, n, s->offset)) {
		s->news = 1;
		free(s->later);
		s->later = NULL;
		return;
	}
	if (!cause_is_certain(s->cause) || s->offset - (s->later ? s->later : s->cause)->number < FAILURE_APART)
		return;
	if (!s->later)
		s->later = xcalloc(1, sizeof(*s->later));
	if (cause_strength(f.verdict, f.cls) == s->cause->strength) {
		s->later->strength = 0;
		cause_consider(s->later, &f, line, n, s->offset);
	}
}

/* The last one of lines far apart is the cause: the program went on after the others. */
static void choose_last(struct failure_scan *s)
{
	if (s->later && s->later->strength == s->cause->strength) {
		free(s->cause);
		s->cause = s->later;
		s->news = 1;
	} else {
		free(s->later);
	}
	s->later = NULL;
}

static void keep_part(struct failure_scan *s, const char *p, size_t n)
{
	size_t room = CLASSIFY_LINE_MAX - s->n;

	if (!s->line)
		s->line = xmalloc(CLASSIFY_LINE_MAX);
	memcpy(s->line + s->n, p, n < room ? n : room);
	s->n += n < room ? n : room;
}

/* A line that is whole in the chunk is read in place. */
static void end_line(struct failure_scan *s, struct classify_reader *r, const char *p, size_t n)
{
	if (s->line) {
		keep_part(s, p, n);
		judge_line(s, r, s->line, s->n);
		free(s->line);
		s->line = NULL;
		s->n = 0;
	} else {
		judge_line(s, r, p, n);
	}
}

void failure_scan_reset(struct failure_scan *s)
{
	free(s->line);
	s->line = NULL;
	s->n = 0;
}

void failure_scan_forget(struct failure_scan *s)
{
	free(s->cause);
	free(s->later);
	s->cause = s->later = NULL;
	s->news = 0;
}

int failure_scan_rest(const struct failure_scan *s)
{
	return s->line || s->n_tail || s->news || s->later;
}

void failure_scan_skip(struct failure_scan *s, const char *p, size_t n, uint64_t at)
{
	size_t keep;

	failure_scan_reset(s); /* the line's end may be far away */
	if (!s->tail)
		s->tail = xmalloc(FAILURE_TAIL);
	if (n >= FAILURE_TAIL) {
		memcpy(s->tail, p + n - FAILURE_TAIL, FAILURE_TAIL);
		s->n_tail = FAILURE_TAIL;
	} else {
		keep = s->n_tail + n > FAILURE_TAIL ? FAILURE_TAIL - n : s->n_tail;
		memmove(s->tail, s->tail + s->n_tail - keep, keep);
		memcpy(s->tail + keep, p, n);
		s->n_tail = keep + n;
	}
	s->offset = at + n;
}

void failure_scan_feed(struct failure_scan *s, struct classify_reader *r, const char *p, size_t n,
                       uint64_t at, int (*enough)(void *arg), void *arg)
{
	const char *end;
	size_t part;

	forget_tail(s);
	while (n && (end = memchr(p, '\n', n))) {
		part = (size_t)(end - p);
		at += part + 1;
		s->offset = at;
		end_line(s, r, p, part);
		p = end + 1;
		n -= part + 1;
		if (n && enough && enough(arg)) {
			failure_scan_skip(s, p, n, at);
			return;
		}
	}
	if (n)
		keep_part(s, p, n);
	s->offset = at + n;
}

void failure_scan_end(struct failure_scan *s, struct classify_reader *r)
{
	cleanup_free char *tail = s->tail;
	size_t n = s->n_tail;

	s->tail = NULL;
	s->n_tail = 0;
	if (tail)
		failure_scan_feed(s, r, tail, n, s->offset - n, NULL, NULL);
	if (s->line)
		end_line(s, r, "", 0);
	choose_last(s);
}
