/* lists of jobs against a slow and obvious model: jobs by chance that change by chance, any filter, any page.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "store/base/rows.h"
#include "store/read/find.h"
#include "store/read/q_list.h"
#include "store/read/query.h"
#include "store/read/reader.h"
#include "store/write/backup.h"
#include "store/write/txn.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

#define JOBS 300

struct mjob { /* what the test knows of a job; id = place + 1 */
	char name[32], owner[16], experiment[32], notes[32];
	int no_name, no_notes; /* NULL in the row */
	const char *status;
	int deleted;
	uint64_t array, members;
	char spec[256];
	char tag[2][16]; /* values of the keys "t" and "u"; "-": there is none */
};

static struct mjob model[JOBS];
static uint64_t n_jobs, next_event = 1;
static const char *const statuses[] = {"held",     "queued",    "starting", "running", "recovering",
                                       "stopping", "completed", "failed",   "stopped", NULL};
static const char *const owners[] = {"alice", "bob", "al", "", NULL};
static const char *const keys[] = {"t", "u", NULL};
static const char *const values[] = {"1", "2", "", "x'y", NULL};
static char words[10][32]; /* few, so that several jobs share one */

static const char *word(void)
{
	return words[kit_random(10)];
}

/* ---- jobs by chance ---------------------------------------------------------------------------------- */

static void choose_tags(struct mjob *m)
{
	static const char *const begin[] = {"{\"tags\":{", "{\"\\u0074ags\":{", NULL};
	size_t n = (size_t)snprintf(m->spec, sizeof(m->spec), "%s", kit_pick(begin));
	int any = 0;

	for (int i = 0; i < 2; i++) {
		snprintf(m->tag[i], sizeof(m->tag[i]), "-");
		if (kit_random(2))
			continue;
		snprintf(m->tag[i], sizeof(m->tag[i]), "%s", kit_pick(values));
		n += (size_t)snprintf(m->spec + n, sizeof(m->spec) - n, "%s\"%s\":\"%s\"", any++ ? "," : "", keys[i],
		                      m->tag[i]);
	}
	snprintf(m->spec + n, sizeof(m->spec) - n, "}}");
	if (!any && kit_random(2))
		snprintf(m->spec, sizeof(m->spec), "{}");
}

static void choose(struct mjob *m)
{
	snprintf(m->name, sizeof(m->name), "%s", word());
	snprintf(m->owner, sizeof(m->owner), "%s", kit_pick(owners));
	snprintf(m->experiment, sizeof(m->experiment), "%s", kit_random(3) ? word() : "");
	snprintf(m->notes, sizeof(m->notes), "%s", word());
	m->no_name = kit_random(20) == 0;
	m->no_notes = kit_random(3) == 0;
	m->status = kit_pick(statuses);
	m->deleted = kit_random(10) == 0;
	choose_tags(m);
}

static void put(struct store_txn *t, uint64_t id, const char *type)
{
	struct mjob *m = &model[id - 1];
	struct event_row ev = kit_event(next_event++, id, C(type));
	struct job_row r = kit_job(id);

	r.name = m->no_name ? NULL : m->name;
	r.owner = m->owner;
	r.experiment = m->experiment;
	r.notes = m->no_notes ? NULL : m->notes;
	r.status = C(m->status);
	r.ended_us = strchr("cf", m->status[0]) || strcmp(m->status, "stopped") == 0 ? KIT_T0 + id : 0;
	r.deleted = (uint8_t)m->deleted;
	r.array = m->array;
	r.members = (uint32_t)m->members;
	r.spec = m->spec;
	store_txn_event(t, &ev);
	store_txn_job(t, &r);
}

/* A new job, or an array with all its members. */
static void add(struct store_txn *t)
{
	uint64_t id = ++n_jobs, members = kit_random(12) ? 0 : 1 + kit_random(6);

	if (id + members > JOBS)
		members = 0;
	choose(&model[id - 1]);
	model[id - 1].members = members;
	put(t, id, "submitted");
	for (uint64_t i = 0; i < members; i++) {
		choose(&model[n_jobs]);
		model[n_jobs++].array = id;
		put(t, n_jobs, "submitted");
	}
}

