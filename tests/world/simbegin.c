/*
 * simbegin: checkpoints that attempts leave, and what the next attempt begins with.
 *
 * A folder's steps are written in its digest, so nothing has to be kept for it. What is right is worked out
 * here again, from the events in the store alone and in their order: what was asked for (requeue_wanted,
 * changed), what was on record as left then (artifact), what was settled (requeued), what the attempt began
 * with (placed), and what each of its nodes was told (the orders). A step that no attempt left must hold the
 * job, with that reason, before anything of it is placed. A choice that was acknowledged must be on record.
 */
#include "common/tree/steps.h"
#include "controller/run/resolve.h"
#include "tests/world/sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS        8  /* 1 to 8 */
#define READ_MAX     16 /* manifests that hearthd reads for a question (docs/spec/01-states.md) */
#define DIGEST_SIZE  65
#define CHOICE_START (-1)

struct past {                       /* an attempt */
	uint32_t number, n_nodes, from; /* from: the attempt whose checkpoints it began with; 0 none */
	int64_t step;                   /* of these; -1 all */
	char nodes[SIM_NODES][16], left[SIM_NODES][DIGEST_SIZE];
	struct past *older;
};

struct choice { /* a requeue that was acknowledged */
	uint64_t job;
	int64_t step; /* CHOICE_START */
	struct choice *next;
};

struct track {
	uint64_t job;
	struct past *newest;
	char asked[32], begins[40]; /* as in the record; "" nothing */
	int settled;                /* the job looks for nodes: another event of that wait changes nothing */
	int must_hold, any;         /* a step was not found: held before it is placed; any: not known which */
	UT_hash_handle hh;
};

static struct {
	struct track *tracks;
	struct choice *choices;
} all;

/* ---- what an attempt leaves ---------------------------------------------------------------------- */

/* 0: that node leaves none. All leave about the same steps; now and then one lacks some. */
int sim_begin_leaves(uint64_t job, uint32_t attempt, const struct sim_node *n, char digest[65])
{
	uint64_t r = sim->o.seed * 7919 + job * 104729 + attempt, mine;
	uint32_t mask;

	for (int i = 0; i < 4; i++)
		sim_rnd(&r, 2);
	mask = 1 + sim_rnd(&r, (1 << STEPS) - 1);
	if (sim->o.gentle || sim_one_in(&r, 3))
		return 0;
	mine = r + n->index * 31;
	if (sim_one_in(&mine, 4))
		mask &= sim_rnd(&mine, 1 << STEPS);
	snprintf(digest, DIGEST_SIZE, "%016llx%08x%08x%016x%016x", (unsigned long long)job, attempt, n->index,
	         mask, 0);
	return 1;
}

static uint32_t mask_of(const char *digest)
{
	char text[17];

	snprintf(text, sizeof text, "%.16s", digest + 32);
	return (uint32_t)strtoul(text, NULL, 16);
}

int sim_begin_steps(const char *digest, struct steps *out, struct err *e)
{
	uint32_t mask = mask_of(digest);
	char name[16];

	(void)e;
	for (int i = 0; i < STEPS; i++)
		if (mask >> i & 1)
			steps_add(out, name, (size_t)snprintf(name, sizeof name, "step-%d", i + 1));
	steps_sort(out);
	return 0;
}

/* ---- what users ask for ----------------------------------------------------------------------------- */

static void on_choice(struct sim_call *k, int status)
{
	struct choice *c = k->arg;

	if (sim->up && !k->lost && status == 200)
		LL_PREPEND(all.choices, c);
	else
		free(c);
}

void sim_begin_requeue(uint64_t job, uint64_t *rng)
{
	struct choice *c = xcalloc(1, sizeof *c);
	struct request *rq;
	char body[60];

	c->job = job;
	c->step = sim_one_in(rng, 3) ? CHOICE_START
	                             : 1 + (int64_t)sim_rnd(rng, STEPS + 1); /* one more than there are */
	if (c->step == CHOICE_START)
		snprintf(body, sizeof body, "{\"from_start\": true}");
	else
		snprintf(body, sizeof body, "{\"from_step\": %lld}", (long long)c->step);
	sim_say("user: requeues %llu %s", (unsigned long long)job, body);
	rq = sim_call(REQ_REQUEUE, job, NULL, body);
	((struct sim_call *)rq->io)->done = on_choice;
	((struct sim_call *)rq->io)->arg = c;
	sim_ask(rq);
}

/* ---- what is right ------------------------------------------------------------------------------------ */

static unsigned parts_of(const struct past *p)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < p->n_nodes; i++)
		n += p->left[i][0] != 0;
	return n;
}

