/*
 * local_down: `jobctl local down`.
 *
 * 1. hearthd, when it answers, stops all jobs, and their ends are waited for.
 * 2. The agents are ended; what runs of jobs would go on.
 * 3. So `hearth-agent --end-launches` looks into the folder of each node, whether its agent ran or not, and
 *    ends what is on record there and still runs: usually nothing. It is the way when hearthd is dead, when a
 *    job did not end in time, when an agent was dead.
 * 4. hearthd is ended. What was ended without it, it is told at the next `local up` (local_jobs).
 */
#include "jobctl/local_down.h"

#include "common/clock.h"
#include "common/fsutil.h"
#include "common/json.h"
#include "common/proc.h"
#include "common/strutil.h"
#include "common/xalloc.h"
#include "jobctl/jobctl.h"
#include "jobctl/local_jobs.h"
#include "jobctl/local_proc.h"
#include "jobctl/local_settings.h"
#include "jobctl/print.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define END_S   60
#define OUT_MAX (1024 * 1024)

struct ender { /* of one node */
	char name[32];
	pid_t pid; /* 0 not started */
	int pidfd;
	FILE *out;
	int failed;
};

struct down {
	struct ctx *c;
	char *dir;
	int was_up, left; /* hearthd; jobs that it could not end, -1 unknown */
	unsigned agents;  /* ended here */
	char *names;      /* of these */
	cJSON *ended;     /* launches that were ended without it */
	struct ender nodes[LOCAL_NODES_MAX];
	unsigned n;
	int failed;
};

/* ---- a person is asked before jobs are stopped; a script has said what it wants ---- */

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

static int ask(struct down *d)
{
	char answer[8] = "";
	struct client *cl = d->was_up ? local_client(d->dir, 1, NULL) : NULL;
	cJSON *jobs = local_active_jobs(cl);
	int some = cJSON_GetArraySize(jobs) > 0, blind = !jobs && agent_is_up(d->dir), rc = 0;
	if (some) {
		char *text = local_jobs_text(jobs);
		fprintf(stderr, "Stop %s? What they left is kept. [y/N] ", text);
		free(text);
	} else if (blind) {
		fprintf(stderr,
		        "hearthd %s. End the agents, and what runs of their jobs? What they left is kept. [y/N] ",
		        d->was_up ? "does not answer" : "does not run");
	}
	if ((some || blind) && (!fgets(answer, sizeof(answer), stdin) || (answer[0] != 'y' && answer[0] != 'Y')))
		rc = ctx_fail(d->c, ERR_DENIED, "nothing was ended");
	cJSON_Delete(jobs);
	client_destroy(cl);
	return rc;
}

/* ---- agents, and what they leave ---- */

static void end_agent(struct down *d, const char *name)
{
	if (local_is_up(d->dir, name)) {
		char *longer = xasprintf("%s%s%s", d->names, d->agents++ ? ", " : "", name);
		free(d->names);
		d->names = longer;
	}
	local_end(d->dir, name);
}

static void start_ender(struct down *d, const char *path, const char *name)
{
	extern char **environ;
	struct ender *n = &d->nodes[d->n++];
	char *data = xasprintf("%s/%s", d->dir, name);
	cleanup_close int log = local_log(d->dir, name, NULL);
	struct strv args = {0};
	strv_add(&args, path);
	strv_add(&args, "--end-launches");
	strv_add(&args, "--data");
	strv_add(&args, data);
	snprintf(n->name, sizeof(n->name), "%s", name);
	n->out = tmpfile();
	struct proc_spawn s = {.path = path,
	                       .argv = args.v,
	                       .envp = environ,
	                       .cwd = "/",
	                       .stdin_fd = -1,
	                       .stdout_fd = n->out ? fileno(n->out) : -1,
	                       .stderr_fd = log,
	                       .new_session = 1};
	struct err e = {0};
	local_wait_unlocked(d->dir, name);
	if (!n->out || proc_spawn(&s, &n->pid, &n->pidfd, &e)) {
		n->pid = 0;
		n->failed = 1;
	}
	strv_fini(&args);
	free(data);
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
	fprintf(stderr, "jobctl: %s: not all that runs of its jobs could be ended:\n", n->name);
	local_show_log(d->dir, n->name);
	d->failed = 1;
}

