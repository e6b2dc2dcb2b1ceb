/*
 * whatif: a recorded cluster as a simulation (replay.h).
 *
 * The record is read twice: first for what jobs took, then as input. What a job took is the time from each of
 * its starts until it gave its nodes back, together; a job that the record ends before it ever started ends
 * then here, too. What only asks (try) is passed over. At each time: ends, then inputs, then one pass.
 */
#include "scheduler/sim/replay_int.h"

#include <math.h>

#include "scheduler/sim/apply.h"

enum state { ABSENT, WAITING, RUNNING, DONE };

struct one {
	struct replay_job j;
	uint64_t from_ms; /* recorded run that goes on; REPLAY_NEVER none */
	uint64_t limit_s; /* believed */
	enum state state; /* here */
	int ended, well;  /* recorded */
	int before;       /* ran when the record began */
	int seen;         /* its first run, in the second reading, has begun in the record */
	UT_hash_handle hh;
};

struct due {
	uint64_t ms;
	struct one *job;
};

struct size { /* GPUs of a node while it is usable: here, and as recorded */
	uint64_t id;
	uint32_t gpus, was_gpus;
	int counted, was_counted; /* among the nodes that there were */
	UT_hash_handle hh;
};
struct change { /* of what there is to use */
	uint64_t ms, gpus, was_gpus;
};

struct whatif {
	const struct replay_conf *conf;
	struct replay_lines l;
	struct one *jobs;
	struct sched *s;
	struct due *due; /* a heap by time, then id */
	size_t n_due, cap_due;
	struct size *sizes;
	struct change *changes;
	size_t n_changes, cap_changes;
	uint64_t now_ms, gpus, most_gpus, was_gpus, was_most_gpus;
	uint32_t most_nodes, was_most_nodes;
	int changed;
	char **names, **paths;
};

static struct one *find_job(const struct whatif *w, uint64_t id)
{
	struct one *o;

	HASH_FIND(hh, w->jobs, &id, sizeof(id), o);
	return o;
}

/* ---- first: what they took ---------------------------------------------------------------------- */

static struct one *make_job(struct whatif *w, uint64_t id)
{
	struct one *o = find_job(w, id);

	if (o)
		return o;
	o = mem_alloc(1, sizeof(*o));
	o->j = (struct replay_job){.id = id,
	                           .submit_ms = w->l.at_ms,
	                           .start_ms = REPLAY_NEVER,
	                           .end_ms = REPLAY_NEVER,
	                           .was_start_ms = REPLAY_NEVER,
	                           .was_ms = REPLAY_NEVER};
	o->from_ms = REPLAY_NEVER;
	HASH_ADD(hh, w->jobs, j.id, sizeof(o->j.id), o);
	return o;
}

static void run_begins(struct whatif *w, struct one *o)
{
	if (o->j.was_start_ms == REPLAY_NEVER)
		o->j.was_start_ms = w->l.at_ms;
	if (o->from_ms == REPLAY_NEVER) /* else it exchanged places, and the run goes on */
		o->from_ms = w->l.at_ms;
}

static void run_ends(struct whatif *w, struct one *o)
{
	if (o && o->from_ms != REPLAY_NEVER)
		o->j.run_ms += w->l.at_ms - o->from_ms;
	if (o)
		o->from_ms = REPLAY_NEVER;
}

static uint64_t gpus_of(const struct sched_job *j)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < j->n_groups; i++)
		n += (uint64_t)j->groups[i].instances * j->groups[i].gpus;
	return n;
}

static void learn_line(struct whatif *w, const struct record_line *t)
{
	struct one *o = find_job(w, t->id);

	switch (t->kind) {
	case LINE_JOB:
		o = make_job(w, t->id);
		o->j.gpus = gpus_of(&t->job);
		break;
	case LINE_RESTORE:
	case LINE_HOLDS:
		o = make_job(w, t->kind == LINE_HOLDS ? t->id : t->job.id);
		o->before = 1;
		run_begins(w, o);
		break;
	case LINE_STEP:
		if (o)
			run_begins(w, o);
		break;
	case LINE_END:
		run_ends(w, o);
		if (o && o->j.was_start_ms != REPLAY_NEVER) {
			o->ended = 1;
			o->well = t->yes;
			o->j.was_ms = w->l.at_ms;
		}
		break;
	case LINE_REMOVE:
	case LINE_PARK:
		run_ends(w, o);
		break;
	default:
		break;
	}
}

