/*
 * q_list: lists of jobs, newest first, in keyset pages; names to ids.
 *
 * Where a projection narrows the list it drives the query; jobs whose events are not projected yet are asked
 * for beside it, and the two answers are merged. Every row is checked against the record itself, so a
 * projection that is late can only cost time, never give a wrong row.
 */
#include "store/read/q_list.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/spec/sweep.h"
#include "store/base/rows.h"
#include "store/base/sqlh.h"
#include "store/base/status.h"
#include "store/base/tags.h"
#include "store/read/find.h"
#include "store/read/from_row.h"
#include "store/read/job_fields.h"
#include "store/read/query.h"
#include "store/read/reader_int.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     1000

struct query { /* a statement in the making and what is bound to it, in order */
	char sql[2048];
	size_t len;
	const char *text[16];
	int64_t num[16];
	int n;
};

static void sql_add(struct query *q, const char *s)
{
	size_t n = strlen(s);

	if (q->len + n + 1 > sizeof(q->sql))
		abort(); /* the parts are constants */
	memcpy(q->sql + q->len, s, n + 1);
	q->len += n;
}

static void bind_text(struct query *q, const char *v)
{
	q->text[q->n++] = v;
}

static void bind_num(struct query *q, int64_t v)
{
	q->text[q->n] = NULL;
	q->num[q->n++] = v;
}

static sqlite3_stmt *query_open(struct store_reader *r, const struct query *q, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, q->sql, e);

	for (int i = 0; st && i < q->n; i++) {
		if (q->text[i])
			sqlite3_bind_text(st, i + 1, q->text[i], -1, SQLITE_TRANSIENT);
		else
			sqlite3_bind_int64(st, i + 1, q->num[i]);
	}
	return st;
}

/* '%' and '_' of the user's text mean themselves. */
static char *like_pattern(const char *text, const char *before, const char *after)
{
	char *out = xmalloc(strlen(text) * 2 + 4), *o = stpcpy(out, before);

	for (; *text; text++) {
		if (*text == '%' || *text == '_' || *text == '\\')
			*o++ = '\\';
		*o++ = *text;
	}
	stpcpy(o, after);
	return out;
}

static int is_prefix(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && name[n - 1] == '*';
}

struct patterns { /* of one question, freed after it */
	char *name, *text;
};

/* What the record itself must say. */
static void add_conditions(struct query *q, const struct job_filter *f, struct patterns *p)
{
	if (f->before_id) {
		sql_add(q, " AND job.id < ?");
		bind_num(q, (int64_t)(f->before_id > INT64_MAX ? INT64_MAX : f->before_id));
	}
	if (f->array) {
		sql_add(q, " AND job.array = ?");
		bind_num(q, (int64_t)(f->array > INT64_MAX ? INT64_MAX : f->array));
	} else if (!f->with_members) {
		sql_add(q, " AND job.array = 0");
	}
	if (!f->with_deleted)
		sql_add(q, " AND job.deleted = 0");
	if (f->owner) {
		sql_add(q, " AND job.owner = ?");
		bind_text(q, f->owner);
	}
	if (f->status && strcmp(f->status, "active") == 0) {
		sql_add(q, " AND " SQL_JOB_ACTIVE);
	} else if (f->status) {
		sql_add(q, " AND job.status = ?");
		bind_text(q, f->status);
	}
	if (f->name && is_prefix(f->name)) {
		if (!p->name)
			p->name = xstrndup(f->name, strlen(f->name) - 1);
		sql_add(q, " AND instr(job.name, ?) = 1");
		bind_text(q, p->name);
	} else if (f->name) {
		sql_add(q, " AND job.name = ?");
		bind_text(q, f->name);
	}
	if (f->experiment) {
		sql_add(q, " AND job.experiment = ?");
		bind_text(q, f->experiment);
	}
	if (f->text) {
		if (!p->text)
			p->text = like_pattern(f->text, "%", "%");
		sql_add(q, " AND (job.name LIKE ? ESCAPE '\\' OR job.notes LIKE ? ESCAPE '\\' OR job.experiment LIKE "
		           "? ESCAPE '\\')");
		bind_text(q, p->text);
		bind_text(q, p->text);
		bind_text(q, p->text);
	}
}

/* A small index says which jobs have a status, or may have it. The query asks the index before it reads the
 * record of each job in the projection, which takes three times as long. */
static void add_status(struct query *q, const struct job_filter *f)
{
	if (!f->status)
		return;
	if (!status_ended(f->status)) {
		sql_add(q, "CROSS JOIN job e INDEXED BY job_active ON e.id = d.job AND " SQL_ACTIVE_IN("e") " ");
		return;
	}
	/* A constant, not bound: else SQLite does not see that the partial index holds all of it. */
	sql_add(q, "CROSS JOIN job e INDEXED BY job_ended ON e.id = d.job AND e.status = '");
	sql_add(q, f->status);
	sql_add(q, "' ");
}

