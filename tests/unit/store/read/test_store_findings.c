/* verify names what is wrong: one thing is spoilt, and it alone is told; each kind of difference once at
 * least. What is only unusual is none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/fsutil.h"
#include "store/read/verify.h"
#include "store/write/backup.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

static char lines[16384];

static void on_line(const char *line, void *arg)
{
	size_t n = strlen(lines);

	(void)arg;
	if (strncmp(line, "skipped", 7) != 0)
		snprintf(lines + n, sizeof(lines) - n, "%s\n", line);
}

static int verify(const char *path)
{
	struct err e;
	int n;

	lines[0] = '\0';
	n = store_verify(path, on_line, NULL, &e);
	if (n < 0)
		snprintf(lines, sizeof(lines), "%s", e.text);
	return n;
}

/* ---- what replay would say: the test's own, by what a row says of itself ----------------------------------
 */

static int jobs_seen, states_open;

static int reduce(void **state, const struct event_row *ev, const struct store_job_rows *r, char *why,
                  size_t size, void *arg)
{
	(void)arg;
	if (ev) {
		states_open += !*state;
		*state = &jobs_seen;
		if (strcmp(ev->type, "nonsense") == 0) {
			snprintf(why, size, "no such type");
			return -1;
		}
		return 0;
	}
	jobs_seen++;
	states_open--;
	*state = NULL;
	if (r->n_ranks && strcmp(r->ranks[0].state, "exited") != 0)
		snprintf(why, size, "rank %u is %s", r->ranks[0].rank, r->ranks[0].state);
	else if (r->n_attempts && r->attempts[0].number != 1)
		snprintf(why, size, "attempt %u is the first", r->attempts[0].number);
	else
		return 0;
	return -1;
}

static char cluster_rows[1024];
static int cluster_ends; /* so many things are left over */

static int reduce_cluster(void **state, const struct event_row *ev, const struct store_cluster_row *row,
                          char *why, size_t size)
{
	size_t n = strlen(cluster_rows);

	(void)state;
	if (ev) {
		snprintf(why, size, "it is nonsense");
		return strcmp(ev->type, "nonsense") == 0 ? -1 : 0;
	}
	if (!row) {
		snprintf(why, size, "something is left over");
		return cluster_ends-- > 0 ? -1 : 0;
	}
	snprintf(cluster_rows + n, sizeof(cluster_rows) - n, "%s ",
	         row->node          ? row->node->name
	         : row->token       ? row->token->id
	         : row->reservation ? row->reservation->name
	         : row->queue       ? row->queue->path
	         : row->budget      ? row->budget->path
	                            : row->instance);
	snprintf(why, size, "it is spoilt");
	return (row->node && row->node->drain) || (row->token && row->token->used_us) ||
	               (row->reservation && row->reservation->to_us == 99) ||
	               (row->queue && row->queue->quota_gpus == 99) || (row->budget && row->budget->uusd == 99) ||
	               (row->instance && strcmp(row->own, "spoilt") == 0)
	           ? -1
	           : 0;
}

/* ---- the table
 * ---------------------------------------------------------------------------------------------- */

