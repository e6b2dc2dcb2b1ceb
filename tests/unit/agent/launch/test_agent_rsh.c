/*
 * test_agent_rsh: remote commands of two launches at one real agent, asked for as hearth-rsh does it. Callers
 * choose their ids: the same one in two launches is of two commands.
 */
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_ctl.h"

#define LONG 30000 /* ms; a deadline, not a time that is waited */

static char id[] = "0123456789abcdef"; /* that callers choose */
static struct ctl *c;
static struct ctl_agent *a;

static int dial_unix(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval tv = {10, 0};

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%.100s", path);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	return connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 ? fd : -1;
}

/* Asks as hearth-rsh does; the connection. */
static int open_rsh(const char *path, const char *token, const char *host)
{
	char word[] = "orted", *argv[] = {word};
	struct wm_local_rsh m = {.token = (char *)(uintptr_t)token,
	                         .rsh_id = id,
	                         .host = (char *)(uintptr_t)host,
	                         .argv = {.v = argv, .n = 1}};
	int fd = dial_unix(path);
	struct buf frame;

	buf_init(&frame, 65536);
	wire_encode(WM_LOCAL_RSH, &m, 1, &frame, NULL);
	if (write(fd, buf_head(&frame), buf_left(&frame)) < 0)
		tap_diag("write");
	buf_fini(&frame);
	return fd;
}

/* What the agent says; its state, 255 when it just closes. Closes fd. */
static uint8_t answer_of(int fd, uint32_t *code)
{
	struct wire_frame f;
	uint8_t state = 255;
	struct buf frame;
	void *msg;
	char space[4096];
	ssize_t n = read(fd, space, sizeof(space));

	buf_view(&frame, space, n > 0 ? (size_t)n : 0);
	if (n > 0 && wire_next(&frame, &f, NULL) == 1 && wire_decode(f.type, f.body, f.n, &msg, NULL) == 0) {
		state = ((struct wm_local_rsh_state *)msg)->state;
		*code = ((struct wm_local_rsh_state *)msg)->exit_code;
		wire_free(f.type, msg);
	}
	close(fd);
	return state;
}

static int rsh_came(struct ctl *x, void *arg)
{
	(void)arg;
	return x->rsh[0].from != NULL;
}

