/*
 * start: begins an attempt and sends orders to its nodes.
 *
 * Orders are states, not changes: send_orders sends the orders that follow from the record and that this
 * session of the node has not got. It runs after each change and each new connection, and may run any number
 * of times.
 */
#include "controller/run/attempt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/park/park.h"
#include "controller/park/ports.h"
#include "controller/record/ckpt.h"
#include "controller/record/inventory.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/run/checkpoints.h"
#include "controller/run/job_token.h"
#include "controller/run/recover.h"
#include "controller/run/resolve.h"
#include "controller/share/alloc.h"
#include "controller/share/cost.h"
#include "controller/share/pool_want.h"
#include "controller/share/pools.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/refs.h"
#include "controller/state/turn.h"

static void random_text(struct core *c, char *out, size_t digits)
{
	uint8_t raw[32];
	static const char hex[] = "0123456789abcdef";

	c->io.random(raw, sizeof(raw), c->io.arg);
	for (size_t i = 0; i < digits; i++)
		out[i] = hex[i % 2 ? raw[i / 2] & 15 : raw[i / 2] >> 4];
	out[digits] = '\0';
}

static cJSON *nums_json(const uint32_t *v, uint32_t n)
{
	cJSON *a = cJSON_CreateArray();

	for (uint32_t i = 0; i < n; i++)
		cJSON_AddItemToArray(a, cJSON_CreateNumber(v[i]));
	return a;
}

static cJSON *nodes_json(struct core *c, const struct job_spec *spec, const struct sched_decision *d)
{
	cJSON *list = cJSON_CreateArray();

	for (uint32_t i = 0; i < d->n; i++) {
		const struct sched_place *p = &d->places[i];
		const struct cnode *n = node_by_id(c, p->node);
		cJSON *o = cJSON_CreateObject();

		json_add_str(o, "node", n->name);
		json_add_u64(o, "node_id", n->r.id);
		json_add_str(o, "address", n->inv.address);
		cJSON_AddItemToObject(o, "gpus", nums_json(p->gpus, p->n_gpus));
		cJSON_AddItemToObject(o, "cpus", nums_json(p->cpus, p->n_cpus));
		json_add_u64(o, "ranks", spec->groups[p->group].ranks_per_instance);
		json_add_u64(o, "group", p->group);
		cJSON_AddItemToArray(list, o);
	}
	return list;
}

/* "on a, b and 3 more" */
static void nodes_text(struct core *c, const struct sched_decision *d, struct text *t)
{
	text_add(t, "on");
	for (uint32_t i = 0; i < d->n && i < 8; i++)
		text_add(t, "%s %s", i ? "," : "", node_by_id(c, d->places[i].node)->name);
	if (d->n > 8)
		text_add(t, " and %u more", d->n - 8);
}

static void cannot_start(struct core *c, struct cjob *j, const struct err *e)
{
	cJSON *d = cJSON_CreateObject();

	alloc_unqueue(c, j);
	active_free(c, j);
	json_add_str(d, "status", state_name(STATE_JOB, JOB_FAILED));
	json_add_str(d, "reason", e->text);
	ckpt_add_line(&j->r, d);
	job_post(c, j, EV_ENDED, d);
}

static void start_not_as_asked(struct core *c, struct cjob *j, const struct err *e)
{
	alloc_unqueue(c, j);
	active_free(c, j);
	recover_hold_asked(c, j, e);
}

/* What is missing may be among what its nodes still upload. The job holds what its record keeps until then,
 * and asks for the rest again. */
static void start_later(struct core *c, struct cjob *j, const struct sched_decision *dec, const struct err *e)
{
	log_info("event=start_later job=%" PRIu64 " text=\"%s\"", j->r.id, e->text);
	for (uint32_t i = 0; i < dec->n; i++) {
		const struct place_rec *p = rec_place_of(j->r.att, dec->places[i].node);

		if (!p || !p->kept)
			alloc_release(c, j, dec->places[i].node);
	}
	active_free(c, j);
	j->awaits_collect = 1;
	j->recover_us = now_boot(c);
}

static const char *cause_of(const struct cjob *j)
{
	if (!j->r.attempts)
		return "submitted";
	return j->r.reason ? j->r.reason : "requeued";
}

/* Adds the beginning as data: "attempt:2", or the specification's resume_from, and the step. */
static void add_begins(const struct active *a, cJSON *d)
{
	char from[32];

	if (!a->begin.ckpt && !a->begin.parts.n)
		return;
	if (a->begin.attempt)
		snprintf(from, sizeof(from), "attempt:%u", a->begin.attempt);
	else
		snprintf(from, sizeof(from), "job:%" PRIu64, a->begin.job);
	json_add_str(d, "resumed_from", a->begin.attempt || a->begin.job ? from : a->spec->resume_job);
	cJSON_AddNumberToObject(d, "resumed_from_step", (double)a->begin.step);
}

