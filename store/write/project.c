/*
 * project: the tables for search, written behind the records.
 *
 * A step takes the events above the mark, gathers their jobs, writes those jobs' rows in order of their ids
 * and moves the mark, in one transaction: after a crash it begins again where the mark stands, and doing a
 * job twice gives the same rows. Hyperparameters never change, so the specification is read once a job; a job
 * may get another name; tags are read again when the job has changes of tags. Summaries of metrics have a
 * list of their own (metric_dirty), as points come without events. The end of a job also merges its series
 * and enters it among those that retention looks at.
 */
#include "store/write/project.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/secret.h"
#include "common/base/xalloc.h"
#include "store/base/codec.h"
#include "store/base/metric_sum.h"
#include "store/base/rows.h"
#include "store/base/sqlh.h"
#include "store/base/status.h"
#include "store/base/tags.h"
#include "store/write/series.h"
#include "store/write/wdb.h"
#include "store/write/writer.h"

#define STEP_SERIES 256 /* jobs whose summaries are written in one step */

/* Everything that is prepared for one step. */
enum {
	P_JOB,
	P_IX,
	P_HP_NUM,
	P_HP_TEXT,
	P_HP_NUMS,
	P_HP_TEXTS,
	P_TAG_CLEAR,
	P_TAG,
	P_HOLD,
	P_UNHOLD,
	P_SUM,
	P_SUM_CLEAR,
	P_SUM_SRC,
	P_CLEAN,
	P_N
};
#define HP_ROWS   16
#define HP_4      "(?,?,?),(?,?,?),(?,?,?),(?,?,?)"
#define HP_VALUES HP_4 "," HP_4 "," HP_4 "," HP_4
static const char *const sqls[P_N] = {
    [P_JOB] = "SELECT owner, name, experiment, status, ended_us, deleted, (SELECT spec FROM job_spec s WHERE "
              "s.id = job.id), "
              "ifnull((SELECT what FROM dropped d WHERE d.job = job.id), 0), "
              "EXISTS (SELECT 1 FROM job_ix i WHERE i.job = job.id), "
              "EXISTS (SELECT 1 FROM tag t WHERE t.job = job.id), "
              "EXISTS (SELECT 1 FROM job_ix i WHERE i.job = job.id AND i.owner IS job.owner AND i.name IS "
              "job.name AND i.experiment IS job.experiment), pinned FROM job WHERE id = ?",
    [P_IX] = "INSERT OR REPLACE INTO job_ix VALUES (?,?,?,?)",
    [P_HP_NUM] = "INSERT OR IGNORE INTO hp_num VALUES (?,?,?)",
    [P_HP_TEXT] = "INSERT OR IGNORE INTO hp_text VALUES (?,?,?)",
    /* HP_ROWS at once: beginning and ending a statement costs as much as a row. */
    [P_HP_NUMS] = "INSERT OR IGNORE INTO hp_num VALUES " HP_VALUES,
    [P_HP_TEXTS] = "INSERT OR IGNORE INTO hp_text VALUES " HP_VALUES,
    [P_TAG_CLEAR] = "DELETE FROM tag_ix WHERE job = ?",
    [P_TAG] = "INSERT INTO tag_ix VALUES (?,?,?)",
    [P_HOLD] = "INSERT OR REPLACE INTO holding VALUES (?,?,?)",
    [P_UNHOLD] = "DELETE FROM holding WHERE job = ?",
    [P_SUM] = "INSERT OR REPLACE INTO metric_sum VALUES (?,?,?,?,?,?,?,?,?,?)",
    [P_SUM_CLEAR] = "DELETE FROM metric_sum WHERE job = ?",
    [P_SUM_SRC] =
        "SELECT " METRIC_SUM_COLUMNS " FROM metric_series WHERE job = ? AND points > 0 " METRIC_SUM_ORDER,
    [P_CLEAN] = "DELETE FROM metric_dirty WHERE job = ?",
};

