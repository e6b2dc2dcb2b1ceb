/*
 * checkpoints: reports of the nodes become events of the job.
 *
 * Only the node of a place in the present attempt may report: a late report of an old attempt would describe
 * files that its successor has replaced. Only what is gone is gone, whatever the attempt. hearthd
 * acknowledges every report, or the agent would repeat it.
 *
 * A part that is torn or gone stays so: the agent that reports it once more does not know what hearthd has
 * decided meanwhile.
 */
#include "controller/run/checkpoints.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/rec.h"
#include "controller/run/report.h"
#include "controller/state/core_state.h"
#include "controller/state/quota.h"
#include "controller/state/turn.h"

#define NAME_BYTES 255 /* of an entry in a folder */
#define WORD_BYTES 32
#define URI_BYTES  4096
/* New checkpoints that a job may have at once, and the time after which it may have one more. All files of a
 * step count as one. */
#define BURST     30
#define REFILL_US 2000000
#define REFILL_S  (REFILL_US / 1000000)

/* ---- reports --------------------------------------------------------------------------------- */

static int is_uri(const char *uri)
{
	return !*uri || strcmp(uri, CKPT_URI_STORE) == 0 ||
	       (strncmp(uri, "file:///", 8) == 0 && strlen(uri) < URI_BYTES);
}

static int well_formed(const struct wm_checkpoint_report *m)
{
	return m->state >= CKPT_COPYING && m->state <= CKPT_GONE && *m->name && strlen(m->name) <= NAME_BYTES &&
	       !strchr(m->name, '/') && strlen(m->format) <= WORD_BYTES && strlen(m->step_by) <= WORD_BYTES &&
	       (!*m->digest || hash_is_hex(m->digest)) && is_uri(m->uri) && m->shards <= SPEC_MAX_RANKS &&
	       m->step < INT64_C(1) << 53 && m->size_bytes < UINT64_C(1) << 53 && m->save_ms < UINT64_C(1) << 53;
}

/* Returns 1 when the report says nothing new of the part, or too late. */
static int is_known(const struct ckpt *c, const char *node, const struct wm_checkpoint_report *m)
{
	for (uint32_t i = 0; c && i < c->n_parts; i++) {
		const struct ckpt_part *p = &c->parts[i];

		if (strcmp(p->node, node) != 0)
			continue;
		if (p->state == CKPT_GONE || (p->state == CKPT_TORN && m->state != CKPT_GONE))
			return 1;
		return p->state == (enum ckpt_state)m->state && strcmp(p->digest ? p->digest : "", m->digest) == 0 &&
		       strcmp(p->uri ? p->uri : "", m->uri) == 0;
	}
	return 0;
}

static int is_in_time(struct core *c, struct active *a)
{
	uint64_t now = now_boot(c), since = now - a->ckpt_us;

	if (since / REFILL_US >= BURST)
		a->ckpt_us = now - (uint64_t)BURST * REFILL_US;
	if (now - a->ckpt_us < REFILL_US)
		return 0;
	a->ckpt_us += REFILL_US;
	return 1;
}

/* One that is left out is in the way of nobody: the next one counts. Its files that follow are left out with
 * it, or a part of the step would look whole. */
static int is_new_step(struct core *c, struct cjob *j, const struct wm_checkpoint_report *m)
{
	TEXT(text);

	if (m->step >= 0 && j->act->ckpt_left == m->step + 1)
		return 0;
	if (is_in_time(c, j->act))
		return 1;
	j->act->ckpt_left = m->step + 1;
	text_add(&text,
	         "the checkpoint %.200s is left out, and others may be: a job may have %d new ones at once, and "
	         "one more every %d s",
	         m->name, BURST, REFILL_S);
	quota_say(c, j, QUOTA_CHECKPOINTS, text.at);
	return 0;
}

/* Returns 1 when the job may have another checkpoint now. */
static int may_add(struct core *c, struct cjob *j, const struct wm_checkpoint_report *m)
{
	const struct ckpt probe = {
	    .attempt = j->r.att->number, .step = m->step, .name = m->name, .format = m->format};
	int again;
	uint32_t files = ckpt_siblings(&j->r, &probe, &again);
	TEXT(text);

	if (files >= CKPT_STEP_FILES) {
		text_add(&text,
		         "the checkpoint of step %" PRId64 " cannot be used: it has more than %d files. Save them in "
		         "one folder",
		         m->step, CKPT_STEP_FILES);
		quota_say(c, j, QUOTA_STEP_FILES, text.at);
	}
	if (!files || again)
		return is_new_step(c, j, m);
	return files <= CKPT_STEP_FILES;
}

