/* The lease table of agent/control/lease.h, every row and every edge of time; and the lease on disk. */
#include "agent/control/guard.h"
#include "agent/control/lease.h"
#include "common/base/clock.h"
#include "common/os/fsutil.h"
#include "common/os/lease_file.h"
#include "common/os/loop.h"
#include "tests/lib/tap.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void test_table(void)
{
	is_int(lease_verdict(0, 0, 0), LEASE_CARRY_ON, "alone in the cluster: carry on");
	is_int(lease_verdict(1, 0, 0), LEASE_MINORITY, "two agents, the other not reached: kill");
	is_int(lease_verdict(1, 1, 0), LEASE_CARRY_ON, "two agents, both without controller: carry on");
	is_int(lease_verdict(1, 1, 1), LEASE_CUT, "two agents, the other hears it: cut");
	is_int(lease_verdict(2, 1, 0), LEASE_CARRY_ON, "three agents, two of them together: majority");
	is_int(lease_verdict(2, 0, 0), LEASE_MINORITY, "three agents, alone: kill");
	is_int(lease_verdict(3, 1, 0), LEASE_MINORITY, "four agents, exactly half: no majority");
	is_int(lease_verdict(3, 2, 0), LEASE_CARRY_ON, "four agents, three together");
	is_int(lease_verdict(9, 1, 1), LEASE_CUT, "one that hears it is enough");
}

static void test_time(void)
{
	uint64_t t0 = 1000000000, age;
	struct lease l;

	lease_init(&l, t0, 3200, 1);
	is_int(lease_tick(&l, t0 + 1999999), 0, "not before five eighths");
	is_int(lease_has_controller(&l, t0 + 100000, &age), 1, "held: has a controller");
	is_int(age, 100, "age of the acknowledgement");
	is_int(lease_next_us(&l), t0 + 2000000, "next look");
	is_int(lease_tick(&l, t0 + 2000000), 1, "silence: ask");
	is_int(l.phase, LEASE_ASKING, "asking");
	is_int(lease_tick(&l, t0 + 9000000), 0, "asked once");
	is_int(lease_has_controller(&l, t0 + 2000000, &age), 0, "no controller now");
	is_int(lease_decide(&l, t0 + 2500000, 2, 1, 0), LEASE_CARRY_ON, "carry on");
	is_int(lease_next_us(&l), t0 + 3600000, "asked again half a lease after it was asked");
	is_int(lease_tick(&l, t0 + 4100000), 1, "asks again");
	is_int(lease_decide(&l, t0 + 4200000, 2, 2, 1), LEASE_CUT, "now one hears it");
	is_int(l.phase, LEASE_UNCONFIRMED, "but that is not carried out at once");
	is_int(lease_next_us(&l), t0 + 5000000, "it is asked a second time a quarter later");
	is_int(lease_tick(&l, t0 + 5000000), 1, "asks");
	is_int(lease_decide(&l, t0 + 5000100, 2, 2, 1), LEASE_CUT, "the same");
	is_int(l.phase, LEASE_LOST, "now it is certain");
	is_int(lease_next_us(&l) == UINT64_MAX, 1, "after the verdict only an ack matters");
	lease_ack(&l, t0 + 9000000, 8000);
	is_int(l.phase, LEASE_HELD, "an ack renews it");
	is_int(lease_next_us(&l), t0 + 14000000, "with its new length");
	lease_ack(&l, t0 + 9500000, 0);
	is_int(l.lease_ms, 8000, "length 0 keeps the length");
}

