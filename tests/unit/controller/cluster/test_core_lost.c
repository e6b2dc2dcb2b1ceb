/*
 * Which silent nodes are declared lost: those that cannot be carrying on without a controller, and no others.
 * Every agent is given what docs/spec/08-lease.md says it does, so that the test asks the question that
 * matters: does anything run on two nodes?
 */
#include "agent/control/lease.h"
#include "common/base/lease_times.h"
#include "controller/cluster/peers.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <stdio.h>
#include <string.h>

#define ONE                                                                                                  \
	"{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"retry\": "                   \
	"{\"max_attempts\": 0, \"capacity\": 0}}"

/* Seconds in which the agents named beat once each. */
static void beats(struct world *w, const char *names, int seconds)
{
	for (int i = 0; i < seconds; i++) {
		for (const char *p = names; *p; p++)
			world_beat(w, (char[]){*p, '\0'});
		world_advance(w, 1000000);
	}
}

static struct world *cluster(uint64_t seed, const char *names)
{
	struct world *w = world_create(seed);

	for (const char *p = names; *p; p++)
		world_agent_up(w, (char[]){*p, '\0'}, 1, 1);
	beats(w, names, 15); /* everybody has been told of everybody */
	return w;
}

static int is_lost(struct world *w, const char *node)
{
	return node_find(w->core, node)->r.state == NODE_LOST;
}

static unsigned count_lost(struct world *w)
{
	unsigned n = 0;

	for (const struct cnode *x = node_first(w->core); x; x = node_next(x))
		n += x->r.state == NODE_LOST;
	return n;
}

static const char *reason_of(struct world *w, const char *node)
{
	static char text[600];

	world_request(w, REQ_NODES, 0, node, NULL);
	snprintf(text, sizeof text, "%s",
	         cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
	             cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(w->body, "nodes"), 0), "reason")));
	return text;
}

/* n nodes, of which k fall silent at once: lost when, and only when, an agent among those k would kill. The
 * agent's own rule (agent/control/lease.c) decides what is right. */
static void test_sizes(void)
{
	static const char names[] = "abcdef";

	for (unsigned n = 1; n <= 6; n++)
		for (unsigned k = 1; k <= n; k++) {
			char all[8], rest[8];
			struct world *w;
			/* Those k reach each other, and nobody who hears the controller. */
			int carries_on = lease_verdict(n - 1, k - 1, 0) == LEASE_CARRY_ON;

			snprintf(all, sizeof all, "%.*s", (int)n, names);
			snprintf(rest, sizeof rest, "%s", all + k);
			w = cluster(n * 10 + k, all);
			beats(w, rest, 10);
			ok(count_lost(w) == 0, "%u of %u silent for less than lease + margin", k, n);
			beats(w, rest, 2);
			ok(count_lost(w) == (carries_on ? 0 : k), "%u of %u: %s", k, n,
			   carries_on ? "may carry on, held" : "cannot carry on, lost");
			beats(w, rest, 60);
			is_int(count_lost(w), carries_on ? 0 : k, "later, too");
			world_destroy(w);
		}
}

/* One after the other: the list of those that are left shrinks, once they have confirmed it. */
static void test_shrinks(void)
{
	struct world *w = cluster(1, "abcd");

	beats(w, "bcd", 30);
	is_int(count_lost(w), 1, "one of four is lost");
	beats(w, "cd", 30);
	is_int(count_lost(w), 2, "then one of three");
	beats(w, "d", 30);
	is_int(count_lost(w), 3, "then one of two");
	beats(w, "", 60);
	is_int(count_lost(w), 3, "the last one may carry on alone");
	world_end_well(w);
}

/* What an agent was not told yet, it does not count by. */
static void test_unconfirmed(void)
{
	struct world *w = cluster(2, "abc");
	struct cnode *a = node_find(w->core, "a");

	/* c is lost; a and b are told so, but a never says that it goes by the shorter list. */
	for (int i = 0; i < 30; i++) {
		struct wm_beat m = {.seq = 1, .peers_gen = a->held.gen};

		world_msg(w, "a", 0, WM_BEAT, &m);
		world_beat(w, "b");
		world_advance(w, 1000000);
	}
	is_int(count_lost(w), 1, "c is lost");
	is_int(a->held.n, 2, "a goes by b and c still");
	is_int(node_find(w->core, "b")->held.n, 1, "b by a alone");
	beats(w, "b", 30);
	ok(!is_lost(w, "a"), "a may reach c, and carry on with it: two of three");
	world_end_well(w);
}

