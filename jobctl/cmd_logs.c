/*
 * cmd_logs: logs and events, live or past.
 *
 * A log is followed over the raw endpoint from an offset; when the connection is lost it is taken up again at
 * the next byte, so nothing is shown twice or left out. Events use server-sent events and their ids in the
 * same way.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/json.h"
#include "common/strutil.h"
#include "common/xalloc.h"
#include "jobctl/jobctl.h"
#include "jobctl/print.h"
#include <pcre2.h>

#define LINE_MAX_BYTES  (1024 * 1024)
#define LOST_PATIENCE_S 60

static volatile sig_atomic_t interrupted;

static void on_int(int signo)
{
	(void)signo;
	interrupted = 1;
}

static void catch_int(void)
{
	struct sigaction sa = {.sa_handler = on_int};
	sigaction(SIGINT, &sa, NULL);
}

struct grep {
	pcre2_code *re;
	pcre2_match_data *md;
	char *line; /* of the line that is not complete yet */
	size_t n;
};

struct out {
	uint64_t offset; /* of the next byte wanted */
	struct grep *grep;
	int failed;
};

static void grep_line(struct grep *g, const char *line, size_t n)
{
	if (pcre2_match(g->re, (PCRE2_SPTR)line, n, 0, 0, g->md, NULL) >= 0) {
		fwrite(line, 1, n, stdout);
		putchar('\n');
	}
}

static void grep_feed(struct grep *g, const char *p, size_t n)
{
	while (n) {
		const char *nl = memchr(p, '\n', n);
		size_t k = nl ? (size_t)(nl - p) : n;
		size_t room = LINE_MAX_BYTES - g->n, take = k < room ? k : room;
		memcpy(g->line + g->n, p, take);
		g->n += take;
		if (nl) {
			grep_line(g, g->line, g->n);
			g->n = 0;
			k++;
		}
		p += k;
		n -= k;
	}
}

static int on_log(const char *p, size_t n, void *arg)
{
	struct out *o = arg;
	if (interrupted)
		return -1;
	o->offset += n;
	if (o->grep)
		grep_feed(o->grep, p, n);
	else if (fwrite(p, 1, n, stdout) != n)
		o->failed = 1;
	if (fflush(stdout))
		o->failed = 1;
	return o->failed ? -1 : 0;
}

/* hearthd may begin later than asked, when older bytes were removed by age: X-Hearth-Offset says where. */
static int on_log_header(const char *p, size_t n, void *arg)
{
	struct out *o = arg;
	static const char name[] = "x-hearth-offset:";
	if (n > sizeof(name) && !strncasecmp(p, name, sizeof(name) - 1)) {
		char number[32];
		size_t k = 0;
		for (size_t i = sizeof(name) - 1; i < n && k < sizeof(number) - 1; i++) {
			if (p[i] >= '0' && p[i] <= '9')
				number[k++] = p[i];
		}
		number[k] = 0;
		uint64_t at;
		if (!str_parse_u64(number, &at) && at > o->offset) {
			printf("[hearth: %llu bytes before this are no longer kept]\n",
			       (unsigned long long)(at - o->offset));
			o->offset = at;
		}
	}
	return 0;
}

static char *log_path(const struct ctx *c, uint64_t job, const char *stream, const struct out *o, int follow)
{
	const char *attempt = args_get(&c->args, "attempt");
	char *esc = client_escape(stream);
	char *path = xasprintf("/jobs/%llu/logs/%s?offset=%llu%s%s%s", (unsigned long long)job, esc,
	                       (unsigned long long)o->offset, follow ? "&follow=1" : "",
	                       attempt ? "&attempt=" : "", attempt ? attempt : "");
	free(esc);
	return path;
}

static char *job_status(struct ctx *c, uint64_t job)
{
	char *path = xasprintf("/jobs/%llu", (unsigned long long)job), *status = NULL;
	cJSON *answer = NULL;
	if (!client_call(c->client, "GET", path, NULL, &answer, &c->err)) {
		const char *s = NULL;
		json_get_str(answer, "", "status", &s, NULL);
		status = xstrdup(s ? s : "");
	}
	cJSON_Delete(answer);
	free(path);
	return status;
}

static int ended_status(const char *s)
{
	return !strcmp(s, "completed") || !strcmp(s, "failed") || !strcmp(s, "stopped");
}

/* One stream from o->offset to its end. A stream that does not exist yet is waited for while the job may
 * still make it. 1: interrupted. */
