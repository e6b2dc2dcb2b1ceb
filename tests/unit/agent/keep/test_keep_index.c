/* keep_index: what the next agent knows of a launch: what is held, and what was held before. */
#include "agent/keep/keep_index.h"

#include <stdlib.h>

#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

static void add(struct keep_index *x, uint64_t seq, const char *name, uint64_t at_us)
{
	const struct keep_done d = keep_done_of(name, 0xfedcba9876543210u + seq, at_us);

	*keep_index_add(x) = (struct keep_entry){.seq = seq,
	                                         .step = (int64_t)seq,
	                                         .name = xstrdup(name),
	                                         .format = xstrdup("plain"),
	                                         .step_by = xstrdup("name"),
	                                         .uri = xstrdup(""),
	                                         .at_us = at_us,
	                                         .print = d.print};
	keep_done_add(x->done, &x->n_done, &d);
}

static void test_next_agent(void)
{
	struct keep_index *x = xcalloc(1, sizeof(*x)), *got = xcalloc(1, sizeof(*got));
	struct err e;

	x->next_seq = 3;
	add(x, 1, "ckpt-10.pt", 10);
	add(x, 2, "ckpt-20.pt", 20);
	keep_index_drop(x, 1, "/share/x");
	ok(keep_index_save(x, tap_tmpdir(), &e) == 0, "an index is saved");
	ok(keep_index_load(got, tap_tmpdir(), &e) == 0, "and loaded");
	is_int((long)got->n, 1, "it has what is held");
	is_int((long)got->n_done, 2, "and what was");
	ok(got->done[0].print == x->done[0].print && got->done[0].name == keep_done_of("ckpt-10.pt", 0, 0).name,
	   "with print and name");
	ok(got->n_removing == 1 && got->removing[0].seq == 1, "and what is being removed");
	is_str(got->removing[0].copy, "/share/x", "with its copy");
	is_int(keep_index_removed(got, 1), 1, "until it is done");
	is_int(keep_index_removed(got, 1), 0, "once");
	ok(got->done[0].changed_us == 10, "and its last change");
	ok(got->done[0].family == got->done[1].family, "whose family is one");
	for (unsigned i = 0; i < KEEP_DONE; i++)
		keep_done_add(got->done, &got->n_done, &x->done[1]);
	is_int((long)got->n_done, KEEP_DONE, "the oldest of too many goes");
	ok(got->done[0].print == x->done[1].print, "and no other one");
	ok(keep_index_save(got, tap_tmpdir(), &e) == 0, "a full one is saved");
	keep_index_fini(got);
	ok(keep_index_load(got, tap_tmpdir(), &e) == 0 && got->n_done == KEEP_DONE, "and loaded");
	keep_index_fini(got);
	keep_index_fini(x);
	free(got);
	free(x);
}

/* A checkpoint without a number in its name has the step that was reported last. */
static void test_steps(void)
{
	struct keep_index *x = xcalloc(1, sizeof(*x)), *got = xcalloc(1, sizeof(*got));
	struct keep_moment *m = xcalloc(1, sizeof(*m));
	struct err e;

	for (int64_t i = 0; i < 40; i++)
		m->steps[m->n_steps++] = (struct keep_step){.at_us = 1700000000000000u + (uint64_t)i, .step = i};
	keep_index_set_steps(x, m);
	ok(keep_index_save(x, tap_tmpdir(), &e) == 0 && keep_index_load(got, tap_tmpdir(), &e) == 0,
	   "an index with reported steps");
	is_int((long)got->n_steps, KEEP_SAVED_STEPS, "has the newest");
	is_int((long)got->steps[0].step, 24, "in the order of time");
	ok(got->steps[15].step == 39 && got->steps[15].at_us == 1700000000000039u, "with their times");
	m->n_steps = 2;
	keep_index_set_steps(x, m);
	is_int((long)x->n_steps, 2, "or all, when there are few");
	keep_index_fini(got);
	keep_index_fini(x);
	free(got);
	free(x);
	free(m);
}

static void test_order(void)
{
	struct keep_index *x = xcalloc(1, sizeof(*x));

	add(x, 1, "ckpt-30.pt", 30);
	add(x, 2, "ckpt-20.pt", 20);
	add(x, 3, "ckpt-20b.pt", 20);
	ok(keep_entry_newer(&x->v[0], &x->v[1]), "the later save is newer, though it was found first");
	ok(!keep_entry_newer(&x->v[1], &x->v[0]), "and not the other");
	ok(keep_entry_newer(&x->v[2], &x->v[1]), "of one time: that with the higher number");
	keep_index_fini(x);
	free(x);
}

int main(void)
{
	test_next_agent();
	test_order();
	test_steps();
	return tap_done();
}
