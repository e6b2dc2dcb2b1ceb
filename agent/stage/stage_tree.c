/*
 * stage_tree: trees out of hearthd's store, by way of the node's caches, and files of this node, into the
 * job's folders.
 *
 *   DATA/cache/blobs        chunks and manifests
 *   DATA/cache/trees/DIGEST the extracted tree in `tree`
 *
 * Only the agent reads the caches; the job gets a copy of its own (a reflink where the file system can),
 * because it may change it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/copy.h"
#include "agent/stage/stage_int.h"
#include "common/base/fault.h"
#include "common/base/strutil.h"
#include "common/os/fsutil.h"
#include "common/tree/tree.h"

int stage_open_below(struct stage *s, const char *to, struct err *e)
{
	const char *name = strrchr(to, '/');
	cleanup_free char *above = name ? xstrndup(to, (size_t)(name - to)) : NULL;
	cleanup_close int in = above ? fs_open_below(s->ml_fd, above, O_RDONLY | O_DIRECTORY, 0) : -1;
	int at = above ? in : s->ml_fd, fd;

	name = name ? name + 1 : to;
	if (at < 0 || (mkdirat(at, name, 0755) < 0 && errno != EEXIST))
		return err_sys(e, errno, "%s/%s", s->ml, to);
	fd = fs_open_below(at, name, O_RDONLY | O_DIRECTORY, 0);
	return fd < 0 ? err_sys(e, errno, "%s/%s", s->ml, to) : fd;
}

int stage_give(struct stage *s, int fd, struct err *e)
{
	if (s->as_user && fchown(fd, s->user.uid, s->user.gid) < 0)
		return err_sys(e, errno, "%s: owner", s->ml);
	return 0;
}

static int count_step(uint64_t bytes, void *arg)
{
	struct stage *s = arg;

	s->bytes += bytes;
	return stage_step(s, bytes);
}

int stage_check_room(struct stage *s, uint64_t need, const char *what, struct err *e)
{
	uint64_t left;
	char a[32], b[32];

	if (stage_left(s, &left) && need > left)
		return err_set(e, ERR_LIMIT, "%s needs %s, but the job's disk limit leaves %s", what,
		               str_size(need, a, sizeof(a)), str_size(left, b, sizeof(b)));
	return 0;
}

#define AHEAD_LEAVES 10 /* what may never be needed leaves a tenth of the disk free */

/* Before the disk is filled: a small manifest may stand for a large tree. */
static int check_space(const struct stage *s, uint64_t need, struct err *e)
{
	uint64_t left, total;
	char a[32], b[32];

	if (fs_disk_free(s->data_dir, &left, &total, e) < 0)
		return -1;
	if (s->ahead && (need > left || left - need < total / AHEAD_LEAVES))
		return err_set(e, ERR_NOSPACE, "the tree needs %s, and too little of %s would be left free",
		               str_size(need, a, sizeof(a)), s->data_dir);
	if (need > left) {
		stage_make_room(s, need);
		if (fs_disk_free(s->data_dir, &left, &total, e) < 0)
			return -1;
	}
	if (need <= left)
		return 0;
	return err_set(e, ERR_NOSPACE, "the tree needs %s, but %s has %s left", str_size(need, a, sizeof(a)),
	               s->data_dir, str_size(left, b, sizeof(b)));
}

int stage_room_ahead(const struct stage *s, uint64_t *left, struct err *e)
{
	uint64_t total;

	if (fs_disk_free(s->data_dir, left, &total, e) < 0)
		return -1;
	total /= AHEAD_LEAVES;
	*left = *left > total ? *left - total : 0;
	return 0;
}

/* ---- blobs -----------------------------------------------------------------------------------------------
 */

/* From the cache or hearthd. A damaged one is fetched again. */
static int need_blob(struct stage *s, const char *blobs, const char *digest, size_t max, char **data,
                     size_t *n, struct err *e)
{
	char *got;
	size_t got_n;

	if (blob_has(blobs, digest) && blob_get(blobs, digest, max, &got, &got_n, NULL) == 0) {
		*data = got;
		*n = got_n;
		return 0;
	}
	if (FAULT("agent.stage"))
		return err_set(e, ERR_IO, "injected");
	if (data_link_blob_get(s->w, s->b, digest, max, &got, &got_n, e) < 0)
		return -1;
	s->fetched += got_n;
	if (blob_cache(blobs, digest, got, got_n, e) < 0) { /* checks the digest too */
		free(got);
		return -1;
	}
	*data = got;
	*n = got_n;
	return 0;
}

static int add_size(const struct tree_entry *en, void *arg, struct err *e)
{
	(void)e;
	if (en->type == 'f')
		*(uint64_t *)arg += en->size;
	return 0;
}

static int get_chunks(struct stage *s, const char *blobs, const char *manifest, size_t n, struct err *e)
{
	char **digests, *data;
	size_t count, size;
	int rc = 0;

	if (tree_chunks(manifest, n, &digests, &count, e) < 0)
		return -1;
	for (size_t i = 0; i < count && rc == 0; i++) {
		if (blob_has(blobs, digests[i])) {
			rc = stage_step(s, 0) < 0 ? err_set(e, ERR_UNAVAILABLE, "cancelled") : 0;
			continue;
		}
		rc = need_blob(s, blobs, digests[i], TREE_CHUNK_MAX, &data, &size, e);
		if (rc < 0)
			break;
		free(data);
		if (stage_step(s, size) < 0)
			rc = err_set(e, ERR_UNAVAILABLE, "cancelled");
	}
	for (size_t i = 0; i < count; i++)
		free(digests[i]);
	free(digests);
	return rc;
}

