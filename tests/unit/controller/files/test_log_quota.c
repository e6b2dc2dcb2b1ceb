/* Sums of logs: of a job and of all running jobs of a user; who is above has room for little, and others are
 * not touched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "controller/files/log_quota.h"
#include "controller/files/logs/logstore.h"
#include "store/store.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

#define MIB (1ll << 20)

static struct kit k;
static char dir[500];
static struct store_reader *reader;

static void put_job(uint64_t id, const char *owner)
{
	struct store_txn *t = store_txn_new();
	struct job_row r = kit_job(id);
	struct event_row ev = kit_event(id, id, C("submitted"));
	struct err e;

	r.owner = C(owner);
	store_txn_event(t, &ev);
	store_txn_job(t, &r);
	if (kit_commit(&k, t, &e) < 0)
		tap_bail("%s", e.text);
}

static const char *text_of(struct log_quota *q)
{
	static char said[TEXT_SIZE];
	struct text t = text_on(said, sizeof(said));

	log_quota_text(q, "rank-0", &t);
	return said;
}

static void test_sums(void)
{
	const struct log_limits l = {.stream = 100 * MIB, .job = 300 * MIB, .user = 500 * MIB};
	struct log_quota *q = log_quota_create(&l, dir, reader);

	is_int(log_quota_limit(q, 1), 100 * MIB, "the limit of a stream");
	like(text_of(q), "the log may have 100.0MiB (max_log_stream_mb)", "is named with its setting");
	log_quota_add(q, 1, 301 * MIB);
	is_int(log_quota_limit(q, 1), LOGSTORE_LEAST, "a job above its quota has room for little");
	like(text_of(q), "all logs of the job may have 300.0MiB (max_log_job_mb)", "and the reason is named");
	is_int(log_quota_limit(q, 2), 100 * MIB, "another job of the user is not touched");
	log_quota_add(q, 2, 250 * MIB);
	is_int(log_quota_limit(q, 2), LOGSTORE_LEAST, "but all of a user's jobs together have a quota, too");
	like(text_of(q), "logs of the user's running jobs may have 500.0MiB (max_log_user_mb)", "which is named");
	is_int(log_quota_limit(q, 3), 100 * MIB, "another user's job is not touched");
	log_quota_add(q, 1, -300 * MIB);
	is_int(log_quota_limit(q, 2), 100 * MIB, "what is cut out does not count");
	log_quota_add(q, 1, 300 * MIB);
	log_quota_forget(q, 1);
	is_int(log_quota_limit(q, 2), 100 * MIB, "nor does a job that runs no longer");
	log_quota_forget(q, 1);
	is_int(log_quota_limit(q, 99), 100 * MIB, "a job that is unknown has the limit of a stream");
	log_quota_destroy(q);
	q = log_quota_create(&(struct log_limits){0}, dir, reader);
	log_quota_add(q, 1, 1ll << 50);
	is_int(log_quota_limit(q, 1), 0, "without settings any number");
	log_quota_destroy(q);
}

static void end_job(uint64_t id)
{
	struct store_txn *t = store_txn_new();
	struct job_row r = kit_job(id);
	struct err e;

	r.owner = C("bob");
	r.status = C("completed");
	store_txn_job(t, &r);
	if (kit_commit(&k, t, &e) < 0)
		tap_bail("%s", e.text);
}

/* A lost node returns after the end of the job: nothing would ever forget it. */
static void test_late(void)
{
	const struct log_limits l = {.stream = 100 * MIB, .user = 2 * MIB};
	struct log_quota *q;

	put_job(4, "bob");
	q = log_quota_create(&l, dir, reader);
	is_int(log_quota_limit(q, 3), LOGSTORE_LEAST, "a user above the quota");
	log_quota_forget(q, 3);
	end_job(3);
	is_int(log_quota_limit(q, 3), 100 * MIB, "late logs of a job that has ended have the limit of a stream");
	log_quota_add(q, 3, 50 * MIB);
	is_int(log_quota_limit(q, 4), 100 * MIB, "and do not count for the user's running jobs");
	log_quota_destroy(q);
}

/* After a restart a job has what its folder has. */
static void test_found(void)
{
	const struct log_limits l = {.stream = 100 * MIB, .job = 2 * MIB};
	struct log_quota *q;
	cleanup_free char *attempt = xasprintf("%s/logs/3/1", dir), *raw = xasprintf("%s/rank-0.log", attempt),
	                  *ix = xasprintf("%s/rank-0.ix", attempt), *data = xcalloc(1, 3 * MIB);
	struct err e;

	if (fs_mkdir_p(attempt, 0700, &e) < 0 || fs_write_atomic(raw, data, 3 * MIB, 0600, &e) < 0 ||
	    fs_write_atomic(ix, "", 0, 0600, &e) < 0)
		tap_bail("%s", e.text);
	q = log_quota_create(&l, dir, reader);
	is_int(log_quota_limit(q, 3), LOGSTORE_LEAST, "logs of before the start count");
	log_quota_destroy(q);
}

/* A small disk: as it fills, first logs are made short, then none is stored. */
static void test_disk(void)
{
	const struct log_limits l = {.stream = 100 * MIB, .min_free_mb = 8};
	cleanup_free char *at = xasprintf("%s/small", dir), *fill = xasprintf("%s/fill", at),
	                  *data = xcalloc(1, 30 * MIB);
	struct log_quota *q;
	struct err e;

	if (fs_mkdir_p(at, 0700, &e) < 0 || mount("tmpfs", at, "tmpfs", 0, "size=40m") < 0) {
		tap_skip("needs the right to mount");
		return;
	}
	q = log_quota_create(&l, at, reader);
	is_int(log_quota_limit(q, 1), 100 * MIB, "an empty disk has room");
	log_quota_destroy(q);
	if (fs_write_atomic(fill, data, 28 * MIB, 0600, &e) < 0)
		tap_bail("%s", e.text);
	q = log_quota_create(&l, at, reader);
	is_int(log_quota_limit(q, 1), LOGSTORE_LEAST, "below twice min_free_mb logs are short");
	like(text_of(q), "the disk of hearthd is nearly full", "and the reason is named");
	is_int(log_quota_room(q, &e), 0, "but are stored");
	log_quota_destroy(q);
	unlink(fill);
	free(data);
	data = xcalloc(1, 39 * MIB);
	if (fs_write_atomic(fill, data, 39 * MIB, 0600, &e) < 0)
		tap_bail("%s", e.text);
	q = log_quota_create(&l, at, reader);
	ok(log_quota_room(q, &e) < 0 && e.code == ERR_NOSPACE, "the last part is for records: %s", e.text);
	log_quota_destroy(q);
	umount(at);
}

int main(void)
{
	kit_open(&k, "quota");
	snprintf(dir, sizeof(dir), "%s/data", tap_tmpdir());
	put_job(1, "ada");
	put_job(2, "ada");
	put_job(3, "bob");
	reader = kit_reader(&k);
	test_sums();
	test_found();
	test_late();
	test_disk();
	store_reader_close(reader);
	kit_close(&k);
	return tap_done();
}
