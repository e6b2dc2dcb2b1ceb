/*
 * checkpoint: which steps a checkpoint folder holds, by its manifest (common/tree/steps.h). A run on
 * several nodes has one folder algo-K for each node, with the entries inside.
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
	/* The folder of a node does not count as a checkpoint. */
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
