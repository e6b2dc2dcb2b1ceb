/*
 * local_down: `jobctl local down`.
 *
 * Step 1: hearthd, if it answers, stops all jobs, and jobctl waits for their ends.
 *
 * Step 2: jobctl ends the agents; the processes of jobs would continue.
 *
 * Step 3: `hearth-agent --end-launches` reads the folder of each node, and ends the processes on record
 * there that still run. Usually no such process exists. This covers a dead hearthd, a dead agent, and a job
 * that did not end in time.
 *
 * Step 4: jobctl ends hearthd. The next `local up` reports to hearthd what ended without it (local_jobs).
 */
#include "jobctl/local/local_down.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"
#include "jobctl/client/ctx.h"
#include "jobctl/local/local_jobs.h"
#include "jobctl/local/local_proc.h"
#include "jobctl/local/local_settings.h"
#include "jobctl/show/print.h"

#define LOCKS_S 30 /* time for programs that hold the nodes' folders to end */
#define END_S   50 /* time after that; hearth-agent uses at most 45 */
#define OUT_MAX (1024 * 1024)

struct ender { /* --end-launches of one node */
	char name[32];
	int started;
	pid_t pid; /* 0: not started */
	int pidfd;
	FILE *out;
	int failed;
};

struct down {
	struct ctx *c;
	char *dir;
	int was_up, left; /* hearthd was up; jobs that it could not end, -1: unknown */
	int unsaid,
	    mark;        /* hearthd does not hear of these ends; the mark for later: 1: new, 0: old, -1: failed */
	unsigned agents; /* agents that were ended here */
	char *names;     /* their names */
	cJSON *ended;    /* launches that were ended without hearthd */
	struct ender nodes[LOCAL_NODES_MAX];
	unsigned n;
	int failed;
};

/* ---- the question to a person; scripts are not asked ---- */

static int agent_is_up(const char *dir)
{
	char name[32];
	int up = 0;
	for (unsigned i = 1; i <= LOCAL_NODES_MAX && !up; i++) {
		snprintf(name, sizeof(name), "node-%u", i);
		up = local_is_up(dir, name);
	}
	return up;
}

static int is_launch(const char *name, void *arg)
{
	uint64_t job;
	unsigned attempt;
	int end = 0;
	*(int *)arg |= sscanf(name, "%" SCNu64 ".%u%n", &job, &attempt, &end) == 2 && !name[end];
	return 0;
}

/* Returns whether the node's RUN folder has launches on record. They may have ended. */
static int has_launches(const char *dir, const char *name)
{
	char *path = xasprintf("%s/%s/run_dir", dir, name), *run = NULL;
	int has = 0;
	if (!fs_read_file(path, PATH_MAX, &run, NULL, NULL)) {
		run[strcspn(run, "\n")] = '\0';
		fs_each(run, is_launch, &has, NULL);
	}
	free(run);
	free(path);
	return has;
}

/* Returns "node-1, node-3". Malloc'ed. */
static char *nodes_with_launches(const char *dir)
{
	char *all = xstrdup(""), name[32];
	for (unsigned i = 1; i <= LOCAL_NODES_MAX; i++) {
		snprintf(name, sizeof(name), "node-%u", i);
		if (!has_launches(dir, name))
			continue;
		xappendf(&all, "%s%s", *all ? ", " : "", name);
	}
	return all;
}

static int ask_person(struct down *d)
{
	char answer[8] = "";
	struct client *cl = d->was_up ? local_client(d->dir, 1, NULL) : NULL;
	cJSON *jobs = local_active_jobs(cl);
	char *where = nodes_with_launches(d->dir), *what = NULL;
	if (cJSON_GetArraySize(jobs) > 0) {
		char *text = local_jobs_text(jobs);
		what = xasprintf("Stop %s", text);
		free(text);
	} else if (agent_is_up(d->dir) && !jobs) {
		what = xstrdup("End the agents and the processes of their jobs");
	} else if (*where) {
		what = xasprintf("End the remaining processes of jobs on %s", where);
	}
	if (what)
		fprintf(stderr, "%s%s? Their outputs are kept. [y/N] ",
		        jobs        ? ""
		        : d->was_up ? "hearthd does not answer. "
		                    : "hearthd does not run. ",
		        what);
	int no = what && (!fgets(answer, sizeof(answer), stdin) || (answer[0] != 'y' && answer[0] != 'Y'));
	cJSON_Delete(jobs);
	client_destroy(cl);
	free(where);
	free(what);
	return no ? ctx_fail(d->c, ERR_DENIED, "nothing was ended") : 0;
}

