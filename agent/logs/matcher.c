/*
 * matcher: see matcher.h.
 *
 * A task has the launch's chunk, set and one feed to itself until its end. So these outlive their owners
 * while a task is under way: what is destroyed meanwhile is `gone`, and the end of the task frees it.
 */
#include "agent/logs/matcher.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/worker.h"
#include "agent/logs/segments.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/os/fsutil.h"

#include <utlist.h>

#define END_MS       5000u /* that the end of the agent waits for threads */
#define LOOK_EVERY   32u   /* lines between two looks at the CPU clock, when they are cheap */
#define LOOK_STEPS   5000u /* and steps (pattern.h) */
#define RETRY_US     1000000u
#define LAUNCHES_MAX 65536u /* that wait for a thread */
#define OFF_FILE     "patterns_off"
#define OFF_MAX      4096u
#define FAILURES     3u     /* budget of lines of failures; the others have the number of their kind */
#define FAILURE_US   10000u /* CPU time of a task for them */
#define FAILURE_LOOK 4u     /* lines between two looks at the CPU clock; a line may take milliseconds */

struct match_pool {
	struct agent_env *env;
	uint64_t burst_us;
	uint32_t share;
	struct workers *workers;
	struct failure_table *table; /* NULL: it is being made, and tasks wait */
	struct worker *making;
	char *rules; /* an administrator's, to be made next */
	int changed; /* rules are newer than those of the table under way */
	struct matcher *all;
};

struct match_feed {
	struct matcher *m;
	struct metric_scan scan;
	struct failure_scan failures;
	struct match_feed_ops ops;
	void *arg;
	uint32_t rank;
	enum match_kind kind;
	int waits, gone; /* waits: in the queue */
	struct match_feed *prev, *next;
	struct match_feed *all_prev, *all_next;
};

struct found_point {
	size_t name; /* offset in names */
	struct metric_point p;
};

struct task {
	struct matcher *m;
	struct match_feed *f;
	struct match_result r;
	uint64_t now_us, began_us, cpu_us, failure_us;
	int reads_failures; /* the budget allows it */
	unsigned lines, failure_lines;
	uint64_t looked_steps;
	struct found_point *points;
	size_t n_points, points_cap;
	struct buf names; /* each with its 0 */
};

struct budget {
	int64_t left_us, burst_us;
	uint32_t share;
	uint64_t filled_us;
};

struct matcher {
	struct match_pool *pool;
	char *off_path;
	struct metric_set *set; /* NULL: no patterns */
	uint8_t *off_known;     /* patterns whose end was reported */
	struct failure_table *table;
	struct classify_reader *reader;
	struct matcher *prev, *next; /* of the pool */
	struct match_chunk chunk;
	struct match_feed *queue, *all;
	struct worker *task; /* NULL: none under way */
	struct match_feed *running;
	struct loop_timer *timer;
	struct budget budget[4]; /* by kind, and FAILURES */
	int gone;
};

/* ---- on a thread ------------------------------------------------------------------------------------- */

static void keep_point(const struct metric_point *p, void *arg)
{
	struct task *t = arg;

	if (t->n_points == t->points_cap) {
		t->points_cap = t->points_cap ? 2 * t->points_cap : 64;
		t->points = xreallocarray(t->points, t->points_cap, sizeof(*t->points));
	}
	t->points[t->n_points++] = (struct found_point){.name = buf_left(&t->names), .p = *p};
	buf_put(&t->names, p->name, strlen(p->name) + 1);
}

static uint64_t count_steps(const struct task *t)
{
	return t->f->scan.set ? metric_set_steps(t->f->scan.set) : 0;
}

static int is_enough(void *arg)
{
	struct task *t = arg;
	uint64_t steps = count_steps(t);

	if (t->n_points >= MATCH_POINTS)
		return 1;
	if (t->f->scan.set && ++t->lines % LOOK_EVERY && steps - t->looked_steps < LOOK_STEPS)
		return 0;
	t->looked_steps = steps;
	return clock_thread_cpu_us() - t->began_us > MATCH_QUANTUM_US;
}

