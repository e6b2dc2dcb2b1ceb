/*
 * trash: removes folders without holding up the loop. What a job leaves may be hundreds of thousands of
 * files, and the loop must send beats meanwhile.
 *
 * A folder is first renamed into a trash folder on its file system (DATA/trash, RUN/trash), which takes no
 * time however much is in it, then removed by a thread. What an agent that ended has left in there goes at
 * the next start.
 */
#ifndef HEARTH_AGENT_TRASH_H
#define HEARTH_AGENT_TRASH_H

#include "agent/base/agent_env.h"
#include "common/base/err.h"

#define TRASH_THREADS 4 /* at a time; the others wait for their turn */

struct trash;
struct trash *trash_create(struct agent_env *env); /* takes what lies there */
void trash_destroy(struct trash *t);               /* what is not gone by then stays for the next agent */
/* Away with path, which lies in DATA or RUN; missing is fine. key says whose it is, no '~' in it. */
int trash_put(struct trash *t, const char *path, const char *key, struct err *e);
/* done(arg) from a later turn, when nothing of that key is left or something could not be removed (why, else
 * NULL). One at a time for each arg. */
void trash_wait(struct trash *t, const char *key, void (*done)(const char *why, void *arg), void *arg);
void trash_forget(struct trash *t, void *arg); /* done is not called any more */

#endif
