/*
 * cmd_data: fetches what a job left: get.
 */
#include "jobctl/verbs/verbs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "jobctl/client/bundle.h"
#include "jobctl/client/interrupt.h"
#include "jobctl/client/job.h"
#include "jobctl/client/ref.h"
#include "jobctl/show/print.h"
#include "jobctl/verbs/checkpoints.h"

#define MEMBERS_NAMED 8 /* members that a message names */

static int first_entry(const char *name, void *arg)
{
	(void)name;
	*(int *)arg = 1;
	return -1;
}

/* Refuses a target that exists and is not empty, unless --force is given. */
static int check_target(struct ctx *c, const char *dir)
{
	struct stat st;
	if (stat(dir, &st))
		return errno == ENOENT ? 0 : err_sys(&c->err, errno, "%s", dir);
	if (!S_ISDIR(st.st_mode))
		return ctx_fail(c, ERR_CONFLICT, "%s exists and is not a directory", dir);
	int any = 0;
	fs_each(dir, first_entry, &any, NULL);
	if (any && !args_has(&c->args, "force"))
		return ctx_fail(c, ERR_CONFLICT, "%s is not empty; choose another directory or add --force", dir);
	return 0;
}

static int is_wanted(const cJSON *a, const char *kind, double attempt)
{
	return strcmp(print_member(a, "kind"), kind) == 0 && print_number(a, "attempt") == attempt;
}

/* Returns whether a later artifact of the same node replaces this one: its upload was repeated. */
static int is_replaced(const cJSON *a, const char *kind, double attempt)
{
	const char *node = jtext(a, "node");
	for (const cJSON *next = a->next; next; next = next->next) {
		const char *other = jtext(next, "node");
		if (is_wanted(next, kind, attempt) && strcmp(other ? other : "", node ? node : "") == 0)
			return 1;
	}
	return 0;
}

/* Returns the requested attempt, else the newest that left something of the kind; 0: none. */
static double choose_attempt(const cJSON *list, const char *kind, uint64_t wanted)
{
	double newest = 0;
	const cJSON *a;
	cJSON_ArrayForEach (a, list) {
		if (strcmp(print_member(a, "kind"), kind) == 0 && print_number(a, "attempt") > newest)
			newest = print_number(a, "attempt");
	}
	return wanted ? (double)wanted : newest;
}

/* Notes that an earlier attempt left one, too; it may have more than the newest. */
static void note_others(const char *ref, const cJSON *list, const char *kind, double attempt)
{
	double last = 0;
	const cJSON *a;
	cJSON_ArrayForEach (a, list) {
		const char *digest = jtext(a, "digest");
		if (strcmp(print_member(a, "kind"), kind) == 0 && print_number(a, "attempt") < attempt && digest &&
		    *digest && print_number(a, "attempt") > last)
			last = print_number(a, "attempt");
	}
	if (last > 0)
		fprintf(stderr,
		        "Note: this is from attempt %.0f; attempt %.0f left one, too: jobctl get %s %s -a %.0f\n",
		        attempt, last, ref, kind, last);
}

static int get_one(struct ctx *c, uint64_t job, const cJSON *a, const char *dir)
{
	const char *uri = jtext(a, "uri"), *digest = jtext(a, "digest");
	char *query = xasprintf("job=%" PRIu64 "&kind=%s", job, print_member(a, "kind"));
	int rc;
	if (digest && *digest)
		rc = bundle_download(c->client, digest, query, dir, &c->err);
	else if (uri && *uri)
		rc = bundle_copy(uri, dir, &c->err);
	else
		rc = ctx_fail(c, ERR_PROTOCOL, "the controller's answer has no place to fetch it from");
	free(query);
	return rc;
}

/* Fetches the artifacts of a kind. If several nodes left one, each goes into a folder with the node's name.
 */
static int get_artifacts(struct ctx *c, uint64_t job, const char *ref, const char *kind, const char *dir,
                         unsigned *got)
{
	char *path = xasprintf("/jobs/%" PRIu64 "/artifacts", job);
	cJSON *answer;
	uint64_t wanted = 0;
	int rc = args_u64(&c->args, "attempt", 1, UINT32_MAX, &wanted, &c->err);
	if (!rc)
		rc = ctx_get(c, "GET", path, NULL, &answer);
	free(path);
	if (rc)
		return -1;
	const cJSON *a, *list = jget(answer, "artifacts");
	double attempt = choose_attempt(list, kind, wanted);
	if (!wanted)
		note_others(ref, list, kind, attempt);
	unsigned n = 0;
	*got = 0;
	cJSON_ArrayForEach (a, list)
		n += is_wanted(a, kind, attempt) && !is_replaced(a, kind, attempt);
	cJSON_ArrayForEach (a, list) {
		if (rc || !is_wanted(a, kind, attempt) || is_replaced(a, kind, attempt))
			continue;
		const char *node = jtext(a, "node");
		char *to = n > 1 && node && str_safe_relpath(node) ? xasprintf("%s/%s", dir, node) : xstrdup(dir);
		rc = get_one(c, job, a, to);
		*got += !rc;
		free(to);
	}
	cJSON_Delete(answer);
	return rc;
}

static int get_code(struct ctx *c, uint64_t job, const char *dir, unsigned *got)
{
	cJSON *answer = ctx_job(c, job);
	const char *digest = jtext(answer, "bundle");
	int rc = answer ? 0 : -1;
	if (!rc && digest && *digest) {
		char *query = xasprintf("job=%" PRIu64 "&kind=code", job);
		rc = bundle_download(c->client, digest, query, dir, &c->err);
		*got = !rc;
		free(query);
	}
	cJSON_Delete(answer);
	return rc;
}

