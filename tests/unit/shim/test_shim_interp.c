/* hearth-shim: the waiting interpreter of a parked process, and all that it may do wrong. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "common/os/fsutil.h"
#include "common/os/lease_file.h"
#include "tests/lib/shimlab.h"
#include "tests/lib/tap.h"

static char none[] = "";

static void prepare(struct lab *x, const char *how)
{
	lab_init(x, "exit", "99", NULL);
	x->l.wait_go = x->l.park = 1;
	x->l.grace_ms = LAB_MS;
	strv_add(&x->l.park_argv, lab_victim());
	strv_add(&x->l.park_argv, "park");
	strv_add(&x->l.park_argv, how);
}

static void park_lab(struct lab *x, const char *how)
{
	prepare(x, how);
	lab_start(x);
}

static int unpark(struct lab *x, int preloaded, const char *act, const char *arg, char **text)
{
	struct wm_shim_start m = {.cwd = x->logdir, .preloaded = (uint8_t)preloaded};
	int code;

	wire_strv_add(&m.argv, lab_victim());
	wire_strv_add(&m.argv, act);
	if (arg)
		wire_strv_add(&m.argv, arg);
	wire_strv_add(&m.env, "A=1");
	wire_strv_add(&m.env, "OMPI_X=of the agent");
	wire_strv_add(&m.env, "HEARTH_TOKEN_LAUNCH=of the job");
	code = lab_ok(x, WM_SHIM_START, &m, text);
	m.cwd = NULL;
	wire_fini(WM_SHIM_START, &m);
	return code;
}

/* Waits until the process is parked with such a text; returns the interpreter's pid. */
static pid_t wait_text(struct lab *x, const char *want)
{
	struct wm_shim_query q = {.watch = 1};
	uint64_t id;
	uint16_t type;
	void *msg;
	struct err e;
	pid_t pid = -1;

	shim_send(x->fd, WM_SHIM_QUERY, &q, LAB_WATCH_ID, NULL, 0, LAB_MS, &e);
	while (pid < 0) {
		const struct wm_shim_status *st;

		if (shim_recv(x->fd, &type, &id, &msg, LAB_MS, &e) != 1)
			tap_bail("never parked with '%s'", want);
		st = msg;
		if (type == WM_SHIM_STATUS && st->state == PS_PARKED && strcmp(st->text, want) == 0)
			pid = (pid_t)st->pid;
		else if (type == WM_SHIM_STATUS && (st->state == PS_PARKED || st->state == PS_FAILED))
			tap_diag("state %u, text %s", st->state, st->text);
		wire_free(type, msg);
	}
	return pid;
}

static void check_ended(struct lab *x, const char *want)
{
	struct wm_shim_status *st = lab_wait(x, PS_EXITED);
	char *out = lab_output(x, 0, NULL, NULL);

	is_int(st->exit_code, 0, "the program ended well");
	ok(st->started_us, "it has a start");
	is_str(out, want, "its output, and nothing else");
	wire_free(WM_SHIM_STATUS, st);
	free(out);
}

static void test_takes(void)
{
	struct wm_shim_go go = {.cwd = none, .mirror = 1};
	struct wm_shim_status *st;
	struct lab x;
	struct err e;
	pid_t pid;
	int fd;

	prepare(&x, "mark");
	x.l.await_launcher = 1;
	lab_start(&x);
	st = lab_wait(&x, PS_WAITING);
	is_int(st->pid, 0, "the interpreter waits for the launcher's go");
	wire_free(WM_SHIM_STATUS, st);
	fd = shim_connect(x.dir, x.l.shim_token, LAB_MS, &e);
	wire_strv_add(&go.env, "OMPI_X=of the launcher");
	shim_send(fd, WM_SHIM_GO, &go, 1, NULL, 0, LAB_MS, &e);
	go.cwd = NULL;
	wire_fini(WM_SHIM_GO, &go);
	pid = wait_text(&x, SHIM_TEXT_READY " 0123abc");
	ok(pid > 0, "parked, with the interpreter's pid and its mark");
	is_int(lab_signal(&x, SIGTERM, 0), ERR_CONFLICT, "it gets no signal");
	is_int(unpark(&x, 1, "env", NULL, NULL), 0, "start");
	check_ended(&x, "A=1\nOMPI_X=of the launcher\nHEARTH_TOKEN_LAUNCH=of the job\n");
	st = lab_wait(&x, PS_EXITED);
	is_int(st->pid, pid, "the interpreter was the process");
	is_str(st->text, "", "no text is left");
	wire_free(WM_SHIM_STATUS, st);
	close(fd);
	lab_end(&x);
}

