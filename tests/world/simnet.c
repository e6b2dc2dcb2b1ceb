/*
 * simnet: connections between agents and hearthd, and the questions between agents. The functions of
 * common/net/peer.h and agent/control/peerport.h, in their place.
 *
 * As TCP has it: what is sent on a connection comes in order or not at all; a cut only delays, until an end
 * gives up; who closes or dies loses a tail of what was on its way; an end that lost power says nothing, and
 * the other one learns of it when it sends something and the machine is back.
 */
#include "agent/control/guard.h"
#include "agent/control/peerport.h"
#include "agent/control/presence.h"
#include "agent/launch/launch.h"
#include "agent/launch/launches.h"
#include "common/base/lease_times.h"
#include "common/net/peer.h"
#include "tests/world/sim.h"
#include <stdio.h>
#include <string.h>

#define DIAL_MAX_US 10000000u

enum { TO_CTL, TO_AGENT };
enum msg_kind { M_DATA, M_WELCOME, M_CLOSE, M_DOWN };

struct sim_msg {
	uint64_t at, id;
	enum msg_kind kind;
	uint16_t type;
	void *msg;
	struct sim_msg *prev, *next;
};

struct pipe {
	struct sim_conn *c;
	struct sim_msg *q;
	struct loop_timer *timer;
	uint64_t last;
};

struct sim_conn {
	struct sim_node *n;
	struct peer *peer; /* the agent's end; NULL closed */
	uint64_t session, dial_until;
	int server; /* hearthd's end is open */
	struct loop_timer *dial;
	struct pipe to[2];
	struct sim_conn *prev, *next;
};

struct peer {
	struct sim_conn *c;
	const struct peer_ops *ops;
	void *arg;
	int open;
};

int sim_net_ctl_cut(const struct sim_node *n)
{
	return n->cut_ctl_until > simloop_now();
}

static uint64_t latency(const struct sim_node *n)
{
	uint64_t us = 100 + sim_rnd(&sim->rng_net, 900);

	if (n->slow_until > simloop_now())
		us += sim_span(&sim->rng_net, 1000, 2000000);
	return us;
}

/* ---- queues ----------------------------------------------------------------------------------------- */

static void msg_free(struct sim_msg *m)
{
	if (m->msg)
		wire_free(m->type, m->msg);
	free(m);
}

static void arm(struct pipe *p)
{
	uint64_t now = simloop_now();

	if (p->q)
		loop_timer_arm(p->timer, p->q->at > now ? p->q->at - now : 0);
	else
		loop_timer_cancel(p->timer);
}

static void pipe_drop(struct pipe *p)
{
	struct sim_msg *m, *t;

	DL_FOREACH_SAFE (p->q, m, t)
		msg_free(m);
	p->q = NULL;
	arm(p);
}

/* The tail of what is on its way is lost with its sender. */
static void pipe_cut_tail(struct pipe *p)
{
	struct sim_msg *m, *t;
	uint32_t n = 0, keep;

	DL_COUNT(p->q, m, n);
	keep = sim_rnd(&sim->rng_net, n + 1);
	if (sim_rnd(&sim->rng_net, 2))
		keep = n;
	if (sim->o.gentle) /* the worst */
		keep = 0;
	DL_FOREACH_SAFE (p->q, m, t) {
		if (keep) {
			keep--;
			continue;
		}
		DL_DELETE(p->q, m);
		msg_free(m);
	}
	arm(p);
}

static struct sim_msg *pipe_put(struct pipe *p, enum msg_kind kind)
{
	struct sim_msg *m = xcalloc(1, sizeof *m);
	uint64_t at = simloop_now() + latency(p->c->n);

	m->kind = kind;
	m->at = p->last = at > p->last ? at : p->last;
	DL_APPEND(p->q, m);
	if (p->q == m)
		arm(p);
	return m;
}

static int has_close(const struct pipe *p)
{
	const struct sim_msg *m;

	DL_FOREACH (p->q, m)
		if (m->kind == M_CLOSE)
			return 1;
	return 0;
}

