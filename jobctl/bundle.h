/*
 * bundle: source trees and artifacts between a folder and hearthd.
 */
#ifndef HEARTH_JOBCTL_BUNDLE_H
#define HEARTH_JOBCTL_BUNDLE_H

#include "common/err.h"
#include "common/hash.h"
#include "jobctl/client.h"
#include <cjson/cJSON.h>

/* Scans dir (leaving out .git, __pycache__ and what .hearthignore names), uploads what hearthd lacks, with
 * progress on a terminal. dry: only scans. digest: of the manifest. */
int bundle_upload(struct client *c, const char *dir, int dry, char digest[HASH_HEX_SIZE], struct err *e);
/* Downloads a tree by its manifest's digest into dir (which is new or empty unless force). query authorises
 * the blobs: "job=17&kind=model". */
int bundle_download(struct client *c, const char *digest, const char *query, const char *dir, struct err *e);
/* git_commit, git_branch, git_dirty and, when there are uncommitted changes, diff (at most 1 MiB) of a
 * folder; nothing when it is not a checkout. */
void bundle_git_info(const char *dir, cJSON *run);
/* Does a path match an ignore pattern? "*.pt", "data/", "/build", "**" not supported. Pure, for tests. */
int bundle_ignored(const char *pattern, const char *relpath, int is_dir);

#endif
