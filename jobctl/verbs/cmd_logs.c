/*
 * cmd_logs: what a job prints, live or past.
 *
 * A log is followed over the raw endpoint from an offset. When the connection is lost it is taken up again at
 * the next byte of the same attempt, so nothing is shown twice or left out. When the attempt is over but the
 * job is not, the next attempt's stream follows. Before there is anything to show, standard error is told
 * what the job waits for.
 */
#include "common/base/clock.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/spec/launcher.h"
#include "jobctl/client/interrupt.h"
#include "jobctl/jobctl.h"
#include "jobctl/show/grep.h"
#include "jobctl/show/loglines.h"
#include "jobctl/show/manylogs.h"
#include "jobctl/show/print.h"
#include "jobctl/show/waiting.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct bytes;

#define STREAM_NAME_MAX 256

struct log {
	struct ctx *c;
	uint64_t job;
	char *stream, *node;       /* as asked; node NULL: not said */
	int follow, wanted_follow; /* now; as asked */
	uint64_t attempt;          /* 0: the newest; known from the first answer on */
	int pinned;                /* the attempt was asked for: no other is shown */
	int64_t first;             /* where to begin; negative: before the end */
	uint64_t offset;           /* of the next byte, once begun */
	int tail;                  /* only the last lines */
	uint64_t tail_lines;
	struct bytes *end; /* of the log, while these are looked for */
	int begun;         /* an answer has come */
	int any;           /* bytes were shown */
	int failed;        /* standard output takes no more */
	struct grep *grep;
	struct loglines *lines;     /* with --json */
	char real[STREAM_NAME_MAX]; /* what the stream is called where it is kept: setup is setup-algo-1 */
	uint64_t lost_us;           /* since when the controller is away; 0 it is not */
	struct waiting *waiting;    /* says what is waited for while the stream is quiet; NULL not yet */
};

/* ---- the state, while there is nothing else to show ---------------------------------------------- */

static void wipe(struct log *l)
{
	if (l->waiting)
		waiting_wipe(l->waiting);
}

/* Called about once a second. */
static void on_idle(void *arg)
{
	struct log *l = arg;
	if (l->any || !l->follow)
		return;
	if (!l->waiting)
		l->waiting = waiting_create(l->c, l->job);
	waiting_tick(l->waiting);
}

/* ---- one stream ---------------------------------------------------------------------------------- */

static const char *real_stream(const struct log *l)
{
	return *l->real ? l->real : l->stream;
}

static int on_log(const char *p, size_t n, void *arg)
{
	struct log *l = arg;
	wipe(l);
	if (l->lines)
		loglines_feed(l->lines, l->attempt, real_stream(l), l->offset, p, n);
	l->offset += n;
	l->any = 1;
	if (l->lines)
		;
	else if (l->grep)
		grep_feed(l->grep, p, n);
	else
		fwrite(p, 1, n, stdout);
	l->failed = fflush(stdout) || ferror(stdout);
	return l->failed ? -1 : 0;
}

/* Value of a header with a number. 1: it is that header. */
static int header_u64(const char *p, size_t n, const char *name, uint64_t *out)
{
	char number[32];
	size_t k = 0, len = strlen(name);
	if (n <= len || strncasecmp(p, name, len) != 0)
		return 0;
	for (size_t i = len; i < n && k < sizeof(number) - 1; i++) {
		if (p[i] >= '0' && p[i] <= '9')
			number[k++] = p[i];
	}
	number[k] = 0;
	return !str_parse_u64(number, out);
}

static void header_stream(const char *p, size_t n, struct log *l)
{
	static const char name[] = "x-hearth-stream:";
	size_t skip = sizeof(name) - 1;
	if (n <= skip || strncasecmp(p, name, skip) != 0)
		return;
	while (skip < n && p[skip] == ' ')
		skip++;
	snprintf(l->real, sizeof(l->real), "%.*s", (int)strcspn(p + skip, "\r\n"), p + skip);
}

