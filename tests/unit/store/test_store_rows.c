/* every field of every record: rows by chance are written, written over, and come back as they were, in this
 * process and in the next. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "store/read/find.h"
#include "store/read/load.h"
#include "store/read/query.h"
#include "store/read/reader.h"
#include "store/store.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

#define JOBS  24
#define NODES 12
#define NOW   (KIT_T0 + 1000000)

/* ---- records as lists of fields ----------------------------------------------------------------------- */

enum kind { U8, U32, U64, I64, TEXT, WORD /* never NULL */, KEY /* given by the test */ };
struct field {
	const char *name;
	size_t at;
	enum kind kind;
};
#define F(type, kind, field)                                                                                 \
	{                                                                                                        \
#field, offsetof(struct type, field), kind                                                           \
	}
#define END                                                                                                  \
	{                                                                                                        \
		NULL, 0, KEY                                                                                         \
	}

#define J(kind, field) F(job_row, kind, field)
static const struct field job_fields[] = {
    J(TEXT, name),     J(TEXT, owner),        J(TEXT, experiment), J(TEXT, notes),    J(I64, priority),
    J(TEXT, queue),    J(WORD, spec),         J(TEXT, bundle),     J(TEXT, run),      J(U64, created_us),
    J(U64, queued_us), J(U64, started_us),    J(U64, ended_us),    J(I64, exit_code), J(TEXT, reason),
    J(TEXT, wanted),   J(U32, attempts),      J(U64, epoch),       J(TEXT, idem_key), J(TEXT, idem_digest),
    J(U8, pinned),     J(U8, deleted),        J(U32, nodes),       J(U32, gpus),      J(TEXT, cleanup),
    J(U64, array),     J(U32, members),       J(U8, halved),       J(TEXT, rungs),    J(TEXT, begins),
    J(U64, ran_us),    J(U64, runs_since_us), J(U32, alerts),      J(WORD, alert),    END};
#define A(kind, field) F(attempt_row, kind, field)
static const struct field attempt_fields[] = {A(U64, epoch),         A(WORD, state),
                                              A(TEXT, outcome),      A(TEXT, cls),
                                              A(TEXT, reason),       A(TEXT, cause),
                                              A(TEXT, launch_id),    A(TEXT, token),
                                              A(TEXT, placement),    A(I64, resumed_from_step),
                                              A(TEXT, resumed_from), A(I64, exit_code),
                                              A(I64, signal),        A(U64, started_us),
                                              A(U64, ended_us),      A(TEXT, phases),
                                              A(U32, master_port),   A(U64, price_uusd),
                                              A(WORD, account),      END};
#define R(kind, field) F(rank_row, kind, field)
static const struct field rank_fields[] = {R(TEXT, node),
                                           R(U32, node_rank),
                                           R(U32, local_rank),
                                           R(WORD, state),
                                           R(I64, exit_code),
                                           R(I64, signal),
                                           R(U8, oom),
                                           R(U32, pid),
                                           R(U64, started_us),
                                           R(U64, ended_us),
                                           R(TEXT, text),
                                           R(TEXT, ended_by),
                                           END};
#define N(kind, field) F(node_row, kind, field)
static const struct field node_fields[] = {N(TEXT, address),   N(TEXT, reason),   N(TEXT, cert_fingerprint),
                                           N(TEXT, inventory), N(U64, joined_us), N(U64, seen_us),
                                           N(U8, drain),       N(U8, spare),      END};
#define T(kind, field) F(token_row, kind, field)
static const struct field token_fields[] = {T(TEXT, owner), T(U64, job), T(U64, created_us), T(TEXT, used_by),
                                            END};

static uint64_t number(uint64_t most)
{
	switch (kit_random(4)) {
	case 0:
		return kit_random(3);
	case 1:
		return most - kit_random(3);
	default:
		return kit_random(most);
	}
}

