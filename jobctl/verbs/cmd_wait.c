/*
 * cmd_wait: waits for jobs. It asks for the record with a growing pause, 20 ms to 500 ms: the end of a short
 * job is seen at once, a long one costs little, and the controller may restart meanwhile.
 */
#include "jobctl/verbs/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "jobctl/client/interrupt.h"
#include "jobctl/client/job.h"
#include "jobctl/client/ref.h"
#include "jobctl/show/print.h"
#include "jobctl/verbs/job_end.h"

#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 500
#define RANGE_FEW    4    /* jobs of a range; fewer are asked for one by one */
#define PAGE         1000 /* jobs on a page of a list, at most */

int job_end_left_running(uint64_t job)
{
	fprintf(stderr,
	        "\nThe job continues. To see its log: jobctl logs %" PRIu64 " -f; to end it: jobctl stop %" PRIu64
	        "\n",
	        job, job);
	return EXIT_INTERRUPTED;
}

struct condition {
	enum { UNTIL_END, UNTIL_RUNNING, UNTIL_STEP } kind;
	uint64_t step;
};

static int parse_condition(struct ctx *c, const char *s, struct condition *k)
{
	k->kind = UNTIL_END;
	if (!s || strcmp(s, "end") == 0)
		return 0;
	if (strcmp(s, "running") == 0) {
		k->kind = UNTIL_RUNNING;
		return 0;
	}
	if (strncmp(s, "step>", 5) == 0 && !str_parse_u64(s + 5, &k->step)) {
		k->kind = UNTIL_STEP;
		return 0;
	}
	return ctx_fail(c, ERR_INVALID, "--for '%s': expected running, step>N or end", s);
}

/* Returns whether any metric of the newest attempt, or the metric "step" itself, passed the step. An attempt
 * that will be requeued does not count: after a requeue users mean the next attempt. */
static int step_reached(const cJSON *job, const char *status, double step)
{
	const cJSON *m;
	double attempt = print_number(job, "attempt_count");
	if (strcmp(status, "queued") == 0 || strcmp(status, "held") == 0 || strcmp(status, "recovering") == 0 ||
	    strcmp(print_member(job, "wanted"), "requeue") == 0)
		return 0;
	cJSON_ArrayForEach (m, jget(job, "metrics")) {
		const cJSON *at = jget(m, "step"), *last = jget(m, "last");
		if (!job_ended(status) && jget(m, "attempt") && print_number(m, "attempt") < attempt)
			continue;
		if (cJSON_IsNumber(at) && at->valuedouble > step)
			return 1;
		if (strcmp(m->string, "step") == 0 && cJSON_IsNumber(last) && last->valuedouble > step)
			return 1;
	}
	return 0;
}

static int condition_met(const struct condition *k, const cJSON *job, const char *status)
{
	if (k->kind == UNTIL_RUNNING)
		return strcmp(status, "running") == 0 || strcmp(status, "completed") == 0;
	return k->kind == UNTIL_STEP && step_reached(job, status, (double)k->step);
}

/* Asks once. 1: over, with *status and *met set; 0: not yet. */
static int poll_job(struct ctx *c, uint64_t job, const struct condition *k, uint64_t deadline_us,
                    char **status, char **ref, int *met)
{
	uint64_t now = clock_boot_us(clock_real()), left_s = LOST_PATIENCE_S;
	if (deadline_us && now + left_s * 1000000 > deadline_us)
		left_s = deadline_us > now ? (deadline_us - now) / 1000000 : 0;
	if (!ctx_client(c))
		return -1;
	unsigned old = client_patience(c->client, (unsigned)left_s);
	cJSON *answer = ctx_job(c, job);
	client_patience(c->client, old);
	const char *s = jtext(answer, "status");
	int rc = -1;
	now = clock_boot_us(clock_real());
	if (answer && !s) {
		ctx_fail(c, ERR_PROTOCOL, "the controller's answer has no status");
	} else if (answer) {
		*met = condition_met(k, answer, s);
		rc = *met || job_ended(s);
		if (rc && ref)
			*ref = xstrdup(print_member(answer, jtext(answer, "ref") ? "ref" : "id"));
		if (rc)
			*status = xstrdup(s);
		else if (deadline_us && now >= deadline_us)
			rc = ctx_fail(c, ERR_TIMEOUT, "job %s is still %s",
			              print_member(answer, jtext(answer, "ref") ? "ref" : "id"), s);
	} else if (c->err.code == ERR_UNAVAILABLE && deadline_us && now + 1000000 >= deadline_us) {
		c->err.code = ERR_TIMEOUT;
	}
	cJSON_Delete(answer);
	return rc;
}