static void add_from(struct query *q, const struct job_filter *f, const char *projection)
{
	sql_add(q, " FROM ");
	sql_add(q, projection);
	sql_add(q, " d ");
	add_status(q, f);
	sql_add(q, "CROSS JOIN job ON job.id = d.job WHERE ");
}

/* FROM and first condition by the projection that narrows most; 0 when no projection is used. */
static int add_driver(struct query *q, const struct job_filter *f)
{
	int by_status = f->status && strcmp(f->status, "active") == 0;

	if (f->array) { /* members have their numbers one after the other */
		sql_add(q, " FROM job WHERE job.id > ? AND job.id <= ?");
		bind_num(q, (int64_t)(f->array > INT64_MAX ? INT64_MAX : f->array));
		bind_num(q, f->array > INT64_MAX - SWEEP_MAX_MEMBERS ? INT64_MAX
		                                                     : (int64_t)f->array + SWEEP_MAX_MEMBERS);
		return 0;
	}
	if (f->tag_key) {
		add_from(q, f, "tag_ix");
		sql_add(q, "d.key = ?");
		bind_text(q, f->tag_key);
		if (f->tag_value) {
			sql_add(q, " AND d.value = ?");
			bind_text(q, f->tag_value);
		}
	} else if (f->name && !is_prefix(f->name)) {
		add_from(q, f, "job_ix");
		sql_add(q, "d.name = ?");
		bind_text(q, f->name);
	} else if (f->experiment && *f->experiment) {
		add_from(q, f, "job_ix");
		sql_add(q, "d.experiment = ? AND d.experiment <> ''");
		bind_text(q, f->experiment);
	} else if (f->owner && !by_status) {
		add_from(q, f, "job_ix");
		sql_add(q, "d.owner = ?");
		bind_text(q, f->owner);
	} else {
		sql_add(q, " FROM job WHERE 1");
		return 0;
	}
	if (f->before_id) {
		sql_add(q, " AND d.job < ?");
		bind_num(q, (int64_t)(f->before_id > INT64_MAX ? INT64_MAX : f->before_id));
	}
	return 1;
}

struct found {
	struct job_row row;
	cJSON *tags;
};
struct page {
	struct found *v;
	size_t n, cap, want;
};

static void found_fini(struct found *f)
{
	job_row_fini(&f->row);
	cJSON_Delete(f->tags);
}

static void page_fini(struct page *p)
{
	for (size_t i = 0; i < p->n; i++)
		found_fini(&p->v[i]);
	free(p->v);
}

static void page_add(struct page *p, struct job_row *row, cJSON *tags)
{
	if (p->n == p->cap) {
		p->cap = p->cap ? p->cap * 2 : 64;
		p->v = xreallocarray(p->v, p->cap, sizeof(*p->v));
	}
	p->v[p->n++] = (struct found){*row, tags};
}

static int tag_matches(const cJSON *tags, const struct job_filter *f)
{
	const cJSON *v;

	if (!f->tag_key)
		return 1;
	v = cJSON_GetObjectItemCaseSensitive(tags, f->tag_key);
	return v && (!f->tag_value || strcmp(v->valuestring, f->tag_value) == 0);
}

/* Parses the text when it may have tags: a key that is not there letter by letter has an escape. */
static cJSON *spec_for_tags(const char *text)
{
	return text && (strstr(text, "\"tags\"") || strchr(text, '\\')) ? cJSON_Parse(text) : NULL;
}

/* Takes rows of q that match, until `want` were found. */
static int collect(struct store_reader *r, const struct query *q, const struct job_filter *f, struct page *p,
                   struct err *e)
{
	sqlite3_stmt *st = query_open(r, q, e), *tag_st = st ? tags_prepare(r->db, e) : NULL;
	size_t before = p->n;
	int rc = tag_st ? 0 : -1;

	while (rc >= 0 && p->n - before < p->want && (rc = sqlh_step(st, e)) > 0) {
		struct job_row row;
		cJSON *spec, *tags;

		job_from_row(st, &row, 0);
		spec = spec_for_tags(sqlh_str(st, JOB_N_COLUMNS));
		tags = tags_by(tag_st, row.id, spec, e);
		cJSON_Delete(spec);
		if (tags && tag_matches(tags, f)) {
			page_add(p, &row, tags);
			continue;
		}
		job_row_fini(&row);
		cJSON_Delete(tags);
		if (!tags) {
			rc = -1;
			break;
		}
	}
	sqlite3_finalize(tag_st);
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}

#define SELECT_JOBS "SELECT " JOB_COLUMNS ", (SELECT spec FROM job_spec s WHERE s.id = job.id)"

/* Returns 1 when a projection drives the query. */
static int main_query(struct query *q, const struct job_filter *f, struct patterns *pat)
{
	int driven;

	sql_add(q, SELECT_JOBS);
	driven = add_driver(q, f);
	add_conditions(q, f, pat);
	sql_add(q, driven ? " ORDER BY d.job DESC" : " ORDER BY job.id DESC");
	return driven;
}

