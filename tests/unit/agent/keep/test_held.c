/* removals and held_sweep: a copy outside goes also where the node holds nothing, or nothing any more, of
 * that launch; a removal that fails is tried again, also by the next agent; what has a copy elsewhere makes
 * room first, and hearthd hears of what goes without one. */
#include "agent/keep/held_sweep.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/keep/keep_index.h"
#include "agent/keep/keeper.h"
#include "common/base/clock.h"
#include "common/net/wire_msg.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agentkit.h"

static char *make_copy(const char *name)
{
	char *path = xasprintf("%s/share/%s", tap_tmpdir(), name);
	cleanup_free char *manifest = xasprintf("%s.manifest", path), *file = xasprintf("%s/w", path);
	struct err e;

	if (fs_mkdir_p(path, 0755, &e) < 0 || fs_replace(file, "w", 1, 0644, &e) < 0 ||
	    fs_replace(manifest, "m", 1, 0644, &e) < 0)
		tap_bail("%s", e.text);
	return path;
}

static int is_gone(struct agent *a, const char *path)
{
	for (int i = 0; i < 750 && access(path, F_OK) == 0; i++)
		loop_run_once(a->env.loop, 20);
	return access(path, F_OK) < 0;
}

static struct removals *removals;
static struct outbox *outbox;
static char *gone; /* what was reported */

static int note_report(uint16_t type, const void *msg, uint64_t id, void *arg)
{
	const struct wm_checkpoint_report *m = msg;

	(void)arg;
	(void)id;
	if (type == WM_CHECKPOINT_REPORT)
		xappendf(&gone, "%s%llu.%u/%llu %s %u", *gone ? ", " : "", (unsigned long long)m->job, m->attempt,
		         (unsigned long long)m->seq, m->name, m->state);
	return 0;
}

static void note_acked(uint16_t type, const void *msg, void *arg)
{
	(void)type;
	(void)msg;
	(void)arg;
}

static char *dir_of(const char *launch)
{
	return xasprintf("%s/data/held/%s", tap_tmpdir(), launch);
}

static void put_place(const char *launch, uint64_t seq)
{
	cleanup_free char *dir = dir_of(launch), *place = xasprintf("%s/files/%u", dir, (unsigned)seq);
	struct err e;

	if (fs_mkdir_p(place, 0700, &e) < 0)
		tap_bail("%s", e.text);
}

static int has_place(const char *launch, uint64_t seq)
{
	cleanup_free char *dir = dir_of(launch), *place = xasprintf("%s/files/%u", dir, (unsigned)seq);

	return access(place, F_OK) == 0;
}

/* One checkpoint of 100 bytes. */
static void add_held(const char *launch, uint64_t seq, uint8_t state, uint64_t at_us)
{
	cleanup_free char *dir = dir_of(launch);
	struct keep_index x = {0};
	struct keep_entry *en;
	struct err e;

	put_place(launch, seq);
	if (keep_index_load(&x, dir, &e) < 0)
		tap_bail("%s", e.text);
	en = keep_index_add(&x);
	*en = (struct keep_entry){.seq = seq,
	                          .bytes = 100,
	                          .state = state,
	                          .at_us = at_us,
	                          .name = xasprintf("at-%u", (unsigned)seq),
	                          .format = xstrdup("plain"),
	                          .step_by = xstrdup("name"),
	                          .uri = xstrdup("")};
	if (keep_index_save(&x, dir, &e) < 0)
		tap_bail("%s", e.text);
	keep_index_fini(&x);
}

static void make_old(const char *launch)
{
	cleanup_free char *dir = dir_of(launch), *index = xasprintf("%s/index", dir);
	time_t at = (time_t)(clock_real_us(clock_real()) / 1000000 - HELD_AGE_S - 10);
	const struct timespec times[2] = {{.tv_sec = at}, {.tv_sec = at}};

	if (utimensat(AT_FDCWD, index, times, 0) < 0)
		tap_bail("%s", index);
}

/* "held 1 removing 1" of a launch. */
static const char *count_index(const char *launch)
{
	static char text[80];
	cleanup_free char *dir = dir_of(launch);
	struct keep_index x = {0};
	struct err e;

	if (keep_index_load(&x, dir, &e) < 0)
		tap_bail("%s", e.text);
	snprintf(text, sizeof(text), "held %zu removing %zu", x.n, x.n_removing);
	keep_index_fini(&x);
	return text;
}

static int never(const char *launch, void *arg)
{
	(void)launch;
	(void)arg;
	return 0;
}

static void turn(struct agent *a, int ms)
{
	for (int i = 0; i < ms / 20; i++)
		loop_run_once(a->env.loop, 20);
}

/* A new one: it sweeps at once. */
static void sweep(struct agent *a, struct trash *trash, unsigned asks)
{
	const struct held_sweep_params p = {.env = &a->env,
	                                    .link = a->host.link,
	                                    .trash = trash,
	                                    .outbox = outbox,
	                                    .removals = removals,
	                                    .in_use = never};
	struct held_sweep *s = held_sweep_create(&p);

	free(gone);
	gone = xstrdup("");
	while (asks--) {
		held_sweep_ask(s);
		turn(a, 200);
	}
	for (int i = 0; i < 500 && removals_count(removals); i++)
		turn(a, 20);
	held_sweep_destroy(s);
}

