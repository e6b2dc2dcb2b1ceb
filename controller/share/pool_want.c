/*
 * pool_want: see pool_want.h.
 *
 * The record of the job has the pool (job_rec.wants_pool) until its first attempt is placed. The library
 * places such a job on that pool only. hearthd takes the wish back, by an event, as soon as the pool cannot
 * come to hold the job any more, so that nobody waits in vain.
 */
#include "controller/share/pool_want.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/record/event.h"
#include "controller/share/alloc.h"
#include "controller/share/pools.h"
#include "controller/state/turn.h"

#define REVIEWED_A_TURN 64 /* jobs that lose their pool; each takes two events */

static int is_owned(const struct pool_rec *p, const char *owner)
{
	return strcmp(p->owner ? p->owner : "", owner ? owner : "") == 0;
}

/* ---- at the submit ----------------------------------------------------------------------------------- */

static struct pool_rec *find_by_name(const struct core *c, const char *name, const char *owner, struct err *e)
{
	struct pool_rec *found = NULL;
	int n = 0;
	TEXT(ids);

	for (struct pool_rec *p = pool_first(c); p; p = pool_next(p)) {
		if (!p->name || strcmp(p->name, name) != 0 || !is_owned(p, owner))
			continue;
		text_add(&ids, "%s%" PRIu64, n++ ? ", " : "", p->id);
		found = p;
	}
	if (!n)
		err_set(e, ERR_NOT_FOUND,
		        "warm_pool.pool: you have no warm pool \"%.100s\"; jobctl pool ls lists the pools", name);
	else if (n > 1)
		err_set(e, ERR_CONFLICT, "warm_pool.pool: several pools have the name \"%.100s\"; give an id: %s",
		        name, ids.at);
	return n == 1 ? found : NULL;
}

static struct pool_rec *find_by_id(const struct core *c, uint64_t id, const char *owner, struct err *e)
{
	struct pool_rec *p = cluster_pool(&c->records, id);

	if (!p) {
		err_set(e, ERR_NOT_FOUND,
		        "warm_pool.pool: pool %" PRIu64 " is unknown; jobctl pool ls lists the pools", id);
	} else if (!is_owned(p, owner)) {
		err_set(e, ERR_DENIED, "warm_pool.pool: pool %" PRIu64 " belongs to %.100s; leave the key out", id,
		        p->owner ? p->owner : "nobody");
		p = NULL;
	} else if (p->ended_us) {
		err_set(e, ERR_NOT_FOUND,
		        "warm_pool.pool: pool %" PRIu64 " has ended (%s); leave the key out, or see jobctl pool ls",
		        id, p->cause ? p->cause : "?");
		p = NULL;
	}
	return p;
}

static int part_holds(const struct pool_part *p, const struct job_spec *s, const struct spec_group *g)
{
	return p->gpus.n >= g->gpus_per_instance &&
	       p->cpus.n >= (uint64_t)g->ranks_per_instance * g->cpus_per_rank &&
	       p->memory_bytes >= s->memory_bytes && p->disk_bytes >= s->disk_bytes;
}

static uint32_t count_holding(const struct pool_rec *p, const struct job_spec *s, const struct spec_group *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_parts; i++)
		n += (uint32_t)part_holds(&p->parts[i], s, g);
	return n;
}

/* Can the pool, with nobody in it, hold a job of so many nodes? */
static int is_enough(const struct pool_rec *p, uint32_t nodes)
{
	return p->exclusive ? p->n_parts == nodes : p->n_parts >= nodes;
}

static int check_holds(const struct pool_rec *p, const struct job_spec *s, struct err *e)
{
	if (!is_enough(p, spec_nodes(s)))
		return err_set(e, ERR_CONFLICT,
		               "warm_pool.pool: pool %" PRIu64 " has %" PRIu32
		               " node%s%s, the job %u; change resources.instances, or leave the key out",
		               p->id, p->n_parts, p->n_parts == 1 ? "" : "s",
		               p->exclusive ? " and is used as a whole" : "", spec_nodes(s));
	for (size_t i = 0; i < s->n_groups; i++) {
		const struct spec_group *g = &s->groups[i];
		uint32_t n = count_holding(p, s, g);

		if (n < g->instances)
			return err_set(
			    e, ERR_CONFLICT,
			    "warm_pool.pool: %" PRIu32 " of %" PRIu32 " nodes of pool %" PRIu64
			    " hold what an instance asks for (%u GPUs, %u CPUs, memory, disk); ask for less, or "
			    "leave the key out",
			    n, p->n_parts, p->id, g->gpus_per_instance, g->ranks_per_instance * g->cpus_per_rank);
	}
	return 0;
}

