/*
 * listing: what a folder holds, as hearth-files sends it: folders come before their entries, and a folder's
 * entries follow it at once. Bounded in entries, depth, bytes and the size of texts; the account may have
 * written any of it.
 */
#ifndef HEARTH_AGENT_FILES_LISTING_H
#define HEARTH_AGENT_FILES_LISTING_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include <stddef.h>
#include <stdint.h>

#define LISTING_ITEMS 20000u
#define LISTING_DEPTH 12
#define LISTING_BYTES (8u * 1024 * 1024)
#define LISTING_TEXT  (256u * 1024) /* of one small marker file */

enum listing_flags {
	LISTING_OPEN = 1,   /* some process may still write it */
	LISTING_MOVED = 2,  /* came under this name by a rename, since the listing before */
	LISTING_DENIED = 4, /* cannot be read */
};

struct listing_item {
	char *path; /* below the folder */
	char type;  /* 'd', 'f', 'l'; 's' something else */
	uint8_t flags;
	uint64_t size, inode, mtime_ns, ctime_ns;
	uint64_t born_ns; /* 0 unknown */
	char *text;       /* target of a link, content of a small marker file; NULL none */
	size_t n_text;
};

struct listing {
	struct listing_item *items;
	size_t n, cap;
	int cut;        /* a bound was reached: not all of it is here */
	uint64_t at_us; /* wall clock when it began */
};

struct listing_item *listing_add(struct listing *l, const char *path); /* NULL: full */
void listing_fini(struct listing *l);
int listing_encode(const struct listing *l, struct buf *b);
int listing_decode(struct buf *b, struct listing *out, struct err *e);
/* Index behind the entries of item i. */
size_t listing_after(const struct listing *l, size_t i);
/* Hash of item i and what is below it: names below it, sizes, times of writing, inodes. Its own name and the
 * times of changes are not in it: a rename and a hard link leave it. */
uint64_t listing_print(const struct listing *l, size_t i);

/* "ckpt-7_rank*.pt" of "ckpt-7_rank3.pt": the name of an entry without the numbers of ranks in it, malloc'ed;
 * NULL: it has none. What the ranks of a node write under such names is one checkpoint. */
char *listing_rank_name(const char *name);
/* Hash of item i as one of several: its name counts, and the order of the items does not. */
uint64_t listing_part_print(const struct listing *l, size_t i);

#endif
