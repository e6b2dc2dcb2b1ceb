/*
 * cmd_completion: completion for the shell. The script in completion/jobctl (built in) calls `jobctl
 * completion words` at each TAB. The words come from the table of verbs and, for jobs and nodes, from the
 * controller. Failures are silent, because a shell's line must show no errors.
 */
#include "jobctl/verbs/verbs.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "jobctl/show/print.h"
#include "jobctl/verbs/completion.h"
#include "jobctl/verbs/completion_script.h"

#define LIVE_S 2 /* time limit for the controller */

struct line {
	struct ctx *c; /* NULL: no controller is asked */
	const struct verb *const *verbs;
	const char *const *words;
	size_t n, at;      /* the word at the cursor */
	const char *start; /* of that word */
	complete_fn put;
	void *arg;
	const char *job; /* the first operand; NULL: none */
};

static void offer_word(const struct line *l, const char *word)
{
	if (strncmp(word, l->start, strlen(l->start)) == 0)
		l->put(word, l->arg);
}

/* ---- from the controller -------------------------------------------------------------------------- */

static void stop_waiting(int signo)
{
	(void)signo;
	_exit(0);
}

static cJSON *ask_controller(const struct line *l, const char *path)
{
	struct sigaction sa = {.sa_handler = stop_waiting};
	cJSON *answer = NULL;
	if (!l->c || !ctx_client(l->c))
		return NULL;
	client_patience(l->c->client, 0);
	fflush(stdout);
	sigaction(SIGALRM, &sa, NULL);
	alarm(LIVE_S);
	client_call(l->c->client, "GET", path, NULL, &answer, NULL);
	alarm(0);
	return answer;
}

static void offer_jobs(const struct line *l, const char *verb)
{
	static const struct {
		const char *verb, *query;
	} only[] = {{"stop", "&status=active"},    {"wait", "&status=active"}, {"hold", "&status=queued"},
	            {"requeue", "&status=active"}, {"set", "&status=active"},  {"release", "&status=held"},
	            {"retry", "&status=failed"}};
	const char *query = "";
	for (size_t i = 0; i < sizeof(only) / sizeof(only[0]); i++) {
		if (strcmp(only[i].verb, verb) == 0)
			query = only[i].query;
	}
	char *path = xasprintf("/jobs?limit=200&mine=1%s", query);
	cJSON *answer = ask_controller(l, path);
	const cJSON *j;
	cJSON_ArrayForEach (j, jget(answer, "jobs")) {
		char id[32];
		snprintf(id, sizeof(id), "%.31s", print_member(j, jtext(j, "ref") ? "ref" : "id"));
		offer_word(l, id);
		if (jtext(j, "name") && *l->start)
			offer_word(l, jtext(j, "name"));
	}
	offer_word(l, "last");
	cJSON_Delete(answer);
	free(path);
}

/* Offers the names in a listing; of pools the ids, too, because several may have one name. */
static void offer_names(const struct line *l, const char *path, const char *list)
{
	cJSON *answer = ask_controller(l, path);
	const cJSON *n;
	cJSON_ArrayForEach (n, jget(answer, list)) {
		if (strcmp(list, "pools") == 0)
			offer_word(l, print_member(n, "id"));
		if (jtext(n, "name"))
			offer_word(l, jtext(n, "name"));
	}
	cJSON_Delete(answer);
}

static void offer_nodes(const struct line *l)
{
	offer_names(l, "/nodes", "nodes");
}

/* Offers the names of the streams or metrics of the job on the line. */
static void offer_of_job(const struct line *l, const char *what)
{
	if (!l->job)
		return;
	char *esc = client_escape(l->job), *ref = xasprintf("/jobs/resolve?ref=%s", esc);
	cJSON *found = ask_controller(l, ref), *answer = NULL;
	const cJSON *m, *list;
	if (cJSON_IsNumber(jget(found, "id"))) {
		char *path = xasprintf("/jobs/%.0f/%s", jget(found, "id")->valuedouble, what);
		answer = ask_controller(l, path);
		free(path);
	}
	list = strcmp(what, "logs") != 0 ? answer : jget(answer, "streams");
	cJSON_ArrayForEach (m, list) {
		const char *name = strcmp(what, "logs") != 0 ? m->string : jtext(m, "stream");
		if (name)
			offer_word(l, name);
	}
	cJSON_Delete(answer);
	cJSON_Delete(found);
	free(ref);
	free(esc);
}

/* ---- from the tables ------------------------------------------------------------------------------ */

