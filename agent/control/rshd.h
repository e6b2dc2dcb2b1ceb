/*
 * rshd: the local socket RUN/agent.sock, where hearth-rsh asks for a command (orted) on another node of its
 * launch.
 *
 * - The request: hearth-rsh sends LOCAL_RSH {token, rsh_id, host, argv}; rshd sends RSH_REQUEST to hearthd;
 *   hearthd sends ORTED_START to the agent of that host.
 * - The answer: that agent sends PROC_REPORT; hearthd sends RSH_STATE; rshd sends LOCAL_RSH_STATE to
 *   hearth-rsh, which ends when orted has ended.
 *
 * Only root, the agent's own account and accounts with a launch on this node are served, each with a number
 * of connections of its own. The launch's token proves the launch of a caller, and its user id proves the
 * job's account. The rsh_id names a session: hearth-rsh connects again with the same one after a restart of
 * the agent. The starting side knows the rsh_id too, so nothing is started twice. When hearth-rsh dies
 * (mpirun aborts), rshd sends RSH_CANCEL.
 */
#ifndef HEARTH_AGENT_CONTROL_RSHD_H
#define HEARTH_AGENT_CONTROL_RSHD_H

#include "common/base/err.h"
#include "common/net/wire_msg.h"
#include "common/os/loop.h"

struct launches;
struct rshd;

struct rshd_ops {
	/* Sends to hearthd; not kept when there is no connection: rshd_reconnected asks again. */
	void (*send)(uint16_t type, const void *msg, void *arg);
};
/* sock_path: RUN/agent.sock. */
struct rshd *rshd_create(struct loop *loop, const char *sock_path, struct launches *launches,
                         const struct rshd_ops *ops, void *arg, struct err *e);
void rshd_destroy(struct rshd *r);
void rshd_state(struct rshd *r, const struct wm_rsh_state *m); /* from the controller */
void rshd_reconnected(struct rshd *r);                         /* asks again what was not answered */
/* The launch has become another one, with its sessions. */
void rshd_launch_renamed(struct rshd *r, uint64_t job, uint32_t attempt, uint64_t to_job,
                         uint32_t to_attempt);
/* Asks hearthd about the sessions of a launch: it knows them under its earlier name. */
void rshd_ask(struct rshd *r, uint64_t job, uint32_t attempt);
void rshd_launch_over(struct rshd *r, uint64_t job, uint32_t attempt); /* its sessions end */

#endif
