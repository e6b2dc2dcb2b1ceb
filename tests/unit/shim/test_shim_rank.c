/* hearth-rank: the stub that mpirun starts, against a real shim. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/os/fsutil.h"
#include "tests/lib/shimlab.h"
#include "tests/lib/tap.h"

/* As orted would start it: HEARTH_LAUNCH_DIR/rank-3 is the shim's directory. */
struct stub {
	pid_t pid;
	int pidfd, err_fd;
};

static char *launch_dir;

static void rank_lab(struct lab *x, const char *act, const char *arg)
{
	cleanup_free char *link = NULL;

	lab_init(x, act, arg, NULL);
	x->l.wait_go = 1;
	x->l.grace_ms = LAB_MS;
	free(launch_dir);
	launch_dir = xasprintf("%s/node", x->dir);
	link = xasprintf("%s/rank-3", launch_dir);
	if (mkdir(launch_dir, 0755) < 0 || symlink(x->dir, link) < 0)
		tap_bail("%s: %s", link, strerror(errno));
}

static void stub_start_as(struct stub *s, int stdin_fd, int torchrun)
{
	cleanup_free char *path = lab_built("agent/hearth-rank");
	char name[] = "hearth-rank";
	char *argv[] = {name, NULL};
	struct strv env = {0};
	struct err e;
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		tap_bail("pipe");
	strv_add(&env, "PATH=/nowhere");
	strv_addf(&env, "HEARTH_LAUNCH_DIR=%s", launch_dir);
	if (torchrun) {
		strv_add(&env, "TORCHELASTIC_RUN_ID=x");
		strv_add(&env, "LOCAL_RANK=3");
		strv_add(&env, "RANK=7");
		strv_add(&env, "MASTER_PORT=29500");
	} else {
		strv_add(&env, "OMPI_COMM_WORLD_LOCAL_RANK=3");
		strv_add(&env, "OMPI_COMM_WORLD_RANK=0");
	}
	strv_add(&env, "PMIX_NAMESPACE=a b");
	strv_add(&env, "PMI_X=1");
	strv_add(&env, "ORTE_X=2");
	strv_add(&env, "PRTE_X=3");
	strv_add(&env, "OTHER=must not come");
	if (proc_spawn(&(struct proc_spawn){.path = path,
	                                    .argv = argv,
	                                    .envp = env.v,
	                                    .stdin_fd = stdin_fd,
	                                    .stdout_fd = -1,
	                                    .stderr_fd = p[1]},
	               &s->pid, &s->pidfd, &e) < 0)
		tap_bail("%s", e.text);
	strv_fini(&env);
	close(p[1]);
	s->err_fd = p[0];
}

static void stub_start(struct stub *s, int stdin_fd)
{
	stub_start_as(s, stdin_fd, 0);
}