/* Offers each of "model|output|code"; words with a place holder ("step>N") are left out. */
static void offer_choices(const struct line *l, const char *choices)
{
	char *copy = xstrdup(choices), *save = NULL;
	for (char *w = strtok_r(copy, "|", &save); w; w = strtok_r(NULL, "|", &save)) {
		if (w[strspn(w, "abcdefghijklmnopqrstuvwxyz0123456789-")] == 0)
			offer_word(l, w);
	}
	free(copy);
}

/* Offers words for a place holder of the help. */
static void offer_kind(const struct line *l, const char *kind, const char *verb)
{
	static const char *const states[] = {"status:active",
	                                     "status:held",
	                                     "status:queued",
	                                     "status:starting",
	                                     "status:running",
	                                     "status:stopping",
	                                     "status:completed",
	                                     "status:failed",
	                                     "status:stopped",
	                                     "owner:",
	                                     "name:",
	                                     "experiment:",
	                                     "tag.",
	                                     NULL};
	if (strcmp(kind, "JOB") == 0 || strcmp(kind, "A") == 0 || strcmp(kind, "B") == 0)
		offer_jobs(l, verb);
	else if (strcmp(kind, "FILE|JOB") == 0) {
		offer_jobs(l, verb);
		l->put(":files", l->arg);
	} else if (strcmp(kind, "NODE") == 0 || strcmp(kind, "N|NAME") == 0)
		offer_nodes(l);
	else if (strcmp(kind, "NAME") == 0 && strcmp(verb, "logs") == 0)
		offer_of_job(l, "logs");
	else if (strcmp(kind, "NAME") == 0 &&
	         (strcmp(verb, "reserve set") == 0 || strcmp(verb, "reserve rm") == 0))
		offer_names(l, "/reservations", "reservations");
	else if (strcmp(kind, "POOL") == 0)
		offer_names(l, "/pools", "pools");
	else if (strcmp(kind, "QUEUE") == 0)
		offer_names(l, "/queues", "queues");
	else if (strcmp(kind, "NAME") == 0 && strcmp(verb, "metrics") == 0)
		offer_of_job(l, "metrics");
	else if (strncmp(kind, "FILE", 4) == 0 || strcmp(kind, "DIR") == 0)
		l->put(":files", l->arg);
	else if (strcmp(kind, "QUERY") == 0)
		for (const char *const *s = states; *s; s++)
			offer_word(l, *s);
	else if (strcmp(kind, "KEY=VALUE") == 0 && strcmp(verb, "set") == 0)
		offer_choices(l, "priority|time|queue");
	else if (strchr(kind, '|') || kind[strspn(kind, "abcdefghijklmnopqrstuvwxyz")] == 0)
		offer_choices(l, kind);
}

/* Returns the place holder of the nth operand in "JOB model|output [DIR]"; one that ends with dots repeats.
 * Malloc'ed. */
static char *operand_kind(const char *operands, size_t nth)
{
	char *copy = xstrdup(operands), *save = NULL, *found = NULL;
	for (char *w = strtok_r(copy, " []", &save); w && !found; w = strtok_r(NULL, " []", &save)) {
		char *dots = strstr(w, "...");
		if (dots)
			*dots = 0;
		if (nth == 0 || dots)
			found = xstrdup(w);
		nth--;
	}
	free(copy);
	return found;
}

static void offer_verbs(const struct line *l, const char *group)
{
	size_t n = group ? strlen(group) : 0;
	char last[64] = "";
	for (const struct verb *const *list = l->verbs; *list; list++) {
		for (const struct verb *v = *list; v->name; v++) {
			char word[64];
			if (group && (strncmp(v->name, group, n) != 0 || v->name[n] != ' '))
				continue;
			const char *from = v->name + (group ? n + 1 : 0);
			snprintf(word, sizeof(word), "%.*s", (int)strcspn(from, " "), from);
			if (strcmp(word, last) != 0)
				offer_word(l, word);
			memcpy(last, word, sizeof(last));
		}
	}
}

static const struct verb *find_verb(const struct line *l, const char *a, const char *b)
{
	for (const struct verb *const *list = l->verbs; *list; list++) {
		for (const struct verb *v = *list; v->name; v++) {
			size_t n = strlen(a);
			if (!b && strcmp(v->name, a) == 0)
				return v;
			if (b && strncmp(v->name, a, n) == 0 && v->name[n] == ' ' && strcmp(v->name + n + 1, b) == 0)
				return v;
		}
	}
	return NULL;
}

static const struct arg_opt common_opts[] = {
    {"json", 0, NULL, NULL}, {"url", 0, "URL", NULL}, {"help", 'h', NULL, NULL}, {NULL, 0, NULL, NULL}};