/* Fills the cache's entry. */
static int make_tree(struct stage *s, const char *digest, const char *entry_dir, struct err *e)
{
	cleanup_free char *blobs = xasprintf("%s/cache/blobs", s->data_dir),
	                  *tree = xasprintf("%s/tree", entry_dir);
	cleanup_free char *manifest = NULL;
	struct tree_stats st;
	uint64_t size = 0;
	size_t n;
	int rc;

	if (cache_kind(blobs, 0700, e) < 0 ||
	    need_blob(s, blobs, digest, TREE_MANIFEST_MAX, &manifest, &n, e) < 0 ||
	    tree_each(manifest, n, add_size, &size, e) < 0 || stage_check_room(s, size, "the tree", e) < 0 ||
	    check_space(s, size, e) < 0)
		return -1;
	s->total = size;
	rc = stage_derive(s, blobs, manifest, n, tree, get_chunks, e);
	if (rc != 0)
		return rc > 0 ? 0 : -1;
	/* Twice: a chunk that was found damaged while extracting was moved aside, and comes again. */
	for (int tries = 0;; tries++) {
		if (get_chunks(s, blobs, manifest, n, e) < 0)
			return -1;
		if (tree_extract(manifest, n, blobs, tree, &st, e) == 0)
			return 0;
		if (tries || e->code == ERR_NOSPACE || e->code == ERR_LIMIT || fs_rm_rf(tree, NULL) < 0)
			return -1;
		stage_say(s, "%s; fetching it again", e->text);
	}
}

/* Some readers of these come from outside the launch's namespace, so a layer will not do: checkpoints. */
static int may_layer(const char *to)
{
	return strcmp(to, "code") == 0 || strncmp(to, "input/", 6) == 0;
}

static int copy_out(struct stage *s, struct cache_entry *entry, const char *to,
                    int (*skip)(const char *relpath, void *arg), struct err *e)
{
	cleanup_free char *tree = xasprintf("%s/tree", entry->dir);
	cleanup_close int fd = stage_open_below(s, to, e);
	int rc;
	struct copy c = {.step = count_step,
	                 .arg = s,
	                 .set_owner = s->as_user,
	                 .uid = s->user.uid,
	                 .gid = s->user.gid,
	                 .skip = skip};

	if (fd < 0)
		return -1;
	if (stage_left(s, &c.limit) && c.limit == 0)
		return err_set(e, ERR_LIMIT, "the job's disk limit is reached");
	rc = !skip && may_layer(to) ? stage_layer(s, entry, tree, to, e) : 0;
	if (rc < 0)
		return -1;
	if (rc > 0) {
		if (strcmp(to, "code") == 0)
			s->code_layer = xstrdup(tree);
		return stage_give(s, fd, e);
	}
	/* Given last: while root makes files and links in it, the folder is closed to the account. */
	return copy_into(&c, tree, fd, e) < 0 ? -1 : stage_give(s, fd, e);
}

/* Opens the complete entry of the cache. */
static int open_tree(struct stage *s, const char *digest, struct cache_entry *c, struct err *e)
{
	cleanup_free char *kind = xasprintf("%s/cache/trees", s->data_dir);

	if (!hash_is_hex(digest))
		return err_set(e, ERR_INVALID, "\"%.80s\" is not a digest", digest);
	if (cache_open(c, kind, digest, 0700, stage_pause, s, e) < 0)
		return -1;
	if (c->complete || (make_tree(s, digest, c->dir, e) == 0 && cache_commit(c, e) == 0))
		return 0;
	cache_close(c);
	return -1;
}

int stage_tree(struct stage *s, const char *digest, const char *to,
               int (*skip)(const char *relpath, void *arg), struct err *e)
{
	struct cache_entry c;
	int rc;

	if (open_tree(s, digest, &c, e) < 0)
		return -1;
	s->done = 0;
	rc = copy_out(s, &c, to, skip, e);
	cache_close(&c);
	return rc;
}

int stage_tree_ahead(struct stage *s, const char *digest, struct err *e)
{
	struct cache_entry c;

	if (open_tree(s, digest, &c, e) < 0)
		return -1;
	cache_close(&c);
	return 0;
}

/* ---- files of this node
 * ------------------------------------------------------------------------------------- */

int stage_files(struct stage *s, const char *path, const char *to, int64_t last, struct err *e)
{
	struct files_copy c = {.path = path, .last = last};
	cleanup_close int fd = -1;
	struct files_info info;

	if (files_look(s->files, path, &info, e) < 0)
		return -1;
	fd = stage_open_below(s, to, e);
	if (fd < 0 || stage_give(s, fd, e) < 0)
		return -1;
	s->total = info.is_folder ? 0 : info.size_bytes;
	if (!info.is_folder && stage_check_room(s, info.size_bytes, path, e) < 0)
		return -1;
	if (stage_left(s, &c.limit) && c.limit == 0)
		return err_set(e, ERR_LIMIT, "the job's disk limit is reached");
	c.to = fd;
	if (files_copy(s->files, &c, e) < 0)
		return -1;
	s->later += c.later;
	if (c.special)
		stage_say(s, "%s: %" PRIu64 " sockets, FIFOs or devices were left out", path, c.special);
	return 0;
}
