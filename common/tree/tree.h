/*
 * tree: a directory as content-addressed chunks, and back. Used for source bundles, models, outputs.
 *
 * Manifest (text, itself a blob; its SHA-256 is the tree's digest):
 *     hearth-tree 1
 *     d MODE PATH
 *     l MODE PATH TARGET
 *     f MODE SIZE PATH DIGEST:OFFSET:LENGTH[,...]
 * sorted by path (bytes); paths percent-encode bytes <= 0x20, '%' and 0x7f. Chunks hold at most
 * TREE_CHUNK_MAX bytes: files larger than TREE_PACK_MAX have chunks of their own, smaller ones are packed
 * together in path order; packs are cut after a file whose path hash says so, so that a change of one file
 * renews few chunks. An empty file has "-" for its parts. Mode is octal, permission bits only. Blobs live in
 * a blobdir: DIR/ab/abcdef...; written by atomic replace; read back verified.
 *
 * Extraction refuses absolute paths, "..", a path below a link, links that leave the tree.
 */
#ifndef HEARTH_COMMON_TREE_TREE_H
#define HEARTH_COMMON_TREE_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/hash.h"

#define TREE_CHUNK_MAX    (4u * 1024 * 1024)
#define TREE_PACK_MAX     (256u * 1024)
#define TREE_MANIFEST_MAX (64u * 1024 * 1024)

struct tree_stats {
	uint64_t files, bytes, chunks, new_chunks, new_bytes;
};

/* Receives each chunk once (data valid during the call). 1: it was new (counted in new_*), 0: known already,
 * -1: stop. */
typedef int (*tree_chunk_fn)(const char *digest, const void *data, size_t n, void *arg, struct err *e);
/* skip(relative path, is_dir, arg): 1 leaves it out. May be NULL. */
typedef int (*tree_skip_fn)(const char *relpath, int is_dir, void *arg);
/* Scans dir, hands out chunks, gives the manifest (malloc'ed) whose digest is the tree's. A manifest larger
 * than TREE_CHUNK_MAX is still one blob; senders cut blobs by PUT offset. Left out and counted in *special
 * (may be NULL): sockets, FIFOs, devices, and links that leave the tree (absolute, above the root, or with
 * ".." behind a name), since extraction would refuse them. chunk may be NULL. Links are never followed, also
 * when somebody swaps directories for links meanwhile. */
int tree_scan(const char *dir, tree_skip_fn skip, void *skip_arg, tree_chunk_fn chunk, void *chunk_arg,
              char **manifest, size_t *manifest_n, char digest[HASH_HEX_SIZE], struct tree_stats *st,
              uint64_t *special, struct err *e);
/* The same of an open folder, which it takes; shown: its path, for errors. */
int tree_scan_open(int root, const char *shown, tree_skip_fn skip, void *skip_arg, tree_chunk_fn chunk,
                   void *chunk_arg, char **manifest, size_t *manifest_n, char digest[HASH_HEX_SIZE],
                   struct tree_stats *st, uint64_t *special, struct err *e);

/* 1 when a link at path with that target stays in the tree, whatever other such links there are: relative,
 * ".." only in front, and not above the root. "b/../c" is refused: if b is a link, its ".." is somewhere else
 * than the text says. */
int tree_link_ok(const char *path, const char *target);

struct tree_entry {
	char type; /* 'd', 'l', 'f' */
	unsigned mode;
	uint64_t size;
	const char *path;   /* decoded; valid during the call */
	const char *target; /* of a link */
	const char *chunks; /* "DIGEST:OFF:LEN,..." of a file */
};
/* Checks and walks a manifest. */
int tree_each(const char *manifest, size_t n,
              int (*fn)(const struct tree_entry *en, void *arg, struct err *e), void *arg, struct err *e);
/* Distinct chunk digests in order of first use; v[n] malloc'ed strings (free each and v). */
int tree_chunks(const char *manifest, size_t n, char ***v, size_t *count, struct err *e);
/* The same, and the sizes: a small manifest may stand for a large tree, as one chunk may be in it many times.
 */
int tree_contents(const char *manifest, size_t n, char ***v, size_t *count, struct tree_stats *st,
                  struct err *e);
/* Files, bytes and distinct chunks, before anything is fetched or written. */
int tree_measure(const char *manifest, size_t n, struct tree_stats *st, struct err *e);
/* Next part of an entry's chunk list: moves *list; 1 got one, 0 end, -1 malformed. */
int tree_next_part(const char **list, char digest[HASH_HEX_SIZE], uint64_t *off, uint64_t *len);
/* Writes the tree below dir (made when missing) from blobs in blobdir. Files are verified by their chunks'
 * digests. What is there already stays unless the manifest has the same path. Directories are at least 0700.
 * Nothing is fsynced. On error what was written stays. */
int tree_extract(const char *manifest, size_t n, const char *blobdir, const char *dir, struct tree_stats *st,
                 struct err *e);

/* Two manifests (malloc'ed) with the folders and links of a third: `same` has its files that are in `base`
 * under the same path with the same bytes and mode, `changed` the others. A file of the same bytes whose pack
 * changed counts as changed. */
int tree_split(const char *manifest, size_t n, const char *base, size_t base_n, char **changed,
               size_t *changed_n, char **same, size_t *same_n, struct err *e);
/* Gives each file of the manifest below `from` one more name below `to`, which has its folders. */
int tree_link(const char *manifest, size_t n, const char *from, const char *to, struct err *e);

/* blobdir */
int blob_path(const char *blobdir, const char *digest, char *out, size_t out_size);
int blob_has(const char *blobdir, const char *digest);
/* Verifies the digest, writes atomically and durably; already there is fine. */
int blob_put(const char *blobdir, const char *digest, const void *data, size_t n, struct err *e);
/* The same without fsync, for caches: what a power loss spoils is noticed when it is read. */
int blob_cache(const char *blobdir, const char *digest, const void *data, size_t n, struct err *e);
/* Verified. A damaged blob is moved aside (DIGEST.bad), so that it can be put again: ERR_IO. */
int blob_get(const char *blobdir, const char *digest, size_t max, char **data, size_t *n, struct err *e);
/* Verifies it where it lies, without holding it in memory; else as blob_get. */
int blob_check(const char *blobdir, const char *digest, struct err *e);

#endif
