/*
 * changed: which files of a source tree differ from those of an earlier job.
 *
 * hearthd has the earlier job's manifest. Small files share blocks, so a new block does not say which of its
 * files differ. changed thus keeps new blocks while they are sent, fetches the old ones, and compares. Both
 * have a bound of CHANGED_KEPT_MAX bytes; what is beyond it is counted as not compared.
 */
#ifndef HEARTH_JOBCTL_CLIENT_CHANGED_H
#define HEARTH_JOBCTL_CLIENT_CHANGED_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "jobctl/client/client.h"

#define CHANGED_KEPT_MAX (64u * 1024 * 1024)

struct changed;

/* Fetches the manifest with that digest, which belongs to job. NULL: hearthd does not give it. */
struct changed *changed_create(struct client *c, uint64_t job, const char *digest, struct err *e);
void changed_destroy(struct changed *ch);
/* Keeps a block of the new tree. Is a tree_chunk_fn; arg is a struct changed. */
int changed_keep(const char *digest, const void *data, size_t n, void *arg, struct err *e);
/* Compares the new manifest with the old one. Adds to out: files and bytes of the new tree, changed: a list
 * of {path, how: "added", "changed" or "removed", size} by path, and not_compared, a number. */
int changed_list(struct changed *ch, const char *manifest, size_t n, cJSON *out, struct err *e);

#endif
