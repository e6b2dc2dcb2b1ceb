/*
 * cmd_events: the events of a job, past or as they happen. Server-sent events carry ids; after a lost
 * connection the stream continues behind the last one seen.
 */
#include "jobctl/verbs/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "jobctl/client/interrupt.h"
#include "jobctl/client/ref.h"
#include "jobctl/show/print.h"

#define LINE_MAX_BYTES (4 * 1024 * 1024)
#define PAGE           1000
#define VALUE_MAX      200 /* only --json has longer texts */

struct events {
	struct ctx *c;
	uint64_t job;
	char *line;
	size_t n, cap;
	char last_id[32];
	int headed;
	int ended; /* the job's end was seen, so no more events will come */
	uint64_t lost_us;
};

/* Returns whether the key is an exact time: the line already has one, so only --json shows it. */
static int is_time(const char *key)
{
	size_t n = strlen(key);
	return n > 3 && strcmp(key + n - 3, "_us") == 0;
}

/* Returns the key=value pairs of the data, without its text. Malloc'ed. */
static char *event_details(const cJSON *data)
{
	char *rest = xstrdup("");
	const cJSON *m;
	cJSON_ArrayForEach (m, data) {
		int plain = cJSON_IsNumber(m) || cJSON_IsBool(m) ||
		            (cJSON_IsString(m) && *m->valuestring && strlen(m->valuestring) <= VALUE_MAX);
		if (!plain || !m->string || strcmp(m->string, "text") == 0 || is_time(m->string))
			continue;
		xappendf(&rest, " %s=%s", m->string, print_member(data, m->string));
	}
	return rest;
}

/* Prints one event. A long text is a program's output, whose end matters most. */
static void print_event(const cJSON *ev)
{
	const cJSON *data = jget(ev, "data");
	char *rest = event_details(data), *safe = print_safe(rest), *local = print_local(jtext(data, "text"));
	char *text = print_safe(local);
	char *type = print_safe(print_member(ev, "type"));
	const char *end = text + (strlen(text) > VALUE_MAX ? strlen(text) - VALUE_MAX : 0);
	for (char *p = text; *p; p++)
		*p = *p == '\n' ? ' ' : *p;
	while (((unsigned char)*end & 0xc0) == 0x80)
		end++;
	printf("%s%s%s %s%-16s%s %s%s%s\n", print_dim(), print_time(jtext(ev, "at")), print_reset(), print_bold(),
	       type, print_reset(), end > text ? "..." : "", end, *text || !*safe ? safe : safe + 1);
	free(rest);
	free(safe);
	free(text);
	free(local);
	free(type);
}

/* Prints the heads of the columns, with the zone of the times, once. */
static void print_head(struct events *v)
{
	if (!v->headed)
		printf("%s%-19s %-16s WHAT%s\n", print_bold(), print_zone_head("TIME"), "EVENT", print_reset());
	v->headed = 1;
}

static void handle_event(struct events *v, const cJSON *ev)
{
	const char *type = jtext(ev, "type");
	if (jget(ev, "id"))
		snprintf(v->last_id, sizeof(v->last_id), "%s", print_member(ev, "id"));
	if (type && strcmp(type, "ended") == 0)
		v->ended = 1;
	if (v->c->json) {
		char *s = json_text(ev);
		puts(s);
		free(s);
	} else {
		print_head(v);
		print_event(ev);
	}
}

static void handle_line(struct events *v)
{
	if (v->n && v->line[v->n - 1] == '\r')
		v->n--;
	if (v->n < 5 || strncmp(v->line, "data:", 5) != 0)
		return; /* the data has its own id and type */
	cJSON *ev = json_parse(v->line + 5, v->n - 5, NULL);
	if (ev)
		handle_event(v, ev);
	cJSON_Delete(ev);
}

static int sse_cb(const char *p, size_t n, void *arg)
{
	struct events *v = arg;
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n') {
			handle_line(v);
			v->n = 0;
			continue;
		}
		if (v->n == v->cap && v->cap < LINE_MAX_BYTES)
			v->line = xrealloc(v->line, v->cap = v->cap ? v->cap * 2 : 4096);
		if (v->n < v->cap)
			v->line[v->n++] = p[i];
	}
	if (fflush(stdout) || ferror(stdout))
		return -1;
	return v->ended ? -1 : 0;
}

static int sse_header_cb(const char *p, size_t n, void *arg)
{
	struct events *v = arg;
	if (n > 12 && strncmp(p, "HTTP/", 5) == 0 && memmem(p, n < 16 ? n : 16, " 200", 4))
		v->lost_us = 0;
	return 0;
}

static int follow_events(struct events *v)
{
	char *path = xasprintf("/stream?job=%" PRIu64, v->job);
	int rc = 0;
	interrupt_catch();
	while (!v->ended && !interrupted()) {
		rc = client_stream(v->c->client, path, "text/event-stream", v->last_id, sse_cb, sse_header_cb, v,
		                   &v->c->err);
		uint64_t now = clock_boot_us(clock_real());
		if (rc == 1)
			break;
		if (rc < 0 && v->c->err.code != ERR_UNAVAILABLE && v->c->err.code != ERR_BUSY)
			break;
		if (!v->lost_us)
			v->lost_us = now;
		if (now - v->lost_us > LOST_PATIENCE_S * 1000000ull)
			break;
		v->n = 0;
		interrupt_sleep(500);
	}
	free(path);
	return interrupted() ? EXIT_INTERRUPTED : rc < 0 ? -1 : 0;
}

/* Reads all events so far into *all (NULL: prints them). */
static int read_past(struct events *v, cJSON *all)
{
	for (;;) {
		char *path = xasprintf("/jobs/%" PRIu64 "/events?after=%s&limit=%d", v->job, v->last_id, PAGE);
		cJSON *answer, *list, *ev;
		int rc = ctx_get(v->c, "GET", path, NULL, &answer), n = 0;
		free(path);
		if (rc)
			return -1;
		list = cJSON_GetObjectItemCaseSensitive(answer, "events");
		while ((ev = cJSON_DetachItemFromArray(list, 0))) {
			n++;
			if (!all) {
				handle_event(v, ev);
				cJSON_Delete(ev);
				continue;
			}
			snprintf(v->last_id, sizeof(v->last_id), "%s", print_member(ev, "id"));
			cJSON_AddItemToArray(all, ev);
		}
		cJSON_Delete(answer);
		if (n < PAGE)
			return 0;
	}
}

static int exec_events(struct ctx *c)
{
	struct events v = {.c = c, .last_id = "0"};
	int follow = args_has(&c->args, "follow");
	if (ref_resolve(c, c->args.operand[0], &v.job))
		return -1;
	cJSON *whole = c->json && !follow ? cJSON_CreateObject() : NULL;
	int rc = read_past(&v, whole ? cJSON_AddArrayToObject(whole, "events") : NULL);
	if (!rc && whole)
		ctx_print_json(whole);
	cJSON_Delete(whole);
	fflush(stdout);
	if (!rc && follow)
		rc = follow_events(&v);
	free(v.line);
	return rc;
}

static const struct arg_opt events_opts[] = {
    {"follow", 'f', NULL, "Continue as events happen, until the job has ended"}, {NULL, 0, NULL, NULL}};

const struct verb verbs_events[] = {
    {"events", "JOB", "List what happened to a job, and why", events_opts, 1, 1, exec_events},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
