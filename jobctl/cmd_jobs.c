/*
 * cmd_jobs: looking at jobs: ls, show, wait, why, top, diff.
 */
#include "common/clock.h"
#include "common/json.h"
#include "common/strutil.h"
#include "common/xalloc.h"
#include "jobctl/jobctl.h"
#include "jobctl/print.h"
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const cJSON *get(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

static const char *text_of(const cJSON *o, const char *key)
{
	const cJSON *v = get(o, key);
	return cJSON_IsString(v) ? v->valuestring : NULL;
}

/* ---- ls ---- */

static void add_query(char **query, const char *key, const char *value)
{
	char *esc = client_escape(value), *longer = xasprintf("%s&%s=%s", *query, key, esc);
	free(*query);
	free(esc);
	*query = longer;
}

/* Words of the query: status:x, owner:x, name:x, experiment:x, tag.k=v; others are searched in the text. */
static int query_word(struct ctx *c, char **query, const char *w)
{
	static const struct {
		const char *prefix, *key;
	} known[] = {
	    {"status:", "status"}, {"owner:", "owner"}, {"name:", "name"}, {"experiment:", "experiment"}};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (!strncmp(w, known[i].prefix, strlen(known[i].prefix))) {
			add_query(query, known[i].key, w + strlen(known[i].prefix));
			return 0;
		}
	}
	if (!strncmp(w, "tag.", 4) && strchr(w, '=')) {
		add_query(query, "tag", w + 4);
		return 0;
	}
	if (strchr(w, ':') || strchr(w, '<') || strchr(w, '>'))
		return ctx_fail(c, ERR_UNSUPPORTED,
		                "'%s': this search term is not built yet; there are status:X owner:X name:X "
		                "experiment:X tag.KEY=VALUE and plain text",
		                w);
	add_query(query, "text", w);
	return 0;
}

static void print_jobs(const cJSON *jobs)
{
	static const char *const heads[] = {">ID",   "NAME",    "OWNER", "STATUS", ">NODES",
	                                    ">GPUS", "CREATED", ">RAN",  "REASON"};
	struct table *t = table_create(heads, 9);
	const cJSON *j;
	cJSON_ArrayForEach (j, jobs) {
		table_cell(t, print_member(j, "id"));
		table_cell(t, print_member(j, "name"));
		table_cell(t, print_member(j, "owner"));
		table_cell(t, print_member(j, "status"));
		table_cell(t, print_member(j, "nodes"));
		table_cell(t, print_member(j, "gpus"));
		table_cell(t, print_time(text_of(j, "created_at")));
		table_cell(t, text_of(j, "started_at") ? print_span(text_of(j, "started_at"), text_of(j, "ended_at"))
		                                       : "-");
		table_cell(t, print_member(j, "reason"));
	}
	table_print(t);
	table_destroy(t);
}

static int exec_ls(struct ctx *c)
{
	const char *limit = args_get(&c->args, "limit"), *before = args_get(&c->args, "before");
	char *query = xasprintf("/jobs?limit=%s", limit ? limit : "50");
	int rc = 0;
	if (before)
		add_query(&query, "before", before);
	if (!args_has(&c->args, "all"))
		add_query(&query, "mine", "1");
	for (size_t i = 0; !rc && i < c->args.n; i++)
		rc = query_word(c, &query, c->args.operand[i]);
	cJSON *answer = NULL;
	if (!rc)
		rc = ctx_call(c, "GET", query, NULL, &answer);
	free(query);
	if (rc)
		return rc < 0 ? -1 : 0;
	const cJSON *jobs = get(answer, "jobs");
	if (!cJSON_GetArraySize(jobs))
		printf("No jobs%s. Submit one: jobctl submit job.json\n",
		       c->args.n                   ? " match"
		       : args_has(&c->args, "all") ? ""
		                                   : " of yours (others' too: jobctl ls --all)");
	else
		print_jobs(jobs);
	const cJSON *next = get(answer, "next");
	if (cJSON_IsNumber(next))
		printf("%sMore: --before %.0f%s\n", print_dim(), next->valuedouble, print_reset());
	cJSON_Delete(answer);
	return 0;
}

/* ---- show ---- */

static void line(const char *head, const char *value)
{
	if (!value || !*value || !strcmp(value, "-"))
		return;
	char *safe = print_safe(value);
	printf("%s%-12s%s %s\n", print_bold(), head, print_reset(), safe);
	free(safe);
}