/* Finds the option that a word names; *has_value: it has the form "--x=y". */
static const struct arg_opt *find_opt(const struct arg_opt *opts, const char *word, int *has_value)
{
	*has_value = strchr(word, '=') != NULL;
	for (; opts && opts->name; opts++) {
		size_t n = strlen(opts->name);
		if (strncmp(word, "--", 2) == 0 && strncmp(word + 2, opts->name, n) == 0 &&
		    (!word[2 + n] || word[2 + n] == '='))
			return opts;
		if (word[0] == '-' && opts->letter && word[1] == opts->letter && !word[2])
			return opts;
	}
	return NULL;
}

static void offer_opts(const struct line *l, const struct arg_opt *opts)
{
	for (; opts && opts->name; opts++) {
		char *word = xasprintf("--%s", opts->name);
		offer_word(l, word);
		free(word);
	}
}

/* Offers words behind the verb: a value, an option or an operand. */
static void offer_rest(const struct line *l, const struct verb *v, size_t from)
{
	size_t operands = 0;
	const struct arg_opt *wants = NULL;
	int has_value, only_operands = 0;
	struct line with = *l;
	for (size_t i = from; i < l->at; i++) {
		const char *w = l->words[i];
		/* The shell splits at '=' and makes it a word. */
		if (wants && strcmp(w, "=") == 0)
			continue;
		if (wants) {
			wants = NULL;
		} else if (!only_operands && strcmp(w, "--") == 0) {
			only_operands = 1;
		} else if (!only_operands && w[0] == '-' && w[1]) {
			const struct arg_opt *o = find_opt(v->opts, w, &has_value);
			if (!o)
				o = find_opt(common_opts, w, &has_value);
			wants = o && o->value && !has_value ? o : NULL;
		} else if (!operands++) {
			with.job = w;
		}
	}
	l = &with;
	if (wants) {
		struct line value = *l;
		if (strcmp(value.start, "=") == 0)
			value.start = "";
		offer_kind(&value, wants->value, v->name);
	} else if (!only_operands && l->start[0] == '-') {
		offer_opts(l, v->opts);
		offer_opts(l, common_opts);
	} else {
		char *kind = operand_kind(v->operands, operands);
		if (kind)
			offer_kind(l, kind, v->name);
		free(kind);
	}
}

void complete_line(struct ctx *c, const struct verb *const *verbs, const char *const *words, size_t n,
                   size_t at, complete_fn put, void *arg)
{
	struct line l = {c, verbs, words, n, at, at < n ? words[at] : "", put, arg, NULL};
	size_t i = 1;
	for (; i < at && i < n && words[i][0] == '-'; i++) {
		if (strcmp(words[i], "--url") == 0 && i + 1 < at) {
			i += strcmp(words[i + 1], "=") == 0 ? 2 : 1;
			if (c && i < n)
				c->url_flag = words[i];
		}
	}
	if (at > n || at == 0)
		return;
	if (i >= at) {
		if (l.start[0] == '-')
			offer_opts(&l, common_opts);
		else
			offer_verbs(&l, NULL);
		return;
	}
	const struct verb *v = i + 1 < at ? find_verb(&l, words[i], words[i + 1]) : NULL;
	if (v) {
		offer_rest(&l, v, i + 2);
	} else if ((v = find_verb(&l, words[i], NULL))) {
		offer_rest(&l, v, i + 1);
	} else if (i + 1 == at) {
		offer_verbs(&l, words[i]);
	}
}

/* ---- the verbs ------------------------------------------------------------------------------------ */

static int exec_bash(struct ctx *c)
{
	(void)c;
	fputs(completion_script, stdout);
	return 0;
}

static void print_word(const char *word, void *arg)
{
	(void)arg;
	/* A name from outside must not become two lines. */
	if (!strpbrk(word, "\r\n"))
		puts(word);
}

static int exec_words(struct ctx *c)
{
	uint64_t at;
	if (str_parse_u64(c->args.operand[0], &at))
		return ctx_fail(c, ERR_INVALID, "'%s': expected the number of a word", c->args.operand[0]);
	complete_line(c, c->verbs, c->args.operand + 1, c->args.n - 1, at, print_word, NULL);
	return 0;
}

const struct verb verbs_completion[] = {
    {"completion bash", "", "Print the completion script for bash", NULL, 0, 0, exec_bash},
    {"completion words", "N -- WORD...",
     "For the completion script: list words that fit as word N of the line", NULL, 1, ARGS_MAX, exec_words},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
