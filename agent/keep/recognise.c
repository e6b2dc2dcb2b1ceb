/*
 * recognise: see recognise.h.
 */
#include "agent/keep/recognise.h"

#include <stdlib.h>
#include <string.h>

#include "agent/keep/convention.h"
#include "common/base/xalloc.h"
#include "common/tree/steps.h"

#define SLACK_US 100000u /* that the line of a step may reach the agent after the checkpoint */

/* ---- what was seen ---------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *name, int numbers)
{
	uint64_t h = 14695981039346656037u;

	for (; *name; name++)
		if (numbers || *name < '0' || *name > '9')
			h = (h ^ (unsigned char)*name) * 1099511628211u;
	return h;
}

struct keep_done keep_done_of(const char *name, uint64_t print, uint64_t changed_us)
{
	return (struct keep_done){
	    .name = hash_of(name, 1), .family = hash_of(name, 0), .print = print, .changed_us = changed_us};
}

static size_t oldest_done(const struct keep_done *list, size_t n)
{
	size_t oldest = 0;

	for (size_t i = 1; i < n; i++)
		if (list[i].changed_us < list[oldest].changed_us)
			oldest = i;
	return oldest;
}

void keep_done_add(struct keep_done *list, size_t *n, const struct keep_done *d)
{
	if (*n == KEEP_DONE) {
		size_t i = oldest_done(list, *n);

		memmove(&list[i], &list[i + 1], (--*n - i) * sizeof(*list));
	}
	list[(*n)++] = *d;
}

static int was_done(const struct keep_memory *m, uint64_t print)
{
	for (size_t i = 0; i < m->n_done; i++)
		if (m->done[i].print == print)
			return 1;
	return 0;
}

static int has_name(const struct keep_done *v, size_t n, uint64_t name)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].name == name)
			return 1;
	return 0;
}

static int was_named(const struct keep_memory *m, uint64_t name)
{
	return has_name(m->done, m->n_done, name) || has_name(m->before, m->n_before, name);
}

static int has_other(const struct keep_done *v, size_t n, const struct keep_done *d)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].family == d->family && v[i].name != d->name)
			return 1;
	return 0;
}

/* The number in the name is another one for each checkpoint. */
static int counts_up(const struct keep_memory *m, const char *name)
{
	struct keep_done d = keep_done_of(name, 0, 0);

	for (size_t i = 0; i < m->n_done; i++)
		if (m->done[i].family == d.family && m->done[i].again)
			return 0;
	return has_other(m->done, m->n_done, &d) || has_other(m->before, m->n_before, &d);
}

static void forget_until(struct keep_memory *m, uint64_t changed_us)
{
	m->past_us = changed_us > m->past_us ? changed_us : m->past_us;
}

void keep_memory_done(struct keep_memory *m, const struct keep_done *d)
{
	struct keep_done one = *d;

	if (was_done(m, d->print))
		return;
	one.again = was_named(m, d->name);
	keep_done_add(m->done, &m->n_done, &one);
	if (m->n_done == KEEP_DONE)
		forget_until(m, m->done[oldest_done(m->done, m->n_done)].changed_us);
}

static void remember_before(struct keep_memory *m, const char *name)
{
	struct keep_done d = keep_done_of(name, 0, 0);

	if (m->n_before < KEEP_NAMES && !has_name(m->before, m->n_before, d.name))
		m->before[m->n_before++] = d;
}

static struct keep_seen *find_seen(struct keep_memory *m, const char *name)
{
	uint64_t hash = hash_of(name, 1);

	for (size_t i = 0; i < m->n; i++)
		if (m->seen[i].hash == hash && strcmp(m->seen[i].name, name) == 0)
			return &m->seen[i];
	return NULL;
}

/* Makes room for another name: the oldest that was judged is not judged again. NULL: none of them was. */
static struct keep_seen *evict_seen(struct keep_memory *m)
{
	struct keep_seen *oldest = NULL;

	for (size_t i = 0; i < m->n; i++)
		if (m->seen[i].done && !m->seen[i].fresh && (!oldest || m->seen[i].changed_us < oldest->changed_us))
			oldest = &m->seen[i];
	if (!oldest)
		return NULL;
	forget_until(m, oldest->changed_us);
	free(oldest->name);
	return oldest;
}

static struct keep_seen *add_seen(struct keep_memory *m, const char *name)
{
	struct keep_seen *s;