/* All is over when the lease is: the controller restarts nothing before. */
static void test_in_time(void)
{
	uint64_t t0 = 1000000000;
	struct lease l;

	lease_init(&l, t0, 8000, 1);
	lease_tick(&l, t0 + 5000000);
	lease_decide(&l, t0 + 5000000 + lease_ask_timeout_ms(&l) * 1000, 2, 0, 0);
	is_int(l.phase, LEASE_UNCONFIRMED, "nobody reached");
	is_int(lease_next_us(&l), t0 + 7000000, "second round at seven eighths");
	is_int(lease_tick(&l, t0 + 7000000), 1, "asks");
	is_int(lease_decide(&l, t0 + 7000000 + lease_ask_timeout_ms(&l) * 1000, 2, 0, 0), LEASE_MINORITY,
	       "still nobody");
	is_int(l.phase, LEASE_LOST, "lost");
	ok(t0 + 7000000 + lease_ask_timeout_ms(&l) * 1000 <= t0 + 8000000, "before the lease's end");

	lease_init(&l, t0, 8000, 1);
	lease_tick(&l, t0 + 5000000);
	lease_decide(&l, t0 + 5000100, 2, 2, 1);
	is_int(l.phase, LEASE_UNCONFIRMED, "a neighbour found the restarted controller first");
	lease_ack(&l, t0 + 5300000, 0);
	is_int(l.phase, LEASE_HELD, "so did this one, and all is well");
}

/* One that stood still, or was away, when it should have asked: two rounds, close together, as the controller
 * may declare it lost at lease + margin. */
static void test_asked_late(void)
{
	uint64_t t0 = 1000000000;
	struct lease l;

	for (uint64_t at = 7000000; at < 10000000; at += 100000) {
		uint64_t second;

		lease_init(&l, t0, 8000, 1);
		lease_tick(&l, t0 + at);
		lease_decide(&l, t0 + at + 5000, 2, 2, 1);
		second = lease_next_us(&l);
		if (l.phase != LEASE_UNCONFIRMED || second <= t0 + at + 5000 || second > t0 + at + 300000)
			ok(0, "first asked after %llu ms, the second time at %llu", (unsigned long long)at / 1000,
			   (unsigned long long)(second - t0) / 1000);
		lease_tick(&l, second);
		lease_decide(&l, second + 5000, 2, 2, 1);
		if (l.phase != LEASE_LOST)
			ok(0, "and over");
	}
	lease_init(&l, t0, 8000, 1);
	lease_tick(&l, t0 + 7500000);
	lease_decide(&l, t0 + 7505000, 2, 2, 1);
	ok(lease_next_us(&l) <= t0 + 7800000, "asked late: again within a quarter of a question's time");
	lease_ack(&l, t0 + 7600000, 0);
	is_int(l.phase, LEASE_HELD, "which is enough to hear the answer to a beat");

	lease_init(&l, t0, 8000, 1);
	lease_tick(&l, t0 + 10000000);
	lease_decide(&l, t0 + 10005000, 2, 2, 1);
	is_int(lease_next_us(&l), t0 + 12005000,
	       "whoever may be given up already has a quarter of a lease to dial");
}

/* The agent stood still while the answers were there: they tell nothing of now. */
static void test_late_answers(void)
{
	uint64_t t0 = 1000000000, round = 1100000;
	struct lease l;

	lease_init(&l, t0, 10000, 1);
	lease_tick(&l, t0 + 6250000);
	is_int(lease_decide(&l, t0 + 6250000 + round, 2, 2, 0), LEASE_CARRY_ON, "answers in time count");
	lease_init(&l, t0, 10000, 1);
	lease_tick(&l, t0 + 6250000);
	is_int(lease_decide(&l, t0 + 10200000, 2, 2, 0), LEASE_LATE, "later ones let nobody carry on");
	ok(lease_next_us(&l) <= t0 + 10200000, "it asks again at once");
	is_int(lease_tick(&l, t0 + 10200000), 1, "asks");
	is_int(lease_decide(&l, t0 + 10205000, 2, 2, 0), LEASE_CARRY_ON, "and carries on");
	is_int(lease_next_us(&l), t0 + 15200000, "for half a lease after the question");

	lease_init(&l, t0, 10000, 1);
	lease_tick(&l, t0 + 6250000);
	lease_decide(&l, t0 + 6260000, 2, 2, 1);
	lease_tick(&l, t0 + 8750000);
	is_int(lease_decide(&l, t0 + 10200000, 2, 2, 0), LEASE_LATE, "late in the second round");
	is_int(lease_tick(&l, t0 + 10200000), 1, "asked again");
	is_int(lease_decide(&l, t0 + 10205000, 2, 2, 1), LEASE_CUT, "that is the second one");
	is_int(l.phase, LEASE_LOST, "and confirms the first");

	lease_init(&l, t0, 10000, 1);
	lease_tick(&l, t0 + 6250000);
	is_int(lease_decide(&l, t0 + 10200000, 2, 0, 0), LEASE_MINORITY, "a verdict to kill waits for nothing");
}

