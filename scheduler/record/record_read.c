/*
 * retell: see record.h; this half reads. A line is copied, cut into words in place, and its vectors stand in
 * memory that is reserved by the line's length, so nothing can outgrow it.
 */
#include "scheduler/record/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "scheduler/base/mem.h"

enum list { L_TYPE, L_REQUIRES, L_AVOID, L_LABEL, L_N };

struct record_reader {
	char *text;
	size_t cap;
	char *p; /* what is not read yet; the rest of the line */
	const char **lists[L_N];
	uint32_t n_lists[L_N];
	struct sched_group *groups;
	struct sched_dep *deps;
	struct sched_gpu *gpus;
	uint64_t *nodes;
	struct sched_place *places;
	struct sched_pool_part *parts;
	uint32_t *numbers, n_numbers;
	const char *what;
};

struct record_reader *record_reader_create(void)
{
	return mem_alloc(1, sizeof(struct record_reader));
}

void record_reader_destroy(struct record_reader *t)
{
	if (!t)
		return;
	for (int i = 0; i < L_N; i++)
		free(t->lists[i]);
	free(t->text);
	free(t->groups);
	free(t->deps);
	free(t->gpus);
	free(t->nodes);
	free(t->places);
	free(t->parts);
	free(t->numbers);
	free(t);
}

/* A value takes at least six bytes of the line (" on=1,"), a number in a list two. */
static void reserve_room(struct record_reader *t, size_t n)
{
	size_t most = n / 4 + 2;

	if (t->cap > n)
		return;
	t->cap = n + 1;
	t->text = mem_resize(t->text, t->cap, 1);
	for (int i = 0; i < L_N; i++)
		t->lists[i] = mem_resize((void *)t->lists[i], most, sizeof(*t->lists[i]));
	t->groups = mem_resize(t->groups, most, sizeof(*t->groups));
	t->deps = mem_resize(t->deps, most, sizeof(*t->deps));
	t->gpus = mem_resize(t->gpus, most, sizeof(*t->gpus));
	t->nodes = mem_resize(t->nodes, most, sizeof(*t->nodes));
	t->places = mem_resize(t->places, most, sizeof(*t->places));
	t->parts = mem_resize(t->parts, most, sizeof(*t->parts));
	t->numbers = mem_resize(t->numbers, n + 1, sizeof(*t->numbers));
}

/* ---- words and numbers ------------------------------------------------------------------------ */

static int report_wrong(struct record_reader *t, const char *what)
{
	t->what = what;
	return -1;
}

static char *next_word(struct record_reader *t)
{
	char *w = t->p;

	while (*w == ' ')
		w++;
	t->p = w;
	while (*t->p && *t->p != ' ')
		t->p++;
	if (*t->p)
		*t->p++ = '\0';
	return w;
}

static int take_number(const char **p, uint64_t *out)
{
	uint64_t v = 0;
	const char *s = *p;

	if (*s < '0' || *s > '9')
		return -1;
	for (; *s >= '0' && *s <= '9'; s++) {
		uint64_t digit = (uint64_t)(*s - '0');

		if (v > (UINT64_MAX - digit) / 10)
			return -1;
		v = v * 10 + digit;
	}
	*p = s;
	*out = v;
	return 0;
}

static int read_number(struct record_reader *t, const char *s, uint64_t *out)
{
	return take_number(&s, out) == 0 && !*s ? 0 : report_wrong(t, "expected a whole number");
}

static int read_number32(struct record_reader *t, const char *s, uint32_t *out)
{
	uint64_t v;

	if (read_number(t, s, &v) < 0)
		return -1;
	if (v > UINT32_MAX)
		return report_wrong(t, "the number is too large");
	*out = (uint32_t)v;
	return 0;
}

static int read_flag(struct record_reader *t, const char *s, int *out)
{
	if (strcmp(s, "0") != 0 && strcmp(s, "1") != 0)
		return report_wrong(t, "expected 0 or 1");
	*out = *s == '1';
	return 0;
}