static void conn_free(struct sim_conn *c)
{
	DL_DELETE(sim->conns, c);
	pipe_drop(&c->to[0]);
	pipe_drop(&c->to[1]);
	loop_timer_destroy(c->to[0].timer);
	loop_timer_destroy(c->to[1].timer);
	loop_timer_destroy(c->dial);
	free(c);
}

static void tidy(void)
{
	struct sim_conn *c, *t;

	DL_FOREACH_SAFE (sim->conns, c, t)
		if (!c->peer && !c->server && !c->to[TO_CTL].q)
			conn_free(c);
}

/* ---- at hearthd ---------------------------------------------------------------------------------------- */

static struct sim_conn *by_session(uint64_t session)
{
	struct sim_conn *c;

	DL_FOREACH (sim->conns, c)
		if (c->session == session && session)
			return c;
	return NULL;
}

static void server_close(struct sim_conn *c, const char *why)
{
	if (!c->server)
		return;
	sim_say("hearthd closes the connection of %s: %s", c->n->name, why);
	c->server = 0;
	pipe_drop(&c->to[TO_CTL]); /* not read any more */
	pipe_cut_tail(&c->to[TO_AGENT]);
	pipe_put(&c->to[TO_AGENT], M_CLOSE);
	pipe_put(&c->to[TO_CTL], M_DOWN);
}

static void down(struct sim_conn *c, const char *why)
{
	if (!sim->up || c->n->session != c->session)
		return;
	c->n->session = 0;
	core_agent_down(sim->w->core, c->n->name, c->session, why);
	sim_ctl_touch();
}

static void at_server(struct sim_conn *c, struct sim_msg *m)
{
	struct sim_node *n = c->n;

	if (m->kind == M_DOWN) {
		down(c, "closed");
		return;
	}
	if (!c->server) { /* nobody listens: a reset comes back */
		if (c->peer && !has_close(&c->to[TO_AGENT]))
			pipe_put(&c->to[TO_AGENT], M_CLOSE);
		return;
	}
	if (m->kind == M_CLOSE) {
		c->server = 0;
		down(c, "the agent closed it");
	} else if (sim->up && n->session == c->session) {
		core_agent_msg(sim->w->core, n->name, c->session, m->type, m->id, m->msg);
		m->msg = NULL;
		sim_ctl_touch();
	}
}

static void accept_agent(struct sim_conn *c)
{
	struct sim_node *n = c->n;
	struct wm_hello hello = {.version = WIRE_VERSION,
	                         .role = ROLE_CONTROL,
	                         .node = n->name,
	                         .cert_pem = (char *)(uintptr_t) "cert",
	                         .boot_id = n->boot_id,
	                         .instance = n->agent ? n->agent->env.instance : 0,
	                         .software = (char *)(uintptr_t) "world"};
	struct sim_conn *old = by_session(n->session);
	uint64_t old_session = n->session;

	c->session = ++sim->next_session;
	c->server = 1;
	n->session = c->session;
	if (old_session) {
		if (old)
			server_close(old, "replaced by a newer connection of this node");
		core_agent_down(sim->w->core, n->name, old_session, "replaced by a newer connection");
	}
	sim_say("%s is connected, session %llu", n->name, (unsigned long long)c->session);
	core_agent_up(sim->w->core, n->name, c->session, &hello);
	pipe_put(&c->to[TO_AGENT], M_WELCOME);
	/* The agent's time limit goes on until it is welcome. */
	loop_timer_arm(c->dial, c->dial_until > simloop_now() ? c->dial_until - simloop_now() : 0);
	sim_ctl_touch();
}

static void on_send(struct world *w, struct sent *s, void *arg)
{
	struct sim_conn *c = by_session(s->session);
	struct sim_msg *m;

	(void)w;
	(void)arg;
	if (c && c->server && c->n->session == c->session) {
		m = pipe_put(&c->to[TO_AGENT], M_DATA);
		m->type = s->type;
		m->id = s->id;
		m->msg = s->msg;
		s->msg = NULL;
		if (s->type == WM_ACK && !c->peer)
			tidy();
	}
	sent_free(s);
}