int pool_want_find(struct core *c, const struct job_spec *s, const char *owner, uint64_t *id, struct err *e)
{
	struct pool_rec *p;
	uint64_t number;

	*id = 0;
	if (!s->pool)
		return 0;
	if (spec_members(s))
		return err_set(e, ERR_INVALID,
		               "warm_pool.pool: not for a sweep or an array; leave the key out: its members use the "
		               "warm nodes of their owner anyway");
	p = str_parse_u64(s->pool, &number) == 0 ? find_by_id(c, number, owner, e)
	                                         : find_by_name(c, s->pool, owner, e);
	if (!p || check_holds(p, s, e) < 0)
		return -1;
	*id = p->id;
	return 0;
}

/* ---- while it waits ---------------------------------------------------------------------------------- */

void pool_want_note(struct core *c, const struct cjob *j)
{
	struct pool_table *t = &c->pools;

	if (!j->r.wants_pool)
		return;
	t->look = 1;
	for (size_t i = 0; i < t->n_wanting; i++)
		if (t->wanting[i] == j->r.id)
			return;
	t->wanting = xreallocarray(t->wanting, t->n_wanting + 1, sizeof(*t->wanting));
	t->wanting[t->n_wanting++] = j->r.id;
}

static void give_up(struct core *c, struct cjob *j, const struct pool_rec *p)
{
	cJSON *d = cJSON_CreateObject(), *warning;
	struct job_spec *s;
	struct err e;
	TEXT(text);

	text_add(&text, "warm_pool.pool: pool %" PRIu64 " ", j->r.wants_pool);
	if (!p || p->ended_us)
		text_add(&text, "has ended (%s)", p && p->cause ? p->cause : "?");
	else
		text_add(&text, "has %" PRIu32 " node%s left", p->n_parts, p->n_parts == 1 ? "" : "s");
	text_add(&text, "; the job waits for any nodes from now on");
	json_add_u64(d, "wants_pool", 0);
	if (job_post(c, j, EV_CHANGED, d) < 0)
		return;
	warning = cJSON_CreateObject();
	json_add_str(warning, "text", text.at);
	job_post(c, j, EV_WARNING, warning);
	s = job_parse_spec(c, j, &e);
	if (s)
		alloc_queue(c, j, s);
	spec_destroy(s);
}

void pool_want_review(struct core *c)
{
	struct pool_table *t = &c->pools;
	unsigned done = 0;
	size_t n = 0;

	if (!t->look || c->life.failing)
		return;
	t->look = 0;
	for (size_t i = 0; i < t->n_wanting; i++) {
		uint64_t id = t->wanting[i];
		struct cjob *j = job_find(c, id);
		const struct pool_rec *p = j ? cluster_pool(&c->records, j->r.wants_pool) : NULL;

		if (!j || j->r.status != JOB_QUEUED || !j->r.wants_pool)
			continue;
		if (p && !p->ended_us && is_enough(p, j->r.nodes)) {
			t->wanting[n++] = id;
		} else if (done == REVIEWED_A_TURN) {
			t->wanting[n++] = id;
			t->look = 1;
			c->alloc.more = 1;
		} else {
			give_up(c, j, p);
			done++;
		}
	}
	t->n_wanting = n;
}

void pool_want_say(const struct core *c, uint64_t pool, struct text *t)
{
	const struct pool_rec *p = cluster_pool(&c->records, pool);
	char at[CLOCK_RFC3339_SIZE];

	if (!p || p->ended_us)
		return;
	clock_rfc3339(p->expires_us, at);
	if (pool_used_by(p))
		text_add(t, "; job %" PRIu64 " uses it", pool_used_by(p));
	else
		text_add(t, "; it is idle, with %" PRIu32 " node%s, until %s", p->n_parts, p->n_parts == 1 ? "" : "s",
		         at);
}
