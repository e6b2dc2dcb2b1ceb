/* Room on the disk: marks, the way back, a real folder, the thread. */
#include <string.h>

#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/os/loop.h"
#include "controller/files/disk_space.h"
#include "tests/lib/tap.h"

#define MIB (1024ull * 1024)

static void test_marks(void)
{
	ok(disk_space_mark(DISK_SPACE_DEFAULT, 1000 * 1024 * MIB) == 64 * MIB, "64 MiB of a disk of usual size");
	ok(disk_space_mark(DISK_SPACE_DEFAULT, 40 * MIB) == 2 * MIB, "5 %% of a small one");
	ok(disk_space_mark(DISK_SPACE_DEFAULT, 0) == 0, "none where the size is not known");
	ok(disk_space_mark(0, 1000 * MIB) == 0, "none when it is turned off");
	ok(disk_space_mark(500, 1000 * MIB) == 500 * MIB, "as it is set, however small the disk is");
}

static int judge_low(struct disk_state *s, uint64_t free_mib)
{
	s->free_bytes = free_mib * MIB;
	disk_space_judge(s);
	return s->low;
}

static void test_judge(void)
{
	struct disk_state s = {.total_bytes = 1000 * MIB, .mark_bytes = 40 * MIB},
	                  off = {.total_bytes = 1000 * MIB};
	TEXT(text);

	ok(!judge_low(&s, 41) && !judge_low(&s, 40), "down to the mark there is room");
	ok(judge_low(&s, 39), "below it there is none");
	ok(judge_low(&s, 40) && judge_low(&s, 49), "a little more does not end that");
	disk_space_text(&s, &text);
	ok(strstr(text.at, "49.0MiB") && strstr(text.at, "1000.0MiB") && strstr(text.at, "40.0MiB") &&
	       strstr(text.at, "50.0MiB") && strstr(text.at, "min_free_mb"),
	   "the reason has figures and the setting: %s", text.at);
	ok(!judge_low(&s, 50), "a quarter more does");
	ok(!judge_low(&s, 41), "and then it is as before");
	ok(!judge_low(&off, 0), "without a mark a disk is never low");
}

#ifdef HEARTH_FAULTS
static struct disk_state seen;
static unsigned n_seen;

static void on_told(const struct disk_state *s, void *arg)
{
	(void)arg;
	seen = *s;
	n_seen++;
}

static void until_told(struct loop *l, int low)
{
	uint64_t end = clock_boot_us(clock_real()) + 60000000;

	while ((!n_seen || seen.low != low) && clock_boot_us(clock_real()) < end)
		loop_run_once(l, 100);
}

static void test_check(void)
{
	struct disk_space *r = disk_space_create(tap_tmpdir(), DISK_SPACE_DEFAULT, NULL, NULL, NULL, NULL),
	                  *off = disk_space_create(tap_tmpdir(), 0, NULL, NULL, NULL, NULL),
	                  *gone = disk_space_create("/proc/self/no such folder", DISK_SPACE_DEFAULT, NULL, NULL,
	                                            NULL, NULL);
	struct disk_state s;
	struct err e = {.code = ERR_NONE};

	fault_arm("data.low", 1, 1);
	is_int(disk_space_check(r, &e), -1, "too little is left");
	is_int(e.code, ERR_NOSPACE, "which is what it is called");
	like(e.text, "no new work is accepted: the disk of hearthd has", "with words");
	disk_space_last(r, &s);
	ok(s.low && s.free_bytes < s.mark_bytes && s.total_bytes, "that is what was seen last");
	fault_clear();
	is_int(disk_space_check(NULL, &e), 0, "nobody looks: nothing is refused");
	fault_arm("data.low", 1, 100);
	is_int(disk_space_check(off, &e), 0, "turned off: nothing is refused");
	is_int(disk_space_check(gone, &e), 0, "a disk that cannot be asked: the write itself will find out");
	fault_clear();
	disk_space_destroy(r);
	disk_space_destroy(off);
	disk_space_destroy(gone);
}

static void test_thread(void)
{
	struct loop *l = loop_create();
	struct disk_space *r;

	fault_arm("data.low", 1, 1000000);
	r = disk_space_create(tap_tmpdir(), DISK_SPACE_DEFAULT, l, on_told, NULL, NULL);
	until_told(l, 1);
	ok(n_seen && seen.low && seen.mark_bytes, "the thread tells of a disk that is low");
	fault_clear();
	if (disk_space_check(r, NULL) == 0) {
		until_told(l, 0);
		ok(!seen.low, "and of its end");
	} else {
		tap_skip("the disk of this machine has too little left");
	}
	disk_space_destroy(r);
	loop_destroy(l);
}
#else
static void test_check(void)
{
	tap_skip("a build without failpoints");
}

static void test_thread(void)
{
}
#endif

int main(void)
{
	log_init("test_room", LOG_LVL_ERROR);
	test_marks();
	test_judge();
	test_check();
	test_thread();
	return tap_done();
}
