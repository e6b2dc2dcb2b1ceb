/*
 * derive: an edited source tree out of the one that the pool's last job had.
 *
 * Both trees are in the cache, where nobody writes: a file that is equal gets one more name instead of a
 * copy. Equal means that the manifests have the same digests for it, so its bytes were checked when the first
 * of these trees was written. Jobs never get such names (layer.c, copy.c).
 */
#include <string.h>

#include "agent/stage/stage_int.h"
#include "common/base/hash.h"
#include "common/os/fsutil.h"
#include "common/tree/tree.h"

struct parts { /* manifests */
	char *changed, *same;
	size_t changed_n, same_n;
};

static int never_wait(void *arg)
{
	(void)arg;
	return -1;
}

static int split(const char *blobs, const char *base, const char *manifest, size_t n, struct parts *p,
                 struct err *e)
{
	cleanup_free char *old = NULL;
	size_t old_n;

	if (blob_get(blobs, base, TREE_MANIFEST_MAX, &old, &old_n, e) < 0)
		return -1;
	return tree_split(manifest, n, old, old_n, &p->changed, &p->changed_n, &p->same, &p->same_n, e);
}

static int build(struct stage *s, const struct cache_entry *base, const char *blobs, const struct parts *p,
                 const char *tree, struct err *e)
{
	cleanup_free char *from = xasprintf("%s/tree", base->dir), *path = xstrdup(tree);

	if (tree_extract(p->changed, p->changed_n, blobs, tree, NULL, e) < 0 ||
	    tree_link(p->same, p->same_n, from, tree, e) < 0)
		return -1;
	/* They share files, so they have one owner. */
	return s->as_user ? stage_give_tree(s, path, e) : 0;
}

static int derive_from(struct stage *s, struct cache_entry *base, const char *blobs, const char *manifest,
                       size_t n, const char *tree,
                       int (*get)(struct stage *s, const char *blobs, const char *manifest, size_t n,
                                  struct err *e),
                       struct err *e)
{
	cleanup_free char *old = xasprintf("%s/tree", base->dir);
	struct parts p = {0};
	struct tree_stats all = {0}, more = {0};
	int rc = stage_own_tree(s, base, old, e);

	if (rc > 0)
		rc = split(blobs, s->base, manifest, n, &p, e) == 0 &&
		             get(s, blobs, p.changed, p.changed_n, e) == 0 && build(s, base, blobs, &p, tree, e) == 0
		         ? 1
		         : -1;
	if (rc > 0 && tree_measure(manifest, n, &all, NULL) == 0 &&
	    tree_measure(p.changed, p.changed_n, &more, NULL) == 0)
		stage_say(s, "%llu of %llu files are written, the others are those of the last source",
		          (unsigned long long)more.files, (unsigned long long)all.files);
	free(p.changed);
	free(p.same);
	return rc;
}

int stage_derive(struct stage *s, const char *blobs, const char *manifest, size_t n, const char *tree,
                 int (*get)(struct stage *s, const char *blobs, const char *manifest, size_t n,
                            struct err *e),
                 struct err *e)
{
	cleanup_free char *kind = xasprintf("%s/cache/trees", s->data_dir);
	struct cache_entry base;
	int rc;

	if (!s->base)
		return 0;
	/* No wait: two launches may each make what the other one begins with. */
	if (cache_open(&base, kind, s->base, 0700, never_wait, NULL, e) < 0)
		return 0;
	rc = base.complete ? derive_from(s, &base, blobs, manifest, n, tree, get, e) : 0;
	if (rc > 0)
		cache_outdate(&base);
	cache_close(&base);
	if (rc < 0 && !worker_cancelled(s->w) && fs_rm_rf(tree, e) == 0)
		return 0; /* the ordinary way says what is wrong */
	return rc;
}