/* Searches a chunk piece by piece, each with the time of its index record. Returns the bytes taken. */
static size_t search_pieces(struct task *t, const char *data, size_t n, struct buf *recs)
{
	uint64_t us = t->now_us, next_us;
	size_t at = 0, end, took;
	uint32_t off, fd;

	while (at < n) {
		end = n;
		next_us = us;
		/* The next record that begins behind `at` ends this piece; those at or before it give its time. */
		while (buf_left(recs) >= SEGMENT_REC_SIZE) {
			struct buf peek = *recs;

			buf_get_u32(&peek, &off);
			buf_get_u64(&peek, &next_us);
			buf_get_u32(&peek, &fd);
			if (off > at) {
				end = off < n ? off : n;
				break;
			}
			us = next_us;
			buf_skip(recs, SEGMENT_REC_SIZE);
		}
		took = metric_scan_feed(&t->f->scan, data + at, end - at, us, keep_point, is_enough, t);
		at += took;
		if (took < end - (at - took))
			break;
	}
	return at;
}

static int is_enough_failures(void *arg)
{
	struct task *t = arg;

	return ++t->failure_lines % FAILURE_LOOK == 0 &&
	       clock_thread_cpu_us() - t->began_us - t->cpu_us > FAILURE_US;
}

static void read_failures(struct task *t)
{
	struct failure_scan *s = &t->f->failures;
	struct match_chunk *c = &t->m->chunk;
	const char *data = (const char *)c->data;

	if (c->fresh)
		failure_scan_reset(s);
	if (c->end)
		failure_scan_end(s, t->m->reader);
	else if (t->reads_failures)
		failure_scan_feed(s, t->m->reader, data, t->r.took, c->at, is_enough_failures, t);
	else
		failure_scan_skip(s, data, t->r.took, c->at);
	t->r.rest = failure_scan_rest(s);
	t->failure_us = clock_thread_cpu_us() - t->began_us - t->cpu_us;
}

static void run_task(struct worker *w, void *arg)
{
	struct task *t = arg;
	struct match_chunk *c = &t->m->chunk;
	struct metric_scan *scan = &t->f->scan;

	(void)w;
	t->began_us = clock_thread_cpu_us();
	t->looked_steps = count_steps(t);
	if (c->fresh)
		metric_scan_reset(scan);
	if (t->f->kind == MATCH_PLAIN)
		t->r.took = c->n;
	else if (c->end)
		metric_scan_end(scan, t->now_us, keep_point, t);
	else
		t->r.took = search_pieces(t, (const char *)c->data, c->n, &c->recs);
	t->r.ended = c->end;
	t->r.step = scan->step;
	t->r.pending = metric_scan_pending(scan);
	t->cpu_us = clock_thread_cpu_us() - t->began_us;
	if (t->f->ops.failure)
		read_failures(t);
}

/* ---- the budget ------------------------------------------------------------------------------------- */

static void fill_budget(struct matcher *m, unsigned kind)
{
	struct budget *b = &m->budget[kind];
	uint64_t now = clock_boot_us(m->pool->env->clock);

	b->left_us += (int64_t)((now - b->filled_us) / b->share);
	b->filled_us = now;
	if (b->left_us <= b->burst_us)
		return;
	b->left_us = b->burst_us;
	if (kind == MATCH_OUTPUT && m->set)
		metric_set_forget_cost(m->set); /* blame is for what emptied the bucket */
}

static void save_off(const struct matcher *m)
{
	char text[OFF_MAX];
	size_t n = 0;
	struct err e;

	for (size_t i = 0; i < metric_set_count(m->set) && n < sizeof(text) - 24; i++)
		if (metric_set_pattern(m->set, i).off)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%zu\n", i);
	if (fs_replace(m->off_path, text, n, 0600, &e) < 0)
		log_warn("event=patterns_off_not_saved reason=\"%s\"", e.text);
}

static void load_off(struct matcher *m)
{
	char *text, *save = NULL;
	uint64_t i;
	size_t n;

	if (fs_read_file(m->off_path, OFF_MAX, &text, &n, NULL) < 0)
		return;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (str_parse_u64(line, &i) == 0 && i < metric_set_count(m->set)) {
			metric_set_switch_off(m->set, (size_t)i);
			m->off_known[i] = 1;
		}
	free(text);
}

static void report_off(struct matcher *m, size_t i, uint32_t rank)
{
	struct metric_pattern p = metric_set_pattern(m->set, i);
	struct match_off o = {.metric = p.metric,
	                      .pattern = p.text,
	                      .rank = rank,
	                      .gave_up = p.gave_up >= METRIC_GIVE_UP ? p.gave_up : 0};

	m->off_known[i] = 1;
	log_warn("event=pattern_off metric=%s rank=%u gave_up=%u", p.metric, rank, o.gave_up);
	for (struct match_feed *f = m->all; f; f = f->all_next)
		if (f->ops.off) {
			f->ops.off(&o, f->arg);
			return;
		}
}