/* Frees what text was there. */
static void choose(void *row, const struct field *f)
{
	for (; f->name; f++) {
		void *p = (char *)row + f->at;

		if (f->kind == U8)
			*(uint8_t *)p = (uint8_t)number(UINT8_MAX);
		else if (f->kind == U32)
			*(uint32_t *)p = (uint32_t)number(UINT32_MAX);
		else if (f->kind == U64)
			*(uint64_t *)p = number(INT64_MAX);
		else if (f->kind == I64)
			*(int64_t *)p = kit_random(2) ? (int64_t)number(INT64_MAX) : -1 - (int64_t)number(INT64_MAX);
		else {
			free(*(char **)p);
			*(char **)p = xstrdup(f->kind == TEXT ? kit_word_or_null() : kit_word());
		}
	}
}

static int same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* 1, or 0 and says which field differs. */
static int same(const void *got, const void *want, const struct field *f)
{
	for (; f->name; f++) {
		const char *g = (const char *)got + f->at, *w = (const char *)want + f->at;
		int equal = f->kind == U8    ? *g == *w
		            : f->kind == U32 ? memcmp(g, w, 4) == 0
		            : f->kind == U64 || f->kind == I64
		                ? memcmp(g, w, 8) == 0
		                : same_text(*(char *const *)(const void *)g, *(char *const *)(const void *)w);

		if (!equal) {
			tap_diag("the field %s differs", f->name);
			return 0;
		}
	}
	return 1;
}

/* ---- what the test knows ------------------------------------------------------------------------------ */

static struct job_row jobs[JOBS];
static struct attempt_row attempts[JOBS][3];
static struct rank_row ranks[JOBS][3][2];
static struct node_row nodes[NODES];
static struct token_row tokens[NODES];
static const char *const statuses[] = {"held",      "queued", "running", "stopping",
                                       "completed", "failed", "stopped", NULL};
static const char *const states[] = {"joining", "up", "drained", "lost", "removed", NULL};
static const char *const kinds[] = {"join", "job", "admin", NULL};
static const uint64_t expiries[] = {0, NOW - 1, NOW, NOW + 1, INT64_MAX};

static int ended(const struct job_row *r)
{
	return strcmp(r->status, "completed") == 0 || strcmp(r->status, "failed") == 0 ||
	       strcmp(r->status, "stopped") == 0;
}

static void put_job(struct store_txn *t, size_t i)
{
	size_t a = kit_random(3), n = kit_random(2);
	struct job_row *j = &jobs[i];

	j->id = i + 1;
	choose(j, job_fields);
	free(j->status);
	j->status = xstrdup(kit_pick(statuses));
	store_txn_job(t, j);
	for (size_t k = 0; k <= a; k++) {
		attempts[i][k].job = i + 1;
		attempts[i][k].number = (uint32_t)k + 1;
		choose(&attempts[i][k], attempt_fields);
		store_txn_attempt(t, &attempts[i][k]);
		for (size_t m = 0; m <= n; m++) {
			ranks[i][k][m].job = i + 1;
			ranks[i][k][m].attempt = (uint32_t)k + 1;
			ranks[i][k][m].rank = (uint32_t)m;
			choose(&ranks[i][k][m], rank_fields);
			store_txn_rank(t, &ranks[i][k][m]);
		}
	}
}

static void put_node(struct store_txn *t, size_t i)
{
	struct node_row *n = &nodes[i];
	struct token_row *k = &tokens[i];
	char name[16];

	free(n->name);
	free(n->state);
	snprintf(name, sizeof(name), "n%d", (int)i);
	n->id = i + 1;
	n->name = xstrdup(name);
	n->state = xstrdup(kit_pick(states));
	choose(n, node_fields);
	store_txn_node(t, n);
	free(k->id);
	free(k->kind);
	free(k->secret_hash);
	k->id = xstrdup(name);
	k->kind = xstrdup(kit_pick(kinds));
	k->secret_hash = xasprintf("hash of %s", name);
	k->expires_us = expiries[kit_random(5)];
	k->used_us = kit_random(2) ? 0 : 1 + kit_random(100);
	choose(k, token_fields);
	store_txn_token(t, k);
}