static void end_nodes(struct down *d)
{
	struct err e = {0};
	char *path = local_program("agent/hearth-agent", "sbin/hearth-agent", &e), name[32];
	uint64_t end = clock_boot_us(clock_real()) + END_S * 1000000ull;
	for (unsigned i = 1; i <= LOCAL_NODES_MAX; i++) {
		snprintf(name, sizeof(name), "node-%u", i);
		end_agent(d, name);
	}
	for (unsigned i = 1; path && i <= LOCAL_NODES_MAX; i++) {
		snprintf(name, sizeof(name), "node-%u", i);
		char *used = xasprintf("%s/%s/lock", d->dir, name);
		if (!access(used, F_OK))
			start_ender(d, path, name);
		free(used);
	}
	for (unsigned i = 0; i < d->n; i++)
		wait_ender(d, &d->nodes[i], end);
	if (!path) {
		fprintf(stderr, "jobctl: %s; so what runs of jobs goes on\n", e.text);
		d->failed = 1;
	}
	free(path);
}

/* ---- what was ended ---- */

/* "2 processes of job 17 (train) on node-1, ...". Malloc'ed. */
static char *ended_text(const cJSON *ended)
{
	char *all = xstrdup("");
	const cJSON *o;
	cJSON_ArrayForEach (o, ended) {
		double n = print_number(o, "processes");
		char *name = print_safe(print_member(o, "name")), *count = n < 0 ? xstrdup("processes") : NULL;
		if (!count)
			count = xasprintf("%.0f process%s", n, n == 1 ? "" : "es");
		char *longer =
		    xasprintf("%s%s%s of job %.0f%s%s%s on %s", all, *all ? ", " : "", count, print_number(o, "job"),
		              *name ? " (" : "", name, *name ? ")" : "", print_member(o, "node"));
		free(count);
		free(name);
		free(all);
		all = longer;
	}
	return all;
}

static void tell(const struct down *d)
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
		printf("it was not up; data stays in %s\n", d->dir);
	} else {
		printf("down%s", d->was_up ? "" : ": hearthd did not run");
		if (!d->was_up && d->agents)
			printf("; ended %s", d->names);
		if (*text)
			printf("; ended %s", text);
		printf("; data stays in %s\n", d->dir);
	}
	free(text);
}

/* What hearthd does not know of, it is told when it is back. */
static void remember(struct down *d)
{
	struct err e = {0};
	if (d->was_up ? d->left >= 0 : !d->agents && !cJSON_GetArraySize(d->ended))
		return;
	if (local_stop_later(d->dir, &e))
		fprintf(stderr, "jobctl: %s\n", e.text);
	else
		fprintf(stderr,
		        "jobctl: hearthd %s; at its next start (`jobctl local up`) all jobs that have not ended "
		        "are stopped\n",
		        d->was_up ? "did not answer" : "did not run");
}

static int take_down(struct down *d)
{
	d->left = d->was_up ? local_stop_jobs(d->dir) : 0;
	if (d->left)
		fprintf(stderr, "jobctl: %s; what runs of them is ended without it\n",
		        d->left < 0 ? "hearthd does not answer" : "some jobs did not end in time");
	end_nodes(d);
	remember(d);
	local_end(d->dir, "hearthd");
	local_settings_forget(d->dir);
	tell(d);
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
		rc = ask(&d);
	if (!rc)
		rc = take_down(&d);
	cJSON_Delete(d.ended);
	free(d.names);
	free(d.dir);
	return rc;
}
