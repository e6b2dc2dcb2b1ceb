/*
 * ckpt: the list of a job's checkpoints, its events and its questions.
 */
#include "controller/record/ckpt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/rec.h"

static const char *const state_names[] = {"", "copying", "verified", "torn", "gone"};
#define RETURN_LEVELS 16 /* the last one looks back 32,768 margins; more would fill the list */
#define N_STATES      (sizeof(state_names) / sizeof(*state_names))

const char *ckpt_state_name(enum ckpt_state s)
{
	return (size_t)s < N_STATES ? state_names[s] : "?";
}

enum ckpt_state ckpt_state_find(const char *name)
{
	for (size_t i = 1; i < N_STATES; i++)
		if (name && strcmp(state_names[i], name) == 0)
			return (enum ckpt_state)i;
	return (enum ckpt_state)0;
}

static void free_entry(struct ckpt *c)
{
	for (uint32_t i = 0; i < c->n_parts; i++) {
		free(c->parts[i].node);
		free(c->parts[i].digest);
		free(c->parts[i].uri);
		free(c->parts[i].text);
	}
	free(c->parts);
	free(c->name);
	free(c->format);
	free(c->step_by);
	free(c->loss);
}

static char *dup_text(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

struct ckpt *ckpt_copy(const struct ckpt *c)
{
	struct ckpt *k = xmemdup(c, sizeof(*c));

	k->name = dup_text(c->name);
	k->format = dup_text(c->format);
	k->step_by = dup_text(c->step_by);
	k->loss = dup_text(c->loss);
	k->parts = xmemdup(c->parts, c->n_parts * sizeof(*c->parts));
	for (uint32_t i = 0; i < c->n_parts; i++) {
		k->parts[i].node = dup_text(c->parts[i].node);
		k->parts[i].digest = dup_text(c->parts[i].digest);
		k->parts[i].uri = dup_text(c->parts[i].uri);
		k->parts[i].text = dup_text(c->parts[i].text);
	}
	return k;
}

void ckpt_free(struct ckpt *c)
{
	if (c)
		free_entry(c);
	free(c);
}

void ckpt_list_free(struct ckpt_list *l)
{
	if (!l)
		return;
	for (uint32_t i = 0; i < l->n; i++)
		free_entry(&l->v[i]);
	free(l->v);
	free(l->removed);
	free(l);
}

struct ckpt *ckpt_find(const struct job_rec *r, uint32_t number)
{
	for (uint32_t i = 0; number && r->ckpts && i < r->ckpts->n; i++)
		if (r->ckpts->v[i].number == number)
			return &r->ckpts->v[i];
	return NULL;
}

static int is_whole(const struct ckpt_part *p)
{
	return p->state == CKPT_COPYING || p->state == CKPT_VERIFIED;
}

/* Each node writes some of it, by its format or its name. */
static int is_shared(const struct ckpt *c)
{
	static const char *const formats[] = {"dcp", "deepspeed", "megatron", "hf_trainer"};

	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (strcmp(c->format, formats[i]) == 0)
			return 1;
	return strchr(c->name, '*') != NULL;
}

/* Parts that it needs. The first one of a format has none before it: parts of all nodes, if they share it. */
static uint32_t needed_parts(const struct ckpt *c)
{
	if (c->shards || c->expected)
		return c->shards ? c->shards : c->expected;
	return c->nodes && is_shared(c) ? c->nodes : 1;
}

int ckpt_is_complete(const struct ckpt *c)
{
	uint32_t whole = 0;

	for (uint32_t i = 0; i < c->n_parts; i++) {
		if (!is_whole(&c->parts[i]))
			return 0;
		whole++;
	}
	return whole >= needed_parts(c);
}

int ckpt_is_verified(const struct ckpt *c)
{
	for (uint32_t i = 0; i < c->n_parts; i++)
		if (c->parts[i].state != CKPT_VERIFIED)
			return 0;
	return c->n_parts > 0;
}

static int is_gone(const struct ckpt *c)
{
	for (uint32_t i = 0; i < c->n_parts; i++)
		if (c->parts[i].state != CKPT_GONE)
			return 0;
	return 1;
}

/* ---- what an attempt begins with ------------------------------------------------------------- */

int begins_parse(const char *text, uint32_t *attempt, int64_t *step)
{
	char number[24];
	uint64_t n;

	if (!text || strncmp(text, "attempt:", 8) != 0)
		return -1;
	snprintf(number, sizeof(number), "%.*s", (int)strcspn(text + 8, "@"), text + 8);
	if (str_parse_u64(number, &n) < 0 || !n || n > UINT32_MAX)
		return -1;
	*attempt = (uint32_t)n;
	text = strchr(text, '@');
	if (text && (str_parse_u64(text + 1, &n) < 0 || n > INT64_MAX))
		return -1;
	*step = text ? (int64_t)n : -1;
	return 0;
}

const struct ckpt *ckpt_of(const struct job_rec *r, uint32_t attempt, int64_t step)
{
	const struct ckpt *best = NULL;

	for (uint32_t i = 0; r->ckpts && i < r->ckpts->n; i++) {
		const struct ckpt *c = &r->ckpts->v[i];

		if (c->attempt != attempt || (step >= 0 && c->step != step))
			continue;
		if (step < 0 || !best || ckpt_is_complete(c) || !ckpt_is_complete(best))
			best = c;
	}
	return best;
}

/* The checkpoint that a text such as attempt_rec.resumed_from, with the step beside it, names; NULL none. */
static const struct ckpt *named_by(const struct job_rec *r, const char *from, int64_t step)
{
	uint32_t attempt;
	int64_t own;

	if (begins_parse(from, &attempt, &own) < 0)
		return NULL;
	return ckpt_of(r, attempt, step >= 0 ? step : own);
}

/* What the present or the next attempt begins with; NULL none. */
static const struct ckpt *beginning(const struct job_rec *r)
{
	const struct ckpt *next = named_by(r, r->begins, -1);
	const struct attempt_rec *a = rec_newest(r);

	if (next || !a)
		return next;
	return named_by(r, a->resumed_from, a->resumed_from_step);
}

const struct ckpt *ckpt_first(const struct job_rec *r)
{
	const struct ckpt *own = ckpt_of(r, r->attempts, -1);
	const struct attempt_rec *a = rec_newest(r);

	if (own || !a || a->number != r->attempts)
		return own;
	return named_by(r, a->resumed_from, a->resumed_from_step);
}

const struct ckpt *ckpt_before(const struct job_rec *r, const struct ckpt *c)
{
	for (uint32_t i = (uint32_t)(c - r->ckpts->v); i-- > 0;)
		if (r->ckpts->v[i].attempt == c->attempt)
			return &r->ckpts->v[i];
	return c->parent < c->number ? ckpt_find(r, c->parent) : NULL;
}

int ckpt_gives(const struct ckpt *c, uint32_t part, uint32_t rank, uint32_t n)
{
	if (n != c->nodes || c->shards > 1)
		return 1;
	if (c->parts[part].node_rank == rank)
		return 1;
	for (uint32_t i = 0; i < c->n_parts; i++)
		if (c->parts[i].node_rank == rank)
			return 0;
	return part == 0; /* its node wrote none */
}

static int has_copy(const struct ckpt_part *p, const char *node)
{
	return p->state == CKPT_VERIFIED || (p->held && node && strcmp(p->node, node) == 0);
}

static int part_there(const struct ckpt_part *p, const char *node, struct text *why)
{
	if (!has_copy(p, node))
		text_add(why, "only node %s has its copy", p->node);
	return has_copy(p, node);
}

/* The case of ckpt_gives in which each rank gets its own part, in one pass: a gang may have thousands. */
static int own_parts_there(const struct ckpt *c, const struct ckpt_nodes *on, struct text *why)
{
	uint8_t *own = xcalloc(on->n ? on->n : 1, 1);
	int good = 1;

	for (uint32_t i = 0; i < c->n_parts && good; i++)
		if (c->parts[i].node_rank < on->n) {
			own[c->parts[i].node_rank] = 1;
			good = part_there(&c->parts[i], on->names[c->parts[i].node_rank], why);
		}
	for (uint32_t rank = 0; rank < on->n && c->n_parts && good; rank++)
		good = own[rank] || part_there(&c->parts[0], on->names[rank], why);
	free(own);
	return good;
}

static int places_have(const struct ckpt *c, const struct ckpt_nodes *on, struct text *why)
{
	if (ckpt_is_verified(c))
		return 1;
	if (on->n == c->nodes && c->shards <= 1)
		return own_parts_there(c, on, why);
	for (uint32_t rank = 0; rank < on->n; rank++)
		for (uint32_t i = 0; i < c->n_parts; i++)
			if (!part_there(&c->parts[i], on->names[rank], why))
				return 0;
	return 1;
}

int ckpt_has_copies(const struct ckpt *c, const struct ckpt_nodes *on, struct text *why)
{
	for (uint32_t i = 0; i < c->n_parts; i++)
		if (!is_whole(&c->parts[i])) {
			text_add(why, "its copy of node %s is %s%s%.300s", c->parts[i].node,
			         ckpt_state_name(c->parts[i].state), c->parts[i].text ? ": " : "",
			         c->parts[i].text ? c->parts[i].text : "");
			return 0;
		}
	if (ckpt_is_complete(c))
		return places_have(c, on, why);
	text_add(why, "it has %u of %u parts", c->n_parts, needed_parts(c));
	return 0;
}

int ckpt_usable(const struct ckpt *c, const struct ckpt_nodes *on, struct text *why)
{
	if (!c->set_aside || !ckpt_is_complete(c))
		return ckpt_has_copies(c, on, why);
	text_add(why, "it was set aside");
	return 0;
}

const struct ckpt *ckpt_newest(const struct job_rec *r, int64_t max_step, const struct ckpt_nodes *on)
{
	const struct attempt_rec *a = r->att;
	uint32_t n = a ? a->n_places : 0;
	const char **names = xcalloc(n ? n : 1, sizeof(*names));
	const struct ckpt_nodes present = {names, n};
	const struct ckpt *c = ckpt_first(r);
	TEXT(why);

	for (uint32_t i = 0; i < n; i++)
		names[i] = a->places[i].state == PLACE_LOST ? NULL : a->places[i].node;
	while (c && (c->step > max_step || (c->step < 0 && max_step < INT64_MAX) ||
	             !ckpt_fits(r, c, on ? on : &present, &why)))
		c = ckpt_before(r, c);
	free(names);
	return c;
}

/* The newest complete one of a step that a user named; NULL none. */
static const struct ckpt *of_step(const struct job_rec *r, uint64_t step)
{
	for (uint32_t i = r->ckpts ? r->ckpts->n : 0; i-- > 0;) {
		const struct ckpt *c = &r->ckpts->v[i];

		if (c->step >= 0 && (uint64_t)c->step == step && ckpt_is_complete(c))
			return c;
	}
	return NULL;
}

void ckpt_add_line(const struct job_rec *r, cJSON *d)
{
	const struct ckpt *c = NULL;
	char text[64];
	uint64_t step;

	if (!r->begins && r->attempts && r->status == JOB_QUEUED) /* its next attempt was settled */
		json_add_str(d, "begins", "start");
	else if (!r->begins)
		c = ckpt_first(r);
	else if (strncmp(r->begins, "step:", 5) == 0 && str_parse_u64(r->begins + 5, &step) == 0)
		c = of_step(r, step);
	if (c && c->step >= 0) {
		snprintf(text, sizeof(text), "attempt:%u@%" PRId64, c->attempt, c->step);
		json_add_str(d, "begins", text);
	} else if (r->begins) {
		json_add_str(d, "begins", r->begins);
	}
}

int ckpt_is_behind(const struct ckpt *c, const struct ckpt *target)
{
	if (c->set_aside || is_gone(c) || c == target)
		return 0;
	return !target || (c->step >= 0 ? c->step > target->step : c->number > target->number);
}

/* ---- events ---------------------------------------------------------------------------------- */

static struct ckpt_part *part_of(const struct ckpt *c, const char *node)
{
	for (uint32_t i = 0; i < c->n_parts; i++)
		if (strcmp(c->parts[i].node, node) == 0)
			return &c->parts[i];
	return NULL;
}

uint32_t ckpt_match(const struct job_rec *r, const struct wm_checkpoint_report *m, const char *node)
{
	for (uint32_t i = r->ckpts ? r->ckpts->n : 0; i-- > 0;) {
		const struct ckpt *c = &r->ckpts->v[i];
		const struct ckpt_part *p = part_of(c, node);

		if (p && p->attempt == m->attempt && p->seq == m->seq)
			return c->number;
	}
	for (uint32_t i = r->ckpts ? r->ckpts->n : 0; i-- > 0;) {
		const struct ckpt *c = &r->ckpts->v[i];

		/* The node has written this step once more: another checkpoint. */
		if (m->step >= 0 && c->attempt == m->attempt && c->step == m->step && strcmp(c->name, m->name) == 0)
			return part_of(c, node) ? 0 : c->number;
	}
	return 0;
}

uint32_t ckpt_next_number(const struct job_rec *r)
{
	return r->ckpts && r->ckpts->n ? r->ckpts->v[r->ckpts->n - 1].number + 1 : 1;
}

static uint64_t get_whole(const cJSON *d, const char *key)
{
	return json_whole(d, key, 0);
}

/* The parts that a checkpoint needs whose program says nothing: as many as those before it, while the number
 * of nodes stays. */
static uint32_t expected_parts(const struct job_rec *r, const char *format, uint32_t nodes)
{
	uint32_t n = 0;

	for (uint32_t i = 0; r->ckpts && i < r->ckpts->n; i++) {
		const struct ckpt *c = &r->ckpts->v[i];

		if (c->nodes != nodes || c->shards || strcmp(c->format, format) != 0)
			continue;
		n = c->n_parts > n ? c->n_parts : n;
		n = c->expected > n ? c->expected : n;
	}
	return n < nodes ? n : nodes;
}

uint64_t ckpt_part_stored(const struct ckpt_part *p)
{
	return is_whole(p) && p->uri && strcmp(p->uri, CKPT_URI_STORE) == 0 ? p->size_bytes : 0;
}

uint64_t ckpt_stored(const struct job_rec *r)
{
	return r->ckpts ? r->ckpts->stored : 0;
}

static void remove_at(struct ckpt_list *l, uint32_t at)
{
	for (uint32_t i = 0; i < l->v[at].n_parts; i++)
		l->stored -= ckpt_part_stored(&l->v[at].parts[i]);
	l->removed = xreallocarray(l->removed, l->n_removed + 1, sizeof(*l->removed));
	l->removed[l->n_removed++] = l->v[at].number;
	free_entry(&l->v[at]);
	memmove(&l->v[at], &l->v[at + 1], (l->n - at - 1) * sizeof(*l->v));
	l->n--;
}

/* Makes room for another one: the oldest of which nothing is left goes first, then the oldest that nothing
 * needs. */
static void make_room(struct job_rec *r)
{
	const struct ckpt *begin = beginning(r);
	uint32_t keep = begin ? begin->number : 0;
	struct ckpt_list *l = r->ckpts;

	for (int pass = 0; pass < 2 && l->n >= CKPT_MAX; pass++)
		for (uint32_t i = 0; i < l->n && l->n >= CKPT_MAX; i++)
			if (!l->v[i].pinned && l->v[i].number != keep && (pass || is_gone(&l->v[i]))) {
				remove_at(l, i);
				break;
			}
}

/* The next one has begun: those before it get no further part. */
static void settle_parts(struct job_rec *r, uint32_t attempt, const char *format)
{
	for (uint32_t i = 0; i < r->ckpts->n; i++) {
		struct ckpt *c = &r->ckpts->v[i];

		if (c->attempt != attempt || c->shards || c->expected || strcmp(c->format, format) != 0)
			continue;
		c->expected = c->n_parts;
		c->dirty = 1;
	}
}

static struct ckpt *new_entry(struct job_rec *r, uint32_t attempt, const cJSON *d)
{
	const struct attempt_rec *a = rec_attempt(r, attempt);
	const struct ckpt *begin = NULL;
	const char *format = json_str_or(d, "format", "plain");
	uint32_t nodes = a ? a->n_places : 1, number = ckpt_next_number(r), parent;
	struct ckpt *c;

	if (!r->ckpts)
		r->ckpts = xcalloc(1, sizeof(*r->ckpts));
	begin = a ? named_by(r, a->resumed_from, a->resumed_from_step) : NULL;
	parent = begin ? begin->number : 0;
	settle_parts(r, attempt, format);
	make_room(r);
	r->ckpts->v = xreallocarray(r->ckpts->v, r->ckpts->n + 1, sizeof(*r->ckpts->v));
	c = &r->ckpts->v[r->ckpts->n];
	*c = (struct ckpt){.number = number,
	                   .attempt = attempt,
	                   .step = cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(d, "step"))
	                               ? (int64_t)get_whole(d, "step")
	                               : -1,
	                   .name = xstrdup(json_str_or(d, "name", "?")),
	                   .format = xstrdup(format),
	                   .step_by = xstrdup(json_str_or(d, "step_by", "")),
	                   .expected = expected_parts(r, format, nodes),
	                   .nodes = nodes,
	                   .parent = parent};
	r->ckpts->n++;
	return c;
}