static void say_lost(struct log *l, uint64_t offset, uint64_t lost)
{
	wipe(l);
	if (l->lines)
		loglines_lost(l->lines, l->attempt, real_stream(l), offset, lost);
	else
		printf("[hearth: %llu bytes before this are no longer kept]\n", (unsigned long long)lost);
}

/* Where the answer really begins: later than asked when older bytes were removed by age. */
static int on_header(const char *p, size_t n, void *arg)
{
	struct log *l = arg;
	uint64_t v;
	if (n > 12 && !strncmp(p, "HTTP/", 5)) {
		l->lost_us = memmem(p, n < 16 ? n : 16, " 200", 4) ? 0 : l->lost_us;
	} else if (header_u64(p, n, "x-hearth-attempt:", &v)) {
		l->attempt = v;
	} else if (header_u64(p, n, "x-hearth-offset:", &v)) {
		uint64_t wanted = l->begun ? l->offset : l->first < 0 ? v : (uint64_t)l->first;
		if (v > wanted)
			say_lost(l, v, v - wanted);
		l->offset = v;
		l->begun = 1;
	} else {
		header_stream(p, n, l);
	}
	return 0;
}

static char *log_path(const struct log *l)
{
	char *stream = client_escape(l->stream), *node = l->node ? client_escape(l->node) : NULL;
	/* skip=0: a slow reader here holds up nobody but itself, and wants every byte. */
	char *path =
	    xasprintf("/jobs/%llu/logs/%s?offset=%lld&skip=0&follow=%d&attempt=%llu%s%s",
	              (unsigned long long)l->job, stream, l->begun ? (long long)l->offset : (long long)l->first,
	              l->follow, (unsigned long long)l->attempt, node ? "&node=" : "", node ? node : "");
	free(stream);
	free(node);
	return path;
}

#define TAIL_FIRST (64 * 1024)
#define TAIL_MOST  (64 * 1024 * 1024)

struct bytes {
	char *p;
	size_t n;
};

static int on_bytes(const char *p, size_t n, void *arg)
{
	struct bytes *b = ((struct log *)arg)->end;
	if (b->n + n > TAIL_MOST)
		return -1;
	b->p = xrealloc(b->p, b->n + n + 1);
	memcpy(b->p + b->n, p, n);
	b->n += n;
	return 0;
}

/* Where the last `lines` lines begin; *all: are there so many? */
static size_t lines_from(const struct bytes *b, uint64_t lines, int *all)
{
	size_t i = b->n && b->p[b->n - 1] == '\n' ? b->n - 1 : b->n;
	*all = 1;
	if (!lines)
		return b->n;
	for (; i > 0; i--) {
		if (b->p[i - 1] == '\n' && --lines == 0)
			return i;
	}
	*all = 0;
	return 0;
}

/* Sets first to where the last lines begin, by reading ever more of the end. What cannot be read is found out
 * by reading from the start. */
static void seek_tail(struct log *l)
{
	int follow = l->follow, all = 0;
	int64_t first = 0;
	uint64_t before = UINT64_MAX;
	for (int64_t ask = TAIL_FIRST; l->tail && !all && ask <= TAIL_MOST / 2; ask *= 4) {
		struct bytes b = {0};
		struct err ignored;
		l->end = &b;
		l->first = -ask;
		l->begun = l->follow = 0;
		char *path = log_path(l);
		int rc = client_stream(l->c->client, path, "application/octet-stream", NULL, on_bytes, on_header, l,
		                       &ignored);
		if (!rc)
			first = (int64_t)(l->offset + lines_from(&b, l->tail_lines, &all));
		free(path);
		free(b.p);
		/* All of it was read, or all that is kept. */
		if (rc || l->offset == 0 || l->offset == before)
			break;
		before = l->offset;
	}
	l->end = NULL;
	l->follow = follow;
	if (l->tail) {
		l->begun = 0;
		l->offset = 0;
		l->first = first;
	}
}

/* 1: the job has ended, 0: it goes on; -1 unknown, c->err is set. *attempts: how many it had so far; *placed:
 * its nodes and ranks are known, so what cannot be found now never will. */