static int readable(struct ctl *x, void *arg)
{
	char byte;

	(void)x;
	return recv(*(int *)arg, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* A remote command of that launch, which ends with that code. */
static void one_rsh(const char *path, uint64_t job, uint32_t ends_with)
{
	cleanup_free char *token = xasprintf("token-%d-%d-1-0", (int)getpid(), (int)job);
	struct wm_rsh_state m = {
	    .job = job, .attempt = 1, .epoch = 1, .rsh_id = id, .state = PS_EXITED, .exit_code = ends_with};
	uint32_t code = 0;
	int fd;

	memset(c->rsh, 0, sizeof(c->rsh));
	fd = open_rsh(path, token, "algo-1");
	ok(ctl_wait(c, LONG, rsh_came, NULL), "job %d: the controller is asked", (int)job);
	peer_send(a->control, WM_RSH_STATE, &m, 0, NULL);
	ctl_wait(c, LONG, readable, &fd);
	is_int(answer_of(fd, &code), PS_EXITED, "its command ends");
	is_int(code, ends_with, "with the code of its own launch");
}

/* One launch of one node asks for more than its share; another one is still served. */
static void test_share(const char *path)
{
	cleanup_free char *token = xasprintf("token-%d-52-1-0", (int)getpid());
	int fds[4], last;
	uint32_t code = 0;

	memcpy(id, "share0", 6);
	for (int i = 0; i < 4; i++, id[5]++) {
		memset(c->rsh, 0, sizeof(c->rsh));
		fds[i] = open_rsh(path, token, "algo-1");
		ok(ctl_wait(c, LONG, rsh_came, NULL), "remote command %d of a launch on one node", i + 1);
	}
	last = open_rsh(path, token, "algo-1");
	ctl_wait(c, LONG, readable, &last);
	is_int(answer_of(last, &code), PS_FAILED, "a fifth one is refused");
	one_rsh(path, 53, 5);
	for (int i = 0; i < 4; i++) { /* the connections stay open */
		struct wm_rsh_state m = {.job = 52, .attempt = 1, .epoch = 1, .rsh_id = id, .state = PS_EXITED};

		id[5] = (char)('0' + i);
		peer_send(a->control, WM_RSH_STATE, &m, 0, NULL);
		ctl_wait(c, LONG, readable, &fds[i]);
	}
	id[5] = '8';
	one_rsh(path, 52, 6);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
}

/* Opens as many connections as the kernel has room for, without a word, and then writes a byte to `told`;
 * ends when `hold` does. */
static pid_t crowd_as(const char *path, uid_t uid, int n, const int hold[2], const int told[2])
{
	pid_t pid = fork();
	char byte;

	if (pid)
		return pid;
	close(hold[1]);
	alarm(60);
	if (uid && (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0))
		_exit(1);
	for (int i = 0; i < n; i++)
		if (dial_unix(path) < 0)
			_exit(2);
	(void)!write(told[1], "", 1);
	(void)!read(hold[0], &byte, 1);
	_exit(0);
}

/* Silent connections of an account without a launch, and of one's own account. */
static void test_crowds(const char *path)
{
	static const uid_t uids[] = {65533, 0};
	pid_t pids[2];
	int hold[2], told[2];
	char byte;

	if (geteuid() != 0) {
		tap_skip("needs root to be another account");
		return;
	}
	if (pipe(hold) < 0 || pipe(told) < 0)
		tap_bail("pipe");
	for (int i = 0; i < 2; i++) {
		pids[i] = crowd_as(path, uids[i], 400, hold, told);
		if (i == 0)
			ok(ctl_wait_log(a, "event=rsh_stranger uid=65533", LONG),
			   "an account without a launch is refused");
	}
	/* A silent connection makes room for a later one of its account: commands come after the crowd. */
	close(told[1]); /* so that one which fails is not waited for */
	for (int i = 0; i < 2; i++)
		(void)!read(told[0], &byte, 1);
	id[0] = 'x'; /* others than before */
	for (uint64_t job = 52; job <= 53; job++)
		one_rsh(path, job, 9);
	close(hold[1]);
	close(hold[0]);
	close(told[0]);
	for (int i = 0; i < 2; i++)
		waitpid(pids[i], NULL, 0);
}

int main(void)
{
	static const char *const slots[] = {"--slots", "8", NULL};
	char path[256], program[4096];

	snprintf(program, sizeof(program), "%s/agent/hearth-agent",
	         getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : "..");
	if (access(program, X_OK) < 0)
		tap_skip_all("hearth-agent is not built");
	chmod(tap_tmpdir(), 0711);
	signal(SIGPIPE, SIG_IGN);
	c = ctl_start(tap_tmpdir());
	a = ctl_agent_start(c, 0, "n1", slots);
	ok(ctl_wait_synced(a, 1, LONG), "an agent");
	ctl_sock_path(a, path, sizeof(path));
	for (uint64_t job = 52; job <= 53; job++) {
		ctl_prepare_shell(c, a, job, 1, "sleep 1000");
		ok(ctl_wait_state(a, LAUNCH_READY, LONG), "launch %d waits for its start", (int)job);
	}
	c->nodes[0] = NULL; /* what is asked for is not started */
	one_rsh(path, 52, 7);
	one_rsh(path, 53, 3);
	test_share(path);
	test_crowds(path);
	for (uint64_t job = 53; job >= 52; job--) {
		ctl_forget_reports(c);
		ctl_kill(a, job, 1, 1, 0);
		ok(ctl_wait_state(a, LAUNCH_FAILED, LONG), "over");
		ctl_collect(a, job, 1, 1, 0);
		ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "and cleaned");
	}
	ctl_stop(c);
	return tap_done();
}
