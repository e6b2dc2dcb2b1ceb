/*
 * The record of what a library was told: told again to a new one, under each way of backfill, it gives the
 * same decisions, and its own record is the same text (HEARTH_SEED replays one). Lines that are not right are
 * refused with a word why, and never read past their end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/record/record.h"
#include "scheduler/sim/apply.h"
#include "tests/lib/tap.h"

#define NODES 6
#define JOBS  60

static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 11) % n;
}

struct text {
	char *p;
	size_t n, cap;
};

static void keep(const char *line, size_t n, void *arg)
{
	struct text *t = arg;

	while (t->n + n + 1 > t->cap)
		t->p = realloc(t->p, t->cap = t->cap ? 2 * t->cap : 4096);
	memcpy(t->p + t->n, line, n);
	t->n += n;
	t->p[t->n] = '\0';
}

/* ---- what is told ------------------------------------------------------------------------------ */

static void some_node(struct sched *s)
{
	static const char *const labels[] = {"rack=1", "nvlink", NULL};
	struct sched_gpu g[4];
	char name[16];
	uint32_t i = rnd(NODES);
	struct sched_node n = {.id = i + 1,
	                       .name = name,
	                       .instance_type = i % 2 ? "big one" : "small,50%",
	                       .labels = i % 3 ? labels : NULL,
	                       .slots = 8,
	                       .memory_bytes = 64ull << 30,
	                       .gpus = g,
	                       .n_gpus = 4,
	                       .usable = rnd(6) > 0,
	                       .spare = rnd(8) == 0,
	                       .price_per_hour = 0.1 * i,
	                       .power_w = 350.5 * (i % 3),
	                       .switch_name = i % 2 ? "s1" : NULL,
	                       .rack_name = i % 3 ? "r1" : NULL};

	snprintf(name, sizeof(name), "host%u", i + 1);
	for (uint32_t k = 0; k < 4; k++)
		g[k] = (struct sched_gpu){
		    .index = k, .model = "H100 80GB", .memory_bytes = 80ull << 30, .link_group = k / 2 + 1};
	sched_node_set(s, &n);
}

/* It waits, or replaces its places if it holds some. */
static void some_job(struct sched *s)
{
	static const char *const types[] = {"big one", "small,50%", NULL}, *const requires[] = {"nvlink", NULL},
	                         *const avoid[] = {"host2", NULL};
	struct sched_group g[2] = {{1 + rnd(3), rnd(5), 1 + rnd(2), 1 + rnd(2)}, {1, 1, 1, 1}};
	struct sched_dep dep = {1 + rnd(JOBS), (enum sched_after)rnd(3)};
	struct sched_job j = {.id = 1 + rnd(JOBS),
	                      .groups = g,
	                      .n_groups = 1 + !rnd(6),
	                      .queue = rnd(2) ? "a/b" : "a",
	                      .owner = rnd(2) ? "@x=y" : "@\xc3\xa9 +z",
	                      .name = rnd(2) ? "n" : NULL,
	                      .limit_s = 10 + rnd(200),
	                      .believed_s = rnd(2) ? 0 : 1 + rnd(100),
	                      .priority = (int64_t)rnd(3) - 1,
	                      .first = !rnd(9),
	                      .memory_bytes = rnd(2) ? 1ull << 30 : 0,
	                      .exclusive = !rnd(8),
	                      .instance_types = rnd(4) ? NULL : types,
	                      .requires = rnd(6) ? NULL : requires,
	                      .avoid = rnd(6) ? NULL : avoid,
	                      .warm = rnd(2) ? "a b,c" : NULL,
	                      .pool = rnd(9) ? 0 : 2000 + rnd(4),
	                      .keeps = rnd(2) == 0,
	                      .span = (enum sched_span)rnd(SCHED_SPAN_RACK + 1),
	                      .after = &dep,
	                      .n_after = !rnd(5)};

	uint64_t drop[] = {1 + rnd(NODES), 1 + rnd(NODES)};

	j.order = j.id;
	if (sched_job_add(s, &j) < 0)
		sched_job_exchange(s, &j, drop, rnd(3));
}

