/*
 * agents: see the header.
 */
#include "tests/lib/agents.h"
#include "tests/lib/tap.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define LEASE_US 10000000

static char none[] = "";

static struct sim_agent *by_name(struct sim *s, const char *name, unsigned *at)
{
	for (unsigned i = 0; i < s->n; i++) {
		if (strcmp(s->agents[i].name, name) != 0)
			continue;
		*at = i;
		return &s->agents[i];
	}
	return NULL;
}

static void msg_free(struct sim_msg *m)
{
	wire_free(m->type, m->msg);
	free(m);
}

static void queue_drop(struct sim_msg **q)
{
	struct sim_msg *m, *t;

	DL_FOREACH_SAFE (*q, m, t)
		msg_free(m);
	*q = NULL;
}

static void on_send(struct world *w, struct sent *x, void *arg)
{
	struct sim *s = arg;
	unsigned at;
	struct sim_agent *a = by_name(s, x->node, &at);
	struct sim_msg *m;

	if (!a || !a->connected || a->session != x->session) {
		sent_free(x);
		return;
	}
	if (x->type == WM_BEAT_ACK) {
		a->last_ack_us = w->clock.fake_boot_us;
		sent_free(x);
		return;
	}
	m = xcalloc(1, sizeof *m);
	m->type = x->type;
	m->msg = x->msg;
	m->session = x->session;
	x->msg = NULL;
	sent_free(x);
	DL_APPEND(a->in, m);
}

static void on_close(struct world *w, const char *node, uint64_t session, void *arg)
{
	struct sim *s = arg;
	unsigned at;
	struct sim_agent *a = by_name(s, node, &at);

	(void)w;
	if (a && a->connected && a->session == session) {
		a->connected = 0;
		queue_drop(&a->in);
		queue_drop(&a->out);
	}
}

void sim_init(struct sim *s, struct world *w, unsigned n, uint32_t gpus, uint32_t slots)
{
	memset(s, 0, sizeof *s);
	s->w = w;
	s->n = n;
	w->on_send = on_send;
	w->on_close = on_close;
	w->arg = s;
	for (unsigned i = 0; i < n; i++) {
		snprintf(s->agents[i].name, sizeof s->agents[i].name, "n%u", i + 1);
		s->agents[i].gpus = gpus;
		s->agents[i].slots = slots;
	}
}

static void launch_free(struct sim_launch *l)
{
	free(l->ranks);
	free(l);
}

static void launches_drop(struct sim_agent *a)
{
	struct sim_launch *l, *t;

	LL_FOREACH_SAFE (a->launches, l, t)
		launch_free(l);
	a->launches = NULL;
}

void sim_fini(struct sim *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		launches_drop(&s->agents[i]);
		queue_drop(&s->agents[i].in);
		queue_drop(&s->agents[i].out);
	}
	s->w->on_send = NULL;
	s->w->on_close = NULL;
}

/* ---- reports --------------------------------------------------------------------------------- */

static uint64_t say(struct sim *s, struct sim_agent *a, uint16_t type, const void *msg)
{
	struct sim_msg *m;

	if (!a->connected)
		return 0;
	m = xcalloc(1, sizeof *m);
	m->type = type;
	m->msg = wire_copy(type, msg);
	m->session = a->session;
	m->frame = ++s->w->next_frame;
	DL_APPEND(a->out, m);
	return m->frame;
}

static void say_launch(struct sim *s, struct sim_agent *a, struct sim_launch *l)
{
	char phase[] = "work", why[] = "it would not";
	struct wm_launch_report m = {.job = l->job,
	                             .attempt = l->attempt,
	                             .epoch = l->epoch,
	                             .state = l->state,
	                             .phase = phase,
	                             .done_bytes = s->w->next_frame,
	                             .cls = l->cls,
	                             .text = l->cls ? why : none};

	/* Each third agent does not say how far the end is. */
	if ((l->state == LAUNCH_ENDED || l->state == LAUNCH_FAILED) && (a - s->agents) % 3 != 2)
		m.over = OVER_SAVED;
	uint64_t frame = say(s, a, WM_LAUNCH_REPORT, &m);

	if (l->state == LAUNCH_CLEANED)
		l->cleaned_frame = frame;
}