/* A statement that spoils a store that kit_fill made, and all that verify must say of it. */
static const struct {
	const char *sql, *want;
} spoilt[] = {
    {"SELECT 1", ""},
    /* records among themselves */
    {"INSERT INTO event VALUES (900, 77, 0, 1, 'x', '{}')", "event of job 77, which is not there\n"},
    {"INSERT INTO job_spec VALUES (77, '{}', NULL)", "specification of job 77, which is not there\n"},
    {"CREATE TEMP TABLE copy AS SELECT * FROM attempt WHERE job = 1; UPDATE copy SET job = 77; "
     "INSERT INTO attempt SELECT * FROM copy",
     "attempt of job 77, which is not there\n"},
    {"DELETE FROM attempt WHERE job = 2 AND number = 2", "rank of job 2, which is not there\n"},
    {"UPDATE artifact SET job = 77 WHERE kind = 'model'", "artifact of job 77, which is not there\n"},
    {"DELETE FROM job_spec WHERE id = 6",
     "job 6: has no specification\njob 6: its hyperparameters are not indexed as they are\njob 6: its tags "
     "are not indexed as they are\n"},
    {"DELETE FROM event WHERE job = 6", "job 6: has no event\n"},
    {"UPDATE job SET ended_us = 0 WHERE id = 2; UPDATE holding SET ended_us = 0 WHERE job = 2",
     "job 2: ended without a time of its end\n"},
    {"UPDATE job SET status = 'asleep' WHERE id = 5", "job 5: has a status that does not exist: asleep\n"},
    {"UPDATE job SET attempts = 1 WHERE id = 2", "job 2: says 1 attempts, has 2\n"},
    {"UPDATE job SET attempts = 9 WHERE id = 2", ""}, /* one is given its number before it begins */
    /* replay */
    {"UPDATE event SET type = 'nonsense' WHERE job = 5 AND id = (SELECT min(id) FROM event WHERE job = 5)",
     "job 5: event 9 (nonsense) cannot be replayed: no such type\n"},
    {"UPDATE event SET type = 'nonsense' WHERE job = 5",
     "job 5: event 9 (nonsense) cannot be replayed: no such type\n"},
    {"UPDATE rank SET state = 'lost' WHERE job = 2 AND attempt = 1 AND rank = 0",
     "job 2: replay of its events differs: rank 0 is lost\n"},
    {"UPDATE attempt SET number = 7 WHERE job = 11; UPDATE rank SET attempt = 7 WHERE job = 11",
     "job 11: replay of its events differs: attempt 7 is the first\n"},
    /* the cluster */
    {"UPDATE event SET type = 'nonsense' WHERE job = 0",
     "event 16 (nonsense) cannot be replayed: it is nonsense\n"},
    {"UPDATE node SET drain = 1 WHERE name = 'n2'",
     "node n2: replay of the cluster's events differs: it is spoilt\n"},
    {"UPDATE token SET used_us = 1", "token t1: replay of the cluster's events differs: it is spoilt\n"},
    {"UPDATE reservation SET to_us = 99",
     "reservation r: replay of the cluster's events differs: it is spoilt\n"},
    {"UPDATE queue SET quota_gpus = 99", "queue q: replay of the cluster's events differs: it is spoilt\n"},
    {"UPDATE budget SET uusd = 99", "budget q: replay of the cluster's events differs: it is spoilt\n"},
    {"UPDATE instance SET own = 'spoilt'",
     "instance type own: replay of the cluster's events differs: it is spoilt\n"},
    /* series */
    {"UPDATE metric_series SET points = 3 WHERE job = 11 AND rank = 1",
     "job 11: metric loss: has 2 points in 1 open chunks, its row says 3 in 1\n"},
    {"UPDATE metric_series SET open = 2 WHERE job = 11 AND rank = 1",
     "job 11: metric loss: has 2 points in 1 open chunks, its row says 2 in 2\n"},
    {"UPDATE metric_series SET sealed = 2 WHERE job = 11 AND rank = 1",
     "job 11: metric loss: has 2 points in 0 open chunks, its row says 2 in 1\n"},
    {"UPDATE metric_series SET last_bits = min_bits - 1 WHERE job = 11 AND rank = 1",
     "job 11: metric loss: its last, min or max is not that of its points\n"},
    {"UPDATE metric_series SET min_bits = 0 WHERE job = 11 AND rank = 1",
     "job 11: metric loss: its last, min or max is not that of its points\n"},
    {"UPDATE metric_series SET max_bits = 0 WHERE job = 11 AND rank = 1",
     "job 11: metric loss: its last, min or max is not that of its points\n"},
    {"UPDATE metric_chunk SET first = 1 WHERE series = (SELECT id FROM metric_series WHERE job = 11 AND rank "
     "= 1)",
     "job 11: metric loss: a chunk begins at point 1 instead of 0\n"},
    {"UPDATE metric_chunk SET points = 1 WHERE series = (SELECT id FROM metric_series WHERE job = 11 AND "
     "rank = 1)",
     "job 11: metric loss: the chunk at point 0 is damaged\n"},
    {"UPDATE metric_chunk SET data = x'00' WHERE series = (SELECT id FROM metric_series WHERE job = 11 AND "
     "rank = 1)",
     "job 11: metric loss: the chunk at point 0 is damaged\n"},
    {"DELETE FROM metric_chunk WHERE series = (SELECT id FROM metric_series WHERE job = 11 AND rank = 1)",
     "job 11: metric loss: has 0 points in 0 open chunks, its row says 2 in 1\n"},
    {"UPDATE metric_series SET job = 77 WHERE job = 11", "metric series of job 77, which is not there\n"},
    /* projections */
    {"DELETE FROM job_ix WHERE job = 5", "job 5: its search entry is missing or differs\n"},
    {"UPDATE job_ix SET owner = NULL WHERE job = 5", "job 5: its search entry is missing or differs\n"},
    {"UPDATE job_ix SET experiment = 'x' WHERE job = 5", "job 5: its search entry is missing or differs\n"},
    {"INSERT INTO job_ix VALUES (77, 'a', 'b', 'c')", "job 77: a search entry without a job\n"},
    {"DELETE FROM hp_num WHERE job = 5 AND name = 'lr'",
     "job 5: its hyperparameters are not indexed as they are\n"},
    {"DELETE FROM hp_text WHERE job = 5 AND name = 'opt'",
     "job 5: its hyperparameters are not indexed as they are\n"},
    {"INSERT INTO hp_text VALUES ('new', 'x', 5)",
     "job 5: its hyperparameters are not indexed as they are\n"},
    {"DELETE FROM tag_ix WHERE job = 5 AND key = 'team'", "job 5: its tags are not indexed as they are\n"},
    {"UPDATE tag_ix SET value = 'other' WHERE job = 5 AND key = 'team'",
     "job 5: its tags are not indexed as they are\n"},
    {"INSERT INTO tag_ix VALUES (1, 'kind', 'test')", "job 1: its tags are not indexed as they are\n"},
    {"INSERT INTO tag VALUES (5, 'team', NULL)", "job 5: its tags are not indexed as they are\n"},
    {"UPDATE metric_sum SET points = 1 WHERE job = 2",
     "job 2: the summary of metric loss has another number of points\n"},
    {"DELETE FROM metric_sum WHERE job = 2", "job 2: metric loss has no summary\n"},
    {"DELETE FROM holding WHERE job = 2", "job 2: has ended, and retention does not know what it holds\n"},
    {"UPDATE holding SET what = 1 WHERE job = 2",
     "job 2: has ended, and retention does not know what it holds\n"},
    {"UPDATE holding SET ended_us = 1 WHERE job = 2",
     "job 2: has ended, and retention does not know what it holds\n"},
    {"UPDATE holding SET what = 15 WHERE job = 3",
     "job 3: has ended, and retention does not know what it holds\n"},
    {"INSERT OR REPLACE INTO holding SELECT id, 15, ended_us FROM job WHERE id = 6",
     "job 6: has ended, and retention does not know what it holds\n"},
    {"INSERT INTO holding VALUES (1, 15, 5)", "job 1: goes on, and retention takes it for ended\n"},
    {"INSERT INTO holding VALUES (77, 15, 5)", "job 77: retention holds it, and it is not there\n"},
    /* late, not wrong: the projections will come to them */
    {"DELETE FROM job_ix; DELETE FROM hp_num; DELETE FROM hp_text; DELETE FROM tag_ix; DELETE FROM holding; "
     "UPDATE projected SET event = 0",
     ""},
    {"DELETE FROM metric_sum; INSERT INTO metric_dirty SELECT DISTINCT job FROM metric_series", ""},
};