/* Switches patterns off until the others caused at most half of the cost. */
static void blame_patterns(struct matcher *m)
{
	uint64_t all = 0, rest;
	int i;

	for (size_t k = 0; k < metric_set_count(m->set); k++)
		all += metric_set_pattern(m->set, k).off ? 0 : metric_set_pattern(m->set, k).steps;
	rest = all;
	while (rest > all / 2 && (i = metric_set_costliest(m->set)) >= 0) {
		rest -= metric_set_pattern(m->set, (size_t)i).steps;
		metric_set_switch_off(m->set, (size_t)i);
	}
	metric_set_forget_cost(m->set);
}

static void charge_task(struct matcher *m, const struct task *t)
{
	struct budget *b = &m->budget[t->f->kind];
	int some = 0;

	fill_budget(m, t->f->kind);
	fill_budget(m, FAILURES);
	m->budget[FAILURES].left_us -= (int64_t)t->failure_us;
	b->left_us -= (int64_t)t->cpu_us;
	if (t->f->kind != MATCH_OUTPUT || !m->set)
		return;
	if (b->left_us < 0)
		blame_patterns(m);
	for (size_t i = 0; i < metric_set_count(m->set); i++)
		if (metric_set_pattern(m->set, i).off && !m->off_known[i]) {
			report_off(m, i, t->f->rank);
			some = 1;
		}
	if (!some)
		return; /* the lines themselves cost so much, or nothing is left to blame: the feeds wait */
	if (b->left_us < 0)
		b->left_us = b->burst_us;
	save_off(m);
}

/* ---- tasks ------------------------------------------------------------------------------------------ */

static void free_feed(struct match_feed *f)
{
	metric_scan_fini(&f->scan);
	failure_scan_fini(&f->failures);
	free(f);
}

static void free_matcher(struct matcher *m)
{
	metric_set_destroy(m->set);
	classify_reader_destroy(m->reader);
	failure_table_release(m->table);
	free(m->off_known);
	buf_fini(&m->chunk.recs);
	free(m->chunk.data);
	loop_timer_destroy(m->timer);
	free(m->off_path);
	free(m);
}

static void give_points(struct task *t)
{
	const char *names = (const char *)buf_head(&t->names);

	for (size_t i = 0; i < t->n_points; i++) {
		t->points[i].p.name = names + t->points[i].name;
		t->f->ops.point(&t->points[i].p, t->f->arg);
	}
}

/* Symptoms wait for the end: a stronger line may follow. */
static void give_failure(const struct task *t)
{
	struct failure_scan *s = &t->f->failures;

	if (!s->news || (!t->r.ended && !cause_is_certain(s->cause)))
		return;
	s->news = 0;
	t->f->ops.failure(s->cause, t->f->arg);
}

static void queue_feed(struct matcher *m, struct match_feed *f)
{
	f->waits = 1;
	DL_APPEND(m->queue, f);
}

/* The launch is still there, else the task was cancelled; the feed may be gone. */
static void task_done(void *arg)
{
	struct task *t = arg;
	struct match_feed *f = t->f;
	struct matcher *m = t->m;

	m->task = NULL;
	m->running = NULL;
	charge_task(m, t);
	loop_timer_arm(m->timer, 0); /* the next task; not here: the feed's owner may destroy the launch */
	if (f->gone)
		return;
	give_points(t);
	give_failure(t);
	if (!t->r.ended)
		queue_feed(m, f); /* behind the others */
	f->ops.searched(&t->r, f->arg);
}

static void release_task(void *arg)
{
	struct task *t = arg;

	if (t->f->gone)
		free_feed(t->f);
	if (t->m->gone)
		free_matcher(t->m);
	buf_fini(&t->names);
	free(t->points);
	free(t);
}

/* No task is under way, so nobody reads with the old table. A stored cause has no texts of it but its class
 * and reason, which must not outlive it: they are reported, or given up. */
static void use_table(struct matcher *m)
{
	if (m->table == m->pool->table)
		return;
	for (struct match_feed *f = m->all; f; f = f->all_next)
		failure_scan_forget(&f->failures);
	classify_reader_destroy(m->reader);
	failure_table_release(m->table);
	m->table = failure_table_hold(m->pool->table);
	m->reader = classify_reader_create(failure_table_rules(m->table));
}

