/*
 * bench_fence: how fast one real agent fences launches of many processes.
 *
 *   bench_fence [LAUNCHES [PROCESSES [CROWD]]]
 *
 * Two agents of HEARTH_TOP_BUILDDIR share a controller. One gets LAUNCHES (64) launches with PROCESSES (5000)
 * processes in all (CROWD is tests/programs/crowd), then the controller refuses it. The other agent still
 * hears the controller, so the first one fences its launches at the end of its lease. Prints the time from
 * that verdict to the death of the last process, and the agent's turns of more than 20 ms until 2 s later, by
 * its own log. It logs six of them a minute: the program waits for a minute before the cut.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/bench/lib.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/crowd.h"

#define LONG_MS    120000
#define LEASE_MS   10000
#define QUIET_US   61000000u
#define AFTER_MS   2000 /* of the log, after the last death */
#define LOG_MAX    (64u * 1024 * 1024)
#define SLOW_EVENT "event=slow_turn took_us="

static char *agent_log(const struct ctl_agent *a, size_t *n)
{
	cleanup_free char *path = xasprintf("%s.log", a->dir);
	char *text = NULL;

	if (fs_read_file(path, LOG_MAX, &text, n, NULL) < 0)
		bench_die("%s cannot be read", path);
	return text;
}

static uint64_t longest_turn(const char *from, unsigned *turns)
{
	uint64_t longest = 0, took;

	*turns = 0;
	for (const char *at = from; (at = strstr(at, SLOW_EVENT)); at++) {
		took = strtoull(at + strlen(SLOW_EVENT), NULL, 10);
		longest = took > longest ? took : longest;
		++*turns;
	}
	return longest;
}

/* Time of day of a log line that contains the text, in us; 0 none. *line: the line. */
static uint64_t logged_at(const char *log, const char *text, const char **line)
{
	const char *at = log, *next = log;
	unsigned h, m;
	double sec;

	while (next && !(next = memmem(at, strcspn(at, "\n"), text, strlen(text))) && *(at += strcspn(at, "\n")))
		next = ++at;
	*line = at;
	if (!next || sscanf(at, "%*4u-%*2u-%*2uT%2u:%2u:%lfZ", &h, &m, &sec) != 3)
		return 0;
	return (h * 3600ull + m * 60) * 1000000 + (uint64_t)(sec * 1e6);
}

static void run_loop(struct ctl *c, uint64_t us)
{
	uint64_t end = bench_now_us() + us;

	while (bench_now_us() < end)
		loop_run_once(c->loop, 20);
}

/* Starts both agents. */
static void start_agents(struct ctl *c, struct crowd *w, const char *memory)
{
	cleanup_free char *run = xasprintf("%s/run", memory), *other = xasprintf("%s/other", memory);
	const char *const first[] = {"--run", run, NULL}, *const second[] = {"--run", other, NULL};

	w->a = ctl_agent_start(c, 0, "n1", first);
	ctl_agent_start(c, 1, "n2", second);
	if (!ctl_wait_synced(&c->agents[0], 1, LONG_MS) || !ctl_wait_synced(&c->agents[1], 1, LONG_MS))
		bench_die("the agents do not come up");
}

/* Waits for the last death; returns its time of day. */
static uint64_t wait_deaths(const struct crowd *w)
{
	if (!crowd_wait_gone(w, LONG_MS))
		bench_die("processes are left after %u s", LONG_MS / 1000);
	return clock_real_us(clock_real()) % 86400000000u;
}

int main(int argc, char **argv)
{
	const char *top = getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : "..", *line;
	cleanup_free char *program = xasprintf("%s/tests/programs/crowd", top);
	char memory[] = "/dev/shm/hearth-fence-XXXXXX"; /* RUN is in memory */
	unsigned launches = argc > 1 ? (unsigned)atoi(argv[1]) : 64,
	         all = argc > 2 ? (unsigned)atoi(argv[2]) : 5000;
	struct crowd w = {.program = argc > 3 ? argv[3] : program, .first_job = 1, .launches = launches};
	unsigned turns;
	struct ctl *c;
	uint64_t verdict, death, longest;
	char *log;
	size_t n;

	if (launches < 1 || launches >= CTL_JOBS || all < launches || access(w.program, X_OK) < 0)
		bench_die("usage: bench_fence [LAUNCHES [PROCESSES [CROWD]]]; %s must be there", w.program);
	w.processes = all / launches;
	chmod(tap_tmpdir(), 0711);
	if (!mkdtemp(memory) || chmod(memory, 0711) < 0)
		bench_die("%s cannot be made", memory);
	signal(SIGPIPE, SIG_IGN);
	c = ctl_start(tap_tmpdir());
	c->lease_ms = LEASE_MS;
	c->prepare_timeout_ms = LONG_MS;
	start_agents(c, &w, memory);
	if (crowd_start(&w, LONG_MS) < 0)
		bench_die("the launches do not run");
	run_loop(c, QUIET_US);
	ctl_refuse(c, w.a);
	death = wait_deaths(&w);
	run_loop(c, AFTER_MS * 1000);
	log = agent_log(w.a, &n);
	verdict = logged_at(log, "final=1", &line);
	if (!verdict)
		bench_die("the agent's log has no verdict");
	longest = longest_turn(line, &turns);
	printf("{\"bench\": \"fence\", \"launches\": %u, \"processes\": %u, \"last_death_ms\": %llu, "
	       "\"turns_over_20_ms\": %u, \"longest_turn_ms\": %llu}\n",
	       launches, launches * w.processes, (unsigned long long)(death - verdict) / 1000, turns,
	       (unsigned long long)(longest / 1000));
	free(log);
	if (!crowd_end_agent(&w, LONG_MS))
		fprintf(stderr, "bench_fence: launches are left in %s\n", memory);
	ctl_stop(c);
	crowd_fini(&w);
	fs_rm_rf(memory, NULL);
	return 0;
}