struct hp_name { /* once for all the jobs of a step: most have the same */
	char *text;
	UT_hash_handle hh;
};

struct hp {           /* a row to come */
	const char *name; /* of a struct hp_name: equal names are one pointer */
	char *text;       /* NULL: num counts */
	double num;
	uint64_t job;
};

struct step {
	struct wdb *w;
	sqlite3_stmt **st;
	struct hp_name *names;
	struct hp *hps;
	size_t n_hps, cap_hps;
};

static int step_open(struct step *s, struct wdb *w, struct err *e)
{
	memset(s, 0, sizeof(*s));
	s->w = w;
	s->st = w->proj;
	_Static_assert(P_N <= sizeof(w->proj) / sizeof(w->proj[0]), "room for the statements");
	for (int i = 0; i < P_N; i++) {
		if (!w->proj[i])
			w->proj[i] = sqlh_prepare(w->db, sqls[i], e);
		if (!w->proj[i])
			return -1;
	}
	return 0;
}

static void step_close(struct step *s)
{
	struct hp_name *name, *tmp;

	for (size_t i = 0; i < s->n_hps; i++)
		free(s->hps[i].text);
	free(s->hps);
	HASH_ITER (hh, s->names, name, tmp) {
		HASH_DEL(s->names, name);
		free(name->text);
		free(name);
	}
}

static int run_for(sqlite3_stmt *st, uint64_t job, struct err *e)
{
	sqlite3_bind_int64(st, 1, (int64_t)job);
	return sqlh_run(st, e);
}

/* ---- hyperparameters: gathered, sorted, written: neighbours in the tree are written one after the other
 * ---------- */

static const char *one_name(struct step *s, const char *text)
{
	struct hp_name *name;

	HASH_FIND_STR(s->names, text, name);
	if (!name) {
		name = xcalloc(1, sizeof(*name));
		name->text = xstrdup(text);
		HASH_ADD_KEYPTR(hh, s->names, name->text, strlen(text), name);
	}
	return name->text;
}

static void add_hps(struct step *s, uint64_t job, const cJSON *spec)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, cJSON_GetObjectItemCaseSensitive(spec, "hyperparameters")) {
		struct hp *hp;

		/* Else searching would tell it by trying. */
		if (!v->string || secret_name(v->string))
			continue;
		if (s->n_hps == s->cap_hps) {
			s->cap_hps = s->cap_hps ? s->cap_hps * 2 : 256;
			s->hps = xreallocarray(s->hps, s->cap_hps, sizeof(*s->hps));
		}
		hp = &s->hps[s->n_hps++];
		*hp = (struct hp){one_name(s, v->string), NULL, v->valuedouble, job};
		if (cJSON_IsString(v))
			hp->text = secret_text(v->valuestring);
		else if (!cJSON_IsNumber(v))
			hp->text = json_text(v);
	}
}

static int by_tree(const void *a, const void *b)
{
	const struct hp *x = a, *y = b;
	int c = (x->text != NULL) - (y->text != NULL);

	if (!c && x->name != y->name)
		c = strcmp(x->name, y->name);
	if (!c && x->text)
		c = strcmp(x->text, y->text);
	else if (!c)
		c = (x->num > y->num) - (x->num < y->num);
	return c ? c : (x->job > y->job) - (x->job < y->job);
}

static int put_hp_rows(sqlite3_stmt *st, const struct hp *hp, int n, struct err *e)
{
	for (int i = 0; i < n; i++, hp++) {
		sqlh_bind_str(st, i * 3 + 1, hp->name);
		if (hp->text)
			sqlh_bind_str(st, i * 3 + 2, hp->text);
		else
			sqlite3_bind_double(st, i * 3 + 2, hp->num);
		sqlite3_bind_int64(st, i * 3 + 3, (int64_t)hp->job);
	}
	return sqlh_run(st, e);
}