static void say_rank(struct sim *s, struct sim_agent *a, const struct sim_launch *l, uint32_t i)
{
	const struct sim_rank *k = &l->ranks[i];
	struct wm_proc_report m = {.job = l->job,
	                           .attempt = l->attempt,
	                           .epoch = l->epoch,
	                           .kind = PROC_RANK,
	                           .rank = l->first_rank + i,
	                           .local_rank = i,
	                           .token = none,
	                           .state = k->state,
	                           .pid = 1000 + i,
	                           .exit_code = k->exit_code,
	                           .signal = k->signo,
	                           .started_us = k->started_us,
	                           .ended_us = k->ended_us,
	                           .text = none};

	if (k->state >= PS_RUNNING)
		say(s, a, WM_PROC_REPORT, &m);
}

void sim_connect(struct sim *s, unsigned i)
{
	struct sim_agent *a = &s->agents[i];
	struct wm_sync_begin b = {.instance = 1};
	struct wm_sync_end end = {.instance = 1};

	if (a->connected || a->cut)
		return;
	a->session = world_agent_connect(s->w, a->name);
	a->connected = 1;
	a->last_ack_us = a->last_beat_us = s->w->clock.fake_boot_us;
	world_agent_inventory(s->w, a->name, a->session, a->gpus, a->slots);
	say(s, a, WM_SYNC_BEGIN, &b);
	for (struct sim_launch *l = a->launches; l; l = l->next) {
		for (uint32_t k = 0; k < l->n_ranks; k++)
			say_rank(s, a, l, k);
		say_launch(s, a, l);
	}
	say(s, a, WM_SYNC_END, &end);
}

void sim_disconnect(struct sim *s, unsigned i)
{
	struct sim_agent *a = &s->agents[i];

	if (!a->connected)
		return;
	a->connected = 0;
	queue_drop(&a->in);
	queue_drop(&a->out);
	core_agent_down(s->w->core, a->name, a->session, "test");
}

void sim_power_off(struct sim *s, unsigned i)
{
	sim_disconnect(s, i);
	launches_drop(&s->agents[i]);
	memset(s->fences[i], 0, sizeof s->fences[i]);
}

void sim_all_cut_off(struct sim *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		s->agents[i].connected = 0;
		queue_drop(&s->agents[i].in);
		queue_drop(&s->agents[i].out);
	}
}

/* ---- orders ---------------------------------------------------------------------------------- */

static struct sim_launch *find(struct sim_agent *a, uint64_t job, uint32_t attempt)
{
	for (struct sim_launch *l = a->launches; l; l = l->next)
		if (l->job == job && l->attempt == attempt)
			return l;
	return NULL;
}

static int fenced(struct sim *s, unsigned i, uint64_t job, uint64_t epoch)
{
	struct fence *f = &s->fences[i][job % 4096];

	if (f->job == job && epoch < f->epoch)
		return 1;
	*f = (struct fence){job, epoch};
	return 0;
}

static void prepare(struct sim *s, struct sim_agent *a, const struct wm_prepare *m)
{
	struct sim_launch *l = find(a, m->job, m->attempt);
	struct wm_gang *g;
	void *gang;

	if (!l) {
		if (wire_decode(WM_GANG, m->gang->data, m->gang->n, &gang, NULL) < 0)
			tap_bail("the gang's table is malformed");
		g = gang;
		l = xcalloc(1, sizeof *l);
		l->job = m->job;
		l->attempt = m->attempt;
		l->epoch = m->epoch;
		l->state = LAUNCH_PREPARING;
		l->n_ranks = g->ranks_per_node.v[m->node_rank];
		for (uint32_t i = 0; i < m->node_rank; i++)
			l->first_rank += g->ranks_per_node.v[i];
		wire_free(WM_GANG, g);
		l->ranks = xcalloc(l->n_ranks, sizeof *l->ranks);
		for (uint32_t i = 0; i < m->gpus.n && i < AGENT_GPUS; i++)
			l->gpus[l->n_gpus++] = m->gpus.v[i];
		LL_APPEND(a->launches, l);
	}
	say_launch(s, a, l);
}

