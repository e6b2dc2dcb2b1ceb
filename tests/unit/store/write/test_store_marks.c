/* The high-water file: its marks are durable before an id is, in blocks; it tells when a database is older
 * than the file; and what it cannot promise is not committed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/os/fsutil.h"
#include "store/read/load.h"
#include "store/store.h"
#include "store/write/marks.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

static char file[600];

static void lab_open(struct kit *k, const char *name)
{
	kit_open(k, name);
	kit_close(k);
	snprintf(file, sizeof(file), "%s/%s.high-water", tap_tmpdir(), name);
	k->marks = file;
	kit_reopen(k);
}

static struct store_marks marks(void)
{
	struct store_marks m = {0};
	struct err e = {.text = ""};

	if (store_marks_read(file, &m, &e) != 1)
		tap_bail("no marks: %s", e.text);
	return m;
}

static int submit_array(struct kit *k, uint64_t id, uint32_t members)
{
	struct store_txn *t = store_txn_new();
	struct job_row r = kit_job(id);
	struct event_row ev = kit_event(id, id, C("submitted"));
	struct err e;

	r.members = members;
	store_txn_event(t, &ev);
	store_txn_job(t, &r);
	return kit_commit(k, t, &e);
}

static void test_blocks(void)
{
	struct kit k;

	struct store_marks m;
	struct err e;

	lab_open(&k, "blocks");
	ok(store_marks_read(file, &m, &e) <= 0, "a new file has no marks until a number is given");
	kit_submit(&k, 1, NULL);
	is_int(marks().jobs, 1000, "the first job takes a block of numbers");
	is_int(marks().events, 100000, "so does the first event");
	is_int(marks().last_event, 1, "the newest event is exact");
	kit_submit(&k, 2, NULL);
	is_int(marks().jobs, 1000, "the next job needs no new block");
	is_int(marks().last_event, 2, "the newest event follows");
	kit_submit(&k, 1000, NULL);
	is_int(marks().jobs, 1000, "the last number of a block");
	kit_submit(&k, 1001, NULL);
	is_int(marks().jobs, 2000, "the first one behind it");
	is_int(submit_array(&k, 1002, 5000), 0, "an array");
	is_int(marks().jobs, 7000, "numbers of members that are not made yet count");
	kit_submit(&k, 100001, NULL);
	is_int(marks().events, 200000, "events have blocks of their own");
	kit_close(&k);
	kit_reopen(&k);
	is_int(marks().jobs, 101000, "a restart changes nothing");
	is_int(marks().last_event, 100001, "nor the newest event");
	kit_close(&k);
}

/* The newest event of a database that was put back is below that of the file. */
static void test_older(void)
{
	uint64_t job, event, node;
	struct err e;
	struct kit k;
	char copy[700];

	lab_open(&k, "older");
	kit_submit(&k, 1, NULL);
	kit_close(&k);
	snprintf(copy, sizeof(copy), "%s.copy", k.path);
	if (fs_copy_tree(k.path, copy, &e) < 0)
		tap_bail("%s", e.text);
	kit_reopen(&k);
	kit_submit(&k, 2, NULL);
	kit_close(&k);
	if (rename(copy, k.path) < 0)
		tap_bail("rename");
	kit_reopen(&k);
	if (store_max_ids(k.store, &job, &event, &node, &e) < 0)
		tap_bail("%s", e.text);
	ok(event == 1 && marks().last_event == 2, "one event is lost, and the file knows");
	kit_submit(&k, 3, NULL);
	is_int(marks().last_event, 3, "the newest event never goes back");
	kit_close(&k);
}

static void test_damaged(void)
{
	static const char *const bad[] = {"", "hearth-high-water 1\njobs 5\n", "\0\0\0",
	                                  "hearth-high-water 1\njobs 5\nevents 6\nlast_event 7\n"};
	struct store_marks m;
	struct err e;
	struct kit k;

	lab_open(&k, "damaged");
	kit_submit(&k, 1, NULL);
	kit_close(&k);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (fs_write_atomic(file, bad[i], strlen(bad[i]) + (i == 2 ? 3 : 0), 0600, &e) < 0)
			tap_bail("%s", e.text);
		ok(store_marks_read(file, &m, &e) < 0 && e.code == ERR_INVALID, "damaged: %s", e.text);
	}
	kit_reopen(&k);
	ok(store_marks_read(file, &m, &e) < 0,
	   "an open store leaves a damaged file, so that the next start sees it");
	kit_submit(&k, 2, NULL);
	is_int(marks().jobs, 1000, "the next number writes it again");
	kit_close(&k);
	unlink(file);
	is_int(store_marks_read(file, &m, &e), 0, "a missing one is not damaged");
}

#ifdef HEARTH_FAULTS
static void test_not_raised(void)
{
	struct kit k;

	lab_open(&k, "not-raised");
	kit_submit(&k, 1, NULL);
	fault_arm("store.marks", 1, 1000000);
	is_int(submit_array(&k, 1001, 0), -1, "a number that the file cannot promise is not given");
	is_int(submit_array(&k, 2, 0), 0, "one that it has promised is");
	fault_clear();
	is_int(kit_number(k.path, "SELECT count(*) FROM job"), 2, "the store has no other");
	is_int(submit_array(&k, 1002, 0), 0, "when there is room again it goes on");
	is_int(marks().jobs, 2000, "with a new block");
	kit_close(&k);
}
#endif

int main(void)
{
	test_blocks();
	test_older();
	test_damaged();
#ifdef HEARTH_FAULTS
	test_not_raised();
#endif
	return tap_done();
}
