/*
 * Real hearth-agent processes against a controller made for the test: launches from prepare to cleaned,
 * launchers, kill, adoption, lease.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_ctl.h"

#define LONG 20000 /* ms; a deadline, not a time that is waited */

static struct ctl *c;
static struct ctl_agent *a, *b;

static const char *const run_a[] = {"--slots", "8", NULL};

/* JSON of a job: launcher, instances, ranks, command for /bin/sh -c. */
static char *spec(const char *launcher, unsigned instances, unsigned ranks, const char *shell)
{
	return xasprintf("{\"name\":\"t\",\"command\":[\"/bin/sh\",\"-c\",\"%s\"],\"launcher\":\"%s\","
	                 "\"resources\":{\"instances\":%u,\"ranks_per_instance\":%u},"
	                 "\"hyperparameters\":{\"hf_token\":\"hunter2\"},"
	                 "\"environment\":{\"DB_PASS\":\"hunter2\",\"DATABASE_URL\":\"postgres://u:hunter2@h\"}}",
	                 shell, launcher, instances, ranks);
}

static char *token_of(uint64_t job, uint32_t attempt, uint32_t node)
{
	return xasprintf("token-%d-%llu-%u-%u", (int)getpid(), (unsigned long long)job, attempt, node);
}

static int left_over(uint64_t job, uint32_t node)
{
	cleanup_free char *token = token_of(job, 1, node);

	return proc_count_env("HEARTH_TOKEN_LAUNCH", token, NULL);
}

static int exists(const struct ctl_agent *g, const char *below)
{
	cleanup_free char *path = xasprintf("%s/%s", g->dir, below);
	struct stat st;

	return stat(path, &st) == 0;
}

static int ready_or_failed(struct ctl *x, void *arg)
{
	(void)x;
	(void)arg;
	return a->launch && (a->launch->state == LAUNCH_READY || a->launch->state == LAUNCH_FAILED);
}

static int prepare_one(uint64_t job, const char *launcher, unsigned ranks, const char *shell)
{
	struct ctl_agent *const nodes[] = {a, NULL};
	cleanup_free char *text = spec(launcher, 1, ranks, shell);
	const uint32_t n[] = {ranks};

	ctl_forget_reports(c);
	ctl_prepare(c, text, job, 1, 1, nodes, n);
	ctl_wait(c, LONG, ready_or_failed, NULL);
	return a->launch && a->launch->state == LAUNCH_READY;
}

static void clean(uint64_t job)
{
	char path[64];

	ctl_collect(a, job, 1, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "job %d is cleaned", (int)job);
	snprintf(path, sizeof(path), "event=forgotten job=%d attempt=1", (int)job);
	ok(ctl_wait_log(a, path, LONG), "and forgotten");
	snprintf(path, sizeof(path), "jobs/%d.1", (int)job);
	ok(!exists(a, path), "its folder is gone");
}

/* ---- cases ----------------------------------------------------------------------------------------------
 */