static int is_over(struct log *l, uint64_t *attempts, int *placed)
{
	cJSON *job = ctx_job(l->c, l->job);
	const char *status = jtext(job, "status");
	int over = job ? status && job_ended(status) : -1;
	*placed = status && (!strcmp(status, "starting") || !strcmp(status, "running"));
	*attempts = (uint64_t)print_number(job, "attempt_count");
	cJSON_Delete(job);
	return over;
}

/* What an error of the transfer means: 0 try again, -1 it is final. */
static int after_error(struct log *l, const struct err *e)
{
	uint64_t now = clock_boot_us(clock_real()), attempts;
	int placed;
	if (e->code == ERR_NOT_FOUND && l->follow && !l->pinned) {
		int over = is_over(l, &attempts, &placed);
		/* The attempt ended before its rank wrote anything, and another one began. */
		if (over >= 0 && !l->begun && l->attempt && attempts > l->attempt) {
			l->attempt = attempts;
			return 0;
		}
		if (over < 0 || (!over && !placed))
			return over;
	} else if (e->code == ERR_UNAVAILABLE || e->code == ERR_BUSY) {
		unsigned patience = l->follow ? LOST_PATIENCE_S : CLIENT_PATIENCE_S;
		if (!l->lost_us)
			l->lost_us = now;
		if (now - l->lost_us < (uint64_t)patience * 1000000)
			return 0;
	}
	l->c->err = *e;
	return -1;
}

/* One attempt's stream to its end. 0, -1, EXIT_INTERRUPTED. */
static int read_stream(struct log *l)
{
	int pause_ms = 20;
	for (;;) {
		char *path = log_path(l);
		uint64_t before = l->offset;
		struct err e = {0};
		client_on_idle(l->c->client, on_idle, l);
		int rc =
		    client_stream(l->c->client, path, "application/octet-stream", NULL, on_log, on_header, l, &e);
		client_on_idle(l->c->client, NULL, NULL);
		free(path);
		wipe(l);
		if (interrupted())
			return EXIT_INTERRUPTED;
		if (rc == 0 || l->failed)
			return 0; /* that the output failed is found by main */
		if (l->offset > before)
			pause_ms = 20;
		if (after_error(l, &e))
			return -1;
		if (interrupt_sleep(pause_ms))
			return EXIT_INTERRUPTED;
		pause_ms = pause_ms < 1000 ? pause_ms * 2 : 1000;
	}
}

/* After the end of an attempt's stream: 1 another attempt has begun, 0 the job has ended. */
static int next_attempt(struct log *l)
{
	int pause_ms = 10;
	for (;;) {
		uint64_t attempts;
		int placed;
		unsigned old = client_patience(l->c->client, LOST_PATIENCE_S);
		int over = is_over(l, &attempts, &placed);
		client_patience(l->c->client, old);
		if (interrupted())
			return EXIT_INTERRUPTED;
		if (over < 0)
			return -1;
		if (attempts > l->attempt)
			return 1;
		if (over)
			return 0;
		if (interrupt_sleep(pause_ms))
			return EXIT_INTERRUPTED;
		pause_ms = pause_ms < 500 ? pause_ms * 2 : 500;
	}
}

static void end_line(struct log *l)
{
	if (l->lines)
		loglines_end(l->lines);
	else if (l->grep)
		grep_end_line(l->grep);
}

static int read_all(struct log *l)
{
	for (;;) {
		int rc = read_stream(l);
		end_line(l);
		if (rc || !l->follow || l->pinned || l->failed)
			return rc;
		rc = next_attempt(l);
		if (rc != 1)
			return rc;
		fprintf(stderr, "[hearth: attempt %llu]\n", (unsigned long long)l->attempt + 1);
		l->attempt++;
		l->begun = 0;
		l->first = 0;
		l->offset = 0;
	}
}

static void log_fini(struct log *l)
{
	waiting_destroy(l->waiting);
	loglines_destroy(l->lines);
	grep_destroy(l->grep);
	free(l->stream);
	free(l->node);
}