/* Waits for the condition or the end. 0: *status is the caller's, *met: the condition came true. */
static int wait_job(struct ctx *c, uint64_t job, const struct condition *k, uint64_t deadline_us,
                    char **status, char **ref, int *met)
{
	int pause_ms = PAUSE_MIN_MS, rc;
	while (!(rc = poll_job(c, job, k, deadline_us, status, ref, met))) {
		uint64_t now = clock_boot_us(clock_real());
		int ms = pause_ms;
		if (deadline_us && now + (uint64_t)ms * 1000 > deadline_us)
			ms = deadline_us > now ? (int)((deadline_us - now) / 1000) + 1 : 0;
		if (interrupt_sleep(ms))
			return ctx_fail(c, ERR_TIMEOUT, "interrupted");
		pause_ms = pause_ms < PAUSE_MAX_MS ? pause_ms + pause_ms / 2 : PAUSE_MAX_MS;
	}
	return rc < 0 ? -1 : 0;
}

static int wait_end(struct ctx *c, uint64_t job, uint64_t deadline_us, char **status)
{
	struct condition k = {.kind = UNTIL_END};
	int met;
	return wait_job(c, job, &k, deadline_us, status, NULL, &met);
}

/* Returns the command for the log of the rank that the reason names, if it is not rank 0. Malloc'ed. */
static char *rank_log(const char *job, const char *reason)
{
	unsigned rank = 0;
	int is = sscanf(reason, "rank %u", &rank) == 1 && rank;
	return is ? xasprintf("; jobctl logs %s --rank %u", job, rank) : xstrdup("");
}

int job_end_report(struct ctx *c, uint64_t job)
{
	char *status = NULL;
	if (wait_end(c, job, 0, &status))
		return interrupted() ? job_end_left_running(job) : -1;
	cJSON *answer = ctx_job(c, job);
	const char *ref = jtext(answer, "ref");
	int code = job_exit_code(status);
	char id[48];
	snprintf(id, sizeof(id), "%s", ref ? ref : "");
	if (!ref)
		snprintf(id, sizeof(id), "%" PRIu64, job);
	if (c->json) {
		if (answer)
			ctx_print_json(answer);
	} else if (code) {
		char *local = print_local(print_member(answer, "reason")), *reason = print_safe(local);
		char *rank = rank_log(id, reason);
		fprintf(stderr, "job %s %s: %s\nMore: jobctl show %s; jobctl events %s%s\n", id, status, reason, id,
		        id, rank);
		free(rank);
		free(reason);
		free(local);
	} else {
		const char *ran = print_ran(answer);
		int known = strcmp(ran, "-") != 0;
		fprintf(stderr, "job %s %s%s%s\n", id, status, known ? " in " : "", known ? ran : "");
	}
	cJSON_Delete(answer);
	free(status);
	return code;
}

int job_end_report_aside(struct ctx *c, uint64_t job)
{
	int json = c->json;
	c->json = 0;
	int rc = job_end_report(c, job);
	c->json = json;
	return rc;
}

/* Reports how one job ended; returns its exit code. */
static int report_job(struct ctx *c, uint64_t job, const struct condition *k, const char *status,
                      const char *ref, int met, cJSON *all)
{
	if (c->json) {
		cJSON *one = cJSON_CreateObject();
		cJSON_AddNumberToObject(one, "id", (double)job);
		cJSON_AddStringToObject(one, "status", status);
		cJSON_AddItemToArray(all, one);
	} else {
		printf("%s %s\n", ref, status);
		fflush(stdout);
	}
	if (k->kind == UNTIL_STEP && !met) {
		fprintf(stderr, "jobctl: job %s ended before it passed step %" PRIu64 "\n", ref, k->step);
		return EXIT_JOB_FAILED;
	}
	return job_ended(status) ? job_exit_code(status) : EXIT_OK;
}

/* Fetches the records of a range that list begins with, one page per call. Unknown jobs get a reason. */
static int fetch_range(struct ctx *c, struct job_ref *list, size_t n, cJSON **seen)
{
	size_t k = 1;
	while (k < n && list[k].part == list[0].part && list[k].id == list[0].id + k)
		k++;
	if (!list[0].id || k < RANGE_FEW)
		return 0;
	for (uint64_t before = list[0].id + k; before > list[0].id;) {
		uint64_t left = before - list[0].id;
		char *path = xasprintf("/jobs?members=1&deleted=1&before=%" PRIu64 "&limit=%" PRIu64, before,
		                       (left < PAGE ? left : PAGE));
		cJSON *answer;
		int rc = ctx_get(c, "GET", path, NULL, &answer);
		free(path);
		if (rc)
			return -1;
		cJSON *job, *page = cJSON_GetObjectItemCaseSensitive(answer, "jobs");
		uint64_t least = list[0].id;
		while ((job = cJSON_DetachItemFromArray(page, 0))) {
			uint64_t id = (uint64_t)print_number(job, "id");
			least = id;
			if (id >= list[0].id && id < list[0].id + k && !seen[id - list[0].id])
				seen[id - list[0].id] = job;
			else
				cJSON_Delete(job);
		}
		/* Stops after the last page, or after one that began below the range. */
		before = least < before && cJSON_IsNumber(jget(answer, "next")) ? least : list[0].id;
		cJSON_Delete(answer);
	}
	for (size_t i = 0; i < k; i++) {
		if (seen[i])
			continue;
		list[i].why = xasprintf("there is no job %" PRIu64, list[i].id);
		list[i].id = 0;
	}
	return 0;
}

