/* hearth-shim: its socket; verbs, refusals, garbage, many and slow clients, who may connect. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/base/fault.h"
#include "common/os/fsutil.h"
#include "tests/lib/shimlab.h"
#include "tests/lib/tap.h"

static char none[] = "";

/* The connection is closed by the shim, whatever it says before. */
static int is_closed(int fd)
{
	char c[4096];
	ssize_t n;

	do {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (poll(&p, 1, LAB_MS) != 1)
			return 0;
		n = recv(fd, c, sizeof(c), 0);
	} while (n > 0);
	return 1;
}

/* Reads one frame; its code when it is SHIM_OK, else -1. */
static int next_code(int fd)
{
	struct err e;
	uint16_t type;
	uint64_t id;
	void *msg;
	int code = -1;

	if (shim_recv(fd, &type, &id, &msg, LAB_MS, &e) != 1)
		return -1;
	if (type == WM_SHIM_OK)
		code = (int)((struct wm_shim_ok *)msg)->code;
	wire_free(type, msg);
	return code;
}

static void test_hello(void)
{
	struct wm_shim_hello old = {.version = 7, .token = none};
	struct wm_shim_query q = {0};
	struct wm_shim_status *st;
	struct lab x;
	struct err e;
	int fd;

	lab_init(&x, "ready", NULL);
	lab_start(&x);
	ok(shim_connect(x.dir, "wrong", LAB_MS, &e) < 0 && e.code == ERR_DENIED, "a wrong token");
	ok(shim_connect(x.dir, "", LAB_MS, &e) < 0 && e.code == ERR_DENIED, "no token");
	fd = shim_dial(x.dir, &e);
	shim_send(fd, WM_SHIM_HELLO, &old, 1, NULL, 0, LAB_MS, &e);
	is_int(next_code(fd), ERR_PROTOCOL, "another version");
	ok(is_closed(fd), "ends the connection");
	close(fd);
	fd = shim_dial(x.dir, &e);
	shim_send(fd, WM_SHIM_QUERY, &q, 1, NULL, 0, LAB_MS, &e);
	is_int(next_code(fd), ERR_UNAUTHORIZED, "another verb before hello");
	ok(is_closed(fd), "ends it too");
	close(fd);
	st = lab_wait(&x, PS_RUNNING);
	ok(st->pid > 0, "the shim serves on");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_verbs(void)
{
	struct wm_shim_attach attach = {0};
	struct wm_shim_release release = {0};
	struct wm_shim_tail tail = {.max_bytes = 4};
	struct wm_shim_status *st;
	struct lab x;
	struct err e;
	uint16_t type;
	void *reply;
	cleanup_free char *text = NULL;

	lab_init(&x, "ready", NULL);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	is_int(lab_ok(&x, WM_SHIM_ATTACH, &attach, &text), ERR_UNSUPPORTED, "attach");
	is_str(text, "attach is not built yet", "says that it is not built");
	is_int(lab_ok(&x, WM_SHIM_RELEASE, &release, NULL), ERR_CONFLICT, "release of a running one is refused");
	is_int(lab_go(&x), ERR_CONFLICT, "so is go");
	is_int(shim_call(x.fd, WM_SHIM_TAIL, &tail, &type, &reply, LAB_MS, &e), 0, "tail");
	ok(type == WM_SHIM_DATA && ((struct wm_shim_data *)reply)->data.n == 4 &&
	       memcmp(((struct wm_shim_data *)reply)->data.data, "ady\n", 4) == 0,
	   "is the last bytes, as many as asked for");
	wire_free(type, reply);
	st = lab_wait(&x, PS_RUNNING);
	is_int(st->version, SHIM_VERSION, "version");
	ok(st->started_us > 0 && st->ended_us == 0, "started, not ended");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_watch(void)
{
	struct wm_shim_query q = {.watch = 1};
	struct wm_shim_status *st;
	struct lab x;
	struct err e;
	uint16_t type;
	uint64_t id;
	void *msg;
	int states[8], n = 0, fd;

	lab_init(&x, "exit", "0", NULL);
	x.l.wait_go = 1;
	lab_start(&x);
	fd = shim_connect(x.dir, x.l.shim_token, LAB_MS, &e);
	shim_send(fd, WM_SHIM_QUERY, &q, 77, NULL, 0, LAB_MS, &e);
	is_int(lab_go(&x), 0, "go");
	while (n < 8 && shim_recv(fd, &type, &id, &msg, LAB_MS, &e) == 1) {
		states[n++] = ((struct wm_shim_status *)msg)->state;
		ok(type == WM_SHIM_STATUS && id == 77, "a status with the id of the watch");
		wire_free(type, msg);
		if (states[n - 1] == PS_EXITED)
			break;
	}
	ok(n == 3 && states[0] == PS_WAITING && states[1] == PS_RUNNING && states[2] == PS_EXITED,
	   "a watcher sees each state once");
	st = lab_wait(&x, PS_EXITED);
	wire_free(WM_SHIM_STATUS, st);
	close(fd);
	lab_end(&x);
}

static void test_go(void)
{
	struct wm_shim_status *st;
	struct wm_shim_go go = {.cwd = none};
	struct lab x;
	cleanup_free char *out = NULL, *want = NULL, *text = NULL;
	struct err e;
	uint16_t type;
	uint64_t id;
	void *msg;
	int in;

	lab_init(&x, "env", NULL);
	x.l.wait_go = 1;
	strv_add(&x.l.env, "A=prepared");
	lab_start(&x);
	wire_strv_add(&go.env, "OMPI_COMM_WORLD_RANK=0");
	wire_strv_add(&go.env, "A=of go");
	is_int(lab_ok(&x, WM_SHIM_GO, &go, NULL), 0, "go with an environment");
	st = lab_wait(&x, PS_EXITED);
	out = lab_output(&x, 0, NULL, NULL);
	want = xasprintf(
	    "PATH=/usr/local/bin:/usr/bin:/bin\nHEARTH_TOKEN_LAUNCH=%s\nA=of go\nOMPI_COMM_WORLD_RANK=0\n",
	    x.l.token);
	is_str(out, want, "put over the prepared one");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);

	lab_init(&x, "env", NULL);
	x.l.wait_go = 1;
	x.l.rank = 3;
	lab_start(&x);
	is_int(lab_ok(&x, WM_SHIM_GO, &go, &text), ERR_INVALID, "a rank in another one's place is refused");
	is_str(text, "the launcher put rank 0 where rank 3 was prepared", "and says so");
	free(go.env.v[0]);
	go.env.v[0] = xstrdup("nonsense");
	is_int(lab_ok(&x, WM_SHIM_GO, &go, NULL), ERR_INVALID, "an environment without = is refused");
	free(go.env.v[0]);
	go.env.v[0] = xstrdup("OMPI_COMM_WORLD_RANK=3");
	wire_strv_add(&go.argv, "/bin/cat");
	wire_strv_add(&go.argv, "here");
	wire_strv_add(&go.argv, "-");
	go.cwd = xstrdup(x.logdir);
	{
		cleanup_free char *path = xasprintf("%s/here", x.logdir), *input = xasprintf("%s/input", x.dir);

		fs_replace(path, "a file of cwd, ", 15, 0600, NULL);
		fs_replace(input, "and stdin", 9, 0600, NULL);
		in = open(input, O_RDONLY | O_CLOEXEC);
	}
	shim_send(x.fd, WM_SHIM_GO, &go, 99, &in, 1, LAB_MS, &e);
	is_int(shim_recv(x.fd, &type, &id, &msg, LAB_MS, &e), 1, "go with command, directory and stdin");
	ok(type == WM_SHIM_OK && id == 99 && ((struct wm_shim_ok *)msg)->code == 0, "is answered");
	wire_free(type, msg);
	st = lab_wait(&x, PS_EXITED);
	free(out);
	out = lab_output(&x, 0, NULL, NULL);
	is_str(out, "a file of cwd, and stdin", "and obeyed");
	wire_free(WM_SHIM_STATUS, st);
	wire_fini(WM_SHIM_GO, &go);
	close(in);
	lab_end(&x);
}

static void test_go_fails(void)
{
	struct wm_shim_status *st;
	struct wm_shim_go go = {.cwd = none};
	struct lab x;
	cleanup_free char *text = NULL;

	lab_init(&x, NULL);
	x.l.wait_go = 1;
	lab_argv(&x, "nowhere", NULL);
	lab_start(&x);
	is_int(lab_ok(&x, WM_SHIM_GO, &go, &text), ERR_INVALID, "go for a command that is not there");
	like(text, "command not found: nowhere", "is answered with the reason");
	st = lab_wait(&x, PS_FAILED);
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static uint32_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33);
}