/* ---- which stream -------------------------------------------------------------------------------- */

static cJSON *streams_of(struct log *l)
{
	char *path = xasprintf("/jobs/%llu/logs", (unsigned long long)l->job);
	cJSON *answer = NULL;
	struct err saved = l->c->err;
	ctx_get(l->c, "GET", path, NULL, &answer);
	l->c->err = saved;
	free(path);
	return answer;
}

/* Names of the streams there are, for the message when one is missing. */
static void name_streams(struct log *l)
{
	cJSON *answer = streams_of(l);
	const cJSON *s;
	char *all = xstrdup("");
	cJSON_ArrayForEach (s, jget(answer, "streams")) {
		int twice = 0; /* each attempt has its own */
		for (const cJSON *b = jget(answer, "streams")->child; b != s; b = b->next)
			twice |= !strcmp(print_member(b, "stream"), print_member(s, "stream"));
		if (twice)
			continue;
		char *longer = xasprintf("%s%s%s", all, *all ? ", " : "", print_member(s, "stream"));
		free(all);
		all = longer;
	}
	if (*all) {
		char *old = xstrdup(l->c->err.text);
		err_set(&l->c->err, l->c->err.code, "%s\nThere are: %s (jobctl logs %llu --stream NAME)", old, all,
		        (unsigned long long)l->job);
		free(old);
	}
	free(all);
	cJSON_Delete(answer);
}

/* Does the list of streams show that this one has text in the attempt that is asked for? */
static int has_written(const struct log *l, const cJSON *streams, const char *stream)
{
	const cJSON *s;
	cJSON_ArrayForEach (s, jget(streams, "streams")) {
		if (strcmp(print_member(s, "stream"), stream) == 0 && print_number(s, "size") > 0 &&
		    (!l->pinned || print_number(s, "attempt") == (double)l->attempt))
			return 1;
	}
	return 0;
}

/* When rank 0 never wrote anything, what setting up and mpirun said is what helps. 0 shown, else c->err
 * stays. A rank that ran in silence was set up well: then only mpirun may have something to say. */
static int fallback(struct log *l, int ran)
{
	cJSON *answer = streams_of(l);
	const char *found = NULL;
	const struct launcher_proc *proc;
	for (size_t i = 0; !found && (proc = launcher_proc_at(i)); i++)
		if (proc->own_stream && has_written(l, answer, proc->name))
			found = proc->name;
	if (!found && !ran && has_written(l, answer, "setup-algo-1"))
		found = "setup-algo-1";
	cJSON_Delete(answer);
	if (!found)
		return -1;
	fprintf(stderr, "[hearth: rank 0 wrote nothing; this is the stream %s]\n", found);
	free(l->stream);
	l->stream = xstrdup(found);
	l->attempt = l->pinned ? l->attempt : 0;
	l->follow = 0;
	*l->real = 0;
	seek_tail(l);
	int rc = read_stream(l);
	end_line(l);
	return rc;
}

/* Rank 0 was silent, and nothing was found to show instead: how the job stands, and who has said more. */
static void say_silence(struct log *l)
{
	struct err saved = l->c->err;
	cJSON *job = ctx_job(l->c, l->job), *answer = streams_of(l);
	const char *status = jtext(job, "status"), *more = NULL;
	const cJSON *s;
	unsigned long long id = (unsigned long long)l->job;
	l->c->err = saved;
	cJSON_ArrayForEach (s, jget(answer, "streams")) {
		if (print_number(s, "size") > 0 && print_number(s, "attempt") >= (double)l->attempt &&
		    (!more || strncmp(more, "system", 6) == 0))
			more = jtext(s, "stream");
	}
	if (status && !job_ended(status)) {
		fprintf(stderr, "[hearth: rank 0 has written nothing yet; jobctl logs %llu -f waits for it]\n", id);
	} else if (status) {
		char *local = print_local(print_member(job, "reason")), *reason = print_safe(local);
		int failed = job_exit_code(status) != EXIT_OK;
		fprintf(stderr, "[hearth: rank 0 wrote nothing; the job is %s%s%s]\n", status, failed ? ": " : "",
		        failed ? reason : "");
		if (failed && more)
			fprintf(stderr, "More: jobctl logs %llu -s %s; jobctl why %llu\n", id, more, id);
		else if (failed)
			fprintf(stderr, "More: jobctl why %llu\n", id);
		free(reason);
		free(local);
	}
	cJSON_Delete(answer);
	cJSON_Delete(job);
}

