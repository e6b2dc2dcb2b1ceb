/*
 * replay: events against rows. A job's events are applied to an empty record; what comes out must be the rows
 * that the store has of the job, of each of its attempts and of each rank. Tokens of launches are in no
 * event: they are secret.
 */
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "controller/record/replay_seen.h"
#include <stdio.h>
#include <string.h>

static int same(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static int number_differs(const char *name, int64_t mine, int64_t row, char *why, size_t n)
{
	if (mine == row)
		return 0;
	return replay_say(why, n, "%s: events give %lld, the row has %lld", name, (long long)mine,
	                  (long long)row);
}

static int text_differs(const char *name, const char *mine, const char *row, char *why, size_t n)
{
	if (same(mine, row))
		return 0;
	return replay_say(why, n, "%s: events give \"%.80s\", the row has \"%.80s\"", name, mine ? mine : "",
	                  row ? row : "");
}

#define DIFFER_TEXT                         text_differs
#define DIFFER_NULLABLE                     text_differs
#define DIFFER_FILLED                       text_differs
#define DIFFER_U64(name, mine, row, why, n) number_differs(name, (int64_t)(mine), (int64_t)(row), why, n)
#define DIFFER_U32                          number_differs
#define DIFFER_U8                           number_differs
#define DIFFER_I64                          number_differs

#define COMPARE(kind, name)                                                                                  \
	if (DIFFER_##kind(#name, mine->name, row->name, why, n) < 0)                                             \
		return -1;
#define COMPARE_SAME(kind, name) COMPARE(kind, name)
#define COMPARE_MADE(kind, name) COMPARE(kind, name)
#define COMPARE_UNSEEN(kind, name)
#define COMPARE_KEY(kind, name)
#define COMPARE_COLUMN(kind, name, how) COMPARE_##how(kind, name)

static int job_fields(const struct job_row *mine, const struct job_row *row, char *why, size_t n)
{
	JOB_TABLE(COMPARE_COLUMN, COMPARE_COLUMN)
	return 0;
}

static int attempt_fields(const struct attempt_row *mine, const struct attempt_row *row, char *why, size_t n)
{
	ATTEMPT_TABLE(COMPARE_COLUMN, COMPARE_COLUMN)
	return 0;
}

static int rank_fields(const struct rank_row *mine, const struct rank_row *row, char *why, size_t n)
{
	RANK_TABLE(COMPARE_COLUMN, COMPARE_COLUMN)
	return 0;
}

static int job_differs(const struct job_rec *r, const struct job_row *row, char *why, size_t n)
{
	char digest[HASH_HEX_SIZE];
	struct job_row mine;

	rec_job_row(r, &mine);
	if (job_fields(&mine, row, why, n) < 0)
		return -1;
	if (row->spec && r->spec_sha256) {
		hash_hex(row->spec, strlen(row->spec), digest);
		if (!same(digest, r->spec_sha256))
			return replay_say(why, n, "spec: its SHA-256 is not the one of the submit");
	}
	return 0;
}

static int attempt_differs(const struct job_rec *r, const struct attempt_row *row, char *why, size_t n)
{
	struct attempt_row mine;
	char text[200];
	int rc;

	rec_attempt_row(r, &mine);
	rc = attempt_fields(&mine, row, text, sizeof text);
	attempt_row_borrowed_fini(&mine);
	return rc < 0 ? replay_say(why, n, "attempt %u: %s", row->number, text) : 0;
}

static int rank_differs(const struct job_rec *r, const struct rank_row *row, char *why, size_t n)
{
	struct rank_row mine;
	char text[200];

	rec_rank_row(r, row->rank, &mine);
	return rank_fields(&mine, row, text, sizeof text) < 0
	           ? replay_say(why, n, "attempt %u: rank %u: %s", row->attempt, row->rank, text)
	           : 0;
}

struct replay {
	struct job_rec r;
	struct attempt_rec **past; /* attempts before the newest, by number */
	uint32_t n_past;
	char bad[256]; /* first event that could not be applied */
};

/* Ranks that wait have no row yet. */
static int ranks_differ(const struct job_rec *r, const struct store_job_rows *rows, size_t *at, char *why,
                        size_t n)
{
	const struct attempt_rec *a = r->att;

	for (uint32_t i = 0; i < a->n_ranks; i++) {
		const struct rank_row *row = *at < rows->n_ranks ? &rows->ranks[*at] : NULL;

		if (row && row->attempt == a->number && row->rank == i) {
			++*at;
			if (rank_differs(r, row, why, n) < 0)
				return -1;
		} else if (a->ranks[i].state != RANK_WAITING) {
			return replay_say(why, n, "attempt %u: rank %u has no row", a->number, i);
		}
	}
	return 0;
}

static int attempts_differ(const struct replay *p, const struct store_job_rows *rows, char *why, size_t n)
{
	struct job_rec r = {.id = p->r.id};
	size_t at = 0;

	if (rows->n_attempts != p->r.attempts)
		return replay_say(why, n, "events give %u attempts, there are rows of %zu", p->r.attempts,
		                  rows->n_attempts);
	for (uint32_t i = 0; i < p->r.attempts; i++) {
		r.att = i < p->n_past ? p->past[i] : p->r.att;
		if (!r.att || r.att->number != i + 1)
			return replay_say(why, n, "attempt %u has no events", i + 1);
		if (rows->attempts[i].number != i + 1)
			return replay_say(why, n, "attempt %u has no row", i + 1);
		if (attempt_differs(&r, &rows->attempts[i], why, n) < 0 || ranks_differ(&r, rows, &at, why, n) < 0)
			return -1;
	}
	if (at < rows->n_ranks)
		return replay_say(why, n, "attempt %u: a row of rank %u, which it does not have",
		                  rows->ranks[at].attempt, rows->ranks[at].rank);
	return 0;
}

static void apply_row(struct replay *p, const struct event_row *ev)
{
	int t = event_find(ev->type);
	struct err e;
	cJSON *data;

	p->r.id = ev->job;
	if (p->bad[0])
		return;
	if (t < 0) {
		snprintf(p->bad, sizeof p->bad, "event %llu: unknown type \"%.60s\"", (unsigned long long)ev->id,
		         ev->type ? ev->type : "");
		return;
	}
	if (t == EV_PLACED && p->r.att) { /* a record holds the newest only */
		p->past = xrealloc(p->past, (p->n_past + 1) * sizeof *p->past);
		p->past[p->n_past++] = p->r.att;
		p->r.att = NULL;
	}
	data = replay_data(ev, e.text, sizeof e.text);
	if (!data || event_apply(&p->r, (enum event_type)t, ev->attempt, ev->at_us, data, &e) < 0)
		snprintf(p->bad, sizeof p->bad, "event %llu: %.200s", (unsigned long long)ev->id, e.text);
	cJSON_Delete(data);
}

static int compare(const struct replay *p, const struct store_job_rows *rows, char *why, size_t n)
{
	if (p->bad[0])
		return replay_say(why, n, "%s", p->bad);
	if (!p->r.created_us)
		return replay_say(why, n, "the job has no events");
	if (job_differs(&p->r, rows->job, why, n) < 0 || attempts_differ(p, rows, why, n) < 0)
		return -1;
	return rec_check(&p->r) ? replay_say(why, n, "%s", rec_check(&p->r)) : 0;
}

int event_reducer(void **state, const struct event_row *ev, const struct store_job_rows *rows, char *why,
                  size_t why_size, void *arg)
{
	struct replay *p = *state ? *state : xcalloc(1, sizeof *p);
	int rc;

	(void)arg;
	*state = p;
	if (ev) {
		apply_row(p, ev);
		return 0;
	}
	rc = compare(p, rows, why, why_size);
	rec_fini(&p->r);
	for (uint32_t i = 0; i < p->n_past; i++)
		attempt_rec_free(p->past[i]);
	free(p->past);
	free(p);
	*state = NULL;
	return rc;
}
