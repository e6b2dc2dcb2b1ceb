/*
 * lane: waiting jobs that are alike in all that orders them, and what their run times teach.
 *
 * A lane is one shape, one account and, when run times are learned, one burst of kin: jobs of the same owner,
 * name and size that were sent within a short time of each other, as a sweep is. The expected run time of a
 * burst is an estimate for exponential run times that counts what is still running (time seen in all / ends
 * seen), drawn towards that of its kin, that towards jobs of this size, and that towards all jobs: few ends
 * say little, many say all. So a burst whose first jobs end soon is expected to be short, one whose first
 * jobs run on grows long by itself.
 */
#include "scheduler/model/lane.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/base/uthash.h"
#include "scheduler/model/model.h"

#define PULL     3.0    /* the wider group counts as so many ends seen */
#define FADE     0.98   /* weight of what was seen, at each further end */
#define AT_FIRST 3600.0 /* before anything was seen */
#define MAX_KIN  100000 /* groups that are remembered while none of their jobs is there */

/* Follows S-229. */
int lane_learns(const struct sched *s)
{
	return s->policy.backfill >= SCHED_RESERVE && !s->policy.by_limit;
}

static void kin_free(struct sched *s, struct kin *k)
{
	HASH_DELETE(hh, s->kin, k);
	free(k->key);
	free(k);
}

/* Bounded: the oldest that nobody uses goes. */
static void kin_shrink(struct sched *s)
{
	struct kin *k, *tmp;

	if (HASH_COUNT(s->kin) < MAX_KIN)
		return;
	HASH_ITER (hh, s->kin, k, tmp) {
		if (!k->users) {
			kin_free(s, k);
			return;
		}
	}
}

static struct size *size_get(struct sched *s, uint64_t gpus)
{
	struct size *z;

	HASH_FIND(hh, s->sizes, &gpus, sizeof(gpus), z);
	if (!z) {
		z = mem_alloc(1, sizeof(*z));
		z->gpus = gpus;
		HASH_ADD(hh, s->sizes, gpus, sizeof(z->gpus), z);
	}
	return z;
}

static struct kin *kin_get(struct sched *s, const struct shape *sh, const struct sched_job *j)
{
	const char *owner = j->owner ? j->owner : "", *name = j->name ? j->name : "";
	size_t a = strlen(owner) + 1, b = strlen(name) + 1, n = a + b + sizeof(sh->gpus);
	char *key = mem_alloc(n, 1);
	struct kin *k;

	memcpy(key, owner, a);
	memcpy(key + a, name, b);
	memcpy(key + a + b, &sh->gpus, sizeof(sh->gpus));
	HASH_FIND(hh, s->kin, key, n, k);
	if (k) {
		free(key);
		return k;
	}
	kin_shrink(s);
	k = mem_alloc(1, sizeof(*k));
	k->key = key;
	k->size = size_get(s, sh->gpus);
	HASH_ADD_KEYPTR(hh, s->kin, k->key, n, k);
	return k;
}

static struct lane *lane_find(const struct sched *s, const struct shape *sh, const struct account *a,
                              const struct kin *k)
{
	struct lane *l = sh->lanes;

	(void)s;
	for (; l; l = l->next_of_shape)
		if (l->account == a && l->kin == k)
			return l;
	return NULL;
}

static struct lane *lane_make(struct sched *s, struct shape *sh, struct account *a, struct kin *k)
{
	struct lane *l = mem_alloc(1, sizeof(*l));

	l->shape = sh;
	l->account = a;
	l->kin = k;
	l->active_at = NONE;
	l->next_of_shape = sh->lanes;
	sh->lanes = l;
	if (k)
		k->users++;
	(void)s;
	return l;
}

/* Follows S-141 and S-239. */
struct lane *lane_get(struct sched *s, struct shape *sh, const struct sched_job *j, uint64_t submit_s)
{
	struct account *a = account_get(s, j->queue, j->owner);
	struct kin *k = lane_learns(s) ? kin_get(s, sh, j) : NULL;
	struct lane *l;

	if (!k) {
		l = lane_find(s, sh, a, NULL);
	} else {
		l = k->lane;
		if (l && (l->shape != sh || l->account != a || submit_s > k->last_submit_s + s->policy.burst_s))
			l = NULL;
		k->last_submit_s = submit_s;
	}
	if (!l)
		l = lane_make(s, sh, a, k);
	if (k)
		k->lane = l;
	l->users++;
	return l;
}

void lane_put(struct sched *s, struct lane *l)
{
	struct lane **p = &l->shape->lanes;

	if (--l->users)
		return;
	while (*p != l)
		p = &(*p)->next_of_shape;
	*p = l->next_of_shape;
	assert(l->active_at == NONE);
	if (l->kin) {
		l->kin->users--;
		if (l->kin->lane == l)
			l->kin->lane = NULL;
	}
	(void)s;
	free(l);
}

void lane_wait(struct sched *s, struct job *j)
{
	struct lane *l = j->lane;

	if (l->active_at == NONE) {
		if (s->n_active == s->cap_active) {
			s->cap_active = s->cap_active ? s->cap_active * 2 : 64;
			s->active = mem_resize(s->active, s->cap_active, sizeof(struct lane *));
		}
		l->active_at = s->n_active;
		s->active[s->n_active++] = l;
	}
	if (!l->waiting || queue_before(j, l->first))
		l->first = j;
	queue_insert(l, j);
	account_waits(l->account, l->shape->gpus, 1);
	s->n_waiting++;
	s->input++;
}

void lane_unwait(struct sched *s, struct job *j)
{
	struct lane *l = j->lane;

	queue_remove(l, j);
	account_waits(l->account, l->shape->gpus, -1);
	l->first = queue_first(l);
	s->n_waiting--;
	if (l->waiting)
		return;
	s->active[l->active_at] = s->active[--s->n_active];
	s->active[l->active_at]->active_at = l->active_at;
	l->active_at = NONE;
}

void lane_started(struct sched *s, struct job *j)
{
	j->lane->n_running++;
	j->lane->start_sum += s->now_s;
}

/* Follows S-242. */
static void see_time(struct tally *t, double took)
{
	t->sum = t->sum * FADE + took;
	t->n = t->n * FADE + 1;
}

void lane_stopped(struct sched *s, struct job *j, int learn)
{
	double took = (double)(s->now_s - j->start_s);

	j->lane->n_running--;
	j->lane->start_sum -= j->start_s;
	if (!learn || !j->lane->kin)
		return;
	see_time(&j->lane->seen, took);
	see_time(&j->lane->kin->seen, took);
	see_time(&j->lane->kin->size->seen, took);
	see_time(&s->seen, took);
}

/* Follows S-240 and S-241. */
double lane_expect(const struct sched *s, const struct lane *l)
{
	double mean = (s->seen.sum + AT_FIRST) / (s->seen.n + 1), running;

	if (!l->kin)
		return mean;
	mean = (l->kin->size->seen.sum + PULL * mean) / (l->kin->size->seen.n + PULL);
	mean = (l->kin->seen.sum + PULL * mean) / (l->kin->seen.n + PULL);
	running = (double)l->n_running * (double)s->now_s - (double)l->start_sum;
	return (l->seen.sum + running + PULL * mean) / (l->seen.n + PULL);
}

void lanes_fini(struct sched *s)
{
	struct kin *k, *kt;
	struct size *z, *zt;

	HASH_ITER (hh, s->kin, k, kt)
		kin_free(s, k);
	HASH_ITER (hh, s->sizes, z, zt) {
		HASH_DELETE(hh, s->sizes, z);
		free(z);
	}
	free(s->active);
}
