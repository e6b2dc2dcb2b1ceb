/* verify, backup, rebuild: a sound database has no finding; each kind of damage is found. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/tree/tree.h"
#include "store/read/verify.h"
#include "store/store.h"
#include "store/write/backup.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

static char lines[8192];

static void on_line(const char *line, void *arg)
{
	size_t n = strlen(lines);

	(void)arg;
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

static void fill(struct kit *k)
{
	struct store_txn *t;
	struct attempt_row a = {.job = 2, .number = 1, .state = C("ended"), .resumed_from_step = -1};
	struct rank_row rank = {.job = 2, .attempt = 1, .state = C("exited")};
	struct tag_row tag = {2, C("team"), NULL};
	double v[3] = {1, 2.5, -3};
	int64_t s[3] = {1, 2, 3};
	uint64_t at[3] = {KIT_T0, KIT_T0 + 1, KIT_T0 + 2};
	struct metric_chunk c = {.job = 2,
	                         .attempt = 1,
	                         .name = C("loss"),
	                         .n = 3,
	                         .steps = s,
	                         .values = v,
	                         .times_us = at,
	                         .seq = 1,
	                         .node = C("n")};
	struct event_row ev = kit_event(100, 2, C("ended"));
	struct job_row r = kit_job(2);
	struct err e;

	for (uint64_t id = 1; id <= 5; id++)
		kit_submit(k, id, NULL);
	t = store_txn_new();
	r.attempts = 1;
	r.status = C("completed");
	r.ended_us = KIT_T0 + 9;
	store_txn_event(t, &ev);
	store_txn_job(t, &r);
	store_txn_attempt(t, &a);
	store_txn_rank(t, &rank);
	store_txn_tag(t, &tag);
	store_txn_metric(t, &c);
	if (kit_commit(k, t, &e) < 0)
		tap_bail("fill: %s", e.text);
}

static int settled(void *arg)
{
	return verify(arg) == 0 && !strstr(lines, "another number");
}

/* ---- damage
 * ---------------------------------------------------------------------------------------------------- */

static void damage(const char *good, const char *text, const char *want)
{
	char path[600];
	struct err e;

	snprintf(path, sizeof(path), "%s/damaged.db", tap_tmpdir());
	unlink(path);
	if (store_backup(good, path, &e) < 0)
		tap_bail("backup: %s", e.text);
	kit_sql(path, text);
	ok(verify(path) > 0, "found: %.70s", text);
	like(lines, want, "and said");
}

static void test_damage(const char *path)
{
	damage(path, "DELETE FROM job WHERE id = 3", "event of job 3");
	damage(path, "DELETE FROM job_spec WHERE id = 3", "job 3: has no specification");
	damage(path, "DELETE FROM attempt", "rank of job 2");
	damage(path, "UPDATE job SET status = 'sleeping' WHERE id = 1", "does not exist: sleeping");
	damage(path, "UPDATE job SET ended_us = 0 WHERE id = 2", "without a time");
	damage(path, "UPDATE job SET name = 'other' WHERE id = 4", "job 4: its search entry");
	damage(path, "DELETE FROM hp_num WHERE name = 'lr' AND job = 5", "job 5: its hyperparameters");
	damage(path, "DELETE FROM tag_ix WHERE job = 5", "job 5: its tags");
	damage(path, "UPDATE metric_series SET points = 4", "job 2: metric loss: has 3 points");
	damage(path, "UPDATE metric_series SET last_bits = 0", "not that of its points");
	damage(path, "UPDATE metric_chunk SET data = x'000103'", "is damaged");
	damage(path, "UPDATE metric_chunk SET first = 1", "begins at point 1");
	damage(path, "UPDATE metric_sum SET points = 9", "another number of points");
	damage(path, "DELETE FROM metric_sum", "has no summary");
}

