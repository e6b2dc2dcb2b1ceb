/*
 * gitinfo: where a source folder stands in git, for the record of a run.
 */
#ifndef HEARTH_JOBCTL_GITINFO_H
#define HEARTH_JOBCTL_GITINFO_H

#include <cjson/cJSON.h>

/* Adds git_commit, git_branch, git_dirty and, when the commit is not all that is sent from below dir, diff: a
 * line "untracked: NAME" for each file that git neither knows nor ignores and that .hearthignore lets
 * through, then the uncommitted changes (diff_cut: true when it is not whole). Nothing when dir is no
 * checkout or git is missing. Takes at most some seconds. */
void gitinfo_add(const char *dir, cJSON *run);

#endif
