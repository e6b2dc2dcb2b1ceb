/*
 * gitinfo: the git state of a source folder, for the record of a run.
 */
#ifndef HEARTH_JOBCTL_CLIENT_GITINFO_H
#define HEARTH_JOBCTL_CLIENT_GITINFO_H

#include <cjson/cJSON.h>

/* Adds git_commit, git_branch, git_dirty and, if more than the commit is sent, diff. diff has a line
 * "untracked: NAME" for each file that git neither knows nor ignores and that is sent, then the uncommitted
 * changes (diff_cut: true if it is incomplete). Adds nothing if dir is not a checkout or git is missing.
 * Needs at most some seconds. */
void gitinfo_add(const char *dir, cJSON *run);

#endif