static int learn_all(struct whatif *w, const char *text, size_t n, struct replay_mistake *m)
{
	struct record_line t;
	struct one *o, *tmp;
	int rc;

	replay_open(&w->l, w->conf, text, n, m);
	while ((rc = replay_next(&w->l, &t)) > 0)
		if (!w->l.trying)
			learn_line(w, &t);
	HASH_ITER (hh, w->jobs, o, tmp) {
		run_ends(w, o); /* it goes on: what it took so far */
		o->from_ms = REPLAY_NEVER;
	}
	replay_close(&w->l);
	return rc;
}

/* ---- ends to come ------------------------------------------------------------------------------- */

static int is_sooner(const struct due *a, const struct due *b)
{
	return a->ms != b->ms ? a->ms < b->ms : a->job->j.id < b->job->j.id;
}

static void due_push(struct whatif *w, struct due d)
{
	size_t i = w->n_due++;

	if (w->n_due > w->cap_due) {
		w->cap_due = w->cap_due ? 2 * w->cap_due : 256;
		w->due = mem_resize(w->due, w->cap_due, sizeof(*w->due));
	}
	for (size_t up; i && is_sooner(&d, &w->due[up = (i - 1) / 2]); i = up)
		w->due[i] = w->due[up];
	w->due[i] = d;
}

static struct due due_pop(struct whatif *w)
{
	struct due top = w->due[0], last = w->due[--w->n_due];
	size_t i = 0;

	for (size_t c; (c = 2 * i + 1) < w->n_due; i = c) {
		c += c + 1 < w->n_due && is_sooner(&w->due[c + 1], &w->due[c]);
		if (!is_sooner(&w->due[c], &last))
			break;
		w->due[i] = w->due[c];
	}
	if (w->n_due)
		w->due[i] = last;
	return top;
}

/* ---- then: what would be ------------------------------------------------------------------------- */

static void job_runs(struct whatif *w, struct one *o)
{
	o->state = RUNNING;
	o->j.start_ms = w->now_ms;
	if (o->ended)
		due_push(w, (struct due){w->now_ms + o->j.run_ms, o});
}

static void job_ends(struct whatif *w, struct one *o, int well)
{
	o->state = DONE;
	o->j.end_ms = w->now_ms;
	sched_job_finished(w->s, o->j.id, well);
	w->changed = 1;
}

static void job_arrives(struct whatif *w, const struct record_line *t)
{
	struct one *o = find_job(w, t->id);
	struct sched_job j = t->job;
	uint64_t run_s = (o->j.run_ms + 999) / 1000;

	if (o->state == RUNNING || o->state == DONE)
		return;
	j.pool = 0; /* pools are not simulated, and it would wait in vain */
	run_s += !run_s;
	if (w->conf->estimate != REPLAY_LIMITS)
		j.believed_s = 0;
	if (w->conf->estimate == REPLAY_LEARNED)
		j.limit_s = 0;
	else if (o->ended && w->conf->estimate != REPLAY_LIMITS)
		j.limit_s = w->conf->estimate == REPLAY_X3 ? 3 * run_s : run_s;
	sched_job_add(w->s, &j);
	o->state = WAITING;
}

/* In the record it went while it waited: stopped, held, or not possible any more. */
static void job_leaves(struct whatif *w, const struct record_line *t)
{
	struct one *o = find_job(w, t->id);

	if (!o)
		return;
	if (o->from_ms != REPLAY_NEVER) { /* the end of a run in the record: here it ends when its time is over */
		o->from_ms = REPLAY_NEVER;
		return;
	}
	if (o->state == WAITING) {
		record_line_apply(w->s, t);
		o->state = t->kind == LINE_PARK ? ABSENT : DONE;
	} else if (o->state == RUNNING && !o->ended && t->kind != LINE_PARK && !o->seen) {
		job_ends(w, o, 0);
	}
}