static int find_beginning(struct core *c, struct cjob *j, const struct sched_decision *dec, struct err *e)
{
	const char **names = xcalloc(dec->n ? dec->n : 1, sizeof(*names));
	const struct ckpt_nodes on = {names, dec->n};
	int rc;

	for (uint32_t i = 0; i < dec->n; i++)
		names[i] = node_by_id(c, dec->places[i].node)->name;
	rc = begins_resolve(c, j, j->act->spec, &on, &j->act->begin, e);
	free(names);
	return rc;
}

/* Adds why it is the job's turn: words for people, and the passed job as data. */
static void add_turn(const struct sched_decision *dec, cJSON *d)
{
	static const char *const words[SCHED_TURNS] = {
	    [SCHED_TURN_FIRST] = "first in order of those that could start",
	    [SCHED_TURN_KEPT] = "the place that was kept for it is free",
	    [SCHED_TURN_BEFORE] = "it is believed to end before the place is needed that is kept for job",
	    [SCHED_TURN_BESIDE] = "it leaves room for the place that is kept for job",
	    [SCHED_TURN_PLANNED] = "its place is in the way of nobody's that is kept",
	    [SCHED_TURN_REPLACED] = "it kept its nodes, and has others for those that it lost"};
	TEXT(why);

	text_add(&why, "%s", words[dec->turn]);
	if (dec->passed) {
		text_add(&why, " %" PRIu64, dec->passed);
		json_add_u64(d, "passed", dec->passed);
	}
	if (dec->due)
		text_add(&why, "; it has waited so long that it goes before others");
	if (dec->borrows)
		text_add(&why, "; beyond its quota, which may be borrowed");
	json_add_str(d, "why", why.at);
}

/* The high bits are the incarnation: after a restored backup each epoch is greater than those of the lost
 * time line, which agents remember. */
static uint64_t next_epoch(const struct core *c, const struct cjob *j)
{
	uint64_t first = c->cfg.incarnation << INCARNATION_SHIFT | 1;

	return j->r.epoch + 1 > first ? j->r.epoch + 1 : first;
}

void start_attempt(struct core *c, struct cjob *j, const struct sched_decision *dec)
{
	char token[33], launch_id[48];
	struct active *a;
	struct err e;
	cJSON *d;
	int rc;
	TEXT(where);

	pools_arrange(c, j, dec);
	a = j->act = active_new(c, j, &e);
	rc = !a || refs_resolve(c, a->spec, &a->inputs, &e) < 0 ? -1 : find_beginning(c, j, dec, &e);
	if (rc) {
		if (j->collect)
			start_later(c, j, dec, &e);
		else if (rc < 0)
			cannot_start(c, j, &e);
		else
			start_not_as_asked(c, j, &e);
		return;
	}
	random_text(c, token, 32);
	snprintf(launch_id, sizeof(launch_id), "%" PRIu64 ".%u", j->r.id, j->r.attempts + 1);
	d = cJSON_CreateObject();
	nodes_text(c, dec, &where);
	json_add_str(d, "text", where.at);
	json_add_u64(d, "epoch", next_epoch(c, j));
	json_add_str(d, "launch_id", launch_id);
	json_add_str(d, "cause", cause_of(j));
	add_turn(dec, d);
	json_add_u64(d, "master_port", master_port(c, dec->places[0].node));
	cost_placed(c, j, dec, d);
	add_begins(a, d);
	pools_placed(c, j, dec, d);
	cJSON_AddItemToObject(d, "nodes", nodes_json(c, a->spec, dec));
	if (job_post(c, j, EV_PLACED, d) < 0) {
		active_free(c, j);
		alloc_unqueue(c, j);
		return;
	}
	sched_job_started(c->sched, j->r.id);
	j->goes_first = 0;
	j->waited_us = 0;
	cost_begins(c, j, 0);
	a->placed_us = now_boot(c);
	a->before_us = j->r.held_us;
	/* The secret is only in the attempt's row, never in an event. */
	rec_set(&j->r.att->token, token);
	a->rt = xcalloc(j->r.att->n_places, sizeof(*a->rt));
	for (uint32_t i = 0; i < j->r.att->n_places; i++) {
		a->rt[i].progress_us = now_boot(c);
		node_job_add(node_by_id(c, j->r.att->places[i].node_id), j);
	}
	pool_note_used(j);
	pools_taken(c, j);
	park_taken(c, j);
	port_mark(c, j->r.att->master_port, 1);
	token_job_make(c, j);
	log_info("event=placed job=%" PRIu64 " attempt=%u nodes=%u main=%s", j->r.id, j->r.att->number,
	         j->r.att->n_places, j->r.att->places[0].node);
	job_touch(c, j);
}