static void test_table(const char *good)
{
	char path[600];
	struct err e;

	store_verify_set_reducer(reduce, NULL);
	store_verify_set_cluster(reduce_cluster);
	snprintf(path, sizeof(path), "%s/spoilt.db", tap_tmpdir());
	for (size_t i = 0; i < sizeof(spoilt) / sizeof(spoilt[0]); i++) {
		int n, want = 0;

		unlink(path);
		if (store_backup(good, path, &e) < 0)
			tap_bail("%s", e.text);
		kit_sql(path, spoilt[i].sql);
		for (const char *p = spoilt[i].want; *p; p++)
			want += *p == '\n';
		states_open = 0;
		n = verify(path);
		is_str(lines, spoilt[i].want, spoilt[i].sql);
		ok(n == want && states_open == 0, "as many findings; each state of a replay was freed");
	}
}

static void test_cluster(const char *path)
{
	cluster_rows[0] = '\0';
	cluster_ends = 3;
	is_int(verify(path), 3, "what is left over in the cluster's state is a finding each");
	is_str(cluster_rows, "n2 n1 t1 r q q own ", "each row of the cluster, the newest node first");
	store_verify_set_cluster(NULL);
	store_verify_set_reducer(NULL, NULL);
}

/* ---- blobs
 * ------------------------------------------------------------------------------------------------------ */