static void test_direct(void)
{
	ok(prepare_one(11, "direct", 2,
	               "[ $DB_PASS$SM_HP_HF_TOKEN = hunter2hunter2 ] && echo hello $RANK of $WORLD_SIZE; exit "
	               "$LOCAL_RANK"),
	   "direct: ready");
	is_int(ctl_proc(a, PROC_RANK, 1)->state, PS_WAITING, "ranks wait");
	ctl_go(a, 11, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ends by itself");
	is_int(ctl_proc(a, PROC_RANK, 0)->exit_code, 0, "rank 0 exited with 0");
	is_int(ctl_proc(a, PROC_RANK, 1)->exit_code, 1, "rank 1 exited with 1, exactly");
	is_int(ctl_proc(a, PROC_RANK, 1)->state, PS_EXITED, "exited");
	ok(a->seen & (1u << LAUNCH_RUNNING), "it was running in between");
	ok(a->launch->phases.n >= 3, "phases are listed");
	clean(11);
	is_str(a->launch->phase, LAUNCH_PHASE_SAVED, "and said that its output is saved");
	is_str(ctl_stream(c, "11 rank-1"), "hello 1 of 2\n", "the log arrived");
	like(ctl_stream(c, "11 system-algo-1"), "rank 1 exited with 1", "the node's log tells");
	like(ctl_stream(c, "11 system-algo-1"), "HEARTH_TOKEN=***", "environment with secrets masked");
	like(ctl_stream(c, "11 system-algo-1"), "SM_HPS={\"hf_token\":\"***\"}", "inside JSON too");
	ok(!strstr(ctl_stream(c, "11 system-algo-1"), "hunter2"), "and nowhere in clear");
}

/* The end of a rank is reported while something of it still holds its pipes; what that writes is kept. */
static void test_end_told_first(void)
{
	const struct wm_proc_report *p;
	uint64_t late_us;

	ok(prepare_one(93, "direct", 1, "(sleep 0.4; echo late) & echo last words; exit 3"), "an end: ready");
	ctl_go(a, 93, 1, 1);
	ok(ctl_wait_proc(a, PROC_RANK, 0, PS_EXITED, LONG), "the rank has exited");
	p = ctl_proc(a, PROC_RANK, 0);
	late_us = clock_real_us(clock_real()) - p->ended_us;
	tap_diag("told after %" PRIu64 " us", late_us);
	ok(late_us < 300000, "reported before its pipes are closed");
	is_int(p->exit_code, 3, "with its exit code");
	ok(p->last_lines.n == 11 && memcmp(p->last_lines.data, "last words\n", 11) == 0, "and its last line");
	ok(!(a->seen & (1u << LAUNCH_ENDED)), "the launch has not ended");
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "it ends when all is read");
	clean(93);
	is_str(ctl_stream(c, "93 rank-0"), "last words\nlate\n", "the late line is in the log");
}