static struct size *size_of(struct whatif *w, uint64_t id)
{
	struct size *z;

	HASH_FIND(hh, w->sizes, &id, sizeof(id), z);
	if (z)
		return z;
	z = mem_alloc(1, sizeof(*z));
	z->id = id;
	HASH_ADD(hh, w->sizes, id, sizeof(z->id), z);
	return z;
}

/* here, was: may it be used, in the simulation and in the record; left_out: by the caller's wish it is not
 * there, added: it was not in the record. */
static void count_node(struct whatif *w, const struct sched_node *n, int here, int was, int left_out,
                       int added)
{
	struct size *z = size_of(w, n->id);

	w->most_nodes += !left_out && !z->counted;
	z->counted |= !left_out;
	w->was_most_nodes += !added && !z->was_counted;
	z->was_counted |= !added;
	w->gpus -= z->gpus;
	w->was_gpus -= z->was_gpus;
	z->gpus = here ? n->n_gpus : 0;
	z->was_gpus = was ? n->n_gpus : 0;
	w->gpus += z->gpus;
	w->was_gpus += z->was_gpus;
}

/* How many GPUs may be used from now on; nodes that the caller adds come with the first. */
static void note_capacity(struct whatif *w, const struct record_line *t, int grew)
{
	struct sched_node n = t->node;

	n.id = t->id;
	if (t->kind == LINE_NODE)
		count_node(w, &n, n.usable, w->l.was_usable, w->l.left_out, 0);
	else
		count_node(w, &n, 0, 0, 1, 0); /* gone: it was counted when it came */
	for (uint32_t i = 0; grew && i < w->conf->more_nodes; i++) {
		n.id = UINT64_MAX - i;
		count_node(w, &n, 1, 0, 0, 1);
	}
	if (w->gpus > w->most_gpus)
		w->most_gpus = w->gpus;
	if (w->was_gpus > w->was_most_gpus)
		w->was_most_gpus = w->was_gpus;
	if (w->n_changes == w->cap_changes) {
		w->cap_changes = w->cap_changes ? 2 * w->cap_changes : 64;
		w->changes = mem_resize(w->changes, w->cap_changes, sizeof(*w->changes));
	}
	w->changes[w->n_changes++] = (struct change){w->now_ms, w->gpus, w->was_gpus};
}

static void apply_input(struct whatif *w, const struct record_line *t)
{
	struct one *o = find_job(w, t->id);
	int grown = w->l.grown;

	w->changed = 1;
	switch (t->kind) {
	case LINE_JOB:
		job_arrives(w, t);
		break;
	case LINE_STEP: /* the record's own: only for what its later lines mean */
		if (o && t->id) {
			o->from_ms = w->now_ms;
			o->seen = 1;
		}
		break;
	case LINE_END:
	case LINE_REMOVE:
	case LINE_PARK:
		job_leaves(w, t);
		break;
	case LINE_KNOW:
		if (!o || o->state == ABSENT)
			record_line_apply(w->s, t);
		break;
	case LINE_RESTORE:
	case LINE_HOLDS:
		record_line_apply(w->s, t);
		o = find_job(w, t->kind == LINE_HOLDS ? t->id : t->job.id);
		o->from_ms = w->now_ms;
		o->seen = 1;
		job_runs(w, o);
		break;
	case LINE_NODE:
	case LINE_GONE:
		replay_tell(&w->l, w->s, t);
		note_capacity(w, t, w->l.grown && !grown);
		break;
	case LINE_POLICY:
	case LINE_QUEUE:
	case LINE_CLOSE:
	case LINE_USED:
	case LINE_RESERVATION:
	case LINE_UNRESERVE:
		replay_tell(&w->l, w->s, t);
		break;
	default: /* times are its own; releases and starts follow from what is decided here */
		break;
	}
}

