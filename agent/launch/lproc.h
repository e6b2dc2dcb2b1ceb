/*
 * lproc: a process of a launch on this node, and its shim.
 */
#ifndef HEARTH_AGENT_LAUNCH_LPROC_H
#define HEARTH_AGENT_LAUNCH_LPROC_H

#include "agent/launch/launch.h"
#include "common/net/wire_msg.h"
#include "common/os/proc.h"

struct shimlink;

struct start { /* what SHIM_START brings */
	struct strv argv, env;
	int preloaded; /* by the interpreter that waits */
};

struct lproc {
	struct launch *l;
	uint8_t kind;              /* enum proc_kind */
	uint32_t rank, local_rank; /* NO_RANK where it has no meaning */
	char *name;                /* rank-0, mpirun, orted: folder below RUN/J.A and logs/ */
	char *dir, *logdir;
	char *stream;      /* name of the log stream; NULL: goes to the system stream at the end */
	char *token;       /* of the shim; for orted the rsh_id once it is ordered */
	char *rsh_id;      /* of orted; NULL not ordered yet */
	struct proc_id id; /* of the shim */
	pid_t spawned;     /* while it gets ready; 0 else */
	int ready_fd;
	struct loop_fd *ready;
	struct shimlink *link;
	struct tail *tail;
	uint8_t state; /* enum proc_state */
	int exited;    /* while it runs, for its shim: it has ended, but its pipes or strays have not */
	uint32_t pid, exit_code, signal;
	uint8_t oom, ended_by; /* ended_by: enum ended_by */
	uint64_t started_us, ended_us;
	char *text;
	char *last_lines; /* of a bad end */
	size_t last_lines_n;
	struct start *start; /* of a parked rank; NULL not made yet */
	int went;            /* GO was sent */
	int quit;            /* has an order to end */
	int by_lease;        /* its shim ended it, because the lease was over */
	int counted;         /* the keeper knows of its end */
	int unsaid;          /* its end is not reported: our own order kept it from starting */
	struct lproc *next;
};

struct lproc *lproc_new(struct launch *l, uint8_t kind, uint32_t local_rank);
void lproc_free(struct lproc *p);
void launch_free_procs(struct launch *l); /* all of them */
int lproc_ended(const struct lproc *p);
int lproc_waits(const struct lproc *p);  /* its program was not started: it waits for go, or is parked */
int lproc_exited(const struct lproc *p); /* how it ended is known; its shim may still be at work */
void lproc_watch(struct lproc *p);       /* id and token are known: link and tail */
void lproc_follow(struct lproc *p);      /* its output goes to hearthd from now on */
void lproc_free_start(struct lproc *p);
void lproc_report(struct lproc *p);
void lproc_quit(struct lproc *p, uint32_t grace_ms, enum ended_by by);
int lproc_was_quit(const struct lproc *p); /* by this agent or the one before, while it waited */
void lproc_end(struct lproc *p, enum proc_state state, const char *text); /* an end without a shim's record */

#endif