static int stub_end(struct stub *s, char *text, size_t size)
{
	struct pollfd p = {.fd = s->pidfd, .events = POLLIN};
	size_t used = 0;
	ssize_t n;
	int status = 0;

	if (poll(&p, 1, LAB_MS) != 1)
		tap_bail("hearth-rank does not end");
	while ((n = read(s->err_fd, text + used, size - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	waitpid(s->pid, &status, 0);
	close(s->pidfd);
	close(s->err_fd);
	return status;
}

static void test_mirrors(void)
{
	static const struct {
		const char *act, *arg;
		int status;
	} cases[] = {{"exit", "0", 0},   {"exit", "3", 3 << 8}, {"exit", "255", 255 << 8}, {"signal", "15", 15},
	             {"signal", "9", 9}, {"signal", "11", 11},  {"signal", "6", 6}};
	char text[500];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct wm_shim_status *st;
		struct stub s;
		struct lab x;

		rank_lab(&x, cases[i].act, cases[i].arg);
		lab_start(&x);
		stub_start(&s, -1);
		is_int(stub_end(&s, text, sizeof(text)), cases[i].status, "the stub ends as its rank did");
		is_str(text, "", "silently");
		st = lab_wait(&x, PS_EXITED);
		is_int(st->signal ? (int)st->signal : (int)st->exit_code << 8, cases[i].status,
		       "and the shim knows it too");
		wire_free(WM_SHIM_STATUS, st);
		lab_end(&x);
	}
}

static void test_environment(void)
{
	struct stub s;
	struct lab x;
	char text[500];
	cleanup_free char *out = NULL;

	rank_lab(&x, "env", NULL);
	lab_start(&x);
	stub_start(&s, -1);
	is_int(stub_end(&s, text, sizeof(text)), 0, "ended");
	out = lab_output(&x, 0, NULL, NULL);
	like(out, "PATH=/usr/local/bin:/usr/bin:/bin\n", "PATH is the prepared one");
	like(out, "OMPI_COMM_WORLD_RANK=0\nPMIX_NAMESPACE=a b\nPMI_X=1\nORTE_X=2\nPRTE_X=3\n",
	     "what MPI needs comes along");
	ok(!strstr(out, "OTHER=") && !strstr(out, "HEARTH_LAUNCH_DIR"), "and nothing else");
	lab_end(&x);
}

static void test_torchrun(void)
{
	struct stub s;
	struct lab x;
	char text[500];
	cleanup_free char *out = NULL;

	rank_lab(&x, "env", NULL);
	strv_add(&x.l.env, "MASTER_PORT=1");
	lab_start(&x);
	stub_start_as(&s, -1, 1);
	is_int(stub_end(&s, text, sizeof(text)), 0, "a worker of torchrun");
	out = lab_output(&x, 0, NULL, NULL);
	like(out, "MASTER_PORT=29500\nTORCHELASTIC_RUN_ID=x\nLOCAL_RANK=3\nRANK=7\n",
	     "gets what torchrun decided");
	ok(!strstr(out, "OTHER=") && !strstr(out, "PMIX_"), "and nothing else");
	lab_end(&x);
}

static void test_stdin(void)
{
	struct stub s;
	struct lab x;
	char text[500];
	cleanup_free char *out = NULL;
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0 || write(p[1], "typed", 5) != 5)
		tap_bail("pipe");
	rank_lab(&x, "cat", NULL);
	lab_start(&x);
	stub_start(&s, p[0]);
	close(p[0]);
	close(p[1]);
	is_int(stub_end(&s, text, sizeof(text)), 0, "ended");
	out = lab_output(&x, 0, NULL, NULL);
	is_str(out, "typed", "stdin reaches the rank");
	lab_end(&x);
}

static void test_signals(void)
{
	struct stub s;
	struct lab x;
	char text[500];

	rank_lab(&x, "handler", NULL);
	lab_start(&x);
	stub_start(&s, -1);
	lab_wait_output(&x, "ready\n");
	kill(s.pid, SIGTERM);
	is_int(stub_end(&s, text, sizeof(text)), 7 << 8, "SIGTERM is passed on, the handler's exit comes back");
	lab_end(&x);
}

/* What orted does on an abort: SIGCONT, SIGTERM, SIGKILL at once. */
static void test_killed(void)
{
	struct wm_shim_status *st;
	struct stub s;
	struct lab x;
	char text[500];
	cleanup_free char *out = NULL;
	int status;

	rank_lab(&x, "handler", NULL);
	lab_start(&x);
	stub_start(&s, -1);
	lab_wait_output(&x, "ready\n");
	kill(s.pid, SIGCONT);
	kill(s.pid, SIGTERM);
	kill(s.pid, SIGKILL);
	status = stub_end(&s, text, sizeof(text));
	/* On a busy machine the rank may be faster than our next system call. */
	ok(status == SIGKILL || status == 7 << 8, "the stub was killed");
	st = lab_wait(&x, PS_EXITED);
	is_int(st->exit_code, 7, "its rank had the time to end by itself");
	is_int(st->ended_by, BY_LAUNCHER, "which is known to be the launcher's doing");
	out = lab_output(&x, 0, NULL, NULL);
	is_str(out, "ready\nsaved\n", "and to save");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_killed_once(void)
{
	struct wm_shim_status *st;
	struct stub s;
	struct lab x;
	char text[500];
	cleanup_free char *out = NULL;

	rank_lab(&x, "count", NULL);
	x.l.grace_ms = 300;
	lab_start(&x);
	stub_start(&s, -1);
	lab_wait_output(&x, "ready\n");
	kill(s.pid, SIGTERM);
	lab_wait_output(&x, "term\n");
	kill(s.pid, SIGKILL);
	stub_end(&s, text, sizeof(text));
	st = lab_wait(&x, PS_EXITED);
	out = lab_output(&x, 0, NULL, NULL);
	is_str(out, "ready\nterm\n", "the rank sees one SIGTERM, not two");
	is_int(st->ended_by, BY_LAUNCHER, "ended by the launcher");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_failures(void)
{
	struct stub s;
	struct lab x;
	char text[500];

	rank_lab(&x, "exit", "0");
	lab_argv(&x, "no-such-thing", NULL);
	lab_start(&x);
	stub_start(&s, -1);
	is_int(stub_end(&s, text, sizeof(text)), 127 << 8, "a command that is not there");
	like(text, "command not found: no-such-thing", "is named on stderr");
	lab_end(&x);
	rank_lab(&x, "exit", "0");
	x.l.rank = 5;
	lab_start(&x);
	stub_start(&s, -1);
	is_int(stub_end(&s, text, sizeof(text)), 127 << 8, "a rank in another one's place");
	like(text, "the launcher put rank 0 where rank 5 was prepared", "is refused");
	lab_end(&x);
	rank_lab(&x, "exit", "0");
	stub_start(&s, -1);
	is_int(stub_end(&s, text, sizeof(text)), 127 << 8, "no shim");
	like(text, "key", "says what is missing");
	lab_end(&x);
}

static void park_stub(struct lab *x, struct stub *s)
{
	struct wm_shim_status *st;

	rank_lab(x, "exit", "99");
	x->l.park = x->l.await_launcher = 1;
	lab_start(x);
	stub_start(s, -1);
	st = lab_wait(x, PS_PARKED);
	wire_free(WM_SHIM_STATUS, st);
}

/* The stub arms the rank and waits; the agent starts it. */
static void test_parked(void)
{
	struct wm_shim_start m = {.cwd = (char[]){""}};
	struct wm_shim_status *st;
	struct stub s;
	struct lab x;
	char text[500];
	cleanup_free char *out = NULL;

	park_stub(&x, &s);
	wire_strv_add(&m.argv, lab_victim());
	wire_strv_add(&m.argv, "env");
	wire_strv_add(&m.env, "PMI_X=of the agent");
	is_int(lab_ok(&x, WM_SHIM_START, &m, NULL), 0, "a parked rank starts");
	m.cwd = NULL;
	wire_fini(WM_SHIM_START, &m);
	is_int(stub_end(&s, text, sizeof(text)), 0, "the stub ends as the rank did");
	out = lab_output(&x, 0, NULL, NULL);
	like(out, "PMI_X=1\n", "with the launcher's variables");
	lab_end(&x);

	park_stub(&x, &s);
	kill(s.pid, SIGKILL);
	stub_end(&s, text, sizeof(text));
	st = lab_wait(&x, PS_FAILED);
	is_str(st->text, "its launcher ended while it was parked", "a stub that is killed ends a parked rank");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);

	park_stub(&x, &s);
	lab_quit(&x, 0);
	is_int(stub_end(&s, text, sizeof(text)), 127 << 8, "quit while parked ends the stub");
	like(text, "stopped before it was started", "which says why");
	lab_end(&x);
}

static void test_shim_lost(void)
{
	struct stub s;
	struct lab x;
	char text[500];
	struct err e;

	rank_lab(&x, "ready", NULL);
	lab_start(&x);
	stub_start(&s, -1);
	lab_wait_output(&x, "ready\n");
	lab_reap(&x);
	is_int(stub_end(&s, text, sizeof(text)), 254 << 8, "a lost shim is neither success nor the rank's exit");
	proc_sweep_env("HEARTH_TOKEN_LAUNCH", x.l.token, SIGKILL, 10, &e);
	lab_end(&x);
}

int main(void)
{
	test_mirrors();
	test_environment();
	test_torchrun();
	test_stdin();
	test_signals();
	test_killed();
	test_killed_once();
	test_failures();
	test_parked();
	test_shim_lost();
	free(launch_dir);
	return tap_done();
}