static int start_task(struct matcher *m, struct match_feed *f)
{
	static const struct worker_task task = {.run = run_task, .done = task_done, .release = release_task};
	struct task *t = xcalloc(1, sizeof(*t));
	struct err e;

	use_table(m);
	*t = (struct task){.m = m,
	                   .f = f,
	                   .now_us = clock_real_us(m->pool->env->clock),
	                   .reads_failures = m->budget[FAILURES].left_us > 0};
	buf_init(&t->names, SIZE_MAX);
	m->task = worker_start(m->pool->workers, &task, t, &e);
	if (m->task) {
		m->running = f;
		return 0;
	}
	log_warn("event=match_not_started reason=\"%s\"", e.text);
	buf_fini(&t->names);
	free(t);
	return -1;
}

static int fill_chunk(struct matcher *m, struct match_feed *f)
{
	struct match_chunk *c = &m->chunk;

	if (!c->data)
		c->data = xmalloc(MATCH_CHUNK);
	buf_fini(&c->recs);
	*c = (struct match_chunk){.data = c->data};
	buf_init(&c->recs, MATCH_CHUNK);
	return f->ops.fill(c, f->arg);
}

/* Nothing of the chunk was searched: the feed's owner reads it again. */
static void put_back(struct matcher *m, struct match_feed *f)
{
	if (m->chunk.fresh)
		metric_scan_reset(&f->scan);
	queue_feed(m, f);
	f->ops.searched(&(struct match_result){.step = f->scan.step, .pending = metric_scan_pending(&f->scan)},
	                f->arg);
	loop_timer_arm(m->timer, RETRY_US);
}

/* Returns the first feed in the queue whose budget is not empty. */
static struct match_feed *take_feed(struct matcher *m)
{
	struct match_feed *f;

	DL_FOREACH (m->queue, f)
		if (m->budget[f->kind].left_us >= 0) {
			DL_DELETE(m->queue, f);
			f->waits = 0;
			return f;
		}
	return NULL;
}

/* Wakes when the first budget that a feed waits for is full enough for a task. */
static void wait_for_budget(struct matcher *m)
{
	uint64_t us, first = UINT64_MAX;
	const struct match_feed *f;

	DL_FOREACH (m->queue, f) {
		us = (uint64_t)(MATCH_QUANTUM_US - m->budget[f->kind].left_us) * m->budget[f->kind].share;
		first = us < first ? us : first;
	}
	if (first != UINT64_MAX)
		loop_timer_arm(m->timer, first);
}

static void next_task(struct matcher *m)
{
	struct match_feed *f;

	if (m->task || !m->queue || !m->pool->table)
		return;
	for (unsigned kind = 0; kind <= FAILURES; kind++)
		fill_budget(m, kind);
	while ((f = take_feed(m)))
		if (fill_chunk(m, f)) {
			if (start_task(m, f) < 0)
				put_back(m, f);
			return;
		}
	wait_for_budget(m);
}

static void on_timer(void *arg)
{
	next_task(arg);
}

/* ---- feeds ------------------------------------------------------------------------------------------ */

struct match_feed *match_feed_create(struct matcher *m, enum match_kind kind, uint32_t rank, int64_t step,
                                     const struct match_feed_ops *ops, void *arg)
{
	struct match_feed *f = xcalloc(1, sizeof(*f));

	*f = (struct match_feed){.m = m, .ops = *ops, .arg = arg, .rank = rank, .kind = kind};
	metric_scan_init(&f->scan, kind == MATCH_OUTPUT ? m->set : NULL);
	f->scan.step = step;
	DL_APPEND2(m->all, f, all_prev, all_next);
	return f;
}

void match_feed_destroy(struct match_feed *f)
{
	struct matcher *m;

	if (!f)
		return;
	m = f->m;
	if (f->waits)
		DL_DELETE(m->queue, f);
	DL_DELETE2(m->all, f, all_prev, all_next);
	f->gone = 1;
	if (m->running != f)
		free_feed(f);
}

void match_feed_want(struct match_feed *f)
{
	if (f->waits || f->m->running == f)
		return;
	queue_feed(f->m, f);
	next_task(f->m);
}

/* ---- life ------------------------------------------------------------------------------------------- */

struct matcher *matcher_create(struct match_pool *p, const char *dir)
{
	struct matcher *m = xcalloc(1, sizeof(*m));

