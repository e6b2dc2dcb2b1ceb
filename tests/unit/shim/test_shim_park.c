/* hearth-shim: a parked process; the launcher's key and the agent's key, and all that goes wrong between. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "common/os/fsutil.h"
#include "common/os/lease_file.h"
#include "tests/lib/shimlab.h"
#include "tests/lib/tap.h"

static char none[] = "";

static void park_lab(struct lab *x, int await_launcher)
{
	lab_init(x, "exit", "99", NULL);
	x->l.wait_go = 1;
	x->l.park = 1;
	x->l.await_launcher = (uint8_t)await_launcher;
	lab_start(x);
}

/* What hearth-rank does; the connection is the mirror. */
static int arm(struct lab *x, int in_fd, const char *variable)
{
	struct wm_shim_go go = {.cwd = none, .mirror = 1};
	struct err e;
	int fd = shim_connect(x->dir, x->l.shim_token, LAB_MS, &e);

	if (fd < 0)
		tap_bail("connect: %s", e.text);
	wire_strv_add(&go.env, variable);
	if (shim_send(fd, WM_SHIM_GO, &go, 1, &in_fd, in_fd >= 0, LAB_MS, &e) < 0)
		tap_bail("go: %s", e.text);
	go.cwd = NULL;
	wire_fini(WM_SHIM_GO, &go);
	return fd;
}

/* The code of the go that arm() sent. */
static int armed_answer(int fd, char **text)
{
	uint16_t type;
	uint64_t id;
	void *msg;
	struct err e;
	int code;

	if (shim_recv(fd, &type, &id, &msg, LAB_MS, &e) != 1 || type != WM_SHIM_OK || id != 1)
		tap_bail("the go of the launcher has no answer");
	code = (int)((struct wm_shim_ok *)msg)->code;
	if (text)
		*text = xstrdup(((struct wm_shim_ok *)msg)->text);
	wire_free(type, msg);
	return code;
}

static int unpark(struct lab *x, const char *act, const char *arg, const char *variable, char **text)
{
	struct wm_shim_start m = {.cwd = none};
	int code;

	wire_strv_add(&m.argv, lab_victim());
	wire_strv_add(&m.argv, act);
	if (arg)
		wire_strv_add(&m.argv, arg);
	wire_strv_add(&m.env, variable);
	wire_strv_add(&m.env, "OMPI_X=of the agent");
	code = lab_ok(x, WM_SHIM_START, &m, text);
	m.cwd = NULL;
	wire_fini(WM_SHIM_START, &m);
	return code;
}

static void wait_parked(struct lab *x)
{
	struct wm_shim_status *st = lab_wait(x, PS_PARKED);

	is_int(st->pid, 0, "parked: no process");
	is_int((int64_t)st->started_us, 0, "parked: not started");
	is_str(st->text, "", "parked: no text");
	wire_free(WM_SHIM_STATUS, st);
}

static void check_failed(struct lab *x, const char *text)
{
	struct wm_shim_status *st = lab_wait(x, PS_FAILED);

	is_str(st->text, text, "failed, and why");
	wire_free(WM_SHIM_STATUS, st);
	is_int(unpark(x, "exit", "0", "A=1", NULL), ERR_CONFLICT, "failed: a start is refused");
}

static void test_two_keys(void)
{
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *out = NULL, *text = NULL;
	int fd, second;

	park_lab(&x, 1);
	st = lab_wait(&x, PS_WAITING);
	wire_free(WM_SHIM_STATUS, st);
	is_int(unpark(&x, "env", NULL, "A=1", &text), ERR_CONFLICT, "the agent's key alone starts nothing");
	is_str(text, "not parked yet: its launcher or its interpreter is not ready", "the shim says why");
	is_int(lab_go(&x), ERR_CONFLICT, "a go without a mirror is refused");
	fd = arm(&x, -1, "OMPI_X=of the launcher");
	wait_parked(&x);
	second = arm(&x, -1, "OMPI_X=of another launcher");
	is_int(armed_answer(second, NULL), ERR_CONFLICT, "a second launcher is refused");
	close(second);
	is_int(lab_signal(&x, SIGTERM, 0), ERR_CONFLICT, "there is nobody to signal");
	wait_parked(&x);
	is_int(unpark(&x, "env", NULL, "A=1", NULL), 0, "both keys start the program");
	is_int(armed_answer(fd, NULL), 0, "the launcher has its answer now");
	st = lab_wait(&x, PS_EXITED);
	ok(st->exit_code == 0 && st->started_us && st->pid, "it ran");
	wire_free(WM_SHIM_STATUS, st);
	out = lab_output(&x, 0, NULL, NULL);
	is_str(out, "A=1\nOMPI_X=of the launcher\n",
	       "the environment is the agent's; the launcher's variables win");
	close(fd);
	lab_end(&x);
}

