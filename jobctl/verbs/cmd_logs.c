/*
 * cmd_logs: what a job prints, live or past: the verb `logs`, and `submit --follow`. show/log_stream reads
 * one stream, show/manylogs several ranks together.
 */
#include "jobctl/verbs/verbs.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/spec/launcher.h"
#include "jobctl/client/interrupt.h"
#include "jobctl/client/ref.h"
#include "jobctl/show/grep.h"
#include "jobctl/show/log_absent.h"
#include "jobctl/show/log_stream.h"
#include "jobctl/show/loglines.h"
#include "jobctl/show/manylogs.h"
#include "jobctl/show/print.h"
#include "jobctl/verbs/follow_log.h"
#include "jobctl/verbs/job_end.h"

static int show_log(struct log_stream *l, int by_default)
{
	if (!ctx_client(l->c))
		return -1;
	log_stream_seek_tail(l);
	int rc = log_stream_read_all(l);
	if (rc == -1 && l->c->err.code == ERR_NOT_FOUND) {
		if (l->any || (by_default && !log_absent_fallback(l, 0)))
			return 0;
		log_absent_explain(l, by_default);
	} else if (!rc && by_default && !l->any && !l->first) {
		if (log_absent_fallback(l, 1) && !l->wanted_follow)
			log_absent_report_silence(l);
	}
	return rc;
}

int follow_log(struct ctx *c, uint64_t job)
{
	struct log_stream l = {.c = c, .job = job, .stream = xstrdup("rank-0"), .follow = 1};
	l.lines = c->json ? loglines_create(stdout, NULL) : NULL;
	interrupt_catch();
	int rc = show_log(&l, 1);
	if (rc == EXIT_INTERRUPTED)
		job_end_left_running(job);
	/* A job may complete although rank 0 wrote nothing. */
	if (rc == -1 && c->err.code == ERR_NOT_FOUND && !l.any)
		rc = 0;
	log_stream_fini(&l);
	return rc;
}

static int choose_stream(struct ctx *c, struct log_stream *l)
{
	const char *stream = args_get(&c->args, "stream"), *rank = args_get(&c->args, "rank"),
	           *node = args_get(&c->args, "node");
	uint64_t n;
	if (rank && (stream || node))
		return ctx_fail(c, ERR_INVALID, "give --rank or --%s, not both", stream ? "stream" : "node");
	if (rank && !rank_set_is(rank) && str_parse_u64(rank, &n))
		return ctx_fail(c, ERR_INVALID, "--rank '%s': expected a number, a list (0,2), a range (0-3) or all",
		                rank);
	if (rank)
		l->stream = xasprintf("rank-%s", rank);
	else
		l->stream = xstrdup(stream ? stream : node ? "rank" : "rank-0");
	if (node)
		l->node = str_parse_u64(node, &n) ? xstrdup(node) : xasprintf("algo-%s", node);
	return 0;
}

static int choose_start(struct ctx *c, struct log_stream *l)
{
	const char *s = args_get(&c->args, "offset");
	uint64_t n;
	l->tail = args_has(&c->args, "tail");
	if (l->tail && s)
		return ctx_fail(c, ERR_INVALID, "give --tail or --offset, not both");
	if (args_u64(&c->args, "tail", 0, UINT32_MAX, &l->tail_lines, &c->err))
		return -1;
	if (!s)
		return 0;
	if (str_parse_u64(s + (*s == '-'), &n) || n > INT64_MAX)
		return ctx_fail(c, ERR_INVALID,
		                "--offset '%s': expected a number of bytes; a negative number counts from the end",
		                s);
	l->first = *s == '-' ? -(int64_t)n : (int64_t)n;
	return 0;
}

static int list_streams(struct ctx *c, uint64_t job)
{
	const char *const heads[] = {">ATTEMPT", "STREAM", ">SIZE", "COMPLETE", print_zone_head("LAST")};
	char *path = xasprintf("/jobs/%" PRIu64 "/logs", job);
	cJSON *answer;
	int rc = ctx_call(c, "GET", path, NULL, &answer);
	free(path);
	if (rc)
		return rc < 0 ? -1 : 0;
	struct table *t = table_create(heads, 5);
	const cJSON *s;
	cJSON_ArrayForEach (s, jget(answer, "streams")) {
		char size[32];
		table_cell(t, print_member(s, "attempt"));
		table_cell(t, print_member(s, "stream"));
		table_cell(t, str_size((uint64_t)print_number(s, "size"), size, sizeof(size)));
		table_cell(t, print_member(s, "complete"));
		table_cell(t, print_time(jtext(s, "last_at")));
	}
	if (table_rows(t))
		table_print(t);
	else
		puts("No log streams yet.");
	table_destroy(t);
	cJSON_Delete(answer);
	return 0;
}