static void on_close(struct world *w, const char *node, uint64_t session, void *arg)
{
	struct sim_conn *c = by_session(session);

	(void)w;
	(void)node;
	(void)arg;
	if (c)
		server_close(c, sim->w->closed_why);
}

void sim_net_ctl_died(int silently)
{
	struct sim_conn *c;

	DL_FOREACH (sim->conns, c) {
		if (!c->server)
			continue;
		c->server = 0;
		pipe_drop(&c->to[TO_CTL]);
		pipe_cut_tail(&c->to[TO_AGENT]);
		if (!silently)
			pipe_put(&c->to[TO_AGENT], M_CLOSE);
	}
	for (unsigned i = 0; i < sim->o.nodes; i++)
		sim->nodes[i].session = 0;
	tidy();
}

void sim_net_attach(void)
{
	sim->w->on_send = on_send;
	sim->w->on_close = on_close;
}

void sim_net_old_order(struct sim_node *n)
{
	struct sim_conn *c;
	struct sent *s;

	DL_FOREACH (sim->conns, c)
		if (c->n == n && c->peer && c->peer->open)
			break;
	DL_FOREACH (n->orders, s) {
		const struct wm_launch_go *m = s->msg; /* all orders begin alike */
		struct sim_epoch *en = n->epochs;

		while (en && en->job != m->job)
			en = en->next;
		if (!c || !en || m->epoch >= en->epoch || sim_rnd(&sim->rng_fault, 3))
			continue;
		sim_say("fault: %s hears an old %s again", n->name, wire_name(s->type));
		sim_enter(n);
		sim_check_order(n, s->type, s->msg);
		c->peer->ops->on_msg(c->peer, s->type, s->id, wire_copy(s->type, s->msg), c->peer->arg);
		sim_check_order_over();
		sim_enter(NULL);
		return;
	}
}

/* ---- at the agent ---------------------------------------------------------------------------------------
 */

static void at_agent(struct sim_conn *c, struct sim_msg *m)
{
	struct wm_welcome w = {.version = WIRE_VERSION,
	                       .session = c->session,
	                       .lease_ms = sim->w->lease_ms,
	                       .beat_ms = lease_beat_ms(sim->w->lease_ms, 1000)};
	struct err why;
	struct peer *p = c->peer;

	if (!p) {
		if (c->server && !has_close(&c->to[TO_CTL]))
			pipe_put(&c->to[TO_CTL], M_CLOSE);
		return;
	}
	sim_enter(c->n);
	if (m->kind == M_WELCOME) {
		p->open = 1;
		loop_timer_cancel(c->dial);
		w.real_us = sim_real_us(NULL);
		p->ops->on_open(p, &w, p->arg);
	} else if (m->kind == M_CLOSE) {
		err_set(&why, ERR_UNAVAILABLE, "the other side closed it");
		p->ops->on_close(p, &why, p->arg);
	} else {
		void *msg = m->msg;

		m->msg = NULL;
		sim_check_order(c->n, m->type, msg);
		p->ops->on_msg(p, m->type, m->id, msg, p->arg);
		sim_check_order_over();
	}
	sim_enter(NULL);
}

static void on_pipe(void *arg)
{
	struct pipe *p = arg;
	struct sim_conn *c = p->c;
	struct sim_msg *m = p->q;
	uint64_t now = simloop_now();
	int to_agent = p == &c->to[TO_AGENT];

	if (!m)
		return;
	if (sim_net_ctl_cut(c->n) && m->kind != M_DOWN) {
		loop_timer_arm(p->timer, 20000 + sim_rnd(&sim->rng_net, 200000)); /* sent again */
		return;
	}
	if (to_agent && c->n->loop && simloop_frozen(c->n->loop) > now) {
		loop_timer_arm(p->timer, simloop_frozen(c->n->loop) - now);
		return;
	}
	DL_DELETE(p->q, m);
	arm(p);
	if (to_agent)
		at_agent(c, m);
	else
		at_server(c, m);
	msg_free(m);
}

