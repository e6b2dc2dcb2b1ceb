/*
 * local_jobs: see local_jobs.h.
 */
#include "jobctl/local/local_jobs.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "jobctl/client/ctx.h"
#include "jobctl/show/print.h"

#define ASK_MS    5000 /* hearthd may hang for a while; then it is asked again */
#define STOP_S    60
#define JOBS_PAGE 1000
#define NAMED_MAX 5

struct client *local_client(const char *dir, unsigned patience_s, struct err *e)
{
	struct client_config cfg = {.url = xasprintf("unix://%s/hearthd/hearthd.sock", dir),
	                            .source = xstrdup("the local cluster"),
	                            .patience_s = patience_s};
	struct client *c = client_create(&cfg, e);
	client_config_fini(&cfg);
	return c;
}

cJSON *local_nodes(const char *dir)
{
	struct client *c = local_client(dir, 0, NULL);
	cJSON *answer = NULL;
	if (c)
		client_timeout(c, ASK_MS);
	if (!c || client_call(c, "GET", "/nodes", NULL, &answer, NULL)) {
		cJSON_Delete(answer);
		answer = NULL;
	}
	client_destroy(c);
	return answer;
}

/* ---- stopping ---- */

static int stop_one(struct client *c, const cJSON *job)
{
	char *path = xasprintf("/jobs/%s/stop", print_member(job, "id"));
	cJSON *body = cJSON_CreateObject();
	cJSON_AddNumberToObject(body, "grace_s", 5);
	int rc = client_call(c, "POST", path, body, NULL, NULL);
	cJSON_Delete(body);
	free(path);
	return rc;
}

static int is_stopping(const cJSON *job)
{
	const char *wanted = jtext(job, "wanted");
	return wanted && *wanted;
}

char *local_jobs_text(const cJSON *jobs)
{
	int n = cJSON_GetArraySize(jobs), i = 0;
	char *names = xstrdup("");
	const cJSON *j;
	cJSON_ArrayForEach (j, jobs) {
		cleanup_free char *name = print_safe(print_member(j, "name"));
		if (i++ == NAMED_MAX) {
			xappendf(&names, ", ...");
			break;
		}
		xappendf(&names, "%s%s %s %s", *names ? ", " : "", print_member(j, "id"), name,
		         print_member(j, "status"));
	}
	char *all = xasprintf("%d%s job%s (%s)", n, n == JOBS_PAGE ? " or more" : "", n == 1 ? "" : "s", names);
	free(names);
	return all;
}

cJSON *local_active_jobs(struct client *c)
{
	char *path = xasprintf("/jobs?status=active&limit=%d", JOBS_PAGE);
	cJSON *answer = NULL;
	int rc = c ? client_call(c, "GET", path, NULL, &answer, NULL) : -1;
	cJSON *jobs = rc ? NULL : cJSON_DetachItemFromObjectCaseSensitive(answer, "jobs");
	cJSON_Delete(answer);
	free(path);
	return jobs;
}

static void report_stopping(const cJSON *jobs, const char *more)
{
	char *text = local_jobs_text(jobs);
	fprintf(stderr, "stopping %s; their outputs are kept%s\n", text, more);
	free(text);
}

int local_stop_jobs(const char *dir)
{
	uint64_t end = clock_boot_us(clock_real()) + STOP_S * 1000000ull;
	struct client *c = local_client(dir, 1, NULL);
	int n, told = 0, said = 0;
	if (c)
		client_timeout(c, ASK_MS);
	for (;;) {
		cJSON *jobs = local_active_jobs(c);
		const cJSON *j;
		n = jobs ? cJSON_GetArraySize(jobs) : -1;
		if (n > 0 && !said++)
			report_stopping(jobs, "");
		cJSON_ArrayForEach (j, jobs) {
			if (!told && !is_stopping(j))
				stop_one(c, j);
		}
		/* A page has a bound, so later pages get their turn. */
		told = n > 0 && n < JOBS_PAGE;
		cJSON_Delete(jobs);
		if (n <= 0 || clock_boot_us(clock_real()) > end)
			break;
		poll(NULL, 0, 100);
	}
	client_destroy(c);
	return n;
}

/* ---- later ---- */

static char *mark_path(const char *dir)
{
	return xasprintf("%s/stop_jobs", dir);
}

int local_stop_later(const char *dir, struct err *e)
{
	char *path = mark_path(dir);
	int there = !access(path, F_OK), rc = fs_write_atomic(path, "", 0, 0600, e);
	free(path);
	return rc ? -1 : !there;
}

void local_stop_never(const char *dir)
{
	char *path = mark_path(dir);
	unlink(path);
	free(path);
}

/* Stops one page of jobs. Returns how many, -1 on failure. Jobs without an agent end when it is back. */
static int stop_page(struct client *c, int *said)
{
	cJSON *jobs = local_active_jobs(c);
	const cJSON *j;
	int told = jobs ? 0 : -1;
	if (cJSON_GetArraySize(jobs) > 0 && !*said) {
		report_stopping(jobs, " (`jobctl local down` could not reach hearthd)");
		*said = 1;
	}
	cJSON_ArrayForEach (j, jobs) {
		if (!is_stopping(j) && !stop_one(c, j))
			told++;
	}
	cJSON_Delete(jobs);
	return told;
}

void local_stop_now(const char *dir)
{
	char *path = mark_path(dir);
	int said = 0, told = 1;
	if (!access(path, F_OK)) {
		struct client *c = local_client(dir, 1, NULL);
		while (told > 0)
			told = stop_page(c, &said);
		client_destroy(c);
		if (!told)
			unlink(path);
		else
			fprintf(stderr, "jobctl: hearthd did not stop the jobs that `jobctl local down` ended; the next "
			                "`jobctl local up` tries again\n");
	}
	free(path);
}
