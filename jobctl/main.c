/*
 * jobctl: thin client of hearthd's HTTP API. main finds the verb, parses its arguments, and turns errors into
 * a message and an exit code.
 */
#include "common/json.h"
#include "common/log.h"
#include "common/strutil.h"
#include "common/xalloc.h"
#include "jobctl/jobctl.h"
#include "jobctl/print.h"
#include <curl/curl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct verb *const verb_lists[] = {verbs_submit, verbs_jobs,    verbs_change, verbs_logs,
                                         verbs_data,   verbs_cluster, verbs_local,  NULL};

/* Verbs of the interface that are not built yet: named, so that nobody takes them for a typing error. */
static const char *const later[] = {
    "retry",        "checkpoint", "checkpoints", "node add", "node check", "instances", "pools",
    "pool",         "ssh",        "scp",         "forward",  "attach",     "simulate",  "replay-loss",
    "replay-steps", "classify",   "advise",      "report",   "cost",       "hook",      NULL};

int ctx_fail(struct ctx *c, enum err_code code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *s = xvasprintf(fmt, ap);
	va_end(ap);
	err_set(&c->err, code, "%s", s);
	free(s);
	return -1;
}

struct client *ctx_client(struct ctx *c)
{
	if (c->client)
		return c->client;
	struct client_config cfg;
	if (client_config_load(&cfg, c->url_flag, &c->err))
		return NULL;
	c->client = client_create(&cfg, &c->err);
	client_config_fini(&cfg);
	return c->client;
}

int ctx_show_json(struct ctx *c, const cJSON *answer)
{
	if (!c->json)
		return 0;
	char *text = json_text_pretty(answer);
	puts(text);
	free(text);
	return 1;
}

int ctx_call(struct ctx *c, const char *method, const char *path, const cJSON *body, cJSON **out)
{
	cJSON *answer = NULL;
	if (!ctx_client(c) || client_call(c->client, method, path, body, &answer, &c->err))
		return -1;
	if (c->json && answer && ctx_show_json(c, answer)) {
		cJSON_Delete(answer);
		return 1;
	}
	if (out)
		*out = answer;
	else
		cJSON_Delete(answer);
	return 0;
}

static const struct arg_opt no_opts[] = {{NULL, 0, NULL, NULL}};

static const struct verb *verb_find(const char *name)
{
	for (const struct verb *const *l = verb_lists; *l; l++) {
		for (const struct verb *v = *l; v->name; v++) {
			if (!strcmp(v->name, name))
				return v;
		}
	}
	return NULL;
}

static void usage(FILE *f)
{
	fputs("usage: jobctl [--url URL] VERB [ARGUMENTS] [--json]\n\n", f);
	for (const struct verb *const *l = verb_lists; *l; l++) {
		for (const struct verb *v = *l; v->name; v++) {
			char *head = xasprintf("%s %s", v->name, v->operands);
			fprintf(f, "  %-32s %s\n", head, v->help);
			free(head);
		}
	}
	fputs("\n  JOB is an id, `last`, a name, NAME~1 (the one before). jobctl VERB --help tells more; so does "
	      "man jobctl.\n",
	      f);
}

static void usage_verb(const struct verb *v)
{
	printf("usage: jobctl %s%s%s%s\n%s\n", v->name, *v->operands ? " " : "", v->operands,
	       v->opts && v->opts->name ? " [OPTIONS]" : "", v->help);
	for (const struct arg_opt *o = v->opts ? v->opts : no_opts; o->name; o++) {
		char *head = xasprintf("%c%c%s --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
		                       o->letter ? "," : " ", o->name, o->value ? " " : "", o->value ? o->value : "");
		printf("  %-28s %s\n", head, o->help);
		free(head);
	}
	puts("      --json                   the answer as JSON");
}