/* ---- agents and their launches ---- */

static void end_agent(struct down *d, const char *name)
{
	if (local_is_up(d->dir, name)) {
		xappendf(&d->names, "%s%s", d->agents++ ? ", " : "", name);
	}
	local_end(d->dir, name);
}

static void start_ender(struct down *d, const char *path, struct ender *n)
{
	extern char **environ;
	char *data = xasprintf("%s/%s", d->dir, n->name);
	cleanup_close int log = local_log(d->dir, n->name, NULL);
	int out = memfd_create("ended", MFD_CLOEXEC);
	struct strv args = {0};
	strv_add(&args, path);
	strv_add(&args, "--end-launches");
	strv_add(&args, "--data");
	strv_add(&args, data);
	n->started = 1;
	n->out = out < 0 ? NULL : fdopen(out, "r");
	if (!n->out && out >= 0)
		close(out);
	struct proc_spawn s = {.path = path,
	                       .argv = args.v,
	                       .envp = environ,
	                       .cwd = "/",
	                       .stdin_fd = -1,
	                       .stdout_fd = n->out ? out : -1,
	                       .stderr_fd = log,
	                       .new_session = 1};
	if (!n->out || proc_spawn(&s, &n->pid, &n->pidfd, NULL)) {
		n->pid = 0;
		n->failed = 1;
	}
	strv_fini(&args);
	free(data);
}

/* Starts each one as soon as its node's folder is unlocked; a locked folder delays no other. After LOCKS_S
 * all start, and report the holder of the lock themselves. */
static void start_enders(struct down *d, const char *path)
{
	uint64_t end = clock_boot_us(clock_real()) + LOCKS_S * 1000000ull;
	for (unsigned left = d->n; left;) {
		int late = clock_boot_us(clock_real()) > end;
		for (unsigned i = 0; i < d->n; i++) {
			struct ender *n = &d->nodes[i];
			if (n->started || (!late && local_is_locked(d->dir, n->name)))
				continue;
			start_ender(d, path, n);
			left--;
		}
		if (left)
			poll(NULL, 0, 10);
	}
}

static void take_lines(struct down *d, struct ender *n)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t k;
	rewind(n->out);
	while ((k = getline(&line, &room, n->out)) > 0) {
		cJSON *o = json_parse(line, (size_t)k, NULL);
		if (!o)
			continue;
		n->failed |= print_number(o, "left") != 0;
		cJSON_AddStringToObject(o, "node", n->name);
		cJSON_AddItemToArray(d->ended, o);
	}
	free(line);
}

static void wait_ender(struct down *d, struct ender *n, uint64_t end_us)
{
	uint64_t now = clock_boot_us(clock_real());
	struct pollfd p = {.fd = n->pidfd, .events = POLLIN};
	int status = -1;
	if (n->pid) {
		if (poll(&p, 1, now < end_us ? (int)((end_us - now) / 1000) : 0) <= 0)
			proc_signal(n->pidfd, SIGKILL, NULL);
		waitpid(n->pid, &status, 0);
		close(n->pidfd);
		n->failed |= status != 0;
		take_lines(d, n);
	}
	if (n->out)
		fclose(n->out);
	if (!n->failed)
		return;
	fprintf(stderr, "jobctl: %s: some processes of its jobs did not end:\n", n->name);
	local_show_log(d->dir, n->name);
	d->failed = 1;
}

static void end_nodes(struct down *d)
{
	struct err e = {0};
	char *path = local_program("agent/hearth-agent", "sbin/hearth-agent", &e), name[32];
	for (unsigned i = 1; i <= LOCAL_NODES_MAX; i++) {
		snprintf(name, sizeof(name), "node-%u", i);
		end_agent(d, name);
	}
	for (unsigned i = 1; path && i <= LOCAL_NODES_MAX; i++) {
		snprintf(name, sizeof(name), "node-%u", i);
		char *used = xasprintf("%s/%s/lock", d->dir, name);
		if (!access(used, F_OK))
			snprintf(d->nodes[d->n++].name, sizeof(name), "%s", name);
		free(used);
	}
	start_enders(d, path);
	uint64_t end = clock_boot_us(clock_real()) + END_S * 1000000ull;
	for (unsigned i = 0; i < d->n; i++)
		wait_ender(d, &d->nodes[i], end);
	if (!path) {
		fprintf(stderr, "jobctl: %s; so the processes of jobs keep running\n", e.text);
		d->failed = 1;
	}
	free(path);
}

