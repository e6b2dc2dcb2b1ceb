/*
 * cmd_trace: writes the record of the cluster's scheduler to a file for `jobctl simulate`.
 */
#include "jobctl/verbs/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "jobctl/show/print.h"

static int list_parts(struct ctx *c)
{
	const char *const heads[] = {">PART", print_zone_head("BEGAN"), "LAST LINES", ">BYTES"};
	const cJSON *p, *parts;
	struct table *t;
	cJSON *answer;
	int rc = ctx_call(c, "GET", "/trace", NULL, &answer);

	if (rc)
		return rc < 0 ? -1 : 0;
	t = table_create(heads, 4);
	parts = jget(answer, "parts");
	cJSON_ArrayForEach (p, parts) {
		table_cell(t, print_member(p, "part"));
		table_cell(t, print_time(jtext(p, "began_at")));
		table_cell(t, print_time(jtext(p, "written_at")));
		table_cell(t, print_member(p, "bytes"));
	}
	if (table_rows(t))
		table_print(t);
	else
		puts("The record is empty: the scheduler has had no input yet.");
	table_destroy(t);
	cJSON_Delete(answer);
	return 0;
}

struct piece { /* a piece of the record */
	FILE *to;
	uint64_t part, next, lines, bytes, jobs;
	int more;
};

/* Counts the jobs in a piece: arrivals, and jobs that ran at its beginning. */
static uint64_t count_jobs(const char *text)
{
	uint64_t n = 0;

	for (const char *s = text; s && *s; s = strchr(s, '\n'), s += s != NULL)
		n += strncmp(s, "job ", 4) == 0 || strncmp(s, "restore ", 8) == 0;
	return n;
}

static void take_piece(struct piece *p, const cJSON *answer)
{
	const cJSON *text, *next = jget(answer, "next");

	p->part = (uint64_t)print_number(answer, "part");
	cJSON_ArrayForEach (text, jget(answer, "texts")) {
		const char *s = cJSON_IsString(text) ? text->valuestring : "";

		fputs(s, p->to);
		p->bytes += strlen(s);
		p->jobs += count_jobs(s);
		while ((s = strchr(s, '\n'))) {
			p->lines++;
			s++;
		}
	}
	p->more = cJSON_IsNumber(next) != 0;
	p->next = p->more ? (uint64_t)next->valuedouble : 0;
}

/* Fetches a part, including lines that hearthd writes meanwhile. */
static int fetch_part(struct ctx *c, const char *part, struct piece *p)
{
	char *which = xstrdup(part);

	do {
		char *path = xasprintf("/trace/%s?after=%" PRIu64, which, p->next);
		cJSON *answer;
		int rc = ctx_get(c, "GET", path, NULL, &answer);

		free(path);
		if (rc) {
			free(which);
			return -1;
		}
		take_piece(p, answer);
		cJSON_Delete(answer);
		free(which);
		which = xasprintf("%" PRIu64, p->part); /* "last" may mean another part by now */
	} while (p->more);
	free(which);
	return 0;
}

static void report_part(struct ctx *c, const struct piece *p, const char *file)
{
	cJSON *o;

	if (!c->json) {
		printf("part %" PRIu64 ": %" PRIu64 " lines, %" PRIu64 " bytes in %s\n", p->part, p->lines, p->bytes,
		       file);
		return;
	}
	o = cJSON_CreateObject();
	json_add_u64(o, "part", p->part);
	json_add_u64(o, "lines", p->lines);
	json_add_u64(o, "bytes", p->bytes);
	cJSON_AddStringToObject(o, "file", file);
	ctx_print_json(o);
	cJSON_Delete(o);
}

/* Notes a part without jobs: a part begins with each start of hearthd, so users often want the one before. */
static void note_empty(struct ctx *c, const struct piece *p)
{
	cJSON *answer = NULL;
	const cJSON *part;
	uint64_t before = 0;

	if (p->jobs || ctx_get(c, "GET", "/trace", NULL, &answer))
		return;
	cJSON_ArrayForEach (part, jget(answer, "parts"))
		if (print_number(part, "part") < (double)p->part)
			before = (uint64_t)print_number(part, "part");
	fprintf(stderr, "jobctl: part %" PRIu64 ", which began with hearthd's last start, has no jobs", p->part);
	if (before)
		fprintf(stderr,
		        "; to see the part before: jobctl trace --part %" PRIu64
		        "; to list all parts: jobctl trace --list",
		        before);
	fputc('\n', stderr);
	cJSON_Delete(answer);
}

static int exec_trace(struct ctx *c)
{
	const char *file = args_get(&c->args, "output");
	char *text = NULL;
	size_t n = 0;
	struct piece p = {0};
	uint64_t part = 0;
	char number[24] = "last";
	int rc;

	if (args_has(&c->args, "list"))
		return list_parts(c);
	if (c->json && !file)
		return ctx_fail(c, ERR_INVALID,
		                "--json needs --output FILE or --list, because the record is not JSON");
	if (args_u64(&c->args, "part", 1, INT64_MAX, &part, &c->err))
		return -1;
	if (part)
		snprintf(number, sizeof(number), "%" PRIu64, part);
	p.to = file ? open_memstream(&text, &n) : stdout;
	rc = p.to ? fetch_part(c, number, &p) : ctx_fail(c, ERR_INTERNAL, "no memory");
	if (file && p.to) {
		fclose(p.to);
		if (rc == 0)
			rc = fs_write_atomic(file, text, n, 0644, &c->err);
		if (rc == 0)
			report_part(c, &p, file);
	}
	if (rc == 0)
		note_empty(c, &p);
	free(text);
	return rc;
}

static const struct arg_opt opts[] = {
    {"output", 'o', "FILE", "Write to FILE (default: standard output)"},
    {"part", 0, "N", "Write part N (default: the last); each start of hearthd begins a new part"},
    {"list", 'l', NULL, "List the parts"},
    {NULL, 0, NULL, NULL}};
const struct verb verbs_trace[] = {
    {"trace", "", "Write the scheduler's inputs and decisions, for jobctl simulate", opts, 0, 0, exec_trace},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
