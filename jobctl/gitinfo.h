/*
 * gitinfo: where a source folder stands in git, for the record of a run.
 */
#ifndef HEARTH_JOBCTL_GITINFO_H
#define HEARTH_JOBCTL_GITINFO_H

#include <cjson/cJSON.h>

/* Adds git_commit, git_branch, git_dirty and, when there are uncommitted changes below dir, diff (diff_cut:
 * true when it was too long to be kept whole). Nothing when dir is no checkout or git is missing. Takes at
 * most some seconds. */
void gitinfo_add(const char *dir, cJSON *run);

#endif