static void test_no_launcher(void)
{
	struct wm_shim_start m = {0};
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *out = NULL, *text = NULL;
	int fd;

	park_lab(&x, 0);
	wait_parked(&x);
	fd = arm(&x, -1, "A=1");
	is_int(armed_answer(fd, &text), ERR_CONFLICT, "direct: no launcher is awaited");
	is_str(text, "armed already", "direct: why");
	close(fd);
	m.cwd = x.logdir;
	is_int(lab_ok(&x, WM_SHIM_START, &m, NULL), ERR_INVALID, "a start without a command is refused");
	wire_strv_add(&m.argv, lab_victim());
	wire_strv_add(&m.argv, "cwd");
	m.preloaded = 1;
	is_int(lab_ok(&x, WM_SHIM_START, &m, NULL), ERR_UNSUPPORTED, "no interpreter waits");
	m.preloaded = 0;
	wire_strv_add(&m.env, "nonsense");
	is_int(lab_ok(&x, WM_SHIM_START, &m, NULL), ERR_INVALID, "an environment without = is refused");
	free(m.env.v[0]);
	m.env.v[0] = xstrdup("A=");
	wait_parked(&x);
	is_int(lab_ok(&x, WM_SHIM_START, &m, NULL), 0, "one key is enough");
	is_int(unpark(&x, "exit", "0", "A=1", NULL), ERR_CONFLICT, "a second start is refused");
	st = lab_wait(&x, PS_EXITED);
	wire_free(WM_SHIM_STATUS, st);
	out = lab_output(&x, 0, NULL, NULL);
	is_str(out, x.logdir, "the start's directory");
	m.cwd = NULL;
	wire_fini(WM_SHIM_START, &m);
	lab_end(&x);
}