static void change(struct store_txn *t)
{
	uint64_t id = 1 + kit_random(n_jobs);
	struct mjob *m = &model[id - 1];
	int key = (int)kit_random(2);

	if (kit_random(2)) {
		snprintf(m->name, sizeof(m->name), "%s", word());
		m->status = kit_pick(statuses);
		m->deleted = kit_random(10) == 0;
	} else {
		int gone = kit_random(3) == 0;

		snprintf(m->tag[key], sizeof(m->tag[key]), "%s", gone ? "-" : kit_pick(values));
		store_txn_tag(t, &(struct tag_row){id, C(keys[key]), gone ? NULL : m->tag[key]});
	}
	put(t, id, "changed");
}

static void step(struct kit *k)
{
	struct store_txn *t = store_txn_new();
	struct err e;

	for (uint64_t n = 1 + kit_random(12); n > 0; n--)
		if (n_jobs < JOBS && (n_jobs < 20 || kit_random(3)))
			add(t);
		else
			change(t);
	if (kit_commit(k, t, &e) < 0)
		tap_bail("commit: %s", e.text);
}

/* ---- the model's answer ------------------------------------------------------------------------------ */

static int lower(int c)
{
	return c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c;
}

static int contains(const char *s, const char *part)
{
	for (; s; s++) {
		size_t i = 0;

		while (part[i] && lower(s[i]) == lower(part[i]))
			i++;
		if (!part[i])
			return 1;
		if (!*s)
			return 0;
	}
	return 0;
}

static int ended(const char *status)
{
	return strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0 ||
	       strcmp(status, "stopped") == 0;
}

static int name_matches(const struct mjob *m, const char *want)
{
	size_t n = strlen(want);

	if (m->no_name)
		return 0;
	return n && want[n - 1] == '*' ? strncmp(m->name, want, n - 1) == 0 : strcmp(m->name, want) == 0;
}

static int tags_match(const struct mjob *m, const struct job_filter *f)
{
	const char *v = strcmp(f->tag_key, "t") == 0 ? m->tag[0] : strcmp(f->tag_key, "u") == 0 ? m->tag[1] : "-";

	return strcmp(v, "-") != 0 && (!f->tag_value || strcmp(v, f->tag_value) == 0);
}

static int matches(uint64_t id, const struct job_filter *f)
{
	const struct mjob *m = &model[id - 1];

	if (f->before_id && id >= f->before_id)
		return 0;
	if (f->array ? m->array != f->array : !f->with_members && m->array)
		return 0;
	if ((m->deleted && !f->with_deleted) || (f->owner && strcmp(m->owner, f->owner) != 0))
		return 0;
	if (f->status &&
	    (strcmp(f->status, "active") == 0 ? ended(m->status) : strcmp(m->status, f->status) != 0))
		return 0;
	if (f->name && !name_matches(m, f->name))
		return 0;
	if (f->experiment && strcmp(m->experiment, f->experiment) != 0)
		return 0;
	if (f->text && !contains(m->no_name ? NULL : m->name, f->text) &&
	    !contains(m->no_notes ? NULL : m->notes, f->text) && !contains(m->experiment, f->text))
		return 0;
	return !f->tag_key || tags_match(m, f);
}

/* The greatest id below `below` that matches; 0 none. */
static uint64_t newest(const struct job_filter *f, uint64_t below)
{
	while (--below > 0)
		if (matches(below, f))
			return below;
	return 0;
}

/* ---- comparing --------------------------------------------------------------------------------------- */

static struct {
	char name[32], text[32];
} chosen;

/* The beginning of s, at most n bytes, whole characters. */
static void begin_of(char *out, size_t size, const char *s, size_t n)
{
	n = n < strlen(s) ? n : strlen(s);
	while (n && ((unsigned char)s[n] & 0xc0) == 0x80)
		n--;
	snprintf(out, size, "%.*s", (int)n, s);
}

static struct job_filter any_filter(void)
{
	struct job_filter f = {.limit = 1 + (uint32_t)kit_random(40)};
	char begin[31];