	m->pool = p;
	m->off_path = xasprintf("%s/" OFF_FILE, dir);
	m->timer = loop_timer_create(p->env->loop, on_timer, m);
	DL_APPEND(p->all, m);
	for (int kind = 0; kind < (int)FAILURES; kind++)
		m->budget[kind] = (struct budget){.left_us = (int64_t)p->burst_us,
		                                  .burst_us = (int64_t)p->burst_us,
		                                  .share = p->share,
		                                  .filled_us = clock_boot_us(p->env->clock)};
	m->budget[FAILURES] = (struct budget){.left_us = MATCH_FAILURE_BURST_US,
	                                      .burst_us = MATCH_FAILURE_BURST_US,
	                                      .share = MATCH_FAILURE_SHARE,
	                                      .filled_us = clock_boot_us(p->env->clock)};
	buf_init(&m->chunk.recs, MATCH_CHUNK);
	return m;
}

void matcher_destroy(struct matcher *m)
{
	if (!m)
		return;
	m->gone = 1;
	DL_DELETE(m->pool->all, m);
	loop_timer_cancel(m->timer);
	if (m->task)
		worker_cancel(m->task);
	else
		free_matcher(m);
}

int matcher_patterns(struct matcher *m, const struct job_spec *spec)
{
	if (m->set)
		return 1;
	m->set = metric_set_create(spec);
	if (!m->set)
		return 0;
	m->off_known = xcalloc(metric_set_count(m->set), 1);
	load_off(m);
	return 1;
}

/* ---- rules of failures ------------------------------------------------------------------------------ */

static void rules_set(struct match_pool *p, const char *text)
{
	free(p->rules);
	p->rules = text && *text ? xstrdup(text) : NULL;
	p->changed = 1;
}

struct making { /* of a table, on a thread: it takes some tens of milliseconds */
	struct match_pool *p;
	char *rules;
	struct classify_table *table;
	struct err e;
};

static void make_table(struct worker *w, void *arg)
{
	struct making *k = arg;

	(void)w;
	k->table = classify_table_create(k->rules, "failure_patterns", &k->e);
	if (!k->table && k->rules)
		log_warn("event=failure_patterns_refused reason=\"%s\"", k->e.text);
}

static void start_making(struct match_pool *p);

static void table_made(void *arg)
{
	struct making *k = arg;
	struct match_pool *p = k->p;

	p->making = NULL;
	if (k->table) {
		failure_table_release(p->table);
		p->table = failure_table_create(k->table);
		k->table = NULL;
	} else if (!p->table && !p->changed) {
		rules_set(p, NULL); /* the built-in table alone is right */
	}
	if (p->changed)
		start_making(p);
	for (struct matcher *m = p->all; m; m = m->next)
		loop_timer_arm(m->timer, 0);
}

static void release_making(void *arg)
{
	struct making *k = arg;

	classify_table_destroy(k->table);
	free(k->rules);
	free(k);
}

static void start_making(struct match_pool *p)
{
	static const struct worker_task task = {.run = make_table, .done = table_made, .release = release_making};
	struct making *k = xcalloc(1, sizeof(*k));
	struct err e;

	*k = (struct making){.p = p, .rules = p->rules ? xstrdup(p->rules) : NULL};
	p->changed = 0;
	p->making = worker_start(p->workers, &task, k, &e);
	if (p->making)
		return;
	log_error("event=failure_table_not_made reason=\"%s\"", e.text);
	p->changed = 1;
	release_making(k);
}

/* They come again with each session; a new table of the same text would only cost the causes found so far. */
static int has_rules(const struct match_pool *p, const char *text)
{
	return (p->making || (p->table && !p->changed)) &&
	       strcmp(p->rules ? p->rules : "", text ? text : "") == 0;
}

void match_pool_set_rules(struct match_pool *p, const char *text)
{
	if (has_rules(p, text))
		return;
	rules_set(p, text);
	if (!p->making)
		start_making(p);
}

/* ---- the pool --------------------------------------------------------------------------------------- */

struct match_pool *match_pool_create(struct agent_env *env)
{
	static const struct workers_limits limits = {.threads = MATCH_THREADS, .queue = LAUNCHES_MAX};
	struct match_pool *p = xcalloc(1, sizeof(*p));

	p->env = env;
	match_pool_set_budget(p, MATCH_BURST_US, MATCH_SHARE);
	p->workers = workers_create_pool(env->loop, &limits);
	start_making(p);
	return p;
}

void match_pool_set_budget(struct match_pool *p, uint64_t burst_us, uint32_t share)
{
	p->burst_us = burst_us;
	p->share = share;
}

void match_pool_destroy(struct match_pool *p)
{
	if (!p)
		return;
	workers_destroy(p->workers, END_MS);
	failure_table_release(p->table);
	free(p->rules);
	free(p);
}