static void run_pass(struct whatif *w)
{
	struct sched_decision *d;
	struct sched_settled x;

	while (sched_settled(w->s, &x)) {
		struct one *o = x.met ? NULL : find_job(w, x.job);

		if (o && o->state == WAITING) { /* it waits in vain: never a start */
			o->state = DONE;
			sched_job_remove(w->s, x.job);
		}
	}
	while ((d = sched_step(w->s))) {
		struct one *o = find_job(w, d->job);

		o->j.nodes = replay_names(&w->l, d);
		o->j.n_nodes = d->n;
		job_runs(w, o);
		sched_job_started(w->s, d->job);
		sched_decision_free(d);
	}
	w->changed = 0;
}

/* All that is due before the record's next line is read at at_ms. */
static void run_until(struct whatif *w, uint64_t at_ms)
{
	for (;;) {
		uint64_t next = w->n_due ? w->due[0].ms : REPLAY_NEVER;

		if (w->changed && w->now_ms < at_ms && w->now_ms < next) {
			run_pass(w);
			continue; /* what started may end first */
		}
		if (next > at_ms || next == REPLAY_NEVER)
			break;
		w->now_ms = next;
		sched_now(w->s, next / 1000);
		while (w->n_due && w->due[0].ms == next) {
			struct one *o = due_pop(w).job;

			job_ends(w, o, o->well);
		}
	}
	if (at_ms == REPLAY_NEVER)
		return;
	w->now_ms = at_ms;
	sched_now(w->s, at_ms / 1000);
}

static char **names_of(const struct replay_lines *l)
{
	char **names = mem_alloc(HASH_COUNT(l->names) + 1u, sizeof(*names));
	size_t n = 0;

	for (const struct node_name *m = l->names; m; m = m->hh.next)
		names[n++] = mem_copy(m->name);
	return names;
}

static char **paths_of(const struct replay_lines *l)
{
	char **paths = mem_alloc(HASH_COUNT(l->paths) + 1u, sizeof(*paths));
	size_t n = 0;

	for (const struct account_path *a = l->paths; a; a = a->hh.next)
		paths[n++] = mem_copy(a->path);
	return paths;
}

static int run_record(struct whatif *w, const char *text, size_t n, struct replay_mistake *m)
{
	struct record_line t;
	int rc;

	w->s = sched_create();
	replay_open(&w->l, w->conf, text, n, m);
	while ((rc = replay_next(&w->l, &t)) > 0) {
		if (t.kind == LINE_AT)
			run_until(w, t.id);
		else if (t.kind > LINE_TRIED && !w->l.trying)
			apply_input(w, &t);
	}
	if (rc == 0)
		run_until(w, REPLAY_NEVER);
	w->names = names_of(&w->l);
	w->paths = paths_of(&w->l);
	replay_close(&w->l);
	sched_destroy(w->s);
	return rc;
}

/* ---- figures ------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double percentile_of(const uint64_t *sorted, size_t n, unsigned p)
{
	return n ? (double)sorted[(n * p + 99) / 100 - 1] / 1000 : 0;
}

/* GPU-milliseconds that there were between two times. */
static double capacity_in(const struct whatif *w, int was, uint64_t from, uint64_t to)
{
	double sum = 0;

	for (size_t i = 0; i < w->n_changes; i++) {
		uint64_t a = w->changes[i].ms, b = i + 1 < w->n_changes ? w->changes[i + 1].ms : to;

		a = a > from ? a : from;
		b = b < to ? b : to;
		if (a < b)
			sum += (double)(b - a) * (double)(was ? w->changes[i].was_gpus : w->changes[i].gpus);
	}
	return sum;
}

static void sum_figures(const struct whatif *w, const struct replay_result *r, int was,
                        struct replay_figures *f)
{
	uint64_t *jct = mem_alloc(r->n, sizeof(*jct)), first = REPLAY_NEVER, last = 0, most = 0;
	double sum = 0, wait = 0, busy = 0;

