/*
 * identity: a process becomes an account for good: ids, groups and capabilities. Nothing leads back.
 */
#ifndef HEARTH_AGENT_FILES_IDENTITY_H
#define HEARTH_AGENT_FILES_IDENTITY_H

#include "common/base/err.h"
#include <stddef.h>
#include <sys/types.h>

struct identity {
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* NULL: gid alone */
	size_t n_groups;
};

/* Reads UID:GID[:GROUP]...; groups are the caller's to free. */
int identity_parse(const char *text, struct identity *out, struct err *e);
/* Changes this process: no capability in any set (uid 0 keeps those over files), no new privileges by exec,
 * not to be traced by the account's other processes, no core file, no child, a bound on memory and
 * descriptors, and an end with the thread that started it. id NULL: ids and groups stay. For a process with
 * one thread. */
int identity_assume(const struct identity *id, struct err *e);

#endif
