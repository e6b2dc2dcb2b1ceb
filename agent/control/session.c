/*
 * session: see session.h. The session hands each order to its part. The part decides by the epoch whether
 * the order is too old.
 */
#include "agent/control/session.h"

#include <inttypes.h>
#include <string.h>

#include "agent/container/container.h"
#include "agent/control/clock_skew.h"
#include "agent/control/guard.h"
#include "agent/control/looks.h"
#include "agent/control/rshd.h"
#include "agent/launch/launches.h"
#include "agent/link/data_link.h"
#include "agent/link/outbox.h"
#include "agent/machine/inventory.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/net/peer.h"

#define BEAT_DEFAULT_MS 1000u
#define BEAT_MIN_MS     50u
#define SILENCE_MIN_MS  1000u
#define DIAL_MIN_MS     100u
#define TRY_MAX_MS      1000u
#define SENT_BEATS      64u /* whose time of sending is remembered */

struct session {
	struct session_parts parts;
	const struct session_ops *ops;
	void *arg;
	int removed; /* hearthd has removed this node */
	struct peer *peer;
	int up;
	int syncing; /* SYNC_END is still to come */
	unsigned failures;
	uint32_t beat_ms, lease_ms;
	uint64_t seq, heard_us, sent_us[SENT_BEATS], sent_real_us[SENT_BEATS];
	struct clock_skew clock_skew;
	struct loop_timer *dial, *beat;
	struct log_limit complaints;
};

static const struct peer_ops peer_ops;

static uint64_t now_us(const struct session *s)
{
	return clock_boot_us(s->parts.env->clock);
}

/* ---- connection ------------------------------------------------------------------------------------- */

static void dial_later(struct session *s)
{
	uint32_t ms = peer_backoff_ms(++s->failures);

	/* A controller that is back must be found well within a lease, or a neighbour that found it first looks
	 * like a proof that this node is cut off. */
	if (s->lease_ms && ms > s->lease_ms / 8 + DIAL_MIN_MS)
		ms = s->lease_ms / 8 + DIAL_MIN_MS;
	loop_timer_arm(s->dial, (uint64_t)ms * 1000);
}

/* A link that was cut for two thirds of a lease must be found again within the rest of it. */
static uint32_t try_ms(const struct session *s)
{
	uint32_t ms = s->lease_ms / 16;

	if (!s->lease_ms || ms > TRY_MAX_MS)
		return TRY_MAX_MS;
	return ms > DIAL_MIN_MS ? ms : DIAL_MIN_MS;
}

static void on_dial(void *arg)
{
	struct session *s = arg;
	struct peer_dial d = {.url = s->parts.env->cfg.controller,
	                      .ca_pem = s->parts.identity->ca_pem,
	                      .node = s->parts.env->cfg.node,
	                      .cert_path = s->parts.identity->cert_path,
	                      .key_path = s->parts.identity->key_path,
	                      .role = ROLE_CONTROL,
	                      .instance = s->parts.env->instance,
	                      .try_ms = try_ms(s)};
	struct err e = {0};

	s->peer = peer_dial(s->parts.env->loop, &d, &peer_ops, s, &e);
	if (!s->peer) {
		log_warn("event=dial_failed controller=%s reason=\"%s\"", d.url, e.text);
		dial_later(s);
	}
}

static void hang_up(struct session *s, const char *why)
{
	unsigned held = 0;

	if (s->up)
		log_warn("event=controller_lost reason=\"%s\"", why);
	else if (log_limit_ok(&s->complaints, now_us(s), &held))
		log_info("event=no_controller url=%s reason=\"%s\" suppressed=%u", s->parts.env->cfg.controller, why,
		         held);
	s->up = 0;
	loop_timer_cancel(s->beat);
	peer_destroy(s->peer);
	s->peer = NULL;
	dial_later(s);
}

static void on_close(struct peer *p, const struct err *why, void *arg)
{
	struct session *s = arg;

	(void)p;
	hang_up(s, why->text);
	if (why->code != ERR_GONE)
		return;
	loop_timer_cancel(s->dial);
	s->removed = 1;
	s->ops->removed(why->text, s->arg);
}