/* Bytes of a page overwritten: SQLite's own check, or the reading, must notice. */
static void test_corrupt(const char *good)
{
	char path[600], junk[512];
	struct stat st;
	struct err e;
	int fd, found;

	memset(junk, 0xa5, sizeof(junk));
	snprintf(path, sizeof(path), "%s/corrupt.db", tap_tmpdir());
	unlink(path);
	if (store_backup(good, path, &e) < 0)
		tap_bail("backup: %s", e.text);
	fd = open(path, O_RDWR);
	if (fd < 0 || fstat(fd, &st) < 0 || pwrite(fd, junk, sizeof(junk), st.st_size / 4096 / 2 * 4096) < 0)
		tap_bail("cannot damage %s", path);
	close(fd);
	found = verify(path);
	ok(found != 0, "a damaged page is found: %.80s", lines);
	snprintf(path, sizeof(path), "%s/cut.db", tap_tmpdir());
	unlink(path);
	if (store_backup(good, path, &e) < 0 || truncate(path, st.st_size / 2 / 4096 * 4096) < 0)
		tap_bail("cannot cut %s", path);
	ok(verify(path) != 0, "a file that was cut is found: %.80s", lines);
}

/* ---- replay
 * ------------------------------------------------------------------------------------------------------ */

struct counter {
	int events;
};
static int live;

static int reduce(void **state, const struct event_row *ev, const struct store_job_rows *rows, char *why,
                  size_t why_size, void *arg)
{
	struct counter *c = *state;
	int *want = arg, rc = 0;

	if (!c) {
		c = *state = xcalloc(1, sizeof(*c));
		live++;
	}
	if (ev) {
		c->events++;
		return 0;
	}
	if (rows->job->id == 2 && c->events != *want) {
		snprintf(why, why_size, "%d events instead of %d", c->events, *want);
		rc = -1;
	}
	if (rows->job->id && !rows->job->spec)
		rc = -1;
	free(c);
	live--;
	*state = NULL;
	return rc;
}

static void test_replay(const char *path)
{
	int want = 2;

	ok(verify(path) == 0 && strstr(lines, "skipped: replay"),
	   "without a reducer the check is skipped, and that is said");
	store_verify_set_reducer(reduce, &want);
	ok(verify(path) == 0 && !strstr(lines, "replay"), "the replay agrees");
	want = 3;
	ok(verify(path) == 1, "the replay differs");
	like(lines, "job 2: replay of its events differs: 2 events instead of 3", "and says how");
	is_int(live, 0, "every state was freed");
	store_verify_set_reducer(NULL, NULL);
}

/* ---- blobs
 * -------------------------------------------------------------------------------------------------------- */

static void test_blobs(struct kit *k)
{
	char blobs[600], src[600], digest[HASH_HEX_SIZE], *manifest, path[900], base[600];
	struct job_row r = kit_job(1);
	struct store_txn *t = store_txn_new();
	struct event_row ev = kit_event(200, 1, C("changed"));
	struct err e;
	size_t n;

	snprintf(base, sizeof(base), "%s", k->path);
	*strrchr(base, '/') = '\0';
	snprintf(blobs, sizeof(blobs), "%.500s/blobs", base);
	snprintf(src, sizeof(src), "%.500s/src", base);
	ok(verify(k->path) == 0 && strstr(lines, "skipped: blobs"), "no blob folder: said");
	if (fs_mkdir_p(blobs, 0700, &e) < 0 || fs_mkdir_p(src, 0700, &e) < 0)
		tap_bail("%s", e.text);
	snprintf(path, sizeof(path), "%s/a.py", src);
	if (fs_write_atomic(path, "pass\n", 5, 0600, &e) < 0 ||
	    tree_scan(src, NULL, NULL, NULL, NULL, &manifest, &n, digest, NULL, NULL, &e) < 0)
		tap_bail("%s", e.text);
	r.bundle = digest;
	store_txn_event(t, &ev);
	store_txn_job(t, &r);
	kit_commit(k, t, &e);
	ok(verify(k->path) == 1, "a bundle that is not there is found");
	like(lines, "job 1: bundle", "and said");
	blob_put(blobs, digest, manifest, n, &e);
	ok(verify(k->path) == 1, "its chunk is missing still");
	like(lines, "1 of its 1 chunks", "and said");
	hash_hex("pass\n", 5, path);
	blob_put(blobs, path, "pass\n", 5, &e);
	is_int(verify(k->path), 0, "whole");
	free(manifest);
}