/* A majority that was away for a moment may have made an orphan of one that stays away. */
static void test_moment(void)
{
	struct world *w = cluster(3, "abc");

	beats(w, "c", 8); /* a asks at 6 s: b does not hear either */
	beats(w, "bc", 6);
	ok(!is_lost(w, "a"),
	   "14 s silent, but 8 s ago it had a majority: an orphan asks again within half a lease");
	beats(w, "bc", 8);
	ok(is_lost(w, "a"), "then b says that it hears: a has killed");
	world_end_well(w);
}

/* More than an agent is told of: a rack that is lost together is declared lost. */
static void test_large(void)
{
	struct world *w = world_create(4);
	char name[16];
	unsigned lost = 0;

	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof name, "n%03d", i);
		world_agent_up(w, name, 0, 1);
	}
	for (int s = 0; s < 40; s++) {
		for (int i = s < 10 ? 0 : 80; i < 200; i++) {
			snprintf(name, sizeof name, "n%03d", i);
			world_beat(w, name);
		}
		world_forget(w);
		world_advance(w, 1000000);
	}
	is_int(node_find(w->core, "n100")->held.n, 64, "an agent is told of 64 others");
	lost = count_lost(w);
	is_int(lost, 80, "80 neighbours of 200 are lost together");
	world_destroy(w);
}

static int knows(size_t at, size_t n, size_t other)
{
	size_t list[PEERS_MAX], count = peers_spread(at, n, list);

	for (size_t i = 0; i < count; i++)
		if (list[i] == other)
			return 1;
	return 0;
}

/* Counts what is wrong with the list of a place: itself, the same one twice, one that does not know it; the
 * longest run of neighbours without a peer is more than two steps. */
static unsigned count_faults(size_t at, size_t n)
{
	size_t list[PEERS_MAX], count = peers_spread(at, n, list), gap = 0;
	unsigned faults = count != (n - 1 < PEERS_MAX ? n - 1 : PEERS_MAX);

	for (size_t i = 0; i < count; i++) {
		faults += list[i] >= n || list[i] == at || !knows(list[i], n, at);
		for (size_t k = 0; k < i; k++)
			faults += list[k] == list[i];
	}
	for (size_t k = 1; k < n; k++) {
		gap = knows(at, n, (at + k) % n) ? 0 : gap + 1;
		faults += gap > 2 * n / PEERS_MAX;
	}
	return faults;
}

/* A node is in the list of each peer that it asks: at a crowded port a stranger would get no answer. */
static void test_symmetric(void)
{
	unsigned small = 0, large = 0;

	for (size_t n = 1; n <= 65; n++)
		for (size_t at = 0; at < n; at++)
			small += count_faults(at, n);
	is_int(small, 0, "up to 65 nodes each knows all others, once");
	for (size_t n = 66; n <= 400; n++)
		for (size_t at = 0; at < n; at += n / 7)
			large += count_faults(at, n);
	is_int(large, 0, "of 66 to 400 nodes each knows 64 that know it, at even steps");
}

static int has_peer(const struct cnode *x, uint64_t id)
{
	for (uint32_t i = 0; i < x->held.n; i++)
		if (x->held.ids[i] == id)
			return 1;
	return 0;
}

/* 129 nodes, with the lists of hearthd. */
static void test_symmetric_world(void)
{
	struct world *w = world_create(8);
	unsigned strangers = 0, other = 0;
	char name[16];

	for (int i = 0; i < 129; i++) {
		snprintf(name, sizeof name, "n%03d", i);
		world_agent_up(w, name, 0, 1);
	}
	for (int s = 0; s < 10; s++) {
		for (int i = 0; i < 129; i++) {
			snprintf(name, sizeof name, "n%03d", i);
			world_beat(w, name);
		}
		world_forget(w);
		world_advance(w, 1000000);
	}
	for (const struct cnode *x = node_first(w->core); x; x = node_next(x)) {
		other += x->held.n != PEERS_MAX;
		for (uint32_t i = 0; i < x->held.n; i++)
			strangers += !has_peer(node_by_id(w->core, x->held.ids[i]), x->r.id);
	}
	is_int(other, 0, "each of 129 nodes has a list of 64");
	is_int(strangers, 0, "and all of these have it in theirs");
	world_destroy(w);
}

static void test_restart(void)
{
	struct world *w = cluster(5, "ab");

	world_restart(w);
	world_agent_up(w, "a", 1, 1);
	beats(w, "a", 11);
	ok(!is_lost(w, "b"), "b has a whole lease to come back");
	beats(w, "a", 3);
	ok(is_lost(w, "b"), "its list is not on record: it is taken for the present one");
	world_end_well(w);
	w = cluster(6, "a");
	world_restart(w);
	beats(w, "", 40);
	ok(!is_lost(w, "a"), "the only one may carry on");
	world_end_well(w);
}