static void dial_failed(struct sim_conn *c, const char *text)
{
	struct err why;

	err_set(&why, ERR_UNAVAILABLE, "%s", text);
	sim_enter(c->n);
	c->peer->ops->on_close(c->peer, &why, c->peer->arg);
	sim_enter(NULL);
}

static void on_dial(void *arg)
{
	struct sim_conn *c = arg;
	uint64_t now = simloop_now();

	if (c->n->loop && simloop_frozen(c->n->loop) > now)
		loop_timer_arm(c->dial, simloop_frozen(c->n->loop) - now);
	else if (c->session)
		dial_failed(c, "no welcome in time");
	else if (sim_net_ctl_cut(c->n) && now < c->dial_until)
		loop_timer_arm(c->dial, 100000 + sim_rnd(&sim->rng_net, 400000));
	else if (sim_net_ctl_cut(c->n))
		dial_failed(c, "no answer");
	else if (!sim->up)
		dial_failed(c, "connection refused");
	else
		accept_agent(c);
}

struct peer *peer_dial(struct loop *l, const struct peer_dial *d, const struct peer_ops *ops, void *arg,
                       struct err *e)
{
	struct sim_conn *c = xcalloc(1, sizeof *c);
	struct peer *p = xcalloc(1, sizeof *p);

	(void)d;
	(void)e;
	tidy();
	p->ops = ops;
	p->arg = arg;
	p->c = c;
	c->peer = p;
	c->n = simloop_tag_of(l);
	c->to[0].c = c->to[1].c = c;
	c->to[0].timer = sim_later(on_pipe, &c->to[0]);
	c->to[1].timer = sim_later(on_pipe, &c->to[1]);
	c->dial = sim_later(on_dial, c);
	c->dial_until = simloop_now() + DIAL_MAX_US;
	loop_timer_arm(c->dial, 2 * latency(c->n));
	DL_APPEND(sim->conns, c);
	return p;
}

unsigned peer_version(const struct peer *p)
{
	(void)p;
	return WIRE_VERSION;
}

int peer_speaks(const struct peer *p, uint16_t type)
{
	(void)p;
	(void)type;
	return 1;
}

int peer_send(struct peer *p, uint16_t type, const void *msg, uint64_t id, struct err *e)
{
	struct sim_msg *m;

	if (!p->open)
		return err_set(e, ERR_UNAVAILABLE, "not connected");
	sim_crash_point();
	if (type == WM_LAUNCH_REPORT || type == WM_PROC_REPORT)
		sim->n_reports++;
	m = pipe_put(&p->c->to[TO_CTL], M_DATA);
	m->type = type;
	m->id = id;
	m->msg = wire_copy(type, msg);
	return 0;
}

void peer_destroy(struct peer *p)
{
	struct sim_conn *c;

	if (!p)
		return;
	c = p->c;
	free(p);
	c->peer = NULL;
	loop_timer_cancel(c->dial);
	pipe_drop(&c->to[TO_AGENT]);
	pipe_cut_tail(&c->to[TO_CTL]);
	if (c->server && !c->n->off_now)
		pipe_put(&c->to[TO_CTL], M_CLOSE);
}

uint32_t peer_backoff_ms(unsigned failures)
{
	uint32_t ms = 100u << (failures < 7 ? (failures ? failures - 1 : 0) : 6);

	if (ms > 5000)
		ms = 5000;
	return ms * (80 + sim_rnd(&sim->rng_net, 41)) / 100;
}

void sim_net_agent_died(struct sim_node *n)
{
	struct sim_conn *c;

	DL_FOREACH (sim->conns, c)
		if (c->n == n && c->peer)
			peer_destroy(c->peer);
}