static void show_phases(const cJSON *attempt)
{
	const cJSON *p;
	int first = 1;
	cJSON_ArrayForEach (p, get(attempt, "phases")) {
		printf("%s%s %s", first ? "    phases: " : ", ", print_member(p, "name"),
		       print_span(text_of(p, "started_at"), text_of(p, "ended_at")));
		first = 0;
	}
	if (!first)
		putchar('\n');
}

static void show_attempts(const cJSON *job)
{
	const cJSON *a, *n;
	cJSON_ArrayForEach (a, get(job, "attempts")) {
		printf("%sAttempt %s%s", print_bold(), print_member(a, "number"), print_reset());
		const char *outcome = text_of(a, "outcome");
		printf("  %s", outcome && *outcome ? outcome : "in progress");
		if (text_of(a, "class") && *text_of(a, "class"))
			printf(" (%s)", print_member(a, "class"));
		printf(" on");
		cJSON_ArrayForEach (n, get(a, "nodes"))
			printf(" %s", cJSON_IsString(n) ? n->valuestring : print_member(n, "node"));
		if (text_of(a, "started_at"))
			printf(", %s", print_span(text_of(a, "started_at"), text_of(a, "ended_at")));
		putchar('\n');
		if (text_of(a, "reason") && *text_of(a, "reason")) {
			char *safe = print_safe(text_of(a, "reason"));
			printf("    %s\n", safe);
			free(safe);
		}
		show_phases(a);
	}
}

static void show_metrics(const cJSON *metrics)
{
	if (!cJSON_GetArraySize(metrics))
		return;
	static const char *const heads[] = {"METRIC", ">LAST", ">MIN", ">MAX", ">STEP"};
	struct table *t = table_create(heads, 5);
	const cJSON *m;
	cJSON_ArrayForEach (m, metrics) {
		table_cell(t, m->string);
		table_cell(t, print_member(m, "last"));
		table_cell(t, print_member(m, "min"));
		table_cell(t, print_member(m, "max"));
		table_cell(t, print_member(m, "step"));
	}
	table_print(t);
	table_destroy(t);
}

static void show_artifacts(const cJSON *job)
{
	const cJSON *a;
	cJSON_ArrayForEach (a, get(job, "artifacts")) {
		char size[32];
		const cJSON *b = get(a, "size_bytes");
		const char *kind = print_member(a, "kind"), *uri = text_of(a, "uri");
		printf("%s%-12s%s %s, %s files", print_bold(), kind, print_reset(),
		       str_size(cJSON_IsNumber(b) ? (uint64_t)b->valuedouble : 0, size, sizeof(size)),
		       print_member(a, "files"));
		if (uri)
			printf(", at %s\n", uri);
		else
			printf(", kept by hearthd: jobctl get %s %s\n", print_member(job, "id"), kind);
	}
}

static int exec_show(struct ctx *c)
{
	uint64_t id;
	if (ref_resolve(c, c->args.operand[0], &id))
		return -1;
	char *path = xasprintf("/jobs/%llu", (unsigned long long)id);
	cJSON *job = NULL;
	int rc = ctx_call(c, "GET", path, NULL, &job);
	free(path);
	if (rc)
		return rc < 0 ? -1 : 0;
	const char *status = text_of(job, "status");
	printf("%sJob %s%s  %s  %s%s%s\n", print_bold(), print_member(job, "id"), print_reset(),
	       print_member(job, "name"), print_status_colour(status), status ? status : "-", print_reset());
	line("reason", text_of(job, "reason"));
	line("owner", text_of(job, "owner"));
	line("experiment", text_of(job, "experiment"));
	line("notes", text_of(job, "notes"));
	line("created", print_time(text_of(job, "created_at")));
	line("started", print_time(text_of(job, "started_at")));
	line("ended", print_time(text_of(job, "ended_at")));
	if (text_of(job, "started_at"))
		line("ran", print_span(text_of(job, "started_at"), text_of(job, "ended_at")));
	line("exit code", print_member(job, "exit_code"));
	const cJSON *t;
	cJSON_ArrayForEach (t, get(job, "tags"))
		printf("%s%-12s%s %s=%s\n", print_bold(), "tag", print_reset(), t->string,
		       cJSON_IsString(t) ? t->valuestring : "");
	show_attempts(job);
	show_metrics(get(job, "metrics"));
	show_artifacts(job);
	cJSON_Delete(job);
	return 0;
}

/* ---- wait ---- */

int job_exit_code(const char *status)
{
	return status && !strcmp(status, "completed") ? EXIT_OK : EXIT_JOB_FAILED;
}