/* An agent that starts with a lease that ran out long ago gets time to dial. */
static void test_late_start(void)
{
	struct lease l;

	lease_init(&l, 1000000, 4000, 1);
	is_int(lease_tick(&l, 100000000), 1, "asks at once");
	lease_decide(&l, 100001000, 2, 2, 1);
	is_int(l.phase, LEASE_UNCONFIRMED, "a verdict to kill waits for a second round");
	is_int(lease_next_us(&l), 101001000, "a quarter of a lease to dial");
}

static void test_late_ack(void)
{
	struct lease l;

	lease_init(&l, 1000000, 3000, 1);
	lease_tick(&l, 4000000);
	lease_ack(&l, 4100000, 0);
	is_int(lease_decide(&l, 4200000, 5, 0, 0), LEASE_CARRY_ON, "an ack while asking wins over the answers");
	is_int(l.phase, LEASE_HELD, "and stays held");
}

static void test_neighbours(void)
{
	/* The controller dies: the neighbour's lease has 0.5 s left, that proves nothing. */
	is_int(lease_peer_hears(3000, 1, 2500), 0, "an old acknowledgement is no proof");
	is_int(lease_peer_hears(3000, 1, 400), 1, "a fresh one is");
	is_int(lease_peer_hears(3000, 0, 400), 0, "no controller, no proof");
}

static void test_bounds(void)
{
	struct lease l;
	uint64_t age;

	lease_init(&l, 1000000, 3000, 0);
	is_int(lease_has_controller(&l, 1000001, &age), 0,
	       "a lease granted at the start is no proof of a controller");

	lease_init(&l, 1, 0, 0);
	is_int(l.lease_ms, 10000, "a lease of 0 is the default");
	lease_init(&l, 1, 400, 0);
	is_int(lease_ask_timeout_ms(&l), 150, "least time to ask");
	lease_init(&l, 1, 30000, 0);
	is_int(lease_ask_timeout_ms(&l), 1000, "greatest time to ask");
	like(lease_verdict_text(LEASE_CUT), "cut", "text");
}

/* A lease begins when the beat was sent, also for the agent that is started next. */
static void test_saved(void)
{
	struct clock clock;
	struct agent_env env = {.loop = loop_create(), .clock = &clock};
	struct guard_parts parts = {.env = &env, .boot_id = "b"};
	struct guard *g;
	char *text = NULL, path[4096];
	struct lease_record r = {0};
	uint64_t at = 0;

	clock_fake_init(&clock, 1800000000000000ull, 5000000000ull);
	env.cfg.run_dir = (char *)(uintptr_t)tap_tmpdir();
	g = guard_create(&parts, NULL, NULL);
	clock_fake_advance(&clock, 60000000);
	guard_ack(g, clock_boot_us(&clock) - 3000000, 10000);
	snprintf(path, sizeof(path), "%s/lease", tap_tmpdir());
	is_int(fs_read_file(path, 256, &text, NULL, NULL), 0, "the lease is on disk");
	ok(text && sscanf(text, "%" SCNu64, &at) == 1 && at == clock_boot_us(&clock) - 3000000,
	   "from when the beat was sent, not from when its answer came: %s", text ? text : "");
	free(text);
	clock_fake_advance(&clock, 900000);
	guard_ack(g, clock_boot_us(&clock) - 100000, 10000);
	is_int(lease_file_read(path, &r, NULL), 0, "so is the next beat's");
	is_int(r.last_ack_us, clock_boot_us(&clock) - 100000, "however soon it came");
	is_int(r.until_us, r.last_ack_us + 10250000, "ranks run a lease and a quarter of a second from it");
	guard_destroy(g);
	loop_destroy(env.loop);
}

int main(void)
{
	test_table();
	test_time();
	test_in_time();
	test_asked_late();
	test_late_answers();
	test_late_start();
	test_late_ack();
	test_neighbours();
	test_bounds();
	test_saved();
	return tap_done();
}
