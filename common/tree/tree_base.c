/*
 * tree_base: which files of a manifest another one has, too, and a tree made from the other's. See tree.h.
 */
#include "common/tree/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/tree/tree_int.h"

static size_t line_length(const char *at, const char *end)
{
	const char *nl = memchr(at, '\n', (size_t)(end - at));

	return nl ? (size_t)(nl - at) + 1 : (size_t)(end - at);
}

static struct tree_set *file_lines(const char *manifest, size_t n)
{
	struct tree_set *set = tree_set_create();
	const char *end = manifest + n;

	for (size_t len; manifest < end; manifest += len) {
		len = line_length(manifest, end);
		if (*manifest == 'f')
			tree_set_add(set, manifest, len);
	}
	return set;
}

/* A line has mode, size, path and digests: equal lines are equal files. */
int tree_split(const char *manifest, size_t n, const char *base, size_t base_n, char **changed,
               size_t *changed_n, char **same, size_t *same_n, struct err *e)
{
	const char *end = manifest + n;
	struct tree_set *set;

	if (tree_each(manifest, n, NULL, NULL, e) < 0 || tree_each(base, base_n, NULL, NULL, e) < 0)
		return -1;
	set = file_lines(base, base_n);
	*changed = xmalloc(n + 1);
	*same = xmalloc(n + 1);
	*changed_n = *same_n = 0;
	for (size_t len; manifest < end; manifest += len) {
		int has;

		len = line_length(manifest, end);
		has = *manifest == 'f' && tree_set_has(set, manifest, len);
		if (!has) {
			memcpy(*changed + *changed_n, manifest, len);
			*changed_n += len;
		}
		if (has || *manifest != 'f') { /* folders, so that it is a manifest, too */
			memcpy(*same + *same_n, manifest, len);
			*same_n += len;
		}
	}
	tree_set_destroy(set);
	return 0;
}

/* ---- links -------------------------------------------------------------------------------------------- */

struct linker {
	int from, to;
};

static int link_file(const struct tree_entry *en, void *arg, struct err *e)
{
	const struct linker *l = arg;
	const char *name = strrchr(en->path, '/');
	cleanup_free char *above = name ? xstrndup(en->path, (size_t)(name - en->path)) : xstrdup(".");
	cleanup_close int from = -1, to = -1;

	if (en->type != 'f')
		return 0;
	from = fs_open_below(l->from, above, O_RDONLY | O_DIRECTORY, 0);
	to = from < 0 ? -1 : fs_open_below(l->to, above, O_RDONLY | O_DIRECTORY, 0);
	name = name ? name + 1 : en->path;
	if (to < 0 || linkat(from, name, to, name, 0) < 0)
		return err_sys(e, errno, "%s", en->path);
	return 0;
}

int tree_link(const char *manifest, size_t n, const char *from, const char *to, struct err *e)
{
	cleanup_close int in = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
	                  out = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct linker l = {.from = in, .to = out};

	if (in < 0 || out < 0)
		return err_sys(e, errno, "%s", in < 0 ? from : to);
	return tree_each(manifest, n, link_file, &l, e);
}