static int put_hps(struct step *s, struct err *e)
{
	int n;

	if (s->n_hps)
		qsort(s->hps, s->n_hps, sizeof(*s->hps), by_tree);
	for (size_t i = 0; i < s->n_hps; i += (size_t)n) {
		const struct hp *hp = &s->hps[i];
		int text = hp->text != NULL, many;

		/* All numbers stand before all texts. */
		many = s->n_hps - i >= HP_ROWS && (hp[HP_ROWS - 1].text != NULL) == text;
		n = many ? HP_ROWS : 1;
		if (put_hp_rows(s->st[many ? P_HP_NUMS + text : P_HP_NUM + text], hp, n, e) < 0)
			return -1;
	}
	return 0;
}

/* known: rows of it may be there; changed: its tags are not those of the specification any more. Most jobs
 * are new and have none. */
static int put_tags(struct step *s, uint64_t job, const cJSON *spec, int known, int changed, struct err *e)
{
	cJSON *tags = changed ? tags_of(s->w->db, job, spec, e) : tags_of_spec(spec);
	const cJSON *v;
	int rc = !tags ? -1 : known ? run_for(s->st[P_TAG_CLEAR], job, e) : 0;

	cJSON_ArrayForEach (v, tags) {
		sqlite3_bind_int64(s->st[P_TAG], 1, (int64_t)job);
		sqlh_bind_str(s->st[P_TAG], 2, v->string);
		sqlh_bind_str(s->st[P_TAG], 3, v->valuestring);
		if (rc == 0)
			rc = sqlh_run(s->st[P_TAG], e);
	}
	cJSON_Delete(tags);
	return rc;
}

static int put_ix(struct step *s, uint64_t job, sqlite3_stmt *row, struct err *e)
{
	sqlite3_stmt *st = s->st[P_IX];

	sqlite3_bind_int64(st, 1, (int64_t)job);
	for (int i = 0; i < 3; i++)
		sqlite3_bind_value(st, 2 + i, sqlite3_column_value(row, i));
	return sqlh_run(st, e);
}

static int put_ended(struct step *s, uint64_t job, unsigned dropped, int pinned, int64_t ended_us,
                     struct err *e)
{
	sqlite3_stmt *st = s->st[P_HOLD];

	if ((STORE_ALL & ~dropped) == 0)
		return run_for(s->st[P_UNHOLD], job, e);
	if (pinned)
		return run_for(s->st[P_UNHOLD], job, e) < 0 ? -1 : series_merge_job(s->w, job, e);
	sqlite3_bind_int64(st, 1, (int64_t)job);
	sqlite3_bind_int64(st, 2, (int64_t)(STORE_ALL & ~dropped));
	sqlite3_bind_int64(st, 3, ended_us);
	if (sqlh_run(st, e) < 0)
		return -1;
	return series_merge_job(s->w, job, e);
}

/* row: P_JOB. */
static int put_job(struct step *s, uint64_t job, sqlite3_stmt *row, struct err *e)
{
	int known = sqlite3_column_int(row, 8), changed = sqlite3_column_int(row, 9), rc = 0;
	const char *text = sqlh_str(row, 6);
	int64_t ended_us = sqlite3_column_int64(row, 4);
	cJSON *spec = NULL;

	if (!known || changed) {
		spec = text ? cJSON_Parse(text) : NULL; /* was looked at closely when it was submitted */
		rc = put_tags(s, job, spec, known, changed, e);
	}
	if (rc == 0 && !known)
		add_hps(s, job, spec);
	if (rc == 0 && !sqlite3_column_int(row, 10))
		rc = put_ix(s, job, row, e);
	cJSON_Delete(spec);
	if (rc < 0)
		return -1;
	if (sqlite3_column_int64(row, 5) && run_for(s->st[P_SUM_CLEAR], job, e) < 0)
		return -1;
	if (!status_ended(sqlh_str(row, 3)))
		return known ? run_for(s->st[P_UNHOLD], job, e) : 0;
	return put_ended(s, job, (unsigned)sqlite3_column_int64(row, 7), sqlite3_column_int(row, 11), ended_us,
	                 e);
}

