/*
 * account: queues and owners in a tree, what they hold, what they have used, and what they may hold.
 *
 * Use is of GPUs; a job that has none uses its CPU slots, SCHED_SLOTS_A_GPU of which count as one. It fades
 * with a half-life; what is held goes on counting while it is held, so the figure is exact at any time
 * without a walk over jobs. Shares are compared where two accounts' ways to the root part: brothers compete,
 * by use over weight.
 */
#include "scheduler/model/account.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/base/uthash.h"
#include "scheduler/model/model.h"
#include "scheduler/record/recorder.h"

#define LN2 0.69314718055994530942

static struct account *find_account(const struct sched *s, const char *path, size_t n)
{
	struct account *a;

	HASH_FIND(hh, s->accounts, path, n, a);
	return a;
}

/* The account of that path; those above are made as well. */
static struct account *make_account(struct sched *s, const char *path, size_t n)
{
	struct account *a = find_account(s, path, n);
	size_t up = n;

	if (a)
		return a;
	a = mem_alloc(1, sizeof(*a));
	a->path = mem_alloc(n + 1, 1);
	memcpy(a->path, path, n);
	a->weight = 1;
	a->use_at = s->now_s;
	HASH_ADD_KEYPTR(hh, s->accounts, a->path, n, a);
	if (!n)
		return a;
	while (up && path[up - 1] != '/')
		up--;
	a->parent = make_account(s, path, up ? up - 1 : 0);
	a->depth = a->parent->depth + 1;
	return a;
}

/* Follows S-205. */
struct account *account_get(struct sched *s, const char *queue, const char *owner)
{
	size_t a = queue ? strlen(queue) : 0, b = owner ? strlen(owner) : 0;
	char *path;
	struct account *out;

	if (!a && !b)
		return make_account(s, "", 0);
	path = mem_alloc(a + b + 2, 1);
	if (a)
		memcpy(path, queue, a);
	if (a && b)
		path[a++] = '/';
	if (b)
		memcpy(path + a, owner, b);
	out = make_account(s, path, a + b);
	if (b && !out->pool_owner)
		out->pool_owner = pool_owner_get(s, owner);
	free(path);
	return out;
}

/* Follows S-210. */
void sched_queue_set(struct sched *s, const struct sched_queue *q)
{
	struct account *a = make_account(s, q->path, strlen(q->path));

	record_queue(s->recorder, q);
	a->weight = q->weight > 0 ? q->weight : 1;
	a->quota = q->quota_gpus;
	a->borrow = !!q->borrow;
	s->quotas |= a->quota != 0;
	s->input++;
	s->gen++;
}

/* Follows S-214. */
void sched_queue_close(struct sched *s, const char *path, int closed)
{
	record_close(s->recorder, path, closed);
	make_account(s, path, strlen(path))->closed = !!closed;
	s->input++;
	s->gen++;
}

/* Follows S-207. */
static double load_of(uint64_t gpus, uint64_t cpus)
{
	return (double)gpus + (double)cpus / SCHED_SLOTS_A_GPU;
}

/* Follows S-206. */
double account_use(const struct sched *s, const struct account *a)
{
	double half = (double)s->policy.half_life_s, left = exp2(-(double)(s->now_s - a->use_at) / half);

	return a->use * left + load_of(a->gpus, a->cpus) * half / LN2 * (1 - left);
}

void account_change(struct sched *s, struct account *a, uint64_t gpus, uint64_t cpus, int sign)
{
	for (; a; a = a->parent) {
		a->use = account_use(s, a);
		a->use_at = s->now_s;
		a->now_at = 0;
		a->gpus = sign > 0 ? a->gpus + gpus : a->gpus - gpus;
		a->cpus = sign > 0 ? a->cpus + cpus : a->cpus - cpus;
	}
}

void account_waits(struct account *a, uint64_t gpus, int sign)
{
	for (; a; a = a->parent) {
		a->waiting = sign > 0 ? a->waiting + 1 : a->waiting - 1;
		a->wants = sign > 0 ? a->wants + gpus : a->wants - gpus;
	}
}

void account_past(struct sched *s, struct account *a, uint64_t gpus, uint64_t cpus, uint64_t from_s)
{
	double half = (double)s->policy.half_life_s;

	for (; a; a = a->parent) {
		uint64_t from = from_s > a->since ? from_s : a->since;

		a->use = account_use(s, a);
		a->use_at = s->now_s;
		a->now_at = 0;
		if (from < s->now_s)
			a->use += load_of(gpus, cpus) * half / LN2 * (1 - exp2(-(double)(s->now_s - from) / half));
	}
}

/* Follows S-211. */
void sched_usage_set(struct sched *s, const char *path, double gpu_s, uint64_t at_s)
{
	struct account *a = make_account(s, path, strlen(path));
	uint64_t at = at_s < s->now_s ? at_s : s->now_s;

	record_used(s->recorder, path, gpu_s, at_s);
	a->use = gpu_s > 0 ? gpu_s * exp2(-(double)(s->now_s - at) / (double)s->policy.half_life_s) : 0;
	a->use_at = s->now_s;
	a->now_at = 0;
	a->since = at;
	s->input++;
}