static int take_signed(const char **p, int64_t *out)
{
	int minus = **p == '-';
	uint64_t v;

	*p += minus;
	if (take_number(p, &v) < 0 || v > INT64_MAX)
		return -1;
	*out = minus ? -(int64_t)v : (int64_t)v;
	return 0;
}

static int read_integer(struct record_reader *t, const char *s, int64_t *out)
{
	return take_signed(&s, out) == 0 && !*s ? 0 : report_wrong(t, "expected a whole number");
}

static int read_real(struct record_reader *t, const char *s, double *out)
{
	int64_t m, e = 0;

	if (take_signed(&s, &m) < 0)
		return report_wrong(t, "expected a number");
	if (*s == 'p') {
		s++;
		if (take_signed(&s, &e) < 0 || e < -1100 || e > 1100)
			return report_wrong(t, "expected a power of two behind p");
	}
	*out = ldexp((double)m, (int)e);
	return *s ? report_wrong(t, "expected a number") : 0;
}

static int hex_digit(char c)
{
	const char *digits = "0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

static int decode_text(struct record_reader *t, char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (*s != '%') {
			*to++ = *s;
			continue;
		}
		if (hex_digit(s[1]) < 0 || hex_digit(s[2]) < 0 || (s[1] == '0' && s[2] == '0'))
			return report_wrong(t, "expected two digits 0-9 A-F, not both 0, behind %");
		*to++ = (char)(hex_digit(s[1]) * 16 + hex_digit(s[2]));
		s += 2;
	}
	*to = '\0';
	return 0;
}

static int read_text(struct record_reader *t, char *s, const char **out)
{
	*out = s;
	return decode_text(t, s);
}

static void list_add(struct record_reader *t, enum list l, const char *s)
{
	t->lists[l][t->n_lists[l]++] = s;
	t->lists[l][t->n_lists[l]] = NULL;
}

static int read_list(struct record_reader *t, char *s, enum list l)
{
	list_add(t, l, s);
	return decode_text(t, s);
}

/* Up to the next comma, which goes. */
static char *next_part(char **s)
{
	char *from = *s, *comma = strchr(from, ',');

	*s = comma ? comma + 1 : from + strlen(from);
	if (comma)
		*comma = '\0';
	return from;
}

/* ---- values ------------------------------------------------------------------------------------ */

static int read_group(struct record_reader *t, char *s, struct sched_job *j)
{
	struct sched_group *g = &t->groups[j->n_groups];

	*g = (struct sched_group){0};
	if (read_number32(t, next_part(&s), &g->instances) || read_number32(t, next_part(&s), &g->gpus) ||
	    read_number32(t, next_part(&s), &g->ranks) || read_number32(t, s, &g->cpus_per_rank))
		return -1;
	if (g->instances > 1000000)
		return report_wrong(t, "too many instances");
	j->n_groups++;
	return 0;
}

static int read_after(struct record_reader *t, char *s, struct sched_job *j)
{
	struct sched_dep *d = &t->deps[j->n_after];
	uint32_t kind;

	if (read_number(t, next_part(&s), &d->job) || read_number32(t, s, &kind))
		return -1;
	if (kind > SCHED_AFTER_START)
		return report_wrong(t, "no such way to wait for a job");
	d->kind = (enum sched_after)kind;
	j->n_after++;
	return 0;
}

static int read_gpu(struct record_reader *t, char *s, struct sched_node *n)
{
	struct sched_gpu *g = &t->gpus[n->n_gpus];

	*g = (struct sched_gpu){0};
	if (read_number32(t, next_part(&s), &g->index) || read_number(t, next_part(&s), &g->memory_bytes) ||
	    read_number32(t, next_part(&s), &g->numa) || read_number32(t, next_part(&s), &g->link_group))
		return -1;
	n->n_gpus++;
	return *s ? read_text(t, s, &g->model) : 0;
}

