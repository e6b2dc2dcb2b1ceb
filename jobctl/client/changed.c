/*
 * changed: see changed.h.
 */
#include "jobctl/client/changed.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/tree/tree.h"
#include "jobctl/client/bundle.h"

#define FETCHES_MAX 1000

struct block {
	char digest[HASH_HEX_SIZE];
	char *data;
	size_t n;
};

struct changed {
	struct client *c;
	char *query; /* authorises the old job's blobs */
	char *manifest;
	size_t manifest_n;
	struct block *kept;
	size_t n_kept, at; /* at: the kept block that was used last */
	struct block old[2];
	unsigned next_old, n_fetched;
	uint64_t kept_bytes, fetched_bytes;
};

struct changed *changed_create(struct client *c, uint64_t job, const char *digest, struct err *e)
{
	struct changed *ch = xcalloc(1, sizeof(*ch));
	ch->c = c;
	ch->query = xasprintf("job=%" PRIu64 "&kind=code", job);
	if (!bundle_get_blob(c, digest, ch->query, TREE_MANIFEST_MAX, &ch->manifest, &ch->manifest_n, e))
		return ch;
	changed_destroy(ch);
	return NULL;
}

void changed_destroy(struct changed *ch)
{
	if (!ch)
		return;
	for (size_t i = 0; i < ch->n_kept; i++)
		free(ch->kept[i].data);
	free(ch->kept);
	free(ch->old[0].data);
	free(ch->old[1].data);
	free(ch->manifest);
	free(ch->query);
	free(ch);
}

int changed_keep(const char *digest, const void *data, size_t n, void *arg, struct err *e)
{
	struct changed *ch = arg;
	(void)e;
	/* A full block is part of a large file, which is compared by its digests. */
	if (n == TREE_CHUNK_MAX || ch->kept_bytes + n > CHANGED_KEPT_MAX)
		return 0;
	if ((ch->n_kept & (ch->n_kept + 1)) == 0)
		ch->kept = xreallocarray(ch->kept, 2 * ch->n_kept + 2, sizeof(*ch->kept));
	struct block *b = &ch->kept[ch->n_kept++];
	memcpy(b->digest, digest, HASH_HEX_SIZE);
	b->data = xmemdup(data, n ? n : 1);
	b->n = n;
	ch->kept_bytes += n;
	return 0;
}

/* ---- blocks ------------------------------------------------------------------------------------- */

/* Files come by path and blocks, too, so the search begins with the block that was used last. */
static const struct block *kept_block(struct changed *ch, const char *digest)
{
	for (size_t i = 0; i < ch->n_kept; i++) {
		size_t k = (ch->at + i) % ch->n_kept;
		if (strcmp(ch->kept[k].digest, digest) == 0) {
			ch->at = k;
			return &ch->kept[k];
		}
	}
	return NULL;
}

/* Returns a block of the old tree; NULL: it is beyond the bounds, or hearthd does not give it. */
static const struct block *old_block(struct changed *ch, const char *digest)
{
	for (int i = 0; i < 2; i++) {
		if (!ch->old[i].data || strcmp(ch->old[i].digest, digest) != 0)
			continue;
		ch->next_old = (unsigned)i + 1; /* the caller may use this block together with the next one */
		return &ch->old[i];
	}
	if (ch->n_fetched == FETCHES_MAX || ch->fetched_bytes > CHANGED_KEPT_MAX)
		return NULL;
	struct block *b = &ch->old[ch->next_old++ % 2];
	struct err e;
	ch->n_fetched++;
	free(b->data);
	b->data = NULL;
	if (bundle_get_blob(ch->c, digest, ch->query, TREE_CHUNK_MAX, &b->data, &b->n, &e))
		return NULL;
	memcpy(b->digest, digest, HASH_HEX_SIZE);
	ch->fetched_bytes += b->n;
	return b;
}

/* Finds a small file, which is in one block. */
static const char *bytes_of(const char *chunks, const struct block *(*find)(struct changed *, const char *),
                            struct changed *ch, uint64_t *n)
{
	char digest[HASH_HEX_SIZE];
	uint64_t off;
	if (tree_next_part(&chunks, digest, &off, n) != 1)
		return NULL;
	const struct block *b = find(ch, digest);
	return b && off <= b->n && *n <= b->n - off ? b->data + off : NULL;
}