static void test_not_parkable(void)
{
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *text = NULL;

	lab_init(&x, "ready", NULL);
	x.l.wait_go = 1;
	lab_start(&x);
	is_int(unpark(&x, "exit", "0", "A=1", &text), ERR_CONFLICT,
	       "start for a process that is not to be parked");
	is_str(text, "this process was not prepared to be parked", "says so");
	is_int(lab_go(&x), 0, "go starts it");
	st = lab_wait(&x, PS_RUNNING);
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_stdin(void)
{
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *out = NULL;
	int p[2], fd;

	if (pipe2(p, O_CLOEXEC) < 0 || write(p[1], "typed", 5) != 5)
		tap_bail("pipe");
	park_lab(&x, 1);
	fd = arm(&x, p[0], "A=1");
	wait_parked(&x);
	close(p[0]);
	close(p[1]);
	is_int(unpark(&x, "cat", NULL, "A=1", NULL), 0, "start");
	st = lab_wait(&x, PS_EXITED);
	wire_free(WM_SHIM_STATUS, st);
	out = lab_output(&x, 0, NULL, NULL);
	is_str(out, "typed", "stdin of the launcher's go reaches the program");
	close(fd);
	lab_end(&x);
}

static void test_mirror_ends(void)
{
	struct wm_shim_status *st;
	struct lab x;
	int fd;

	park_lab(&x, 1);
	fd = arm(&x, -1, "A=1");
	wait_parked(&x);
	close(fd);
	check_failed(&x, "its launcher ended while it was parked");
	lab_end(&x);
	/* A refused second go does not loosen the hold of the first. */
	park_lab(&x, 1);
	x.l.grace_ms = LAB_MS;
	fd = arm(&x, -1, "A=1");
	wait_parked(&x);
	{
		struct wm_shim_go go = {.cwd = none};
		struct err e;

		shim_send(fd, WM_SHIM_GO, &go, 1, NULL, 0, LAB_MS, &e);
		is_int(armed_answer(fd, NULL), ERR_CONFLICT, "the launcher's second go is refused");
	}
	is_int(unpark(&x, "handler", NULL, "A=1", NULL), 0, "start");
	lab_wait_output(&x, "ready\n");
	close(fd);
	st = lab_wait(&x, PS_EXITED);
	ok(st->exit_code == 7 && st->ended_by == BY_LAUNCHER, "the mirror's end runs the ladder once it runs");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_quit(void)
{
	struct lab x;
	char *text = NULL;
	int fd;

	park_lab(&x, 1);
	fd = arm(&x, -1, "A=1");
	wait_parked(&x);
	is_int(lab_quit(&x, LAB_MS), 0, "quit");
	is_int(armed_answer(fd, &text), ERR_INVALID, "quit: the launcher gets an answer");
	is_str(text, "stopped before it was started", "quit: why");
	check_failed(&x, "stopped before it was started");
	free(text);
	close(fd);
	lab_end(&x);
}

static void test_bad_command(void)
{
	struct wm_shim_start m = {.cwd = none};
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *text = NULL, *told = NULL;
	int fd;

	park_lab(&x, 1);
	fd = arm(&x, -1, "A=1");
	wait_parked(&x);
	wire_strv_add(&m.argv, "nowhere");
	is_int(lab_ok(&x, WM_SHIM_START, &m, &text), ERR_INVALID, "a command that is not there");
	like(text, "command not found: nowhere", "is named to the agent");
	is_int(armed_answer(fd, &told), ERR_INVALID, "and to the launcher");
	is_str(told, text, "in the same words");
	st = lab_wait(&x, PS_FAILED);
	wire_free(WM_SHIM_STATUS, st);
	m.cwd = NULL;
	wire_fini(WM_SHIM_START, &m);
	close(fd);
	lab_end(&x);
}

static uint64_t now_us(void)
{
	return clock_boot_us(clock_real());
}

static void test_lease(void)
{
	struct lease_record r = {.last_ack_us = now_us(), .lease_ms = 1500};
	struct wm_shim_status *st;
	struct lab x;
	struct err e;

	lab_init(&x, "ready", NULL);
	x.l.wait_go = x.l.park = 1;
	x.l.lease = xasprintf("%s/lease", x.dir);
	r.until_us = lease_until_us(r.last_ack_us, r.lease_ms);
	proc_boot_id(r.boot_id, &e);
	if (lease_file_write(x.l.lease, &r, &e) < 0)
		tap_bail("%s", e.text);
	lab_start(&x);
	wait_parked(&x);
	st = lab_wait(&x, PS_FAILED);
	is_str(st->text, "the lease of this node was over and no agent ran; stopped before it was started",
	       "a parked process ends with the lease");
	ok(now_us() >= r.until_us && now_us() < r.until_us + 1500000, "at its end");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_shim_killed(void)
{
	struct shim_state s;
	struct lab x;
	struct err e;

	park_lab(&x, 0);
	wait_parked(&x);
	lab_reap(&x);
	is_int(shim_state_read(x.dir, &s, &e), 0, "the state of a shim that was killed while parked");
	ok(s.st.state == PS_PARKED && s.child.pid == 0, "says parked, with nothing started");
	is_int(proc_alive(&s.shim, &e), 0, "and the shim is dead");
	shim_state_fini(&s);
	lab_end(&x);
}

/* As the process's own user: the code of a start, -1 no connection. */
static int start_as(struct lab *x, uid_t uid)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct err e;

		if (setgid(uid) < 0 || setuid(uid) < 0)
			_exit(255);
		x->fd = shim_connect(x->dir, x->l.shim_token, LAB_MS, &e);
		_exit(x->fd < 0 ? 254 : unpark(x, "exit", "0", "A=1", NULL));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_users(void)
{
	struct lab x;

	if (getuid() != 0) {
		tap_skip("other users need root");
		return;
	}
	lab_init(&x, "ready", NULL);
	x.l.wait_go = x.l.park = x.l.set_ids = 1;
	x.l.uid = x.l.gid = 12345;
	free(x.l.cwd);
	x.l.cwd = xstrdup("/");
	if (chmod(tap_tmpdir(), 0711) < 0 || chmod(x.dir, 0711) < 0)
		tap_bail("chmod");
	lab_start(&x);
	wait_parked(&x);
	is_int(start_as(&x, 12345), ERR_DENIED, "the process's own user may not start it");
	is_int(start_as(&x, 12344), 254, "another user may not even connect");
	wait_parked(&x);
	is_int(unpark(&x, "exit", "0", "A=1", NULL), 0, "root may");
	lab_end(&x);
}

static char *long_words(size_t n)
{
	char *s = xmalloc(n + 1);

	memset(s, 'x', n);
	memcpy(s, "A=", 2);
	s[n] = '\0';
	return s;
}

static void test_limits(void)
{
	struct wm_shim_go go = {.cwd = none, .mirror = 1};
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *text = NULL, *big = long_words(100000);
	struct wm_shim_start m = {.cwd = none};
	struct err e;
	int fd;

	park_lab(&x, 1);
	for (int i = 0; i < 5000; i++)
		wire_strv_add(&go.env, "A=1");
	is_int(lab_ok(&x, WM_SHIM_GO, &go, &text), ERR_LIMIT, "a launcher with too many variables");
	is_str(text, "5000 variables from the launcher; at most 4096 are allowed", "reads the limit");
	go.cwd = NULL;
	wire_fini(WM_SHIM_GO, &go);
	fd = arm(&x, -1, "A=1");
	wait_parked(&x);
	wire_strv_add(&m.argv, lab_victim());
	wire_strv_add(&m.argv, "exit");
	for (int i = 0; i < 9; i++)
		wire_strv_add(&m.env, big);
	is_int(lab_ok(&x, WM_SHIM_START, &m, NULL), 0, "900 kB are read while it is parked");
	st = lab_wait(&x, PS_EXITED);
	is_int(st->exit_code, 0, "and reach the program");
	wire_free(WM_SHIM_STATUS, st);
	close(fd);
	fd = shim_connect(x.dir, x.l.shim_token, LAB_MS, &e);
	shim_send(fd, WM_SHIM_START, &m, 1, NULL, 0, LAB_MS, &e);
	is_int(armed_answer(fd, NULL), ERR_LIMIT, "but not once it has started");
	m.cwd = NULL;
	wire_fini(WM_SHIM_START, &m);
	close(fd);
	lab_end(&x);
}

int main(void)
{
	test_two_keys();
	test_no_launcher();
	test_not_parkable();
	test_stdin();
	test_mirror_ends();
	test_quit();
	test_bad_command();
	test_lease();
	test_shim_killed();
	test_users();
	test_limits();
	return tap_done();
}
