/*
 * trash: removes folders without holding up the loop. A job may leave hundreds of thousands of files, and
 * the loop must send beats meanwhile.
 *
 * The agent renames a folder into a trash folder on the same file system (DATA/trash, RUN/trash), which is
 * quick for any size. A thread then removes it. The next start removes what an earlier agent left there.
 */
#ifndef HEARTH_AGENT_BASE_TRASH_H
#define HEARTH_AGENT_BASE_TRASH_H

#include "agent/base/agent_env.h"
#include "common/base/err.h"

#define TRASH_THREADS 4 /* at a time; the others wait for their turn */

struct trash;
struct trash *trash_create(struct agent_env *env); /* also removes what an earlier agent left there */
void trash_destroy(struct trash *t);               /* the rest stays for the next agent */
/* Removes path, a folder in DATA or RUN; a missing one is fine. key: its owner, without '~'. */
int trash_put(struct trash *t, const char *path, const char *key, struct err *e);
/* done(arg) from a later turn, when nothing of that key is left or something could not be removed (why, else
 * NULL). One at a time for each arg. */
void trash_wait(struct trash *t, const char *key, void (*done)(const char *why, void *arg), void *arg);
void trash_forget(struct trash *t, void *arg); /* done is not called any more */

#endif