/* ---- comparison --------------------------------------------------------------------------------- */

struct entries {
	struct tree_entry *v;
	size_t n;
};

/* Keeps a copy of a file or a link. Folders have no content of their own. */
static int add_entry(const struct tree_entry *en, void *arg, struct err *e)
{
	struct entries *l = arg;
	(void)e;
	if (en->type == 'd')
		return 0;
	if ((l->n & (l->n + 1)) == 0)
		l->v = xreallocarray(l->v, 2 * l->n + 2, sizeof(*l->v));
	l->v[l->n] = *en;
	l->v[l->n].path = xstrdup(en->path);
	l->v[l->n].target = xstrdup(en->target);
	l->v[l->n++].chunks = xstrdup(en->chunks);
	return 0;
}

static void entries_fini(struct entries *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free((char *)l->v[i].path);
		free((char *)l->v[i].target);
		free((char *)l->v[i].chunks);
	}
	free(l->v);
}

/* Returns 1 if they differ, 0 if they are equal, -1 if that is unknown. */
static int entry_differs(struct changed *ch, const struct tree_entry *old, const struct tree_entry *new)
{
	if (old->type != new->type || old->mode != new->mode)
		return 1;
	if (new->type == 'l')
		return strcmp(old->target, new->target) != 0;
	if (old->size != new->size)
		return 1;
	if (!new->size || strcmp(old->chunks, new->chunks) == 0)
		return 0;
	if (new->size > TREE_PACK_MAX)
		return 1;
	uint64_t n, old_n;
	const char *was = bytes_of(old->chunks, old_block, ch, &old_n);
	const char *is = bytes_of(new->chunks, kept_block, ch, &n);
	if (was && !is) /* a block that the old tree has, too, in another place */
		is = bytes_of(new->chunks, old_block, ch, &n);
	return was && is && n == old_n ? memcmp(was, is, n) != 0 : -1;
}

static void add_change(cJSON *list, const char *how, const struct tree_entry *en, int sized)
{
	cJSON *o = cJSON_CreateObject();
	char *path = str_to_utf8(en->path, strlen(en->path));
	cJSON_AddStringToObject(o, "path", path);
	free(path);
	cJSON_AddStringToObject(o, "how", how);
	if (sized && en->type == 'f')
		json_add_u64(o, "size", en->size);
	cJSON_AddItemToArray(list, o);
}

/* Both lists are sorted by path. Returns how many files are not compared. */
static uint64_t merge_entries(struct changed *ch, const struct entries *old, const struct entries *new,
                              cJSON *list)
{
	uint64_t unsure = 0;
	for (size_t i = 0, k = 0; i < old->n || k < new->n;) {
		int order = i == old->n ? 1 : k == new->n ? -1 : strcmp(old->v[i].path, new->v[k].path);
		if (order < 0) {
			add_change(list, "removed", &old->v[i++], 0);
		} else if (order > 0) {
			add_change(list, "added", &new->v[k++], 1);
		} else {
			int differs = entry_differs(ch, &old->v[i++], &new->v[k]);
			if (differs > 0)
				add_change(list, "changed", &new->v[k], 1);
			unsure += differs < 0;
			k++;
		}
	}
	return unsure;
}

int changed_list(struct changed *ch, const char *manifest, size_t n, cJSON *out, struct err *e)
{
	struct entries old = {0}, new = {0};
	struct tree_stats st = {0};
	int rc = tree_measure(manifest, n, &st, e) ||
	                 tree_each(ch->manifest, ch->manifest_n, add_entry, &old, e) ||
	                 tree_each(manifest, n, add_entry, &new, e)
	             ? -1
	             : 0;
	if (!rc) {
		json_add_u64(out, "files", new.n);
		json_add_u64(out, "bytes", st.bytes);
		cJSON *list = cJSON_AddArrayToObject(out, "changed");
		json_add_u64(out, "not_compared", merge_entries(ch, &old, &new, list));
	}
	entries_fini(&old);
	entries_fini(&new);
	return rc;
}