/* ---- what comes back ---------------------------------------------------------------------------------- */

struct seen {
	int jobs, attempts, ranks, nodes, tokens, wrong;
};

static int on_job(const struct job_row *r, void *arg)
{
	struct seen *s = arg;
	const struct job_row *want = &jobs[r->id - 1];

	s->jobs++;
	s->wrong += ended(want) || strcmp(r->status, want->status) != 0 || !same(r, want, job_fields);
	return 0;
}

static int on_attempt(const struct attempt_row *r, void *arg)
{
	struct seen *s = arg;

	s->attempts++;
	s->wrong += ended(&jobs[r->job - 1]) || !same(r, &attempts[r->job - 1][r->number - 1], attempt_fields);
	return 0;
}

/* The number of the job's newest attempt. */
static uint32_t newest(size_t job)
{
	uint32_t n = 0;

	for (uint32_t a = 0; a < 3; a++)
		if (attempts[job][a].job)
			n = a + 1;
	return n;
}

static int on_rank(const struct rank_row *r, void *arg)
{
	struct seen *s = arg;

	s->ranks++;
	s->wrong += ended(&jobs[r->job - 1]) || r->attempt + 1 < newest(r->job - 1) ||
	            !same(r, &ranks[r->job - 1][r->attempt - 1][r->rank], rank_fields);
	return 0;
}

static int same_node(const struct node_row *r)
{
	const struct node_row *want = &nodes[r->id - 1];

	return strcmp(r->name, want->name) == 0 && strcmp(r->state, want->state) == 0 &&
	       same(r, want, node_fields);
}

static int on_node(const struct node_row *r, void *arg)
{
	struct seen *s = arg;

	s->nodes++;
	s->wrong += strcmp(r->state, "removed") == 0 || !same_node(r);
	return 0;
}

static int same_token(const struct token_row *r, const struct token_row *want)
{
	return strcmp(r->id, want->id) == 0 && strcmp(r->kind, want->kind) == 0 &&
	       strcmp(r->secret_hash, want->secret_hash) == 0 && r->expires_us == want->expires_us &&
	       r->used_us == want->used_us && same(r, want, token_fields);
}

static int on_token(const struct token_row *r, void *arg)
{
	struct seen *s = arg;

	s->tokens++;
	s->wrong += !same_token(r, &tokens[atoi(r->id + 1)]);
	return 0;
}

/* How many of each kind must come. */
static struct seen expected(void)
{
	struct seen s = {0};

	for (size_t i = 0; i < JOBS; i++) {
		if (!jobs[i].id || ended(&jobs[i]))
			continue;
		s.jobs++;
		for (uint32_t a = 0; a < 3; a++) {
			s.attempts += attempts[i][a].job != 0;
			if (a + 2 >= newest(i)) /* the two newest ones */
				s.ranks += (ranks[i][a][0].job != 0) + (ranks[i][a][1].job != 0);
		}
	}
	for (size_t i = 0; i < NODES; i++) {
		const struct token_row *k = &tokens[i];

		s.nodes += nodes[i].id && strcmp(nodes[i].state, "removed") != 0;
		s.tokens += k->id && (k->expires_us == 0 || k->expires_us > NOW) &&
		            !(strcmp(k->kind, "join") == 0 && k->used_us > 0);
	}
	return s;
}

static void check_loaded(struct kit *k, const char *when)
{
	struct seen s = {0}, want = expected();
	struct store_load l = {
	    .job = on_job, .attempt = on_attempt, .rank = on_rank, .node = on_node, .token = on_token, .arg = &s};
	struct err e;

	if (store_load(k->store, &l, &e) < 0)
		tap_bail("store_load: %s", e.text);
	ok(memcmp(&s, &want, sizeof(s)) == 0,
	   "%s: what is unfinished comes as it is: %d jobs, %d attempts, %d ranks, %d nodes, %d tokens (%d "
	   "wrong)",
	   when, s.jobs, s.attempts, s.ranks, s.nodes, s.tokens, s.wrong);
}