static int is_end(const char *status)
{
	return !strcmp(status, "completed") || !strcmp(status, "failed") || !strcmp(status, "stopped");
}

struct condition {
	enum { UNTIL_END, UNTIL_RUNNING, UNTIL_STEP } kind;
	double step;
};

static int parse_condition(struct ctx *c, const char *s, struct condition *k)
{
	k->kind = UNTIL_END;
	if (!s || !strcmp(s, "end"))
		return 0;
	if (!strcmp(s, "running")) {
		k->kind = UNTIL_RUNNING;
		return 0;
	}
	uint64_t n;
	if (!strncmp(s, "step>", 5) && !str_parse_u64(s + 5, &n)) {
		k->kind = UNTIL_STEP;
		k->step = (double)n;
		return 0;
	}
	return ctx_fail(c, ERR_INVALID, "--for '%s': expected running, step>N or end", s);
}

static int condition_met(const struct condition *k, const cJSON *job, const char *status)
{
	if (is_end(status))
		return 1;
	if (k->kind == UNTIL_RUNNING)
		return !strcmp(status, "running");
	if (k->kind == UNTIL_STEP) {
		const cJSON *m;
		cJSON_ArrayForEach (m, get(job, "metrics")) {
			const cJSON *step = get(m, "step");
			if (cJSON_IsNumber(step) && step->valuedouble > k->step)
				return 1;
		}
		const cJSON *last = get(get(get(job, "metrics"), "step"), "last");
		return cJSON_IsNumber(last) && last->valuedouble > k->step;
	}
	return 0;
}

/* Asks again with a growing pause: 20 ms ... 500 ms, so that short jobs are seen at once and long ones cost
 * little. */
static int wait_job(struct ctx *c, uint64_t job, const struct condition *k, uint64_t deadline_us,
                    char **status)
{
	char *path = xasprintf("/jobs/%llu", (unsigned long long)job);
	int pause_ms = 20, rc = 0;
	*status = NULL;
	if (!ctx_client(c))
		rc = -1;
	while (!rc) {
		cJSON *answer = NULL;
		rc = client_call(c->client, "GET", path, NULL, &answer, &c->err);
		const char *s = rc ? NULL : text_of(answer, "status");
		if (!rc && !s)
			rc = ctx_fail(c, ERR_PROTOCOL, "the controller's answer has no status");
		if (!rc && condition_met(k, answer, s)) {
			*status = xstrdup(s);
			cJSON_Delete(answer);
			break;
		}
		if (!rc && deadline_us && clock_boot_us(clock_real()) >= deadline_us)
			rc = ctx_fail(c, ERR_TIMEOUT, "job %llu is still %s", (unsigned long long)job, s);
		cJSON_Delete(answer);
		if (!rc)
			poll(NULL, 0, pause_ms);
		pause_ms = pause_ms < 500 ? pause_ms + pause_ms / 2 : 500;
	}
	free(path);
	return rc;
}

int job_wait_end(struct ctx *c, uint64_t job, uint64_t deadline_us, char **status)
{
	struct condition k = {.kind = UNTIL_END};
	return wait_job(c, job, &k, deadline_us, status);
}

static int exec_wait(struct ctx *c)
{
	struct condition k;
	uint64_t *ids = NULL, deadline = 0, seconds;
	size_t n = 0;
	const char *timeout = args_get(&c->args, "timeout");
	if (parse_condition(c, args_get(&c->args, "for"), &k))
		return -1;
	if (timeout && str_parse_duration(timeout, &seconds, &c->err))
		return err_wrap(&c->err, "--timeout");
	if (timeout)
		deadline = clock_boot_us(clock_real()) + seconds * 1000000;
	if (ref_resolve_all(c, c->args.operand, c->args.n, &ids, &n))
		return -1;
	int rc = 0, code = EXIT_OK;
	cJSON *all = cJSON_CreateArray();
	for (size_t i = 0; !rc && i < n; i++) {
		char *status;
		rc = wait_job(c, ids[i], &k, deadline, &status);
		if (rc)
			break;
		if (is_end(status) && job_exit_code(status))
			code = EXIT_JOB_FAILED;
		if (c->json) {
			cJSON *one = cJSON_CreateObject();
			cJSON_AddNumberToObject(one, "id", (double)ids[i]);
			cJSON_AddStringToObject(one, "status", status);
			cJSON_AddItemToArray(all, one);
		} else {
			printf("%llu %s\n", (unsigned long long)ids[i], status);
			fflush(stdout);
		}
		free(status);
	}
	if (!rc)
		ctx_show_json(c, all);
	cJSON_Delete(all);
	free(ids);
	/* --exit-code is the default already; the option says it in scripts. */
	return rc ? -1 : code;
}

