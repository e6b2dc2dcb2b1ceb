/*
 * bundle: moves source trees and artifacts between a folder and hearthd, as content-addressed chunks
 * (common/tree/tree.h).
 */
#ifndef HEARTH_JOBCTL_CLIENT_BUNDLE_H
#define HEARTH_JOBCTL_CLIENT_BUNDLE_H

#include "common/base/err.h"
#include "common/base/hash.h"
#include "common/tree/tree.h"
#include "jobctl/client/client.h"

/* What an upload reports. */
struct bundle_report {
	tree_chunk_fn chunk; /* gets each block once, before it is sent; NULL: none */
	void *arg;
	char *manifest; /* the caller's */
	size_t manifest_n;
	uint64_t left_out;   /* links out of the tree, sockets, pipes and devices */
	int only_ask;        /* nothing is sent: sent_bytes is what hearthd lacks */
	uint64_t sent_bytes; /* blocks that hearthd lacked, without the manifest */
};

/* Scans dir (ignore.h says what is left out) and uploads what hearthd lacks, with progress on a terminal. c
 * NULL: only scans. digest: that of the manifest. */
int bundle_upload(struct client *c, const char *dir, char digest[HASH_HEX_SIZE], struct bundle_report *r,
                  struct err *e);
/* Fetches a blob of at most max bytes and checks its digest. query: as below. */
int bundle_get_blob(struct client *c, const char *digest, const char *query, size_t max, char **data,
                    size_t *n, struct err *e);
/* Downloads a tree by its manifest's digest into dir, and makes dir if it is missing. Existing files stay
 * unless the tree has the same path. query authorises the blobs: "job=17&kind=model". */
int bundle_download(struct client *c, const char *digest, const char *query, const char *dir, struct err *e);
/* Copies from the file:// folder of an output, which this machine may share with the nodes. */
int bundle_copy(const char *uri, const char *dir, struct err *e);
/* The same of a checkpoint, whose copy must have this digest (tree.h); else nothing stays. */
int bundle_copy_checked(const char *uri, const char *digest, const char *dir, struct err *e);

#endif
