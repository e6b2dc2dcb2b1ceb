/*
 * steps: see steps.h.
 */
#include "common/tree/steps.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/xalloc.h"
#include "common/tree/tree.h"

#define STEP_MAX ((uint64_t)1 << 53) /* JSON has no greater number exactly: it could not be asked for */

int64_t steps_last_number(const char *name, size_t n)
{
	uint64_t step = 0;
	size_t end = n, begin;

	while (end && !isdigit((unsigned char)name[end - 1]))
		end--;
	for (begin = end; begin && isdigit((unsigned char)name[begin - 1]);)
		begin--;
	if (begin == end || end - begin > 18)
		return -1;
	for (size_t i = begin; i < end; i++)
		step = step * 10 + (uint64_t)(name[i] - '0');
	return step <= STEP_MAX ? (int64_t)step : -1;
}

static int ends_with(const char *name, size_t n, const char *end)
{
	size_t k = strlen(end);

	return n > k && memcmp(name + n - k, end, k) == 0;
}

int steps_is_unfinished(const char *name, size_t n)
{
	static const char *const unfinished[] = {".tmp", ".part", ".partial", "~"};

	if (!n || *name == '.')
		return 1;
	if (n > 4 && memcmp(name, "tmp", 3) == 0 && strchr("-_.", name[3]))
		return 1;
	for (size_t i = 0; i < sizeof(unfinished) / sizeof(*unfinished); i++)
		if (ends_with(name, n, unfinished[i]))
			return 1;
	return 0;
}

int64_t steps_entry(const char *name, size_t n)
{
	return steps_is_unfinished(name, n) ? -1 : steps_last_number(name, n);
}

int steps_is_later(const char *relpath, int64_t last)
{
	const char *slash = strchr(relpath, '/');

	if (last < 0)
		return 0;
	if (strncmp(relpath, "algo-", 5) == 0) {
		if (!slash)
			return 0;
		relpath = slash + 1;
		slash = strchr(relpath, '/');
	}
	return !slash && steps_entry(relpath, strlen(relpath)) > last;
}

static void add_step(struct steps *s, int64_t step)
{
	s->found |= step == s->want;
	/* The files of one step come one after the other. */
	if (s->n && s->v[s->n - 1] == step)
		return;
	if (s->n >= STEPS_MAX && !s->full) {
		steps_sort(s);
		s->full = s->n >= STEPS_MAX;
	}
	if (s->full)
		return;
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 16;
		s->v = xreallocarray(s->v, s->cap, sizeof(*s->v));
	}
	s->v[s->n++] = step;
}

void steps_add(struct steps *s, const char *name, size_t n)
{
	int64_t step = steps_entry(name, n);

	if (step >= 0)
		add_step(s, step);
}

static int by_number(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

void steps_sort(struct steps *s)
{
	size_t n = 0;

	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), by_number);
	for (size_t i = 0; i < s->n; i++)
		if (!n || s->v[n - 1] != s->v[i])
			s->v[n++] = s->v[i];
	s->n = n;
}

void steps_merge(struct steps *s, const struct steps *other)
{
	s->found |= other->found;
	for (size_t i = 0; i < other->n; i++)
		add_step(s, other->v[i]);
	steps_sort(s);
}

void steps_common(struct steps *s, struct steps *other)
{
	size_t n = 0, k = 0;

	steps_sort(s);
	steps_sort(other);
	for (size_t i = 0; i < s->n; i++) {
		while (k < other->n && other->v[k] < s->v[i])
			k++;
		if (k < other->n && other->v[k] == s->v[i])
			s->v[n++] = s->v[i];
	}
	s->n = n;
	s->found = s->found && other->found;
}

int steps_check(struct steps *s, struct err *e)
{
	char list[STEPS_SHOWN * 21 + 8] = "", more[40] = "";
	size_t used = 0, first;

	if (s->found)
		return 0;
	steps_sort(s);
	if (!s->n)
		return err_set(e, ERR_NOT_FOUND, "it holds no step %" PRId64 ": no name in it has a number", s->want);
	first = s->n > STEPS_SHOWN ? s->n - STEPS_SHOWN : 0; /* the newest are those that one wants */
	for (size_t i = first; i < s->n; i++)
		used +=
		    (size_t)snprintf(list + used, sizeof(list) - used, "%s%" PRId64, i > first ? ", " : "", s->v[i]);
	if (first)
		snprintf(more, sizeof(more), " and %zu before these", first);
	return err_set(e, ERR_NOT_FOUND, "it holds no step %" PRId64 "; there %s %s%s", s->want,
	               s->n == 1 ? "is" : "are", list, more);
}

void steps_fini(struct steps *s)
{
	free(s->v);
	*s = (struct steps){0};
}

/* ---- manifests ------------------------------------------------------------------------------- */

/* The entry's own name inside the folder; its length in *n. */
static const char *own_name(const char *path, size_t *n)
{
	const char *slash = strchr(path, '/');

	if (slash && strncmp(path, "algo-", 5) == 0)
		path = slash + 1;
	*n = strcspn(path, "/");
	return path;
}

static int add_entry(const struct tree_entry *en, void *arg, struct err *e)
{
	size_t n;
	const char *name = own_name(en->path, &n);

	(void)e;
	/* The folder of a node does not count as a checkpoint. */
	if (strchr(en->path, '/') || en->type != 'd' || strncmp(en->path, "algo-", 5) != 0)
		steps_add(arg, name, n);
	return 0;
}

int steps_of_tree(const char *manifest, size_t n, struct steps *s, struct err *e)
{
	if (tree_each(manifest, n, add_entry, s, e) < 0)
		return -1;
	steps_sort(s);
	return 0;
}