	for (size_t i = 0; i < r->n; i++) {
		const struct replay_job *j = &r->jobs[i];
		uint64_t start = was ? j->was_start_ms : j->start_ms, end = was ? j->was_ms : j->end_ms;

		/* What was does not change with what could not be here. */
		if (j->was_ms == REPLAY_NEVER || (!was && j->end_ms == REPLAY_NEVER))
			continue;
		jct[f->jobs++] = end - j->submit_ms;
		sum += (double)(end - j->submit_ms);
		wait += (double)(start - j->submit_ms);
		most = start - j->submit_ms > most ? start - j->submit_ms : most;
		first = j->submit_ms < first ? j->submit_ms : first;
		last = end > last ? end : last;
		busy += (double)j->run_ms * (double)j->gpus;
	}
	qsort(jct, f->jobs, sizeof(*jct), by_size);
	f->p50_jct = percentile_of(jct, f->jobs, 50);
	f->p95_jct = percentile_of(jct, f->jobs, 95);
	f->p99_jct = percentile_of(jct, f->jobs, 99);
	f->max_wait = (double)most / 1000;
	if (f->jobs) {
		double there = capacity_in(w, was, first, last);

		f->avg_jct = sum / (double)f->jobs / 1000;
		f->avg_wait = wait / (double)f->jobs / 1000;
		f->makespan = (double)(last - first) / 1000;
		f->utilization = there > 0 ? busy / there : 0;
	}
	free(jct);
}

static int by_submit(const void *a, const void *b)
{
	const struct replay_job *x = a, *y = b;

	if (x->submit_ms != y->submit_ms)
		return x->submit_ms < y->submit_ms ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void collect_result(struct whatif *w, struct replay_result *r)
{
	struct one *o, *tmp;

	r->jobs = mem_alloc(HASH_COUNT(w->jobs), sizeof(*r->jobs));
	HASH_ITER (hh, w->jobs, o, tmp) {
		if (o->before) {
			r->before++;
			replay_names_free(o->j.nodes, o->j.n_nodes);
			continue;
		}
		if (!o->ended)
			o->j.was_ms = REPLAY_NEVER;
		r->unfinished += !o->ended;
		r->dropped += o->ended && o->j.end_ms == REPLAY_NEVER;
		r->jobs[r->n++] = o->j;
	}
	qsort(r->jobs, r->n, sizeof(*r->jobs), by_submit);
	r->node_names = w->names;
	r->paths = w->paths;
	w->names = w->paths = NULL;
	r->nodes = w->most_nodes;
	r->gpus = w->most_gpus;
	r->was_nodes = w->was_most_nodes;
	r->was_gpus = w->was_most_gpus;
	sum_figures(w, r, 0, &r->is);
	sum_figures(w, r, 1, &r->was);
}

static void names_free(char **names)
{
	for (char **n = names; n && *n; n++)
		free(*n);
	free(names);
}

static void whatif_fini(struct whatif *w, int all)
{
	struct one *o, *tmp;
	struct size *z, *ztmp;

	HASH_ITER (hh, w->jobs, o, tmp) {
		HASH_DELETE(hh, w->jobs, o);
		if (all)
			replay_names_free(o->j.nodes, o->j.n_nodes);
		free(o);
	}
	HASH_ITER (hh, w->sizes, z, ztmp) {
		HASH_DELETE(hh, w->sizes, z);
		free(z);
	}
	names_free(w->names);
	names_free(w->paths);
	free(w->due);
	free(w->changes);
}

int replay_simulate(const struct replay_conf *c, const char *text, size_t n, struct replay_result *out,
                    struct replay_mistake *m)
{
	struct whatif w = {.conf = c};
	int rc = learn_all(&w, text, n, m);

	*out = (struct replay_result){0};
	if (rc == 0)
		rc = run_record(&w, text, n, m);
	if (rc == 0)
		collect_result(&w, out);
	whatif_fini(&w, rc < 0);
	return rc;
}

void replay_result_fini(struct replay_result *r)
{
	for (size_t i = 0; i < r->n; i++)
		replay_names_free(r->jobs[i].nodes, r->jobs[i].n_nodes);
	free(r->jobs);
	names_free(r->node_names);
	names_free(r->paths);
	*r = (struct replay_result){0};
}
