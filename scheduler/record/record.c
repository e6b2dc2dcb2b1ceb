/* record: see record.h; this half writes. A line is made in one buffer, which grows and is kept. */
#include "scheduler/record/recorder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/base/mem.h"

struct recorder {
	sched_record_fn fn;
	void *arg;
	int quiet; /* within a call that is on record itself */
	char *p;
	size_t n, cap;
};

static void put_bytes(struct recorder *r, const char *s, size_t n)
{
	if (r->cap < r->n + n) {
		r->cap = 2 * (r->n + n);
		r->p = mem_resize(r->p, r->cap, 1);
	}
	memcpy(r->p + r->n, s, n);
	r->n += n;
}

static void put_text(struct recorder *r, const char *s)
{
	put_bytes(r, s, strlen(s));
}

static void put_number(struct recorder *r, uint64_t v)
{
	char digits[24];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + v % 10);
	while (v /= 10);
	put_bytes(r, digits + at, sizeof(digits) - at);
}

static void put_signed(struct recorder *r, int64_t v)
{
	if (v < 0)
		put_bytes(r, "-", 1);
	put_number(r, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* Exactly: a whole number, or one times a power of two. */
static void put_double(struct recorder *r, double v)
{
	int e;

	if (v == floor(v) && fabs(v) < 9e15) {
		put_signed(r, (int64_t)v);
		return;
	}
	put_signed(r, (int64_t)ldexp(frexp(v, &e), 53));
	put_bytes(r, "p", 1);
	put_signed(r, e - 53);
}

/* What parts words, and what is not to be seen, stands as %XX. */
static void put_word(struct recorder *r, const char *s)
{
	static const char hex[] = "0123456789ABCDEF";

	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c > ' ' && c != 0x7f && !strchr("%,=+", c)) {
			put_bytes(r, s, 1);
		} else {
			char code[3] = {'%', hex[c >> 4], hex[c & 15]};

			put_bytes(r, code, sizeof(code));
		}
	}
}

static void put_key(struct recorder *r, const char *name)
{
	put_bytes(r, " ", 1);
	put_text(r, name);
	put_bytes(r, "=", 1);
}

/* Absent when it is as in an empty struct. */
static void key_text(struct recorder *r, const char *name, const char *v)
{
	if (!v)
		return;
	put_key(r, name);
	put_word(r, v);
}

static void key_number(struct recorder *r, const char *name, uint64_t v)
{
	if (!v)
		return;
	put_key(r, name);
	put_number(r, v);
}

static void key_double(struct recorder *r, const char *name, double v)
{
	if (v == 0)
		return;
	put_key(r, name);
	put_double(r, v);
}

static void key_list(struct recorder *r, const char *name, const char *const *v)
{
	for (; v && *v; v++)
		key_text(r, name, *v);
}

static struct recorder *begin_line(struct recorder *r, const char *verb)
{
	if (!r || r->quiet)
		return NULL;
	r->n = 0;
	put_text(r, verb);
	return r;
}

static void end_line(struct recorder *r)
{
	put_bytes(r, "\n", 1);
	r->fn(r->p, r->n, r->arg);
}

static void word_number(struct recorder *r, uint64_t v)
{
	put_bytes(r, " ", 1);
	put_number(r, v);
}

void record_quiet(struct recorder *to, int on)
{
	if (to)
		to->quiet += on ? 1 : -1;
}

void record_id(struct recorder *to, const char *verb, uint64_t id)
{
	struct recorder *r = begin_line(to, verb);

	if (!r)
		return;
	word_number(r, id);
	end_line(r);
}

void record_pair(struct recorder *to, const char *verb, uint64_t a, uint64_t b)
{
	struct recorder *r = begin_line(to, verb);

	if (!r)
		return;
	word_number(r, a);
	word_number(r, b);
	end_line(r);
}

void record_queue(struct recorder *to, const struct sched_queue *q)
{
	struct recorder *r = begin_line(to, "queue ");

	if (!r)
		return;
	put_word(r, q->path);
	key_double(r, "weight", q->weight);
	key_number(r, "quota", q->quota_gpus);
	key_number(r, "borrow", q->borrow != 0);
	end_line(r);
}

void record_close(struct recorder *to, const char *path, int closed)
{
	struct recorder *r = begin_line(to, "close ");

	if (!r)
		return;
	put_word(r, path);
	word_number(r, closed != 0);
	end_line(r);
}