static int holds(const struct past *p, int64_t step)
{
	if (step < 1 || step > STEPS)
		return 0;
	for (uint32_t i = 0; i < p->n_nodes; i++)
		if (p->left[i][0] && !(mask_of(p->left[i]) >> (step - 1) & 1))
			return 0;
	return parts_of(p) > 0;
}

static const struct past *find(const struct track *t, uint32_t number)
{
	const struct past *p = t->newest;

	while (p && p->number != number)
		p = p->older;
	return p;
}

/* The newest that left the step; 0 none, *any: hearthd does not look so far. */
static uint32_t find_step(const struct track *t, int64_t step, int *any)
{
	unsigned read = 0;

	*any = 0;
	for (const struct past *p = t->newest; p; p = p->older) {
		read += parts_of(p);
		*any = read > READ_MAX;
		if (*any)
			return 0;
		if (holds(p, step))
			return p->number;
	}
	return 0;
}

/* What the last attempt left, or what that one began with. */
static void go_on(const struct track *t, char out[40])
{
	const struct past *p = t->newest;

	out[0] = '\0';
	if (!p)
		return;
	if (parts_of(p))
		snprintf(out, 40, "attempt:%u", p->number);
	else if (p->from && p->step >= 0)
		snprintf(out, 40, "attempt:%u@%lld", p->from, (long long)p->step);
	else if (p->from)
		snprintf(out, 40, "attempt:%u", p->from);
}

static const char *text_of(const cJSON *d, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(d, key));

	return s ? s : "";
}

static void requeued(struct track *t, const cJSON *d)
{
	const char *begins = text_of(d, "begins"), *got = strcmp(begins, "start") == 0 ? "" : begins;
	char want[40] = "";
	int64_t step = strncmp(t->asked, "step:", 5) == 0 ? atoll(t->asked + 5) : 0;
	uint32_t attempt = step ? find_step(t, step, &t->any) : 0;

	t->must_hold = step && !attempt && !t->any;
	if (attempt)
		snprintf(want, sizeof want, "attempt:%u@%lld", attempt, (long long)step);
	else if (t->settled && (!*t->asked || strncmp(t->asked, "attempt:", 8) == 0))
		snprintf(want, sizeof want, "%s", t->begins);
	else if (strcmp(t->asked, "start") != 0)
		go_on(t, want);
	if (!(step && t->any) && strcmp(got, want) != 0)
		sim_bad("job %llu was asked to begin with \"%s\": it was settled \"%s\", not \"%s\"",
		        (unsigned long long)t->job, t->asked, got, want);
	snprintf(t->begins, sizeof t->begins, "%s", got);
	t->settled = strcmp(text_of(d, "status"), "recovering") == 0;
	t->asked[0] = '\0';
}

/* A choice for a job that waits; what was settled then. */
static void changed(struct track *t, const cJSON *d)
{
	const char *got = text_of(d, "begins");
	uint32_t attempt;
	int64_t step;
	int any;

	if (!cJSON_HasObjectItem(d, "begins"))
		return;
	if (begins_parse(got, &attempt, &step) == 0 && find_step(t, step, &any) != attempt)
		sim_bad("job %llu is to begin with \"%s\": that is not the newest that left this step",
		        (unsigned long long)t->job, got);
	snprintf(t->begins, sizeof t->begins, "%s", got);
	t->must_hold = 0;
}

/* Each node was told the part of its own rank, where that left one. */
static void check_orders(const struct track *t, const struct past *p)
{
	const struct past *of = p->from ? find(t, p->from) : NULL;

	for (unsigned i = 0; i < sim->o.nodes; i++) {
		const struct sim_place *at;
		const char *want = "";

		LL_FOREACH (sim->nodes[i].places, at)
			if (at->job == t->job && at->attempt == p->number)
				break;
		if (!at)
			continue;
		for (uint32_t k = 0; of && k < of->n_nodes && !*want; k++)
			want = of->left[k];
		if (of && at->node_rank < of->n_nodes && of->left[at->node_rank][0])
			want = of->left[at->node_rank];
		if (strcmp(at->resume_from, want) != 0 || (*want && at->resume_step != p->step))
			sim_bad("%s was told to begin rank %u of %llu.%u with %s at %lld, not %s at %lld",
			        sim->nodes[i].name, at->node_rank, (unsigned long long)t->job, p->number, at->resume_from,
			        (long long)at->resume_step, want, (long long)p->step);
	}
}

