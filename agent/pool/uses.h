/*
 * uses: entries of the node's caches that a warm pool's last job used: its environment, source tree and
 * inputs. They are exempt from eviction while the pool's folder exists. Blocks: for threads.
 *
 * DATA/pools/ID/used has a line KIND/KEY for each, as below DATA/cache.
 */
#ifndef HEARTH_AGENT_POOL_USES_H
#define HEARTH_AGENT_POOL_USES_H

#include "common/base/err.h"
#include "common/base/xalloc.h"

/* Replaces the list of the pool in pool_dir (DATA/pools/ID). */
int uses_save(const char *pool_dir, const struct strv *entries, struct err *e);
int uses_add(const char *pool_dir, const char *entry, struct err *e); /* one more */
/* Digest of the tree that stands first there: the source of the last job that had one. malloc'ed; NULL none.
 */
char *uses_first_tree(const char *pool_dir);

char *uses_environment(const char *pool_dir); /* its key below venvs; malloc'ed, NULL none */

struct uses; /* those of all pools */
struct uses *uses_load(const char *data_dir);
/* Adds the chunks of the source trees, so that the next tree fetches only what differs. */
void uses_add_chunks(struct uses *u, const char *blob_dir);
/* path: an entry below DATA/cache: KIND/KEY, or blobs/ab/DIGEST. */
int uses_hold(const struct uses *u, const char *path);
void uses_free(struct uses *u);

#endif
