/* keeper: the end of a launch waits for the copy of its newest checkpoint as long as a further try may bring
 * it, and not longer. */
#include "agent/keep/keeper.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "agent/keep/keep_copy.h"
#include "common/net/wire_msg.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agentkit.h"

struct seen {
	unsigned reports, warnings, flushed;
	uint8_t state; /* of the last report */
	char *text;    /* of the last warning */
};

static struct seen seen;

static int note_report(uint16_t type, const void *msg, uint64_t id, void *arg)
{
	(void)arg;
	(void)id;
	if (type == WM_CHECKPOINT_REPORT) {
		seen.reports++;
		seen.state = ((const struct wm_checkpoint_report *)msg)->state;
	}
	return 0;
}

static void note_acked(uint16_t type, const void *msg, void *arg)
{
	(void)type;
	(void)msg;
	(void)arg;
}

static void on_warning(const char *key, const char *text, void *arg)
{
	(void)key;
	(void)arg;
	seen.warnings++;
	free(seen.text);
	seen.text = xstrdup(text);
}

static void on_over(void *arg)
{
	(void)arg;
}

static void on_flushed(void *arg)
{
	(void)arg;
	seen.flushed++;
}

static int turn_until(struct agent *a, const unsigned *what, int s)
{
	uint64_t end = clock_boot_us(clock_real()) + (uint64_t)s * 1000000;

	while (!*what && clock_boot_us(clock_real()) < end)
		loop_run_once(a->env.loop, 20);
	return *what > 0;
}

static void turn_ms(struct agent *a, uint64_t ms)
{
	uint64_t end = clock_boot_us(clock_real()) + ms * 1000;

	while (clock_boot_us(clock_real()) < end)
		loop_run_once(a->env.loop, 20);
}

static void put_checkpoint(const char *name)
{
	cleanup_free char *dir = xasprintf("%s/ml/checkpoints", tap_tmpdir());
	cleanup_free char *file = xasprintf("%s/%s", dir, name);
	struct err e;

	if (fs_mkdir_p(dir, 0755, &e) < 0 || fs_replace(file, name, strlen(name), 0644, &e) < 0)
		tap_bail("%s", e.text);
}

/* Opens what the copy of number 1 is written into, as a helper that has not ended yet; locked. */
static int lock_part(const struct agent *a, const char *share)
{
	cleanup_free char *place = keep_copy_place(&a->env, 17, 2, 1, 1);
	char *name = strrchr(place, '/');
	cleanup_free char *above = NULL, *part = NULL;
	struct err e;
	int fd;

	*name++ = '\0';
	above = xasprintf("%s/%s", share, place);
	part = xasprintf("%s/.%s.part", above, name);
	if (fs_mkdir_p(part, 0755, &e) < 0)
		tap_bail("%s", e.text);
	fd = open(part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		tap_bail("%s is not locked", part);
	return fd;
}

static struct keeper *keeper_of(const struct keeper_params *more, uint32_t attempt, const char *share)
{
	cleanup_free char *key = xasprintf("17.%u", attempt), *uri = xasprintf("file://%s", share);
	struct keeper_params p = *more;

	free(seen.text);
	seen = (struct seen){0};
	p.attempt = attempt;
	p.key = key;
	p.uri = uri;
	p.from_us = 1; /* the times of files are coarse */
	return keeper_create(&p);
}

static void test_held_up(struct agent *a, const struct keeper_params *more, const char *share)
{
	int lock = lock_part(a, share);
	struct keeper *k = keeper_of(more, 2, share);

	put_checkpoint("at-1.pt");
	keeper_flush(k, on_flushed, NULL);
	ok(turn_until(a, &seen.warnings, 30), "a process that has not ended yet holds up the copy");
	like(seen.text, "still writes it", "the owner hears why");
	is_int((long)seen.flushed, 0, "the end of the launch waits for another try");
	close(lock);
	ok(turn_until(a, &seen.flushed, 30), "which comes soon");
	is_int(seen.state, CKPT_VERIFIED, "and makes the copy");
	ok(keeper_all_copied(k), "nothing is on this node alone");
	keeper_end(k);
	keeper_destroy(k);
}

static void test_no_place(struct agent *a, const struct keeper_params *more)
{
	cleanup_free char *share = xasprintf("%s/none", tap_tmpdir());
	struct keeper *k;
	struct err e;

	if (fs_replace(share, "no folder", 9, 0644, &e) < 0)
		tap_bail("%s", e.text);
	k = keeper_of(more, 3, share);
	put_checkpoint("at-2.pt");
	keeper_flush(k, on_flushed, NULL);
	ok(turn_until(a, &seen.warnings, 30), "there is no place for copies");
	ok(turn_until(a, &seen.flushed, 40), "the end of the launch does not wait for ever");
	is_int(seen.state, CKPT_COPYING, "the checkpoint is without a copy");
	is_int(keeper_how_over(k), OVER_COPIED, "which is as far as the end comes");
	seen.warnings = 0;
	turn_until(a, &seen.warnings, 6);
	is_int(keeper_how_over(k), OVER_COPIED, "also during later tries");
	keeper_end(k);
	keeper_destroy(k);
}

int main(void)
{
	struct agent *a = agentkit_open(tap_tmpdir());
	const struct outbox_ops ops = {.send = note_report, .acked = note_acked};
	cleanup_free char *ml = xasprintf("%s/ml", tap_tmpdir()), *share = xasprintf("%s/share", tap_tmpdir());
	struct launch_user user = {.uid = getuid(), .gid = getgid(), .name = (char *)(uintptr_t) "me"};
	struct keeper_params p = {.env = &a->env,
	                          .link = a->host.link,
	                          .job = 17,
	                          .epoch = 1,
	                          .node_rank = 1,
	                          .n_nodes = 1,
	                          .ml = ml,
	                          .user = &user,
	                          .warn = on_warning,
	                          .over = on_over};
	struct err e;

	a->env.is_root = geteuid() == 0;
	a->env.cfg.libexec_dir =
	    xasprintf("%s/agent", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : ".");
	if (fs_mkdir_p(ml, 0755, &e) < 0 || fs_mkdir_p(share, 0755, &e) < 0)
		tap_bail("%s", e.text);
	p.outbox = outbox_create(&ops, NULL);
	p.removals = removals_create(&a->env, a->host.link);
	test_held_up(a, &p, share);
	test_no_place(a, &p);
	turn_ms(a, 100);
	removals_destroy(p.removals);
	outbox_destroy(p.outbox);
	free(seen.text);
	free(a->env.cfg.libexec_dir);
	agentkit_close(a);
	return tap_done();
}
