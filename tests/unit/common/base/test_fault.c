/* fault: which calls fail, parsing of the environment form. */
#include "common/base/fault.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

#ifdef HEARTH_FAULTS

static void test_counts(void)
{
	int hits[6];

	fault_clear();
	is_int(fault_arm("store.commit", 3, 2), 0, "arm");
	for (int i = 0; i < 6; i++)
		hits[i] = FAULT("store.commit");
	ok(!hits[0] && !hits[1] && hits[2] && hits[3] && !hits[4] && !hits[5], "the third and fourth call fail");
	is_int(fault_count("store.commit"), 6, "calls are counted");
	fault_clear();
	is_int(fault_count("store.commit"), 0, "clear forgets");
	is_int(FAULT("store.commit"), 0, "and disarms");
	is_int(fault_arm("no.such", 1, 1), -1, "unknown name");
}

static void test_env(void)
{
	static const char *const bad[] = {"x=1",
	                                  "store.commit",
	                                  "store.commit=",
	                                  "store.commit=0",
	                                  "store.commit=1x",
	                                  "store.commit=1x0",
	                                  "store.commit=-1",
	                                  "store.commit=1,,",
	                                  "store.commit=1 "};
	int good = 1;

	fault_clear();
	is_int(fault_arm_env("store.commit=1,shim.write=2x3"), 0, "two points");
	is_int(FAULT("store.commit"), 1, "the first");
	is_int(FAULT("shim.write"), 0, "the second not yet");
	is_int(FAULT("shim.write"), 1, "now");
	is_int(fault_arm_env(NULL), 0, "nothing");
	is_int(fault_arm_env(""), 0, "empty");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (fault_arm_env(bad[i]) != -1) {
			tap_diag("accepted %s", bad[i]);
			good = 0;
		}
	ok(good, "bad forms are refused");
	fault_clear();
}

/* Fail the n-th until none fails: the old file stays whole and no temporary file is left. */
static int count_entry(const char *name, void *arg)
{
	(void)name;
	++*(int *)arg;
	return 0;
}

static void test_write_atomic(void)
{
	static const char *const points[] = {"fs.write", "fs.fsync", "fs.rename"};
	char path[4200], *text;
	struct err e;
	int n, good = 1;

	snprintf(path, sizeof(path), "%s/f", tap_tmpdir());
	good &= fs_write_atomic(path, "old", 3, 0600, &e) == 0;
	for (size_t i = 0; i < 3; i++) {
		fault_arm(points[i], 1, 1);
		good &= fs_write_atomic(path, "new", 3, 0600, &e) == -1;
		good &= fs_read_file(path, 10, &text, NULL, &e) == 0 && strcmp(text, "old") == 0;
		free(text);
		n = 0;
		fs_each(tap_tmpdir(), count_entry, &n, &e);
		good &= n == 1;
	}
	ok(good, "a failed write leaves the old file and nothing else");
	is_int(fs_write_atomic(path, "new", 3, 0600, &e), 0, "and the next one works");
}

int main(void)
{
	test_counts();
	test_env();
	test_write_atomic();
	return tap_done();
}

#else

int main(void)
{
	tap_skip_all("failpoints are not compiled in (--enable-faults)");
	return 0;
}

#endif