static int follow_stream(struct ctx *c, uint64_t job, const char *stream, struct out *o, int follow)
{
	int pause_ms = 20;
	uint64_t lost_since = 0;
	for (;;) {
		char *path = log_path(c, job, stream, o, follow);
		uint64_t before = o->offset;
		struct err e = {0};
		int rc =
		    client_stream(c->client, path, "application/octet-stream", NULL, on_log, on_log_header, o, &e);
		free(path);
		if (interrupted)
			return 1;
		if (o->failed)
			return ctx_fail(c, ERR_IO, "writing the log to standard output failed");
		if (rc == 0)
			return 0;
		if (o->offset > before)
			lost_since = 0, pause_ms = 20;
		if (e.code == ERR_NOT_FOUND && follow) {
			char *status = job_status(c, job);
			if (!status)
				return -1;
			int over = ended_status(status);
			free(status);
			if (over) {
				c->err = e;
				return -1;
			}
		} else if (e.code == ERR_UNAVAILABLE || e.code == ERR_BUSY) {
			uint64_t now = clock_boot_us(clock_real());
			if (!lost_since)
				lost_since = now;
			if (!follow || now - lost_since > (uint64_t)LOST_PATIENCE_S * 1000000) {
				c->err = e;
				return -1;
			}
		} else {
			c->err = e;
			return -1;
		}
		poll(NULL, 0, pause_ms);
		pause_ms = pause_ms < 1000 ? pause_ms * 2 : 1000;
	}
}

static char *stream_name(struct ctx *c)
{
	const char *stream = args_get(&c->args, "stream"), *rank = args_get(&c->args, "rank"),
	           *node = args_get(&c->args, "node");
	if (!!rank + !!stream > 1) {
		ctx_fail(c, ERR_INVALID, "--rank and --stream exclude each other");
		return NULL;
	}
	if (rank) {
		uint64_t n;
		if (str_parse_u64(rank, &n)) {
			ctx_fail(c, ERR_INVALID, "--rank '%s' is not a number", rank);
			return NULL;
		}
		return xasprintf("rank-%s", rank);
	}
	if (node) {
		uint64_t n;
		int number = !str_parse_u64(node, &n);
		if (stream && strcmp(stream, "mpirun") != 0)
			return xasprintf(number ? "%s-algo-%s" : "%s-%s", stream, node);
		return xasprintf(number ? "algo-%s" : "%s", node);
	}
	return xstrdup(stream ? stream : "rank-0");
}

/* Names of the streams there are, for the message when one is missing. */
static void name_streams(struct ctx *c, uint64_t job)
{
	char *path = xasprintf("/jobs/%llu/logs", (unsigned long long)job), *all = xstrdup("");
	cJSON *answer = NULL;
	const cJSON *s;
	if (!client_call(c->client, "GET", path, NULL, &answer, NULL)) {
		cJSON_ArrayForEach (s, cJSON_GetObjectItemCaseSensitive(answer, "streams")) {
			char *longer = xasprintf("%s%s%s", all, *all ? ", " : "", print_member(s, "stream"));
			free(all);
			all = longer;
		}
	}
	if (*all) {
		char *old = xstrdup(c->err.text);
		err_set(&c->err, c->err.code, "%s\nThere are: %s (jobctl logs %llu --stream NAME)", old, all,
		        (unsigned long long)job);
		free(old);
	}
	free(all);
	cJSON_Delete(answer);
	free(path);
}

/* A job that never wrote anything as rank 0: what setting up and mpirun said is what helps. */
static int fallback(struct ctx *c, uint64_t job)
{
	static const char *const others[] = {"setup-algo-1", "mpirun", NULL};
	struct err first = c->err;
	for (const char *const *s = others; *s; s++) {
		struct out o = {0};
		char *path = log_path(c, job, *s, &o, 0);
		cJSON *list = NULL;
		fprintf(stderr, "[hearth: rank 0 wrote nothing; this is the stream %s]\n", *s);
		client_stream(c->client, path, "application/octet-stream", NULL, on_log, on_log_header, &o, &c->err);
		cJSON_Delete(list);
		free(path);
		if (o.offset)
			return 0;
	}
	c->err = first;
	return -1;
}

static int open_grep(struct ctx *c, struct grep *g)
{
	int code;
	PCRE2_SIZE at;
	const char *pattern = args_get(&c->args, "grep");
	g->re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_MATCH_INVALID_UTF,
	                      &code, &at, NULL);
	if (!g->re) {
		PCRE2_UCHAR text[128];
		pcre2_get_error_message(code, text, sizeof(text));
		return ctx_fail(c, ERR_INVALID, "--grep: %s at character %zu", (char *)text, (size_t)at + 1);
	}
	g->md = pcre2_match_data_create_from_pattern(g->re, NULL);
	g->line = xmalloc(LINE_MAX_BYTES);
	return 0;
}

static void close_grep(struct grep *g)
{
	if (g->n)
		grep_line(g, g->line, g->n);
	pcre2_match_data_free(g->md);
	pcre2_code_free(g->re);
	free(g->line);
}