static void name_stored(const char *launch)
{
	cleanup_free char *dir = dir_of(launch);
	struct keep_index x = {0};
	struct err e;

	if (keep_index_load(&x, dir, &e) < 0)
		tap_bail("%s", e.text);
	free(x.v[0].uri);
	x.v[0].uri = xstrdup(CKPT_URI_STORE);
	if (keep_index_save(&x, dir, &e) < 0)
		tap_bail("%s", e.text);
	keep_index_fini(&x);
}

static void no_words(const char *key, const char *text, void *arg)
{
	(void)key;
	(void)arg;
	xappendf(&gone, " [%s]", text);
}

static int exists(const char *launch)
{
	cleanup_free char *dir = dir_of(launch);

	return access(dir, F_OK) == 0;
}

/* What cannot be read now may be read later: a full table of files, a disk that fails for a moment. */
static void test_unreadable(struct agent *a)
{
	struct trash *trash = trash_create(&a->env);
	cleanup_free char *dir = dir_of("50.1"), *index = xasprintf("%s/index", dir);
	struct err e;

	put_place("50.1", 1);
	if (fs_replace(index, "{", 1, 0600, &e) < 0)
		tap_bail("%s", e.text);
	sweep(a, trash, 1);
	ok(exists("50.1") && has_place("50.1", 1), "a launch whose index cannot be read stays");
	make_old("50.1");
	sweep(a, trash, 1);
	ok(!exists("50.1"), "for three days");
	trash_destroy(trash);
}

/* 1 when the sweep begins, 0 when it decides. */
static int was_in_use(const char *launch, void *arg)
{
	int *used = arg;

	return strcmp(launch, "51.1") == 0 && *used;
}

/* A launch that holds its first checkpoint after the sweep has read its empty index, and ends then. */
static void test_late(struct agent *a)
{
	struct trash *trash = trash_create(&a->env);
	int used = 1;
	const struct held_sweep_params p = {.env = &a->env,
	                                    .link = a->host.link,
	                                    .trash = trash,
	                                    .outbox = outbox,
	                                    .removals = removals,
	                                    .in_use = was_in_use,
	                                    .arg = &used};
	struct held_sweep *s = held_sweep_create(&p);
	cleanup_free char *dir = dir_of("51.1");
	struct err e;

	if (fs_mkdir_p(dir, 0700, &e) < 0)
		tap_bail("%s", e.text);
	held_sweep_ask(s);
	usleep(300000); /* the thread reads; the loop does not turn */
	add_held("51.1", 1, CKPT_COPYING, 100);
	used = 0;
	turn(a, 300);
	ok(exists("51.1") && has_place("51.1", 1), "what it holds by now stays");
	held_sweep_destroy(s);
	sweep(a, trash, 1);
	ok(exists("51.1"), "the next sweep knows it");
	trash_destroy(trash);
}

/* hearthd refuses a copy in its store: the agent does not believe in it any more. */
static void test_refused(struct agent *a)
{
	const struct launch_user user = {.uid = getuid(), .gid = getgid()};
	const struct keeper_params p = {.env = &a->env,
	                                .link = a->host.link,
	                                .outbox = outbox,
	                                .removals = removals,
	                                .job = 40,
	                                .attempt = 1,
	                                .epoch = 1,
	                                .key = "40.1",
	                                .ml = tap_tmpdir(),
	                                .user = &user,
	                                .warn = no_words};
	struct trash *trash = trash_create(&a->env);
	struct keeper *k;

	add_held("40.1", 1, CKPT_VERIFIED, 100);
	name_stored("40.1");
	free(gone);
	gone = xstrdup("");
	k = keeper_create(&p);
	is_str(gone, "40.1/1 at-1 2", "the next agent reports the copy");
	keeper_copy_again(&a->env, "40.1", 1, "no room");
	ok(strstr(gone, "no copy outside of this node: no room") != NULL, "its owner reads that it has none");
	ok(!keeper_all_copied(k), "it is not copied");
	keeper_destroy(k);
	free(gone);
	gone = xstrdup("");
	k = keeper_create(&p);
	is_str(gone, "40.1/1 at-1 1", "the next agent knows it, too");
	keeper_destroy(k);
	add_held("41.1", 1, CKPT_VERIFIED, 100);
	name_stored("41.1");
	keeper_copy_again(&a->env, "41.1", 1, "no room");
	a->env.cfg.held_limit = 50;
	sweep(a, trash, 1);
	like(gone, "41.1/1 at-1 4", "of an ended launch: hearthd hears when it goes");
	a->env.cfg.held_limit = 1000;
	trash_destroy(trash);
}