	begin_of(begin, sizeof(begin), word(), 1 + kit_random(30));
	snprintf(chosen.name, sizeof(chosen.name), "%s%s", begin, kit_random(2) ? "*" : "");
	begin_of(chosen.text, sizeof(chosen.text), word(), kit_random(5));
	f.owner = kit_random(3) ? NULL : kit_pick(owners);
	f.status = kit_random(3) ? NULL : kit_random(2) ? "active" : kit_pick(statuses);
	f.name = kit_random(4) ? NULL : chosen.name;
	f.text = kit_random(5) ? NULL : chosen.text;
	f.experiment = kit_random(5) ? NULL : kit_random(3) ? word() : "";
	f.tag_key = kit_random(4) ? NULL : kit_random(9) ? kit_pick(keys) : "v";
	f.tag_value = f.tag_key && kit_random(3) ? kit_pick(values) : NULL;
	f.before_id = kit_random(6) ? 0 : kit_random(9) ? 1 + kit_random(n_jobs + 5) : UINT64_MAX;
	f.with_deleted = kit_random(4) == 0;
	f.with_members = kit_random(4) == 0;
	f.array = kit_random(6) ? 0 : kit_random(9) ? 1 + kit_random(n_jobs) : UINT64_MAX - kit_random(2);
	return f;
}

static const char *tag_of(const cJSON *j, const char *key)
{
	const char *v = kit_str(kit_at(j, "tags"), key);

	return v ? v : "-";
}

static int same_text(const char *got, const char *want)
{
	return got && want ? strcmp(got, want) == 0 : got == want;
}

/* What the list says of the job is what the job is. */
static int same_job(const cJSON *j, uint64_t id)
{
	const struct mjob *m = &model[id - 1];

	return kit_num(j, "id") == (double)id && same_text(kit_str(j, "name"), m->no_name ? NULL : m->name) &&
	       same_text(kit_str(j, "owner"), m->owner) && same_text(kit_str(j, "experiment"), m->experiment) &&
	       same_text(kit_str(j, "notes"), m->no_notes ? NULL : m->notes) &&
	       same_text(kit_str(j, "status"), m->status) && cJSON_IsTrue(kit_at(j, "deleted")) == m->deleted &&
	       same_text(tag_of(j, "t"), m->tag[0]) && same_text(tag_of(j, "u"), m->tag[1]) &&
	       (m->array ? kit_num(j, "array.job") == (double)m->array : cJSON_IsNull(kit_at(j, "array"))) &&
	       (m->members ? kit_num(j, "members.count") == (double)m->members
	                   : cJSON_IsNull(kit_at(j, "members")));
}

static int fail(const struct job_filter *f, const char *what, uint64_t want, const cJSON *got)
{
	char *text = got ? json_text(got) : NULL;

	tap_diag(
	    "%s: want %d, got %.300s; owner %s status %s name %s text %s experiment %s tag %s=%s before %" PRIu64
	    " "
	    "limit %u deleted %d members %d array %" PRIu64,
	    what, (int)want, text ? text : "nothing", f->owner ? f->owner : "any", f->status ? f->status : "any",
	    f->name ? f->name : "any", f->text ? f->text : "any", f->experiment ? f->experiment : "any",
	    f->tag_key ? f->tag_key : "any", f->tag_value ? f->tag_value : "any", f->before_id, f->limit,
	    f->with_deleted, f->with_members, f->array);
	free(text);
	return -1;
}

/* All pages from the first on; 0 when each is as the model's. *rows: how many jobs were seen. */
static int compare(struct store_reader *r, struct job_filter f, int *rows)
{
	uint64_t want = n_jobs + 1;
	struct err e;

	for (int pages = 0; pages <= JOBS; pages++) {
		cJSON *j = store_jobs_json(r, &f, &e);
		const cJSON *v, *next = kit_at(j, "next");
		int bad = !j, n = 0;

		cJSON_ArrayForEach (v, kit_at(j, "jobs")) {
			want = newest(&f, want);
			if (!bad && (!want || !same_job(v, want)))
				bad = fail(&f, "a job", want, v);
			n++;
		}
		*rows += n;
		if (!bad && (uint32_t)n < f.limit && newest(&f, want))
			bad = fail(&f, "a page that is not full", newest(&f, want), next);
		if (!bad && (newest(&f, want) ? kit_num(j, "next") != (double)want : !cJSON_IsNull(next)))
			bad = fail(&f, "next", want, next);
		f.before_id = cJSON_IsNumber(next) ? (uint64_t)next->valuedouble : 0;
		cJSON_Delete(j);
		if (bad || !f.before_id)
			return bad;
	}
	return -1;
}