static int unknown_verb(const char *name, const char *sub)
{
	const char *names[160];
	size_t n = 0;
	char *two = sub ? xasprintf("%s %s", name, sub) : NULL;
	for (const char *const *l = later; *l; l++) {
		if (!strcmp(*l, name) || (two && !strcmp(*l, two))) {
			fprintf(stderr, "jobctl: '%s' is part of the interface but not built yet\n", *l);
			free(two);
			return EXIT_USAGE;
		}
	}
	for (const struct verb *const *l = verb_lists; *l; l++) {
		for (const struct verb *v = *l; v->name && n < 159; v++)
			names[n++] = v->name;
	}
	names[n] = NULL;
	const char *near = str_nearest(two ? two : name, names);
	if (!near)
		near = str_nearest(name, names);
	fprintf(stderr, "jobctl: unknown verb '%s'%s%s%s\nSee: jobctl --help\n", name,
	        near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
	free(two);
	return EXIT_USAGE;
}

/* All of a verb's options, --json and --help. */
static struct arg_opt *with_common(const struct arg_opt *opts)
{
	size_t n = 0;
	while (opts && opts[n].name)
		n++;
	struct arg_opt *all = xcalloc(n + 3, sizeof(*all));
	for (size_t i = 0; i < n; i++)
		all[i] = opts[i];
	all[n] = (struct arg_opt){"json", 0, NULL, "the answer as JSON"};
	all[n + 1] = (struct arg_opt){"help", 'h', NULL, "this help"};
	return all;
}

static int finish(struct ctx *c, int rc)
{
	if (rc < 0) {
		char *safe = print_safe(c->err.text);
		fprintf(stderr, "jobctl: %s\n", safe);
		free(safe);
		rc = client_exit_code(&c->err);
	}
	if (fflush(stdout) && rc == 0)
		rc = EXIT_USAGE;
	return rc;
}

static int run_verb(struct ctx *c, const struct verb *v, int argc, char **argv)
{
	struct arg_opt *opts = with_common(v->opts);
	int rc = 0;
	if (args_parse(opts, argc, argv, &c->args, &c->err)) {
		err_wrap(&c->err, "%s", v->name);
		rc = -1;
	} else if (args_has(&c->args, "help")) {
		usage_verb(v);
	} else if (c->args.n < v->min || c->args.n > v->max) {
		rc = ctx_fail(c, ERR_INVALID, "%s: expected %s\nSee: jobctl %s --help", v->name,
		              *v->operands ? v->operands : "no operands", v->name);
	} else {
		c->json = args_has(&c->args, "json");
		rc = v->exec(c);
	}
	rc = finish(c, rc);
	free(opts);
	return rc;
}

int main(int argc, char **argv)
{
	struct ctx c = {0};
	signal(SIGPIPE, SIG_IGN);
	log_init("jobctl", LOG_LVL_WARN);
	setvbuf(stdout, NULL, _IOFBF, 65536);
	int i = 1;
	for (; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--url") && i + 1 < argc) {
			c.url_flag = argv[++i];
		} else if (!strncmp(argv[i], "--url=", 6)) {
			c.url_flag = argv[i] + 6;
		} else if (!strcmp(argv[i], "--version")) {
			puts("jobctl " PACKAGE_VERSION);
			return 0;
		} else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			usage(stdout);
			return 0;
		} else {
			fprintf(stderr, "jobctl: unknown option %s before the verb (--url URL, --version, --help)\n",
			        argv[i]);
			return EXIT_USAGE;
		}
	}
	if (i == argc) {
		usage(stderr);
		return EXIT_USAGE;
	}
	curl_global_init(CURL_GLOBAL_DEFAULT);
	const struct verb *v = NULL;
	if (i + 1 < argc) {
		char *two = xasprintf("%s %s", argv[i], argv[i + 1]);
		v = verb_find(two);
		free(two);
		if (v)
			i++;
	}
	if (!v)
		v = verb_find(argv[i]);
	int rc =
	    v ? run_verb(&c, v, argc - i, argv + i) : unknown_verb(argv[i], i + 1 < argc ? argv[i + 1] : NULL);
	client_destroy(c.client);
	curl_global_cleanup();
	return rc;
}