static int read_numbers(struct record_reader *t, char *s, uint32_t **out, uint32_t *n)
{
	*out = t->numbers + t->n_numbers;
	*n = 0;
	while (*s) {
		char *from = s, *plus = strchr(s, '+');

		s = plus ? plus + 1 : s + strlen(s);
		if (plus)
			*plus = '\0';
		if (read_number32(t, from, &(*out)[(*n)++]) < 0)
			return -1;
	}
	t->n_numbers += *n;
	return 0;
}

static int read_place(struct record_reader *t, char *s, struct sched_decision *d)
{
	struct sched_place *p = &t->places[d->n];

	*p = (struct sched_place){0};
	if (read_number(t, next_part(&s), &p->node) || read_number32(t, next_part(&s), &p->group) ||
	    read_numbers(t, next_part(&s), &p->gpus, &p->n_gpus) ||
	    read_numbers(t, next_part(&s), &p->cpus, &p->n_cpus) || (*s && read_number(t, s, &p->pool)))
		return -1;
	d->n++;
	return 0;
}

static int read_part(struct record_reader *t, char *s, struct sched_pool *of)
{
	struct sched_pool_part *p = &t->parts[of->n_parts];
	uint32_t *gpus, *cpus;

	*p = (struct sched_pool_part){0};
	if (read_number(t, next_part(&s), &p->node) || read_numbers(t, next_part(&s), &gpus, &p->n_gpus) ||
	    read_numbers(t, next_part(&s), &cpus, &p->n_cpus) ||
	    read_number(t, next_part(&s), &p->memory_bytes) || read_number(t, s, &p->disk_bytes))
		return -1;
	p->gpus = gpus;
	p->cpus = cpus;
	of->n_parts++;
	return 0;
}

/* ---- keys -------------------------------------------------------------------------------------- */

#define IS(name) (strcmp(k, name) == 0)

static int report_unknown(struct record_reader *t)
{
	return report_wrong(t, "this key is not known here");
}

static int job_key(struct record_reader *t, const char *k, char *v, struct sched_job *j)
{
	uint32_t span;

	if (IS("group"))
		return read_group(t, v, j);
	if (IS("queue"))
		return read_text(t, v, &j->queue);
	if (IS("owner"))
		return read_text(t, v, &j->owner);
	if (IS("name"))
		return read_text(t, v, &j->name);
	if (IS("priority"))
		return read_integer(t, v, &j->priority);
	if (IS("order"))
		return read_number(t, v, &j->order);
	if (IS("submit"))
		return read_number(t, v, &j->submit_s);
	if (IS("limit"))
		return read_number(t, v, &j->limit_s);
	if (IS("believed"))
		return read_number(t, v, &j->believed_s);
	if (IS("max_wait"))
		return read_number(t, v, &j->max_wait_s);
	if (IS("memory"))
		return read_number(t, v, &j->memory_bytes);
	if (IS("disk"))
		return read_number(t, v, &j->disk_bytes);
	if (IS("exclusive"))
		return read_flag(t, v, &j->exclusive);
	if (IS("type"))
		return read_list(t, v, L_TYPE);
	if (IS("gpu_model"))
		return read_text(t, v, &j->gpu_model);
	if (IS("gpu_memory"))
		return read_number(t, v, &j->gpu_memory_bytes);
	if (IS("requires"))
		return read_list(t, v, L_REQUIRES);
	if (IS("avoid"))
		return read_list(t, v, L_AVOID);
	if (IS("first"))
		return read_flag(t, v, &j->first);
	if (IS("firm"))
		return read_flag(t, v, &j->firm);
	if (IS("warm"))
		return read_text(t, v, &j->warm);
	if (IS("pool"))
		return read_number(t, v, &j->pool);
	if (IS("keeps"))
		return read_flag(t, v, &j->keeps);
	if (IS("after"))
		return read_after(t, v, j);
	if (!IS("span"))
		return report_unknown(t);
	if (read_number32(t, v, &span) < 0 || span > SCHED_SPAN_RACK)
		return report_wrong(t, "no such span");
	j->span = (enum sched_span)span;
	return 0;
}