/* The answer to an order about a launch that is not there. */
static void say_absent(struct sim *s, struct sim_agent *a, const struct wm_kill *m, uint8_t state)
{
	char why[] = "nothing of this launch is on this node";
	struct wm_launch_report r = {.job = m->job,
	                             .attempt = m->attempt,
	                             .epoch = m->epoch,
	                             .state = state,
	                             .phase = none,
	                             .cls = state == LAUNCH_CLEANED ? RC_NONE : RC_UNKNOWN,
	                             .text = state == LAUNCH_CLEANED ? none : why};

	say(s, a, WM_LAUNCH_REPORT, &r);
}

/* Finds the launch of an order; NULL for an old order, or for a launch that it has not: then it says so, as
 * an agent does. */
static struct sim_launch *ordered(struct sim *s, unsigned i, const struct sim_msg *m)
{
	const struct wm_kill *p = m->msg; /* all orders begin in the same way */
	struct sim_agent *a = &s->agents[i];
	struct sim_launch *l = find(a, p->job, p->attempt);
	int old = fenced(s, i, p->job, p->epoch);

	if (!l && m->type == WM_KILL)
		say_absent(s, a, p, LAUNCH_ENDED);
	else if (!l && m->type == WM_COLLECT)
		say_absent(s, a, p, LAUNCH_CLEANED);
	else if (!l && !old)
		say_absent(s, a, p, LAUNCH_FAILED);
	return old ? NULL : l;
}

static void obey(struct sim *s, unsigned i, const struct sim_msg *m)
{
	struct sim_agent *a = &s->agents[i];
	struct sim_launch *l;

	if (m->type == WM_PREPARE) {
		const struct wm_prepare *p = m->msg;

		if (!fenced(s, i, p->job, p->epoch))
			prepare(s, a, p);
	} else if (m->type == WM_LAUNCH_GO) {
		l = ordered(s, i, m);
		if (l && l->state == LAUNCH_READY && !l->kill) {
			l->state = LAUNCH_RUNNING;
			l->started = 1;
			say_launch(s, a, l);
		}
	} else if (m->type == WM_KILL) {
		l = ordered(s, i, m);
		if (l)
			l->kill = 1;
	} else if (m->type == WM_COLLECT) {
		l = ordered(s, i, m);
		if (l && !l->collect && (l->state == LAUNCH_ENDED || l->state == LAUNCH_FAILED)) {
			l->collect = 1;
			l->keep = ((const struct wm_collect *)m->msg)->keep;
		} else if (l) {
			say_launch(s, a, l);
		}
	} else if (m->type == WM_ACK) {
		uint64_t frame = ((struct wm_ack *)m->msg)->acked;
		struct sim_launch *t;

		LL_FOREACH_SAFE (a->launches, l, t) {
			if (l->cleaned_frame != frame || l->state != LAUNCH_CLEANED)
				continue;
			LL_DELETE(a->launches, l);
			launch_free(l);
		}
	}
}

int sim_deliver_to_agent(struct sim *s, unsigned i)
{
	struct sim_agent *a = &s->agents[i];
	struct sim_msg *m = a->in;

	if (!m)
		return 0;
	DL_DELETE(a->in, m);
	obey(s, i, m);
	msg_free(m);
	return 1;
}

int sim_deliver_to_core(struct sim *s, unsigned i, int twice)
{
	struct sim_agent *a = &s->agents[i];
	struct sim_msg *m = a->out;

	if (!m)
		return 0;
	DL_DELETE(a->out, m);
	for (int k = 0; k <= twice; k++)
		core_agent_msg(s->w->core, a->name, m->session, m->type, m->frame, wire_copy(m->type, m->msg));
	msg_free(m);
	return 1;
}

/* ---- what goes on ---------------------------------------------------------------------------- */

static int alive(const struct sim_launch *l)
{
	for (uint32_t i = 0; i < l->n_ranks; i++)
		if (l->ranks[i].state == PS_RUNNING)
			return 1;
	return 0;
}

