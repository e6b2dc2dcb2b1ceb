/*
 * agent_wiring: connects launches, neighbours and the session; see agent_core.h. A part reaches a part of a
 * later room, or a neighbour, by an ops struct. This file has the functions of those structs.
 */
#include "agent/agent_core.h"
#include "agent/control/guard.h"
#include "agent/control/looks.h"
#include "agent/control/peerport.h"
#include "agent/control/presence.h"
#include "agent/control/retire.h"
#include "agent/control/rshd.h"
#include "agent/control/session.h"
#include "agent/launch/env_ahead.h"
#include "agent/launch/launches.h"
#include "agent/stage/prefetch.h"

static void launch_over(uint64_t job, uint32_t attempt, void *arg)
{
	struct agent *a = arg;

	rshd_launch_over(a->rshd, job, attempt);
	env_ahead_cancel(a->host.env_ahead, job);
}

static void launch_renamed(uint64_t job, uint32_t attempt, uint64_t to_job, uint32_t to_attempt, void *arg)
{
	rshd_launch_renamed(((struct agent *)arg)->rshd, job, attempt, to_job, to_attempt);
}

static void ask_orteds(uint64_t job, uint32_t attempt, void *arg)
{
	rshd_ask(((struct agent *)arg)->rshd, job, attempt);
}

static void launches_changed(void *arg)
{
	announcer_changed(((struct agent *)arg)->announcer);
}

static void session_says(uint16_t type, const void *msg, void *arg)
{
	session_send(((struct agent *)arg)->session, type, msg, 0);
}

static const struct rshd_ops rshd_ops = {.send = session_says};
static const struct looks_ops looks_ops = {.send = session_says};
static const struct prefetch_ops prefetch_ops = {.send = session_says};
static const struct env_ahead_ops env_ahead_ops = {.send = session_says};

static void guard_dials(void *arg)
{
	session_dial_now(((struct agent *)arg)->session);
}

static void guard_fenced(void *arg)
{
	session_renew(((struct agent *)arg)->session);
}

static const struct guard_ops guard_ops = {.dial_now = guard_dials, .fenced = guard_fenced};

static void node_removed(const char *why, void *arg)
{
	struct agent *a = arg;

	if (!a->retire)
		a->retire = retire_begin(&a->env, a->launches, why);
}

static const struct session_ops session_ops = {.removed = node_removed};

static int wire_neighbours(struct agent *a, struct err *e)
{
	struct guard_parts parts = {.env = &a->env, .boot_id = a->host.boot_id, .launches = a->launches};

	a->peerport = peerport_create(&a->env, &a->identity, e);
	if (!a->peerport)
		return -1;
	parts.peerport = a->peerport;
	a->guard = guard_create(&parts, &guard_ops, a);
	a->looks = looks_create(a->peerport, &looks_ops, a);
	a->host.prefetch = prefetch_create(&a->env, a->host.link, &prefetch_ops, a);
	a->host.env_ahead = env_ahead_create(&a->host, &env_ahead_ops, a);
	return 0;
}

static void wire_session(struct agent *a)
{
	struct session_parts parts = {.env = &a->env,
	                              .identity = &a->identity,
	                              .peer_port = peerport_number(a->peerport),
	                              .inv = a->host.inv,
	                              .link = a->host.link,
	                              .outbox = a->host.outbox,
	                              .launches = a->launches,
	                              .rshd = a->rshd,
	                              .guard = a->guard,
	                              .looks = a->looks};

	a->session = session_create(&parts, &session_ops, a);
}

int agent_wire(struct agent *a, struct err *e)
{
	int alone = a->env.cfg.alone;

	a->host.launch_over = launch_over;
	a->host.launch_renamed = launch_renamed;
	a->host.ask_orteds = ask_orteds;
	a->host.launches_changed = launches_changed;
	a->host.arg = a;
	a->launches = launches_create(&a->host);
	a->rshd = rshd_create(a->env.loop, a->host.sock_path, a->launches, &rshd_ops, a, e);
	if (!a->rshd || (!alone && wire_neighbours(a, e) < 0) || launches_adopt(a->launches, e) < 0)
		return -1;
	a->adopted = 1;
	if (!alone) {
		a->announcer = announcer_create(&a->env, a->launches, a->peerport);
		wire_session(a);
	}
	return 0;
}

void agent_unwire(struct agent *a)
{
	session_destroy(a->session);
	a->session = NULL;
	retire_destroy(a->retire);
	guard_destroy(a->guard);
	looks_destroy(a->looks);
	prefetch_destroy(a->host.prefetch);
	a->host.prefetch = NULL;
	env_ahead_destroy(a->host.env_ahead);
	a->host.env_ahead = NULL;
	announcer_destroy(a->announcer);
	a->announcer = NULL;
	peerport_destroy(a->peerport);
	launches_destroy(a->launches);
	rshd_destroy(a->rshd);
}