/* ---- why, top, diff ---- */

static int exec_why(struct ctx *c)
{
	uint64_t id;
	if (ref_resolve(c, c->args.operand[0], &id))
		return -1;
	char *path = xasprintf("/jobs/%llu/why", (unsigned long long)id);
	cJSON *answer = NULL;
	int rc = ctx_call(c, "GET", path, NULL, &answer);
	free(path);
	if (rc)
		return rc < 0 ? -1 : 0;
	char *safe = print_safe(print_member(answer, "text"));
	printf("Job %llu is %s: %s\n", (unsigned long long)id, print_member(answer, "status"), safe);
	free(safe);
	cJSON_Delete(answer);
	return 0;
}

static volatile sig_atomic_t top_ended;

static void on_int(int signo)
{
	(void)signo;
	top_ended = 1;
}

static void top_once(const cJSON *answer)
{
	const cJSON *nodes = get(answer, "nodes"), *jobs = get(answer, "jobs");
	printf("%sNodes%s %s up of %s   %sGPUs%s %s used of %s   %sSlots%s %s used of %s   %sJobs%s %s running, "
	       "%s waiting\n",
	       print_bold(), print_reset(), print_member(nodes, "up"), print_member(nodes, "total"), print_bold(),
	       print_reset(), print_member(nodes, "gpus_used"), print_member(nodes, "gpus"), print_bold(),
	       print_reset(), print_member(nodes, "slots_used"), print_member(nodes, "slots"), print_bold(),
	       print_reset(), print_member(jobs, "running"), print_member(jobs, "waiting"));
	const cJSON *list = get(answer, "running");
	if (!cJSON_GetArraySize(list))
		return;
	static const char *const heads[] = {">ID", "NAME", "OWNER", "STATUS", ">RAN", "NODES", "METRICS"};
	struct table *t = table_create(heads, 7);
	const cJSON *j, *n;
	cJSON_ArrayForEach (j, list) {
		char *where = xstrdup(""), *metrics = xstrdup("");
		cJSON_ArrayForEach (n, get(j, "nodes")) {
			char *longer =
			    xasprintf("%s%s%s", where, *where ? "," : "", cJSON_IsString(n) ? n->valuestring : "?");
			free(where);
			where = longer;
		}
		cJSON_ArrayForEach (n, get(j, "metrics")) {
			char *longer = xasprintf("%s%s%s=%s", metrics, *metrics ? " " : "", n->string,
			                         cJSON_IsObject(n) ? print_member(n, "last")
			                                           : print_member(get(j, "metrics"), n->string));
			free(metrics);
			metrics = longer;
		}
		table_cell(t, print_member(j, "id"));
		table_cell(t, print_member(j, "name"));
		table_cell(t, print_member(j, "owner"));
		table_cell(t, print_member(j, "status"));
		table_cell(t, print_span(text_of(j, "started_at"), NULL));
		table_cell(t, where);
		table_cell(t, metrics);
		free(where);
		free(metrics);
	}
	table_print(t);
	table_destroy(t);
}

static int exec_top(struct ctx *c)
{
	int again = print_is_tty() && !c->json && !args_has(&c->args, "once");
	if (again)
		signal(SIGINT, on_int);
	do {
		cJSON *answer = NULL;
		int rc = ctx_call(c, "GET", "/top", NULL, &answer);
		if (rc)
			return rc < 0 ? -1 : 0;
		if (again)
			fputs("\033[H\033[2J", stdout);
		top_once(answer);
		fflush(stdout);
		cJSON_Delete(answer);
		if (again)
			poll(NULL, 0, 1000);
	} while (again && !top_ended);
	return 0;
}

/* Leaves of a tree by dotted path. */
static void flatten(const cJSON *v, const char *path, cJSON *out)
{
	if (cJSON_IsObject(v) && v->child) {
		const cJSON *m;
		cJSON_ArrayForEach (m, v) {
			char *sub = *path ? xasprintf("%s.%s", path, m->string) : xstrdup(m->string);
			flatten(m, sub, out);
			free(sub);
		}
		return;
	}
	char *text = cJSON_IsString(v) ? xstrdup(v->valuestring) : json_text(v);
	cJSON_AddStringToObject(out, path, text);
	free(text);
}