static void some_step(struct sched *s)
{
	struct sched_decision *d;

	while ((d = sched_step(s))) {
		if (rnd(8))
			sched_job_started(s, d->job);
		else
			sched_job_park(s, d->job);
		sched_decision_free(d);
	}
}

/* Parts of it may be held, or on a node that is not known. */
static void some_pool(struct sched *s, uint64_t now)
{
	uint32_t gpus[] = {rnd(2), 2 + rnd(2)}, cpus[] = {rnd(4), 4 + rnd(5)};
	struct sched_pool_part parts[2];

	for (uint32_t i = 0; i < 2; i++)
		parts[i] = (struct sched_pool_part){.node = 1 + rnd(NODES + 1),
		                                    .n_gpus = rnd(3),
		                                    .gpus = gpus,
		                                    .n_cpus = rnd(3),
		                                    .cpus = cpus,
		                                    .memory_bytes = rnd(2) ? 1ull << 33 : 0,
		                                    .disk_bytes = rnd(2)};
	if (rnd(4))
		sched_pool_set(s, &(struct sched_pool){.id = 2000 + rnd(4),
		                                       .owner = rnd(2) ? "@x=y" : "@\xc3\xa9 +z",
		                                       .warm = rnd(2) ? "a b,c" : NULL,
		                                       .exclusive = !rnd(5),
		                                       .idle_since_s = now,
		                                       .parts = parts,
		                                       .n_parts = rnd(3)});
	else
		sched_pool_remove(s, 2000 + rnd(4));
}

static void some_book(struct sched *s, uint64_t now)
{
	uint64_t nodes[] = {1 + rnd(NODES), 1 + rnd(NODES)};

	sched_reservation_set(s, &(struct sched_reservation){.id = 1 + rnd(3),
	                                                     .from_s = now + rnd(50),
	                                                     .to_s = now + 60 + rnd(50),
	                                                     .queue = rnd(2) ? "a" : NULL,
	                                                     .nodes = nodes,
	                                                     .n_nodes = 2});
}

static void restored(struct sched *s, uint64_t now)
{
	struct sched_group g = {1, 1, 1, 1};
	uint32_t gpus[] = {0, 2}, cpus[] = {1};
	struct sched_place p = {.node = NODES + 1, .n_gpus = 2, .gpus = gpus, .n_cpus = 1, .cpus = cpus};
	struct sched_decision d = {.job = 1000, .n = 1, .places = &p};
	struct sched_job j = {.id = 1000,
	                      .groups = &g,
	                      .n_groups = 1,
	                      .queue = "a",
	                      .owner = "@r",
	                      .limit_s = 900,
	                      .believed_s = 50};

	sched_usage_set(s, "a/@r", 12345.678, now - 5);
	sched_job_restore(s, &j, &d, now - 7);
	d.job = 1001;
	gpus[0] = 1;
	d.places->n_gpus = 1;
	d.places->n_cpus = 0;
	sched_job_holds(s, 1001, &d, 1 << 20, 0, 0);
}

static void one_input(struct sched *s, uint64_t now)
{
	uint64_t job = 1 + rnd(JOBS);

	switch (rnd(17)) {
	case 0:
		some_node(s);
		break;
	case 1:
		sched_job_remove(s, job);
		break;
	case 2:
		sched_job_park(s, job);
		break;
	case 3:
		sched_job_know(s, job);
		break;
	case 4:
		if (!rnd(4))
			sched_node_remove(s, 1 + rnd(NODES));
		break;
	case 5:
		sched_queue_set(s, &(struct sched_queue){rnd(2) ? "a/b" : "a/@x=y", 0.1 + rnd(4),
		                                         rnd(3) ? 0 : 4 + rnd(9), (int)rnd(2)});
		break;
	case 6:
		sched_queue_close(s, "a/b", !rnd(4));
		break;
	case 7:
		if (rnd(2))
			some_book(s, now);
		else
			sched_reservation_remove(s, 1 + rnd(3));
		break;
	case 8:
	case 9:
	case 10:
		sched_job_finished(s, job, (int)rnd(2));
		break;
	case 11:
		sched_job_release_place(s, job, 1 + rnd(NODES));
		break;
	case 12:
		some_pool(s, now);
		break;
	default:
		some_job(s);
	}
}

