/*
 * jobctl: a thin client of hearthd's HTTP API. main finds the verb, parses its arguments, and turns an error
 * into a message and an exit code.
 */
#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/proc.h"
#include "jobctl/client/ctx.h"
#include "jobctl/client/interrupt.h"
#include "jobctl/local/local.h"
#include "jobctl/show/print.h"
#include "jobctl/verb_table.h"

/* Verbs that are planned but not built; a message names them, so that they do not look like typing errors. */
static const char *const later[] = {"checkpoint", "node add", "node check", "ssh",  "scp", "forward",
                                    "attach",     "advise",   "report",     "hook", NULL};

static const struct arg_opt no_opts[] = {{NULL, 0, NULL, NULL}};

static const struct verb *verb_find(const char *name)
{
	for (const struct verb *const *l = verb_table; *l; l++) {
		for (const struct verb *v = *l; v->name; v++) {
			if (strcmp(v->name, name) == 0)
				return v;
		}
	}
	return NULL;
}

static void print_usage(FILE *f)
{
	fputs("usage: jobctl [--url URL] [--json] VERB [ARGUMENTS]\n\n", f);
	for (const struct verb *const *l = verb_table; *l; l++) {
		for (const struct verb *v = *l; v->name; v++) {
			char *head = xasprintf("%s %s", v->name, v->operands);
			fprintf(f, "  %-42s %s\n", head, v->help);
			free(head);
		}
	}
	fputs("\n  JOB is an id, `last`, a name, or NAME~1 (the job of that name before the newest).\n  JOB... "
	      "also accepts lists and ranges: 17-20,23.\n  17.3 is member 3 of an array or a sweep; 17.0-9 are "
	      "ten members.\n  More: jobctl VERB --help; man jobctl\n",
	      f);
}

static void print_verb_usage(const struct verb *v)
{
	printf("usage: jobctl %s%s%s%s\n%s\n", v->name, *v->operands ? " " : "", v->operands,
	       v->opts && v->opts->name ? " [OPTIONS]" : "", v->help);
	for (const struct arg_opt *o = v->opts ? v->opts : no_opts; o->name; o++) {
		char *head = xasprintf("%c%c%s --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
		                       o->letter ? "," : " ", o->name, o->value ? " " : "", o->value ? o->value : "");
		printf("  %-28s %s\n", head, o->help);
		free(head);
	}
	puts("      --json                   Print the answer as JSON");
	puts("      --url URL                Use the controller at URL");
}

/* Words of other tools for our verbs. */
static const struct {
	const char *word, *verb;
} others[] = {{"kill", "stop"},    {"cancel", "stop"},    {"abort", "stop"},      {"scancel", "stop"},
              {"status", "show"},  {"info", "show"},      {"describe", "show"},   {"job", "show"},
              {"ps", "ls"},        {"list", "ls"},        {"jobs", "ls"},         {"squeue", "ls"},
              {"search", "ls"},    {"run", "submit"},     {"sbatch", "submit"},   {"start", "submit"},
              {"delete", "rm"},    {"remove", "rm"},      {"log", "logs"},        {"tail", "logs"},
              {"download", "get"}, {"resume", "release"}, {"restart", "requeue"}, {"update", "set"},
              {"edit", "set"},     {"metric", "metrics"}, {"event", "events"},    {"sinfo", "nodes"},
              {"up", "local up"},  {"down", "local down"}};

static int report_later_verb(const char *name, const char *sub)
{
	char *two = xasprintf("%s %s", name, sub ? sub : "");
	int found = 0;
	for (const char *const *l = later; *l && !found; l++) {
		found = strcmp(*l, name) == 0 || strcmp(*l, two) == 0;
		if (found)
			fprintf(stderr, "jobctl: '%s' is planned, but not built yet\n", *l);
	}
	free(two);
	return found;
}

/* Returns the verb below name that is nearest to sub ("node", "drian": "drain"); NULL: none is near. */
static const char *nearest_below(const char *name, const char *sub)
{
	const char *names[32];
	size_t n = strlen(name), k = 0;
	for (const struct verb *const *l = verb_table; *l; l++) {
		for (const struct verb *v = *l; v->name && k < 31; v++) {
			if (strncmp(v->name, name, n) == 0 && v->name[n] == ' ')
				names[k++] = v->name + n + 1;
		}
	}
	names[k] = NULL;
	return str_nearest(sub, names);
}

static int is_help(const char *word)
{
	return word && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0);
}

/* Lists the verbs below a first word ("node", "node drian"). Returns 0 if it is not such a word. */
static int report_group(const char *name, const char *sub)
{
	size_t n = strlen(name);
	int found = 0;
	const char *near = sub ? nearest_below(name, sub) : NULL;
	char *word = print_safe(sub);
	for (const struct verb *const *l = verb_table; *l; l++) {
		for (const struct verb *v = *l; v->name; v++) {
			if (strncmp(v->name, name, n) != 0 || v->name[n] != ' ')
				continue;
			if (!found && near)
				fprintf(stderr, "jobctl: unknown verb '%s %s'; did you mean '%s %s'? The verbs are:\n", name,
				        word, name, near);
			else if (!found && sub && !is_help(sub))
				fprintf(stderr, "jobctl: unknown verb '%s %s'; the verbs are:\n", name, word);
			else if (!found)
				fprintf(stderr, "jobctl: '%s' needs a second word; the verbs are:\n", name);
			fprintf(stderr, "  jobctl %s %s\n", v->name, v->operands);
			found = 1;
		}
	}
	free(word);
	return found;
}