static void fill_part(struct ckpt_part *p, uint32_t attempt, enum ckpt_state state, const cJSON *d)
{
	p->attempt = attempt;
	p->node_rank = (uint32_t)get_whole(d, "node_rank");
	p->seq = get_whole(d, "seq");
	p->size_bytes = get_whole(d, "size_bytes");
	p->files = (uint32_t)get_whole(d, "files");
	p->state = state;
	p->dirty = 1;
	p->held = state == CKPT_COPYING ||
	          (state == CKPT_VERIFIED && !cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(d, "held")));
	rec_set(&p->digest, json_str_or(d, "digest", NULL));
	rec_set(&p->uri, json_str_or(d, "uri", NULL));
	rec_set(&p->text, json_str_or(d, "text", NULL));
}

int ckpt_apply_part(struct job_rec *r, uint32_t attempt, const cJSON *d, struct err *e)
{
	uint32_t number = (uint32_t)get_whole(d, "number");
	enum ckpt_state state = ckpt_state_find(json_str_or(d, "state", NULL));
	const char *node = json_str_or(d, "node", NULL);
	struct ckpt *c = ckpt_find(r, number);
	struct ckpt_part *p;
	uint64_t v;

	if (!state || !node || !*node || (!c && number != ckpt_next_number(r)))
		return err_set(e, ERR_INTERNAL, "checkpoint: no such number, no node or an unknown state");
	if (!c)
		c = new_entry(r, attempt, d);
	p = part_of(c, node);
	if (!p) {
		c->parts = xreallocarray(c->parts, c->n_parts + 1, sizeof(*c->parts));
		p = &c->parts[c->n_parts++];
		*p = (struct ckpt_part){.node = xstrdup(node)};
	}
	r->ckpts->stored -= ckpt_part_stored(p);
	fill_part(p, attempt, state, d);
	r->ckpts->stored += ckpt_part_stored(p);
	v = get_whole(d, "at_us");
	c->at_us = v > c->at_us ? v : c->at_us;
	v = get_whole(d, "save_ms");
	c->save_ms = v > c->save_ms ? v : c->save_ms;
	v = get_whole(d, "shards");
	c->shards = v > c->shards ? (uint32_t)v : c->shards;
	if (json_str_or(d, "loss", NULL))
		rec_set(&c->loss, json_str_or(d, "loss", NULL));
	c->dirty = 1;
	return 0;
}

