/*
 * agent_look: what the tests of real agents look up on this machine, apart from the controller that they
 * play.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_ctl.h"

static int stat_of(pid_t pid, char *state, pid_t *parent)
{
	cleanup_free char *path = xasprintf("/proc/%d/stat", (int)pid);
	cleanup_free char *text = NULL;
	const char *at;

	if (fs_read_file(path, 4096, &text, NULL, NULL) < 0)
		return -1;
	at = strrchr(text, ')');
	return at && sscanf(at + 1, " %c %d", state, parent) == 2 ? 0 : -1;
}

pid_t ctl_parent(uint32_t rank)
{
	pid_t parent = 0;
	char state;

	return stat_of((pid_t)rank, &state, &parent) == 0 ? parent : 0;
}

int ctl_is_zombie(uint32_t pid)
{
	pid_t parent;
	char state;

	return stat_of((pid_t)pid, &state, &parent) == 0 && state == 'Z';
}

void ctl_sock_path(const struct ctl_agent *g, char *out, size_t size)
{
	cleanup_free char *log = xasprintf("%s.log", g->dir);
	char *text, *at;

	out[0] = '\0';
	if (fs_read_file(log, 16 * 1024 * 1024, &text, NULL, NULL) < 0)
		return;
	at = strstr(text, " run=");
	if (at)
		snprintf(out, size, "%.*s/agent.sock", (int)strcspn(at + 5, " "), at + 5);
	free(text);
}

/* Can another account walk to the programs? */
int ctl_reachable(const char *path)
{
	char copy[4096];
	struct stat st;

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *p = strrchr(copy, '/'); p && p != copy; p = strrchr(copy, '/')) {
		*p = '\0';
		if (stat(copy, &st) < 0 || !(st.st_mode & 1))
			return 0;
	}
	return 1;
}

/* ---- several attempts of a job ---------------------------------------------------------------------- */

struct attempt_want {
	const struct ctl_agent *a;
	uint32_t attempt;
	int state, over; /* 0: any */
};

static int has_attempt(struct ctl *c, void *arg)
{
	const struct attempt_want *w = arg;

	(void)c;
	return (!w->state || w->a->attempts[w->attempt].state == w->state) &&
	       (!w->over || w->a->attempts[w->attempt].over >= w->over);
}

static int wait_attempt(struct attempt_want *w, uint32_t timeout_ms)
{
	if (ctl_wait(w->a->c, timeout_ms, has_attempt, w))
		return 1;
	tap_diag("%s: attempt %u is in state %d, over %d", w->a->name, w->attempt,
	         w->a->attempts[w->attempt].state, w->a->attempts[w->attempt].over);
	return 0;
}

int ctl_wait_attempt(struct ctl_agent *a, uint32_t attempt, enum launch_state s, uint32_t timeout_ms)
{
	struct attempt_want w = {.a = a, .attempt = attempt, .state = (int)s};

	return wait_attempt(&w, timeout_ms);
}

int ctl_wait_over(struct ctl_agent *a, uint32_t attempt, enum launch_over over, uint32_t timeout_ms)
{
	struct attempt_want w = {.a = a, .attempt = attempt, .over = (int)over};

	return wait_attempt(&w, timeout_ms);
}