/* Prints the help of a first word ("queue --help", "help queue"). Returns 0 if it is not such a word. */
static int print_group_help(const char *name)
{
	size_t n = strlen(name);
	int found = 0;
	for (const struct verb *const *l = verb_table; *l; l++) {
		for (const struct verb *v = *l; v->name; v++) {
			if (strncmp(v->name, name, n) != 0 || v->name[n] != ' ')
				continue;
			if (!found++)
				printf("usage: jobctl %s VERB [ARGUMENTS]\n\n", name);
			char *head = xasprintf("%s %s", v->name, v->operands);
			printf("  %-42s %s\n", head, v->help);
			free(head);
		}
	}
	return found;
}

static int reject_unknown_verb(const char *name, const char *sub)
{
	const char *names[160];
	size_t n = 0;
	if (report_later_verb(name, sub) || report_group(name, sub))
		return EXIT_USAGE;
	for (const struct verb *const *l = verb_table; *l; l++) {
		for (const struct verb *v = *l; v->name && n < 159; v++)
			names[n++] = v->name;
	}
	names[n] = NULL;
	const char *near = NULL;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (strcmp(others[i].word, name) == 0)
			near = others[i].verb;
	}
	if (!near)
		near = str_nearest(name, names);
	char *safe = print_safe(name);
	fprintf(stderr, "jobctl: unknown verb '%s'%s%s%s\nSee: jobctl --help\n", safe,
	        near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
	free(safe);
	return EXIT_USAGE;
}

/* Returns the verb's options and those that every verb has. */
static struct arg_opt *with_common(const struct arg_opt *opts)
{
	size_t n = 0;
	while (opts && opts[n].name)
		n++;
	struct arg_opt *all = xcalloc(n + 4, sizeof(*all));
	for (size_t i = 0; i < n; i++)
		all[i] = opts[i];
	all[n] = (struct arg_opt){"json", 0, NULL, "Print the answer as JSON"};
	all[n + 1] = (struct arg_opt){"help", 'h', NULL, "Print this help"};
	all[n + 2] = (struct arg_opt){"url", 0, "URL", "Use the controller at URL"};
	return all;
}

/* Reports output that could not be written: a script that reads half a listing has to know. */
static int check_output(int rc)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return rc;
	if (errno == EPIPE || errno == 0)
		return rc ? rc : EXIT_PIPE; /* the reader has gone, as in `| head` */
	fprintf(stderr, "jobctl: standard output: %s\n", strerror(errno));
	return rc ? rc : EXIT_REFUSED;
}

/* Errors are on standard error with --json, too: standard output has only answers. */
static void print_error_json(const char *code, const char *message, int exit_code)
{
	cJSON *o = cJSON_CreateObject(), *e = cJSON_AddObjectToObject(o, "error");
	cJSON_AddStringToObject(e, "code", code);
	cJSON_AddStringToObject(e, "message", message);
	cJSON_AddNumberToObject(e, "exit_code", exit_code);
	char *text = json_text(o);
	fprintf(stderr, "%s\n", text);
	free(text);
	cJSON_Delete(o);
}

/* text: from "there is no job" on. Pools and jobs share their numbers. */
static void hint_at_jobs(struct ctx *c, const char *text)
{
	uint64_t id = strtoull(text + strlen("there is no job"), NULL, 10);
	char *path = xasprintf("/pools/%" PRIu64, id);
	cJSON *pool = NULL;
	struct err e;
	if (id && c->client && !client_call(c->client, "GET", path, NULL, &pool, &e))
		fprintf(stderr, "%" PRIu64 " is a warm pool: jobctl pool show %" PRIu64 "\n", id, id);
	else
		fputs("List your jobs: jobctl ls; list all jobs: jobctl ls --all\n", stderr);
	cJSON_Delete(pool);
	free(path);
}

static int finish_verb(struct ctx *c, int rc)
{
	if (interrupted() && rc) {
		rc = EXIT_INTERRUPTED;
	} else if (rc < 0 && c->json) {
		rc = client_exit_code(&c->err);
		print_error_json(err_code_text(c->err.code), c->problems ? c->problems : c->err.text, rc);
	} else if (rc < 0) {
		char *local = print_local(c->problems ? c->problems : c->err.text), *safe = print_safe(local);
		fprintf(stderr, "jobctl: %s\n", safe);
		free(local);
		if (c->err.code == ERR_NOT_FOUND && !strchr(safe, '\n') && strstr(safe, "there is no job"))
			hint_at_jobs(c, strstr(safe, "there is no job"));
		free(safe);
		rc = client_exit_code(&c->err);
	}
	free(c->problems);
	return check_output(rc);
}