static void drive(const struct sched_policy *p, struct text *out)
{
	struct sched *s = sched_create();
	struct sched_settled x;
	uint64_t now = 1000;

	sched_policy_set(s, p);
	sched_now(s, now);
	sched_record(s, keep, out);
	restored(s, now);
	for (int i = 0; i < 2000; i++) {
		sched_now(s, now += rnd(3) ? 0 : rnd(20));
		one_input(s, now);
		while (sched_settled(s, &x))
			;
		if (rnd(2))
			some_step(s);
	}
	sched_destroy(s);
}

/* ---- told again -------------------------------------------------------------------------------- */

/* The number of the first line that is answered otherwise, from 1; 0: none. */
static size_t again(const char *p, struct text *out, size_t *starts)
{
	struct sched *s = sched_create();
	struct record_reader *t = record_reader_create();
	size_t line = 0, bad = 0;

	*starts = 0;
	for (const char *e; !bad && (e = strchr(p, '\n')); p = e + 1) {
		const char *what;
		struct record_line in;

		line++;
		if (record_reader_next(t, p, (size_t)(e - p), &in, &what) < 0) {
			tap_diag("line %zu: %s: %.*s", line, what, (int)(e - p), p);
			bad = line;
		} else if (in.kind == LINE_STEP) {
			struct sched_decision *d = sched_step(s);

			*starts += d != NULL;
			if (!record_line_matches(&in, d))
				bad = line;
			sched_decision_free(d);
		} else {
			record_line_apply(s, &in);
			if (in.kind == LINE_POLICY) /* now the new one is on record, from the same line on */
				sched_record(s, keep, out);
		}
	}
	record_reader_destroy(t);
	sched_destroy(s);
	return bad;
}

/* Checks S-102 and S-301. */
static void test_again(const char *name, const struct sched_policy *p)
{
	struct text was = {0}, is = {0};
	size_t starts, bad;

	drive(p, &was);
	bad = again(was.p, &is, &starts);
	ok(bad == 0 && starts > 40, "%s: %zu starts are decided again (first difference: line %zu)", name, starts,
	   bad);
	/* The second record begins with its own time, 0. */
	ok(is.p && strstr(is.p, "now 1000\n") &&
	       strcmp(strstr(is.p, "now 1000\n"), strstr(was.p, "now 1000\n")) == 0,
	   "%s: and are recorded as the same text", name);
	free(was.p);
	free(is.p);
}

/* The comparison can fail: of other weights other starts come. */
static void test_differs(void)
{
	static const char text[] =
	    "policy backfill=2 fair=1 by_limit=1\nqueue q/@a weight=%s\nqueue q/@b weight=1\n"
	    "used q/@a 100 0\nused q/@b 50 0\nnode 1 usable=1 slots=8 gpu=0,0,0,0\n"
	    "job 1 group=1,1,1,1 queue=q owner=@a order=1 limit=60\n"
	    "job 2 group=1,1,1,1 queue=q owner=@b order=2 limit=60\n"
	    "step 2 on=1,0,0,0\n";
	char line[1024];
	struct text none = {0};
	size_t starts;

	snprintf(line, sizeof(line), text, "1");
	is_int(again(line, &none, &starts), 0, "a start that follows from the lines");
	snprintf(line, sizeof(line), text, "900");
	is_int(again(line, &none, &starts), 9, "with other weights it does not");
	free(none.p);
}