void sim_net_reset(struct sim_node *n)
{
	struct sim_conn *c;

	DL_FOREACH (sim->conns, c) {
		if (c->n != n || !c->peer || !c->server)
			continue;
		pipe_cut_tail(&c->to[TO_CTL]);
		pipe_cut_tail(&c->to[TO_AGENT]);
		if (!has_close(&c->to[TO_CTL]))
			pipe_put(&c->to[TO_CTL], M_CLOSE);
		if (!has_close(&c->to[TO_AGENT]))
			pipe_put(&c->to[TO_AGENT], M_CLOSE);
	}
}

int sim_net_heard(const struct sim_node *n)
{
	const struct sim_conn *c;

	if (!sim->up || sim_net_ctl_cut(n))
		return 0;
	DL_FOREACH (sim->conns, c)
		if (c->n == n && c->peer && c->peer->open && c->server)
			return 1;
	return 0;
}

void sim_net_fini(void)
{
	while (sim->conns) {
		free(sim->conns->peer);
		conn_free(sim->conns);
	}
}

/* ---- agents ask each other ---------------------------------------------------------------------------- */

struct peer_question {
	struct sim_node *from, *to;
	struct loop_timer *timer; /* of the one who asks */
	uint64_t until;
	int answered;
	struct wm_peer_answer answer;
	struct wm_peer_look *look; /* NULL: whether it hears the controller */
	struct wm_peer_seen *seen;
	peer_reply_fn done;
	peer_seen_fn done_seen;
	void *arg;
};

struct peerport {
	struct loop *loop;
	struct lease lease; /* as published */
	struct announcer *announcer;
};

struct announcer {
	struct launches *launches;
	int sure;
};

static int apart(const struct sim_node *a, const struct sim_node *b)
{
	uint64_t now = simloop_now();

	return a->cut_peer_until[b->index] > now || b->cut_peer_until[a->index] > now;
}

static void question_done(struct peer_question *q, const struct wm_peer_answer *m)
{
	enum peer_sight sight = m ? SIGHT_ANSWERED : SIGHT_AWAY;
	struct peer_question was = *q;

	loop_timer_destroy(q->timer);
	free(q);
	if (was.look)
		was.done_seen(m ? was.seen : NULL, sight, was.arg);
	else
		was.done(m ? &was.answer : NULL, sight, was.arg);
	wire_free(WM_PEER_LOOK, was.look);
	wire_free(WM_PEER_SEEN, was.seen);
}

struct deny {
	uint64_t job;
	uint32_t attempt;
	int here;
};

static void is_here(struct launch *l, void *arg)
{
	struct deny *d = arg;

	d->here |= l->job == d->job && l->attempt == d->attempt;
}

/* What presence.c and the peer door say. */
static void look_around(struct peer_question *q)
{
	const struct announcer *a = q->to->agent->peerport->announcer;
	struct wm_peer_seen m = {
	    .node = q->to->name, .boot_id = q->to->boot_id, .instance = q->to->agent->env.instance};

	for (uint32_t i = 0; i < q->look->jobs.n; i++) {
		struct deny d = {.job = q->look->jobs.v[i], .attempt = q->look->attempts.v[i]};

		if (!a || !a->sure)
			break;
		launches_each(a->launches, is_here, &d);
		if (!d.here)
			wire_u32v_add(&m.missing, i);
	}
	q->seen = wire_copy(WM_PEER_SEEN, &m);
	free(m.missing.v);
}

static void on_question(void *arg)
{
	struct peer_question *q = arg;
	uint64_t now = simloop_now();
	struct sim_node *to = q->to;

	if (now >= q->until) {
		question_done(q, NULL);
	} else if (q->answered) {
		question_done(q, apart(q->from, to) ? NULL : &q->answer);
	} else if (apart(q->from, to) || !to->powered || (to->loop && simloop_frozen(to->loop) > now)) {
		loop_timer_arm(q->timer, q->until - now < 50000 ? q->until - now : 50000);
	} else if (!to->agent) {
		loop_timer_arm(q->timer, q->until - now < 50000 ? q->until - now : 50000); /* refused: asks again */
	} else {
		sim_enter(to);
		if (q->look)
			look_around(q);
		q->answer.has_controller = (uint8_t)lease_has_controller(
		    &to->agent->peerport->lease, clock_boot_us(&to->clock), &q->answer.ack_age_ms);
		sim_enter(q->from);
		q->answered = 1;
		loop_timer_arm(q->timer, latency(q->from));
	}
}