/* One by one: ended ones, too. */
static void check_each(struct kit *k)
{
	struct store_reader *r = kit_reader(k);
	struct token_row token;
	struct node_row node;
	struct job_row job;
	struct err e;
	int bad = 0;

	for (size_t i = 0; i < JOBS; i++) {
		bad += store_job_get(r, i + 1, &job, &e) < 0 || strcmp(job.status, jobs[i].status) != 0 ||
		       !same(&job, &jobs[i], job_fields);
		job_row_fini(&job);
	}
	ok(!bad, "each job by its number");
	for (size_t i = 0; i < NODES; i++) {
		bad += store_node_get(r, nodes[i].name, &node, &e) < 0 || !same_node(&node);
		bad += store_token_get(r, tokens[i].secret_hash, &token, &e) < 0 || !same_token(&token, &tokens[i]);
		node_row_fini(&node);
		token_row_fini(&token);
	}
	ok(!bad, "each node by its name, each token by its secret, also used ones and expired ones");
	ok(store_node_get(r, "n99", &node, &e) < 0 && e.code == ERR_NOT_FOUND && strstr(e.text, "\"n99\""),
	   "a node that there is not");
	ok(store_token_get(r, "hash", &token, &e) < 0 && e.code == ERR_NOT_FOUND, "a token that there is not");
	ok(store_token_get(r, NULL, &token, &e) < 0 && e.code == ERR_NOT_FOUND, "no secret is nobody's");
	ok(store_job_get(r, 0, &job, &e) < 0 && e.code == ERR_NOT_FOUND, "job 0");
	ok(store_job_get(r, UINT64_MAX, &job, &e) < 0 && strstr(e.text, "18446744073709551615"),
	   "a number beyond all");
	store_reader_close(r);
}

static void test_round_trip(void)
{
	struct clock clock;
	struct store_txn *t;
	struct err e;
	struct kit k;

	kit_seed("rows");
	clock_fake_init(&clock, NOW, 1);
	kit_open(&k, "rows");
	store_close(k.store);
	k.clock = &clock;
	kit_reopen(&k);
	for (size_t round = 0; round < 60; round++) {
		t = store_txn_new();
		put_job(t, round < JOBS ? round : kit_random(JOBS));
		put_node(t, round < NODES ? round : kit_random(NODES));
		if (kit_commit(&k, t, &e) < 0)
			tap_bail("commit: %s", e.text);
	}
	check_loaded(&k, "written and written over");
	kit_close(&k);
	kit_reopen(&k);
	check_loaded(&k, "opened again");
	check_each(&k);
	kit_close(&k);
	for (size_t i = 0; i < JOBS; i++) {
		job_row_fini(&jobs[i]);
		for (size_t a = 0; a < 3; a++) {
			attempt_row_fini(&attempts[i][a]);
			rank_row_fini(&ranks[i][a][0]);
			rank_row_fini(&ranks[i][a][1]);
		}
	}
	for (size_t i = 0; i < NODES; i++) {
		node_row_fini(&nodes[i]);
		token_row_fini(&tokens[i]);
	}
}

/* ---- artifacts: the key is all but size and time ------------------------------------------------------- */