/* Names to ids. */
static int compare_names(struct store_reader *r)
{
	struct job_filter f = {.owner = kit_random(2) ? kit_pick(owners) : NULL, .name = word()};
	uint32_t nth = (uint32_t)kit_random(4);
	uint64_t want = n_jobs + 1, got = 0;
	int rc, star = *f.name && f.name[strlen(f.name) - 1] == '*';
	struct err e;

	if (kit_random(2))
		f.name = NULL;
	for (uint32_t i = 0; i <= nth && want; i++)
		want = newest(&f, want);
	if (f.name)
		rc = store_job_by_name(r, f.owner, f.name, nth, &got, &e);
	else
		rc = store_job_last(r, f.owner, nth, &got, &e);
	if (f.name && star)
		return rc < 0 && e.code == ERR_INVALID ? 0 : fail(&f, "a name with a star", 0, NULL);
	if (want ? rc < 0 || got != want : rc == 0 || e.code != ERR_NOT_FOUND)
		return fail(&f, "by name", want, NULL);
	return 0;
}

static void test_model(void)
{
	int bad = 0, rows = 0, lists = 0;
	struct store_reader *r;
	struct kit k;

	kit_seed("lists");
	for (size_t i = 0; i < 10; i++)
		snprintf(words[i], sizeof(words[i]), "%s", kit_word());
	kit_open(&k, "model");
	r = kit_reader(&k);
	for (int round = 0; round < 60; round++) {
		step(&k);
		if (kit_random(3) == 0)
			kit_wait_projected(&k); /* else some are found beside the projections */
		for (int i = 0; i < 12 && !bad; i++, lists++)
			bad = compare(r, any_filter(), &rows);
		for (int i = 0; i < 8 && !bad; i++)
			bad = compare_names(r);
	}
	ok(!bad && n_jobs == JOBS && rows > 1000, "%d lists of %d jobs are the model's (%d rows)", lists,
	   (int)n_jobs, rows);
	store_reader_close(r);
	kit_close(&k);
	is_int(store_rebuild(k.path, &(struct err){0}), 0, "the projections are made anew");
	r = kit_reader(&k);
	for (int i = 0; i < 200 && !bad; i++)
		bad = compare(r, any_filter(), &rows);
	ok(!bad, "and lists are the model's still");
	store_reader_close(r);
}

/* ---- the edges of a page ------------------------------------------------------------------------------ */

static int listed(struct store_reader *r, uint32_t limit, uint64_t before, double *next)
{
	struct err e;
	cJSON *j = store_jobs_json(r, &(struct job_filter){.limit = limit, .before_id = before}, &e);
	int n = cJSON_GetArraySize(kit_at(j, "jobs"));

	*next = kit_num(j, "next");
	cJSON_Delete(j);
	return n;
}

static void test_limits(void)
{
	static const struct {
		uint32_t limit;
		uint64_t before;
		int want;
		double next; /* -12345: null */
	} t[] = {
	    {0, 0, 100, 902},
	    {1, 0, 1, 1001},
	    {1000, 0, 1000, 2},
	    {1001, 0, 1000, 2},
	    {UINT32_MAX, 0, 1000, 2},
	    {1000, 1001, 1000, -12345},
	    {999, 1001, 999, 2},
	    {1, 2, 1, -12345},
	    {5, 1, 0, -12345},
	    {2, 3, 2, -12345},
	    {1, 3, 1, 2},
	    {3, UINT64_MAX, 3, 999},
	};
	struct store_txn *x = store_txn_new();
	struct store_reader *r;
	uint64_t job = 0;
	struct err e;
	struct kit k;

	kit_open(&k, "limits");
	r = kit_reader(&k);
	for (uint64_t id = 1; id <= 1001; id++) {
		struct job_row row = kit_job(id);

		store_txn_job(x, &row);
	}
	kit_commit(&k, x, &e);
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		double next;
		int n = listed(r, t[i].limit, t[i].before, &next);

		ok(n == t[i].want && next == t[i].next, "limit %u before %" PRIu64 ": %d jobs, next %.0f", t[i].limit,
		   t[i].before, n, next);
	}
	ok(store_job_last(r, NULL, 999, &job, &e) == 0 && job == 2, "999 jobs back");
	ok(store_job_last(r, NULL, 1000, &job, &e) < 0 && e.code == ERR_INVALID, "1,000 are refused");
	ok(store_job_by_name(r, NULL, "digits", 1000, &job, &e) < 0 && e.code == ERR_INVALID, "by name too");
	ok(store_job_by_name(r, NULL, "nobody", 1, &job, &e) < 0 && strstr(e.text, "fewer jobs are named nobody"),
	   "not that many of a name");
	ok(store_job_last(r, "nobody", 2, &job, &e) < 0 && strstr(e.text, "you have fewer jobs"),
	   "nor of an owner");
	store_reader_close(r);
	kit_close(&k);
}

