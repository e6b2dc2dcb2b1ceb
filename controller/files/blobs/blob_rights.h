/*
 * blob_rights: which blobs the agent of a node may read: manifests and chunks of the trees that hearthd
 * ordered for a launch on that node (bundle, inputs, checkpoint to resume from).
 *
 * The orders themselves are the source. hearthd notes the trees of an order to prepare before it sends the
 * order, and forgets them when the attempt has ended. After a restart hearthd sends the orders of unfinished
 * preparations again.
 *
 * Agents name no job in their questions: the rights of a node are the union of its launches. A job in the
 * question would add nothing, because an agent may name any job of its node.
 */
#ifndef HEARTH_CONTROLLER_FILES_BLOBS_BLOB_RIGHTS_H
#define HEARTH_CONTROLLER_FILES_BLOBS_BLOB_RIGHTS_H

#include <stdint.h>

#include "common/base/err.h"

struct blob_rights;
struct blobstore;
struct wm_prefetch;
struct wm_prepare;

struct blob_rights *blob_rights_create(struct blobstore *b);
void blob_rights_destroy(struct blob_rights *r); /* NULL allowed */
/* Any thread; neither waits for the disk. */
void blob_rights_add(struct blob_rights *r, const char *node, const struct wm_prepare *m);
/* The same for an order that comes ahead of the launch. */
void blob_rights_ahead(struct blob_rights *r, const char *node, const struct wm_prefetch *m);
void blob_rights_end(struct blob_rights *r, uint64_t job, uint32_t attempt);
/* A number that changes with each order; any thread. */
uint64_t blob_rights_changes(struct blob_rights *r);
/* One thread, the blob thread; the first question for a chunk of a tree reads the manifest. -1, ERR_DENIED:
 * no launch of that node has it; other errors: a manifest cannot be read. */
int blob_rights_check(struct blob_rights *r, const char *node, const char *digest, struct err *e);

#endif