/* Instead of that a stream is not there: that nothing was started, or that it is early. */
static void say_nothing_yet(struct log *l, int by_default)
{
	struct err saved = l->c->err;
	cJSON *job = ctx_job(l->c, l->job);
	const char *status = jtext(job, "status");
	double attempts = print_number(job, "attempt_count");
	unsigned long long id = (unsigned long long)l->job;
	l->c->err = saved;
	if (cJSON_IsObject(jget(job, "members")))
		ctx_fail(l->c, ERR_NOT_FOUND, "job %llu has no log of its own, its members have: jobctl logs %llu.0",
		         id, id);
	else if (status && attempts < 1)
		ctx_fail(l->c, ERR_NOT_FOUND, "job %llu has no log%s: it %s %s%s%s", id,
		         job_ended(status) ? "" : " yet", job_ended(status) ? "was" : "is", status,
		         job_ended(status) ? " before it began" : "; why: jobctl why ",
		         job_ended(status) ? "" : print_member(job, "id"));
	else if (status && l->pinned && (double)l->attempt > attempts)
		ctx_fail(l->c, ERR_NOT_FOUND, "job %llu has %.0f attempt%s, no attempt %llu", id, attempts,
		         attempts == 1 ? "" : "s", (unsigned long long)l->attempt);
	else if (status && by_default && !job_ended(status))
		ctx_fail(l->c, ERR_NOT_FOUND,
		         "rank 0 of job %llu has written nothing yet; jobctl logs %llu -f waits for it", id, id);
	cJSON_Delete(job);
}

static int show(struct log *l, int by_default)
{
	if (!ctx_client(l->c))
		return -1;
	seek_tail(l);
	int rc = read_all(l);
	if (rc == -1 && l->c->err.code == ERR_NOT_FOUND) {
		if (l->any || (by_default && !fallback(l, 0)))
			return 0;
		say_nothing_yet(l, by_default);
		name_streams(l);
	} else if (!rc && by_default && !l->any && !l->first) {
		if (fallback(l, 1) && !l->wanted_follow)
			say_silence(l);
	}
	return rc;
}

int job_follow_log(struct ctx *c, uint64_t job)
{
	struct log l = {.c = c, .job = job, .stream = xstrdup("rank-0"), .follow = 1};
	l.lines = c->json ? loglines_create(stdout, NULL) : NULL;
	interrupt_catch();
	int rc = show(&l, 1);
	if (rc == EXIT_INTERRUPTED)
		job_left_running(job);
	/* A job may end well without a word from rank 0. */
	if (rc == -1 && c->err.code == ERR_NOT_FOUND && !l.any)
		rc = 0;
	log_fini(&l);
	return rc;
}