char *list_statement(const struct job_filter *f)
{
	struct query q = {0};
	struct patterns pat = {0};

	main_query(&q, f, &pat);
	free(pat.name);
	free(pat.text);
	return xstrdup(q.sql);
}

static int find_jobs(struct store_reader *r, const struct job_filter *f, struct page *p, struct err *e)
{
	struct query main = {0}, tail = {0};
	struct patterns pat = {0};
	int driven = main_query(&main, f, &pat), rc = collect(r, &main, f, p, e);

	if (rc == 0 && driven) {
		sql_add(&tail, SELECT_JOBS
		        " FROM job WHERE job.id IN (SELECT job FROM event WHERE id > (SELECT event FROM projected))");
		add_conditions(&tail, f, &pat);
		sql_add(&tail, " ORDER BY job.id DESC");
		rc = collect(r, &tail, f, p, e);
	}
	free(pat.name);
	free(pat.text);
	return rc;
}

static int newest_first(const void *a, const void *b)
{
	uint64_t x = ((const struct found *)a)->row.id, y = ((const struct found *)b)->row.id;

	return x > y ? -1 : x < y;
}

/* Order, each job once, at most want. */
static void page_settle(struct page *p)
{
	size_t n = 0;

	if (p->n)
		qsort(p->v, p->n, sizeof(*p->v), newest_first);
	for (size_t i = 0; i < p->n; i++) {
		if (n < p->want && (n == 0 || p->v[n - 1].row.id != p->v[i].row.id))
			p->v[n++] = p->v[i];
		else
			found_fini(&p->v[i]);
	}
	p->n = n;
}

cJSON *store_jobs_json(struct store_reader *r, const struct job_filter *f, struct err *e)
{
	uint32_t limit = f->limit == 0 ? LIMIT_DEFAULT : f->limit > LIMIT_MAX ? LIMIT_MAX : f->limit;
	struct page p = {.want = limit + 1}; /* one more tells whether there is a next page */
	cJSON *out = NULL, *list;
	int rc;

	if (reader_begin(r, e) < 0)
		return NULL;
	rc = find_jobs(r, f, &p, e);
	if (rc == 0) {
		page_settle(&p);
		out = cJSON_CreateObject();
		list = cJSON_AddArrayToObject(out, "jobs");
		for (size_t i = 0; rc == 0 && i < p.n && i < limit; i++) {
			cJSON *o = cJSON_CreateObject();

			cJSON_AddItemToArray(list, o);
			job_fields_json(o, &p.v[i].row);
			rc = job_members_json(r, o, &p.v[i].row, e);
			cJSON_AddItemToObject(o, "tags", p.v[i].tags);
			p.v[i].tags = NULL;
		}
		if (p.n > limit)
			json_add_u64(out, "next", p.v[limit - 1].row.id);
		else
			cJSON_AddNullToObject(out, "next");
	}
	reader_end(r);
	page_fini(&p);
	if (rc < 0) {
		cJSON_Delete(out);
		out = NULL;
	}
	return out;
}

/* ---- names ------------------------------------------------------------------------------------------- */

static int nth_job(struct store_reader *r, const struct job_filter *f, uint32_t nth, uint64_t *job,
                   struct err *e)
{
	struct page p = {.want = (size_t)nth + 1};
	int rc;

	if (nth >= LIMIT_MAX)
		return err_set(e, ERR_INVALID, "at most %d jobs back", LIMIT_MAX - 1);
	if (reader_begin(r, e) < 0)
		return -1;
	rc = find_jobs(r, f, &p, e);
	reader_end(r);
	if (rc == 0) {
		page_settle(&p);
		if (p.n > nth)
			*job = p.v[nth].row.id;
		else
			rc = 1;
	}
	page_fini(&p);
	return rc;
}

int store_job_by_name(struct store_reader *r, const char *owner, const char *name, uint32_t nth,
                      uint64_t *job, struct err *e)
{
	struct job_filter f = {.owner = owner, .name = name};
	int rc;

	if (is_prefix(name))
		return err_set(e, ERR_INVALID, "a job's name has no '*'");
	rc = nth_job(r, &f, nth, job, e);
	if (rc > 0)
		return err_set(e, ERR_NOT_FOUND, nth ? "fewer jobs are named %s" : "there is no job named %s", name);
	return rc;
}

int store_job_last(struct store_reader *r, const char *owner, uint32_t nth, uint64_t *job, struct err *e)
{
	struct job_filter f = {.owner = owner};
	int rc = nth_job(r, &f, nth, job, e);

	if (rc > 0)
		return err_set(e, ERR_NOT_FOUND, nth ? "you have fewer jobs" : "there is no job of yours yet");
	return rc;
}