/* ---- decisions of the scheduler library ------------------------------------------------------- */

void decide(struct core *c)
{
	struct sched_decision *d;

	alloc_prepare(c);
	for (int n = 0; (d = alloc_step(c, n)); n++) {
		struct cjob *j = job_find(c, d->job);

		if (j && (j->r.status == JOB_QUEUED || (j->r.status == JOB_RECOVERING && !j->act))) {
			start_attempt(c, j, d);
		} else {
			log_error("event=placed_unknown_job job=%" PRIu64, d->job);
			sched_job_remove(c->sched, d->job);
		}
		sched_decision_free(d);
		pools_settle(c);
		pool_want_review(c);
	}
}

/* ---- orders ---------------------------------------------------------------------------------- */

static void copy_ids(struct wire_u32v *to, const struct wire_u32v *from)
{
	for (uint32_t i = 0; i < from->n; i++)
		wire_u32v_add(to, from->v[i]);
}

char *start_spec(const struct cjob *j)
{
	return agent_spec(j->act->spec);
}

/* Returns the part of the order that all nodes share; it is encoded once for each attempt. */
static struct wire_shared *gang_of(struct cjob *j, struct err *e)
{
	const struct attempt_rec *a = j->r.att;
	struct wm_gang g = {0};
	char name[24];

	if (j->act->gang)
		return j->act->gang;
	g.spec = start_spec(j);
	for (uint32_t i = 0; i < a->n_places; i++) {
		const struct place_rec *p = &a->places[i];

		snprintf(name, sizeof(name), "algo-%u", i + 1);
		wire_strv_add(&g.nodes, name);
		wire_strv_add(&g.addresses, p->address ? p->address : "");
		wire_u32v_add(&g.ranks_per_node, p->ranks);
		wire_strv_add(&g.groups, j->act->spec->groups[p->group].name);
	}
	for (size_t i = 0; i < j->act->inputs.n; i++)
		wire_strv_add(&g.input_digests, j->act->inputs.v[i]);
	j->act->gang = wire_share(WM_GANG, &g, e);
	wire_fini(WM_GANG, &g);
	return j->act->gang;
}

/* Adds one part of the checkpoint that the attempt begins with. */
static void add_part(struct wm_prepare *m, const struct beginning *b, const struct ckpt_part *p,
                     const char *node)
{
	const char *uri = p->state == CKPT_VERIFIED && p->uri ? p->uri : "", *digest = p->digest ? p->digest : "";

	if (!m->resume_digests.n)
		m->resume_from = xstrdup(strcmp(uri, CKPT_URI_STORE) == 0 ? digest : uri);
	wire_strv_add(&m->resume_digests, digest);
	wire_strv_add(&m->resume_uris, uri);
	if (p->held && strcmp(p->node, node) == 0 && !m->resume_local)
		m->resume_local = xasprintf("%" PRIu64 ".%u", b->job, p->attempt);
}

static void add_resume(struct wm_prepare *m, const struct active *act, uint32_t rank, uint32_t n,
                       const char *node)
{
	const struct beginning *b = &act->begin;
	const struct ckpt *k = b->ckpt;

	for (uint32_t f = 0; k && f <= b->n_also; f++) {
		const struct ckpt *one = f ? b->also[f - 1] : k;

		for (uint32_t i = 0; i < one->n_parts; i++)
			if (ckpt_gives(one, i, rank, n))
				add_part(m, b, &one->parts[i], node);
	}
	if (!k)
		m->resume_from = xstrdup(b->parts.n ? b->parts.v[rank < b->parts.n ? rank : 0] : "");
	m->resume_name = xstrdup(k ? k->name : "");
	if (!m->resume_from)
		m->resume_from = xstrdup("");
	if (!m->resume_local)
		m->resume_local = xstrdup("");
}

