/*
 * blobs: content-addressed blobs on disk: a blob that was acknowledged is whole and durable, and its digest
 * opens nothing by itself. This folder knows files only.
 *
 * blobstore: blobs (chunks and manifests of trees, common/tree/tree.h) with owners, uploads in pieces, and
 * garbage collection.
 *
 *   DATA/blobs/ab/DIGEST               the blob
 *   DATA/blob-owners/OWNER/ab/DIGEST   OWNER has shown this content (a hard link, or an empty file)
 *   DATA/uploads/OWNER.DIGEST          the beginning of a blob that comes in several pieces
 *
 * A user gets a blob, or learns that it is there, only after an upload of the content or with a reference
 * (an artifact of an own job). Owner NULL in the functions below means hearthd or an agent: every blob.
 *
 * The struct does not change after blobstore_open: any thread may call anything. Functions block on the
 * disk.
 */
#ifndef HEARTH_CONTROLLER_FILES_BLOBS_BLOBSTORE_H
#define HEARTH_CONTROLLER_FILES_BLOBS_BLOBSTORE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/tree/tree.h"

#define BLOBSTORE_PIECE_MAX TREE_CHUNK_MAX
#define BLOBSTORE_BLOB_MAX  TREE_MANIFEST_MAX
#define BLOBSTORE_TREE_MAX  (64ull << 30) /* bytes of the files of a source tree */

struct blobstore;

struct blobstore *blobstore_open(const char *data_dir, const struct clock *clock, struct err *e);
void blobstore_close(struct blobstore *b);
const char *blobstore_dir(const struct blobstore *b); /* DATA/blobs, for tree_extract */

/* One piece: bytes at offset of the blob whose length is total (0 = not told: it is complete when its digest
 * is right). Repeated pieces are dropped. Complete: verified, durable, referenced by owner. ERR_CONFLICT when
 * offset lies behind what is there (*present says how much that is), ERR_INVALID when the whole has another
 * digest (the upload begins again from 0), ERR_LIMIT, ERR_BUSY when another connection uploads the same. */
struct blob_piece {
	const char *owner, *digest;
	uint64_t offset, total;
	const void *data;
	size_t n;
};
int blobstore_put(struct blobstore *b, const struct blob_piece *p, uint64_t *present, int *complete,
                  struct err *e);
/* How much of an upload is there: where to go on. */
int blobstore_present(struct blobstore *b, const char *owner, const char *digest, uint64_t *present,
                      int *complete, struct err *e);

int blobstore_has(struct blobstore *b, const char *owner, const char *digest);
/* 1: the blob was put or asked for so recently that garbage collection leaves it, and what was asked for
 * with it, for half of min_age_s at least. One stat: also for a thread that must not block. */
int blobstore_is_fresh(struct blobstore *b, const char *digest);
/* missing[i] = 1 for those of v that owner must upload. The others are kept from garbage collection for a
 * while. */
int blobstore_missing(struct blobstore *b, const char *owner, const char *const *v, size_t n,
                      uint8_t *missing, struct err *e);
/* Descriptor of the blob, the caller's, and its size. ERR_NOT_FOUND also when it is not owner's. */
int blobstore_open_blob(struct blobstore *b, const char *owner, const char *digest, uint64_t *size,
                        struct err *e);
/* Whole and verified; *data malloc'ed. */
int blobstore_get(struct blobstore *b, const char *owner, const char *digest, char **data, size_t *n,
                  struct err *e);
/* At most max bytes from offset on; *total is the size of the blob. Verified whole before its beginning is
 * given; later pieces are read as they are, the receiver checks the digest. *data malloc'ed. */
int blobstore_read(struct blobstore *b, const char *owner, const char *digest, uint64_t offset, size_t max,
                   char **data, size_t *n, uint64_t *total, struct err *e);
/* Manifest and all its chunks are there, owner's, and kept from garbage collection for a while: for submit.
 * ERR_NOT_FOUND says how many are missing. ERR_LIMIT: its files have more than disk_bytes (0: no such bound)
 * or BLOBSTORE_TREE_MAX. */
int blobstore_check_tree(struct blobstore *b, const char *owner, const char *manifest, uint64_t disk_bytes,
                         struct err *e);
/* Gives owner a reference to a tree (manifest and chunks), or to a single blob: an artifact of an own job. */
int blobstore_give(struct blobstore *b, const char *owner, const char *digest, struct err *e);

/* Removes blobs that no root reaches and that were not put or asked for in the last min_age_s (3600),
 * references to what is not there, and uploads without progress for a day. roots calls mark for each digest
 * that is kept (store_each_digest); a root that is a manifest keeps its chunks. Minutes on a large store:
 * from a thread of its own. While an agent uploads an artifact for longer than min_age_s: give keep_since_us,
 * the start of the oldest such upload (0 none). */
struct blobstore_gc {
	int (*roots)(int (*mark)(const char *digest, void *mark_arg), void *mark_arg, void *arg, struct err *e);
	void *arg;
	uint64_t min_age_s, keep_since_us;
	/* result */
	uint64_t kept, removed, removed_bytes, references_removed, uploads_removed, manifests_missing;
};
int blobstore_gc(struct blobstore *b, struct blobstore_gc *gc, struct err *e);

#endif
