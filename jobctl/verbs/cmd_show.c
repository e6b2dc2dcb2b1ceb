/*
 * cmd_show: everything about one job: state, specification, attempts and results.
 */
#include "jobctl/verbs/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/spec/launcher.h"
#include "common/spec/spec.h"
#include "jobctl/client/ref.h"
#include "jobctl/show/members.h"
#include "jobctl/show/metrics.h"
#include "jobctl/show/pools.h"
#include "jobctl/show/print.h"

#define MEMBERS_SHOWN 20

/* ---- the specification ---- */

/* Quotes a word for a shell; line ends are shown as \n. Malloc'ed. */
static char *quote_word(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
	size_t n = strlen(word), k = 0;
	if (n && strspn(word, plain) == n)
		return xstrdup(word);
	char *out = xmalloc(4 * n + 3);
	out[k++] = '\'';
	for (const char *p = word; *p; p++) {
		const char *as = *p == '\'' ? "'\\''" : *p == '\n' ? "\\n" : *p == '\t' ? "\\t" : NULL;
		if (as)
			k = (size_t)(stpcpy(out + k, as) - out);
		else
			out[k++] = *p;
	}
	out[k++] = '\'';
	out[k] = 0;
	return out;
}

static char *command_text(const struct strv *command)
{
	char *all = xstrdup("");
	for (size_t i = 0; i < command->n; i++) {
		cleanup_free char *word = quote_word(command->v[i]);
		xappendf(&all, "%s%s", i ? " " : "", word);
	}
	return all;
}

