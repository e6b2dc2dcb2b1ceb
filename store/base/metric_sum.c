/*
 * metric_sum: see metric_sum.h. Rows of one name come together, those of its newest attempt first: the first
 * attempt in which the wanted rank stands is the one.
 */
#include "store/base/metric_sum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/codec.h"
#include "store/base/sqlh.h"

struct walk {
	struct metric_sum s; /* of the attempt being read */
	int64_t wanted;
	int found;          /* the wanted rank was in it */
	int told;           /* of this name already: older attempts follow */
	uint32_t last_rank; /* of the row before */
};

double metric_real(sqlite3_stmt *st, int col)
{
	int64_t bits = sqlite3_column_int64(st, col);
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static void take_row(struct walk *w, sqlite3_stmt *st)
{
	uint32_t rank = sqlh_u32(st, 8);

	w->s.ranks += w->s.ranks == 0 || rank != w->last_rank;
	w->last_rank = rank;
	if (w->wanted >= 0 && rank != w->wanted)
		return;
	if (!w->found) {
		w->found = 1;
		w->s.rank = rank;
		w->s.last = metric_real(st, 2);
		w->s.min = w->s.max = NAN;
		w->s.step = sqlite3_column_int64(st, 5);
		w->s.last_us = sqlh_u64(st, 6);
	}
	/* Two nodes of one rank and attempt: one that was replaced before its start. */
	if (rank == w->s.rank) {
		w->s.points += sqlh_u64(st, 1);
		w->s.min = fmin(w->s.min, metric_real(st, 3));
		w->s.max = fmax(w->s.max, metric_real(st, 4));
	}
}

static int tell(struct walk *w, int (*fn)(const struct metric_sum *, void *), void *arg)
{
	if (!w->s.name || !w->found || w->told)
		return 0;
	w->told = 1;
	return fn(&w->s, arg);
}

int metric_sums(sqlite3_stmt *st, int64_t rank, int (*fn)(const struct metric_sum *sum, void *arg), void *arg,
                struct err *e)
{
	struct walk w = {.wanted = rank};
	int rc = 0, failed = 0;

	while (!failed && (rc = sqlh_step(st, e)) > 0) {
		int same = w.s.name && strcmp(w.s.name, sqlh_str(st, 0)) == 0;

		if (!same || w.s.attempt != sqlh_u32(st, 7)) {
			char *name = same ? w.s.name : sqlh_dup(st, 0), *old = same ? NULL : w.s.name;

			failed = tell(&w, fn, arg) < 0;
			free(old);
			w = (struct walk){
			    .s = {.name = name, .attempt = sqlh_u32(st, 7)}, .wanted = rank, .told = same && w.told};
		}
		take_row(&w, st);
	}
	if (!failed && rc == 0)
		failed = tell(&w, fn, arg) < 0;
	free(w.s.name);
	return failed || rc < 0 ? -1 : 0;
}