static int node_key(struct record_reader *t, const char *k, char *v, struct sched_node *n)
{
	if (IS("gpu"))
		return read_gpu(t, v, n);
	if (IS("label"))
		return read_list(t, v, L_LABEL);
	if (IS("name"))
		return read_text(t, v, &n->name);
	if (IS("type"))
		return read_text(t, v, &n->instance_type);
	if (IS("slots"))
		return read_number32(t, v, &n->slots);
	if (IS("memory"))
		return read_number(t, v, &n->memory_bytes);
	if (IS("disk"))
		return read_number(t, v, &n->disk_bytes);
	if (IS("usable"))
		return read_flag(t, v, &n->usable);
	if (IS("spare"))
		return read_flag(t, v, &n->spare);
	if (IS("price"))
		return read_real(t, v, &n->price_per_hour);
	if (IS("power"))
		return read_real(t, v, &n->power_w);
	if (IS("doubt"))
		return read_number32(t, v, &n->doubt);
	if (IS("switch"))
		return read_text(t, v, &n->switch_name);
	if (IS("rack"))
		return read_text(t, v, &n->rack_name);
	return report_unknown(t);
}

/* An order that the library no longer has; hearthd never used it. */
static int removed_order(struct record_reader *t, char *v)
{
	int on = 0;

	if (read_flag(t, v, &on) < 0)
		return -1;
	return on ? report_wrong(t, "the order by expected work (learned=1) was removed") : 0;
}

static int policy_key(struct record_reader *t, const char *k, char *v, struct sched_policy *p)
{
	uint32_t way;

	if (IS("fair"))
		return read_flag(t, v, &p->fair);
	if (IS("by_limit"))
		return read_flag(t, v, &p->by_limit);
	if (IS("effort"))
		return read_number(t, v, &p->effort);
	if (IS("half_life"))
		return read_number(t, v, &p->half_life_s);
	if (IS("starve"))
		return read_number(t, v, &p->starve_s);
	if (IS("caution"))
		return read_real(t, v, &p->caution);
	if (IS("burst"))
		return read_number(t, v, &p->burst_s);
	if (IS("learned"))
		return removed_order(t, v);
	/* Settings of that order. Records of older versions have them, and nothing followed from them. */
	if (IS("due") || IS("due_backlog"))
		return 0;
	if (!IS("backfill"))
		return report_unknown(t);
	if (read_number32(t, v, &way) < 0 || way > SCHED_CONSERVATIVE)
		return report_wrong(t, "no such way of backfill");
	p->backfill = (enum sched_backfill)way;
	return 0;
}

static int reservation_key(struct record_reader *t, const char *k, char *v, struct sched_reservation *b)
{
	if (IS("from"))
		return read_number(t, v, &b->from_s);
	if (IS("to"))
		return read_number(t, v, &b->to_s);
	if (IS("queue"))
		return read_text(t, v, &b->queue);
	if (!IS("node"))
		return report_unknown(t);
	return read_number(t, v, &t->nodes[b->n_nodes++]);
}

static int queue_key(struct record_reader *t, const char *k, char *v, struct sched_queue *q)
{
	if (IS("weight"))
		return read_real(t, v, &q->weight);
	if (IS("quota"))
		return read_number32(t, v, &q->quota_gpus);
	if (IS("borrow"))
		return read_flag(t, v, &q->borrow);
	return report_unknown(t);
}

static int pool_key(struct record_reader *t, const char *k, char *v, struct sched_pool *p)
{
	if (IS("owner"))
		return read_text(t, v, &p->owner);
	if (IS("warm"))
		return read_text(t, v, &p->warm);
	if (IS("exclusive"))
		return read_flag(t, v, &p->exclusive);
	if (IS("idle"))
		return read_number(t, v, &p->idle_since_s);
	if (!IS("part"))
		return report_unknown(t);
	return read_part(t, v, p);
}