static void change_part(struct ckpt_list *l, struct ckpt_part *p, enum ckpt_state state, const char *text)
{
	l->stored -= ckpt_part_stored(p);
	p->state = state;
	p->held = 0;
	p->dirty = 1;
	rec_set(&p->text, text);
	l->stored += ckpt_part_stored(p);
}

int ckpt_apply_change(struct job_rec *r, const cJSON *d, struct err *e)
{
	struct ckpt *c = ckpt_find(r, (uint32_t)get_whole(d, "number"));
	const cJSON *pinned = cJSON_GetObjectItemCaseSensitive(d, "pinned"),
	            *aside = cJSON_GetObjectItemCaseSensitive(d, "set_aside");
	enum ckpt_state state = ckpt_state_find(json_str_or(d, "state", NULL));

	if (!c)
		return err_set(e, ERR_INTERNAL, "checkpoint_changed: no checkpoint of that number");
	if (cJSON_IsBool(pinned))
		c->pinned = !!cJSON_IsTrue(pinned);
	if (cJSON_IsBool(aside))
		c->set_aside = !!cJSON_IsTrue(aside);
	for (uint32_t i = 0; (state == CKPT_TORN || state == CKPT_GONE) && i < c->n_parts; i++)
		if (strcmp(json_str_or(d, "node", c->parts[i].node), c->parts[i].node) == 0)
			change_part(r->ckpts, &c->parts[i], state, json_str_or(d, "text", NULL));
	c->dirty = 1;
	return 0;
}

