/*
 * recognise: see recognise.h.
 */
#include "agent/keep/recognise.h"

#include <string.h>

#include "agent/keep/convention.h"
#include "common/base/xalloc.h"
#include "common/tree/steps.h"

#define SLACK_US 100000u /* that the line of a step may reach the agent after the checkpoint */

/* ---- what was seen ---------------------------------------------------------------------------------- */

static struct keep_seen *find_seen(struct keep_memory *m, const char *name)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->seen[i].name, name) == 0)
			return &m->seen[i];
	if (m->n >= KEEP_NAMES)
		return NULL;
	if (m->n == m->cap) {
		m->cap = m->cap ? 2 * m->cap : 16;
		m->seen = xreallocarray(m->seen, m->cap, sizeof(*m->seen));
	}
	m->seen[m->n] = (struct keep_seen){.name = xstrdup(name)};
	return &m->seen[m->n++];
}

static void forget_gone(struct keep_memory *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++) {
		if (m->seen[i].alive)
			m->seen[n++] = m->seen[i];
		else
			free(m->seen[i].name);
	}
	m->n = n;
}

static int was_done(const struct keep_memory *m, uint64_t print)
{
	size_t n = m->n_done < KEEP_DONE ? (size_t)m->n_done : KEEP_DONE;

	for (size_t i = 0; i < n; i++)
		if (m->done[i] == print)
			return 1;
	return 0;
}

void keep_memory_done(struct keep_memory *m, uint64_t print)
{
	if (!was_done(m, print))
		m->done[m->n_done++ % KEEP_DONE] = print;
}

void keep_memory_again(struct keep_memory *m, const char *name, uint64_t print)
{
	struct keep_seen *s = find_seen(m, name);

	for (size_t i = 0; i < KEEP_DONE; i++)
		if (m->done[i] == print)
			m->done[i] = 0;
	if (!s || s->print != print)
		return;
	s->done = 0;
	if (s->times)
		s->times--;
}

void keep_memory_fini(struct keep_memory *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->seen[i].name);
	free(m->seen);
	*m = (struct keep_memory){0};
}

/* ---- an entry as a whole ----------------------------------------------------------------------------- */

struct shape {
	uint64_t bytes, written_us, changed_us, born_us;
	uint32_t files;
	int open, denied, unfinished;
};

static int is_unfinished(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	while (*name == '.')
		name++; /* .metadata is finished, .metadata.tmp is not */
	return !*name || steps_is_unfinished(name, strlen(name));
}

static void add_file(struct shape *s, const struct listing_item *it)
{
	s->files++;
	s->bytes += it->type == 'f' ? it->size : 0;
	if (it->mtime_ns / 1000 > s->written_us)
		s->written_us = it->mtime_ns / 1000;
	if (it->ctime_ns / 1000 > s->changed_us)
		s->changed_us = it->ctime_ns / 1000;
	if (it->born_ns && (!s->born_us || it->born_ns / 1000 < s->born_us))
		s->born_us = it->born_ns / 1000;
	s->open |= (it->flags & LISTING_OPEN) != 0;
	s->denied |= (it->flags & LISTING_DENIED) != 0;
}

static struct shape shape_of(const struct listing *l, size_t i)
{
	struct shape s = {0};

	for (size_t k = i, end = listing_after(l, i); k < end; k++) {
		if (l->items[k].type != 'd')
			add_file(&s, &l->items[k]);
		else
			s.denied |= (l->items[k].flags & LISTING_DENIED) != 0;
		if (k > i)
			s.unfinished |= is_unfinished(l->items[k].path);
	}
	return s;
}

/* ---- its step ---------------------------------------------------------------------------------------- */

/* The newest step that was reported when it was closed. A line may reach the agent a little later than the
 * file reaches the disk, but not by a large part of the time between two steps. */
static int64_t metric_step(const struct keep_moment *at, uint64_t closed_us)
{
	uint64_t slack = SLACK_US, span;
	int64_t step = -1;

	if (at->n_steps > 1) {
		span = (at->steps[at->n_steps - 1].at_us - at->steps[0].at_us) / (at->n_steps - 1);
		slack = span / 4 < slack ? span / 4 : slack;
	}
	for (uint32_t i = 0; i < at->n_steps; i++)
		if (at->steps[i].at_us <= closed_us + slack)
			step = at->steps[i].step;
	return step;
}

/* ---- the verdict ------------------------------------------------------------------------------------- */

struct finder {
	struct keep_memory *m;
	const struct listing *l;
	const struct keep_moment *at;
	struct keep_found *out;
	size_t n, max;
	uint64_t look_us;
};

static void look_at(struct finder *f, uint64_t when_us)
{
	if (!f->look_us || when_us < f->look_us)
		f->look_us = when_us;
}

enum verdict { NOT_YET, WHOLE, TORN };

/* A killed writer closes its files, too: a close counts when the rank outlives the quiet time, or ends well.
 */
static enum verdict judge_quiet(struct finder *f, const struct keep_seen *s)
{
	const struct keep_moment *at = f->at;

