/*
 * mounts: starts hearth-hold, the process that keeps a launch's namespaces, and knows it again after a
 * restart of the agent.
 */
#ifndef HEARTH_AGENT_MOUNTS_H
#define HEARTH_AGENT_MOUNTS_H

#include "agent/agent.h"
#include "common/proc.h"

struct mounts_params {
	const char *hold_path; /* the program */
	const char *tmp, *ml;  /* real folders behind /tmp and /opt/ml */
	uint64_t shm_bytes;
	const struct strv *keep;      /* paths of the agent's that must stay visible */
	const struct strv *links;     /* paths that the job's owner named: opened as `as` */
	const struct launch_user *as; /* NULL: as this process */
	int user;                     /* in a user namespace: this process is no root */
};
/* Waits until all is mounted (milliseconds; at most 5 s). ERR_DENIED: this process may not make namespaces.
 */
int mounts_start(const struct mounts_params *p, const char *mark, struct proc_id *holder, struct err *e);
/* Ends the holder and waits a moment for it; a gone one is fine. */
void mounts_stop(const struct proc_id *holder);
/* Those that were killed and did not end at once: reaps what has ended since; how many are left. */
unsigned mounts_reap(void);
/* RUN/../agent's hearth-hold: beside the other programs; malloc'ed, NULL when it is not there. */
char *mounts_find(const char *libexec_dir);

#endif