/* Returns whether ref is a list or a range of ids where one job is expected. A job may have such a name. */
static int is_several(const struct verb *v, const char *ref)
{
	return strncmp(v->operands, "JOB", 3) == 0 && strncmp(v->operands, "JOB...", 6) != 0 && ref &&
	       strpbrk(ref, "-,") && strspn(ref, "0123456789-,") == strlen(ref);
}

static int run_verb(struct ctx *c, const struct verb *v, int argc, char **argv)
{
	struct arg_opt *opts = with_common(v->opts);
	int rc = 0;
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		c->json |= strcmp(argv[i], "--json") == 0; /* a mistake in another option is reported as JSON, too */
	if (args_parse(opts, argc, argv, &c->args, &c->err)) {
		err_wrap(&c->err, "%s", v->name);
		rc = -1;
	} else if (args_has(&c->args, "help")) {
		print_verb_usage(v);
	} else if (v->max == 1 && c->args.n > 1 && strncmp(v->operands, "JOB", 3) == 0) {
		rc = ctx_fail(c, ERR_INVALID, "%s: got %zu jobs, expected one JOB\nSee: jobctl %s --help", v->name,
		              c->args.n, v->name);
	} else if (c->args.n < v->min || c->args.n > v->max) {
		rc = ctx_fail(c, ERR_INVALID, "%s: expected %s\nSee: jobctl %s --help", v->name,
		              *v->operands ? v->operands : "no operands", v->name);
	} else {
		c->json |= args_has(&c->args, "json");
		if (args_has(&c->args, "url"))
			c->url_flag = args_get(&c->args, "url");
		rc = v->exec(c);
		if (rc == -1 && c->err.code == ERR_NOT_FOUND && is_several(v, c->args.operand[0]))
			rc = ctx_fail(c, ERR_INVALID, "%s: no job has the name '%s'; expected one JOB, not a list",
			              v->name, c->args.operand[0]);
	}
	rc = finish_verb(c, rc);
	free(opts);
	return rc;
}

/* Reads the options before the verb. Returns the index of the verb, or -1 with *rc set if nothing is left to
 * do. */
static int head_options(struct ctx *c, int argc, char **argv, int *rc)
{
	int i = 1;
	*rc = EXIT_OK;
	for (; i < argc && argv[i][0] == '-'; i++) {
		if (strcmp(argv[i], "--url") == 0 && i + 1 < argc) {
			c->url_flag = argv[++i];
		} else if (strncmp(argv[i], "--url=", 6) == 0) {
			c->url_flag = argv[i] + 6;
		} else if (strcmp(argv[i], "--json") == 0) {
			c->json = 1;
		} else if (strcmp(argv[i], "--version") == 0) {
			puts("jobctl " PACKAGE_VERSION);
			return -1;
		} else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			print_usage(stdout);
			return -1;
		} else {
			fprintf(stderr,
			        "jobctl: unknown option %s before the verb; expected --url URL, --json, --version or "
			        "--help\n",
			        argv[i]);
			*rc = EXIT_USAGE;
			return -1;
		}
	}
	if (i < argc)
		return i;
	print_usage(stderr);
	*rc = EXIT_USAGE;
	return -1;
}

/* Runs the verb that the words begin with. */
static int dispatch_words(struct ctx *c, int argc, char **argv)
{
	const char *second = argc > 1 ? argv[1] : NULL;
	const struct verb *v = NULL;
	if (strcmp(argv[0], "help") == 0) {
		print_usage(stdout);
		return check_output(EXIT_OK);
	}
	if (second) {
		char *two = xasprintf("%s %s", argv[0], second);
		v = verb_find(two);
		free(two);
		if (v)
			return run_verb(c, v, argc - 1, argv + 1);
	}
	v = verb_find(argv[0]);
	if (v)
		return run_verb(c, v, argc, argv);
	if (is_help(second) && print_group_help(argv[0]))
		return check_output(EXIT_OK);
	if (c->json) {
		char *text = xasprintf("unknown verb '%s'", argv[0]);
		print_error_json(err_code_text(ERR_INVALID), text, EXIT_USAGE);
		free(text);
		return EXIT_USAGE;
	}
	return reject_unknown_verb(argv[0], second);
}

int main(int argc, char **argv)
{
	struct ctx c = {.verbs = verb_table, .find_local = local_url};
	int rc;
	proc_main_init();
	log_init("jobctl", LOG_LVL_WARN);
	setvbuf(stdout, NULL, _IOFBF, 65536);
	int i = head_options(&c, argc, argv, &rc);
	if (i < 0)
		return check_output(rc);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	/* "help VERB" means "VERB --help". */
	char *help[] = {argv[0], NULL, NULL, "--help", NULL}, **words = argv + i;
	int n = argc - i;
	if (strcmp(argv[i], "help") == 0 && n > 1) {
		help[1] = argv[i + 1];
		help[2] = n > 2 ? argv[i + 2] : help[3];
		words = help + 1;
		n = n > 2 ? 3 : 2;
	}
	rc = dispatch_words(&c, n, words);
	client_destroy(c.client);
	curl_global_cleanup();
	return rc;
}