static int one_key(struct record_reader *t, const char *k, char *v, struct record_line *o)
{
	switch (o->kind) {
	case LINE_POLICY:
		return policy_key(t, k, v, &o->policy);
	case LINE_QUEUE:
		return queue_key(t, k, v, &o->queue);
	case LINE_NODE:
		return node_key(t, k, v, &o->node);
	case LINE_RESERVATION:
		return reservation_key(t, k, v, &o->reservation);
	case LINE_JOB:
		return job_key(t, k, v, &o->job);
	case LINE_EXCHANGE:
		return IS("drop") ? read_number(t, v, &t->nodes[o->n_drop++]) : job_key(t, k, v, &o->job);
	case LINE_RESTORE:
		return IS("on")      ? read_place(t, v, &o->places)
		       : IS("start") ? read_number(t, v, &o->id)
		                     : job_key(t, k, v, &o->job);
	case LINE_HOLDS:
		return IS("on") ? read_place(t, v, &o->places) : job_key(t, k, v, &o->job);
	case LINE_POOL:
		return pool_key(t, k, v, &o->pool);
	case LINE_STEP:
		return IS("on") ? read_place(t, v, &o->places) : report_unknown(t);
	default:
		return report_wrong(t, "more words than belong here");
	}
}

static int read_keys(struct record_reader *t, struct record_line *o)
{
	for (char *w = next_word(t); *w; w = next_word(t)) {
		char *is = strchr(w, '=');

		if (!is)
			return report_wrong(t, "expected key=value");
		*is = '\0';
		if (one_key(t, w, is + 1, o) < 0)
			return -1;
	}
	return 0;
}

/* ---- lines ------------------------------------------------------------------------------------- */

enum form { F_NONE, F_ID, F_PATH }; /* what stands behind the verb, before keys */
static const struct {
	const char *verb;
	enum record_line_kind kind;
	enum form form;
} verbs[] = {
    {"at", LINE_AT, F_ID},
    {"now", LINE_NOW, F_ID},
    {"try", LINE_TRY, F_NONE},
    {"tried", LINE_TRIED, F_NONE},
    {"policy", LINE_POLICY, F_NONE},
    {"queue", LINE_QUEUE, F_PATH},
    {"close", LINE_CLOSE, F_PATH},
    {"used", LINE_USED, F_PATH},
    {"node", LINE_NODE, F_ID},
    {"gone", LINE_GONE, F_ID},
    {"book", LINE_RESERVATION, F_ID},
    {"unbook", LINE_UNRESERVE, F_ID},
    {"job", LINE_JOB, F_ID},
    {"restore", LINE_RESTORE, F_ID},
    {"holds", LINE_HOLDS, F_ID},
    {"remove", LINE_REMOVE, F_ID},
    {"park", LINE_PARK, F_ID},
    {"know", LINE_KNOW, F_ID},
    {"started", LINE_STARTED, F_ID},
    {"end", LINE_END, F_ID},
    {"release", LINE_RELEASE, F_ID},
    {"step", LINE_STEP, F_ID},
    {"exchange", LINE_EXCHANGE, F_ID},
    {"pool", LINE_POOL, F_ID},
    {"pool-remove", LINE_POOL_REMOVE, F_ID},
};

/* Words of a fixed number behind the first. */
static int more_words(struct record_reader *t, struct record_line *o)
{
	switch (o->kind) {
	case LINE_CLOSE:
	case LINE_END:
		return read_flag(t, next_word(t), &o->yes);
	case LINE_USED:
		return read_real(t, next_word(t), &o->number) || read_number(t, next_word(t), &o->id) ? -1 : 0;
	case LINE_RELEASE:
		return read_number(t, next_word(t), &o->node_id);
	default:
		return 0;
	}
}