/* Returns why the copy in hearthd's store does not count; NULL: it does. Nothing names its blobs until it
 * counts: one that was reported late may be collected already. */
static const char *what_lacks(struct core *c, struct cjob *j, const struct wm_checkpoint_report *m,
                              const char *node)
{
	if (strcmp(m->uri, CKPT_URI_STORE) != 0 || m->state > CKPT_VERIFIED)
		return NULL;
	if (quota_checkpoint(c, j, m->size_bytes, node) < 0)
		return "hearthd's store has no room for it within the quota of its job or owner; set checkpoint.uri";
	if (m->state == CKPT_VERIFIED && c->io.stored && !c->io.stored(m->digest, c->io.arg))
		return "hearthd's store lacks it by now; it is copied once more";
	return NULL;
}

/* Else the agent goes on to believe that there is a copy. */
static void copy_again(struct core *c, const struct cnode *n, const struct wm_checkpoint_report *m,
                       const char *why)
{
	struct wm_checkpoint_again out = {.job = m->job,
	                                  .attempt = m->attempt,
	                                  .epoch = m->epoch,
	                                  .seq = m->seq,
	                                  .text = (char *)(uintptr_t)why};

	hold_send(c, n, WM_CHECKPOINT_AGAIN, &out);
}

static void add_loss(const struct active *a, int64_t step, cJSON *d)
{
	const struct loss_point *best = NULL;
	char number[40];

	for (uint32_t i = 0; i < LOSS_POINTS && a->losses; i++) {
		const struct loss_point *p = &a->losses[i];

		if (p->n && (step < 0 || p->step <= step) && (!best || p->n > best->n))
			best = p;
	}
	if (!best)
		return;
	snprintf(number, sizeof(number), "%.17g", best->value);
	json_add_str(d, "loss", number);
}

static void post_part(struct core *c, struct cjob *j, const struct cnode *n, const struct place_rec *p,
                      uint32_t number, const struct wm_checkpoint_report *m, int counts)
{
	enum ckpt_state state = counts ? (enum ckpt_state)m->state : CKPT_COPYING;
	cJSON *d = cJSON_CreateObject();

	json_add_u64(d, "number", number);
	json_add_str(d, "node", n->name);
	json_add_u64(d, "node_rank", place_index(j, p));
	json_add_u64(d, "seq", m->seq);
	if (m->step >= 0)
		json_add_u64(d, "step", (uint64_t)m->step);
	report_add_text(d, "name", m->name, strlen(m->name));
	report_add_text(d, "format", m->format, strlen(m->format));
	report_add_text(d, "step_by", m->step_by, strlen(m->step_by));
	json_add_str(d, "state", ckpt_state_name(state));
	if (m->shards)
		json_add_u64(d, "shards", m->shards);
	json_add_u64(d, "size_bytes", m->size_bytes);
	json_add_u64(d, "files", m->files);
	if (*m->digest)
		json_add_str(d, "digest", m->digest);
	if (*m->uri && counts)
		report_add_text(d, "uri", m->uri, strlen(m->uri));
	json_add_u64(d, "at_us", node_time(n, m->at_us));
	json_add_u64(d, "save_ms", m->save_ms);
	add_loss(j->act, m->step, d);
	if (*m->text)
		report_add_text(d, "text", m->text, strlen(m->text));
	job_post(c, j, EV_CHECKPOINT, d);
}

/* The node holds and copies it no longer: nobody would ever remove it. */
static void leave_out(struct core *c, const struct cnode *n, const struct wm_checkpoint_report *m)
{
	struct wm_checkpoint_keep out = {.job = m->job, .attempt = m->attempt, .epoch = m->epoch};

	log_warn("event=checkpoint_left_out job=%" PRIu64 " step=%" PRId64, m->job, m->step);
	wire_u32v_add(&out.attempts, m->attempt);
	wire_u64v_add(&out.seqs, m->seq);
	wire_strv_add(&out.names, m->name);
	wire_strv_add(&out.uris, m->uri);
	hold_send(c, n, WM_CHECKPOINT_KEEP, &out);
	wire_fini(WM_CHECKPOINT_KEEP, &out);
}

static cJSON *change_of(const struct cjob *j, uint32_t number, const char *text)
{
	const struct ckpt *k = ckpt_find(&j->r, number);
	cJSON *d = cJSON_CreateObject();

	json_add_u64(d, "number", number);
	if (k && k->step >= 0)
		json_add_u64(d, "step", (uint64_t)k->step);
	json_add_str(d, "text", text);
	return d;
}