static const char *plural_end(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static char *gang_text(const struct spec_group *g, int named)
{
	char *all = named ? xasprintf("%s: ", g->name) : xstrdup("");
	xappendf(&all, "%u node%s", g->instances, plural_end(g->instances));
	xappendf(&all, "%s %u rank%s", g->instances == 1 ? " with" : ", each with", g->ranks_per_instance,
	         plural_end(g->ranks_per_instance));
	if (g->gpus_per_instance)
		xappendf(&all, ", %u GPU%s", g->gpus_per_instance, plural_end(g->gpus_per_instance));
	if (g->cpus_per_rank)
		xappendf(&all, ", %u CPU%s per rank", g->cpus_per_rank, plural_end(g->cpus_per_rank));
	return all;
}

static void show_resources(const struct job_spec *s)
{
	char size[32], *all = xstrdup("");
	for (size_t i = 0; i < s->n_groups; i++) {
		char *gang = gang_text(&s->groups[i], s->has_groups);
		xappendf(&all, "%s%s", i ? "; " : "", gang);
		free(gang);
	}
	if (s->memory_bytes)
		xappendf(&all, ", %s memory", str_size(s->memory_bytes, size, sizeof(size)));
	if (s->disk_bytes)
		xappendf(&all, ", %s disk", str_size(s->disk_bytes, size, sizeof(size)));
	if (s->gpu_model)
		xappendf(&all, ", GPU model %s", s->gpu_model);
	if (s->gpu_memory_bytes)
		xappendf(&all, ", %s per GPU", str_size(s->gpu_memory_bytes, size, sizeof(size)));
	for (size_t i = 0; i < s->instance_types.n; i++)
		xappendf(&all, "%s%s", i ? " or " : ", type ", s->instance_types.v[i]);
	for (size_t i = 0; i < s->requires.n; i++)
		xappendf(&all, "%s%s", i ? " and " : ", with ", s->requires.v[i]);
	if (s->exclusive)
		xappendf(&all, ", alone on its nodes");
	print_line("resources", all);
	free(all);
}

static void show_hyperparameters(const cJSON *hps)
{
	const cJSON *h;
	size_t n = 0;
	char **items = xcalloc((size_t)cJSON_GetArraySize(hps) + 1, sizeof(char *));
	cJSON_ArrayForEach (h, hps) {
		char *text = cJSON_IsString(h) ? quote_word(h->valuestring) : json_text(h);
		items[n++] = xasprintf("%s=%s", h->string, text);
		free(text);
	}
	print_items("hyperparams", items, n);
	for (size_t i = 0; i < n; i++)
		free(items[i]);
	free(items);
}

static int is_dropped(const cJSON *job, const char *what)
{
	const cJSON *d;
	int found = 0;
	cJSON_ArrayForEach (d, jget(job, "dropped"))
		found |= cJSON_IsString(d) && strcmp(d->valuestring, what) == 0;
	return found;
}

/* Shows the source of the code, and the command to fetch it. */
static void show_source(const cJSON *job, const struct job_spec *s)
{
	const cJSON *run = jget(job, "run");
	const char *commit = jtext(run, "git_commit"), *branch = jtext(run, "git_branch"),
	           *bundle = jtext(job, "bundle");
	char *all = xstrdup(s->source_dir ? s->source_dir : "");
	if (commit)
		xappendf(&all, "%sgit %.12s%s%s%s", *all ? ", " : "", commit, branch ? " on " : "",
		         branch ? branch : "",
		         cJSON_IsTrue(jget(run, "git_dirty")) ? ", with uncommitted changes" : "");
	if (bundle && *bundle && !is_dropped(job, "bundle"))
		xappendf(&all, "%sjobctl get %s code", *all ? ": " : "", print_member(job, "id"));
	print_line("source", all);
	free(all);
}

static void show_inputs(const struct job_spec *s)
{
	for (size_t i = 0; i < s->n_inputs; i++) {
		char *text =
		    xasprintf("%s: %s%s", s->inputs[i].name, s->inputs[i].uri, s->inputs[i].link ? " (link)" : "");
		print_line("input", text);
		free(text);
	}
	if (s->resume_job && s->resume_step >= 0) {
		char *text = xasprintf("%s@%" PRId64, s->resume_job, s->resume_step);
		print_line("resumes", text);
		free(text);
	} else {
		print_line("resumes", s->resume_job);
	}
}

/* Shows the specification with defaults, except keys that are shown elsewhere. */
static void show_what(const cJSON *job)
{
	struct job_spec *s = spec_from_json(jget(job, "spec"), NULL);
	if (!s)
		return; /* perhaps of a later version; --json has it */
	char *command = command_text(&s->command);
	print_line("command", command);
	free(command);
	for (size_t i = 0; i < s->n_groups && s->has_groups; i++) {
		if (!s->groups[i].command.n)
			continue;
		char *one = command_text(&s->groups[i].command), *text = xasprintf("%s: %s", s->groups[i].name, one);
		print_line("command", text);
		free(text);
		free(one);
	}
	print_line("launcher", launcher_name(s->launcher));
	show_resources(s);
	show_hyperparameters(jget(job, "hyperparameters"));
	show_source(job, s);
	show_inputs(s);
	for (size_t i = 0; i < s->n_after; i++) {
		char *text = xasprintf("%s:%" PRIu64, spec_after_name(s->after[i].kind), s->after[i].job);
		print_line("after", text);
		free(text);
	}
	print_line("output", s->output_uri ? s->output_uri : "stored by hearthd");
	spec_destroy(s);
}

/* ---- attempts and results ---- */

static void show_phases(const cJSON *attempt)
{
	const cJSON *p;
	int first = 1;
	cJSON_ArrayForEach (p, jget(attempt, "phases")) {
		printf("%s%s %s", first ? "    phases: " : ", ", print_member(p, "name"),
		       print_span(jtext(p, "started_at"), jtext(p, "ended_at")));
		first = 0;
	}
	if (!first)
		putchar('\n');
}

/* Shows what an attempt continued from: "step 6 of attempt 1". */
static void show_begin(const cJSON *attempt)
{
	const char *from = jtext(attempt, "resumed_from");
	const cJSON *step = jget(attempt, "resumed_from_step");
	if (!from || !*from)
		return;
	char *name = strncmp(from, "attempt:", 8) == 0 ? xasprintf("attempt %s", from + 8) : xstrdup(from),
	     *safe = print_safe(name);
	if (cJSON_IsNumber(step) && step->valuedouble >= 0)
		printf("    continued from step %.0f of %s\n", step->valuedouble, safe);
	else
		printf("    continued from the checkpoints of %s\n", safe);
	free(safe);
	free(name);
}

/* Shows "; 12 steps (34s) are lost". */
static void show_lost(const cJSON *attempt)
{
	const cJSON *steps = jget(attempt, "lost_steps"), *time = jget(attempt, "lost_s");
	char span[40] = "";
	if (cJSON_IsNumber(time))
		str_duration((uint64_t)(time->valuedouble + 0.5), span, sizeof(span));
	if (cJSON_IsNumber(steps))
		printf("; %.0f step%s%s%s%s %s lost", steps->valuedouble, plural_end((uint64_t)steps->valuedouble),
		       *span ? " (" : "", span, *span ? ")" : "", steps->valuedouble == 1 ? "is" : "are");
	else if (*span)
		printf("; %s of work is lost", span);
}

/* Shows how long it took from the failure to the next step: "next step after 5.2s: noticed 0.1s, ...".
 * Without steps the start of the next ranks counts. */
static void show_recovery(const cJSON *attempt)
{
	const cJSON *list = jget(attempt, "recovery"), *p, *last = NULL;
	uint64_t from, to, first = 0;
	char *all = xstrdup("");
	cJSON_ArrayForEach (p, list) {
		from = print_time_us(jtext(p, "started_at"));
		to = print_time_us(jtext(p, "ended_at"));
		if (!from || to < from)
			continue;
		first = *all ? first : from;
		xappendf(&all, "%s%s %.1fs", *all ? ", " : "", print_member(p, "phase"), (double)(to - from) / 1e6);
		last = p;
	}
	for (char *c = all; *c; c++)
		*c = *c == '_' ? '-' : *c;
	const char *phase = *all ? print_member(last, "phase") : "";
	int step = strcmp(phase, "first_step") == 0;
	if (step || strcmp(phase, "launched") == 0)
		printf("    next %s after %.1fs: %s\n", step ? "step" : "ranks",
		       (double)(print_time_us(jtext(last, "ended_at")) - first) / 1e6, all);
	else if (*all)
		printf("    recovery until now: %s\n", all);
	free(all);
}

/* Shows what followed the attempt, and what it cost: "then: goes on elsewhere from step 6; 12 steps (3s) are
 * lost". */
static void show_plan(const cJSON *attempt)
{
	const char *text = jtext(jget(attempt, "plan"), "text"), *skip = jtext(attempt, "skip_steps");
	const cJSON *aside = jget(attempt, "set_aside");
	if (text && *text) {
		char *safe = print_safe(text);
		printf("    then: %s", safe);
		show_lost(attempt);
		putchar('\n');
		free(safe);
	}
	if (skip && *skip) {
		char *safe = print_safe(skip);
		printf("    leaves out steps %s\n", safe);
		free(safe);
	}
	if (cJSON_GetArraySize(aside)) {
		char *steps = json_text(aside), *safe = print_safe(steps);
		printf("    set aside: checkpoints of steps %s\n", safe);
		free(safe);
		free(steps);
	}
	show_recovery(attempt);
}

/* Shows why an attempt after the first was started. */
static void show_cause(const cJSON *attempt)
{
	const char *cause = jtext(attempt, "cause");
	if (!cause || !*cause || print_number(attempt, "number") <= 1)
		return;
	char *local = print_local(cause), *safe = print_safe(local);
	printf("    cause: %s\n", safe);
	free(safe);
	free(local);
}

/* What the end of an attempt is called: its class, or the rule of the job that asked for it. */
static char *end_name(const cJSON *attempt)
{
	const char *cls = jtext(attempt, "class");
	const char *rule = jtext(jget(jget(attempt, "evidence"), "watch"), "kind");

	if (!cls || !*cls)
		return NULL;
	/* A watch gives its ends a class of their own. */
	return rule && strcmp(cls, "unknown") == 0 ? xasprintf("rule %s", rule) : xstrdup(cls);
}

static void show_attempts(const cJSON *job)
{
	char usd[40];
	const cJSON *a, *n;
	cJSON_ArrayForEach (a, jget(job, "attempts")) {
		printf("%sAttempt %s%s", print_bold(), print_member(a, "number"), print_reset());
		const char *outcome = jtext(a, "outcome");
		printf("  %s", outcome && *outcome ? outcome : "in progress");
		char *end = end_name(a), *safe_end = end ? print_safe(end) : NULL;
		if (end)
			printf(" (%s)", safe_end);
		free(safe_end);
		free(end);
		printf(" on");
		cJSON_ArrayForEach (n, jget(a, "nodes")) {
			char *node = print_safe(cJSON_IsString(n) ? n->valuestring : print_member(n, "node"));
			printf(" %s", node);
			free(node);
		}
		if (jtext(a, "started_at"))
			printf(", %s", print_span(jtext(a, "started_at"), jtext(a, "ended_at")));
		if (cJSON_IsNumber(jget(a, "cost_usd")))
			printf(", $%s", str_amount(print_number(a, "cost_usd"), usd, sizeof(usd)));
		putchar('\n');
		show_cause(a);
		pools_show_attempt(a);
		show_begin(a);
		if (jtext(a, "reason") && *jtext(a, "reason")) {
			char *local = print_local(jtext(a, "reason")), *safe = print_safe(local);
			printf("    %s\n", safe);
			free(safe);
			free(local);
		}
		show_plan(a);
		show_phases(a);
	}
}

/* Shows "$3.20 so far, $7.20 per hour; at most $20.00". */
static void show_cost(const cJSON *job)
{
	const cJSON *cost = jget(job, "cost_usd"), *hour = jget(job, "price_per_hour_usd"),
	            *most = jget(jget(jget(job, "spec"), "limits"), "max_cost_usd");
	char *all = xstrdup(""), usd[40];
	if (cJSON_IsNumber(cost))
		xappendf(&all, "$%s%s", str_amount(cost->valuedouble, usd, sizeof(usd)),
		         cJSON_IsNumber(hour) ? " so far" : "");
	if (cJSON_IsNumber(hour))
		xappendf(&all, "%s$%.2f per hour", *all ? ", " : "", hour->valuedouble);
	if (cJSON_IsNumber(most))
		xappendf(&all, "%sat most $%.2f", *all ? "; " : "", most->valuedouble);
	print_line("cost", all);
	free(all);
}

/* Returns whether a later attempt left the same kind, which `get` fetches without -a. */
static int is_older(const cJSON *a)
{
	const cJSON *next;
	for (next = a->next; next; next = next->next) {
		if (strcmp(print_member(next, "kind"), print_member(a, "kind")) == 0 &&
		    print_number(next, "attempt") > print_number(a, "attempt"))
			return 1;
	}
	return 0;
}

/* Returns whether a later attempt replaced this artifact: at an output_uri all attempts use one place. */
static int is_replaced(const cJSON *a)
{
	const char *uri = jtext(a, "uri");
	for (const cJSON *next = a->next; uri && next; next = next->next) {
		const char *other = jtext(next, "uri");
		if (other && strcmp(other, uri) == 0 &&
		    strcmp(print_member(next, "kind"), print_member(a, "kind")) == 0 &&
		    print_number(next, "attempt") > print_number(a, "attempt"))
			return 1;
	}
	return 0;
}

static void show_artifacts(const cJSON *job)
{
	char *id = xstrdup(print_member(job, jtext(job, "ref") ? "ref" : "id"));
	const cJSON *a;
	cJSON_ArrayForEach (a, jget(job, "artifacts")) {
		char size[32];
		const cJSON *b = jget(a, "size_bytes");
		const char *kind = print_member(a, "kind"), *uri = jtext(a, "uri");
		int older = is_older(a);
		printf("%s%-12s%s %s, %s file%s", print_bold(), kind, print_reset(),
		       str_size(cJSON_IsNumber(b) ? (uint64_t)b->valuedouble : 0, size, sizeof(size)),
		       print_member(a, "files"), print_number(a, "files") == 1 ? "" : "s");
		if (uri && *uri && is_replaced(a))
			puts(", replaced by a newer attempt");
		else if (uri && *uri)
			printf(", at %s\n", uri);
		else if (jtext(a, "removed_at") || is_dropped(job, "artifacts"))
			puts(", removed");
		else
			printf(", stored by hearthd: jobctl get %s %s%s%s\n", id, kind, older ? " -a " : "",
			       older ? print_member(a, "attempt") : "");
	}
	free(id);
}

static void show_tags(const cJSON *job)
{
	const cJSON *t;
	cJSON_ArrayForEach (t, jget(job, "tags")) {
		char *text = xasprintf("%s=%s", t->string, cJSON_IsString(t) ? t->valuestring : "");
		print_line("tag", text);
		free(text);
	}
}

static void show_dropped(const cJSON *job)
{
	const cJSON *d;
	cJSON_ArrayForEach (d, jget(job, "dropped")) {
		const char *name = cJSON_IsString(d) ? d->valuestring : "";
		const char *at = jtext(jget(job, "dropped_at"), name);
		char *text =
		    xasprintf("%s by %s on %.10s", name, cJSON_IsTrue(jget(job, "deleted")) ? "rm" : "retention",
		              at ? print_time(at) : "an unknown day");
		print_line("removed", at ? text : name);
		free(text);
	}
}

/* Shows the newest alarm of the job's watches: "the loss is not finite since step 201 (2 alarms in all)". */
static void show_alert(const cJSON *job)
{
	const char *text = jtext(jget(job, "alert"), "text");
	double n = print_number(job, "alerts");
	if (!text || !*text)
		return;
	char *all =
	    n > 1 ? xasprintf("%s (%.0f alarms in all: jobctl events %s)", text, n, print_member(job, "ref"))
	          : xstrdup(text);
	print_line("alert", all);
	free(all);
}

static int show_ranks(struct ctx *c, uint64_t job)
{
	static const char *const heads[] = {">RANK", "NODE", "STATE", ">EXIT", ">SIGNAL",
	                                    "OOM",   ">PID", ">RAN",  "TEXT"};
	char *path = xasprintf("/jobs/%" PRIu64 "/ranks", job);
	cJSON *answer;
	const cJSON *r;
	int rc = ctx_call(c, "GET", path, NULL, &answer);
	free(path);
	if (rc)
		return rc < 0 ? -1 : 0;
	struct table *t = table_create(heads, 9);
	cJSON_ArrayForEach (r, jget(answer, "ranks")) {
		table_cell(t, print_member(r, "rank"));
		table_cell(t, print_member(r, "node"));
		table_cell(t, print_member(r, "state"));
		table_cell(t, print_member(r, "exit_code"));
		table_cell(t, print_member(r, "signal"));
		table_cell(t, cJSON_IsTrue(jget(r, "oom")) ? "yes" : "-");
		table_cell(t, print_member(r, "pid"));
		table_cell(t, print_span(jtext(r, "started_at"), jtext(r, "ended_at")));
		table_cell(t, print_member(r, "text"));
	}
	if (table_rows(t))
		table_print(t);
	else
		puts("No ranks: the job has not been placed yet.");
	table_destroy(t);
	cJSON_Delete(answer);
	return 0;
}

/* Shows "2h5m, in 3 attempts". */
static void show_ran(const cJSON *job)
{
	const char *ran = print_ran(job);
	char *text = print_number(job, "attempt_count") > 1
	                 ? xasprintf("%s, in %s attempts", ran, print_member(job, "attempt_count"))
	                 : xstrdup(ran);
	if (strcmp(ran, "-") != 0)
		print_line("ran", text);
	free(text);
}

static void show_limit(const cJSON *job)
{
	const cJSON *limit = jget(job, "max_runtime_s");
	const char *from = jtext(job, "max_runtime_from");
	char text[40];
	if (!cJSON_IsNumber(limit))
		return;
	str_duration((uint64_t)limit->valuedouble, text, sizeof(text));
	char *all = xasprintf("%s (%s)", text,
	                      from && !strcmp(from, "set")                 ? "set later"
	                      : from && strcmp(from, "specification") == 0 ? "from the specification"
	                                                                   : "the cluster's default");
	print_line("time limit", all);
	free(all);
}

/* Shows what a job waits for. Its reason has only a few words, so hearthd is asked for the rest. */
static void show_waits(struct ctx *c, const cJSON *job)
{
	const char *status = jtext(job, "status");
	cJSON *answer = NULL;
	char *path;

	if (!status || strcmp(status, "queued") != 0)
		return;
	path = xasprintf("/jobs/%s/why", print_member(job, "id"));
	if (ctx_get(c, "GET", path, NULL, &answer) == 0)
		print_sentence("waits", jtext(answer, "text"));
	memset(&c->err, 0, sizeof(c->err)); /* it may have started meanwhile, or have been removed */
	cJSON_Delete(answer);
	free(path);
}

/* Shows the array of a member, or the states of an array's members. */
static void show_array(const cJSON *job)
{
	const cJSON *of = jget(job, "array"), *counts = jget(job, "members");
	if (cJSON_IsObject(of)) {
		char *text = xasprintf("%s of job %s; its own id is %s", print_member(of, "index"),
		                       print_member(of, "job"), print_member(job, "id"));
		print_line("member", text);
		free(text);
	}
	if (cJSON_IsObject(counts)) {
		char *text = members_text(counts);
		print_line("members", text);
		free(text);
	}
}

static int exec_show(struct ctx *c)
{
	uint64_t id;
	if (ref_resolve(c, c->args.operand[0], &id))
		return -1;
	uint64_t limit = MEMBERS_SHOWN;
	if (args_u64(&c->args, "members", 0, 10000, &limit, &c->err))
		return -1;
	if (args_has(&c->args, "ranks"))
		return show_ranks(c, id);
	if (args_has(&c->args, "members"))
		return members_show(c, id, NULL, limit);
	cJSON *job = ctx_job(c, id);
	if (!job || ctx_show_json(c, job)) {
		cJSON_Delete(job);
		return job ? 0 : -1;
	}
	const char *status = jtext(job, "status");
	char *name = print_safe(print_member(job, "name"));
	printf("%sJob %s%s  %s  %s%s%s\n", print_bold(), print_member(job, jtext(job, "ref") ? "ref" : "id"),
	       print_reset(), name, print_status_colour(status), status ? status : "-", print_reset());
	free(name);
	show_array(job);
	print_sentence("reason", jtext(job, "reason"));
	show_waits(c, job);
	print_line("owner", jtext(job, "owner"));
	if (jtext(job, "account") && strcmp(print_member(job, "owner"), print_member(job, "account")) != 0)
		print_line("account", jtext(job, "account"));
	print_line("experiment", jtext(job, "experiment"));
	print_line("notes", jtext(job, "notes"));
	print_line("created", print_time_zone(jtext(job, "created_at")));
	print_line("started", print_time(jtext(job, "started_at")));
	print_line("ended", print_time(jtext(job, "ended_at")));
	show_ran(job);
	show_alert(job);
	show_cost(job);
	pools_show_job(job);
	print_line("exit code", print_member(job, "exit_code"));
	show_limit(job);
	if (print_number(job, "priority") != 0)
		print_line("priority", print_member(job, "priority"));
	if (jtext(job, "queue") && strcmp(jtext(job, "queue"), "default") != 0)
		print_line("queue", jtext(job, "queue"));
	print_line("wanted", jtext(job, "wanted"));
	print_line("clean-up", jtext(job, "cleanup"));
	if (cJSON_IsTrue(jget(job, "pinned")))
		print_line("pinned", "retention removes nothing of it");
	show_tags(job);
	show_what(job);
	show_dropped(job);
	show_attempts(job);
	metrics_table(jget(job, "metrics"), print_number(job, "attempt_count"));
	show_artifacts(job);
	int rc = cJSON_IsObject(jget(job, "members")) ? members_show(c, id, NULL, limit) : 0;
	cJSON_Delete(job);
	return rc;
}

static const struct arg_opt show_opts[] = {
    {"ranks", 'r', NULL, "Show its processes, one line each"},
    {"members", 'm', "N", "Show only the members of an array or sweep, at most N; 0: all"},
    {NULL, 0, NULL, NULL}};

const struct verb verbs_show[] = {{"show", "JOB", "Show everything about a job", show_opts, 1, 1, exec_show},
                                  {NULL, NULL, NULL, NULL, 0, 0, NULL}};
