/*
 * crowd: see crowd.h. The locks are taken by the processes; this program only tries.
 */
#include "tests/unit/agent/launch/crowd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

#define PROGRAM_MAX (16u * 1024 * 1024)

/* The agent's own folder is what jobs see of /tmp. */
static char *make_file(const struct crowd *w, const char *what)
{
	char *path = xasprintf("%s/crowd-%llu.%s", w->a->dir, (unsigned long long)w->first_job, what);
	int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0666);

	if (fd < 0 || fchmod(fd, 0666) < 0)
		tap_bail("%s cannot be made", path);
	close(fd);
	return path;
}

static char *copy_program(const struct crowd *w)
{
	char *path = xasprintf("%s/crowd", w->a->dir);
	cleanup_free char *bytes = NULL;
	struct err e = {0};
	size_t n = 0;

	if (access(path, X_OK) < 0 && (fs_read_file(w->program, PROGRAM_MAX, &bytes, &n, &e) < 0 ||
	                               fs_replace(path, bytes, n, 0755, &e) < 0))
		tap_bail("%s", e.text);
	return path;
}

struct wanted {
	const struct crowd *w;
	enum launch_state state;
};

static int have_state(struct ctl *c, void *arg)
{
	const struct wanted *x = arg;
	unsigned n = 0;

	(void)c;
	for (unsigned i = 0; i < x->w->launches; i++)
		n += x->w->a->states[x->w->first_job + i] == x->state;
	return n == x->w->launches;
}

int crowd_wait_states(const struct crowd *w, enum launch_state s, uint32_t timeout_ms)
{
	struct wanted x = {w, s};

	return ctl_wait(w->a->c, timeout_ms, have_state, &x);
}

static int are_ready(struct ctl *c, void *arg)
{
	const struct crowd *w = arg;
	struct stat st;

	(void)c;
	return stat(w->ready, &st) == 0 && st.st_size == (off_t)w->launches;
}

int crowd_start(struct crowd *w, uint32_t timeout_ms)
{
	struct ctl_agent *nodes[] = {w->a, NULL};
	const uint32_t ranks[] = {1};
	cleanup_free char *spec = NULL, *program = copy_program(w);

	w->lock = make_file(w, "lock");
	w->ready = make_file(w, "ready");
	w->fd = open(w->lock, O_RDONLY | O_CLOEXEC);
	spec = xasprintf("{\"name\":\"crowd\",\"command\":[\"%s\",\"%u\",\"%s\",\"%s\"],\"launcher\":\"direct\","
	                 "\"resources\":{\"instances\":1,\"ranks_per_instance\":1}}",
	                 program, w->processes, w->lock, w->ready);
	for (unsigned i = 0; i < w->launches; i++)
		ctl_prepare(w->a->c, spec, w->first_job + i, 1, 1, nodes, ranks);
	if (!crowd_wait_states(w, LAUNCH_READY, timeout_ms))
		return -1;
	for (unsigned i = 0; i < w->launches; i++)
		ctl_go(w->a, w->first_job + i, 1, 1);
	return ctl_wait(w->a->c, timeout_ms, are_ready, w) ? 0 : -1;
}

int crowd_is_gone(const struct crowd *w)
{
	if (flock(w->fd, LOCK_EX | LOCK_NB) < 0)
		return 0;
	flock(w->fd, LOCK_UN);
	return 1;
}

uint64_t crowd_wait_gone(const struct crowd *w, uint32_t timeout_ms)
{
	uint64_t begin = clock_boot_us(clock_real()), now = begin;

	while (!crowd_is_gone(w)) {
		now = clock_boot_us(clock_real());
		if (now > begin + timeout_ms * 1000ull)
			return 0;
		loop_run_once(w->a->c->loop, 1);
	}
	return clock_boot_us(clock_real()) - begin + 1;
}

static int has_ended(struct ctl *c, void *arg)
{
	struct ctl_agent *a = arg;

	(void)c;
	if (a->pid && waitpid(a->pid, NULL, WNOHANG) != a->pid)
		return 0;
	a->pid = 0;
	return 1;
}

int crowd_end_agent(struct crowd *w, uint32_t timeout_ms)
{
	w->a->c->token[4] ^= 1; /* it must not join again */
	w->a->c->refused_as = ERR_GONE;
	ctl_refuse(w->a->c, w->a);
	return ctl_wait(w->a->c, timeout_ms, has_ended, w->a);
}

void crowd_fini(struct crowd *w)
{
	if (w->fd > 0)
		close(w->fd);
	free(w->lock);
	free(w->ready);
}
