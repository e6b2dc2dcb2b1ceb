/*
 * manifests: a few slots, the one used longest ago goes first. A manifest lives while its slot or a reader
 * has it. Reading and parsing happen without the lock; two readers of one manifest may both read it.
 */
#include "controller/files/blobs/manifests.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/tree/tree.h"
#include "controller/files/blobs/blobstore.h"

#define SLOTS 8u

struct entry {
	struct manifest m; /* its first member */
	char digest[HASH_HEX_SIZE];
	char *text;
	char **chunks; /* sorted */
	size_t n_chunks;
	unsigned refs;
};

struct manifests {
	struct blobstore *blobs;
	pthread_mutex_t lock; /* of all below, and of refs */
	struct entry *slots[SLOTS];
	uint64_t used[SLOTS], clock;
};

struct manifests *manifests_create(struct blobstore *bs)
{
	struct manifests *ms = xcalloc(1, sizeof(*ms));

	ms->blobs = bs;
	pthread_mutex_init(&ms->lock, NULL);
	return ms;
}

static void entry_free(struct entry *m)
{
	for (size_t i = 0; i < m->n_chunks; i++)
		free(m->chunks[i]);
	free(m->chunks);
	free(m->text);
	free(m);
}

/* With the lock. Returns an entry that the caller frees without it, or NULL. */
static struct entry *drop_ref(struct entry *m)
{
	return m && --m->refs == 0 ? m : NULL;
}

void manifests_put(struct manifests *ms, const struct manifest *m)
{
	struct entry *gone;

	if (!m)
		return;
	pthread_mutex_lock(&ms->lock);
	gone = drop_ref((struct entry *)(uintptr_t)m);
	pthread_mutex_unlock(&ms->lock);
	if (gone)
		entry_free(gone);
}

void manifests_destroy(struct manifests *ms)
{
	if (!ms)
		return;
	for (unsigned i = 0; i < SLOTS; i++)
		if (ms->slots[i])
			manifests_put(ms, &ms->slots[i]->m);
	pthread_mutex_destroy(&ms->lock);
	free(ms);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct entry *read_entry(struct blobstore *bs, const char *digest, struct err *e)
{
	struct entry *m = xcalloc(1, sizeof(*m));

	if (blobstore_get(bs, NULL, digest, &m->text, &m->m.n, e) < 0) {
		free(m);
		return NULL;
	}
	if (tree_chunks(m->text, m->m.n, &m->chunks, &m->n_chunks, e) < 0) {
		m->n_chunks = 0;
		m->chunks = NULL;
		entry_free(m);
		return NULL;
	}
	m->m.text = m->text;
	qsort(m->chunks, m->n_chunks, sizeof(char *), by_text);
	snprintf(m->digest, sizeof(m->digest), "%s", digest);
	return m;
}

static struct entry *find_entry(struct manifests *ms, const char *digest)
{
	struct entry *m = NULL;

	pthread_mutex_lock(&ms->lock);
	for (unsigned i = 0; i < SLOTS && !m; i++) {
		if (!ms->slots[i] || strcmp(ms->slots[i]->digest, digest) != 0)
			continue;
		m = ms->slots[i];
		m->refs++;
		ms->used[i] = ++ms->clock;
	}
	pthread_mutex_unlock(&ms->lock);
	return m;
}

static void keep_entry(struct manifests *ms, struct entry *m)
{
	struct entry *gone;
	unsigned oldest = 0;

	pthread_mutex_lock(&ms->lock);
	for (unsigned i = 1; i < SLOTS; i++)
		if (ms->used[i] < ms->used[oldest])
			oldest = i;
	gone = drop_ref(ms->slots[oldest]);
	m->refs = 2;
	ms->slots[oldest] = m;
	ms->used[oldest] = ++ms->clock;
	pthread_mutex_unlock(&ms->lock);
	if (gone)
		entry_free(gone);
}

const struct manifest *manifests_get(struct manifests *ms, const char *digest, struct err *e)
{
	struct entry *m = find_entry(ms, digest);

	if (m)
		return &m->m;
	m = read_entry(ms->blobs, digest, e);
	if (!m)
		return NULL;
	keep_entry(ms, m);
	return &m->m;
}

int manifest_has(const struct manifest *m, const char *digest)
{
	const struct entry *in = (const struct entry *)m;

	return in->n_chunks && bsearch(&digest, in->chunks, in->n_chunks, sizeof(char *), by_text) != NULL;
}