static cJSON *diff_side(struct ctx *c, const char *ref)
{
	uint64_t id;
	cJSON *job = NULL, *run = NULL, *flat = NULL;
	if (ref_resolve(c, ref, &id))
		return NULL;
	char *path = xasprintf("/jobs/%llu", (unsigned long long)id),
	     *run_path = xasprintf("/jobs/%llu/run", (unsigned long long)id);
	if (!client_call(ctx_client(c), "GET", path, NULL, &job, &c->err) &&
	    !client_call(c->client, "GET", run_path, NULL, &run, &c->err)) {
		static const char *const parts[] = {"name", "status", "exit_code", "reason", "spec", "tags", NULL};
		flat = cJSON_CreateObject();
		for (const char *const *p = parts; *p; p++) {
			if (get(job, *p))
				flatten(get(job, *p), *p, flat);
		}
		const cJSON *m;
		cJSON_ArrayForEach (m, get(job, "metrics")) {
			char *sub = xasprintf("metrics.%s", m->string);
			cJSON_AddStringToObject(flat, sub, print_member(m, "last"));
			free(sub);
		}
		flatten(run, "run", flat);
	}
	cJSON_Delete(job);
	cJSON_Delete(run);
	free(path);
	free(run_path);
	return flat;
}

static void diff_row(struct table *t, cJSON *json, const char *key, const char *a, const char *b)
{
	table_cell(t, key);
	table_cellf(t, "%.60s", a ? a : "-");
	table_cellf(t, "%.60s", b ? b : "-");
	cJSON *pair = cJSON_AddArrayToObject(json, key);
	cJSON_AddItemToArray(pair, a ? cJSON_CreateString(a) : cJSON_CreateNull());
	cJSON_AddItemToArray(pair, b ? cJSON_CreateString(b) : cJSON_CreateNull());
}

static int exec_diff(struct ctx *c)
{
	cJSON *a = diff_side(c, c->args.operand[0]), *b = a ? diff_side(c, c->args.operand[1]) : NULL;
	if (!a || !b) {
		cJSON_Delete(a);
		return -1;
	}
	const char *heads[] = {"", c->args.operand[0], c->args.operand[1]};
	struct table *t = table_create(heads, 3);
	cJSON *json = cJSON_CreateObject();
	const cJSON *v;
	cJSON_ArrayForEach (v, a) {
		const char *other = text_of(b, v->string);
		if (!other || strcmp(other, v->valuestring) != 0)
			diff_row(t, json, v->string, v->valuestring, other);
	}
	cJSON_ArrayForEach (v, b) {
		if (!get(a, v->string))
			diff_row(t, json, v->string, NULL, v->valuestring);
	}
	if (!ctx_show_json(c, json)) {
		if (table_rows(t))
			table_print(t);
		else
			puts("No difference.");
	}
	table_destroy(t);
	cJSON_Delete(json);
	cJSON_Delete(a);
	cJSON_Delete(b);
	return 0;
}

static const struct arg_opt ls_opts[] = {{"all", 'a', NULL, "jobs of all users"},
                                         {"limit", 'n', "N", "at most so many (default 50)"},
                                         {"before", 0, "ID", "the page of older jobs"},
                                         {NULL, 0, NULL, NULL}};
static const struct arg_opt wait_opts[] = {
    {"for", 0, "running|step>N|end", "what to wait for (default end)"},
    {"exit-code", 0, NULL, "exit 0 when all completed, else 1 (this is the default)"},
    {"timeout", 't', "DURATION", "exit 124 when it takes longer, e.g. 90, 5m, 2h"},
    {NULL, 0, NULL, NULL}};
static const struct arg_opt top_opts[] = {{"once", '1', NULL, "show it once, also on a terminal"},
                                          {NULL, 0, NULL, NULL}};

const struct verb verbs_jobs[] = {
    {"ls", "[QUERY...]", "list jobs: status:X owner:X name:X tag.K=V or text", ls_opts, 0, 32, exec_ls},
    {"show", "JOB", "all about a job", NULL, 1, 1, exec_show},
    {"wait", "JOB...", "wait for jobs", wait_opts, 1, 256, exec_wait},
    {"why", "JOB", "what a job waits for, or why it ended", NULL, 1, 1, exec_why},
    {"top", "", "what runs now", top_opts, 0, 0, exec_top},
    {"diff", "A B", "what differs between two jobs", NULL, 2, 2, exec_diff},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