void sched_queue_get(struct sched *s, const char *path, struct sched_queue_state *out)
{
	const struct account *a = find_account(s, path, strlen(path));

	memset(out, 0, sizeof(*out));
	if (!a)
		return;
	out->gpus = a->gpus;
	out->use_gpu_s = account_use(s, a);
	out->waiting = a->waiting;
	out->wants = a->wants;
}

/* What is held counts for a minute ahead: else all jobs of one moment would go to one account.
 * Follows S-209. */
static double share_of(const struct sched *s, const struct account *account)
{
	struct account *a = (struct account *)(uintptr_t)account; /* only what was worked out already changes */

	if (a->now_at != s->now_s + 1) {
		a->now_use = account_use(s, a);
		a->now_at = s->now_s + 1;
	}
	return (a->now_use + 60.0 * load_of(a->gpus + a->ahead, a->cpus + a->ahead_cpus)) / a->weight;
}

void account_part(const struct account **pa, const struct account **pb)
{
	const struct account *a = *pa, *b = *pb;

	while (a->depth > b->depth)
		a = a->parent;
	while (b->depth > a->depth)
		b = b->parent;
	while (a->parent != b->parent) {
		a = a->parent;
		b = b->parent;
	}
	*pa = a;
	*pb = b;
}

/* Follows S-208. */
int account_before(const struct sched *s, const struct account *a, const struct account *b)
{
	double x, y;

	if (a == b)
		return 0;
	account_part(&a, &b);
	if (a == b)
		return 0;
	x = share_of(s, a);
	y = share_of(s, b);
	return x < y ? -1 : x > y;
}

double sched_usage(const struct sched *s, const char *path)
{
	const struct account *a = find_account(s, path, strlen(path));

	return a ? account_use(s, a) : 0;
}

size_t sched_queue_list(const struct sched *s, const char **paths, size_t max)
{
	size_t n = 0;

	for (const struct account *a = s->accounts; a && n < max; a = a->hh.next)
		if (*a->path)
			paths[n++] = a->path;
	return n;
}

/* Follows S-212 and S-213. */
int account_full(const struct account *a, uint64_t gpus)
{
	int full = 0;

	for (; a; a = a->parent) {
		if (a->closed)
			return 2;
		if (!a->quota || !gpus ||
		    a->gpus + a->owed + gpus <= a->quota) /* without GPUs: no quota, be it exceeded */
			continue;
		if (!a->borrow)
			return 2;
		full = 1;
	}
	return full;
}

int account_full_then(const struct account *a, uint64_t gpus)
{
	for (; a; a = a->parent)
		if (a->closed || (a->quota && gpus && !a->borrow && a->gpus + a->owed + a->ahead + gpus > a->quota))
			return 1;
	return 0;
}

int account_never(const struct account *a, uint64_t gpus)
{
	for (; a; a = a->parent)
		if (a->closed || (a->quota && !a->borrow && gpus > a->quota))
			return 1;
	return 0;
}

int account_large_enough(const struct account *a, uint64_t gpus)
{
	while (a && (!a->quota || a->borrow || gpus <= a->quota))
		a = a->parent;
	return !a;
}

const struct account *account_waits_for(const struct account *a, uint64_t gpus)
{
	if (account_never(a, gpus))
		return NULL;
	while (a && (!a->quota || !gpus || a->borrow || a->gpus + a->owed + gpus <= a->quota))
		a = a->parent;
	return a;
}

/* The lowest that is there, which has all above it; NULL none. */
const struct account *account_lowest(const struct sched *s, const char *queue, const char *owner)
{
	size_t a = queue ? strlen(queue) : 0, b = owner ? strlen(owner) : 0, n = 0;
	char *path = mem_alloc(a + b + 2, 1);
	const struct account *x = NULL;

	if (a)
		memcpy(path, queue, n = a);
	if (a && b)
		path[n++] = '/';
	if (b)
		memcpy(path + n, owner, b);
	n += b;
	while (!(x = find_account(s, path, n)) && n) {
		while (n && path[n - 1] != '/')
			n--;
		n -= n > 0;
	}
	free(path);
	return x;
}

int account_closed(const struct sched *s, const char *queue, const char *owner)
{
	const struct account *x = account_lowest(s, queue, owner);

	while (x && !x->closed)
		x = x->parent;
	return x != NULL;
}

int account_below(const struct account *a, const struct account *top)
{
	while (a && a != top)
		a = a->parent;
	return a == top;
}

void accounts_fini(struct sched *s)
{
	struct account *a, *tmp;

	HASH_ITER (hh, s->accounts, a, tmp) {
		HASH_DELETE(hh, s->accounts, a);
		free(a->path);
		free(a);
	}
}