static int show_stream(struct ctx *c, uint64_t job, const char *stream, int follow)
{
	struct out o = {0};
	struct grep g = {0};
	const char *offset = args_get(&c->args, "offset");
	if (offset && str_parse_u64(offset, &o.offset))
		return ctx_fail(c, ERR_INVALID, "--offset '%s' is not a number", offset);
	if (args_has(&c->args, "grep")) {
		if (open_grep(c, &g))
			return -1;
		o.grep = &g;
	}
	int rc = follow_stream(c, job, stream, &o, follow);
	if (o.grep)
		close_grep(&g);
	if (rc < 0 && c->err.code == ERR_NOT_FOUND) {
		int by_default =
		    !args_has(&c->args, "rank") && !args_has(&c->args, "stream") && !args_has(&c->args, "node");
		if (!by_default || fallback(c, job)) {
			name_streams(c, job);
			return -1;
		}
		rc = 0;
	}
	return rc;
}

int job_follow_log(struct ctx *c, uint64_t job)
{
	catch_int();
	if (!ctx_client(c))
		return -1;
	int rc = show_stream(c, job, "rank-0", 1);
	if (rc == 1) {
		fprintf(stderr, "\nThe job goes on. Follow it again: jobctl logs %llu -f; end it: jobctl stop %llu\n",
		        (unsigned long long)job, (unsigned long long)job);
		return 130;
	}
	/* A job may end well without a word from rank 0. */
	if (rc < 0 && c->err.code == ERR_NOT_FOUND)
		rc = 0;
	return rc;
}

static int list_streams(struct ctx *c, uint64_t job)
{
	char *path = xasprintf("/jobs/%llu/logs", (unsigned long long)job);
	cJSON *answer = NULL;
	int rc = ctx_call(c, "GET", path, NULL, &answer);
	free(path);
	if (rc)
		return rc < 0 ? -1 : 0;
	static const char *const heads[] = {">ATTEMPT", "STREAM", ">SIZE", "COMPLETE"};
	struct table *t = table_create(heads, 4);
	const cJSON *s;
	cJSON_ArrayForEach (s, cJSON_GetObjectItemCaseSensitive(answer, "streams")) {
		char size[32];
		const cJSON *n = cJSON_GetObjectItemCaseSensitive(s, "size");
		table_cell(t, print_member(s, "attempt"));
		table_cell(t, print_member(s, "stream"));
		table_cell(t, str_size(cJSON_IsNumber(n) ? (uint64_t)n->valuedouble : 0, size, sizeof(size)));
		table_cell(t, print_member(s, "complete"));
	}
	if (table_rows(t))
		table_print(t);
	else
		puts("No log streams yet.");
	table_destroy(t);
	cJSON_Delete(answer);
	return 0;
}

static int exec_logs(struct ctx *c)
{
	uint64_t job;
	if (ref_resolve(c, c->args.operand[0], &job) || !ctx_client(c))
		return -1;
	if (args_has(&c->args, "list") || c->json)
		return list_streams(c, job);
	char *stream = stream_name(c);
	if (!stream)
		return -1;
	int follow = args_has(&c->args, "follow");
	if (follow)
		catch_int();
	int rc = show_stream(c, job, stream, follow);
	free(stream);
	return rc == 1 ? 130 : rc;
}

/* ---- events ---- */

struct events {
	struct ctx *c;
	char *line;
	size_t n;
	char last_id[32];
	int ended; /* the job's end was seen */
};

static void print_event(const cJSON *ev)
{
	const cJSON *data = cJSON_GetObjectItemCaseSensitive(ev, "data"), *m;
	const char *text = NULL;
	json_get_str(data, "", "text", &text, NULL);
	char *rest = xstrdup("");
	cJSON_ArrayForEach (m, data) {
		if (!m->string || !strcmp(m->string, "text") || cJSON_IsNull(m) || cJSON_IsObject(m) ||
		    cJSON_IsArray(m) || (cJSON_IsString(m) && (!*m->valuestring || strlen(m->valuestring) > 200)))
			continue;
		char *longer = xasprintf("%s %s=%s", rest, m->string, print_member(data, m->string));
		free(rest);
		rest = longer;
	}
	char *safe = print_safe(rest), *safe_text = print_safe(text ? text : "");
	const char *at = NULL;
	json_get_str(ev, "", "at", &at, NULL);
	printf("%s%s%s %s%-20s%s %s%s\n", print_dim(), print_time(at), print_reset(), print_bold(),
	       print_member(ev, "type"), print_reset(), safe_text, safe);
	free(safe);
	free(safe_text);
	free(rest);
}