static int project_job(struct step *s, uint64_t job, struct err *e)
{
	sqlite3_stmt *row = s->st[P_JOB];
	int rc;

	sqlite3_bind_int64(row, 1, (int64_t)job);
	rc = sqlh_step(row, e);
	if (rc > 0)
		rc = put_job(s, job, row, e);
	sqlite3_reset(row);
	return rc;
}

/* ---- summaries of metrics ------------------------------------------------------------------------ */

static void bind_real(sqlite3_stmt *st, int ix, double v)
{
	sqlite3_bind_double(st, ix, v); /* NaN becomes NULL there, as the column says */
}

struct sums {
	sqlite3_stmt *st; /* P_SUM */
	uint64_t job;
	struct err *e;
};

static int put_sum(const struct metric_sum *sum, void *arg)
{
	struct sums *s = arg;
	sqlite3_stmt *st = s->st;
	int rc;

	sqlite3_bind_int64(st, 1, (int64_t)s->job);
	sqlh_bind_str(st, 2, sum->name);
	bind_real(st, 3, sum->last);
	bind_real(st, 4, sum->min);
	bind_real(st, 5, sum->max);
	sqlite3_bind_int64(st, 6, (int64_t)sum->points);
	if (sum->step < 0)
		sqlite3_bind_null(st, 7);
	else
		sqlite3_bind_int64(st, 7, sum->step);
	sqlite3_bind_int64(st, 8, sum->attempt);
	sqlite3_bind_int64(st, 9, sum->rank);
	sqlite3_bind_int64(st, 10, sum->ranks);
	rc = sqlh_run(st, s->e);
	sqlite3_clear_bindings(st);
	return rc;
}

static int sum_job(struct step *s, uint64_t job, struct err *e)
{
	sqlite3_stmt *src = s->st[P_SUM_SRC];
	struct sums sums = {s->st[P_SUM], job, e};
	int rc;

	sqlite3_bind_int64(src, 1, (int64_t)job);
	rc = metric_sums(src, -1, put_sum, &sums, e);
	sqlite3_reset(src);
	return rc < 0 ? -1 : run_for(s->st[P_CLEAN], job, e);
}

int project_metrics(struct wdb *w, uint64_t job, struct err *e)
{
	struct step s;
	int rc = step_open(&s, w, e) < 0 ? -1 : sum_job(&s, job, e);

	step_close(&s);
	return rc;
}

/* ---- steps ------------------------------------------------------------------------------------------- */

struct jobs {
	uint64_t *v;
	size_t n, cap;
};

static void jobs_add(struct jobs *j, uint64_t id)
{
	if (j->n == j->cap) {
		j->cap = j->cap ? j->cap * 2 : 256;
		j->v = xreallocarray(j->v, j->cap, sizeof(*j->v));
	}
	j->v[j->n++] = id;
}

static int by_id(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void jobs_sort(struct jobs *j)
{
	size_t n = 0;

	if (j->n)
		qsort(j->v, j->n, sizeof(*j->v), by_id);
	for (size_t i = 0; i < j->n; i++)
		if (n == 0 || j->v[n - 1] != j->v[i])
			j->v[n++] = j->v[i];
	j->n = n;
}

/* Jobs of the events after the mark; *mark moves to the last one read. */
static int changed_jobs(struct wdb *w, size_t limit, struct jobs *out, uint64_t *mark, struct err *e)
{
	sqlite3_stmt *st = sqlh_prepare(w->db, "SELECT id, job FROM event WHERE id > ? ORDER BY id LIMIT ?", e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)*mark);
	sqlite3_bind_int64(st, 2, (int64_t)limit);
	while ((rc = sqlh_step(st, e)) > 0) {
		*mark = sqlh_u64(st, 0);
		if (sqlh_u64(st, 1))
			jobs_add(out, sqlh_u64(st, 1));
	}
	sqlite3_finalize(st);
	return rc;
}