/* ---- events ------------------------------------------------------------------------------------------- */

static void test_events(void)
{
	static const uint64_t after[] = {0, 1, 5, 2499, 2500, 2501, INT64_MAX, UINT64_MAX};
	static const uint32_t limits[] = {0, 1, 7, 1000, 2499, 2500, 2501, 10000, 10001};
	struct store_txn *x = store_txn_new();
	struct store_reader *r;
	int bad = 0, answers = 0;
	struct err e;
	struct kit k;

	kit_open(&k, "events");
	for (uint64_t id = 1; id <= 2500; id++) {
		struct event_row ev = kit_event(id, id % 5, C("x"));

		store_txn_event(x, &ev);
	}
	kit_commit(&k, x, &e);
	r = kit_reader(&k);
	for (uint64_t job = 0; job < 6; job++)
		for (int a = 0; a < 8; a++)
			for (int l = 0; l < 9; l++, answers++) {
				cJSON *j = store_events_json(r, job, after[a], limits[l], &e);
				const cJSON *v;
				uint64_t id = after[a] > 2500 ? 2501 : after[a] + 1, n = 0, last = 0;
				uint32_t limit = limits[l] ? limits[l] : 1000;

				cJSON_ArrayForEach (v, kit_at(j, "events")) {
					while (job && id <= 2500 && id % 5 != job)
						id++;
					bad += kit_num(v, "id") != (double)id || kit_num(v, "job") != (double)(id % 5);
					last = id++;
					n++;
				}
				while (job && id <= 2500 && id % 5 != job)
					id++;
				bad += !j || (id <= 2500 && n != limit);
				bad += n == limit ? kit_num(j, "next") != (double)last : !cJSON_IsNull(kit_at(j, "next"));
				cJSON_Delete(j);
			}
	ok(!bad, "%d pages of events: each above its cursor, in order, as many as asked for", answers);
	store_reader_close(r);
	kit_close(&k);
}

/* Which way SQLite goes is part of what a list promises: none reads each job there is, and a status is looked
 * up in its index before the record is read. */
static void test_plans(void)
{
	static const struct plan {
		struct job_filter f;
		const char *first, *then;
	} plans[] = {
	    {{.owner = "a"}, "SEARCH d USING COVERING INDEX job_ix_owner", "SEARCH job USING INTEGER"},
	    {{.owner = "a", .status = "failed"}, "job_ix_owner", "INDEX job_ended (status=? AND rowid=?)"},
	    {{.owner = "a", .status = "completed"}, "job_ix_owner", "INDEX job_ended (status=? AND rowid=?)"},
	    {{.owner = "a", .status = "running"}, "job_ix_owner", "INDEX job_active (id=? AND rowid=?)"},
	    {{.name = "a", .status = "stopped"}, "job_ix_name", "INDEX job_ended (status=? AND rowid=?)"},
	    {{.experiment = "a", .status = "queued"}, "job_ix_experiment", "INDEX job_active (id=? AND rowid=?)"},
	    {{.tag_key = "a", .tag_value = "b", .status = "failed"},
	     "tag_ix_value",
	     "INDEX job_ended (status=? AND rowid=?)"},
	    {{.owner = "a", .status = "active"}, "SCAN job USING INDEX job_active", ""},
	};
	struct kit k;

	kit_open(&k, "plans");
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		const struct plan *p = &plans[i];
		char *sql = list_statement(&p->f), *text = kit_plan(k.path, sql);

		ok(strstr(text, p->first) && strstr(text, p->then), "owner %s, status %s: %s",
		   p->f.owner ? p->f.owner : "-", p->f.status ? p->f.status : "-", text);
		free(sql);
		free(text);
	}
	kit_close(&k);
}

int main(void)
{
	test_model();
	test_limits();
	test_events();
	test_plans();
	return tap_done();
}
