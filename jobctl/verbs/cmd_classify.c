/*
 * cmd_classify: says by the table of failure patterns what a log means: of a file, of standard input, or of a
 * job's newest attempt that ended badly. Files stream through a fixed amount of memory, and a job's logs in
 * bounded pieces.
 */
#include "jobctl/verbs/verbs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/classify/cause.h"
#include "common/os/fsutil.h"
#include "jobctl/client/ref.h"
#include "jobctl/show/print.h"

#define READ_SIZE    65536u
#define STREAMS_MAX  4096u                        /* logs of a job that are read */
#define STREAM_BYTES ((uint64_t)16 * 1024 * 1024) /* of each: its end */
#define PIECE_BYTES  ((size_t)1024 * 1024)        /* of one call */

struct judge {
	struct ctx *c;
	struct classify_table *table;
	struct classify_reader *reader;
	struct cause cause;
	int each;
	const char *stream; /* of a job; NULL: a file */
	uint64_t attempt;   /* whose logs are read; 0: a file, or not known yet */
	char *cause_stream;
	/* the line under way */
	char line[CLASSIFY_LINE_MAX];
	size_t n, frame;
	uint64_t number;
};

/* ---- lines ------------------------------------------------------------------------------------------ */

static cJSON *line_json(const struct line_finding *f, const char *line, size_t n, uint64_t number)
{
	cleanup_free char *text = str_to_utf8(line, n);
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "class", f->cls);
	cJSON_AddStringToObject(o, "verdict", verdict_name(f->verdict));
	cJSON_AddStringToObject(o, "line", text);
	json_add_u64(o, "line_number", number);
	cJSON_AddStringToObject(o, "reason", f->reason);
	return o;
}

static void print_json_line(cJSON *o)
{
	cleanup_free char *text = json_text(o);

	puts(text);
	cJSON_Delete(o);
}

static void print_line_verdict(const struct judge *j, const struct line_finding *f)
{
	cleanup_free char *text = str_to_utf8(j->line, j->n), *safe = print_safe(text);
	cJSON *o;

	if (!j->c->json) {
		printf("%-8s %-10s %s\n", verdict_name(f->verdict), f->cls, safe);
		return;
	}
	o = line_json(f, j->line, j->n, j->number);
	if (j->stream)
		cJSON_AddStringToObject(o, "stream", j->stream);
	print_json_line(o);
}

static void end_line(struct judge *j)
{
	struct line_finding f;
	int echo;

	if (j->n && j->line[j->n - 1] == '\r')
		j->n--;
	j->number++;
	echo = cause_is_echo(&j->frame, j->line, j->n);
	f = classify_line(j->reader, j->line, echo && !j->each ? 0 : j->n);
	if (j->each)
		print_line_verdict(j, &f);
	else if (cause_consider(&j->cause, &f, j->line, j->n, j->number) && j->stream) {
		free(j->cause_stream);
		j->cause_stream = xstrdup(j->stream);
	}
	j->n = 0;
}

static void feed_bytes(struct judge *j, const char *p, size_t n)
{
	const char *end;
	size_t part, room;

	while (n) {
		end = memchr(p, '\n', n);
		part = end ? (size_t)(end - p) : n;
		room = sizeof(j->line) - j->n;
		memcpy(j->line + j->n, p, part < room ? part : room);
		j->n += part < room ? part : room;
		if (!end)
			return;
		end_line(j);
		n -= part + 1;
		p = end + 1;
	}
}

/* A rest without newline counts as a line. */
static void end_log(struct judge *j)
{
	if (j->n)
		end_line(j);
}

/* ---- sources ---------------------------------------------------------------------------------------- */

static int judge_file(struct judge *j, const char *path)
{
	int is_stdin = strcmp(path, "-") == 0;
	FILE *f = is_stdin ? stdin : fopen(path, "re");
	char buf[READ_SIZE];
	size_t n;
	int rc = 0;

	if (!f)
		return ctx_fail(j->c, ERR_INVALID, "%s: %s", path, strerror(errno));
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0)
		feed_bytes(j, buf, n);
	if (ferror(f))
		rc = ctx_fail(j->c, ERR_IO, "%s: %s", path, strerror(errno));
	end_log(j);
	if (!is_stdin)
		fclose(f);
	return rc;
}

struct log_ref {
	const char *name, *last_at;
	uint64_t size;
};

