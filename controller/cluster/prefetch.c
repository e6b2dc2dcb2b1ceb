/*
 * prefetch: see prefetch.h.
 */
#include "controller/cluster/prefetch.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/record/ckpt.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/run/attempt.h"
#include "controller/state/jobs.h"
#include "controller/state/turn.h"

#define LOOK_US 1000000
#define CHOICE  64 /* of the jobs that run, for spares of all sizes */

struct ahead { /* orders to a spare in this session */
	uint64_t session;
	uint32_t n;
	struct {
		uint64_t job;
		uint32_t attempt, ckpt; /* ckpt: number of the checkpoint + 1; 0 none */
	} at[PREFETCH_JOBS];
};

struct choice { /* the largest jobs, newer ones first */
	struct cjob *jobs[CHOICE];
	uint32_t n;
};

/* ---- which jobs, which spares ------------------------------------------------------------------------- */

/* It runs, and an attempt may follow after a fault. */
static int may_need(const struct cjob *j)
{
	return j->act && j->r.status == JOB_RUNNING && j->r.att && j->r.att->state == ATT_RUNNING &&
	       (j->act->spec->retry.max_attempts || j->act->spec->retry.capacity);
}

static int is_ready(const struct cnode *n)
{
	return n->r.spare && !n->r.drain && n->r.state == NODE_UP && n->connected && n->synced &&
	       !n->suspect_since_us && wire_speaks(n->version, WM_PREFETCH);
}

/* Could replace the node of each place, if it was empty. */
static int suits(const struct cnode *n, const struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;
	uint32_t gpus = 0;

	for (uint32_t i = 0; i < a->n_places; i++) {
		if (a->places[i].node_id == n->r.id)
			return 0;
		if (a->places[i].gpus.n > gpus)
			gpus = a->places[i].gpus.n;
	}
	return gpus <= n->inv.n_gpus && j->act->spec->memory_bytes <= n->inv.memory_bytes;
}

static int goes_before(const struct cjob *a, const struct cjob *b)
{
	if (a->r.att->n_places != b->r.att->n_places)
		return a->r.att->n_places > b->r.att->n_places;
	return a->r.att->started_us != b->r.att->started_us ? a->r.att->started_us > b->r.att->started_us
	                                                    : a->r.id > b->r.id;
}

static void consider(struct choice *ch, struct cjob *j)
{
	uint32_t at = ch->n;

	while (at && goes_before(j, ch->jobs[at - 1]))
		at--;
	if (at == CHOICE)
		return;
	if (ch->n < CHOICE)
		ch->n++;
	memmove(&ch->jobs[at + 1], &ch->jobs[at], (ch->n - at - 1) * sizeof(*ch->jobs));
	ch->jobs[at] = j;
}

/* Each job once: where its first place is. */
static void choose(struct core *c, struct choice *ch)
{
	for (struct cnode *n = node_first(c); n; n = node_next(n))
		for (uint32_t i = 0; i < n->n_jobs; i++) {
			struct cjob *j = n->jobs[i];

			if (may_need(j) && j->r.att->places[0].node_id == n->r.id)
				consider(ch, j);
		}
}

/* ---- orders ------------------------------------------------------------------------------------------- */

static void add_tree(struct wm_prefetch *m, const char *digest)
{
	if (digest && hash_is_hex(digest) && m->trees.n < PREFETCH_TREES)
		wire_strv_add(&m->trees, digest);
}

/* The parts in hearthd's store that this rank would restore. */
static void add_checkpoint(struct wm_prefetch *m, const struct cjob *j, const struct ckpt *k, uint32_t rank)
{
	for (uint32_t i = 0; i < k->n_parts; i++) {
		const struct ckpt_part *p = &k->parts[i];

		if (p->state == CKPT_VERIFIED && p->uri && strcmp(p->uri, CKPT_URI_STORE) == 0 &&
		    ckpt_gives(k, i, rank, j->r.att->n_places))
			add_tree(m, p->digest);
	}
}

static int is_download(const struct spec_input *in)
{
	return in->sha256 && (strncmp(in->uri, "http://", 7) == 0 || strncmp(in->uri, "https://", 8) == 0);
}

/* What the node makes and downloads by itself. */
static void add_environment(struct wm_prefetch *m, const struct cjob *j)
{
	const struct job_spec *s = j->act->spec;
	int needed = s->requirements != NULL;

	for (size_t i = 0; i < s->n_inputs; i++)
		needed |= is_download(&s->inputs[i]);
	if (!needed)
		return;
	m->account = xstrdup(rec_account(&j->r));
	m->bundle = xstrdup(j->r.bundle);
	m->spec = start_spec(j);
}

/* k: with this checkpoint for this rank, before other orders; NULL: in turn. */
static void send_trees(struct core *c, const struct cnode *n, const struct cjob *j, const struct ckpt *k,
                       uint32_t rank)
{
	struct wm_prefetch m = {.job = j->r.id, .attempt = j->r.att->number, .urgent = (uint8_t)(k != NULL)};

	add_tree(&m, j->r.bundle);
	for (size_t i = 0; i < j->act->inputs.n; i++)
		add_tree(&m, j->act->inputs.v[i]);
	if (k)
		add_checkpoint(&m, j, k, rank);
	add_environment(&m, j);
	if (m.trees.n || m.spec)
		send_now(c, n, WM_PREFETCH, &m);
	wire_fini(WM_PREFETCH, &m);
}