/* What the job's account puts at output/failure is read by an agent that may be root, on its loop. */
static void test_failure_is_hostile(void)
{
	cleanup_free char *secret = xasprintf("%s/secret", tap_tmpdir()), *link = NULL;
	struct err e;

	if (fs_replace(secret, "the token\n", 10, 0600, &e) < 0)
		tap_bail("%s", e.text);
	link = xasprintf("ln -s %s ../output/failure; exit 1", secret);
	ok(prepare_one(91, "direct", 1, link), "failure is a link: ready");
	ctl_go(a, 91, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ended");
	is_str(a->failure, NULL, "the file behind the link is not shown");
	clean(91);
	ok(prepare_one(92, "direct", 1, "mkfifo ../output/failure; exit 1"), "a FIFO: ready");
	ctl_go(a, 92, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "the agent does not hang in it");
	is_str(a->failure, NULL, "and has no text");
	clean(92);
	ok(prepare_one(93, "direct", 1, "echo x > failure; rm -r ../output; ln -s code ../output; exit 1"),
	   "its folder is a link: ready");
	ctl_go(a, 93, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ended");
	is_str(a->failure, NULL, "nothing by way of it");
	clean(93);
	ok(prepare_one(94, "direct", 1, "(printf %01023d 0; echo äb) > ../output/failure; exit 1"),
	   "a long one: ready");
	ctl_go(a, 94, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ended");
	is_int(a->failure ? (int)strlen(a->failure) : -1, 1023,
	       "at most 1 KiB, cut before a character that does not fit");
	clean(94);
}

static void test_not_found(void)
{
	struct ctl_agent *const nodes[] = {a, NULL};
	const uint32_t one[] = {1};

	ctl_forget_reports(c);
	ctl_prepare(c, "{\"name\":\"t\",\"command\":[\"/no/such/program\"],\"launcher\":\"direct\"}", 12, 1, 1,
	            nodes, one);
	ok(ctl_wait_state(a, LAUNCH_READY, LONG), "not found: ready");
	ctl_go(a, 12, 1, 1);
	ok(ctl_wait_proc(a, PROC_RANK, 0, PS_FAILED, LONG), "the rank was not started");
	like(ctl_proc(a, PROC_RANK, 0)->text, "/no/such/program", "and the text says what was not found");
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ended");
	clean(12);
}

static int second_told(struct ctl *of, void *arg)
{
	return of && !arg && a->launch && a->launch->attempt == 2;
}

static void test_kill(void)
{
	/* The first child dies of TERM, the second ignores it, the third hides in a session of its own. */
	ok(prepare_one(13, "direct", 1, "(trap '' TERM; exec sleep 1000) & setsid sleep 1000 & sleep 1000"),
	   "kill: ready");
	ctl_go(a, 13, 1, 1);
	ok(ctl_wait_proc(a, PROC_RANK, 0, PS_RUNNING, LONG), "runs");
	ctl_kill(a, 13, 1, 0, 0);
	ok(ctl_wait_log(a, "event=old_order", LONG), "an order of an older epoch is not obeyed");
	ctl_kill(a, 13, 1, 1, 500);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ended");
	is_int(ctl_proc(a, PROC_RANK, 0)->signal, SIGTERM, "the signal is exact");
	is_int(left_over(13, 0), 0, "nothing is left");
	ctl_kill(a, 13, 2, 0, 500);
	ok(ctl_wait(c, LONG, second_told, NULL), "what is not here is told, however old the order");
	ctl_kill(a, 13, 1, 1, 500);
	clean(13);
}

static void test_kill_while_ready(void)
{
	ok(prepare_one(14, "mpirun", 2, "true"), "kill before go: ready");
	ctl_kill(a, 14, 1, 1, 1000);
	ok(ctl_wait_state(a, LAUNCH_FAILED, LONG) || ctl_wait_state(a, LAUNCH_ENDED, 1), "over");
	is_int(ctl_proc(a, PROC_RANK, 0)->state, PS_WAITING,
	       "a rank that never began is not reported as a failure");
	clean(14);
}

static void test_mpirun(void)
{
	ok(prepare_one(
	       15, "mpirun", 2,
	       "echo mpi $OMPI_COMM_WORLD_RANK $RANK; [ $RANK = 1 ] && echo tired > $SM_OUTPUT_FAILURE; exit 0"),
	   "mpirun on one node: ready");
	ctl_go(a, 15, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ends");
	is_int(ctl_proc(a, PROC_MPIRUN, 0xffffffff)->exit_code, 0, "mpirun exited with 0");
	is_int(ctl_proc(a, PROC_RANK, 1)->exit_code, 0, "so did rank 1");
	is_str(a->failure, "tired\n", "output/failure came before the end");
	like(a->mpirun_line, "--host localhost:2 -np 2", "the mpirun line is told");
	clean(15);
	is_str(ctl_stream(c, "15 rank-0"), "mpi 0 0\n", "Open MPI's rank is Hearth's");
}

static void test_mpirun_failure(void)
{
	ok(prepare_one(16, "mpirun", 2,
	               "if [ $RANK = 1 ]; then while [ ! -e ../output/ready ]; do sleep 0.02; done; exit 3; fi; "
	               "trap 'exit 7' TERM; : > ../output/ready; while :; do sleep 0.02; done"),
	   "a rank fails: ready");
	ctl_go(a, 16, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "mpirun aborts, all end");
	is_int(ctl_proc(a, PROC_RANK, 1)->exit_code, 3, "the one that failed");
	is_int(ctl_proc(a, PROC_RANK, 0)->exit_code, 7, "the other one got its grace time");
	clean(16);
}

static void test_adoption(void)
{
	ok(prepare_one(17, "direct", 1, "echo one; read x < fifo; echo two; exit 5"), "adoption: ready");
	{
		cleanup_free char *fifo = xasprintf("%s/jobs/17.1/ml/code/fifo", a->dir);

		mkfifo(fifo, 0666);
		chmod(fifo, 0666);
		ctl_go(a, 17, 1, 1);
		ok(ctl_wait_proc(a, PROC_RANK, 0, PS_RUNNING, LONG), "runs");
		ctl_agent_kill(a, SIGKILL);
		a->control = NULL;
		ctl_agent_start(c, 0, "n1", run_a);
		ok(ctl_wait_synced(a, a->connections + 1, LONG), "the next agent reports");
		is_int(a->launch->state, LAUNCH_RUNNING, "the launch runs on");
		is_int(ctl_proc(a, PROC_RANK, 0)->state, PS_RUNNING, "so does its rank");
		{
			FILE *f = fopen(fifo, "w");

			fputs("go\n", f);
			fclose(f);
		}
	}
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ends");
	is_int(ctl_proc(a, PROC_RANK, 0)->exit_code, 5, "the exit status is exact");
	clean(17);
	is_str(ctl_stream(c, "17 rank-0"), "one\ntwo\n", "the log has no gap");
}

static void test_reports_kept(void)
{
	ok(prepare_one(18, "direct", 1, "exit 4"), "no controller: ready");
	c->no_acks = 1;
	ctl_go(a, 18, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ended, but nobody acknowledges");
	ctl_forget_reports(c);
	ctl_drop(c);
	c->no_acks = 0;
	ctl_heal(c);
	ok(ctl_wait_synced(a, a->connections + 1, LONG), "a new connection");
	is_int(ctl_proc(a, PROC_RANK, 0)->exit_code, 4, "everything is told again");
	clean(18);
}

static void test_torchrun(void)
{
	if (access("/usr/lib/python3/dist-packages/torch", R_OK) < 0) {
		tap_skip("no torch");
		return;
	}
	ok(prepare_one(19, "torchrun", 2,
	               "echo $RANK $LOCAL_RANK $WORLD_SIZE ${TORCHELASTIC_RUN_ID:+elastic}; exit 0"),
	   "torchrun: ready");
	ctl_go(a, 19, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ended");
	is_int(ctl_proc(a, PROC_TORCHRUN, 0xffffffff)->exit_code, 0, "torchrun exited with 0");
	is_int(ctl_proc(a, PROC_RANK, 1)->exit_code, 0, "so did rank 1");
	clean(19);
	is_str(ctl_stream(c, "19 rank-1"), "1 1 2 elastic\n", "each rank has its stream");

	ok(prepare_one(20, "torchrun", 2, "[ $RANK = 1 ] && exit 9; sleep 1000"),
	   "torchrun, a rank fails: ready");
	ctl_go(a, 20, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ended");
	is_int(ctl_proc(a, PROC_RANK, 1)->exit_code, 9, "the exit status of the rank is exact");
	is_int(ctl_proc(a, PROC_TORCHRUN, 0xffffffff)->exit_code, 1, "torchrun failed");
	clean(20);
}

/* ---- two nodes -------------------------------------------------------------------------------------- */

static void prepare_two(uint64_t job, const char *shell)
{
	struct ctl_agent *const nodes[] = {a, b, NULL};
	cleanup_free char *text = xasprintf(
	    "{\"name\":\"t\",\"command\":[\"/bin/sh\",\"-c\",\"%s\"],\"launcher\":\"mpirun\",\"groups\":["
	    "{\"name\":\"x\",\"instances\":1,\"ranks_per_instance\":1},"
	    "{\"name\":\"y\",\"instances\":1,\"ranks_per_instance\":2}]}",
	    shell);
	const uint32_t n[] = {1, 2};

	ctl_forget_reports(c);
	ctl_prepare(c, text, job, 1, 1, nodes, n);
	ok(ctl_wait_state(a, LAUNCH_READY, LONG) && ctl_wait_state(b, LAUNCH_READY, LONG),
	   "job %d: both are ready", (int)job);
	ctl_go(b, job, 1, 1);
	ctl_go(a, job, 1, 1);
}

static void collect_two(uint64_t job)
{
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG) && ctl_wait_state(b, LAUNCH_ENDED, LONG), "job %d: both ended",
	   (int)job);
	is_int(left_over(job, 0) + left_over(job, 1), 0, "nothing is left");
	ctl_collect(a, job, 1, 1, 1);
	ctl_collect(b, job, 1, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG) && ctl_wait_state(b, LAUNCH_CLEANED, LONG),
	   "job %d: both are clean", (int)job);
}

static void test_two_nodes(void)
{
	prepare_two(21, "echo rank $OMPI_COMM_WORLD_RANK on $SM_CURRENT_HOST");
	collect_two(21);
	is_int(ctl_proc(b, PROC_ORTED, 0xffffffff)->exit_code, 0, "orted ended well");
	is_str(ctl_stream(c, "21 rank-0"), "rank 0 on algo-1\n", "rank 0");
	is_str(ctl_stream(c, "21 rank-1"), "rank 1 on algo-2\n", "rank 1");
	is_str(ctl_stream(c, "21 rank-2"), "rank 2 on algo-2\n", "rank 2");
}

static void test_two_nodes_adopt(void)
{
	int na, nb;

	prepare_two(22, "while [ ! -e ../output/stop ]; do sleep 0.05; done; exit 0");
	ok(ctl_wait_proc(b, PROC_RANK, 2, PS_RUNNING, LONG), "rank 2 runs");
	na = a->connections;
	nb = b->connections;
	ctl_agent_kill(b, SIGKILL);
	ctl_agent_kill(a, SIGKILL);
	a->control = b->control = NULL;
	ctl_agent_start(c, 0, "n1", run_a);
	ctl_agent_start(c, 1, "n2", run_a);
	ok(ctl_wait_synced(a, na + 1, LONG) && ctl_wait_synced(b, nb + 1, LONG), "both agents are new");
	is_int(ctl_proc(b, PROC_RANK, 2)->state, PS_RUNNING, "rank 2 runs on");
	for (int i = 0; i < 2; i++) {
		cleanup_free char *stop = xasprintf("%s/jobs/22.1/ml/output/stop", i ? b->dir : a->dir);

		fclose(fopen(stop, "w"));
	}
	collect_two(22);
	is_int(ctl_proc(a, PROC_MPIRUN, 0xffffffff)->exit_code, 0, "mpirun did not notice");
	is_int(ctl_proc(b, PROC_RANK, 1)->exit_code, 0, "all ended well");
}

static void test_two_nodes_kill(void)
{
	prepare_two(23, "sleep 1000");
	ok(ctl_wait_proc(b, PROC_RANK, 2, PS_RUNNING, LONG) && ctl_wait_proc(a, PROC_RANK, 0, PS_RUNNING, LONG),
	   "all run");
	ctl_kill(a, 23, 1, 1, 1000);
	ctl_kill(b, 23, 1, 1, 1000);
	collect_two(23);
	is_int(ctl_proc(b, PROC_RANK, 2)->signal, SIGTERM, "rank 2 was ended by TERM");
}

/* ---- doors ----------------------------------------------------------------------------------------------
 */

static int beats_go_on(struct ctl *x, void *arg)
{
	(void)arg;
	return a->beats >= x->want_beats;
}

static int dial_unix(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval tv = {10, 0};

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%.100s", path);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	return connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 ? fd : -1;
}

static int dial_tcp(uint32_t port)
{
	struct sockaddr_in sa = {
	    .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval tv = {10, 0};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	return connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 ? fd : -1;
}

/* What the agent says to such a request of hearth-rsh; its state, 255 when it just closes. */
static uint8_t ask_rsh(const char *path, const char *token, const char *host)
{
	char id[] = "0123456789abcdef", word[] = "orted", *argv[] = {word};
	struct wm_local_rsh m = {.token = (char *)(uintptr_t)token,
	                         .rsh_id = id,
	                         .host = (char *)(uintptr_t)host,
	                         .argv = {.v = argv, .n = 1}};
	int fd = dial_unix(path);
	struct wire_frame f;
	uint8_t state = 255;
	struct buf frame;
	void *msg;
	char space[4096];
	ssize_t n;

	buf_init(&frame, 65536);
	wire_encode(WM_LOCAL_RSH, &m, 1, &frame, NULL);
	if (write(fd, buf_head(&frame), buf_left(&frame)) < 0)
		tap_diag("write");
	buf_fini(&frame);
	n = read(fd, space, sizeof(space));
	buf_view(&frame, space, n > 0 ? (size_t)n : 0);
	if (n > 0 && wire_next(&frame, &f, NULL) == 1 && wire_decode(f.type, f.body, f.n, &msg, NULL) == 0) {
		state = ((struct wm_local_rsh_state *)msg)->state;
		wire_free(f.type, msg);
	}
	close(fd);
	return state;
}

static void test_doors(void)
{
	cleanup_free char *token = token_of(51, 1, 0);
	char path[256], byte;
	unsigned before;
	uint32_t seed = 7; /* of the junk: the same in every run */
	int closed = 0;

	ctl_sock_path(a, path, sizeof(path));
	ok(prepare_one(51, "direct", 1, "sleep 1000"), "doors: ready");
	is_int(ask_rsh(path, "wrong", "algo-1"), PS_FAILED, "a wrong token is refused");
	is_int(ask_rsh(path, token, "algo-7"), PS_FAILED, "so is a node that is not in the launch");
	for (int i = 0; i < 60; i++) {
		unsigned char junk[300];
		int fd = i % 2 ? dial_unix(path) : dial_tcp(a->inv->peer_port);

		for (size_t k = 0; k < sizeof(junk); k++) {
			seed = seed * 1664525u + 1013904223u;
			junk[k] = (unsigned char)(seed >> 24);
		}
		if (i % 3 == 0) /* a header that promises little, so that the body is looked at */
			memcpy(junk, "\0\0\0\x40\0\x78\0\0", 8);
		if (write(fd, junk, sizeof(junk)) < 0)
			tap_diag("write");
		shutdown(fd, SHUT_WR);
		while (read(fd, &byte, 1) > 0)
			;
		closed += 1;
		close(fd);
	}
	is_int(closed, 60, "junk is answered by closing");
	before = a->beats;
	c->want_beats = before + 3;
	ok(ctl_wait(c, LONG, beats_go_on, NULL), "and the agent is well");
	ctl_kill(a, 51, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_FAILED, LONG), "over");
	clean(51);
}

static void test_other_account(void)
{
	cleanup_free char *program = xasprintf(
	    "%s/agent/hearth-rank", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : "..");

	if (geteuid() != 0 || !ctl_reachable(program)) {
		tap_skip("needs root, and programs that other accounts can reach");
		return;
	}
	c->owner = "no-such-account";
	ok(!prepare_one(41, "direct", 1, "true") && a->launch && a->launch->state == LAUNCH_FAILED,
	   "an owner without account is refused");
	like(a->launch ? a->launch->text : "", "useradd", "and the text says what to do");
	clean(41);
	c->owner = "nobody";
	prepare_two(42,
	            "echo $(id -un) $(touch ../model/m && ls -l ../model | tail -1 | cut -d' ' -f3) $USER $PWD");
	collect_two(42);
	is_int(ctl_proc(a, PROC_RANK, 0)->exit_code, 0, "as nobody: rank 0 ended well");
	is_str(ctl_stream(c, "42 rank-2"), "nobody nobody nobody /opt/ml/code\n",
	       "rank 2 ran as nobody in the container");
	c->owner = NULL;
}

/* ---- lease ----------------------------------------------------------------------------------------------
 */

static void start_forever(uint64_t job)
{
	ok(prepare_one(job, "direct", 1, "sleep 1000"), "lease: ready");
	ctl_go(a, job, 1, 1);
	ok(ctl_wait_proc(a, PROC_RANK, 0, PS_RUNNING, LONG), "runs");
}

static void test_controller_down(void)
{
	int before = a->connections;

	start_forever(31);
	ctl_drop(c);
	ok(ctl_wait_log(a, "final=1 verdict=\"no agent that can be reached hears", LONG),
	   "both ask, nobody hears the controller");
	ctl_heal(c);
	ok(ctl_wait_synced(a, before + 1, LONG), "it is back");
	is_int(ctl_proc(a, PROC_RANK, 0)->state, PS_RUNNING, "the rank runs on");
	ctl_kill(a, 31, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ended");
	clean(31);
}

/* Files of the agent that a question to a neighbour must not need. */
static void hide(const char *name, int back)
{
	cleanup_free char *shown = xasprintf("%s/%s", a->dir, name), *away = xasprintf("%s.away", shown);

	ok(rename(back ? away : shown, back ? shown : away) == 0, "%s: %s", name, back ? "back" : "away");
}

static void test_cut(void)
{
	pid_t shim;

	start_forever(32);
	shim = ctl_parent(ctl_proc(a, PROC_RANK, 0)->pid);
	ok(shim > 1 && kill(shim, SIGSTOP) == 0, "its shim hears nobody any more");
	ctl_refuse(c, a);
	hide("agent.key", 0);
	ok(ctl_wait_log(a, "final=1 verdict=\"another agent still hears", LONG),
	   "the neighbour hears it: this one is cut off, and asks without its disk");
	hide("agent.key", 1);
	ok(ctl_wait_log(a, "event=fenced job=32 attempt=1", LONG), "what it runs is killed");
	ok(!ctl_wait_log(a, "job=32 attempt=1 state=ended", 0), "in the same turn, before the ladder has begun");
	ok(ctl_is_zombie(ctl_proc(a, PROC_RANK, 0)->pid), "the rank is dead although its shim could not kill it");
	kill(shim, SIGCONT);
	ok(ctl_wait_log(a, "job=32 attempt=1 state=ended", LONG), "and ends its launch by itself");
	is_int(left_over(32, 0), 0, "nothing is left");
	ctl_refuse(c, NULL);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "told when the connection is back");
	is_int(a->launch->cls, RC_NODE_LOST, "with its class");
	clean(32);
}

/* The agent dies after the first kill of a fence and before it has said so of each launch. */
static void test_cut_dies(void)
{
#ifdef HEARTH_FAULTS
	pid_t shim;

	ctl_agent_kill(a, SIGKILL);
	a->control = NULL;
	setenv("HEARTH_FAULTS", "agent.fence=1x1000", 1);
	ctl_agent_start(c, 0, "n1", run_a);
	unsetenv("HEARTH_FAULTS");
	ok(ctl_wait_synced(a, a->connections + 1, LONG), "an agent that will not end its fence");
	start_forever(35);
	shim = ctl_parent(ctl_proc(a, PROC_RANK, 0)->pid);
	ok(shim > 1 && kill(shim, SIGSTOP) == 0, "its shim tells the end late");
	ctl_refuse(c, a);
	ok(ctl_wait_log(a, "event=fence job=35 attempt=1", LONG), "it is cut off");
	ctl_agent_kill(a, SIGKILL);
	a->control = NULL;
	ctl_refuse(c, NULL);
	ctl_agent_start(c, 0, "n1", run_a);
	ok(ctl_wait_log(a, "event=fenced job=35 attempt=1", LONG), "the next agent fences what it adopts");
	kill(shim, SIGCONT);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ended");
	is_int(a->launch->cls, RC_NODE_LOST, "the kill is not taken for an end of the program");
	is_int(left_over(35, 0), 0, "nothing is left");
	clean(35);
	start_forever(36);
	ctl_agent_kill(a, SIGKILL);
	a->control = NULL;
	ctl_agent_start(c, 0, "n1", run_a);
	ok(ctl_wait_synced(a, a->connections + 1, LONG), "another agent");
	is_int(a->launch->state, LAUNCH_RUNNING, "a later launch is not fenced");
	ctl_kill(a, 36, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ended");
	clean(36);
#else
	tap_skip("built without failpoints");
#endif
}

/* What it has to give away is not given while it is cut off, and after that only when it is still wanted. */
static void test_cut_upload(void)
{
	ok(prepare_one(34, "direct", 1, "echo w > $SM_MODEL_DIR/w"), "upload: ready");
	ctl_go(a, 34, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ended");
	c->no_blobs = 1;
	ctl_collect(a, 34, 1, 1, 1);
	ok(ctl_wait_phase(a, "uploading", LONG), "is uploading");
	ctl_refuse(c, a);
	ok(ctl_wait_log(a, "event=upload_fenced job=34 attempt=1", LONG), "the fence ends that");
	c->no_blobs = 0;
	ctl_refuse(c, NULL);
	ok(ctl_wait_synced(a, a->connections + 1, LONG), "it is back");
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "and waits to be told again");
	ctl_collect(a, 34, 1, 2, 0);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "given up: cleaned");
	is_str(a->artifacts ? a->artifacts : "", "", "and nothing of it is registered");
	ok(ctl_wait_log(a, "event=forgotten job=34 attempt=1", LONG), "forgotten");
}

static void test_minority(void)
{
	start_forever(33);
	ctl_agent_kill(b, SIGKILL);
	ctl_drop(c);
	ok(ctl_wait_log(a, "final=1 verdict=\"neither the controller nor a majority", LONG),
	   "nobody can be reached");
	ok(ctl_wait_log(a, "job=33 attempt=1 state=ended", LONG), "it ends its launch");
	ctl_heal(c);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "told when the connection is back");
	clean(33);
}

/* A job that takes more than it asked for ends, and is told which limit it passed. */
static void test_limits(void)
{
	const struct wm_proc_report *p;

	c->disk_bytes = 8 << 20;
	ok(prepare_one(71, "direct", 1, "head -c 40000000 /dev/zero > $SM_OUTPUT_DATA_DIR/big; sleep 600"),
	   "disk limit: ready");
	c->disk_bytes = 0;
	ctl_go(a, 71, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "writing more than the disk limit ends it");
	is_int(a->launch->cls, RC_DISK, "for the disk");
	like(a->launch->text, "8.0MiB", "the limit is named");
	is_int(left_over(71, 0), 0, "nothing is left");
	clean(71);

	c->memory_bytes = 64 << 20;
	ok(prepare_one(72, "direct", 1,
	               "exec python3 -c 'import time; x = bytearray(400 << 20); time.sleep(600)'"),
	   "memory limit: ready");
	c->memory_bytes = 0;
	ctl_go(a, 72, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "taking more than the memory limit ends it");
	p = ctl_proc(a, PROC_RANK, 0);
	ok(p->signal == SIGKILL && p->oom, "by the kernel or the watch, as out of memory (signal %u, oom %u)",
	   p->signal, p->oom);
	clean(72);
}

/* The first try to start shims fails, some sends fail, nothing of `life` can be written. */
static void test_faults(void)
{
#ifdef HEARTH_FAULTS
	struct ctl_agent *keep = a;
	uint64_t before;
	char path[200];

	setenv("HEARTH_FAULTS", "agent.launch=1,agent.send=2x3,agent.namespaces=1x9,agent.rsh_accept=1x4", 1);
	a = ctl_agent_start(c, 3, "n4", NULL);
	unsetenv("HEARTH_FAULTS");
	ok(ctl_wait_synced(a, 1, LONG), "faults: a report that could not be sent is sent again");
	ok(!prepare_one(61, "direct", 2, "true"), "the launch fails");
	is_int(a->launch->cls, RC_AGENT, "as the node's fault");
	is_int(left_over(61, 0), 0, "nothing is left");
	clean(61);
	ok(prepare_one(62, "direct", 2, "exit 3"), "the next one is ready");
	ctl_go(a, 62, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "and runs");
	is_int(ctl_proc(a, PROC_RANK, 1)->exit_code, 3, "exactly");
	clean(62);
	like(ctl_stream(c, "62 system-algo-1"), "note: no private /tmp, /dev/shm and /opt/ml: injected",
	     "what the job could not have stands in the node's log");
	ctl_sock_path(a, path, sizeof(path));
	before = clock_boot_us(clock_real());
	is_int(ask_rsh(path, "nobody's", "algo-1"), PS_FAILED,
	       "no descriptor is left four times, then it answers");
	ok(clock_boot_us(clock_real()) - before > 300000, "and it waited in between, instead of asking at once");
	ctl_agent_kill(a, SIGTERM);
	a = keep;
#else
	tap_skip("built without failpoints");
#endif
}

int main(void)
{
	cleanup_free char *program = xasprintf(
	    "%s/agent/hearth-agent", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : "..");

	if (access(program, X_OK) < 0)
		tap_skip_all("hearth-agent is not built");
	chmod(tap_tmpdir(), 0711);
	signal(SIGPIPE, SIG_IGN); /* agents are killed while they are spoken to */
	c = ctl_start(tap_tmpdir());
	a = ctl_agent_start(c, 0, "n1", run_a);
	ok(ctl_wait_synced(a, 1, LONG), "joined, connected, reported");
	ok(a->inv && a->inv->peer_port > 0 && a->inv->gpus.n == 2, "inventory");
	test_direct();
	test_end_told_first();
	test_failure_is_hostile();
	test_not_found();
	test_kill();
	test_adoption();
	test_reports_kept();
	test_doors();
	test_torchrun();
	test_limits();
	test_faults();
	if (access("/usr/bin/mpirun", X_OK) == 0) {
		test_kill_while_ready();
		test_mpirun();
		test_mpirun_failure();
	} else {
		tap_skip("no mpirun");
	}
	c->lease_ms = 1500;
	b = ctl_agent_start(c, 1, "n2", run_a);
	ok(ctl_wait_synced(b, 1, LONG), "second agent");
	if (access("/usr/bin/mpirun", X_OK) == 0) {
		test_two_nodes();
		test_two_nodes_adopt();
		test_two_nodes_kill();
		test_other_account();
	}
	test_controller_down();
	test_cut();
	test_cut_dies();
	test_cut_upload();
	test_minority();
	ctl_agent_start(c, 1, "n2", run_a); /* so that it ends in order */
	ok(ctl_wait_synced(b, b->connections + 1, LONG), "second agent again");
	ctl_stop(c);
	return tap_done();
}
