/*
 * download: an answer made of parts of files, sent piece by piece as the connection accepts it. It
 * understands one Range (RFC 9110, section 14).
 */
#ifndef HEARTH_CONTROLLER_API_DOWNLOAD_H
#define HEARTH_CONTROLLER_API_DOWNLOAD_H

#include <stdint.h>

#include "common/base/hash.h"

struct call;
struct blobstore;

struct part {
	char digest[HASH_HEX_SIZE];
	uint64_t offset, length; /* inside that blob */
};

/* Takes parts (malloc'ed, n of them). name: for Content-Disposition, NULL none. Answers the call. */
void download_start(struct call *c, struct blobstore *bs, struct part *parts, size_t n, const char *name);

/* "bytes=0-499", "bytes=500-", "bytes=-500" of size bytes -> first and count. 1 a range, 0 none (absent,
 * several, or not understood: the whole), -1 not satisfiable. */
int download_range(const char *header, uint64_t size, uint64_t *first, uint64_t *count);

#endif