struct peerport *peerport_create(struct agent_env *env, const struct agent_identity *identity, struct err *e)
{
	struct peerport *p = xcalloc(1, sizeof(*p));

	(void)identity;
	(void)e;
	p->loop = env->loop;
	return p;
}

void peerport_destroy(struct peerport *p)
{
	free(p);
}

uint32_t peerport_number(const struct peerport *p)
{
	(void)p;
	return 7000;
}

void peerport_publish(struct peerport *p, const struct lease *l)
{
	p->lease = *l;
}

void peerport_know(struct peerport *p, const struct strv *peers)
{
	(void)p;
	(void)peers;
}

void peerport_retire(struct peerport *p, const struct strv *fingerprints)
{
	(void)p;
	(void)fingerprints;
}

void peerport_launches(struct peerport *port, struct presence *p)
{
	(void)port;
	free(p);
}

static void forget_token(struct launch *l, void *arg)
{
	struct strv *open = arg;

	for (size_t i = 0; i < open->n; i++)
		if (strcmp(open->v[i], l->plan->m->token) == 0)
			open->v[i][0] = '\0';
}

/* Nothing runs of a launch that was not adopted. */
struct announcer *announcer_create(struct agent_env *env, struct launches *launches,
                                   struct peerport *peerport)
{
	const struct sim_node *n = simloop_tag_of(env->loop);
	struct announcer *a = xcalloc(1, sizeof *a);
	const struct sim_proc *p;
	struct strv open = {0};

	DL_FOREACH (n->procs, p)
		if (p->child || p->stray || p->shim_alive)
			strv_add(&open, p->token);
	launches_each(launches, forget_token, &open);
	a->launches = launches;
	a->sure = 1;
	for (size_t i = 0; i < open.n; i++)
		a->sure &= open.v[i][0] == '\0';
	strv_fini(&open);
	peerport->announcer = a;
	return a;
}

void announcer_destroy(struct announcer *a)
{
	free(a);
}

void announcer_changed(struct announcer *a)
{
	(void)a;
}

static struct peer_question *question_begin(struct peerport *p, const char *peer, uint32_t timeout_ms,
                                            void *arg)
{
	struct peer_question *q;
	struct sim_node *to = NULL;

	for (unsigned i = 0; i < sim->o.nodes; i++) {
		size_t n = strlen(sim->nodes[i].name);

		if (strncmp(peer, sim->nodes[i].name, n) == 0 && peer[n] == ' ')
			to = &sim->nodes[i];
	}
	if (!to)
		return NULL;
	q = xcalloc(1, sizeof *q);
	q->from = simloop_tag_of(p->loop);
	q->to = to;
	q->until = simloop_now() + (uint64_t)timeout_ms * 1000;
	q->arg = arg;
	q->timer = loop_timer_create(p->loop, on_question, q);
	loop_timer_arm(q->timer, latency(q->from));
	return q;
}

struct peer_question *peer_question_ask(struct peerport *p, const char *peer, uint32_t timeout_ms,
                                        peer_reply_fn done, void *arg)
{
	struct peer_question *q = question_begin(p, peer, timeout_ms, arg);

	if (q)
		q->done = done;
	return q;
}

struct peer_question *peer_question_look(struct peerport *p, const char *peer, uint32_t timeout_ms,
                                         const struct wm_peer_look *m, peer_seen_fn done, void *arg)
{
	struct peer_question *q = question_begin(p, peer, timeout_ms, arg);

	if (!q)
		return NULL;
	q->look = wire_copy(WM_PEER_LOOK, m);
	q->done_seen = done;
	return q;
}

void peer_question_cancel(struct peer_question *q)
{
	if (!q)
		return;
	wire_free(WM_PEER_LOOK, q->look);
	wire_free(WM_PEER_SEEN, q->seen);
	loop_timer_destroy(q->timer);
	free(q);
}