/* ---- what is said at each connection ---------------------------------------------------------------- */

static int send_inventory(struct session *s)
{
	struct wm_inventory m = {0};
	int rc;

	inventory_fill(s->parts.inv, &m);
	m.peer_port = s->parts.peer_port;
	rc = session_send(s, WM_INVENTORY, &m, 0);
	wire_fini(WM_INVENTORY, &m);
	return rc;
}

static void send_beat(struct session *s)
{
	struct wm_beat m = {0};

	inventory_beat(s->parts.inv, &m);
	m.seq = ++s->seq;
	m.boot_us = now_us(s);
	m.peers_gen = guard_peers_gen(s->parts.guard);
	m.ahead_us = s->clock_skew.ahead_us;
	m.ahead_error_us = s->clock_skew.error_us;
	s->sent_us[m.seq % SENT_BEATS] = m.boot_us;
	s->sent_real_us[m.seq % SENT_BEATS] = clock_real_us(s->parts.env->clock);
	session_send(s, WM_BEAT, &m, 0);
	wire_fini(WM_BEAT, &m);
	loop_timer_arm(s->beat, (uint64_t)s->beat_ms * 1000);
}

/* Sends the reports that found no room, and SYNC_END after the last one: after a report that is missing,
 * hearthd would take a launch for missing. */
static void send_rest(struct session *s)
{
	struct wm_sync_end end = {.instance = s->parts.env->instance};

	outbox_flush(s->parts.outbox);
	if (s->syncing && !outbox_unsent(s->parts.outbox) && session_send(s, WM_SYNC_END, &end, 0) == 0)
		s->syncing = 0;
}

static uint32_t silence_ms(const struct session *s)
{
	uint32_t ms = s->lease_ms / 2 > 3 * s->beat_ms ? s->lease_ms / 2 : 3 * s->beat_ms;

	return ms > SILENCE_MIN_MS ? ms : SILENCE_MIN_MS;
}

static void on_beat(void *arg)
{
	struct session *s = arg;

	if (now_us(s) - s->heard_us > (uint64_t)silence_ms(s) * 1000) {
		hang_up(s, "nothing heard from the controller");
		loop_timer_arm(s->dial, 0); /* it refused nothing */
		return;
	}
	send_rest(s);
	send_beat(s);
	container_reap();
}

static void on_open(struct peer *p, const struct wm_welcome *w, void *arg)
{
	struct session *s = arg;
	struct wm_sync_begin begin = {.instance = s->parts.env->instance,
	                              .launches = launches_count(s->parts.launches)};

	s->up = 1;
	s->failures = 0;
	s->heard_us = now_us(s);
	s->beat_ms = w->beat_ms >= BEAT_MIN_MS ? w->beat_ms : BEAT_DEFAULT_MS;
	s->lease_ms = w->lease_ms;
	log_info("event=controller_found url=%s session=%" PRIu64 " lease_ms=%u beat_ms=%u",
	         s->parts.env->cfg.controller, w->session, w->lease_ms, s->beat_ms);
	if (!peer_version(p))
		log_warn(
		    "event=no_common_version text=\"hearthd and this agent have no version of the protocol in "
		    "common (here %u and %u): the lease is renewed and launches go on, but no orders come; upgrade "
		    "what is older\"",
		    wire_previous(), wire_present());
	/* The lease itself is renewed by acknowledged beats only: a welcome is an I/O thread's, and says nothing
	 * of the one that decides. */
	outbox_reconnected(s->parts.outbox);
	if (send_inventory(s) < 0 || session_send(s, WM_SYNC_BEGIN, &begin, 0) < 0) {
		hang_up(s, "the first report could not be sent");
		return;
	}
	s->syncing = 1;
	/* In the order of events: an artifact that comes after CLEANED of its launch finds the job over. */
	outbox_flush(s->parts.outbox);
	launches_report_all(s->parts.launches);
	send_rest(s);
	rshd_reconnected(s->parts.rshd);
	data_link_dial_now(s->parts.link);
	send_beat(s);
}

