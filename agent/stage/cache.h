/*
 * cache: folders below DATA/cache that are complete or missing: extracted trees, downloads, virtual
 * environments.
 *
 *   KIND/KEY/          the entry; its maker decides what is in it
 *   KIND/KEY/.complete marker; content: bytes used; modification time: last use
 *   KIND/KEY.lock      held while it is made (exclusive) or read (shared)
 *
 * An entry without its marker is the rest of a crash and is made again. When a kind passes its bound, the
 * least recently used entries are removed, but none that is locked or in use (`used`). Blocks: for threads.
 */
#ifndef HEARTH_AGENT_STAGE_CACHE_H
#define HEARTH_AGENT_STAGE_CACHE_H

#include "common/base/err.h"
#include <stdint.h>
#include <sys/types.h>

struct cache_entry {
	char *dir;   /* KIND/KEY */
	int lock_fd; /* -1 none */
	int complete;
};
int cache_kind(const char *kind_dir, mode_t mode,
               struct err *e); /* makes it, and what lies above it for all to walk through */
/* Waits for the lock: pause(arg) is called again and again (it sleeps a moment); its -1 gives up. When the
 * entry is complete the lock is shared and its last use is now; else it is exclusive and the folder empty:
 * fill it, then cache_commit. mode: of the kind's folder, when it is made. */
int cache_open(struct cache_entry *c, const char *kind_dir, const char *key, mode_t mode,
               int (*pause)(void *arg), void *arg, struct err *e);
/* Removes an entry (what it was made from has changed); waits for its readers. */
int cache_drop(const char *kind_dir, const char *key, int (*pause)(void *arg), void *arg, struct err *e);
int cache_commit(struct cache_entry *c, struct err *e); /* complete now; the lock becomes a shared one */
/* A complete entry. 1: nobody else has its lock; 0: somebody has, and the lock is shared as before; -1:
 * the entry was removed in between, and is not complete any more. */
int cache_lock_alone(struct cache_entry *c);
void cache_lock_shared(struct cache_entry *c);
uint64_t cache_bytes(const struct cache_entry *c); /* of a complete one; 0 unknown */
/* It was replaced by another one: it is evicted before others, unless it is used again. */
void cache_outdate(const struct cache_entry *c);
void cache_close(struct cache_entry *c); /* an incomplete entry is removed */
/* Removes the least recently used complete entries above max_bytes. used may be NULL. Returns how many. */
unsigned cache_evict(const char *kind_dir, uint64_t max_bytes, int (*used)(const char *entry_dir, void *arg),
                     void *arg);
/* The same for a folder of blobs (tree.h), by time of last change. */
unsigned cache_evict_blobs(const char *blob_dir, uint64_t max_bytes, int (*used)(const char *path, void *arg),
                           void *arg);

#endif