static void test_refused(void)
{
	static const struct {
		const char *line, *what;
	} bad[] = {
	    {"what 1", "this word is not known"},
	    {"node", "expected a whole number"},
	    {"node x", "expected a whole number"},
	    {"pool 1 owner=u warm=k exclusive=1 idle=5 part=1,0+1,2+3,4,5", NULL},
	    {"pool 1 part=1,0+1,2+3,4", "expected a whole number"},
	    {"pool 1 on=1,0,0,0", "this key is not known here"},
	    {"pool-remove 1", NULL},
	    {"pool-remove 1 2", "expected key=value"},
	    {"step 1 on=1,0,0,0,7", NULL},
	    {"node 1 slots", "expected key=value"},
	    {"node 1 slots=4294967296", "the number is too large"},
	    {"node 1 colour=red", "this key is not known here"},
	    {"node 1 name=a%2", "expected two digits 0-9 A-F, not both 0, behind %"},
	    {"node 1 name=a%00", "expected two digits 0-9 A-F, not both 0, behind %"},
	    {"node 1 gpu=0,1", "expected a whole number"},
	    {"node 1 price=1.5", "expected a number"},
	    {"node 1 price=1p9999", "expected a power of two behind p"},
	    {"node 1 usable=2", "expected 0 or 1"},
	    {"job 1", "a job without group"},
	    {"job 1 group=1,1,1", "expected a whole number"},
	    {"job 1 group=4000000000,1,1,1", "too many instances"},
	    {"job 1 group=1,1,1,1 span=7", "no such span"},
	    {"job 1 group=1,1,1,1 after=2,9", "no such way to wait for a job"},
	    {"job 99999999999999999999 group=1,1,1,1", "expected a whole number"},
	    {"policy backfill=9", "no such way of backfill"},
	    {"queue ", "a queue without name"},
	    {"step 1 on=1,0,0+", NULL},
	    {"step 1 on=1,0,a", "expected a whole number"},
	    {"step 1 on=1,0,1,2 3", "expected key=value"},
	    {"end 1 2", "expected 0 or 1"},
	    {"end 1 1 x=1", "more words than belong here"},
	};
	struct record_reader *t = record_reader_create();

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *what = NULL;
		struct record_line in;
		int rc = record_reader_next(t, bad[i].line, strlen(bad[i].line), &in, &what);

		if (bad[i].what)
			ok(rc < 0 && what && strcmp(what, bad[i].what) == 0, "refused: %s (%s)", bad[i].line,
			   what ? what : "-");
		else
			ok(rc == 0, "taken: %s", bad[i].line);
	}
	record_reader_destroy(t);
}

/* Any cut or changed byte gives an answer, and is told or refused. */
static void test_mangled(void)
{
	struct sched_policy p = {.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1};
	struct text was = {0};
	struct record_reader *t = record_reader_create();
	size_t taken = 0, refused = 0;

	drive(&p, &was);
	for (char *at = was.p, *e; (e = strchr(at, '\n')); at = e + 1) {
		size_t n = (size_t)(e - at);
		char *line = malloc(n + 1); /* of exact size: reading past it is seen by a sanitizer */
		const char *what;
		struct record_line in;

		memcpy(line, at, n);
		if (n)
			line[rnd((uint32_t)n)] = (char)(rnd(3) ? " =,+%0p"[rnd(7)] : (int)rnd(256));
		if (record_reader_next(t, line, n ? n - rnd((uint32_t)n) : 0, &in, &what) < 0)
			refused++;
		else
			taken++;
		free(line);
	}
	ok(taken > 100 && refused > 100, "%zu damaged lines refused, %zu still lines", refused, taken);
	record_reader_destroy(t);
	free(was.p);
}

int main(void)
{
	const char *seed = getenv("HEARTH_SEED");

	rng = seed ? strtoull(seed, NULL, 0) : 0x9e3779b97f4a7c15u;
	for (int i = 0; i < 3; i++) {
		test_again("easy", &(struct sched_policy){
		                       .backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1, .effort = 200000});
		test_again("none", &(struct sched_policy){
		                       .backfill = SCHED_BLOCK, .fair = 1, .by_limit = 1, .starve_s = 300});
		test_again("conservative",
		           &(struct sched_policy){.backfill = SCHED_CONSERVATIVE, .fair = 1, .by_limit = 1});
		test_again("learned run times", &(struct sched_policy){.backfill = SCHED_RESERVE, .caution = 2.3});
	}
	test_differs();
	test_refused();
	test_mangled();
	return tap_done();
}