static void finish_lists(struct record_reader *t, struct record_line *o)
{
	o->queue.path = o->name;
	o->node.id = o->reservation.id = o->id;
	o->node.gpus = t->gpus;
	o->node.labels = t->n_lists[L_LABEL] ? t->lists[L_LABEL] : NULL;
	o->reservation.nodes = o->drop = t->nodes;
	o->job.groups = t->groups;
	o->job.after = t->deps;
	o->job.instance_types = t->n_lists[L_TYPE] ? t->lists[L_TYPE] : NULL;
	o->job.requires = t->n_lists[L_REQUIRES] ? t->lists[L_REQUIRES] : NULL;
	o->job.avoid = t->n_lists[L_AVOID] ? t->lists[L_AVOID] : NULL;
	o->places.places = t->places;
	o->pool.id = o->id;
	o->pool.parts = t->parts;
}

static int line_of(struct record_reader *t, const char *verb, struct record_line *o)
{
	size_t i = 0;

	while (i < sizeof(verbs) / sizeof(verbs[0]) && strcmp(verbs[i].verb, verb) != 0)
		i++;
	if (i == sizeof(verbs) / sizeof(verbs[0]))
		return report_wrong(t, "this word is not known");
	o->kind = verbs[i].kind;
	if (verbs[i].form == F_ID && read_number(t, next_word(t), &o->id) < 0)
		return -1;
	if (verbs[i].form == F_PATH && read_text(t, next_word(t), &o->name) < 0)
		return -1;
	o->job.id = o->places.job = o->id;
	o->node.id = o->reservation.id = o->id;
	if (o->kind == LINE_RESTORE)
		o->id = 0; /* its start, which follows */
	if (more_words(t, o) < 0 || read_keys(t, o) < 0)
		return -1;
	if ((o->kind == LINE_JOB || o->kind == LINE_EXCHANGE || o->kind == LINE_RESTORE) && !o->job.n_groups)
		return report_wrong(t, "a job without group");
	if (o->kind == LINE_QUEUE && !*o->name)
		return report_wrong(t, "a queue without name");
	return 0;
}

int record_reader_next(struct record_reader *t, const char *line, size_t n, struct record_line *out,
                       const char **what)
{
	char *verb;

	while (n && (line[n - 1] == '\n' || line[n - 1] == '\r'))
		n--;
	*out = (struct record_line){.kind = LINE_NOTHING};
	if (memchr(line, 0, n)) {
		*what = "a zero byte";
		return -1;
	}
	reserve_room(t, n);
	memcpy(t->text, line, n);
	t->text[n] = '\0';
	t->p = t->text;
	t->n_numbers = 0;
	memset(t->n_lists, 0, sizeof(t->n_lists));
	verb = next_word(t);
	if (!*verb || strncmp(verb, "hearth-", 7) == 0)
		return 0;
	if (line_of(t, verb, out) < 0) {
		*what = t->what;
		return -1;
	}
	finish_lists(t, out);
	return 0;
}

static int same_numbers(const uint32_t *a, uint32_t n, const uint32_t *b, uint32_t m)
{
	return n == m && (!n || memcmp(a, b, n * sizeof(*a)) == 0);
}

int record_line_matches(const struct record_line *step, const struct sched_decision *d)
{
	const struct sched_decision *was = &step->places;

	if (!d)
		return !was->job;
	if (was->job != d->job || was->n != d->n)
		return 0;
	for (uint32_t i = 0; i < d->n; i++) {
		const struct sched_place *a = &was->places[i], *b = &d->places[i];

		if (a->node != b->node || a->group != b->group || a->pool != b->pool ||
		    !same_numbers(a->gpus, a->n_gpus, b->gpus, b->n_gpus) ||
		    !same_numbers(a->cpus, a->n_cpus, b->cpus, b->n_cpus))
			return 0;
	}
	return 1;
}
