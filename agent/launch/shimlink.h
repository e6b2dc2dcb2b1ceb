/*
 * shimlink: the agent's end of one shim's socket, on the loop.
 *
 * It says hello, asks for the state with watch = 1, and passes every state on. When the connection ends, it
 * checks whether that very shim (boot id, pid, start time) still runs. If it does, the link dials again
 * with back-off; else it reads DIR/state a last time. A record there is the exact end; without one the fate
 * of the process is unknown, and reported so. Orders from before the hello are sent after it. Go, start,
 * signal and release are sent once; quit is sent again on each new connection until the process has ended.
 */
#ifndef HEARTH_AGENT_LAUNCH_SHIMLINK_H
#define HEARTH_AGENT_LAUNCH_SHIMLINK_H

#include "agent/base/agent_env.h"
#include "common/net/wire_msg.h"
#include "common/os/proc.h"

struct shimlink;

struct shimlink_ops {
	/* At each change; st is valid during the call. Never after gone. */
	void (*status)(const struct wm_shim_status *st, void *arg);
	/* The shim does not run any more. lost = 1: it left no record of an end (after release: lost = 0 whatever
	 * it left). */
	void (*gone)(int lost, void *arg);
	/* Answer to an order that failed; also, later, of one that could not be sent. */
	void (*refused)(uint16_t order, enum err_code code, const char *text, void *arg);
};

/* id: the shim as its state file says. token: DIR/key. Strings are copied; ops must outlive the link. */
struct shimlink *shimlink_create(struct agent_env *env, const char *dir, const char *token,
                                 const struct proc_id *id, const struct shimlink_ops *ops, void *arg);
void shimlink_destroy(struct shimlink *l); /* the shim stays; NULL allowed */

void shimlink_go(struct shimlink *l, const struct strv *argv,
                 const struct strv *envp); /* NULL: as prepared */
/* For a shim whose state is PS_PARKED: the whole command and environment; cwd "" or NULL: as prepared.
 * preloaded: the waiting interpreter runs it. The state becomes PS_RUNNING or PS_FAILED; an order that the
 * shim cannot obey goes to `refused` and changes nothing. */
void shimlink_start(struct shimlink *l, const struct strv *argv, const struct strv *envp, const char *cwd,
                    int preloaded);
/* -1: a shim would refuse an order of that size. */
int shimlink_check_start(const struct strv *argv, const struct strv *envp, const char *cwd, struct err *e);
void shimlink_signal(struct shimlink *l, int signo, int only_if_caught);
void shimlink_quit(struct shimlink *l, uint32_t grace_ms, enum ended_by by);
void shimlink_release(struct shimlink *l);
/* Asks for the state. 0: it has not answered since this was called before. */
int shimlink_probe(struct shimlink *l);
int shimlink_has_answered(const struct shimlink *l); /* 0: not yet since shimlink_probe */
int shimlink_is_gone(const struct shimlink *l);

#endif
