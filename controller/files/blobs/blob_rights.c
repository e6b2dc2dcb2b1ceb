/*
 * blob_rights: nodes and launches hold each other's grants; trees are shared by all launches that name them.
 *
 * The chunks of a tree are a sorted array, read from the manifest at the first question and shared by all
 * nodes of a gang. All arrays together are bounded: the array that was used longest ago is dropped, and read
 * again when it is needed. The mutex is never held while a manifest is read.
 */
#include "controller/files/blobs/blob_rights.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "controller/files/blobs/blobstore_int.h"

#define CHUNKS_MAX  (4u << 20) /* of all trees, 32 bytes each; a single tree may exceed it */
#define PER_NODE    4096u      /* launches; the one used longest ago is dropped */
#define ROOTS_START 4u
#define GRANT_TREES 1024u /* of all orders to one node, but those of the whole launch */

struct tree {
	uint8_t digest[HASH_BYTES];
	unsigned refs;
	int loaded;
	uint64_t tried; /* the question for which the manifest was read last */
	uint8_t (*chunks)[HASH_BYTES];
	size_t n;
	struct tree *prev, *next; /* loaded ones, the one used last comes first */
	UT_hash_handle hh;
};

struct launch_key {
	uint64_t job, attempt;
};

struct forest {
	struct tree **v;
	unsigned n, cap;
};

struct launch {
	struct launch_key key;
	struct forest trees; /* bundle and inputs, alike on all nodes */
	struct grant *grants;
	uint8_t ordered; /* its trees are known; 0: only orders ahead of it came */
	UT_hash_handle hh;
};

struct grant { /* a launch on a node */
	struct node *node;
	struct launch *launch;
	struct forest resume;      /* the parts of the checkpoint that this node restores, or may restore */
	uint8_t ordered;           /* they are from the order of the launch */
	struct grant *prev, *next; /* of the node, the one used last comes first */
	struct grant *in_prev, *in_launch; /* of the launch */
};

struct node {
	char *name;
	struct grant *grants;
	unsigned n;
	UT_hash_handle hh;
};

struct blob_rights {
	struct blobstore *store;
	pthread_mutex_t lock;
	struct tree *trees, *loaded;
	struct launch *launches;
	struct node *nodes;
	size_t n_chunks;
	uint64_t changes, questions;
};

struct blob_rights *blob_rights_create(struct blobstore *b)
{
	struct blob_rights *r = xcalloc(1, sizeof(*r));

	r->store = b;
	pthread_mutex_init(&r->lock, NULL);
	return r;
}

/* ---- trees ------------------------------------------------------------------------------------ */

static void unload_tree(struct blob_rights *r, struct tree *t)
{
	if (!t->loaded)
		return;
	DL_DELETE(r->loaded, t);
	r->n_chunks -= t->n;
	free(t->chunks);
	t->chunks = NULL;
	t->n = 0;
	t->loaded = 0;
}

static void drop_tree(struct blob_rights *r, struct tree *t)
{
	if (!t || --t->refs)
		return;
	unload_tree(r, t);
	HASH_DEL(r->trees, t);
	free(t);
}

/* NULL: the text names no blob (the node finds that input by itself). */
static struct tree *hold_tree(struct blob_rights *r, const char *digest)
{
	uint8_t key[HASH_BYTES];
	struct tree *t = NULL;

	if (!digest || !hash_is_hex(digest) || str_unhex(digest, key, HASH_BYTES) < 0)
		return NULL;
	HASH_FIND(hh, r->trees, key, HASH_BYTES, t);
	if (!t) {
		t = xcalloc(1, sizeof(*t));
		memcpy(t->digest, key, HASH_BYTES);
		HASH_ADD(hh, r->trees, digest, HASH_BYTES, t);
	}
	t->refs++;
	return t;
}

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, HASH_BYTES);
}