/* ---- backup, rebuild
 * ------------------------------------------------------------------------------------------------ */

struct count {
	int n;
};
static void on_commit(int rc, const struct err *e, void *arg)
{
	(void)e;
	((struct count *)arg)->n += rc == 0;
}

static int enough(void *arg)
{
	return ((struct count *)arg)->n == 2000;
}

static void test_backup(struct kit *k)
{
	struct count c = {0};
	char to[600];
	struct stat st;
	struct err e;

	snprintf(to, sizeof(to), "%s/copy.db", tap_tmpdir());
	for (uint64_t id = 1000; id < 3000; id++) {
		struct store_txn *t = store_txn_new();
		struct job_row r = kit_job(id);
		struct event_row ev = kit_event(id, id, C("submitted"));

		store_txn_event(t, &ev);
		store_txn_job(t, &r);
		if (store_commit(k->store, t, on_commit, &c, &e) < 0)
			tap_bail("commit: %s", e.text);
		if (id == 2000)
			is_int(store_backup(k->path, to, &e), 0, "backup while the writer writes");
	}
	kit_wait(k, enough, &c, "2,000 submits");
	ok(verify(to) == 0, "the copy is sound: %.100s", lines);
	ok(stat(to, &st) == 0 && (st.st_mode & 077) == 0, "and the owner's alone");
	ok(store_backup(k->path, to, &e) < 0 && e.code == ERR_CONFLICT, "an existing file is not overwritten");
	ok(store_backup("/no/such/file.db", "/no/such/copy", &e) < 0, "no such database");
	snprintf(to, sizeof(to), "%s/no-dir/copy.db", tap_tmpdir());
	ok(store_backup(k->path, to, &e) < 0, "no such folder");
}

static void test_rebuild(struct kit *k)
{
	struct err e;

	kit_wait_projected(k);
	kit_close(k);
	kit_sql(k->path,
	        "DELETE FROM job_ix; DELETE FROM hp_num; DELETE FROM hp_text; DELETE FROM tag_ix; DELETE "
	        "FROM metric_sum; DELETE FROM holding");
	ok(verify(k->path) > 0, "projections that are gone are found");
	is_int(store_rebuild(k->path, &e), 0, "store_rebuild");
	ok(verify(k->path) == 0, "makes them anew: %.100s", lines);
	kit_sql(k->path, "UPDATE projected SET event = 0");
	kit_reopen(k);
	kit_wait_projected(k);
	kit_close(k);
	ok(verify(k->path) == 0, "projecting twice gives the same");
	ok(store_rebuild("/no/such/file.db", &e) < 0 && e.code == ERR_NOT_FOUND, "no such database");
}

int main(void)
{
	char dir[600];
	struct err e;
	struct kit k;

	snprintf(dir, sizeof(dir), "%s/v", tap_tmpdir());
	fs_mkdir_p(dir, 0700, &e);
	kit_open(&k, "v/verify");
	fill(&k);
	kit_wait_projected(&k);
	kit_wait(&k, settled, k.path, "a sound database");
	ok(verify(k.path) == 0, "no finding in a sound database, beside a running writer");
	test_replay(k.path);
	test_damage(k.path);
	test_corrupt(k.path);
	test_blobs(&k);
	test_backup(&k);
	test_rebuild(&k);
	ok(verify("/no/such/file.db") < 0, "a database that is not there cannot be checked");
	return tap_done();
}
