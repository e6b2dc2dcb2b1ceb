/*
 * cmd_change: verbs that change jobs: stop, hold, release, requeue, set, tag, note, pin, rm.
 */
#include "jobctl/verbs/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "jobctl/client/assign.h"
#include "jobctl/client/job.h"
#include "jobctl/client/ref.h"
#include "jobctl/show/print.h"

/* Which of hearthd's answers need a sentence of their own. */
enum change_kind {
	CHANGE_PLAIN,
	CHANGE_STOP,
	CHANGE_RELEASE,
	CHANGE_REQUEUE,
};

struct change {
	enum change_kind kind;
	const char *done; /* "is held" */
};

static int begins_with(const char *text, const char *prefix)
{
	return text && strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Says in words what happened to one job. */
static void print_change(const char *id, const struct change *change, const cJSON *answer)
{
	const char *status = jtext(answer, "status"), *text = jtext(answer, "text");
	int ended = status && job_ended(status);
	/* A stop that came too late is not an error, but it stopped nothing. */
	if (change->kind == CHANGE_STOP && text && strcmp(text, "stopped") == 0)
		printf("job %s is stopped; it had not started\n", id);
	else if (change->kind == CHANGE_STOP && ended)
		printf("job %s has ended (%s)\n", id, status);
	else if (change->kind == CHANGE_RELEASE && ended)
		printf("job %s is %s: it %s\n", id, status, text ? text : "?");
	else if (change->kind == CHANGE_RELEASE && begins_with(text, "it is not held"))
		printf("job %s is not held: it is %s\n", id, status ? status : "?");
	else if (change->kind == CHANGE_REQUEUE && begins_with(text, "it waits already"))
		printf("job %s is already waiting%s\n", id, text + strlen("it waits already"));
	else
		printf("job %s %s\n", id, change->done);
}

/* Reports one job's answer, in words or as JSON; takes answer. */
static void report_change(struct ctx *c, uint64_t job, cJSON *answer, const struct change *change, cJSON *all)
{
	if (c->json) {
		if (!jget(answer, "id"))
			cJSON_AddNumberToObject(answer, "id", (double)job);
		cJSON_AddItemToArray(all, answer);
		return;
	}
	cleanup_free char *number = xasprintf("%" PRIu64, job);
	print_change(jtext(answer, "ref") ? jtext(answer, "ref") : number, change, answer);
	print_warnings(answer);
	cJSON_Delete(answer);
}

/* Reports the error of one of several jobs; adds the job's name unless the error has it. */
static void report_refused(const struct err *e, const struct job_ref *r)
{
	char *local = print_local(e->text), *safe = print_safe(local), *name = xasprintf("job %" PRIu64, r->id);
	const char *at = strstr(safe, name);
	/* A member is named as such: 29.3. */
	int member = strncmp(safe, "job ", 4) == 0 && safe[4 + strspn(safe + 4, "0123456789")] == '.';
	int named = !r->id || member || (at && !strchr("0123456789", at[strlen(name)] ? at[strlen(name)] : ' '));
	fflush(stdout);
	if (named)
		fprintf(stderr, "jobctl: %s\n", safe);
	else
		fprintf(stderr, "jobctl: %s: %s\n", name, safe);
	free(name);
	free(safe);
	free(local);
}

/* Unknown ids of one range; they share one line. */
struct absent {
	size_t n;
	struct err e; /* error of the last one */
	const struct job_ref *r;
};

static void report_absent(struct absent *a)
{
	fflush(stdout);
	if (a->n == 1)
		report_refused(&a->e, a->r);
	else if (a->n)
		fprintf(stderr, "jobctl: %zu of the jobs %s do not exist\n", a->n, a->r->range);
	a->n = 0;
}

/* Makes the call for one job. */
static int change_one(struct ctx *c, const struct job_ref *r, const char *method, const char *suffix,
                      const cJSON *body, cJSON **answer)
{
	if (!r->id)
		return ctx_fail(c, ERR_NOT_FOUND, "%s", r->why);
	char *path = xasprintf("/jobs/%" PRIu64 "%s", r->id, suffix);
	int rc = ctx_get(c, method, path, body, answer);
	free(path);
	return rc;
}

/* Makes the same call for each job, also after one was refused. The first error gives the exit code. */
static int for_each(struct ctx *c, size_t n_refs, const char *method, const char *suffix, const cJSON *body,
                    const struct change *change)
{
	struct job_ref *list;
	size_t n;
	if (ref_resolve_list(c, c->args.operand, n_refs, &list, &n))
		return -1;
	struct err first = {0};
	struct absent absent = {0};
	cJSON *all = cJSON_CreateArray();
	for (size_t i = 0; i < n; i++) {
		cJSON *answer;
		int rc = change_one(c, &list[i], method, suffix, body, &answer);
		int ended = i + 1 == n || list[i + 1].part != list[i].part;
		if (!rc)
			report_change(c, list[i].id, answer, change, all);
		else if (first.code == ERR_NONE)
			first = c->err;
		if (rc && list[i].range && c->err.code == ERR_NOT_FOUND && n > 1) {
			absent.n++;
			absent.e = c->err;
			absent.r = &list[i];
		} else if (rc && n > 1) {
			report_refused(&c->err, &list[i]);
		}
		ended |= rc && c->err.code == ERR_UNAVAILABLE;
		if (ended)
			report_absent(&absent);
		if (rc && c->err.code == ERR_UNAVAILABLE)
			break;
	}
	if (c->json && cJSON_GetArraySize(all))
		ctx_print_json(n == 1 ? cJSON_GetArrayItem(all, 0) : all);
	cJSON_Delete(all);
	ref_list_free(list, n);
	c->err = first;
	return first.code == ERR_NONE ? 0 : n > 1 ? client_exit_code(&first) : -1;
}

static int exec_stop(struct ctx *c)
{
	cJSON *body = cJSON_CreateObject();
	const char *grace = args_get(&c->args, "grace");
	uint64_t seconds;
	int rc = 0;
	if (grace) {
		rc = str_parse_duration(grace, &seconds, &c->err);
		if (!rc)
			cJSON_AddNumberToObject(body, "grace_s", (double)seconds);
		else
			err_wrap(&c->err, "--grace");
	}
	if (!rc)
		rc = for_each(c, c->args.n, "POST", "/stop", body, &(struct change){CHANGE_STOP, "is being stopped"});
	cJSON_Delete(body);
	return rc;
}

static int exec_hold(struct ctx *c)
{
	return for_each(c, c->args.n, "POST", "/hold", NULL, &(struct change){CHANGE_PLAIN, "is held"});
}

static int exec_release(struct ctx *c)
{
	return for_each(c, c->args.n, "POST", "/release", NULL, &(struct change){CHANGE_RELEASE, "is released"});
}

static int exec_requeue(struct ctx *c)
{
	static const char plain[] = "goes back to the queue",
	                  from_start[] = "goes back to the queue and will begin from the start",
	                  from_step[] = "goes back to the queue and will continue from that step";
	cJSON *body = cJSON_CreateObject();
	int start = args_has(&c->args, "from-start"), step = args_has(&c->args, "from"), rc = 0;
	uint64_t n = 0;
	if (start && step)
		rc = ctx_fail(c, ERR_INVALID, "give --from or --from-start, not both");
	else if (step)
		rc = args_u64(&c->args, "from", 0, (uint64_t)1 << 53, &n, &c->err);
	if (start)
		cJSON_AddTrueToObject(body, "from_start");
	else if (step)
		cJSON_AddNumberToObject(body, "from_step", (double)n);
	if (!rc)
		rc = for_each(c, c->args.n, "POST", "/requeue", body,
		              &(struct change){CHANGE_REQUEUE, start  ? from_start
		                                               : step ? from_step
		                                                      : plain});
	cJSON_Delete(body);
	return rc;
}

/* Adds one of priority=N, time=DURATION, queue=NAME to body. */
static int set_one(struct ctx *c, cJSON *body, const char *assignment)
{
	static const char *const known[] = {"priority", "time", "queue", NULL};
	const char *eq = strchr(assignment, '=');
	if (!eq)
		return ctx_fail(c, ERR_INVALID, "'%s': expected priority=N, time=DURATION or queue=NAME", assignment);
	char *key = xstrndup(assignment, (size_t)(eq - assignment));
	const char *value = eq + 1;
	int rc = 0;
	uint64_t n;
	if (jget(body, key)) {
		rc = ctx_fail(c, ERR_INVALID, "the key '%s' appears twice", key);
	} else if (strcmp(key, "priority") == 0) {
		if (str_parse_u64(value + (*value == '-' || *value == '+'), &n) || n > 1000)
			rc = ctx_fail(c, ERR_INVALID, "priority '%s': expected a whole number from -1000 to 1000", value);
		else
			cJSON_AddNumberToObject(body, "priority", *value == '-' ? -(double)n : (double)n);
	} else if (strcmp(key, "time") == 0) {
		rc = str_parse_duration(value, &n, &c->err);
		if (rc)
			err_wrap(&c->err, "time");
		else
			cJSON_AddNumberToObject(body, "time", (double)n);
	} else if (strcmp(key, "queue") == 0) {
		cJSON_AddStringToObject(body, "queue", value);
	} else {
		const char *near = strcmp(key, "prio") == 0 ? "priority" : str_nearest(key, known);
		if (near)
			rc = ctx_fail(c, ERR_INVALID,
			              "'%s' cannot be set; did you mean '%s'? Expected priority, time or queue", key,
			              near);
		else
			rc = ctx_fail(c, ERR_INVALID,
			              "'%s' cannot be set; expected priority, time or queue. To submit a copy with "
			              "another value: jobctl clone JOB --set %s%s",
			              key, assign_key_known(key) ? "" : "hyperparameters.", assignment);
	}
	free(key);
	return rc;
}

static int exec_set(struct ctx *c)
{
	cJSON *body = cJSON_CreateObject();
	int rc = 0;
	for (size_t i = 1; !rc && i < c->args.n; i++)
		rc = set_one(c, body, c->args.operand[i]);
	if (!rc)
		rc = for_each(c, 1, "PATCH", "", body, &(struct change){CHANGE_PLAIN, "is changed"});
	cJSON_Delete(body);
	return rc;
}

static int exec_tag(struct ctx *c)
{
	cJSON *body = cJSON_CreateObject(), *tags = cJSON_AddObjectToObject(body, "tags");
	int rc = 0;
	for (size_t i = 1; !rc && i < c->args.n; i++) {
		const char *t = c->args.operand[i], *eq = strchr(t, '=');
		size_t n = strlen(t);
		char *key = xstrndup(t, eq ? (size_t)(eq - t) : n ? n - 1 : 0);
		if (!*key || (!eq && t[n - 1] != '-'))
			rc = ctx_fail(c, ERR_INVALID, "'%s': expected KEY=VALUE, or KEY- to remove a tag", t);
		else if (eq)
			cJSON_AddStringToObject(tags, key, eq + 1);
		else
			cJSON_AddNullToObject(tags, key);
		free(key);
	}
	if (!rc)
		rc = for_each(c, 1, "PATCH", "", body, &(struct change){CHANGE_PLAIN, "is tagged"});
	cJSON_Delete(body);
	return rc;
}

static int exec_note(struct ctx *c)
{
	cJSON *body = cJSON_CreateObject();
	char *text = xstrdup(c->args.operand[1]);
	for (size_t i = 2; i < c->args.n; i++) {
		xappendf(&text, " %s", c->args.operand[i]);
	}
	cJSON_AddStringToObject(body, "notes", text);
	int rc = for_each(c, 1, "PATCH", "", body, &(struct change){CHANGE_PLAIN, "has a new note"});
	free(text);
	cJSON_Delete(body);
	return rc;
}

static int set_pin(struct ctx *c, int on)
{
	cJSON *body = cJSON_CreateObject();
	cJSON_AddBoolToObject(body, "pinned", on);
	struct change change = {CHANGE_PLAIN,
	                        on ? "is pinned; retention removes nothing of it" : "is no longer pinned"};
	int rc = for_each(c, c->args.n, "PATCH", "", body, &change);
	cJSON_Delete(body);
	return rc;
}

static int exec_pin(struct ctx *c)
{
	return set_pin(c, 1);
}

static int exec_unpin(struct ctx *c)
{
	return set_pin(c, 0);
}

static int exec_rm(struct ctx *c)
{
	if (!args_has(&c->args, "yes") && isatty(STDIN_FILENO)) {
		char answer[8] = "";
		fputs("Remove logs, source, metrics and artifacts of", stderr);
		for (size_t i = 0; i < c->args.n; i++)
			fprintf(stderr, " %s", c->args.operand[i]);
		fputs("? The records stay. [y/N] ", stderr);
		if (!fgets(answer, sizeof(answer), stdin) || (answer[0] != 'y' && answer[0] != 'Y'))
			return ctx_fail(c, ERR_DENIED, "not confirmed; nothing was removed");
	}
	return for_each(c, c->args.n, "DELETE", "", NULL, &(struct change){CHANGE_PLAIN, "is removed"});
}

static const struct arg_opt stop_opts[] = {
    {"grace", 'g', "DURATION", "Wait DURATION between the request to end and the kill"},
    {NULL, 0, NULL, NULL}};
static const struct arg_opt requeue_opts[] = {
    {"from", 0, "STEP", "Continue from that step of any attempt (default: from the newest checkpoints)"},
    {"from-start", 0, NULL, "Begin as the first attempt did"},
    {NULL, 0, NULL, NULL}};
static const struct arg_opt rm_opts[] = {{"yes", 'y', NULL, "Do not ask"}, {NULL, 0, NULL, NULL}};

const struct verb verbs_change[] = {
    {"stop", "JOB...", "End jobs and keep their outputs", stop_opts, 1, 256, exec_stop},
    {"hold", "JOB...", "Prevent waiting jobs from starting", NULL, 1, 256, exec_hold},
    {"release", "JOB...", "Allow held jobs to start", NULL, 1, 256, exec_release},
    {"requeue", "JOB...", "End the present attempt and continue in a new one", requeue_opts, 1, 256,
     exec_requeue},
    {"set", "JOB KEY=VALUE...", "Change priority=N, time=DURATION or queue=NAME", NULL, 2, 16, exec_set},
    {"tag", "JOB KEY=VALUE|KEY-...", "Set or remove tags", NULL, 2, 64, exec_tag},
    {"note", "JOB TEXT...", "Write a note on a job", NULL, 2, 256, exec_note},
    {"pin", "JOB...", "Exempt jobs from removal by age", NULL, 1, 256, exec_pin},
    {"unpin", "JOB...", "Allow removal by age again", NULL, 1, 256, exec_unpin},
    {"rm", "JOB...", "Remove the data of jobs and keep their records", rm_opts, 1, 256, exec_rm},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