/* ---- what was ended ---- */

/* Returns "2 processes of job 17 (train) on node-1, 3 of warm pool 4 ...". Malloc'ed. */
static char *ended_text(const cJSON *ended)
{
	char *all = xstrdup("");
	const cJSON *o;
	cJSON_ArrayForEach (o, ended) {
		double n = print_number(o, "processes");
		char *name = print_safe(print_member(o, "name")), *count = n < 0 ? xstrdup("processes") : NULL;
		if (!count)
			count = xasprintf("%.0f process%s", n, n == 1 ? "" : "es");
		xappendf(&all, "%s%s of %s %s%s%s%s on %s", *all ? ", " : "", count,
		         jget(o, "pool") ? "warm pool" : "job", print_member(o, jget(o, "pool") ? "pool" : "job"),
		         *name ? " (" : "", name, *name ? ")" : "", print_member(o, "node"));
		free(count);
		free(name);
	}
	return all;
}

static void report_end(const struct down *d)
{
	char *text = ended_text(d->ended);
	if (d->c->json) {
		cJSON *j = cJSON_CreateObject();
		cJSON_AddBoolToObject(j, "was_up", d->was_up);
		cJSON_AddNumberToObject(j, "agents", d->agents);
		cJSON_AddNumberToObject(j, "jobs_left", d->left);
		cJSON_AddItemReferenceToObject(j, "ended", d->ended);
		ctx_print_json(j);
		cJSON_Delete(j);
	} else if (!d->was_up && !d->agents && !*text) {
		printf("no local cluster was up; its data is in %s\n", d->dir);
	} else {
		printf("down%s", d->was_up ? "" : ": hearthd did not run");
		if (!d->was_up && d->agents)
			printf("; ended %s", d->names);
		if (*text)
			printf("; ended %s", text);
		printf("; its data is in %s\n", d->dir);
	}
	free(text);
}

/* Makes the mark for the next `local up` if hearthd does not hear of the ends. It is made before anything
 * ends, so that an interrupted `down` leaves it, too. */
static void mark_for_later(struct down *d)
{
	struct err e = {0};
	char *where = nodes_with_launches(d->dir);
	d->unsaid = d->was_up ? d->left < 0 : agent_is_up(d->dir) || *where;
	free(where);
	if (d->unsaid)
		d->mark = local_stop_later(d->dir, &e);
	if (d->mark < 0)
		fprintf(stderr, "jobctl: %s\n", e.text);
}

/* Reports what the next `local up` does; removes a new mark if nothing was ended. */
static void report_later(struct down *d)
{
	if (!d->unsaid || d->mark < 0)
		return;
	if (!d->was_up && !d->agents && !cJSON_GetArraySize(d->ended) && !d->failed) {
		if (d->mark > 0)
			local_stop_never(d->dir);
		return;
	}
	fprintf(stderr, "jobctl: hearthd %s; the next `jobctl local up` stops all jobs that have not ended\n",
	        d->was_up ? "did not answer" : "did not run");
}

static int take_down(struct down *d)
{
	d->left = d->was_up ? local_stop_jobs(d->dir) : 0;
	if (d->left)
		fprintf(stderr, "jobctl: %s; ending their processes without it\n",
		        d->left < 0 ? "hearthd does not answer" : "some jobs did not end in time");
	mark_for_later(d);
	end_nodes(d);
	report_later(d);
	local_end(d->dir, "hearthd");
	local_settings_forget(d->dir);
	report_end(d);
	return d->failed ? EXIT_JOB_FAILED : EXIT_OK;
}

int local_exec_down(struct ctx *c)
{
	struct down d = {.c = c, .dir = local_dir(), .names = xstrdup(""), .ended = cJSON_CreateArray()};
	int rc = local_make_dirs(d.dir, &c->err);
	cleanup_close int lock = rc ? -1 : local_lock(d.dir, &c->err);
	if (!rc && lock < 0)
		rc = -1;
	d.was_up = local_is_up(d.dir, "hearthd");
	if (!rc && !args_has(&c->args, "yes") && isatty(STDIN_FILENO))
		rc = ask_person(&d);
	if (!rc)
		rc = take_down(&d);
	cJSON_Delete(d.ended);
	free(d.names);
	free(d.dir);
	return rc;
}