/* Logs that ended first come first: the other ranks waited for the failed one. */
static int compare_logs(const void *a, const void *b)
{
	const struct log_ref *x = a, *y = b;
	int d = strcmp(x->last_at, y->last_at);

	return d ? d : strcmp(x->name, y->name);
}

static int judge_stream(struct judge *j, uint64_t job, uint64_t attempt, const struct log_ref *l)
{
	uint64_t at = l->size > STREAM_BYTES ? l->size - STREAM_BYTES : 0;
	cleanup_free char *name = client_escape(l->name);

	j->stream = l->name;
	j->number = 0;
	for (size_t n = 1; n && at < l->size; at += n) {
		cleanup_free char *path =
		    xasprintf("/jobs/%" PRIu64 "/logs/%s?attempt=%" PRIu64 "&offset=%" PRIu64 "&limit=%zu", job, name,
		              attempt, at, PIECE_BYTES);
		cleanup_free char *data = NULL;

		if (client_get(ctx_client(j->c), path, 2 * PIECE_BYTES, &data, &n, &j->c->err) < 0)
			return -1;
		feed_bytes(j, data, n);
	}
	end_log(j);
	return 0;
}

/* Lists the logs of an attempt; 0: of the newest that has some. */
static size_t list_logs(const cJSON *answer, uint64_t *attempt, struct log_ref *logs)
{
	const cJSON *s;
	int any = !*attempt;
	size_t n = 0;

	cJSON_ArrayForEach (s, jget(answer, "streams"))
		if (any && print_number(s, "attempt") > (double)*attempt)
			*attempt = (uint64_t)print_number(s, "attempt");
	cJSON_ArrayForEach (s, jget(answer, "streams")) {
		const char *name = jtext(s, "stream"), *last = jtext(s, "last_at");

		if (!name || (uint64_t)print_number(s, "attempt") != *attempt || n == STREAMS_MAX)
			continue;
		logs[n++] = (struct log_ref){
		    .name = name, .last_at = last ? last : "", .size = (uint64_t)print_number(s, "size")};
	}
	qsort(logs, n, sizeof(*logs), compare_logs);
	return n;
}

/* Finds the newest attempt that ended badly; 0 none. */
static int find_failed(struct ctx *c, uint64_t job, uint64_t *attempt)
{
	cJSON *record = ctx_job(c, job);
	const cJSON *a;

	*attempt = 0;
	cJSON_ArrayForEach (a, jget(record, "attempts")) {
		const char *outcome = jtext(a, "outcome");
		double number = print_number(a, "number");

		if (outcome && number > (double)*attempt &&
		    (strcmp(outcome, "failed") == 0 || strcmp(outcome, "lost") == 0 ||
		     strcmp(outcome, "rolled_back") == 0))
			*attempt = (uint64_t)number;
	}
	cJSON_Delete(record);
	return record ? 0 : -1;
}

static int read_logs(struct judge *j, uint64_t job)
{
	cleanup_free char *path = xasprintf("/jobs/%" PRIu64 "/logs", job);
	int asked = args_has(&j->c->args, "attempt"), rc = 0;
	struct log_ref *logs;
	cJSON *answer;
	size_t n;

	if (ctx_get(j->c, "GET", path, NULL, &answer))
		return -1;
	logs = xcalloc(STREAMS_MAX, sizeof(*logs));
	n = list_logs(answer, &j->attempt, logs);
	if (!n && asked)
		rc = ctx_fail(j->c, ERR_NOT_FOUND,
		              "attempt %" PRIu64 " of job %" PRIu64 " has no log; jobctl show %" PRIu64
		              " lists the attempts",
		              j->attempt, job, job);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = judge_stream(j, job, j->attempt, &logs[i]);
	free(logs);
	cJSON_Delete(answer);
	return rc;
}

static int judge_job(struct judge *j, const char *ref)
{
	uint64_t job;

	if (args_u64(&j->c->args, "attempt", 1, UINT32_MAX, &j->attempt, &j->c->err) ||
	    ref_resolve(j->c, ref, &job))
		return -1;
	if (!j->attempt && find_failed(j->c, job, &j->attempt))
		return -1;
	return read_logs(j, job);
}

static int is_file(const char *name)
{
	struct stat st;

	return strcmp(name, "-") == 0 || strchr(name, '/') || stat(name, &st) == 0;
}

/* ---- the answer ------------------------------------------------------------------------------------- */

