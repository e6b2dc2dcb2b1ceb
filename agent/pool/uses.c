/*
 * uses: see uses.h.
 */
#include "agent/pool/uses.h"

#include <stdio.h>
#include <string.h>
#include <uthash.h>

#include "common/base/hash.h"
#include "common/os/fsutil.h"
#include "common/tree/tree.h"

#define USED_MAX (1024 * 1024)

struct use {
	char *name; /* KIND/KEY */
	UT_hash_handle hh;
};

struct uses {
	struct use *all;
	const char *data_dir;
};

static int save_text(const char *pool_dir, const char *text, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/used", pool_dir);

	return fs_replace_changed(path, text, strlen(text), 0600, e);
}

int uses_save(const char *pool_dir, const struct strv *entries, struct err *e)
{
	cleanup_free char *text = xstrdup("");

	for (size_t i = 0; i < entries->n; i++) {
		char *next = xasprintf("%s%s\n", text, entries->v[i]);

		free(text);
		text = next;
	}
	return save_text(pool_dir, text, e);
}

static char *read_used(const char *pool_dir)
{
	cleanup_free char *path = xasprintf("%s/used", pool_dir);
	char *text = NULL;
	size_t n;

	return fs_read_file(path, USED_MAX, &text, &n, NULL) < 0 ? xstrdup("") : text;
}

int uses_add(const char *pool_dir, const char *entry, struct err *e)
{
	cleanup_free char *old = read_used(pool_dir), *text = xasprintf("%s%s\n", old, entry);

	return save_text(pool_dir, text, e);
}

char *uses_first_tree(const char *pool_dir)
{
	cleanup_free char *text = read_used(pool_dir);
	const char *at = strncmp(text, "trees/", 6) == 0 ? text : NULL;
	char *digest = at ? xstrndup(at + 6, strcspn(at + 6, "\n")) : NULL;

	if (digest && hash_is_hex(digest))
		return digest;
	free(digest);
	return NULL;
}

char *uses_environment(const char *pool_dir)
{
	cleanup_free char *text = read_used(pool_dir);
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (strncmp(line, "venvs/", 6) == 0 && line[6] && !strchr(line + 6, '/'))
			return xstrdup(line + 6);
	return NULL;
}

/* ---- all pools ----------------------------------------------------------------------------------------- */

static void add_use(struct uses *u, const char *name)
{
	struct use *one;

	HASH_FIND_STR(u->all, name, one);
	if (one)
		return;
	one = xcalloc(1, sizeof(*one));
	one->name = xstrdup(name);
	HASH_ADD_KEYPTR(hh, u->all, one->name, strlen(one->name), one);
}

static int load_pool(const char *name, void *arg)
{
	struct uses *u = arg;
	cleanup_free char *dir = xasprintf("%s/pools/%s", u->data_dir, name), *text = read_used(dir);
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		add_use(u, line);
	return 0;
}

struct uses *uses_load(const char *data_dir)
{
	struct uses *u = xcalloc(1, sizeof(*u));
	cleanup_free char *top = xasprintf("%s/pools", data_dir);

	u->data_dir = data_dir;
	fs_each(top, load_pool, u, NULL);
	return u;
}

static void add_chunks_of(struct uses *u, const char *blob_dir, const char *digest)
{
	cleanup_free char *manifest = NULL, *own = xasprintf("blobs/%s", digest);
	char **digests = NULL;
	size_t n = 0, size;

	if (blob_get(blob_dir, digest, TREE_MANIFEST_MAX, &manifest, &size, NULL) < 0 ||
	    tree_chunks(manifest, size, &digests, &n, NULL) < 0)
		return;
	add_use(u, own);
	for (size_t i = 0; i < n; i++) {
		cleanup_free char *name = xasprintf("blobs/%s", digests[i]);

		add_use(u, name);
		free(digests[i]);
	}
	free(digests);
}

void uses_add_chunks(struct uses *u, const char *blob_dir)
{
	struct strv trees = {0};
	struct use *one, *next;

	HASH_ITER (hh, u->all, one, next)
		if (strncmp(one->name, "trees/", 6) == 0 && hash_is_hex(one->name + 6))
			strv_add(&trees, one->name + 6);
	for (size_t i = 0; i < trees.n; i++)
		add_chunks_of(u, blob_dir, trees.v[i]);
	strv_fini(&trees);
}

int uses_hold(const struct uses *u, const char *path)
{
	const char *key = strrchr(path, '/'), *above = key;
	cleanup_free char *name = NULL;
	struct use *one;

	while (above && above > path && above[-1] != '/')
		above--;
	if (!above || above == path)
		return 0;
	/* Blobs are spread over folders of two digits. */
	name = key - above == 2 ? xasprintf("blobs%s", key) : xstrdup(above);
	HASH_FIND_STR(u->all, name, one);
	return one != NULL;
}

void uses_free(struct uses *u)
{
	struct use *one, *next;

	if (!u)
		return;
	HASH_ITER (hh, u->all, one, next) {
		HASH_DEL(u->all, one);
		free(one->name);
		free(one);
	}
	free(u);
}