/* Removing ends the jobs as well, so it wants the same certainty. */
static void test_removed_with_jobs(void)
{
	struct world *w = cluster(8, "a");
	uint64_t id = world_submit(w, ONE);

	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_RUNNING, 0, NULL);
	core_agent_down(w->core, "a", node_find(w->core, "a")->session, "cut");
	beats(w, "", 60);
	is_int(world_request(w, REQ_NODE_RM, 0, "a", "{}"), 409, "a silent node with a job is not removed");
	golden("hearthd/lost-has-job-which-may-be-carrying-on", w->err.text, "1", "jobctl node rm");
	like(w->err.text, "jobctl node rm --yes a", "and what to do");
	is_str(world_status(w, id), "running", "its job is left alone");
	is_int(world_request(w, REQ_NODE_RM, 0, "a", "{\"force\": true}"), 200, "removed when it is said twice");
	is_str(world_status(w, id), "failed", "its job ends");
	world_end_well(w);
}

static void test_declared(void)
{
	struct world *w = cluster(7, "a");
	uint64_t id = world_submit(w, ONE), s;
	struct wm_sync_begin begin = {.instance = 1};
	struct wm_sync_end end = {.instance = 1};

	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_RUNNING, 0, NULL);
	is_int(world_request(w, REQ_NODE_LOST, 0, "a", "{}"), 409, "one that is heard is not lost");
	like(w->err.text, "its agent was heard", "and told so");
	core_agent_down(w->core, "a", node_find(w->core, "a")->session, "cut");
	beats(w, "", 60);
	is_str(world_status(w, id), "running", "held: it may be carrying on");
	like(reason_of(w, "a"), "not connected for", "nodes says since when");
	like(reason_of(w, "a"), "jobctl node lost", "and what to do");
	world_request(w, REQ_WHY, id, NULL, NULL);
	golden("hearthd/lost-of-rank-runs-node-a-is-not", world_text(w, "text"), "1", "1m1s", "jobctl node lost");
	is_int(world_request(w, REQ_NODE_LOST, 0, "a", "{\"reason\": \"fire\"}"), 200, "declared by a person");
	ok(is_lost(w, "a"), "lost");
	golden("hearthd/lost-declared-lost-by-ada-fire", reason_of(w, "a"));
	is_str(world_status(w, id), "failed", "its job ends");
	is_int(world_request(w, REQ_NODE_LOST, 0, "a", "{}"), 200, "twice is once");
	is_int(world_request(w, REQ_NODE_LOST, 0, "nobody", "{}"), 404, "no such node");
	/* It was not on fire: the return is fenced. */
	world_forget(w);
	s = world_agent_connect(w, "a");
	world_msg(w, "a", s, WM_SYNC_BEGIN, &begin);
	world_launch(w, "a", id, 1, LAUNCH_RUNNING, 0, NULL);
	world_msg(w, "a", s, WM_SYNC_END, &end);
	world_turn(w);
	is_int(world_count(w, "a", WM_KILL), 1, "what it has is to be killed");
	id = world_submit(w, ONE);
	is_str(world_status(w, id), "queued", "no work before that");
	world_launch(w, "a", id - 1, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id - 1, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "starting", "then it has work again");
	is_str(world_status(w, id - 1), "failed", "the end of the lost one stays");
	world_end_well(w);
}

/* The instant of the decision, by the clock of the core. Returns the time since the last sign of life. */
static uint64_t lost_after_us(uint32_t lease_ms, uint64_t step_us)
{
	struct world *w = world_create_lease(90, lease_ms);
	uint64_t from, after = 0, next_us = 0;

	for (const char *p = "abc"; *p; p++)
		world_agent_up(w, (char[]){*p, '\0'}, 1, 1);
	for (int i = 0; i < 8; i++) {
		for (const char *p = "abc"; *p; p++)
			world_beat(w, (char[]){*p, '\0'});
		world_advance(w, 1000000);
	}
	world_beat(w, "a");
	from = w->clock.fake_boot_us;
	while (!after && w->clock.fake_boot_us < from + 60000000) {
		if (w->clock.fake_boot_us >= next_us) {
			world_beat(w, "b");
			world_beat(w, "c");
			next_us = w->clock.fake_boot_us + lease_beat_ms(lease_ms, 1000) * 1000;
		}
		world_advance(w, step_us);
		if (is_lost(w, "a"))
			after = w->clock.fake_boot_us - from;
	}
	is_int(count_lost(w), 1, "the others are not lost");
	world_end_well(w);
	return after;
}