void record_used(struct recorder *to, const char *path, double gpu_s, uint64_t at_s)
{
	struct recorder *r = begin_line(to, "used ");

	if (!r)
		return;
	put_word(r, path);
	put_bytes(r, " ", 1);
	put_double(r, gpu_s);
	word_number(r, at_s);
	end_line(r);
}

static void put_gpu(struct recorder *r, const struct sched_gpu *g)
{
	put_key(r, "gpu");
	put_number(r, g->index);
	put_bytes(r, ",", 1);
	put_number(r, g->memory_bytes);
	put_bytes(r, ",", 1);
	put_number(r, g->numa);
	put_bytes(r, ",", 1);
	put_number(r, g->link_group);
	if (g->model) {
		put_bytes(r, ",", 1);
		put_word(r, g->model);
	}
}

void record_node(struct recorder *to, const struct sched_node *n)
{
	struct recorder *r = begin_line(to, "node");

	if (!r)
		return;
	word_number(r, n->id);
	key_text(r, "name", n->name);
	key_number(r, "usable", n->usable != 0);
	key_number(r, "spare", n->spare != 0);
	key_text(r, "type", n->instance_type);
	key_number(r, "slots", n->slots);
	key_number(r, "memory", n->memory_bytes);
	key_number(r, "disk", n->disk_bytes);
	key_double(r, "price", n->price_per_hour);
	key_double(r, "power", n->power_w);
	key_number(r, "doubt", n->doubt);
	key_text(r, "switch", n->switch_name);
	key_text(r, "rack", n->rack_name);
	key_list(r, "label", n->labels);
	for (uint32_t i = 0; i < n->n_gpus; i++)
		put_gpu(r, &n->gpus[i]);
	end_line(r);
}

void record_reservation(struct recorder *to, const struct sched_reservation *b)
{
	struct recorder *r = begin_line(to, "book");

	if (!r)
		return;
	word_number(r, b->id);
	key_number(r, "from", b->from_s);
	key_number(r, "to", b->to_s);
	key_text(r, "queue", b->queue);
	for (uint32_t i = 0; i < b->n_nodes; i++) {
		put_key(r, "node");
		put_number(r, b->nodes[i]);
	}
	end_line(r);
}

static void put_group(struct recorder *r, const struct sched_group *g)
{
	put_key(r, "group");
	put_number(r, g->instances);
	put_bytes(r, ",", 1);
	put_number(r, g->gpus);
	put_bytes(r, ",", 1);
	put_number(r, g->ranks);
	put_bytes(r, ",", 1);
	put_number(r, g->cpus_per_rank);
}

static void put_wishes(struct recorder *r, const struct sched_job *j)
{
	for (uint32_t i = 0; i < j->n_groups; i++)
		put_group(r, &j->groups[i]);
	key_text(r, "queue", j->queue);
	key_text(r, "owner", j->owner);
	key_text(r, "name", j->name);
	if (j->priority) {
		put_key(r, "priority");
		put_signed(r, j->priority);
	}
	key_number(r, "order", j->order);
	key_number(r, "submit", j->submit_s);
	key_number(r, "limit", j->limit_s);
	key_number(r, "believed", j->believed_s);
	key_number(r, "max_wait", j->max_wait_s);
	key_number(r, "memory", j->memory_bytes);
	key_number(r, "disk", j->disk_bytes);
	key_number(r, "exclusive", j->exclusive != 0);
	key_list(r, "type", j->instance_types);
	key_text(r, "gpu_model", j->gpu_model);
	key_number(r, "gpu_memory", j->gpu_memory_bytes);
	key_list(r, "requires", j->requires);
	key_list(r, "avoid", j->avoid);
	key_number(r, "span", j->span);
	key_number(r, "first", j->first != 0);
	key_number(r, "firm", j->firm != 0);
	key_text(r, "warm", j->warm);
	key_number(r, "pool", j->pool);
	key_number(r, "keeps", j->keeps != 0);
	for (uint32_t i = 0; i < j->n_after; i++) {
		put_key(r, "after");
		put_number(r, j->after[i].job);
		put_bytes(r, ",", 1);
		put_number(r, j->after[i].kind);
	}
}