static int choose_stream(struct ctx *c, struct log *l)
{
	const char *stream = args_get(&c->args, "stream"), *rank = args_get(&c->args, "rank"),
	           *node = args_get(&c->args, "node");
	uint64_t n;
	if (rank && (stream || node))
		return ctx_fail(c, ERR_INVALID, "--rank and --%s exclude each other", stream ? "stream" : "node");
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

static int choose_start(struct ctx *c, struct log *l)
{
	const char *s = args_get(&c->args, "offset");
	uint64_t n;
	l->tail = args_has(&c->args, "tail");
	if (l->tail && s)
		return ctx_fail(c, ERR_INVALID, "--tail and --offset exclude each other");
	if (args_u64(&c->args, "tail", 0, UINT32_MAX, &l->tail_lines, &c->err))
		return -1;
	if (!s)
		return 0;
	if (str_parse_u64(s + (*s == '-'), &n) || n > INT64_MAX)
		return ctx_fail(c, ERR_INVALID, "--offset '%s': expected a number of bytes, negative from the end",
		                s);
	l->first = *s == '-' ? -(int64_t)n : (int64_t)n;
	return 0;
}

static int list_streams(struct ctx *c, uint64_t job)
{
	const char *const heads[] = {">ATTEMPT", "STREAM", ">SIZE", "COMPLETE", print_zone_head("LAST")};
	char *path = xasprintf("/jobs/%llu/logs", (unsigned long long)job);
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

/* What is asked of the lines has no meaning for the list of streams. */
static int check_list(struct ctx *c)
{
	static const char *const lines_only[] = {"follow", "rank", "node", "stream", "attempt",
	                                         "offset", "tail", "grep", NULL};
	for (const char *const *o = lines_only; *o && args_has(&c->args, "list"); o++)
		if (args_has(&c->args, *o))
			return ctx_fail(c, ERR_INVALID, "--list names all streams; --%s is for the lines of one", *o);
	return 0;
}

uint64_t logs_tail_start(struct ctx *c, uint64_t job, uint64_t attempt, const char *stream, uint64_t lines)
{
	struct log l = {
	    .c = c, .job = job, .attempt = attempt, .stream = xstrdup(stream), .tail = 1, .tail_lines = lines};
	seek_tail(&l);
	log_fini(&l);
	return (uint64_t)l.first;
}

/* Several ranks together; l has what was asked for. */
static int show_many(struct log *l)
{
	struct ctx *c = l->c;
	struct manylogs_ask ask = {.job = l->job,
	                           .attempt = l->attempt,
	                           .follow = l->wanted_follow,
	                           .tail = l->tail,
	                           .tail_lines = l->tail_lines,
	                           .only = l->grep};
	if (args_has(&c->args, "offset"))
		return ctx_fail(c, ERR_INVALID,
		                "--offset is a place in the output of one rank; --tail goes with several");
	if (rank_set_parse(args_get(&c->args, "rank"), &ask.ranks, &c->err))
		return -1;
	int rc = manylogs_show(c, &ask, &l->any);
	rank_set_fini(&ask.ranks);
	return rc;
}

static int exec_logs(struct ctx *c)
{
	struct log l = {.c = c, .wanted_follow = args_has(&c->args, "follow")};
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
		rc = many ? show_many(&l) : show(&l, by_default);
		int silent = rc == -1 && by_default && c->err.code == ERR_NOT_FOUND && !l.any;
		/* How the job went decides, as with submit -f; one attempt that was asked for is not the job. */
		if ((!rc || silent) && l.wanted_follow && !l.pinned && !l.failed)
			rc = job_tell_end_aside(c, l.job);
	}
	log_fini(&l);
	return rc;
}

static const struct arg_opt logs_opts[] = {
    {"follow", 'f', NULL, "go on until the job has ended, over all its attempts"},
    {"rank", 'r', "N|LIST|all", "the output of rank N (default 0); of several together: 0-3, 0,2, all"},
    {"node", 'N', "N|NAME", "the output of the first rank on node algo-N, or on the machine NAME"},
    {"stream", 's', "NAME",
     "rank-N, " LAUNCHER_STREAMS ", setup or system (these two with --node; default algo-1)"},
    {"attempt", 'a', "N", "of attempt N (default the newest)"},
    {"offset", 0, "BYTES", "begin there; negative: so many before the end"},
    {"tail", 'n', "N", "only the last N lines, with -f what follows, too"},
    {"grep", 'g', "REGEX", "only lines that match"},
    {"list", 'l', NULL, "which streams there are"},
    {NULL, 0, NULL, NULL}};

const struct verb verbs_logs[] = {{"logs", "JOB", "what a job prints", logs_opts, 1, 1, exec_logs},
                                  {NULL, NULL, NULL, NULL, 0, 0, NULL}};