/* Returns whether this member left something of the kind. */
static int left_kind(const cJSON *member, const char *kind)
{
	const cJSON *k;
	cJSON_ArrayForEach (k, jget(member, "kinds")) {
		if (cJSON_IsString(k) && strcmp(k->valuestring, kind) == 0)
			return 1;
	}
	return 0;
}

/* Names the members that left something; an array or a sweep itself leaves nothing. Returns -1. */
static int members_left(struct ctx *c, uint64_t job, const char *kind)
{
	char *path = xasprintf("/jobs/%" PRIu64 "/artifacts", job), *list = xstrdup(""), first[48] = "";
	cJSON *answer;
	const cJSON *m;
	unsigned n = 0;
	int rc = ctx_get(c, "GET", path, NULL, &answer);
	free(path);
	if (rc) {
		free(list);
		return -1;
	}
	cJSON_ArrayForEach (m, jget(answer, "members")) {
		if (!left_kind(m, kind) || n++ >= MEMBERS_NAMED)
			continue;
		if (n == 1)
			snprintf(first, sizeof(first), "%s", print_member(m, "ref"));
		xappendf(&list, "%s%s", n > 1 ? ", " : "", print_member(m, "ref"));
	}
	cJSON_Delete(answer);
	if (!n)
		ctx_fail(c, ERR_NOT_FOUND, "no member of job %" PRIu64 " left a %s", job, kind);
	else if (n > MEMBERS_NAMED)
		ctx_fail(c, ERR_NOT_FOUND,
		         "job %" PRIu64
		         " is an array or a sweep; its members with a %s are %s and %u more: jobctl get %s %s",
		         job, kind, list, n - MEMBERS_NAMED, first, kind);
	else
		ctx_fail(c, ERR_NOT_FOUND,
		         "job %" PRIu64 " is an array or a sweep; the %s is in its member%s %s: jobctl get %s %s",
		         job, kind, n > 1 ? "s" : "", list, first, kind);
	free(list);
	return -1;
}

/* Names what the job left instead, or its state if it has not ended. Returns -1. */
static int left_none(struct ctx *c, const cJSON *record, const char *ref, const char *kind)
{
	const char *status = jtext(record, "status");
	char *kinds = xstrdup("");
	const cJSON *a;
	cJSON_ArrayForEach (a, jget(record, "artifacts")) {
		const char *k = print_member(a, "kind");
		if (strstr(kinds, k))
			continue;
		xappendf(&kinds, "%s%s", *kinds ? ", " : "", k);
	}
	c->err = (struct err){0};
	ctx_fail(c, ERR_NOT_FOUND, "job %s left no %s%s%s%s%s", ref, kind, *kinds ? "; it left: " : "", kinds,
	         status && !job_ended(status) ? "; it is " : "", status && !job_ended(status) ? status : "");
	free(kinds);
	return -1;
}

/* Fetches into dir. */
static int fetch_it(struct ctx *c, uint64_t job, const cJSON *record, const char *ref, const char *kind,
                    const char *dir)
{
	unsigned got = 0;
	if (args_has(&c->args, "step"))
		return checkpoint_fetch(c, job, ref, dir);
	int rc =
	    strcmp(kind, "code") != 0 ? get_artifacts(c, job, ref, kind, dir, &got) : get_code(c, job, dir, &got);
	if (rc || got)
		return rc;
	if (cJSON_IsObject(jget(record, "members")) && strcmp(kind, "code") != 0)
		return members_left(c, job, kind);
	return left_none(c, record, ref, kind);
}

static int exec_get(struct ctx *c)
{
	static const char *const kinds[] = {"model", "output", "checkpoint", "code", NULL};
	const char *kind = c->args.operand[1];
	uint64_t job;
	int known = 0;
	for (const char *const *k = kinds; *k; k++)
		known |= strcmp(*k, kind) == 0;
	if (!known)
		return ctx_fail(c, ERR_INVALID, "'%s': expected model, output, checkpoint or code", kind);
	if (args_has(&c->args, "step") && (strcmp(kind, "checkpoint") != 0 || args_has(&c->args, "attempt")))
		return ctx_fail(c, ERR_INVALID,
		                "--step is for checkpoints, without --attempt: "
		                "jobctl get JOB checkpoint --step N");
	if (ref_resolve(c, c->args.operand[0], &job))
		return -1;
	cJSON *record = ctx_job(c, job);
	if (!record)
		return -1;
	char *ref = xstrdup(print_member(record, jtext(record, "ref") ? "ref" : "id"));
	char *dir = c->args.n > 2 ? xstrdup(c->args.operand[2]) : xasprintf("%s-%s", ref, kind);
	int rc = check_target(c, dir);
	interrupt_catch(); /* an interrupted download removes its partial files */
	if (!rc)
		rc = fetch_it(c, job, record, ref, kind, dir);
	cJSON_Delete(record);
	free(ref);
	if (!rc && c->json) {
		cJSON *j = cJSON_CreateObject();
		cJSON_AddStringToObject(j, "directory", dir);
		ctx_show_json(c, j);
		cJSON_Delete(j);
	} else if (!rc) {
		puts(dir);
	}
	free(dir);
	return rc;
}

static const struct arg_opt get_opts[] = {
    {"force", 'f', NULL, "Write into a directory that is not empty"},
    {"attempt", 'a', "N", "Fetch what attempt N left (default: the newest that left it)"},
    {"step", 's', "N", "Fetch the registered checkpoint of step N (jobctl checkpoints JOB)"},
    {NULL, 0, NULL, NULL}};
const struct verb verbs_data[] = {
    {"get", "JOB model|output|checkpoint|code [DIR]", "Fetch what a job left", get_opts, 2, 3, exec_get},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