void ckpt_node_lost(struct job_rec *r, const char *node)
{
	for (uint32_t i = 0; r->ckpts && i < r->ckpts->n; i++) {
		struct ckpt *c = &r->ckpts->v[i];
		struct ckpt_part *p = part_of(c, node);

		if (!p || !p->held)
			continue;
		p->held = 0;
		p->dirty = c->dirty = 1;
		if (p->state == CKPT_COPYING)
			change_part(r->ckpts, p, CKPT_GONE, "its node was lost");
	}
}

/* ---- retention ------------------------------------------------------------------------------- */

/* The next attempt may begin with it: a requeue that waits for the end of this one names a step alone. */
static int is_wanted(const struct job_rec *r, const struct ckpt *c)
{
	uint64_t step;

	return r->begins && strncmp(r->begins, "step:", 5) == 0 && str_parse_u64(r->begins + 5, &step) == 0 &&
	       c->step >= 0 && (uint64_t)c->step == step;
}

/* What rollbacks may need. Each goes back twice as far as the one before, so there is a level for each: it
 * keeps the newest one of each stretch of its length, until one is two whole stretches behind the newest.
 * A stretch of one level is two of the level below, so what a level will need has stayed until then. */
struct returns {
	uint32_t n;
	uint64_t newest;              /* step of the newest one that stays */
	uint64_t last[RETURN_LEVELS]; /* step of the oldest one that stays, for each level */
};