/* Another one has a copy outside of its node. */
static int is_held_alone(const struct ckpt *c, const char *node, const struct wm_checkpoint_report *m)
{
	for (uint32_t i = 0; i < c->n_parts; i++) {
		const struct ckpt_part *p = &c->parts[i];

		if (strcmp(p->node, node) == 0)
			return p->attempt == m->attempt && p->seq == m->seq && p->state == CKPT_COPYING;
	}
	return 0;
}

/* A node says what it removed of an attempt before the present one: nobody can begin with it any more.
 * `retry` offers what an ended job left: its table says so, too. */
static void lose_part(struct core *c, const struct cnode *n, const struct wm_checkpoint_report *m)
{
	struct err e;
	struct cjob *j = job_get(c, m->job, &e);
	uint32_t number = j ? ckpt_match(&j->r, m, n->name) : 0;
	char *text;
	cJSON *d;

	if (!number || !is_held_alone(ckpt_find(&j->r, number), n->name, m))
		return;
	text = report_clean_text(m->text, strlen(m->text));
	d = change_of(j, number, text);
	free(text);
	json_add_str(d, "node", n->name);
	json_add_str(d, "state", ckpt_state_name(CKPT_GONE));
	job_post(c, j, EV_CHECKPOINT_CHANGED, d);
	job_touch(c, j);
}

void on_checkpoint(struct core *c, struct cnode *n, uint64_t id, const struct wm_checkpoint_report *m)
{
	const char *lacks;
	struct place_rec *p;
	struct cjob *j;
	uint32_t number;

	hold_ack(c, n->name, n->session, id);
	j = report_current(c, n, m->job, m->attempt, m->epoch, &p);
	if (!j) {
		if (m->state == CKPT_GONE)
			lose_part(c, n, m);
		return;
	}
	if (!well_formed(m)) {
		log_warn("event=checkpoint_refused job=%" PRIu64 " node=%s seq=%" PRIu64, m->job, n->name, m->seq);
		return;
	}
	place_rt(j, p)->progress_us = now_boot(c);
	number = ckpt_match(&j->r, m, n->name);
	if (is_known(ckpt_find(&j->r, number), n->name, m))
		return;
	if (!number && !may_add(c, j, m)) {
		leave_out(c, n, m);
		return;
	}
	lacks = what_lacks(c, j, m, n->name);
	if (lacks)
		copy_again(c, n, m, lacks);
	if (lacks && number && is_held_alone(ckpt_find(&j->r, number), n->name, m))
		return;
	post_part(c, j, n, p, number ? number : ckpt_next_number(&j->r), m, !lacks);
	checkpoint_retain(c, j, 0);
	job_touch(c, j);
}

void checkpoint_loss(struct active *a, int64_t step, double value)
{
	if (!a->losses)
		a->losses = xcalloc(LOSS_POINTS, sizeof(*a->losses));
	a->losses[a->n_losses % LOSS_POINTS] = (struct loss_point){step, value, a->n_losses + 1};
	a->n_losses++;
}

/* ---- changes --------------------------------------------------------------------------------- */

void checkpoint_pin(struct core *c, struct cjob *j, uint32_t number, int pinned, const char *text)
{
	cJSON *d = change_of(j, number, text);

	cJSON_AddBoolToObject(d, "pinned", pinned);
	job_post(c, j, EV_CHECKPOINT_CHANGED, d);
}

void checkpoint_set_aside(struct core *c, struct cjob *j, uint32_t number, int aside, const char *text)
{
	cJSON *d = change_of(j, number, text);

	cJSON_AddBoolToObject(d, "set_aside", aside);
	job_post(c, j, EV_CHECKPOINT_CHANGED, d);
}

void checkpoint_torn(struct core *c, struct cjob *j, uint32_t number, const char *text)
{
	cJSON *d = change_of(j, number, text);

	json_add_str(d, "state", ckpt_state_name(CKPT_TORN));
	job_post(c, j, EV_CHECKPOINT_CHANGED, d);
}

void checkpoint_passed(struct core *c, struct cjob *j, const struct ckpt *k, const char *why)
{
	cJSON *d = change_of(j, k->number, why);

	json_add_u64(d, "attempt", k->attempt);
	job_post(c, j, EV_CHECKPOINT_PASSED, d);
}

/* Returns what the present attempt begins with, and the job whose checkpoint it is; NULL none. That job may
 * have ended: a damaged copy is a fact about files, so its table says so, too. */