static void test_runs(void)
{
	struct wm_shim_status *st;
	struct lab x;

	park_lab(&x, "ok");
	wait_text(&x, SHIM_TEXT_READY);
	is_int(unpark(&x, 1, "handler", NULL, NULL), 0, "a program that stays");
	is_int(unpark(&x, 1, "exit", "0", NULL), ERR_CONFLICT, "a second start is refused");
	lab_wait_output(&x, "ready\n");
	lab_quit(&x, LAB_MS);
	st = lab_wait(&x, PS_EXITED);
	is_int(st->exit_code, 7, "it has the kill ladder of any program");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
	park_lab(&x, "ok");
	wait_text(&x, SHIM_TEXT_READY);
	is_int(unpark(&x, 1, "cwd", NULL, NULL), 0, "start in a directory");
	check_ended(&x, x.logdir);
	lab_end(&x);
	park_lab(&x, "ok");
	wait_text(&x, SHIM_TEXT_READY);
	is_int(unpark(&x, 1, "exit", "0", NULL), 0, "one that ends at once");
	check_ended(&x, "");
	lab_end(&x);
}

static void check_text(struct lab *x, const char *want)
{
	struct wm_shim_status *st = lab_wait(x, PS_RUNNING);

	is_str(st->text, want, want);
	ok(st->started_us && !st->ended_us, "of a program that runs");
	wire_free(WM_SHIM_STATUS, st);
	lab_wait_output(x, "ready\n");
	lab_quit(x, LAB_MS);
	st = lab_wait(x, PS_EXITED);
	is_int(st->exit_code, 7, "it has the kill ladder of any program");
	is_str(st->text, "ended after SIGTERM", "and its end is its own");
	wire_free(WM_SHIM_STATUS, st);
}

/* The program does not fit what it has loaded: it executes the command itself. */
static void test_afresh(void)
{
	struct lab x;

	park_lab(&x, "afresh");
	wait_text(&x, SHIM_TEXT_READY);
	is_int(unpark(&x, 1, "env", NULL, NULL), 0, "an interpreter that executes the command afresh");
	check_ended(&x, "A=1\nOMPI_X=of the agent\nHEARTH_TOKEN_LAUNCH=of the job\n");
	lab_end(&x);
	park_lab(&x, "afresh");
	wait_text(&x, SHIM_TEXT_READY);
	is_int(unpark(&x, 1, "handler", NULL, NULL), 0, "and stays");
	check_text(&x, SHIM_TEXT_AFRESH "the options differ");
	lab_end(&x);
}

/* More than a socket holds at once. */
static void test_large(void)
{
	struct wm_shim_start m = {.cwd = none, .preloaded = 1};
	struct lab x;
	char *big = xmalloc(100001);

	memset(big, 'x', 100000);
	memcpy(big, "A=", 2);
	big[100000] = '\0';
	park_lab(&x, "ok");
	wait_text(&x, SHIM_TEXT_READY);
	wire_strv_add(&m.argv, lab_victim());
	wire_strv_add(&m.argv, "exit");
	for (int i = 0; i < 15; i++)
		wire_strv_add(&m.env, big);
	is_int(lab_ok(&x, WM_SHIM_START, &m, NULL), 0, "a program with 1.5 MB of environment");
	check_ended(&x, "");
	m.cwd = NULL;
	wire_fini(WM_SHIM_START, &m);
	free(big);
	lab_end(&x);
}

static int has_family(void *arg)
{
	return lab_count(arg) == 3;
}

/* The program runs without it: nothing of it may be left then. */
static void test_not_wanted(void)
{
	cleanup_free char *text = NULL;
	struct lab x;

	park_lab(&x, "late-children");
	wait_text(&x, SHIM_TEXT_READY);
	ok(lab_until(has_family, &x), "an interpreter with two children");
	is_int(unpark(&x, 1, "env", NULL, &text), ERR_UNSUPPORTED, "it cannot run a program any more");
	like(text, SHIM_TEXT_BAD "started process ", "because of them");
	is_int(unpark(&x, 0, "env", NULL, NULL), 0, "another program");
	check_ended(&x, "A=1\nOMPI_X=of the agent\nHEARTH_TOKEN_LAUNCH=of the job\n");
	is_int(lab_count(&x), 0, "the interpreter and its children are gone");
	lab_end(&x);
}