static void placed(struct track *t, uint32_t number, const cJSON *d)
{
	const cJSON *v, *step = cJSON_GetObjectItemCaseSensitive(d, "resumed_from_step");
	struct past *p = xcalloc(1, sizeof *p);
	char got[40];

	p->number = number;
	p->older = t->newest;
	p->step = -1;
	cJSON_ArrayForEach (v, cJSON_GetObjectItemCaseSensitive(d, "nodes"))
		if (p->n_nodes < SIM_NODES)
			snprintf(p->nodes[p->n_nodes++], sizeof p->nodes[0], "%.15s", text_of(v, "node"));
	snprintf(got, sizeof got, "%.20s", text_of(d, "resumed_from"));
	if (cJSON_IsNumber(step) && step->valuedouble >= 0)
		snprintf(got + strlen(got), sizeof got - strlen(got), "@%.0f", step->valuedouble);
	if (strcmp(got, t->begins) != 0)
		sim_bad("%llu.%u began with \"%s\", and \"%s\" was settled", (unsigned long long)t->job, number, got,
		        t->begins);
	if (t->must_hold)
		sim_bad("%llu.%u was placed although no attempt left the step that was asked for",
		        (unsigned long long)t->job, number);
	begins_parse(t->begins, &p->from, &p->step);
	check_orders(t, p);
	t->newest = p;
	t->begins[0] = t->asked[0] = '\0';
	t->settled = 0;
}

static void left(struct track *t, uint32_t attempt, const cJSON *d)
{
	struct past *p = t->newest;

	while (p && p->number != attempt)
		p = p->older;
	for (uint32_t i = 0; p && i < p->n_nodes && strcmp(text_of(d, "kind"), "checkpoint") == 0; i++)
		if (strcmp(p->nodes[i], text_of(d, "node")) == 0)
			snprintf(p->left[i], DIGEST_SIZE, "%s", text_of(d, "digest"));
}

/* A choice that was made is on record by the event that it caused. */
static void seen(uint64_t job, const char *type, const cJSON *d)
{
	const char *begins = text_of(d, "begins"), *at = strchr(begins, '@');
	int wanted = strcmp(type, "requeue_wanted") == 0;
	struct choice *c, *tmp;
	int64_t step = wanted && strncmp(begins, "step:", 5) == 0 ? atoll(begins + 5) : at ? atoll(at + 1) : 0;

	if (wanted ? strcmp(begins, "start") == 0 : !*begins && cJSON_HasObjectItem(d, "begins"))
		step = CHOICE_START;
	LL_FOREACH_SAFE (all.choices, c, tmp)
		if (c->job == job && c->step == step) {
			LL_DELETE(all.choices, c);
			free(c);
		}
}

static void held(struct track *t, const char *reason)
{
	if (t->must_hold && !strstr(reason, "no step") && !strstr(reason, "no checkpoint"))
		sim_bad("job %llu is held and does not say what is missing: %s", (unsigned long long)t->job, reason);
	t->must_hold = 0;
}

void sim_begin_event(uint64_t job, uint32_t attempt, const char *type, const cJSON *d)
{
	struct track *t;

	HASH_FIND(hh, all.tracks, &job, sizeof job, t);
	if (!t) {
		t = xcalloc(1, sizeof *t);
		t->job = job;
		HASH_ADD(hh, all.tracks, job, sizeof t->job, t);
	}
	if (strcmp(type, "requeue_wanted") == 0 || strcmp(type, "changed") == 0)
		seen(job, type, d);
	if (strcmp(type, "requeue_wanted") == 0 || strcmp(type, "stop_wanted") == 0)
		snprintf(t->asked, sizeof t->asked, "%.31s", text_of(d, "begins"));
	else if (strcmp(type, "requeued") == 0)
		requeued(t, d);
	else if (strcmp(type, "changed") == 0)
		changed(t, d);
	else if (strcmp(type, "placed") == 0)
		placed(t, attempt, d);
	else if (strcmp(type, "artifact") == 0)
		left(t, attempt, d);
	else if (strcmp(type, "held") == 0)
		held(t, text_of(d, "reason"));
	else if (strcmp(type, "released") == 0)
		t->must_hold = 0;
}

void sim_begin_end(void)
{
	for (const struct choice *c = all.choices; c; c = c->next)
		sim_bad("a requeue of job %llu with a choice (%lld) was acknowledged, and no event has it",
		        (unsigned long long)c->job, (long long)c->step);
}

void sim_begin_fini(void)
{
	struct track *t, *tmp;
	struct choice *c, *next;

	HASH_ITER (hh, all.tracks, t, tmp) {
		while (t->newest) {
			struct past *p = t->newest;

			t->newest = p->older;
			free(p);
		}
		HASH_DEL(all.tracks, t);
		free(t);
	}
	LL_FOREACH_SAFE (all.choices, c, next)
		free(c);
	memset(&all, 0, sizeof all);
}