static int dirty_jobs(struct wdb *w, struct jobs *out, struct err *e)
{
	sqlite3_stmt *st = sqlh_prepare(w->db, "SELECT job FROM metric_dirty ORDER BY job LIMIT ?", e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, STEP_SERIES);
	while ((rc = sqlh_step(st, e)) > 0)
		jobs_add(out, sqlh_u64(st, 0));
	sqlite3_finalize(st);
	return rc;
}

static int move_mark(struct wdb *w, uint64_t mark, struct err *e)
{
	char sql[80];

	snprintf(sql, sizeof(sql), "UPDATE projected SET event = %" PRIu64, mark);
	return sqlh_exec(w->db, sql, e);
}

static int write_step(struct step *s, const struct jobs *jobs, const struct jobs *dirty, uint64_t mark,
                      struct err *e)
{
	for (size_t i = 0; i < dirty->n; i++)
		if (sum_job(s, dirty->v[i], e) < 0)
			return -1;
	for (size_t i = 0; i < jobs->n; i++)
		if (project_job(s, jobs->v[i], e) < 0)
			return -1;
	if (put_hps(s, e) < 0)
		return -1;
	if (series_merge_due(s->w, e) < 0)
		return -1;
	return mark == s->w->projected ? 0 : move_mark(s->w, mark, e);
}

int project_waiting(const struct wdb *w)
{
	return w->projected < w->last_event || w->metrics_dirty || w->n_to_merge;
}

/* CPU time of this thread: on a busy machine time passes without a step. */
static uint64_t cpu_us(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000u +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

int project_step(struct wdb *w, size_t max_events, struct err *e)
{
	struct jobs jobs = {0}, dirty = {0};
	uint64_t mark = w->projected, start_us = cpu_us();
	struct step s = {0};
	int rc;

	if (!project_waiting(w))
		return 0;
	rc = changed_jobs(w, max_events, &jobs, &mark, e) < 0 ||
	             (w->metrics_dirty && dirty_jobs(w, &dirty, e) < 0) || wdb_begin(w, e) < 0
	         ? -1
	         : 0;
	if (rc == 0) {
		jobs_sort(&jobs);
		rc = step_open(&s, w, e) < 0 || write_step(&s, &jobs, &dirty, mark, e) < 0 ? -1 : 0;
		step_close(&s);
		w->step_us = cpu_us() - start_us;
		if (rc == 0)
			rc = wdb_commit(w, e);
		if (rc < 0)
			wdb_rollback(w);
	}
	if (rc == 0) {
		w->projected = mark;
		w->metrics_dirty = dirty.n == STEP_SERIES;
		rc = project_waiting(w);
	}
	w->n_to_merge = 0; /* a series that cannot be merged (damaged) must not stop the rest: it asks again with
	                      its next chunk */
	free(jobs.v);
	free(dirty.v);
	return rc;
}

int project_reset(struct wdb *w, struct err *e)
{
	static const char sql[] = "DELETE FROM job_ix; DELETE FROM hp_num; DELETE FROM hp_text; DELETE FROM "
	                          "tag_ix; DELETE FROM holding;"
	                          "DELETE FROM metric_sum WHERE job IN (SELECT job FROM metric_series);"
	                          "INSERT OR IGNORE INTO metric_dirty SELECT DISTINCT job FROM metric_series; "
	                          "UPDATE projected SET event = 0;";

	if (wdb_begin(w, e) < 0)
		return -1;
	if (sqlh_exec(w->db, sql, e) < 0 || wdb_commit(w, e) < 0) {
		wdb_rollback(w);
		return -1;
	}
	w->projected = 0;
	w->metrics_dirty = 1;
	return 0;
}