void record_job(struct recorder *to, const struct sched_job *j)
{
	struct recorder *r = begin_line(to, "job");

	if (!r)
		return;
	word_number(r, j->id);
	put_wishes(r, j);
	end_line(r);
}

void record_exchange(struct recorder *to, const struct sched_job *j, const uint64_t *drop, uint32_t n_drop)
{
	struct recorder *r = begin_line(to, "exchange");

	if (!r)
		return;
	word_number(r, j->id);
	put_wishes(r, j);
	for (uint32_t i = 0; i < n_drop; i++) {
		put_key(r, "drop");
		put_number(r, drop[i]);
	}
	end_line(r);
}

static void put_numbers(struct recorder *r, const uint32_t *v, uint32_t n)
{
	put_bytes(r, ",", 1);
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			put_bytes(r, "+", 1);
		put_number(r, v[i]);
	}
}

static void put_places(struct recorder *r, const struct sched_decision *d)
{
	for (uint32_t i = 0; i < d->n; i++) {
		const struct sched_place *p = &d->places[i];

		put_key(r, "on");
		put_number(r, p->node);
		put_bytes(r, ",", 1);
		put_number(r, p->group);
		put_numbers(r, p->gpus, p->n_gpus);
		put_numbers(r, p->cpus, p->n_cpus);
		if (p->pool) {
			put_bytes(r, ",", 1);
			put_number(r, p->pool);
		}
	}
}

static void put_part(struct recorder *r, const struct sched_pool_part *p)
{
	put_key(r, "part");
	put_number(r, p->node);
	put_numbers(r, p->gpus, p->n_gpus);
	put_numbers(r, p->cpus, p->n_cpus);
	put_bytes(r, ",", 1);
	put_number(r, p->memory_bytes);
	put_bytes(r, ",", 1);
	put_number(r, p->disk_bytes);
}

void record_pool(struct recorder *to, const struct sched_pool *p)
{
	struct recorder *r = begin_line(to, "pool");

	if (!r)
		return;
	word_number(r, p->id);
	key_text(r, "owner", p->owner);
	key_text(r, "warm", p->warm);
	key_number(r, "exclusive", p->exclusive != 0);
	key_number(r, "idle", p->idle_since_s);
	for (uint32_t i = 0; i < p->n_parts; i++)
		put_part(r, &p->parts[i]);
	end_line(r);
}

void record_restore(struct recorder *to, const struct sched_job *j, const struct sched_decision *d,
                    uint64_t start_s)
{
	struct recorder *r = begin_line(to, "restore");

	if (!r)
		return;
	word_number(r, j->id);
	key_number(r, "start", start_s);
	put_wishes(r, j);
	put_places(r, d);
	end_line(r);
}

void record_holds(struct recorder *to, uint64_t id, const struct sched_decision *d, uint64_t memory_bytes,
                  uint64_t disk_bytes, int exclusive)
{
	struct recorder *r = begin_line(to, "holds");

	if (!r)
		return;
	word_number(r, id);
	key_number(r, "memory", memory_bytes);
	key_number(r, "disk", disk_bytes);
	key_number(r, "exclusive", exclusive != 0);
	put_places(r, d);
	end_line(r);
}

void record_step(struct recorder *to, const struct sched_decision *d)
{
	struct recorder *r = begin_line(to, "step");

	if (!r)
		return;
	word_number(r, d ? d->job : 0);
	if (d)
		put_places(r, d);
	end_line(r);
}

void record_policy(struct recorder *to, const struct sched_policy *p)
{
	struct recorder *r = begin_line(to, "policy");

	if (!r)
		return;
	key_number(r, "backfill", p->backfill);
	key_number(r, "fair", p->fair != 0);
	key_number(r, "by_limit", p->by_limit != 0);
	key_number(r, "effort", p->effort);
	key_number(r, "half_life", p->half_life_s);
	key_number(r, "starve", p->starve_s);
	key_double(r, "caution", p->caution);
	key_number(r, "burst", p->burst_s);
	end_line(r);
}

struct recorder *recorder_create(sched_record_fn fn, void *arg)
{
	struct recorder *r = mem_alloc(1, sizeof(*r));

	r->fn = fn;
	r->arg = arg;
	return r;
}

void recorder_free(struct recorder *r)
{
	if (!r)
		return;
	free(r->p);
	free(r);
}
