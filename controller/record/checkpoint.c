/*
 * checkpoint: which steps a checkpoint folder holds, by its manifest (common/tree/steps.h). Of a run over
 * several nodes the entries lie below algo-K.
 */
#include "controller/record/checkpoint.h"

#include <string.h>

#include "common/tree/steps.h"
#include "common/tree/tree.h"

/* The entry's own name inside the folder; its length in *n. */
static const char *own_name(const char *path, size_t *n)
{
	const char *slash = strchr(path, '/');

	if (slash && strncmp(path, "algo-", 5) == 0)
		path = slash + 1;
	*n = strcspn(path, "/");
	return path;
}

static int on_entry(const struct tree_entry *en, void *arg, struct err *e)
{
	size_t n;
	const char *name = own_name(en->path, &n);

	(void)e;
	/* A node's folder is no checkpoint. */
	if (strchr(en->path, '/') || en->type != 'd' || strncmp(en->path, "algo-", 5) != 0)
		steps_add(arg, name, n);
	return 0;
}

int checkpoint_steps(const char *manifest, size_t n, struct steps *out, struct err *e)
{
	if (tree_each(manifest, n, on_entry, out, e) < 0)
		return -1;
	steps_sort(out);
	return 0;
}