/* Without the lock; the caller holds a reference. */
static int read_chunks(struct blob_rights *r, const struct tree *t, uint8_t (**chunks)[HASH_BYTES], size_t *n,
                       struct err *e)
{
	char digest[HASH_HEX_SIZE], **v;
	size_t count;

	str_hex(t->digest, HASH_BYTES, digest);
	if (blob_chunks(r->store, digest, &v, &count, e) < 0)
		return -1;
	*chunks = xreallocarray(NULL, count ? count : 1, HASH_BYTES);
	*n = 0;
	for (size_t i = 0; i < count; i++)
		if (str_unhex(v[i], (*chunks)[*n], HASH_BYTES) == 0)
			(*n)++;
	blob_chunks_free(v, count);
	qsort(*chunks, *n, HASH_BYTES, by_bytes);
	return 0;
}

/* Takes chunks. */
static void load_tree(struct blob_rights *r, struct tree *t, uint8_t (*chunks)[HASH_BYTES], size_t n)
{
	t->chunks = chunks;
	t->n = n;
	t->loaded = 1;
	r->n_chunks += n;
	DL_PREPEND(r->loaded, t);
	while (r->n_chunks > CHUNKS_MAX && r->loaded->prev != t)
		unload_tree(r, r->loaded->prev); /* the head's prev is the last one */
}

/* ---- orders ----------------------------------------------------------------------------------- */

static void add_tree(struct blob_rights *r, struct forest *f, const char *digest)
{
	struct tree *t = hold_tree(r, digest);

	if (!t)
		return;
	if (f->n == f->cap) {
		f->cap = f->cap ? f->cap * 2 : ROOTS_START;
		f->v = xreallocarray(f->v, f->cap, sizeof(struct tree *));
	}
	f->v[f->n++] = t;
}

static void drop_forest(struct blob_rights *r, struct forest *f)
{
	for (unsigned i = 0; i < f->n; i++)
		drop_tree(r, f->v[i]);
	free(f->v);
}

static struct launch *find_launch(struct blob_rights *r, uint64_t job, uint32_t attempt)
{
	const struct launch_key key = {.job = job, .attempt = attempt};
	struct launch *l = NULL;

	HASH_FIND(hh, r->launches, &key, sizeof(key), l);
	return l;
}

static struct launch *need_launch(struct blob_rights *r, uint64_t job, uint32_t attempt)
{
	struct launch *l = find_launch(r, job, attempt);

	if (l)
		return l;
	l = xcalloc(1, sizeof(*l));
	l->key.job = job;
	l->key.attempt = attempt;
	HASH_ADD(hh, r->launches, key, sizeof(l->key), l);
	return l;
}

/* The table of a gang is decoded once for all its nodes. */
static void fill_launch(struct blob_rights *r, struct launch *l, const struct wm_prepare *m)
{
	const struct wm_gang *g;
	void *gang = NULL;
	struct err e;

	l->ordered = 1;
	add_tree(r, &l->trees, m->bundle_digest);
	if (m->gang && wire_decode(WM_GANG, m->gang->data, m->gang->n, &gang, &e) == 0) {
		g = gang;
		for (uint32_t i = 0; i < g->input_digests.n; i++)
			add_tree(r, &l->trees, g->input_digests.v[i]);
		wire_free(WM_GANG, gang);
	}
}

static void drop_launch(struct blob_rights *r, struct launch *l)
{
	drop_forest(r, &l->trees);
	HASH_DEL(r->launches, l);
	free(l);
}

static void drop_grant(struct blob_rights *r, struct grant *g)
{
	struct node *n = g->node;
	struct launch *l = g->launch;

	DL_DELETE(n->grants, g);
	DL_DELETE2(l->grants, g, in_prev, in_launch);
	drop_forest(r, &g->resume);
	free(g);
	if (--n->n == 0) {
		HASH_DEL(r->nodes, n);
		free(n->name);
		free(n);
	}
	if (!l->grants)
		drop_launch(r, l);
}