static const struct ckpt *begun_with(struct core *c, struct cjob *j, struct cjob **of)
{
	const struct beginning *b = &j->act->begin;
	struct err e;

	*of = !b->ckpt ? NULL : b->job == j->r.id ? j : job_get(c, b->job, &e);
	return *of ? ckpt_find(&(*of)->r, b->ckpt->number) : NULL;
}

void checkpoint_not_restored(struct core *c, struct cjob *j, const char *node, const char *text)
{
	struct cjob *of;
	const struct ckpt *k = begun_with(c, j, &of);
	char *why;

	if (!k)
		return;
	why = xasprintf("node %s could not restore it: %.900s", node, text);
	checkpoint_torn(c, of, k->number, why);
	free(why);
}

int checkpoint_is_torn(struct core *c, struct cjob *j)
{
	struct cjob *of;
	const struct ckpt *k = begun_with(c, j, &of);

	for (uint32_t i = 0; k && i < k->n_parts; i++)
		if (k->parts[i].state == CKPT_TORN)
			return 1;
	return 0;
}

/* ---- retention ------------------------------------------------------------------------------- */

static const struct place_rec *place_of_node(const struct attempt_rec *a, const char *node)
{
	for (uint32_t i = 0; i < a->n_places; i++)
		if (strcmp(a->places[i].node, node) == 0 && a->places[i].state != PLACE_LOST)
			return &a->places[i];
	return NULL;
}

/* Adds the gone parts of a checkpoint that the node may remove: its own; and the first node also removes the
 * copies outside of nodes that the attempt does not have. The numbers of parts count by node, so it gets 0
 * for theirs: its own part of that number is another checkpoint. */
static void add_gone(struct wm_checkpoint_keep *m, const struct attempt_rec *a, uint32_t place,
                     const struct ckpt *k)
{
	for (uint32_t i = 0; i < k->n_parts; i++) {
		const struct ckpt_part *p = &k->parts[i];
		const struct place_rec *own = place_of_node(a, p->node);
		int outside = p->uri && strcmp(p->uri, CKPT_URI_STORE) != 0;

		if (p->state != CKPT_GONE || (own ? own != &a->places[place] : place || !outside))
			continue;
		wire_u32v_add(&m->attempts, p->attempt);
		wire_u64v_add(&m->seqs, own ? p->seq : 0);
		wire_strv_add(&m->names, k->name);
		wire_strv_add(&m->uris, p->uri ? p->uri : "");
	}
}

void checkpoint_drop(struct core *c, struct cjob *j, uint32_t place, const struct cnode *n)
{
	const struct attempt_rec *a = j->r.att;
	struct wm_checkpoint_keep m = {.job = j->r.id, .attempt = a->number, .epoch = a->epoch};

	for (uint32_t i = 0; j->r.ckpts && i < j->r.ckpts->n; i++)
		add_gone(&m, a, place, &j->r.ckpts->v[i]);
	if (m.seqs.n)
		hold_send(c, n, WM_CHECKPOINT_KEEP, &m);
	wire_fini(WM_CHECKPOINT_KEEP, &m);
}

static void remove_one(struct core *c, struct cjob *j, uint32_t number, const char *why)
{
	cJSON *d = change_of(j, number, why);

	json_add_str(d, "state", ckpt_state_name(CKPT_GONE));
	job_post(c, j, EV_CHECKPOINT_CHANGED, d);
}

void checkpoint_retain(struct core *c, struct cjob *j, int ends)
{
	const struct watch_conf *watch = &j->act->spec->watch.conf;
	const struct ckpt_keeps keeps = {.last = j->act->spec->keep_last,
	                                 .margin = (uint64_t)watch->margin_steps,
	                                 .rollbacks = (uint32_t)watch->max_rollbacks,
	                                 .ends = ends};
	uint32_t numbers[CKPT_MAX], n;
	char *why;

	n = ckpt_surplus(&j->r, &keeps, numbers);
	why = xasprintf("removed: %u newer ones are verified (checkpoint.keep_last)", keeps.last);
	for (uint32_t i = n; i-- > 0;)
		remove_one(c, j, numbers[i], ends ? "removed at the end of the job" : why);
	free(why);
	if (!n && !ends) {
		n = ckpt_crowd(&j->r, numbers);
		for (uint32_t i = 0; i < n; i++)
			remove_one(c, j, numbers[i], "removed: the list of the job has no room for more");
	}
	if (!n)
		return;
	for (uint32_t i = 0; i < j->r.att->n_places; i++)
		j->act->rt[i].sent &= (uint8_t)~SENT_DROPS;
	job_touch(c, j);
}