static void returns_begin(struct returns *l, const struct ckpt *newest, uint64_t margin, uint32_t rollbacks)
{
	l->n = 0;
	l->newest = (uint64_t)newest->step;
	while (newest->step >= 0 && margin && l->n < rollbacks && l->n < RETURN_LEVELS &&
	       l->newest >> l->n >= margin)
		l->last[l->n++] = l->newest;
}

/* Returns 1 when a rollback may need it. From the newest to the oldest one. */
static int returns_add(struct returns *l, const struct ckpt *c, uint64_t margin)
{
	int needed = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		uint64_t length = margin << i, last = l->last[i] / length;

		if (c->step < 0 || (uint64_t)c->step / length >= last || last + 2 <= l->newest / length)
			continue;
		l->last[i] = (uint64_t)c->step;
		needed = 1;
	}
	return needed;
}

/* Attempts may begin with it, wherever they run. */
static int is_good(const struct job_rec *r, const struct ckpt *c)
{
	return ckpt_is_complete(c) && ckpt_is_verified(c) && !c->set_aside && !ckpt_step_is_over(r, c);
}

uint32_t ckpt_surplus(const struct job_rec *r, const struct ckpt_keeps *keeps, uint32_t out[CKPT_MAX])
{
	const int ends = keeps->ends;
	const struct ckpt *begin = ends ? NULL : beginning(r);
	const struct ckpt *last = NULL; /* that was kept */
	struct returns returns = {0};
	uint32_t kept = 0, n = 0, keep_last = keeps->last ? keeps->last : 1;

	for (uint32_t i = r->ckpts ? r->ckpts->n : 0; i-- > 0;) {
		const struct ckpt *c = &r->ckpts->v[i];
		int good = is_good(r, c);
		int next = !last || !ckpt_is_sibling(c, last), needed;

		if (good && !last)
			returns_begin(&returns, c, keeps->margin, ends ? 0 : keeps->rollbacks);
		needed = good && returns_add(&returns, c, keeps->margin);
		if (good && (!next || needed || kept < keep_last)) {
			kept += (uint32_t)(next && kept < keep_last);
			last = c;
			continue;
		}
		/* Before the newest verified one, others may still become it. */
		if (is_gone(c) || ckpt_step_is_pinned(r, c) || c == begin || (begin && ckpt_is_sibling(c, begin)) ||
		    (!ends && is_wanted(r, c)) || (c->set_aside && !ends) || (!kept && !c->set_aside))
			continue;
		out[n++] = c->number;
	}
	return n;
}