static struct node *find_node(struct blob_rights *r, const char *name)
{
	struct node *n = NULL;

	HASH_FIND_STR(r->nodes, name, n);
	return n;
}

static struct node *need_node(struct blob_rights *r, const char *name)
{
	struct node *n = find_node(r, name);

	if (n)
		return n;
	n = xcalloc(1, sizeof(*n));
	n->name = xstrdup(name);
	HASH_ADD_KEYPTR(hh, r->nodes, n->name, strlen(n->name), n);
	return n;
}

static struct grant *find_grant(const struct node *n, const struct launch *l)
{
	struct grant *g;

	DL_FOREACH (n->grants, g)
		if (g->launch == l)
			return g;
	return NULL;
}

static struct grant *make_grant(struct blob_rights *r, struct node *n, struct launch *l)
{
	struct grant *g = xcalloc(1, sizeof(*g));

	g->node = n;
	g->launch = l;
	DL_PREPEND(n->grants, g);
	DL_PREPEND2(l->grants, g, in_prev, in_launch);
	if (++n->n > PER_NODE)
		drop_grant(r, n->grants->prev);
	return g;
}

static int is_granted(const struct grant *g, const char *digest)
{
	uint8_t key[HASH_BYTES];

	if (!hash_is_hex(digest) || str_unhex(digest, key, HASH_BYTES) < 0)
		return 0;
	for (unsigned i = 0; i < g->resume.n; i++)
		if (memcmp(g->resume.v[i]->digest, key, HASH_BYTES) == 0)
			return 1;
	return 0;
}

/* Orders may come again, and several may name one tree. */
static void grant_trees(struct blob_rights *r, struct grant *g, const struct wire_strv *digests)
{
	for (uint32_t i = 0; i < digests->n && g->resume.n < GRANT_TREES; i++)
		if (!is_granted(g, digests->v[i]))
			add_tree(r, &g->resume, digests->v[i]);
}

void blob_rights_add(struct blob_rights *r, const char *node, const struct wm_prepare *m)
{
	struct launch *l;
	struct node *n;
	struct grant *g;

	pthread_mutex_lock(&r->lock);
	l = need_launch(r, m->job, m->attempt);
	if (!l->ordered)
		fill_launch(r, l, m);
	n = need_node(r, node);
	g = find_grant(n, l);
	if (!g)
		g = make_grant(r, n, l);
	if (!g->ordered) {
		g->ordered = 1;
		add_tree(r, &g->resume, m->resume_from);
		grant_trees(r, g, &m->resume_digests);
	}
	r->changes++;
	pthread_mutex_unlock(&r->lock);
}

void blob_rights_ahead(struct blob_rights *r, const char *node, const struct wm_prefetch *m)
{
	struct launch *l;
	struct node *n;
	struct grant *g;

	if (!m->trees.n)
		return;
	pthread_mutex_lock(&r->lock);
	l = need_launch(r, m->job, m->attempt);
	n = need_node(r, node);
	g = find_grant(n, l);
	grant_trees(r, g ? g : make_grant(r, n, l), &m->trees);
	r->changes++;
	pthread_mutex_unlock(&r->lock);
}

void blob_rights_end(struct blob_rights *r, uint64_t job, uint32_t attempt)
{
	struct launch *l;
	struct grant *g, *next;

	pthread_mutex_lock(&r->lock);
	l = find_launch(r, job, attempt);
	for (g = l ? l->grants : NULL; g; g = next) {
		next = g->in_launch; /* the last grant takes the launch with it */
		drop_grant(r, g);
	}
	pthread_mutex_unlock(&r->lock);
}

uint64_t blob_rights_changes(struct blob_rights *r)
{
	uint64_t n;

	pthread_mutex_lock(&r->lock);
	n = r->changes;
	pthread_mutex_unlock(&r->lock);
	return n;
}