	if (m->n == m->cap && m->n < KEEP_NAMES) {
		m->cap = m->cap ? 2 * m->cap : 16;
		m->seen = xreallocarray(m->seen, m->cap, sizeof(*m->seen));
	}
	s = m->n < KEEP_NAMES ? &m->seen[m->n++] : evict_seen(m);
	if (s)
		*s = (struct keep_seen){
		    .name = xstrdup(name), .hash = hash_of(name, 1), .times = was_named(m, hash_of(name, 1)) ? 1 : 0};
	return s;
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

void keep_memory_again(struct keep_memory *m, const char *name, uint64_t print)
{
	struct keep_seen *s = find_seen(m, name);

	for (size_t i = 0; i < m->n_done; i++)
		if (m->done[i].print == print)
			m->done[i] = (struct keep_done){0};
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

/* A folder that is written again in place: the hearth.json of the save before says nothing of this one. */
static int is_old_manifest(const struct convention *c, const struct shape *s, const struct keep_seen *seen)
{
	return c->marked_us && seen->times && s->written_us > c->marked_us;
}

static enum verdict judge_entry(struct finder *f, const struct convention *c, const struct shape *s,
                                const struct keep_seen *seen)
{
	if (c->mark == MARK_NEVER || s->denied || s->files == 0)
		return NOT_YET;
	if (c->mark == MARK_MISSING || s->unfinished || is_old_manifest(c, s, seen))
		return f->at->over ? TORN : NOT_YET;
	if (c->mark == MARK_QUIET)
		return judge_quiet(f, seen);
	return s->open && strcmp(c->format, "hearth") != 0 ? (f->at->over ? TORN : NOT_YET) : WHOLE;
}

static void remember_shape(struct finder *f, struct keep_seen *seen, const struct shape *s, uint64_t print)
{
	seen->alive = 1;
	seen->changed_us = s->changed_us;
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
	int named = strcmp(c->step_by, "name") == 0, again = seen->times > 0 && named;

	out->step = again ? -1 : c->step;
	out->step_by = c->step_by;
	if (again && strcmp(c->format, "plain") == 0)
		out->format = "overwrite";
	if ((named || strcmp(c->format, "hearth") == 0) && strcmp(c->format, "rename") != 0 &&
	    (seen->times || !counts_up(f->m, seen->name)))
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

static void add_found(struct finder *f, int ranks, const struct convention *c, const struct shape *s,
                      struct keep_seen *seen, const char *torn)
{
	struct keep_found k = {.name = seen->name,
	                       .ranks = ranks,
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
	seen->done = seen->fresh = 1;
	if (!torn) {
		struct keep_done d = keep_done_of(seen->name, seen->print, seen->changed_us);

		seen->times++;
		keep_memory_done(f->m, &d);
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

/* Where all names are of this look, the next one follows at once: it may forget them. */
static struct keep_seen *see_entry(struct finder *f, const char *path, const struct shape *s)
{
	struct keep_seen *seen = find_seen(f->m, path);
	size_t fresh = 0;

	if (seen || s->changed_us <= f->m->past_us)
		return seen;
	seen = add_seen(f->m, path);
	if (seen)
		return seen;
	for (size_t i = 0; i < f->m->n; i++)
		fresh += (size_t)f->m->seen[i].fresh;
	if (fresh)
		look_at(f, f->at->now_us);
	else
		f->m->full = 1;
	return NULL;
}

static enum verdict look_shape(struct finder *f, const char *path, const struct convention *c,
                               const struct shape *s, uint64_t print, int ranks)
{
	struct keep_seen *seen = see_entry(f, path, s);
	enum verdict v;

	if (!seen)
		return NOT_YET;
	remember_shape(f, seen, s, print);
	v = seen->done ? NOT_YET : judge_entry(f, c, s, seen);
	if (v != NOT_YET)
		add_found(f, ranks, c, s, seen, v == WHOLE ? NULL : "its writer ended before it was complete");
	return v;
}

static void look_entry(struct finder *f, size_t i, const struct convention *c)
{
	struct shape s = shape_of(f->l, i);

	if (s.changed_us < f->at->from_us)
		remember_before(f->m, f->l->items[i].path);
	else if (c->mark != MARK_NEVER)
		look_shape(f, f->l->items[i].path, c, &s, listing_print(f->l, i), 0);
}

/* ---- what several ranks write ------------------------------------------------------------------------- */

static int is_plain(const struct convention *c)
{
	return c->mark > MARK_INSIDE && c->mark != MARK_NEVER &&
	       (strcmp(c->format, "plain") == 0 || strcmp(c->format, "overwrite") == 0 ||
	        strcmp(c->format, "rename") == 0);
}

static void add_shape(struct shape *to, const struct shape *s)
{
	to->bytes += s->bytes;
	to->files += s->files;
	to->written_us = s->written_us > to->written_us ? s->written_us : to->written_us;
	to->changed_us = s->changed_us > to->changed_us ? s->changed_us : to->changed_us;
	to->born_us = !to->born_us || (s->born_us && s->born_us < to->born_us) ? s->born_us : to->born_us;
	to->open |= s->open;
	to->denied |= s->denied;
	to->unfinished |= s->unfinished;
}

/* How many there were before: some rank may not have begun. Names that differ in numbers alone share it. */
static uint32_t *ranks_before(struct keep_memory *m, const char *path)
{
	uint64_t family = hash_of(path, 0);

	for (size_t i = 0; i < m->n_ranks; i++)
		if (m->ranks[i].family == family)
			return &m->ranks[i].before;
	if (m->n_ranks == KEEP_RANKS)
		memmove(m->ranks, m->ranks + 1, --m->n_ranks * sizeof(*m->ranks));
	m->ranks[m->n_ranks] = (struct keep_ranks){.family = family};
	return &m->ranks[m->n_ranks++].before;
}

/* The entries of one folder by their rank names. */
struct ranks {
	char **names;    /* of item first + k; NULL none */
	uint8_t *looked; /* it was looked at with others of its name */
	size_t *order;   /* the items with names, sorted by them */
	size_t n, first, end;
};

static size_t first_of_name(const struct ranks *r, const char *name)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(r->names[r->order[mid] - r->first], name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* All entries of the rank name of item i. */
static void look_ranks(struct finder *f, struct ranks *r, size_t i, const struct convention *c)
{
	const char *path = f->l->items[i].path, *slash = strrchr(path, '/');
	const char *name = r->names[i - r->first];
	cleanup_free char *whole = xasprintf("%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name);
	struct convention one = {.mark = MARK_QUIET,
	                         .format = c->step < 0 ? "overwrite" : "plain",
	                         .step = c->step,
	                         .step_by = "name",
	                         .linkable = c->step >= 0};
	struct shape s = {0};
	uint64_t print = 0;
	uint32_t n = 0, *before = ranks_before(f->m, whole);

	for (size_t o = first_of_name(r, name); o < r->n; o++) {
		size_t k = r->order[o];
		struct shape own;

		if (strcmp(r->names[k - r->first], name) != 0)
			break;
		own = shape_of(f->l, k);
		add_shape(&s, &own);
		print += listing_part_print(f->l, k);
		r->looked[k - r->first] = 1;
		n++;
	}
	if (s.changed_us < f->at->from_us)
		remember_before(f->m, whole);
	if (s.changed_us < f->at->from_us || (n < *before && (!f->at->over || f->at->bad_end_us)))
		return;
	if (look_shape(f, whole, &one, &s, print, 1) == WHOLE)
		*before = n;
}

/* A program that commits its checkpoints may pause between two files of one. */
static int lacks_manifest(const struct finder *f, size_t i, const struct convention *c)
{
	f->m->manifests |= c->mark == MARK_WHOLE && strcmp(c->format, "hearth") == 0;
	return f->m->manifests && f->l->items[i].type == 'd' && strcmp(c->format, "plain") == 0;
}

static int by_rank_name(const void *a, const void *b, void *arg)
{
	const struct ranks *r = arg;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	int order = strcmp(r->names[x - r->first], r->names[y - r->first]);

	return order ? order : x < y ? -1 : x > y;
}

static struct ranks find_ranks(const struct finder *f, size_t first, size_t end)
{
	struct ranks r = {.names = xcalloc(end - first + 1, sizeof(*r.names)),
	                  .looked = xcalloc(end - first + 1, sizeof(*r.looked)),
	                  .order = xcalloc(end - first + 1, sizeof(*r.order)),
	                  .first = first,
	                  .end = end};

	for (size_t i = first; i < end; i = listing_after(f->l, i)) {
		const char *slash = strrchr(f->l->items[i].path, '/');

		if (f->l->items[i].type == 'f' || f->l->items[i].type == 'd')
			r.names[i - first] = listing_rank_name(slash ? slash + 1 : f->l->items[i].path);
		if (r.names[i - first])
			r.order[r.n++] = i;
	}
	qsort_r(r.order, r.n, sizeof(*r.order), by_rank_name, &r);
	return r;
}

static void free_ranks(struct ranks *r)
{
	for (size_t k = 0; k < r->end - r->first; k++)
		free(r->names[k]);
	free(r->names);
	free(r->looked);
	free(r->order);
}

static void look_folder(struct finder *f, size_t first, size_t end, int depth)
{
	struct ranks r = find_ranks(f, first, end);
	struct siblings all;

	siblings_init(&all, f->l, first, end);
	for (size_t i = first; i < end; i = listing_after(f->l, i)) {
		struct convention c = convention_of(&all, i, f->at);

		if (r.looked[i - first] || (c.mark > MARK_INSIDE && lacks_manifest(f, i, &c)))
			continue;
		if (c.mark == MARK_INSIDE && depth < LISTING_DEPTH)
			look_folder(f, i + 1, listing_after(f->l, i), depth + 1);
		else if (r.names[i - first] && is_plain(&c))
			look_ranks(f, &r, i, &c);
		else if (c.mark > MARK_INSIDE)
			look_entry(f, i, &c);
	}
	siblings_fini(&all);
	free_ranks(&r);
}

size_t recognise(struct keep_memory *m, const struct listing *l, const struct keep_moment *at,
                 struct keep_found *out, size_t max, uint64_t *look_us)
{
	struct finder f = {.m = m, .l = l, .at = at, .out = out, .max = max};

	m->full = 0;
	for (size_t i = 0; i < m->n; i++)
		m->seen[i].alive = m->seen[i].fresh = 0;
	if (max)
		look_folder(&f, 0, l->n, 0);
	if (!l->cut)
		forget_gone(m);
	*look_us = f.look_us;
	return f.n;
}