static void send_prepare(struct core *c, struct cjob *j, uint32_t place)
{
	const struct attempt_rec *a = j->r.att;
	const struct place_rec *p = &a->places[place];
	const struct active *act = j->act;
	const struct cnode *n = node_by_id(c, p->node_id);
	char launch[33], job_token[41];
	struct err e;
	struct wire_shared *gang = gang_of(j, &e);
	struct wm_prepare m = {
	    .job = j->r.id,
	    .attempt = a->number,
	    .epoch = a->epoch,
	    .node_rank = place,
	    .memory_bytes = act->spec->memory_bytes,
	    .disk_bytes = act->spec->disk_bytes,
	    .master_port = a->master_port,
	    .port_lo = n->inv.port_lo ? n->inv.port_lo : c->cfg.port_lo,
	    .port_hi = n->inv.port_lo ? n->inv.port_hi : c->cfg.port_hi,
	    .resume_step = a->resumed_from_step,
	    .grace_ms = act->grace_ms,
	    .prepare_timeout_ms = c->cfg.prepare_timeout_s * 1000,
	    .pool = place_rt(j, p)->warm,
	    .pool_keep = act->spec->keep_alive_s > 0,
	    .parked = act->parked,
	};

	if (!gang) { /* cannot happen: the limits of a specification are far lower */
		log_error("event=prepare_not_sent job=%" PRIu64 " error=\"%s\"", j->r.id, e.text);
		return;
	}
	token_secrets(j, place, launch, job_token);
	m.launch_id = xstrdup(a->launch_id);
	m.token = xstrdup(launch);
	m.account = xstrdup(rec_account(&j->r));
	m.job_name = xstrdup(j->r.name ? j->r.name : "");
	m.bundle_digest = xstrdup(j->r.bundle ? j->r.bundle : "");
	add_resume(&m, act, place, a->n_places, p->node);
	m.checkpoint_uri = xstrdup(act->spec->checkpoint_uri ? act->spec->checkpoint_uri : "");
	m.skip_steps = xstrdup(a->skip_steps ? a->skip_steps : "");
	m.url = xstrdup(c->cfg.url);
	m.job_token = xstrdup(job_token);
	m.gang = wire_share_again(gang);
	copy_ids(&m.gpus, &p->gpus);
	copy_ids(&m.cpu_ids, &p->cpus);
	hold_send(c, n, WM_PREPARE, &m);
	wire_fini(WM_PREPARE, &m);
}

static void send_kill(struct core *c, struct cjob *j, const struct cnode *n)
{
	const struct attempt_rec *a = j->r.att;
	struct wm_kill m = {.job = j->r.id,
	                    .attempt = a->number,
	                    .epoch = a->epoch,
	                    .grace_ms = recover_grace_ms(j),
	                    .reason = (char *)(uintptr_t)(a->reason ? a->reason : "")};

	hold_send(c, n, WM_KILL, &m);
}

static void order_place(struct core *c, struct cjob *j, uint32_t i, const struct cnode *n)
{
	const struct attempt_rec *a = j->r.att;
	const struct place_rec *p = &a->places[i];
	struct place_rt *rt = &j->act->rt[i];
	unsigned due = 0;

	if (rt->session != n->session) {
		rt->session = n->session;
		rt->sent = 0;
	}
	if (a->state == ATT_PREPARING && p->state <= PLACE_PREPARING)
		due = SENT_PREPARE;
	else if ((a->state == ATT_LAUNCHING || a->state == ATT_RUNNING) && p->state <= PLACE_READY)
		due = SENT_GO;
	else if (a->state == ATT_ENDING && !place_over(p->state) && j->act->kill_us)
		due = SENT_KILL;
	else if (a->state >= ATT_ENDING && a->outcome != OUT_NONE &&
	         (p->state == PLACE_ENDED || p->state == PLACE_FAILED))
		due = SENT_COLLECT;
	if (!due || rt->sent & due || (due == SENT_GO && park_in_way(c, p)))
		return;
	rt->sent |= (uint8_t)due;
	if (due == SENT_PREPARE) {
		send_prepare(c, j, i);
	} else if (due == SENT_GO) {
		struct wm_launch_go m = {.job = j->r.id, .attempt = a->number, .epoch = a->epoch};

		hold_send(c, n, WM_LAUNCH_GO, &m);
	} else if (due == SENT_KILL) {
		send_kill(c, j, n);
	} else {
		struct wm_collect m = {.job = j->r.id,
		                       .attempt = a->number,
		                       .epoch = j->r.epoch,
		                       .keep = (uint8_t)rec_any_rank_started(a)};

		hold_send(c, n, WM_COLLECT, &m);
	}
}

/* Sends what the node may remove of earlier checkpoints, once for each session. */
static void order_drops(struct core *c, struct cjob *j, uint32_t i, const struct cnode *n)
{
	struct place_rt *rt = &j->act->rt[i];

	if (j->looks_back || rt->session != n->session || rt->sent & SENT_DROPS ||
	    j->r.att->places[i].state >= PLACE_CLEANED)
		return;
	rt->sent |= SENT_DROPS;
	checkpoint_drop(c, j, i, n);
}

void send_orders(struct core *c, struct cjob *j)
{
	if (!j->act || !j->r.att || c->life.failing)
		return;
	for (uint32_t i = 0; i < j->r.att->n_places; i++) {
		const struct cnode *n = node_by_id(c, j->r.att->places[i].node_id);

		if (n && n->connected && n->synced) {
			order_place(c, j, i, n);
			order_drops(c, j, i, n);
		}
	}
}