static void test_bad(void)
{
	static const struct {
		const char *how, *text;
	} cases[] = {
	    {"bad", "no module named x"},
	    {"die", "the interpreter ended: exit 1: ImportError: none of that name"},
	    {"print", "printed while it was parked: two"},
	    {"long", "said a line of more than 4112 bytes"},
	    {"twice", "said more than one line"},
	    {"odd", "said 'hello' where 'ready' was expected"},
	    {"late-die", "the interpreter ended: exit 3"},
	    {"late-print", "printed while it was parked: late words"},
	    {"late-word", "spoke after 'ready'"},
	    {"close", "closed its socket while it was parked"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cleanup_free char *want = xasprintf(SHIM_TEXT_BAD "%s", cases[i].text), *text = NULL;
		struct lab x;

		park_lab(&x, cases[i].how);
		is_int(wait_text(&x, want), 0, want);
		is_int(lab_count(&x), 0, "it is gone");
		is_int(unpark(&x, 1, "exit", "0", &text), ERR_UNSUPPORTED, "it cannot run a program");
		is_str(text, want, "and the answer says why");
		is_int(unpark(&x, 0, "exit", "0", NULL), 0, "the process starts without it");
		check_ended(&x, "");
		lab_end(&x);
	}
}

/* What leaves its session and its parent is below the shim all the same. */
static void test_family(void)
{
	static const char *const how[] = {"children", "daemon"};

	for (size_t i = 0; i < 2; i++) {
		struct wm_shim_status *st;
		struct lab x;

		park_lab(&x, how[i]);
		st = lab_wait(&x, PS_PARKED);
		like(st->text, SHIM_TEXT_BAD "started process ", how[i]);
		wire_free(WM_SHIM_STATUS, st);
		is_int(lab_count(&x), 0, "all of it is gone");
		is_int(unpark(&x, 0, "exit", "0", NULL), 0, "the process starts without it");
		check_ended(&x, "");
		lab_end(&x);
	}
}

static void test_no_command(void)
{
	struct lab x;

	prepare(&x, "ok");
	strv_fini(&x.l.park_argv);
	strv_add(&x.l.park_argv, "no-such-python");
	lab_start(&x);
	wait_text(&x,
	          SHIM_TEXT_BAD "command not found: no-such-python (searched PATH=/usr/local/bin:/usr/bin:/bin)");
	is_int(unpark(&x, 0, "exit", "0", NULL), 0, "the process starts without it");
	check_ended(&x, "");
	lab_end(&x);
}

static void check_failed(struct lab *x, const char *text)
{
	struct wm_shim_status *st = lab_wait(x, PS_FAILED);

	is_str(st->text, text, text);
	is_int(lab_count(x), 0, "nothing of it is left when that is recorded");
	wire_free(WM_SHIM_STATUS, st);
}

/* It got the program and did not begin it: the program starts all the same. */
static void test_never_begins(void)
{
	static const char *const cases[][2] = {
	    {"die-g", "the interpreter ended before it ran the program: exit 4: gave up"},
	    {"kill-g", "the interpreter ended before it ran the program: SIGKILL"},
	    {"wrong-g", "the interpreter did not answer the program with 'g' or 'c'"},
	    {"close-g", "the interpreter closed its socket before it ran the program"},
	    {"no-g", "the interpreter did not begin the program within 5 s"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cleanup_free char *text = xasprintf(SHIM_TEXT_AFRESH "%s", cases[i][1]);
		struct lab x;

		park_lab(&x, cases[i][0]);
		wait_text(&x, SHIM_TEXT_READY);
		is_int(unpark(&x, 1, i % 2 ? "env" : "handler", NULL, NULL), 0, "the command starts afresh");
		if (i % 2)
			check_ended(&x, "A=1\nOMPI_X=of the agent\nHEARTH_TOKEN_LAUNCH=of the job\n");
		else
			check_text(&x, text);
		lab_end(&x);
	}
}

/* The agent's key without an answer; the connection is open. */
static int send_start(struct lab *x)
{
	struct wm_shim_start m = {.cwd = none, .preloaded = 1};
	struct err e;
	int fd = shim_connect(x->dir, x->l.shim_token, LAB_MS, &e);

	if (fd < 0)
		tap_bail("connect: %s", e.text);
	wire_strv_add(&m.argv, lab_victim());
	shim_send(fd, WM_SHIM_START, &m, 1, NULL, 0, LAB_MS, &e);
	m.cwd = NULL;
	wire_fini(WM_SHIM_START, &m);
	return fd;
}

static void test_quit(void)
{
	struct lab x;
	int fd;

	park_lab(&x, "late-children");
	wait_text(&x, SHIM_TEXT_READY);
	ok(lab_until(has_family, &x), "an interpreter with two children");
	lab_quit(&x, LAB_MS);
	check_failed(&x, "stopped before it was started");
	lab_end(&x);
	park_lab(&x, "never");
	lab_quit(&x, LAB_MS);
	check_failed(&x, "stopped before it was started");
	lab_end(&x);
	park_lab(&x, "no-g");
	wait_text(&x, SHIM_TEXT_READY);
	fd = send_start(&x);
	lab_quit(&x, LAB_MS);
	{
		struct wm_shim_status *st = lab_wait(&x, PS_FAILED);

		ok(strcmp(st->text, "the interpreter ended before it ran the program: SIGTERM") == 0 ||
		       strcmp(st->text, "stopped before it was started") == 0,
		   "quit while it takes the program");
		wire_free(WM_SHIM_STATUS, st);
	}
	close(fd);
	lab_end(&x);
}

static void test_mirror_ends(void)
{
	struct wm_shim_go go = {.cwd = none, .mirror = 1};
	struct lab x;
	struct err e;
	int fd;

	for (int ready = 0; ready < 2; ready++) {
		prepare(&x, ready ? "late-children" : "never");
		x.l.await_launcher = 1;
		lab_start(&x);
		fd = shim_connect(x.dir, x.l.shim_token, LAB_MS, &e);
		shim_send(fd, WM_SHIM_GO, &go, 1, NULL, 0, LAB_MS, &e);
		if (ready)
			wait_text(&x, SHIM_TEXT_READY);
		else
			is_int(unpark(&x, 1, "exit", "0", NULL), ERR_CONFLICT, "not parked before it is ready");
		close(fd);
		check_failed(&x, "its launcher ended while it was parked");
		lab_end(&x);
	}
}

static uint64_t now_us(void)
{
	return clock_boot_us(clock_real());
}

static void test_lease(void)
{
	struct lease_record r = {.last_ack_us = now_us(), .lease_ms = 1500};
	struct lab x;
	struct err e;

	prepare(&x, "late-children");
	x.l.lease = xasprintf("%s/lease", x.dir);
	r.until_us = lease_until_us(r.last_ack_us, r.lease_ms);
	proc_boot_id(r.boot_id, &e);
	if (lease_file_write(x.l.lease, &r, &e) < 0)
		tap_bail("%s", e.text);
	lab_start(&x);
	wait_text(&x, SHIM_TEXT_READY);
	check_failed(&x, "the lease of this node was over and no agent ran; stopped before it was started");
	ok(now_us() < r.until_us + 1500000, "at the end of the lease");
	lab_end(&x);
}

static int names_process(void *arg)
{
	const struct lab *x = arg;
	struct shim_state s;
	struct err e;
	int named;

	if (shim_state_read(x->dir, &s, &e) < 0)
		tap_bail("%s", e.text);
	named = s.child.pid > 0;
	shim_state_fini(&s);
	return named;
}

static int process_gone(void *arg)
{
	return proc_alive(arg, NULL) == 0;
}

static void check_killed(struct lab *x, enum proc_state want, const char *what)
{
	struct shim_state s;
	struct err e;

	lab_reap(x);
	is_int(shim_state_read(x->dir, &s, &e), 0, "the state of a shim that was killed");
	is_int(s.st.state, want, what);
	ok(proc_alive(&s.shim, &e) == 0, "it names a shim that is dead");
	ok(s.child.pid > 0 && lab_until(process_gone, &s.child), "and the interpreter, which ends with it");
	shim_state_fini(&s);
	lab_end(x);
}

static void test_shim_killed(void)
{
	struct wm_shim_status *st;
	struct lab x;
	int fd;

	park_lab(&x, "never");
	if (!lab_until(names_process, &x))
		tap_bail("no interpreter is on record");
	check_killed(&x, PS_WAITING, "killed while the interpreter gets ready: waiting");
	park_lab(&x, "ok");
	wait_text(&x, SHIM_TEXT_READY);
	check_killed(&x, PS_PARKED, "killed while parked: parked");
	park_lab(&x, "no-g");
	wait_text(&x, SHIM_TEXT_READY);
	fd = send_start(&x);
	check_killed(&x, PS_PARKED, "killed while the interpreter takes the program: parked");
	close(fd);
	park_lab(&x, "ok");
	wait_text(&x, SHIM_TEXT_READY);
	is_int(unpark(&x, 1, "ready", NULL, NULL), 0, "start");
	st = lab_wait(&x, PS_RUNNING);
	wire_free(WM_SHIM_STATUS, st);
	check_killed(&x, PS_RUNNING, "killed while the program runs: running");
}

/* A client that sends a part of an order delays nobody. */
static void test_slow_client(void)
{
	static const uint8_t part[20] = {0x00, 0x08, 0x00, 0x00, 0x00, WM_SHIM_START};
	struct lab x;
	struct err e;
	int fd;

	park_lab(&x, "ok");
	wait_text(&x, SHIM_TEXT_READY);
	fd = shim_connect(x.dir, x.l.shim_token, LAB_MS, &e);
	is_int(send(fd, part, sizeof(part), MSG_NOSIGNAL), sizeof(part), "a part of a start");
	is_int(unpark(&x, 1, "exit", "0", NULL), 0, "another client starts the process");
	check_ended(&x, "");
	close(fd);
	lab_end(&x);
}

#ifdef HEARTH_FAULTS
static void fault_lab(struct lab *x, const char *fault, const char *text)
{
	setenv("HEARTH_FAULTS", fault, 1);
	park_lab(x, "ok");
	unsetenv("HEARTH_FAULTS");
	wait_text(x, text);
}

static void test_faults(void)
{
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *text = NULL;

	fault_lab(&x, "shim.spawn=1",
	          SHIM_TEXT_BAD "cannot start a process: fork: Resource temporarily unavailable");
	is_int(unpark(&x, 0, "exit", "0", NULL), 0, "fork failed: the process starts without an interpreter");
	check_ended(&x, "");
	lab_end(&x);
	/* 1 first state, 2 start of the interpreter, 3 parked, 4 it takes the program. */
	fault_lab(&x, "shim.state=2",
	          SHIM_TEXT_BAD "the start cannot be recorded: state: injected: No space left on device");
	is_int(lab_count(&x), 0, "an interpreter that is not on record does not run");
	is_int(unpark(&x, 0, "exit", "0", NULL), 0, "the process starts without it");
	check_ended(&x, "");
	lab_end(&x);
	for (int afresh = 0; afresh < 2; afresh++) {
		setenv("HEARTH_FAULTS", "shim.deaf=1x1000000", 1);
		park_lab(&x, afresh ? "afresh" : "ok");
		unsetenv("HEARTH_FAULTS");
		wait_text(&x, SHIM_TEXT_READY);
		is_int(unpark(&x, 1, "exit", "0", NULL), ERR_INVALID, "a program that began is not started twice");
		st = lab_wait(&x, PS_FAILED);
		is_str(st->text, "the interpreter was killed when it began the program", "and the text says so");
		wire_free(WM_SHIM_STATUS, st);
		lab_end(&x);
	}
	fault_lab(&x, "shim.state=4", SHIM_TEXT_READY);
	is_int(unpark(&x, 1, "exit", "0", &text), ERR_INVALID, "a start that is not on record");
	like(text, "the start cannot be recorded", "fails, and says why");
	check_failed(&x, text);
	lab_end(&x);
}
#endif

int main(void)
{
	test_takes();
	test_runs();
	test_afresh();
	test_large();
	test_not_wanted();
	test_bad();
	test_family();
	test_no_command();
	test_never_begins();
	test_quit();
	test_mirror_ends();
	test_lease();
	test_shim_killed();
	test_slow_client();
#ifdef HEARTH_FAULTS
	test_faults();
#endif
	return tap_done();
}