/* ---- messages --------------------------------------------------------------------------------------- */

static void on_beat_ack(struct session *s, const struct wm_beat_ack *m)
{
	if (m->lease_ms)
		s->lease_ms = m->lease_ms;
	/* One that is older than what is remembered renews nothing. */
	if (m->seq <= s->seq && s->seq - m->seq < SENT_BEATS) {
		guard_ack(s->parts.guard, s->sent_us[m->seq % SENT_BEATS], m->lease_ms);
		clock_skew_measure(&s->clock_skew, s->sent_us[m->seq % SENT_BEATS],
		                   s->sent_real_us[m->seq % SENT_BEATS], m->real_us, now_us(s));
	}
	if (m->peers_changed || m->peers.n)
		guard_peers(s->parts.guard, &m->peers, m->peers_gen);
}

static void on_msg(struct peer *p, uint16_t type, uint64_t id, void *msg, void *arg)
{
	struct session *s = arg;
	char text[512];

	(void)p;
	(void)id;
	s->heard_us = now_us(s);
	if (type != WM_BEAT_ACK && type != WM_ACK)
		log_debug("event=order %s", wire_text(type, msg, text, sizeof(text)));
	switch (type) {
	case WM_BEAT_ACK:
		on_beat_ack(s, msg);
		break;
	case WM_ACK:
		outbox_ack(s->parts.outbox, ((struct wm_ack *)msg)->acked);
		break;
	case WM_RETIRED:
		guard_retired(s->parts.guard, &((struct wm_retired *)msg)->fingerprints);
		break;
	case WM_FAILURE_PATTERNS:
		launches_set_rules(s->parts.launches, ((struct wm_failure_patterns *)msg)->text);
		break;
	case WM_NODE_ASK:
		looks_order(s->parts.looks, msg);
		break;
	case WM_RSH_STATE:
		rshd_state(s->parts.rshd, msg);
		break;
	default:
		launches_order(s->parts.launches, type, msg); /* takes */
		return;
	}
	wire_free(type, msg);
}

static void on_drain(struct peer *p, void *arg)
{
	struct session *s = arg;

	(void)p;
	if (s->up)
		send_rest(s);
}

static const struct peer_ops peer_ops = {
    .on_open = on_open, .on_msg = on_msg, .on_close = on_close, .on_drain = on_drain};

/* ---- outside ----------------------------------------------------------------------------------------------
 */

struct session *session_create(const struct session_parts *parts, const struct session_ops *ops, void *arg)
{
	struct session *s = xcalloc(1, sizeof(*s));

	s->parts = *parts;
	s->ops = ops;
	s->arg = arg;
	s->beat_ms = BEAT_DEFAULT_MS;
	s->complaints.per_minute = 6;
	s->dial = loop_timer_create(parts->env->loop, on_dial, s);
	s->beat = loop_timer_create(parts->env->loop, on_beat, s);
	loop_timer_arm(s->dial, 0);
	return s;
}

void session_destroy(struct session *s)
{
	if (!s)
		return;
	peer_destroy(s->peer);
	loop_timer_destroy(s->dial);
	loop_timer_destroy(s->beat);
	free(s);
}

int session_send(struct session *s, uint16_t type, const void *msg, uint64_t id)
{
	struct err e = {0};

	if (!s || !s->up || !s->peer || FAULT("agent.send"))
		return -1;
	/* Not an error: a report stays in the outbox, and goes to a hearthd that knows it. */
	if (!peer_speaks(s->peer, type))
		return 0;
	if (peer_send(s->peer, type, msg, id, &e) == 0)
		return 0;
	if (e.code != ERR_BUSY)
		log_error("event=send_failed message=%s reason=\"%s\"", wire_name(type), e.text);
	return -1;
}

void session_dial_now(struct session *s)
{
	if (s && !s->peer && !s->removed)
		loop_timer_arm(s->dial, 0);
}

void session_renew(struct session *s)
{
	if (s && s->peer)
		hang_up(s, "the launches were fenced: hearthd must send all orders again");
}