/* Refuses options for lines together with --list. */
static int check_list(struct ctx *c)
{
	static const char *const lines_only[] = {"follow", "rank", "node", "stream", "attempt",
	                                         "offset", "tail", "grep", NULL};
	for (const char *const *o = lines_only; *o && args_has(&c->args, "list"); o++)
		if (args_has(&c->args, *o))
			return ctx_fail(c, ERR_INVALID,
			                "--list shows all streams; --%s is only for the lines of one stream", *o);
	return 0;
}

/* Shows several ranks together; l has the options. */
static int show_ranks(struct log_stream *l)
{
	struct ctx *c = l->c;
	struct manylogs_ask ask = {.job = l->job,
	                           .attempt = l->attempt,
	                           .follow = l->wanted_follow,
	                           .tail = l->tail,
	                           .tail_lines = l->tail_lines,
	                           .only = l->grep};
	if (args_has(&c->args, "offset"))
		return ctx_fail(c, ERR_INVALID, "--offset works with one rank only; with several ranks use --tail");
	if (rank_set_parse(args_get(&c->args, "rank"), &ask.ranks, &c->err))
		return -1;
	int rc = manylogs_show(c, &ask, &l->any);
	rank_set_fini(&ask.ranks);
	return rc;
}

static int exec_logs(struct ctx *c)
{
	struct log_stream l = {.c = c, .wanted_follow = args_has(&c->args, "follow")};
	const char *pattern = args_get(&c->args, "grep");
	int by_default =
	    !args_has(&c->args, "rank") && !args_has(&c->args, "stream") && !args_has(&c->args, "node");
	int rc = check_list(c) || choose_stream(c, &l) || choose_start(c, &l) ||
	                 args_u64(&c->args, "attempt", 1, UINT32_MAX, &l.attempt, &c->err) ||
	                 (pattern && !(l.grep = grep_create(pattern, stdout, &c->err))) ||
	                 ref_resolve(c, c->args.operand[0], &l.job)
	             ? -1
	             : 0;
	l.follow = l.wanted_follow;
	l.pinned = l.attempt != 0;
	if (!rc && args_has(&c->args, "list")) {
		rc = list_streams(c, l.job);
	} else if (!rc) {
		if (l.follow)
			interrupt_catch();
		int many = args_has(&c->args, "rank") && rank_set_is(args_get(&c->args, "rank"));
		l.lines = c->json && !many ? loglines_create(stdout, l.grep) : NULL;
		rc = many ? show_ranks(&l) : show_log(&l, by_default);
		int silent = rc == -1 && by_default && c->err.code == ERR_NOT_FOUND && !l.any;
		/* The job's result decides, as in submit -f; one requested attempt is not the job. */
		if ((!rc || silent) && l.wanted_follow && !l.pinned && !l.failed)
			rc = job_end_report_aside(c, l.job);
	}
	log_stream_fini(&l);
	return rc;
}

static const struct arg_opt logs_opts[] = {
    {"follow", 'f', NULL, "Continue until the job has ended, over all its attempts"},
    {"rank", 'r', "N|LIST|all", "Show rank N (default 0), or several together: 0-3, 0,2, all"},
    {"node", 'N', "N|NAME", "Show the first rank on node algo-N, or on the machine NAME"},
    {"stream", 's', "NAME",
     "Show this stream: rank-N, " LAUNCHER_STREAMS
     ", setup or system (the last two with --node; default algo-1)"},
    {"attempt", 'a', "N", "Show attempt N (default: the newest)"},
    {"offset", 0, "BYTES", "Begin at that byte; a negative number counts from the end"},
    {"tail", 'n', "N", "Show only the last N lines, and with -f what follows"},
    {"grep", 'g', "REGEX", "Show only lines that match"},
    {"list", 'l', NULL, "List the streams"},
    {NULL, 0, NULL, NULL}};

const struct verb verbs_logs[] = {{"logs", "JOB", "Show what a job prints", logs_opts, 1, 1, exec_logs},
                                  {NULL, NULL, NULL, NULL, 0, 0, NULL}};