/* 400 random streams of bytes, some of which begin well. */
static void test_garbage(void)
{
	struct wm_shim_status *st;
	uint64_t seed = 20261121;
	struct lab x;
	struct err e;

	lab_init(&x, "ready", NULL);
	lab_start(&x);
	for (int i = 0; i < 400; i++) {
		uint8_t junk[600];
		size_t n = next_random(&seed) % sizeof(junk);
		int fd = shim_dial(x.dir, &e);

		if (fd < 0)
			tap_bail("dial %d: %s", i, e.text);
		for (size_t k = 0; k < n; k++)
			junk[k] = (uint8_t)next_random(&seed);
		if (i % 3 && n > 16) { /* a header that is nearly right */
			memset(junk, 0, 16);
			junk[2] = (uint8_t)(i % 5 == 0 ? 16 : 0);
			junk[3] = (uint8_t)(n - 16);
			junk[5] = (uint8_t)(96 + i % 18);
		}
		(void)!send(fd, junk, n, MSG_NOSIGNAL);
		if (i % 2)
			shutdown(fd, SHUT_WR);
		if (i % 2)
			ok(is_closed(fd), "garbage %d is turned away", i);
		close(fd);
	}
	st = lab_wait(&x, PS_RUNNING);
	ok(proc_alive(&x.id, NULL) == 1, "the shim lives");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_limits(void)
{
	uint8_t header[16] = {0x00, 0x02, 0x00, 0x00, 0x00, WM_SHIM_GO}; /* 128 KiB are announced */
	struct wm_shim_go go = {.cwd = none};
	struct lab x;
	struct err e;
	int fd;

	lab_init(&x, "ready", NULL);
	x.l.wait_go = 1;
	lab_start(&x);
	fd = shim_dial(x.dir, &e);
	(void)!send(fd, header, sizeof(header), MSG_NOSIGNAL);
	is_int(next_code(fd), ERR_LIMIT, "a large frame before hello");
	ok(is_closed(fd), "ends the connection");
	close(fd);
	go.cwd = xmalloc(600000);
	memset(go.cwd, 'x', 599999);
	go.cwd[599999] = '\0';
	ok(lab_ok(&x, WM_SHIM_GO, &go, NULL) == ERR_INVALID, "a large go is read while it is awaited");
	fd = shim_connect(x.dir, x.l.shim_token, LAB_MS, &e);
	shim_send(fd, WM_SHIM_GO, &go, 5, NULL, 0, LAB_MS, &e);
	is_int(next_code(fd), ERR_LIMIT, "and refused afterwards");
	close(fd);
	free(go.cwd);
	lab_end(&x);
}

static void test_many(void)
{
	int fds[SHIM_MAX_CONNS], n = 0;
	struct lab x;
	struct err e;

	lab_init(&x, "ready", NULL);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	for (int i = 1; i < SHIM_MAX_CONNS; i++) {
		fds[n] = shim_connect(x.dir, x.l.shim_token, LAB_MS, &e);
		n += fds[n] >= 0;
	}
	is_int(n, SHIM_MAX_CONNS - 1, "sixteen connections");
	ok(shim_connect(x.dir, x.l.shim_token, LAB_MS, &e) < 0 && e.code == ERR_BUSY,
	   "the seventeenth is told so");
	is_int(lab_signal(&x, SIGCONT, 0), 0, "the others are served");
	close(fds[--n]);
	do
		fds[n] = shim_connect(x.dir, x.l.shim_token, LAB_MS, &e);
	while (fds[n] < 0 && e.code == ERR_BUSY);
	ok(fds[n] >= 0, "with one gone the next is let in");
	n++;
	while (n)
		close(fds[--n]);
	lab_end(&x);
}

/* A client that asks and never reads: it is cut off, and nobody else notices. */
static void test_slow_reader(void)
{
	struct wm_shim_tail tail = {.max_bytes = SHIM_TAIL_MAX};
	struct wm_shim_status *st;
	struct lab x;
	struct err e;
	int fd, i;

	lab_init(&x, "flood", "100000", NULL);
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	wire_free(WM_SHIM_STATUS, st);
	fd = shim_connect(x.dir, x.l.shim_token, LAB_MS, &e);
	for (i = 0; i < 1000; i++)
		if (shim_send(fd, WM_SHIM_TAIL, &tail, 1, NULL, 0, LAB_MS, &e) < 0)
			break;
	ok(i < 1000 || is_closed(fd), "a client that does not read is cut off");
	close(fd);
	st = lab_wait(&x, PS_EXITED);
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_mirror(void)
{
	struct wm_shim_status *st;
	struct wm_shim_go go = {.cwd = none, .mirror = 1};
	struct lab x;
	struct err e;
	int fd;

	lab_init(&x, "handler", NULL);
	x.l.wait_go = 1;
	x.l.grace_ms = LAB_MS;
	lab_start(&x);
	fd = shim_connect(x.dir, x.l.shim_token, LAB_MS, &e);
	shim_send(fd, WM_SHIM_GO, &go, 1, NULL, 0, LAB_MS, &e);
	is_int(next_code(fd), 0, "go with mirror");
	lab_wait_output(&x, "ready\n");
	close(fd);
	st = lab_wait(&x, PS_EXITED);
	is_int(st->exit_code, 7, "the end of the mirroring connection runs the ladder");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
	/* Without mirror it does not matter. */
	lab_init(&x, "handler", NULL);
	x.l.wait_go = 1;
	lab_start(&x);
	fd = shim_connect(x.dir, x.l.shim_token, LAB_MS, &e);
	go.mirror = 0;
	shim_send(fd, WM_SHIM_GO, &go, 1, NULL, 0, LAB_MS, &e);
	is_int(next_code(fd), 0, "go without mirror");
	close(fd);
	lab_wait_output(&x, "ready\n");
	st = lab_wait(&x, PS_RUNNING);
	ok(st->state == PS_RUNNING, "the process outlives who said go");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

/* A client ends while go is being carried out. */
static void test_mirror_at_once(void)
{
	struct wm_shim_status *st;
	struct wm_shim_go go = {.cwd = none, .mirror = 1};
	struct lab x;
	struct err e;
	int fd;

	lab_init(&x, "stubborn", NULL);
	x.l.wait_go = 1;
	x.l.grace_ms = 50;
	lab_start(&x);
	fd = shim_connect(x.dir, x.l.shim_token, LAB_MS, &e);
	shim_send(fd, WM_SHIM_GO, &go, 1, NULL, 0, LAB_MS, &e);
	close(fd);
	/* How far it came depends on who is faster. */
	st = lab_wait_end(&x);
	ok(st->state == PS_FAILED ? strstr(st->text, "before it was executed") != NULL
	                          : st->signal == SIGTERM || st->signal == SIGKILL,
	   "go and gone: the process is ended");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

/* As another user: -1 cannot connect, 0 refused, 1 in. */
static int try_as(struct lab *x, uid_t uid, int *quit_code)
{
	int p[2], status;
	pid_t pid;

	if (pipe(p) < 0)
		tap_bail("pipe");
	pid = fork();
	if (pid == 0) {
		struct wm_shim_quit q = {.grace_ms = 0};
		struct err e;
		int fd, code;

		if (setgid(uid) < 0 || setuid(uid) < 0)
			_exit(9);
		fd = shim_connect(x->dir, x->l.shim_token, LAB_MS, &e);
		if (fd < 0)
			_exit(e.code == ERR_DENIED ? 1 : 2);
		shim_send(fd, WM_SHIM_QUIT, &q, 1, NULL, 0, LAB_MS, &e);
		code = next_code(fd);
		(void)!write(p[1], &code, sizeof(code));
		_exit(0);
	}
	close(p[1]);
	waitpid(pid, &status, 0);
	if (read(p[0], quit_code, sizeof(*quit_code)) != (ssize_t)sizeof(*quit_code))
		*quit_code = -1;
	close(p[0]);
	return WEXITSTATUS(status) == 0 ? 1 : WEXITSTATUS(status) == 1 ? 0 : -1;
}

static void test_users(void)
{
	struct lab x;
	cleanup_free char *ctl = NULL;
	int code;

	if (getuid() != 0) {
		tap_skip("other users need root");
		return;
	}
	lab_init(&x, "ready", NULL);
	x.l.set_ids = 1;
	x.l.uid = x.l.gid = 12345;
	free(x.l.cwd);
	x.l.cwd = xstrdup("/");
	if (chmod(tap_tmpdir(), 0711) < 0 || chmod(x.dir, 0711) < 0)
		tap_bail("chmod");
	lab_start(&x);
	is_int(try_as(&x, 12345, &code), 1, "the process's own user may connect");
	is_int(code, ERR_DENIED, "but not end what belongs to the agent");
	is_int(try_as(&x, 12344, &code), 0, "another user may not");
	ctl = xasprintf("%s/ctl", x.dir);
	chmod(ctl, 0666);
	is_int(try_as(&x, 12344, &code), 0, "even when the file would let him");
	lab_end(&x);
}

#ifdef HEARTH_FAULTS
static void test_faults(void)
{
	struct wm_shim_status *st;
	struct lab x;
	struct err e;

	setenv("HEARTH_FAULTS", "shim.spawn=1", 1);
	lab_init(&x, "ready", NULL);
	lab_start(&x);
	st = lab_wait(&x, PS_FAILED);
	like(st->text, "cannot start a process: fork", "fork fails");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
	setenv("HEARTH_FAULTS", "shim.state=1", 1);
	lab_init(&x, "ready", NULL);
	if (shim_launch_write(x.dir, &x.l, &e) < 0)
		tap_bail("%s", e.text);
	ok(shim_start(lab_shim(), x.dir, LAB_MS, &x.id, &e) < 0, "no shim without its first record");
	like(e.text, "injected", "and it says why");
	x.id.pid = 0;
	lab_end(&x);
	setenv("HEARTH_FAULTS", "shim.state=2", 1);
	lab_init(&x, "ready", NULL);
	lab_start(&x);
	st = lab_wait(&x, PS_FAILED);
	like(st->text, "the start cannot be recorded", "nothing is started that is not on record");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
	/* 1 first state, 2 start, 3 running, 4 and 5 the end: written by the second retry. */
	setenv("HEARTH_FAULTS", "shim.state=4x2", 1);
	lab_init(&x, "exit", "42", NULL);
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
	ok(1, "a record that fails is tried again");
	setenv("HEARTH_FAULTS", "shim.reply=2", 1);
	lab_init(&x, "ready", NULL);
	lab_start(&x);
	{
		struct wm_shim_query q = {0};
		uint16_t type;
		void *reply;

		ok(shim_call(x.fd, WM_SHIM_QUERY, &q, &type, &reply, LAB_MS, &e) < 0 && e.code == ERR_UNAVAILABLE,
		   "a reply that cannot be sent ends the connection");
	}
	unsetenv("HEARTH_FAULTS");
	lab_connect(&x);
	st = lab_wait(&x, PS_RUNNING);
	ok(st->state == PS_RUNNING, "and nothing else");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}
#endif

static void test_long_path(void)
{
	struct wm_shim_status *st;
	struct proc_id id;
	struct lab x;
	struct err e;
	cleanup_free char *dir = NULL;
	int fd;

	lab_init(&x, "ready", NULL);
	dir = xasprintf("%s/%0150d", x.dir, 0);
	if (mkdir(dir, 0700) < 0 || shim_launch_write(dir, &x.l, &e) < 0 ||
	    shim_start(lab_shim(), dir, LAB_MS, &id, &e) < 0)
		tap_bail("%s", e.text);
	fd = shim_connect(dir, x.l.shim_token, LAB_MS, &e);
	ok(fd >= 0, "a path longer than a socket address");
	x.fd = fd;
	st = lab_wait(&x, PS_RUNNING);
	wire_free(WM_SHIM_STATUS, st);
	ok(shim_start(lab_shim(), dir, LAB_MS, &x.id, &e) < 0, "a second shim in the same directory");
	like(e.text, "another shim works here", "is refused");
	lab_quit(&x, 0);
	st = lab_wait(&x, PS_EXITED);
	wire_free(WM_SHIM_STATUS, st);
	{
		struct wm_shim_release m = {0};

		is_int(lab_ok(&x, WM_SHIM_RELEASE, &m, NULL), 0, "release");
	}
	waitpid(id.pid, NULL, 0);
	x.id.pid = 0;
	lab_end(&x);
}

int main(void)
{
	test_hello();
	test_verbs();
	test_watch();
	test_go();
	test_go_fails();
	test_garbage();
	test_limits();
	test_many();
	test_slow_reader();
	test_mirror();
	test_mirror_at_once();
	test_users();
	test_long_path();
#ifdef HEARTH_FAULTS
	test_faults();
#endif
	return tap_done();
}
