/*
 * checkpoint: which steps a checkpoint folder holds, by its manifest. The step of an entry is the last whole
 * number in its name (step-1200, model_1200.pt); of a run over several nodes the entries lie below algo-K.
 */
#include "controller/checkpoint.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/tree.h"

#define SHOWN 12 /* steps named in an error */

struct steps {
	int64_t want, shown[SHOWN];
	unsigned n, more;
	int found;
};

/* The entry's own name inside the folder; its length in *n. */
static const char *own_name(const char *path, size_t *n)
{
	const char *slash = strchr(path, '/');

	if (slash && strncmp(path, "algo-", 5) == 0)
		path = slash + 1;
	*n = strcspn(path, "/");
	return path;
}

int64_t checkpoint_step_of(const char *name, size_t n)
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
	return (int64_t)step;
}

static int on_entry(const struct tree_entry *en, void *arg, struct err *e)
{
	struct steps *s = arg;
	size_t n;
	const char *name = own_name(en->path, &n);
	int64_t step;

	(void)e;
	if (!strchr(en->path, '/') && en->type == 'd' && strncmp(en->path, "algo-", 5) == 0)
		return 0; /* a node's folder is no checkpoint */
	step = checkpoint_step_of(name, n);
	if (step < 0 || *name == '.')
		return 0;
	s->found |= step == s->want;
	for (unsigned i = 0; i < s->n; i++)
		if (s->shown[i] == step)
			return 0;
	if (s->n < SHOWN)
		s->shown[s->n++] = step;
	else
		s->more++;
	return 0;
}

int checkpoint_has_step(const char *manifest, size_t n, int64_t step, struct err *e)
{
	struct steps s = {.want = step};
	char list[SHOWN * 21 + 8] = "";
	size_t used = 0;

	if (tree_each(manifest, n, on_entry, &s, e) < 0)
		return -1;
	if (s.found)
		return 0;
	for (unsigned i = 0; i < s.n; i++)
		used +=
		    (size_t)snprintf(list + used, sizeof list - used, "%s%lld", i ? ", " : "", (long long)s.shown[i]);
	if (!s.n)
		return err_set(e, ERR_NOT_FOUND, "it holds no step %lld: no name in it has a number",
		               (long long)step);
	return err_set(e, ERR_NOT_FOUND, "it holds no step %lld; there %s %s%s", (long long)step,
	               s.n == 1 ? "is" : "are", list, s.more ? " ..." : "");
}