static void test_blobs(const char *good)
{
	char dir[500], path[600], blobs[600];
	struct err e;

	snprintf(dir, sizeof(dir), "%s/withblobs", tap_tmpdir());
	snprintf(path, sizeof(path), "%s/hearth.db", dir);
	snprintf(blobs, sizeof(blobs), "%s/blobs", dir);
	if (fs_mkdir_p(blobs, 0700, &e) < 0 || store_backup(good, path, &e) < 0)
		tap_bail("%s", e.text);
	is_int(verify(path), 2, "names that are no digests");
	is_str(lines,
	       "job 2: bundle has no proper digest: bundle-2\njob 2: model has no proper digest: model-2\n",
	       "each is named");
	kit_sql(path, "INSERT INTO dropped (job, what, at_us) VALUES (2, 2, 5); UPDATE holding SET what = 13 "
	              "WHERE job = 2");
	is_int(verify(path), 1, "a bundle that was taken away is not missed");
	kit_sql(path, "UPDATE dropped SET what = 10 WHERE job = 2; UPDATE holding SET what = 5 WHERE job = 2");
	is_int(verify(path), 0, "nor an artifact");
	kit_sql(path, "UPDATE job SET bundle = "
	              "'0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef' WHERE id = 1");
	is_int(verify(path), 1, "a bundle that is not there");
	like(lines, "job 1: bundle 0123456789abcdef", "is named");
}

/* ---- what is unusual and sound
 * ------------------------------------------------------------------------------------ */

static void test_sound(void)
{
	static const char *const specs[] = {
	    "{\"hyperparameters\":{\"lr\":1,\"api_key\":\"x\",\"hf_token\":5}}", /* names that search must not
	                                                                            tell */
	    "{\"hyperparameters\":{},\"tags\":{}}",
	    "{}",
	    "{\"tags\":{\"a\":\"\",\"b\":\"\\u00e4\"}}",
	    "{\"hyperparameters\":{\"a\":null,\"b\":[],\"c\":{\"d\":1},\"e\":\"\",\"g\":-0.0}}",
	    "{\"\\u0074ags\":{\"a\":\"b\"},\"hyper\\u0070arameters\":{\"x\":\"y\"}}"};
	struct err e;
	struct kit k;

	kit_open(&k, "sound");
	for (uint64_t i = 0; i < 6; i++)
		kit_submit(&k, i + 1, specs[i]);
	kit_wait_projected(&k);
	is_int(verify(k.path), 0, "specifications of all sorts are indexed as they are");
	is_str(lines, "", "nothing is said");
	is_int(kit_number(k.path, "SELECT count(*) FROM hp_text WHERE job = 1"), 0,
	       "a secret's name is in no index");
	kit_close(&k);
	is_int(store_rebuild(k.path, &e), 0, "made anew");
	is_int(verify(k.path), 0, "as sound as before");
}

/* ---- what is no store
 * ------------------------------------------------------------------------------------------------ */

static void test_no_store(const char *good)
{
	char path[600];
	struct err e;

	snprintf(path, sizeof(path), "%s/none.db", tap_tmpdir());
	if (fs_write_atomic(path, "", 0, 0600, &e) < 0)
		tap_bail("%s", e.text);
	ok(verify(path) < 0, "an empty file cannot be checked: %s", lines);
	if (fs_write_atomic(path, "no database at all, but text", 28, 0600, &e) < 0)
		tap_bail("%s", e.text);
	ok(verify(path) != 0, "nor text: %s", lines);
	kit_sql(good, "CREATE TABLE before_break (a)"); /* not ours, and no harm */
	is_int(verify(good), 0, "a table more is no finding");
	kit_sql(good, "ALTER TABLE rank RENAME TO gone");
	ok(verify(good) > 0 && strstr(lines, "cannot read"), "a table less is: %.60s", lines);
}

int main(void)
{
	struct kit k;

	kit_open(&k, "good");
	kit_fill(&k);
	kit_close(&k);
	test_table(k.path);
	test_cluster(k.path);
	test_blobs(k.path);
	test_sound();
	test_no_store(k.path);
	return tap_done();
}