static void one_event(struct events *v, const char *text, size_t n)
{
	cJSON *ev = json_parse(text, n, NULL);
	if (!ev)
		return;
	if (v->c->json) {
		char *s = json_text(ev);
		puts(s);
		free(s);
	} else {
		print_event(ev);
	}
	fflush(stdout);
	cJSON_Delete(ev);
}

/* Lines of an event stream: "id: N", "data: JSON". */
static int on_sse(const char *p, size_t n, void *arg)
{
	struct events *v = arg;
	if (interrupted)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (p[i] != '\n') {
			if (v->n < LINE_MAX_BYTES - 1)
				v->line[v->n++] = p[i];
			continue;
		}
		v->line[v->n] = 0;
		if (v->n && v->line[v->n - 1] == '\r')
			v->line[--v->n] = 0;
		if (!strncmp(v->line, "id:", 3))
			snprintf(v->last_id, sizeof(v->last_id), "%s", v->line + 3 + (v->line[3] == ' '));
		else if (!strncmp(v->line, "data:", 5))
			one_event(v, v->line + 5, v->n - 5);
		v->n = 0;
	}
	return 0;
}

static int follow_events(struct ctx *c, uint64_t job, const char *after)
{
	struct events v = {.c = c, .line = xmalloc(LINE_MAX_BYTES)};
	char *path = xasprintf("/stream?job=%llu", (unsigned long long)job);
	unsigned failures = 0;
	int rc = 0;
	snprintf(v.last_id, sizeof(v.last_id), "%s", after);
	catch_int();
	while (!interrupted) {
		char before[32];
		memcpy(before, v.last_id, sizeof(before));
		rc = client_stream(c->client, path, "text/event-stream", v.last_id, on_sse, NULL, &v, &c->err);
		failures = strcmp(before, v.last_id) != 0 ? 0 : failures + 1;
		if (interrupted || (rc < 0 && c->err.code != ERR_UNAVAILABLE && c->err.code != ERR_BUSY) ||
		    failures > 30)
			break;
		v.n = 0;
		poll(NULL, 0, 500);
	}
	free(path);
	free(v.line);
	return interrupted ? 130 : rc;
}

static int exec_events(struct ctx *c)
{
	uint64_t job;
	if (ref_resolve(c, c->args.operand[0], &job))
		return -1;
	int follow = args_has(&c->args, "follow");
	char last[32] = "0";
	cJSON *all = cJSON_CreateArray();
	for (;;) {
		char *path = xasprintf("/jobs/%llu/events?after=%s&limit=1000", (unsigned long long)job, last);
		cJSON *answer = NULL;
		int rc = client_call(ctx_client(c), "GET", path, NULL, &answer, &c->err);
		free(path);
		if (rc) {
			cJSON_Delete(all);
			return -1;
		}
		cJSON *list = cJSON_GetObjectItemCaseSensitive(answer, "events"), *ev;
		int n = cJSON_GetArraySize(list);
		while ((ev = cJSON_DetachItemFromArray(list, 0))) {
			snprintf(last, sizeof(last), "%s", print_member(ev, "id"));
			cJSON_AddItemToArray(all, ev);
		}
		cJSON_Delete(answer);
		if (n < 1000)
			break;
	}
	if (c->json && !follow) {
		cJSON *whole = cJSON_CreateObject();
		cJSON_AddItemToObject(whole, "events", all);
		ctx_show_json(c, whole);
		cJSON_Delete(whole);
		return 0;
	}
	const cJSON *ev;
	cJSON_ArrayForEach (ev, all) {
		if (c->json) {
			char *s = json_text(ev);
			puts(s);
			free(s);
		} else {
			print_event(ev);
		}
	}
	fflush(stdout);
	cJSON_Delete(all);
	return follow ? follow_events(c, job, last) : 0;
}

static const struct arg_opt logs_opts[] = {
    {"follow", 'f', NULL, "go on until the stream is complete"},
    {"rank", 'r', "N", "the output of rank N (default 0)"},
    {"node", 'N', "N|NAME", "the output of node algo-N"},
    {"stream", 's', "NAME", "rank-N, mpirun, setup, system (with --node)"},
    {"attempt", 'a', "N", "of attempt N (default the newest)"},
    {"offset", 0, "BYTES", "begin there"},
    {"grep", 'g', "REGEX", "only lines that match"},
    {"list", 'l', NULL, "which streams there are"},
    {NULL, 0, NULL, NULL}};
static const struct arg_opt events_opts[] = {{"follow", 'f', NULL, "go on as they happen"},
                                             {NULL, 0, NULL, NULL}};

const struct verb verbs_logs[] = {
    {"logs", "JOB", "what a job prints", logs_opts, 1, 1, exec_logs},
    {"events", "JOB", "all that happened to a job, and why", events_opts, 1, 1, exec_events},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