static void check_gpus(struct sim *s, const struct sim_agent *a)
{
	uint32_t used[AGENT_GPUS] = {0};

	for (const struct sim_launch *l = a->launches; l; l = l->next)
		for (uint32_t i = 0; alive(l) && i < l->n_gpus; i++)
			if (++used[l->gpus[i]] > 1)
				s->bad = "two jobs run on one GPU";
}

static void end_rank(struct sim *s, struct sim_agent *a, struct sim_launch *l, uint32_t i, uint32_t code,
                     uint32_t signo)
{
	struct sim_rank *k = &l->ranks[i];

	k->state = PS_EXITED;
	k->exit_code = code;
	k->signo = signo;
	k->ended_us = s->w->clock.fake_real_us;
	say_rank(s, a, l, i);
}

static void run_ranks(struct sim *s, struct sim_agent *a, struct sim_launch *l)
{
	uint32_t i = world_rnd(s->w, l->n_ranks), over = 0;
	struct sim_rank *k = &l->ranks[i];

	if (k->state == PS_UNKNOWN && !l->kill) {
		k->state = PS_RUNNING;
		k->started_us = s->w->clock.fake_real_us;
		say_rank(s, a, l, i);
		check_gpus(s, a);
	} else if (k->state == PS_RUNNING && l->kill) {
		end_rank(s, a, l, i, 0, SIGTERM);
	} else if (k->state == PS_RUNNING && world_rnd(s->w, 4) == 0) {
		end_rank(s, a, l, i, world_rnd(s->w, 1000) < s->fail_rank ? 1 : 0, 0);
	}
	for (i = 0; i < l->n_ranks; i++)
		over += l->ranks[i].state == PS_EXITED || (l->kill && l->ranks[i].state == PS_UNKNOWN);
	if (over == l->n_ranks) {
		l->state = LAUNCH_ENDED;
		say_launch(s, a, l);
	}
}

static void work_launch(struct sim *s, struct sim_agent *a, struct sim_launch *l)
{
	switch (l->state) {
	case LAUNCH_PREPARING:
	case LAUNCH_READY:
		if (l->kill) {
			l->state = LAUNCH_ENDED;
		} else if (l->state == LAUNCH_PREPARING && world_rnd(s->w, 1000) < s->fail_prepare) {
			l->state = LAUNCH_FAILED;
			l->cls = world_rnd(s->w, 2) ? RC_DISK : RC_USER_ERROR;
		} else if (l->state == LAUNCH_PREPARING) {
			l->state = LAUNCH_READY;
		} else {
			return;
		}
		say_launch(s, a, l);
		break;
	case LAUNCH_RUNNING:
	case LAUNCH_STOPPING:
		if (l->kill && l->state == LAUNCH_RUNNING) {
			l->state = LAUNCH_STOPPING;
			say_launch(s, a, l);
		}
		run_ranks(s, a, l);
		break;
	case LAUNCH_ENDED:
	case LAUNCH_FAILED:
		if (l->collect) {
			l->state = LAUNCH_CLEANED;
			l->cls = 0;
			say_launch(s, a, l);
		}
		break;
	default:
		break;
	}
}

void sim_work(struct sim *s, unsigned i)
{
	struct sim_agent *a = &s->agents[i];

	for (struct sim_launch *l = a->launches; l; l = l->next)
		work_launch(s, a, l);
}

/* Its lease ran out and nobody else answers: it kills what runs, by itself. */
static void fence_off(struct sim *s, struct sim_agent *a)
{
	for (struct sim_launch *l = a->launches; l; l = l->next) {
		l->kill = 1;
		for (uint32_t i = 0; i < l->n_ranks; i++)
			if (l->ranks[i].state == PS_RUNNING)
				end_rank(s, a, l, i, 0, SIGKILL);
	}
}

void sim_clock(struct sim *s)
{
	uint64_t now = s->w->clock.fake_boot_us;

	for (unsigned i = 0; i < s->n; i++) {
		struct sim_agent *a = &s->agents[i];

		if (a->connected && now - a->last_beat_us >= 1000000) {
			a->last_beat_us = now;
			world_beat(s->w, a->name);
		}
		if (a->launches && now - a->last_ack_us > LEASE_US)
			fence_off(s, a);
	}
}