static void test_artifacts(void)
{
	static const char *const part[] = {NULL, "", "a", "b"};
	struct artifact_row a, got;
	struct store_txn *t = store_txn_new();
	struct store_reader *r;
	struct err e;
	struct kit k;
	cJSON *list;

	kit_open(&k, "artifacts");
	for (int twice = 0; twice < 2; twice++)
		for (int i = 0; i < 64; i++) {
			a = (struct artifact_row){.job = 7,
			                          .attempt = 1,
			                          .kind = C("output"),
			                          .node = C(part[i % 4]),
			                          .digest = C(part[i / 4 % 4]),
			                          .uri = C(part[i / 16]),
			                          .size_bytes = INT64_MAX - (uint64_t)i,
			                          .files = (uint64_t)i + 100 * (uint64_t)twice,
			                          .at_us = (uint64_t)i};
			store_txn_artifact(t, &a);
		}
	kit_commit(&k, t, &e);
	r = kit_reader(&k);
	list = store_artifacts_json(r, 7, &e);
	is_int(cJSON_GetArraySize(list), 27,
	       "64 reports that come twice: 27 differ, as NULL is the same as none");
	is_int(kit_num(list, "26.files"), 163, "the later report counts");
	cJSON_Delete(list);
	ok(store_artifact_get(r, 7, "output", &got, &e) == 0 && same_text(got.node, "b") &&
	       same_text(got.digest, "b") && same_text(got.uri, "b") && got.size_bytes == INT64_MAX - 63 &&
	       got.files == 163 && got.at_us == 63 && got.attempt == 1 && got.job == 7 &&
	       same_text(got.kind, "output"),
	   "the newest, every field");
	artifact_row_fini(&got);
	list = store_artifacts_json(r, 8, &e);
	ok(cJSON_IsArray(list) && !list->child, "a job without");
	cJSON_Delete(list);
	store_reader_close(r);
	kit_close(&k);
}

/* ---- what is refused ------------------------------------------------------------------------------------
 */

static struct store_txn *txn(void)
{
	return store_txn_new();
}

/* A row without what it must have fails alone, and nothing of its transaction stays. */
static void test_refused(void)
{
	struct job_row j = kit_job(1), beside = kit_job(2);
	struct event_row ev = kit_event(1, 1, NULL);
	struct rank_row rank = {.job = 1};
	struct attempt_row att = {.job = 1};
	struct node_row node = {.id = 1};
	struct token_row token = {.id = C("x")};
	struct store_txn *t[10];
	struct err e;
	struct kit k;

	j.status = NULL;
	for (int i = 0; i < 10; i++)
		store_txn_job(t[i] = txn(), &beside);
	store_txn_job(t[0], &j);
	store_txn_event(t[1], &ev);
	store_txn_rank(t[2], &rank);
	store_txn_attempt(t[3], &att);
	store_txn_node(t[4], &node);
	store_txn_token(t[5], &token);
	store_txn_tag(t[6], &(struct tag_row){1, NULL, C("v")});
	store_txn_run_info(t[7], 1, 1, "n", NULL, "x");
	store_txn_reservation(t[8], &(struct reservation_row){.name = "r"});
	store_txn_answer(t[9], &(struct answer_row){.key = "k"});
	kit_open(&k, "refused");
	for (int i = 0; i < 10; i++)
		ok(kit_commit(&k, t[i], &e) < 0 && e.code == ERR_INTERNAL && strstr(e.text, "NOT NULL"),
		   "a row without what it must have: %s", e.text);
	is_int(kit_number(k.path, "SELECT count(*) FROM job"), 0, "nothing beside them was kept");
	kit_submit(&k, 2, NULL);
	is_int(kit_number(k.path, "SELECT count(*) FROM job"), 1, "it can be written then");
	kit_close(&k);
}

/* The tables of columns.h name the columns of the schema, in its order. */
static void test_columns(void)
{
#define SAME_COLUMNS(table, columns)                                                                         \
	"SELECT group_concat(name, ', ') = '" columns(COLUMN_FIRST,                                              \
	                                              COLUMN_NEXT) "' FROM pragma_table_info('" table "')"
	struct kit k;

	kit_open(&k, "columns");
	is_int(kit_number(k.path, SAME_COLUMNS("job", JOB_TABLE)), 1, "job: table and schema have one list");
	is_int(kit_number(k.path, SAME_COLUMNS("attempt", ATTEMPT_TABLE)), 1, "attempt: they have one list");
	is_int(kit_number(k.path, SAME_COLUMNS("rank", RANK_TABLE)), 1, "rank: they have one list");
	kit_close(&k);
}

int main(void)
{
	test_columns();
	test_round_trip();
	test_artifacts();
	test_refused();
	return tap_done();
}