	if (!s->closed_us)
		return at->over ? TORN : NOT_YET;
	if (at->bad_end_us && at->bad_end_us < s->closed_us + KEEP_QUIET_US)
		return at->over ? TORN : NOT_YET;
	if (at->over || at->now_us >= s->closed_us + KEEP_QUIET_US)
		return WHOLE;
	look_at(f, s->closed_us + KEEP_QUIET_US);
	return NOT_YET;
}

static enum verdict judge_entry(struct finder *f, const struct convention *c, const struct shape *s,
                                const struct keep_seen *seen)
{
	if (c->mark == MARK_NEVER || s->denied || s->files == 0)
		return NOT_YET;
	if (c->mark == MARK_MISSING || s->unfinished)
		return f->at->over ? TORN : NOT_YET;
	if (c->mark == MARK_QUIET)
		return judge_quiet(f, seen);
	return s->open && strcmp(c->format, "hearth") != 0 ? (f->at->over ? TORN : NOT_YET) : WHOLE;
}

static void remember_shape(struct finder *f, struct keep_seen *seen, const struct shape *s, uint64_t print)
{
	seen->alive = 1;
	if (seen->print != print) {
		seen->print = print;
		seen->since_us = f->l->at_us;
		seen->closed_us = 0;
		seen->done = was_done(f->m, print);
	}
	if (s->open)
		seen->closed_us = 0;
	else if (!seen->closed_us)
		seen->closed_us = f->l->at_us;
}

/* A name that is written again and again has no step, whatever number is in it. */
static void choose_step(const struct finder *f, const struct convention *c, const struct keep_seen *seen,
                        const struct shape *s, struct keep_found *out)
{
	int again = seen->times > 0 && strcmp(c->step_by, "name") == 0;

	out->step = again ? -1 : c->step;
	out->step_by = c->step_by;
	if (again && strcmp(c->format, "plain") == 0)
		out->format = "overwrite";
	if (again && strcmp(c->format, "rename") != 0)
		out->linkable = 0;
	if (out->step >= 0)
		return;
	out->step = metric_step(f->at, s->changed_us);
	out->step_by = "metric";
}

static uint64_t save_time(const struct shape *s, const struct keep_seen *seen)
{
	uint64_t from = seen->times ? seen->since_us : s->born_us;

	return from && from < s->written_us ? s->written_us - from : 0;
}

static void add_found(struct finder *f, size_t i, const struct convention *c, const struct shape *s,
                      struct keep_seen *seen, const char *torn)
{
	struct keep_found k = {.name = f->l->items[i].path,
	                       .format = c->format,
	                       .shards = c->shards,
	                       .files = s->files,
	                       .bytes = s->bytes,
	                       .print = seen->print,
	                       .at_us = s->changed_us,
	                       .save_us = save_time(s, seen),
	                       .linkable = c->linkable,
	                       .torn = torn};
	size_t at = f->n;

	choose_step(f, c, seen, s, &k);
	seen->done = 1;
	if (!torn) {
		seen->times++;
		keep_memory_done(f->m, seen->print);
	}
	if (at == f->max) {
		if (f->out[at - 1].at_us >= k.at_us)
			return;
		at--;
	} else {
		f->n++;
	}
	for (; at && f->out[at - 1].at_us < k.at_us; at--)
		f->out[at] = f->out[at - 1];
	f->out[at] = k;
}

static void look_entry(struct finder *f, size_t i, const struct convention *c)
{
	struct shape s = shape_of(f->l, i);
	struct keep_seen *seen;
	enum verdict v;

	if (s.changed_us < f->at->from_us || c->mark == MARK_NEVER)
		return;
	seen = find_seen(f->m, f->l->items[i].path);
	if (!seen)
		return;
	remember_shape(f, seen, &s, listing_print(f->l, i));
	if (seen->done)
		return;
	v = judge_entry(f, c, &s, seen);
	if (v == NOT_YET)
		return;
	add_found(f, i, c, &s, seen, v == WHOLE ? NULL : "its writer ended before it was complete");
}

/* A program that commits its checkpoints may pause between two files of one. */
static int lacks_manifest(const struct finder *f, size_t i, const struct convention *c)
{
	f->m->manifests |= c->mark == MARK_WHOLE && strcmp(c->format, "hearth") == 0;
	return f->m->manifests && f->l->items[i].type == 'd' && strcmp(c->format, "plain") == 0;
}

static void look_folder(struct finder *f, size_t first, size_t end, int depth)
{
	for (size_t i = first; i < end; i = listing_after(f->l, i)) {
		struct convention c = convention_of(f->l, i, first, end, f->at);

		if (c.mark == MARK_INSIDE && depth < LISTING_DEPTH)
			look_folder(f, i + 1, listing_after(f->l, i), depth + 1);
		else if (c.mark > MARK_INSIDE && !lacks_manifest(f, i, &c))
			look_entry(f, i, &c);
	}
}

size_t recognise(struct keep_memory *m, const struct listing *l, const struct keep_moment *at,
                 struct keep_found *out, size_t max, uint64_t *look_us)
{
	struct finder f = {.m = m, .l = l, .at = at, .out = out, .max = max};

	for (size_t i = 0; i < m->n; i++)
		m->seen[i].alive = 0;
	if (max)
		look_folder(&f, 0, l->n, 0);
	if (!l->cut)
		forget_gone(m);
	*look_us = f.look_us;
	return f.n;
}