/* Reports unknown jobs before the others are awaited, so that a typing error shows at once. *missing counts
 * them; their ids become 0. Any other failure gives -1. */
static int find_missing(struct ctx *c, struct job_ref *list, size_t n, cJSON **seen, size_t *missing)
{
	size_t absent = 0; /* unknown ids of the present range; they share one line */
	for (size_t i = 0; i < n; i++) {
		cJSON *job = NULL;
		if (i + 1 < n && list[i].range && !seen[i] && (!i || list[i - 1].part != list[i].part) &&
		    fetch_range(c, list + i, n - i, seen + i))
			return -1;
		if (list[i].id && !seen[i])
			job = ctx_job(c, list[i].id);
		if (list[i].id && !job && !seen[i] && c->err.code != ERR_NOT_FOUND)
			return -1;
		if (!list[i].id)
			ctx_fail(c, ERR_NOT_FOUND, "%s", list[i].why);
		if (!job && !seen[i]) {
			list[i].id = 0;
			absent++;
			++*missing;
		}
		cJSON_Delete(job);
		if (!absent || (i + 1 < n && list[i + 1].part == list[i].part))
			continue;
		char *safe = print_safe(c->err.text);
		if (absent > 1)
			fprintf(stderr, "jobctl: %zu of the jobs %s do not exist\n", absent, list[i].range);
		else
			fprintf(stderr, "jobctl: %s\n", safe);
		absent = 0;
		free(safe);
	}
	memset(&c->err, 0, sizeof(c->err));
	return 0;
}

/* Waits for one job. seen: its record from a list, or NULL; if it has ended there, no call is needed. */
static int wait_one(struct ctx *c, const struct job_ref *job, const cJSON *seen, const struct condition *k,
                    uint64_t deadline, cJSON *all, int *code)
{
	char *status = NULL, *ref = NULL;
	int met = 0, rc = 0;
	if (seen && k->kind == UNTIL_END && jtext(seen, "status") && job_ended(jtext(seen, "status"))) {
		status = xstrdup(jtext(seen, "status"));
		ref = xstrdup(print_member(seen, jtext(seen, "ref") ? "ref" : "id"));
	} else {
		rc = wait_job(c, job->id, k, deadline, &status, &ref, &met);
	}
	if (!rc && report_job(c, job->id, k, status, ref, met, all))
		*code = EXIT_JOB_FAILED;
	free(status);
	free(ref);
	return rc;
}

static int exec_wait(struct ctx *c)
{
	struct condition k;
	struct job_ref *list;
	uint64_t deadline = 0, seconds;
	size_t n = 0, missing = 0;
	const char *timeout = args_get(&c->args, "timeout");
	if (parse_condition(c, args_get(&c->args, "for"), &k))
		return -1;
	if (timeout && str_parse_duration(timeout, &seconds, &c->err))
		return err_wrap(&c->err, "--timeout");
	if (timeout)
		deadline = clock_boot_us(clock_real()) + seconds * 1000000;
	if (ref_resolve_list(c, c->args.operand, c->args.n, &list, &n))
		return -1;
	cJSON **seen = xcalloc(n + 1, sizeof(*seen));
	int rc = n > 1 ? find_missing(c, list, n, seen, &missing) : 0, code = EXIT_OK;
	if (n == 1 && !list[0].id)
		rc = ctx_fail(c, ERR_NOT_FOUND, "%s", list[0].why);
	cJSON *all = cJSON_CreateArray();
	for (size_t i = 0; !rc && i < n; i++)
		rc = list[i].id ? wait_one(c, &list[i], seen[i], &k, deadline, all, &code) : 0;
	if (!rc)
		ctx_show_json(c, all);
	cJSON_Delete(all);
	for (size_t i = 0; i < n; i++)
		cJSON_Delete(seen[i]);
	free(seen);
	ref_list_free(list, n);
	return rc ? -1 : missing ? EXIT_NOT_FOUND : code;
}

static const struct arg_opt wait_opts[] = {
    {"for", 0, "running|step>N|end", "Wait for this event (default end)"},
    {"exit-code", 0, NULL, "No effect: the exit code always says how the jobs ended"},
    {"timeout", 't', "DURATION", "Exit with 124 if it takes longer, e.g. 90, 5m, 2h"},
    {NULL, 0, NULL, NULL}};

const struct verb verbs_wait[] = {
    {"wait", "JOB...", "Wait until jobs have ended", wait_opts, 1, 256, exec_wait},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