static struct ahead *ahead_of(struct cnode *n)
{
	if (!n->ahead)
		n->ahead = xcalloc(1, sizeof(*n->ahead));
	if (n->ahead->session != n->session)
		*n->ahead = (struct ahead){.session = n->session};
	return n->ahead;
}

/* Returns 1 when it is new that the spare needs this job with that checkpoint (NULL: or none). */
static int note_told(struct ahead *a, const struct cjob *j, const struct ckpt *k)
{
	uint32_t i = 0, ckpt = k ? k->number + 1 : 0;

	while (i < a->n && (a->at[i].job != j->r.id || a->at[i].attempt != j->r.att->number))
		i++;
	if (i < a->n && (!ckpt || a->at[i].ckpt == ckpt))
		return 0;
	if (i == PREFETCH_JOBS)
		i--;
	if (i == a->n)
		a->n++;
	a->at[i].job = j->r.id;
	a->at[i].attempt = j->r.att->number;
	a->at[i].ckpt = ckpt;
	return 1;
}

/* A job that has ended needs nothing; one between two attempts may need it now. */
static void forget_ended(struct core *c, const struct cnode *n, struct ahead *a)
{
	for (uint32_t i = 0; i < a->n;) {
		const struct cjob *j = job_find(c, a->at[i].job);
		const struct wm_prefetch none = {.job = a->at[i].job, .attempt = a->at[i].attempt};

		if (j && !job_ended(j->r.status) && j->r.att && j->r.att->number == a->at[i].attempt) {
			i++;
			continue;
		}
		if (!j || job_ended(j->r.status))
			send_now(c, n, WM_PREFETCH, &none);
		a->at[i] = a->at[--a->n];
	}
}

/* Orders of jobs that are no longer among the first ones stay with the agent, whose queue is bounded. */
static void tell_spare(struct core *c, struct cnode *n, const struct choice *ch)
{
	struct ahead *a = ahead_of(n);
	uint32_t jobs = 0;

	forget_ended(c, n, a);
	for (uint32_t i = 0; i < ch->n && jobs < PREFETCH_JOBS; i++) {
		if (!suits(n, ch->jobs[i]))
			continue;
		jobs++;
		if (note_told(a, ch->jobs[i], NULL))
			send_trees(c, n, ch->jobs[i], NULL, 0);
	}
}

/* ---- when --------------------------------------------------------------------------------------------- */

void prefetch_due(struct core *c)
{
	c->prefetch.at_us = now_boot(c);
}

uint64_t prefetch_next_us(const struct core *c)
{
	return c->prefetch.at_us;
}

static struct cnode *spare_for(struct core *c, const struct cjob *j)
{
	struct cnode *n = node_first(c);

	while (n && !(is_ready(n) && suits(n, j)))
		n = node_next(n);
	return n;
}

void prefetch_suspect(struct core *c, const struct cnode *n)
{
	uint32_t jobs = 0;

	for (uint32_t i = 0; i < n->n_jobs && jobs < PREFETCH_JOBS; i++) {
		const struct cjob *j = n->jobs[i];
		const struct place_rec *p = j->r.att ? rec_place_of(j->r.att, n->r.id) : NULL;
		struct cnode *spare = p && may_need(j) ? spare_for(c, j) : NULL;
		const struct ckpt *k = spare ? ckpt_newest(&j->r, INT64_MAX, NULL) : NULL;

		if (!spare)
			continue;
		jobs++;
		if (!note_told(ahead_of(spare), j, k))
			continue;
		log_info("event=prefetch job=%" PRIu64 " suspect=%s node=%s", j->r.id, n->name, spare->name);
		send_trees(c, spare, j, k, place_index(j, p));
	}
}

/* A program whose peer is gone may still write checkpoints. */
void prefetch_tick(struct core *c)
{
	struct choice ch = {.n = 0};
	struct cnode *n, *first;

	for (n = node_first(c); n && !is_ready(n); n = node_next(n))
		;
	first = n;
	c->prefetch.at_us = n ? now_boot(c) + LOOK_US : UINT64_MAX;
	if (n)
		choose(c, &ch);
	for (; n; n = node_next(n))
		if (is_ready(n))
			tell_spare(c, n, &ch);
	for (n = first ? node_first(c) : NULL; n; n = node_next(n))
		if (n->suspect_since_us)
			prefetch_suspect(c, n);
}

void on_prefetched(const struct cnode *n, const struct wm_prefetched *m)
{
	log_info("event=prefetched node=%s job=%" PRIu64 " attempt=%u bytes=%" PRIu64 " code=%u text=\"%.200s\"",
	         n->name, m->job, m->attempt, m->bytes, m->code, m->text);
}