static void add_attempt(const struct judge *j, cJSON *o)
{
	if (j->attempt)
		json_add_u64(o, "attempt", j->attempt);
}

static void report_nothing(const struct judge *j)
{
	cJSON *o;

	if (!j->c->json && j->attempt) {
		printf("No line of attempt %" PRIu64 " names a failure that the table knows.\n", j->attempt);
		return;
	}
	if (!j->c->json) {
		puts("No line names a failure that the table knows.");
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "class", "unknown");
	cJSON_AddStringToObject(o, "verdict", "unknown");
	cJSON_AddNullToObject(o, "line");
	cJSON_AddNullToObject(o, "line_number");
	cJSON_AddStringToObject(o, "reason", "no line names a failure that the table knows");
	add_attempt(j, o);
	ctx_print_json(o);
	cJSON_Delete(o);
}

static void report_cause(const struct judge *j)
{
	const struct cause *c = &j->cause;
	cleanup_free char *text = NULL, *safe = NULL;
	cJSON *o;

	if (!c->finding.cls) {
		report_nothing(j);
		return;
	}
	if (j->c->json) {
		o = line_json(&c->finding, c->line, c->n, c->number);
		if (j->cause_stream)
			cJSON_AddStringToObject(o, "stream", j->cause_stream);
		add_attempt(j, o);
		ctx_print_json(o);
		cJSON_Delete(o);
		return;
	}
	text = str_to_utf8(c->line, c->n);
	safe = print_safe(text);
	if (j->attempt)
		printf("attempt %" PRIu64 ", ", j->attempt);
	printf("%s%sline %" PRIu64 ": %s (class %s): %s.\n  %s\n", j->cause_stream ? j->cause_stream : "",
	       j->cause_stream ? ", " : "", c->number, c->finding.reason, c->finding.cls,
	       verdict_meaning(c->finding.verdict), safe);
}

static int load_table(struct ctx *c, struct classify_table **table)
{
	const char *file = args_get(&c->args, "patterns");
	cleanup_free char *text = NULL;
	size_t n = 0;

	if (file && fs_read_file(file, CLASSIFY_FILE_MAX, &text, &n, &c->err) < 0)
		return -1;
	if (file && strlen(text) != n)
		return ctx_fail(c, ERR_INVALID, "%s: it has a zero byte; expected text", file);
	*table = classify_table_create(text, file, &c->err);
	return *table ? 0 : -1;
}

static int report_table(struct ctx *c, const struct classify_table *t)
{
	struct classify_table *plain;
	size_t n;

	if (!args_has(&c->args, "patterns"))
		return ctx_fail(c, ERR_INVALID, "expected FILE, - or JOB\nSee: jobctl classify --help");
	plain = classify_table_create(NULL, NULL, &c->err);
	if (!plain)
		return -1;
	n = classify_table_rules(t) - classify_table_rules(plain);
	classify_table_destroy(plain);
	if (c->json)
		printf("{\"rules\":%zu}\n", n);
	else
		printf("%s: %zu rules, no mistake\n", args_get(&c->args, "patterns"), n);
	return 0;
}

static int exec_classify(struct ctx *c)
{
	struct judge *j = xcalloc(1, sizeof(*j));
	const char *what = c->args.n ? c->args.operand[0] : NULL;
	int rc;

	j->c = c;
	j->each = args_has(&c->args, "each");
	rc = load_table(c, &j->table);
	if (rc == 0 && !what) {
		rc = report_table(c, j->table);
	} else if (rc == 0) {
		j->reader = classify_reader_create(j->table);
		rc = is_file(what) ? judge_file(j, what) : judge_job(j, what);
		if (rc == 0 && !j->each)
			report_cause(j);
	}
	classify_reader_destroy(j->reader);
	classify_table_destroy(j->table);
	free(j->cause_stream);
	free(j);
	return rc;
}

static const struct arg_opt opts[] = {
    {"attempt", 'a', "N", "Read the logs of that attempt of the job"},
    {"each", 'e', NULL, "Judge every line; with --json one object for each"},
    {"patterns", 'p', "FILE", "Use the rules of FILE first; without a log, check them"},
    {NULL, 0, NULL, NULL}};
const struct verb verbs_classify[] = {{"classify", "[FILE|JOB]",
                                       "Say what failed by the lines of a log (-: standard input)", opts, 0,
                                       1, exec_classify},
                                      {NULL, NULL, NULL, NULL, 0, 0, NULL}};