void blob_rights_destroy(struct blob_rights *r)
{
	struct launch *l, *tmp;

	if (!r)
		return;
	HASH_ITER (hh, r->launches, l, tmp)
		blob_rights_end(r, l->key.job, (uint32_t)l->key.attempt);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* ---- questions -------------------------------------------------------------------------------- */

static int tree_has(struct blob_rights *r, struct tree *t, const uint8_t key[HASH_BYTES])
{
	if (!t)
		return 0;
	if (memcmp(t->digest, key, HASH_BYTES) == 0)
		return 1;
	if (!t->loaded || !t->n || !bsearch(key, t->chunks, t->n, HASH_BYTES, by_bytes))
		return 0;
	DL_DELETE(r->loaded, t);
	DL_PREPEND(r->loaded, t);
	return 1;
}

static int forest_has(struct blob_rights *r, const struct forest *f, const uint8_t key[HASH_BYTES])
{
	for (unsigned i = 0; i < f->n; i++)
		if (tree_has(r, f->v[i], key))
			return 1;
	return 0;
}

static int grant_has(struct blob_rights *r, struct grant *g, const uint8_t key[HASH_BYTES])
{
	return forest_has(r, &g->launch->trees, key) || forest_has(r, &g->resume, key);
}

/* Most questions are for the tree of the question before: its grant comes first. */
static int node_has(struct blob_rights *r, struct node *n, const uint8_t key[HASH_BYTES])
{
	struct grant *g;

	DL_FOREACH (n->grants, g) {
		if (!grant_has(r, g, key))
			continue;
		DL_DELETE(n->grants, g);
		DL_PREPEND(n->grants, g);
		return 1;
	}
	return 0;
}

static struct tree *first_unread(const struct blob_rights *r, const struct forest *f)
{
	for (unsigned i = 0; i < f->n; i++)
		if (!f->v[i]->loaded && f->v[i]->tried != r->questions)
			return f->v[i];
	return NULL;
}

static struct tree *find_unread(struct blob_rights *r, struct node *n)
{
	struct grant *g;

	struct tree *t = NULL;

	DL_FOREACH (n->grants, g) {
		t = first_unread(r, &g->launch->trees);
		if (!t)
			t = first_unread(r, &g->resume);
		if (t)
			break;
	}
	return t;
}

/* Reads one manifest without the lock. */
static void read_tree(struct blob_rights *r, struct tree *t, struct err *e)
{
	uint8_t(*chunks)[HASH_BYTES];
	struct err why;
	size_t n;
	int rc;

	t->refs++;
	t->tried = r->questions;
	pthread_mutex_unlock(&r->lock);
	rc = read_chunks(r, t, &chunks, &n, &why);
	pthread_mutex_lock(&r->lock);
	if (rc == 0)
		load_tree(r, t, chunks, n);
	else if (why.code != ERR_NOT_FOUND) /* it has no chunks: another tree may have the blob */
		*e = why;
	drop_tree(r, t);
}

int blob_rights_check(struct blob_rights *r, const char *node, const char *digest, struct err *e)
{
	uint8_t key[HASH_BYTES];
	struct tree *t = NULL;
	struct node *n;
	int found;

	if (!hash_is_hex(digest) || str_unhex(digest, key, HASH_BYTES) < 0)
		return err_set(e, ERR_INVALID, "\"%.80s\" is not a digest", digest);
	err_set(e, ERR_DENIED, "no launch on node %s needs this blob; only orders of hearthd give access to it",
	        node);
	pthread_mutex_lock(&r->lock);
	r->questions++;
	do { /* again after each manifest: the launch may have ended meanwhile */
		n = find_node(r, node);
		found = n && node_has(r, n, key);
		t = n && !found ? find_unread(r, n) : NULL;
		if (t)
			read_tree(r, t, e);
	} while (t);
	pthread_mutex_unlock(&r->lock);
	return found ? 0 : -1;
}