static void test_instant(void)
{
	is_int(lease_margin_ms(1000), 750, "margin of a lease of 1 s");
	is_int(lease_margin_ms(3000), 750, "of 3 s");
	is_int(lease_margin_ms(6000), 1500, "of 6 s: a quarter");
	is_int(lease_margin_ms(10000), 2000, "of 10 s");
	is_int(lease_margin_ms(600000), 2000, "of 10 min");
	is_int(lost_after_us(3000, 1000), 3750000, "lease 3 s: lost at 3.75 s, at its instant");
	is_int(lost_after_us(10000, 1000), 12000000, "lease 10 s: lost at 12 s, at its instant");
	is_int(lost_after_us(1000, 1000), 1750000, "lease 1 s: lost at 1.75 s, at its instant");
}

static unsigned n_suspect;

static void count_suspect(struct world *w, const struct event_row *ev, void *arg)
{
	(void)w;
	(void)arg;
	n_suspect += strcmp(ev->type, "node_suspect") == 0;
}

static int is_suspect(struct world *w, const char *node)
{
	return node_find(w->core, node)->suspect_since_us != 0;
}

/* Two missing beats, or a connection that ended; either only until the next sign of life. */
static void test_suspect(void)
{
	struct world *w = cluster(92, "abc");

	n_suspect = 0;
	w->on_event = count_suspect;
	beats(w, "bc", 1);
	ok(!is_suspect(w, "a"), "one missing beat is nothing");
	beats(w, "bc", 1);
	ok(is_suspect(w, "a"), "two missing beats: suspect");
	like(reason_of(w, "a"), "silent for", "jobctl nodes says why");
	is_int(node_find(w->core, "a")->sched_usable, 0, "it gets no new work");
	beats(w, "abc", 1);
	ok(!is_suspect(w, "a"), "a beat ends it");
	is_int(node_find(w->core, "a")->sched_usable, 1, "it gets work again");
	is_int(n_suspect, 1, "one event");
	beats(w, "abc", 12);
	core_agent_down(w->core, "b", node_find(w->core, "b")->session, "reset");
	world_advance(w, 240000);
	ok(!is_suspect(w, "b"), "a closed connection has 0.25 s to come back");
	world_advance(w, 20000);
	ok(is_suspect(w, "b"), "then the node is suspect");
	is_int(n_suspect, 2, "with an event");
	world_agent_up(w, "b", 1, 1);
	ok(!is_suspect(w, "b"), "it comes back: only the event remains");
	core_agent_down(w->core, "b", node_find(w->core, "b")->session, "reset");
	world_advance(w, 500000);
	is_int(n_suspect, 2, "a connection that comes and goes: one event in a lease at most");
	ok(is_suspect(w, "b"), "but it is suspect each time");
	world_end_well(w);
}

/* hearthd has just started. A peer that connects late could not say that it hears hearthd, and so let a
 * silent node go on. */
static void test_late_peer(void)
{
	struct world *w = cluster(91, "ab");

	world_restart(w);
	world_advance(w, 4000000);
	world_agent_up(w, "a", 1, 1);
	beats(w, "a", 11);
	ok(!is_lost(w, "b"), "until 4 s after the start b might run alone: not lost 15 s after it");
	beats(w, "a", 4);
	ok(is_lost(w, "b"), "lost a lease, the margin and a round of questions later");
	world_end_well(w);
}

/* This process is stopped for 20 s and goes on. Nobody heard a controller meanwhile, so all agents may carry
 * on; three are heard first. */
static void test_stopped(void)
{
	struct world *w = cluster(77, "abcd");

	clock_fake_advance(&w->clock, 20000000);
	world_beat(w, "a");
	world_beat(w, "b");
	world_beat(w, "c");
	core_tick(w->core);
	world_turn(w);
	is_int(count_lost(w), 0, "nobody is lost because this process did not run");
	beats(w, "abc", 11);
	is_int(count_lost(w), 0, "a whole lease and margin begin anew");
	beats(w, "abc", 3);
	ok(is_lost(w, "d"), "then who is still silent is lost");
	world_end_well(w);
}

int main(void)
{
	test_sizes();
	test_shrinks();
	test_unconfirmed();
	test_moment();
	test_large();
	test_symmetric();
	test_symmetric_world();
	test_restart();
	test_instant();
	test_late_peer();
	test_suspect();
	test_stopped();
	test_declared();
	test_removed_with_jobs();
	return tap_done();
}
