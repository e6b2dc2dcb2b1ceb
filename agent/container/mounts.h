/*
 * mounts: starts hearth-hold, the process that holds a launch's namespaces, and recognises it after a
 * restart of the agent.
 */
#ifndef HEARTH_AGENT_CONTAINER_MOUNTS_H
#define HEARTH_AGENT_CONTAINER_MOUNTS_H

#include "agent/base/user.h"
#include "common/os/loop.h"
#include "common/os/proc.h"

struct mounts_params {
	const char *hold_path;          /* the program */
	const char *tmp, *var_tmp, *ml; /* real folders behind /tmp, /var/tmp (NULL: the host's) and /opt/ml */
	uint64_t shm_bytes;
	const struct strv *keep;      /* paths of the agent's that must stay visible */
	const struct strv *layers;    /* folders of base/layers.h, mounted below ml; NULL none */
	const struct strv *links;     /* paths that the job's owner named: opened as `as` */
	const struct launch_user *as; /* NULL: as this process */
	int user;                     /* in a user namespace: this process is not root */
	uint32_t ready_ms;            /* that it may take; 0: half a minute */
};
/* A holder that is making its mounts. done: once, by the loop: the holder, or NULL and why (ERR_DENIED: this
 * process may not make namespaces; ERR_TIMEOUT: a file server did not answer). The handle
 * is gone when it is called. NULL: nothing was started. */
struct mounts;
typedef void (*mounts_done)(const struct proc_id *holder, const struct err *why, void *arg);
struct mounts *mounts_start(struct loop *l, const struct mounts_params *p, const char *mark, mounts_done done,
                            void *arg, struct err *e);
void mounts_cancel(struct mounts *m); /* ends it; done is not called; NULL allowed */
void mounts_leave(struct mounts *m);  /* forgets it; it is nobody's then; NULL allowed */
/* Ends the holder and waits a moment for it; a gone one is fine. */
void mounts_stop(const struct proc_id *holder);
/* Reaps killed holders that did not end at once. Returns how many are left. */
unsigned mounts_reap(void);
/* RUN/../agent's hearth-hold: beside the other programs; malloc'ed, NULL when it is not there. */
char *mounts_find(const char *libexec_dir);

#endif