/* Marks c and the other files of its step, of which something is left. Returns how many are new. */
static uint32_t mark_step(const struct job_rec *r, const struct ckpt *c, uint8_t *marks)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->ckpts->n; i++) {
		const struct ckpt *k = &r->ckpts->v[i];

		if (marks[i] || is_gone(k) || (k != c && !ckpt_is_sibling(k, c)))
			continue;
		marks[i] = 1;
		n++;
	}
	return n;
}

static const struct ckpt *newest_good(const struct job_rec *r)
{
	for (uint32_t i = r->ckpts->n; i-- > 0;) {
		const struct ckpt *c = &r->ckpts->v[i];

		if (is_good(r, c))
			return c;
	}
	return NULL;
}

uint32_t ckpt_crowd(const struct job_rec *r, uint32_t out[CKPT_MAX])
{
	const struct ckpt *begin = beginning(r), *good = r->ckpts ? newest_good(r) : NULL;
	uint8_t marks[CKPT_MAX + CKPT_PIN_MAX] = {0};
	uint32_t left = 0, n = 0, all = r->ckpts && r->ckpts->n <= sizeof(marks) ? r->ckpts->n : 0;

	for (uint32_t i = 0; i < all; i++)
		left += is_gone(&r->ckpts->v[i]) ? 0 : 1;
	for (uint32_t i = 0; i < all && left > CKPT_LEFT_MAX; i++) {
		const struct ckpt *c = &r->ckpts->v[i];

		if (is_gone(c) || marks[i] || ckpt_step_is_pinned(r, c) || is_wanted(r, c) || c == begin ||
		    (begin && ckpt_is_sibling(c, begin)) || c == good || (good && ckpt_is_sibling(c, good)))
			continue;
		left -= mark_step(r, c, marks);
	}
	for (uint32_t i = 0; i < all && n < CKPT_MAX; i++)
		if (marks[i])
			out[n++] = r->ckpts->v[i].number;
	return n;
}
