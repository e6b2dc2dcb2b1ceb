/*
 * log_absent: see log_absent.h.
 */
#include "jobctl/show/log_absent.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/xalloc.h"
#include "common/spec/launcher.h"
#include "jobctl/client/ctx.h"
#include "jobctl/client/job.h"
#include "jobctl/show/log_stream.h"
#include "jobctl/show/print.h"

static cJSON *fetch_streams(struct log_stream *l)
{
	char *path = xasprintf("/jobs/%" PRIu64 "/logs", l->job);
	cJSON *answer = NULL;
	struct err saved = l->c->err;
	ctx_get(l->c, "GET", path, NULL, &answer);
	l->c->err = saved;
	free(path);
	return answer;
}

/* Adds the names of the existing streams to the message about a missing one. */
static void name_streams(struct log_stream *l)
{
	cJSON *answer = fetch_streams(l);
	const cJSON *s;
	char *all = xstrdup("");
	cJSON_ArrayForEach (s, jget(answer, "streams")) {
		int twice = 0; /* each attempt has its own */
		for (const cJSON *b = jget(answer, "streams")->child; b != s; b = b->next)
			twice |= strcmp(print_member(b, "stream"), print_member(s, "stream")) == 0;
		if (twice)
			continue;
		xappendf(&all, "%s%s", *all ? ", " : "", print_member(s, "stream"));
	}
	if (*all) {
		char *old = xstrdup(l->c->err.text);
		err_set(&l->c->err, l->c->err.code,
		        "%s\nThe streams are: %s\nShow one: jobctl logs %" PRIu64 " --stream NAME", old, all, l->job);
		free(old);
	}
	free(all);
	cJSON_Delete(answer);
}

/* Returns whether this stream has text in the attempt that was asked for. */
static int stream_has_text(const struct log_stream *l, const cJSON *streams, const char *stream)
{
	const cJSON *s;
	cJSON_ArrayForEach (s, jget(streams, "streams")) {
		if (strcmp(print_member(s, "stream"), stream) == 0 && print_number(s, "size") > 0 &&
		    (!l->pinned || print_number(s, "attempt") == (double)l->attempt))
			return 1;
	}
	return 0;
}

/* A rank that ran silently was set up well, so the preparation's output would mislead. */
int log_absent_fallback(struct log_stream *l, int ran)
{
	cJSON *answer = fetch_streams(l);
	const char *found = NULL;
	const struct launcher_proc *proc;
	for (size_t i = 0; !found && (proc = launcher_proc_at(i)); i++)
		if (proc->own_stream && stream_has_text(l, answer, proc->name))
			found = proc->name;
	if (!found && !ran && stream_has_text(l, answer, "setup-algo-1"))
		found = "setup-algo-1";
	cJSON_Delete(answer);
	if (!found)
		return -1;
	fprintf(stderr, "[hearth: rank 0 wrote nothing; showing stream %s]\n", found);
	free(l->stream);
	l->stream = xstrdup(found);
	l->attempt = l->pinned ? l->attempt : 0;
	l->follow = 0;
	*l->real = 0;
	log_stream_seek_tail(l);
	int rc = log_stream_read(l);
	log_stream_end_line(l);
	return rc;
}

void log_absent_report_silence(struct log_stream *l)
{
	struct err saved = l->c->err;
	cJSON *job = ctx_job(l->c, l->job), *answer = fetch_streams(l);
	const char *status = jtext(job, "status"), *more = NULL;
	const cJSON *s;
	uint64_t id = l->job;
	l->c->err = saved;
	cJSON_ArrayForEach (s, jget(answer, "streams")) {
		if (print_number(s, "size") > 0 && print_number(s, "attempt") >= (double)l->attempt &&
		    (!more || strncmp(more, "system", 6) == 0))
			more = jtext(s, "stream");
	}
	if (status && !job_ended(status)) {
		fprintf(stderr,
		        "[hearth: rank 0 has written nothing yet; to wait for it: jobctl logs %" PRIu64 " -f]\n", id);
	} else if (status) {
		char *local = print_local(print_member(job, "reason")), *reason = print_safe(local);
		int failed = job_exit_code(status) != EXIT_OK;
		fprintf(stderr, "[hearth: rank 0 wrote nothing; the job is %s%s%s]\n", status, failed ? ": " : "",
		        failed ? reason : "");
		if (failed && more)
			fprintf(stderr, "More: jobctl logs %" PRIu64 " -s %s; jobctl why %" PRIu64 "\n", id, more, id);
		else if (failed)
			fprintf(stderr, "More: jobctl why %" PRIu64 "\n", id);
		free(reason);
		free(local);
	}
	cJSON_Delete(answer);
	cJSON_Delete(job);
}

/* Replaces "no such stream" by the reason: nothing was started, or not yet. */
static void explain_absence(struct log_stream *l, int by_default)
{
	struct err saved = l->c->err;
	cJSON *job = ctx_job(l->c, l->job);
	const char *status = jtext(job, "status");
	double attempts = print_number(job, "attempt_count");
	uint64_t id = l->job;
	l->c->err = saved;
	if (cJSON_IsObject(jget(job, "members")))
		ctx_fail(l->c, ERR_NOT_FOUND,
		         "job %" PRIu64 " is an array or a sweep; its members have the logs: jobctl logs %" PRIu64
		         ".0",
		         id, id);
	else if (status && attempts < 1)
		ctx_fail(l->c, ERR_NOT_FOUND, "job %" PRIu64 " has no log%s: it %s %s%s%s", id,
		         job_ended(status) ? "" : " yet", job_ended(status) ? "was" : "is", status,
		         job_ended(status) ? " before it started" : "; why: jobctl why ",
		         job_ended(status) ? "" : print_member(job, "id"));
	else if (status && l->pinned && (double)l->attempt > attempts)
		ctx_fail(l->c, ERR_NOT_FOUND,
		         "job %" PRIu64 " has only %.0f attempt%s; attempt %" PRIu64 " does not exist", id, attempts,
		         attempts == 1 ? "" : "s", l->attempt);
	else if (status && by_default && !job_ended(status))
		ctx_fail(l->c, ERR_NOT_FOUND,
		         "rank 0 of job %" PRIu64 " has written nothing yet; to wait for it: jobctl logs %" PRIu64
		         " -f",
		         id, id);
	cJSON_Delete(job);
}

void log_absent_explain(struct log_stream *l, int by_default)
{
	explain_absence(l, by_default);
	name_streams(l);
}