/* Ended launches hold more than the limit. */
static void test_sweep(struct agent *a)
{
	struct trash *trash = trash_create(&a->env);
	cleanup_free char *empty = dir_of("17.1");

	add_held("18.1", 1, CKPT_COPYING, 100);
	add_held("18.1", 2, CKPT_VERIFIED, 200);
	add_held("18.2", 1, CKPT_VERIFIED, 300);
	add_held("18.3", 4, CKPT_COPYING, 50);
	a->env.cfg.held_limit = 350;
	sweep(a, trash, 1);
	is_str(count_index("18.1"), "held 1 removing 0", "the oldest that has a copy elsewhere goes first");
	ok(!has_place("18.1", 2) && has_place("18.1", 1), "with its files");
	is_str(gone, "", "hearthd has another copy of it");
	is_str(count_index("18.3"), "held 1 removing 0", "the others stay");
	a->env.cfg.held_limit = 150;
	sweep(a, trash, 1);
	is_str(count_index("18.2"), "held 0 removing 0", "then the next one");
	ok(!has_place("18.3", 4) && has_place("18.1", 1), "and the oldest without a copy");
	is_str(gone, "18.3/4 at-4 4", "hearthd hears that it is gone");
	a->env.cfg.held_limit = 10;
	add_held("18.1", 7, CKPT_COPYING, 900);
	sweep(a, trash, 3);
	is_str(gone, "18.1/1 at-1 4, 18.1/7 at-7 4", "one sweep a minute, and each is reported once");
	a->env.cfg.held_limit = 1000;
	add_held("19.1", 1, CKPT_COPYING, 1);
	add_held("19.1", 2, CKPT_VERIFIED, 1);
	make_old("19.1");
	sweep(a, trash, 1);
	is_str(gone, "19.1/1 at-1 4", "hearthd hears of one that was held for too long");
	ok(access(empty, F_OK) < 0, "what holds nothing goes");
	trash_destroy(trash);
}

/* The manifest of its copy cannot be removed at first. */
static void test_again(struct agent *a)
{
	cleanup_free char *copy = make_copy("three"), *manifest = xasprintf("%s.manifest", copy);
	const struct removal r = {.launch = "20.1", .seq = 1, .copy = copy};
	struct trash *trash = trash_create(&a->env);

	if (unlink(manifest) < 0 || mkdir(manifest, 0755) < 0)
		tap_bail("%s", manifest);
	add_held("20.1", 1, CKPT_VERIFIED, 1);
	add_held("20.1", 2, CKPT_VERIFIED, 2);
	removals_add(removals, &r);
	is_str(count_index("20.1"), "held 1 removing 1", "one that is being removed is not held any more");
	turn(a, 600);
	is_int((long)removals_count(removals), 1, "a removal that fails stays");
	removals_destroy(removals); /* the agent is killed */
	removals = removals_create(&a->env, a->host.link);
	sweep(a, trash, 1);
	is_str(count_index("20.1"), "held 1 removing 1", "the next agent goes on with it");
	removals_add(removals, &r);
	is_int((long)removals_count(removals), 1, "once");
	if (rmdir(manifest) < 0)
		tap_bail("%s", manifest);
	put_place("20.1", 1);
	for (int i = 0; i < 500 && removals_count(removals); i++)
		turn(a, 20);
	is_str(count_index("20.1"), "held 1 removing 0", "and ends it when it can");
	ok(!has_place("20.1", 1) && has_place("20.1", 2), "no other is removed");
	trash_destroy(trash);
}

int main(void)
{
	struct agent *a = agentkit_open(tap_tmpdir());
	const struct outbox_ops ops = {.send = note_report, .acked = note_acked};
	cleanup_free char *one = make_copy("one"), *two = make_copy("two");
	cleanup_free char *place = xasprintf("%s/data/held/17.1/files/3", tap_tmpdir());
	struct launch_user user = {.uid = getuid(), .gid = getgid(), .name = (char *)(uintptr_t) "me"};
	struct removal r = {.launch = "17.1", .user = &user, .seq = 3, .copy = one};
	struct err e;

	a->env.is_root = geteuid() == 0;
	a->env.cfg.libexec_dir =
	    xasprintf("%s/agent", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : ".");
	outbox = outbox_create(&ops, NULL);
	removals = removals_create(&a->env, a->host.link);
	gone = xstrdup("");
	removals_add(removals, &r);
	ok(is_gone(a, one), "nothing is held: the copy goes");
	turn(a, 100);
	if (fs_mkdir_p(place, 0700, &e) < 0)
		tap_bail("%s", e.text);
	r.copy = two;
	r.seq = 0;
	removals_add(removals, &r);
	ok(is_gone(a, two), "the copy of another node's part goes");
	ok(access(place, F_OK) == 0, "and nothing of what is held");
	turn(a, 100);
	r.seq = 3;
	r.copy = NULL;
	removals_add(removals, &r);
	ok(is_gone(a, place), "a held one goes alone, too");
	turn(a, 100);
	test_sweep(a);
	test_refused(a);
	test_unreadable(a);
	test_late(a);
	test_again(a);
	removals_destroy(removals);
	outbox_destroy(outbox);
	free(gone);
	free(a->env.cfg.libexec_dir);
	agentkit_close(a);
	return tap_done();
}
