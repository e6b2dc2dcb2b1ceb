/*
 * cmd_submit: submit and clone. The specification is checked here first for a quick answer; hearthd checks it
 * again and decides.
 *
 * The source tree goes up before the job: chunks that hearthd does not have, then the manifest. What is sent
 * is content-addressed, so a submit that is broken off costs nothing the next time.
 */
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/hash.h"
#include "common/json.h"
#include "common/spec.h"
#include "common/strutil.h"
#include "common/xalloc.h"
#include "jobctl/bundle.h"
#include "jobctl/jobctl.h"
#include "jobctl/print.h"
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_stdin(char **text, size_t *n, struct err *e)
{
	size_t cap = 65536;
	*text = xmalloc(cap + 1);
	*n = 0;
	for (;;) {
		ssize_t k = read(STDIN_FILENO, *text + *n, cap - *n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0) {
			free(*text);
			return err_sys(e, errno, "standard input");
		}
		if (k == 0)
			break;
		*n += (size_t)k;
		if (*n > SPEC_MAX_BYTES) {
			free(*text);
			return err_set(e, ERR_LIMIT, "standard input: a specification has at most %d bytes",
			               SPEC_MAX_BYTES);
		}
		if (*n == cap)
			*text = xrealloc(*text, (cap *= 2) + 1);
	}
	(*text)[*n] = 0;
	return 0;
}

/* Applies --set and --name; the text is kept as written when there are none. */
static int apply_changes(struct ctx *c, const char *file, char **text, size_t *n)
{
	if (!args_has(&c->args, "set") && !args_has(&c->args, "name"))
		return 0;
	cJSON *j = json_parse(*text, *n, &c->err);
	if (!j)
		return err_wrap(&c->err, "%s", file);
	int rc = 0;
	const char *a;
	for (size_t i = 0; !rc && (a = args_nth(&c->args, "set", i)); i++)
		rc = spec_set(j, a, &c->err);
	const char *name = args_get(&c->args, "name");
	if (!rc && name) {
		cJSON_DeleteItemFromObjectCaseSensitive(j, "name");
		cJSON_AddStringToObject(j, "name", name);
	}
	if (!rc) {
		free(*text);
		*text = json_text_pretty(j);
		*n = strlen(*text);
	}
	cJSON_Delete(j);
	return rc;
}

/* The file's folder: source_dir is relative to it. */
static char *base_of(const char *file)
{
	if (!strcmp(file, "-"))
		return xstrdup(".");
	char *copy = xstrdup(file), *dir = xstrdup(dirname(copy));
	free(copy);
	return dir;
}

static char *source_path(const char *file, const char *source_dir)
{
	if (source_dir[0] == '/')
		return xstrdup(source_dir);
	char *base = base_of(file), *path = xasprintf("%s/%s", base, source_dir);
	free(base);
	return path;
}

static int load_spec(struct ctx *c, const char *file, char **text, struct job_spec **spec)
{
	size_t n;
	int rc = !strcmp(file, "-") ? read_stdin(text, &n, &c->err)
	                            : fs_read_file(file, SPEC_MAX_BYTES, text, &n, &c->err);
	if (rc)
		return -1;
	if (apply_changes(c, file, text, &n)) {
		free(*text);
		return -1;
	}
	*spec = spec_parse(*text, n, &c->err);
	if (!*spec) {
		free(*text);
		/* Every problem on a line of its own, each with the file's name. */
		char *all = xstrdup(c->err.text), *save = NULL, *out = xstrdup("");
		for (char *line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
			char *longer = xasprintf("%s%s%s: %s", out, *out ? "\n" : "", file, line);
			free(out);
			out = longer;
		}
		/* A fault in the file is a fault of usage, also when the key is only reserved. */
		err_set(&c->err, ERR_INVALID, "%s", out);
		free(out);
		free(all);
		return -1;
	}
	return 0;
}

/* After the job is known: follow or wait, as asked. */
static int after_submit(struct ctx *c, uint64_t job)
{
	char *status = NULL;
	if (args_has(&c->args, "follow")) {
		int rc = job_follow_log(c, job);
		if (rc == 130)
			return rc;
		if (rc < 0)
			return -1;
	} else if (!args_has(&c->args, "wait")) {
		return EXIT_OK;
	}
	if (job_wait_end(c, job, 0, &status))
		return -1;
	int code = job_exit_code(status);
	if (code) {
		char *path = xasprintf("/jobs/%llu", (unsigned long long)job);
		cJSON *answer = NULL;
		if (!client_call(c->client, "GET", path, NULL, &answer, NULL)) {
			char *reason = print_safe(print_member(answer, "reason"));
			fprintf(stderr, "job %llu %s: %s\n", (unsigned long long)job, status, reason);
			free(reason);
		}
		cJSON_Delete(answer);
		free(path);
	}
	free(status);
	return code;
}

/* Shows what a dry run answered. */
static void show_dry_run(const cJSON *answer)
{
	printf("This job would be accepted.\n");
	const cJSON *text = cJSON_GetObjectItemCaseSensitive(answer, "text");
	if (cJSON_IsString(text)) {
		char *safe = print_safe(text->valuestring);
		puts(safe);
		free(safe);
	}
}

static int finish_submit(struct ctx *c, const cJSON *answer)
{
	int64_t id = 0;
	if (json_get_i64(answer, "", "id", 1, INT64_MAX, &id, &c->err))
		return -1;
	if (c->json)
		ctx_show_json(c, answer);
	else
		printf("%lld\n", (long long)id);
	fflush(stdout);
	return after_submit(c, (uint64_t)id);
}

static int exec_submit(struct ctx *c)
{
	const char *file = c->args.operand[0];
	char *text = NULL, digest[HASH_HEX_SIZE] = "";
	struct job_spec *spec = NULL;
	cJSON *run = cJSON_CreateObject(), *body = NULL, *answer = NULL;
	int rc = -1, dry = args_has(&c->args, "dry-run");
	if (load_spec(c, file, &text, &spec))
		goto out;
	if (!ctx_client(c))
		goto out;
	if (spec->source_dir) {
		char *dir = source_path(file, spec->source_dir);
		rc = bundle_upload(c->client, dir, dry, digest, &c->err);
		if (!rc)
			bundle_git_info(dir, run);
		free(dir);
		if (rc)
			goto out;
	}
	rc = -1;
	char cwd[PATH_MAX];
	if (getcwd(cwd, sizeof(cwd)))
		cJSON_AddStringToObject(run, "cwd", cwd);
	cJSON_AddStringToObject(run, "client", "jobctl " PACKAGE_VERSION);
	body = cJSON_CreateObject();
	cJSON_AddStringToObject(body, "spec", text);
	if (*digest && !dry)
		cJSON_AddStringToObject(body, "bundle", digest);
	cJSON_AddItemToObject(body, "run", run);
	run = NULL;
	if (args_has(&c->args, "hold"))
		cJSON_AddTrueToObject(body, "hold");
	if (dry)
		cJSON_AddTrueToObject(body, "dry_run");
	if (client_call(c->client, "POST", "/jobs", body, &answer, &c->err))
		goto out;
	rc = 0;
	if (!dry)
		rc = finish_submit(c, answer);
	else if (!ctx_show_json(c, answer))
		show_dry_run(answer);
out:
	cJSON_Delete(answer);
	cJSON_Delete(body);
	cJSON_Delete(run);
	spec_destroy(spec);
	free(text);
	return rc;
}

static int exec_clone(struct ctx *c)
{
	uint64_t job;
	if (ref_resolve(c, c->args.operand[0], &job))
		return -1;
	cJSON *body = cJSON_CreateObject(), *set = cJSON_AddObjectToObject(body, "set"), *answer = NULL;
	const char *a;
	int rc = 0;
	for (size_t i = 0; !rc && (a = args_nth(&c->args, "set", i)); i++) {
		const char *eq = strchr(a, '=');
		if (!eq || eq == a) {
			rc = ctx_fail(c, ERR_INVALID,
			              "--set '%s': expected KEY=VALUE, for example hyperparameters.lr=0.05", a);
			break;
		}
		char *key = xstrndup(a, (size_t)(eq - a));
		cJSON *value = json_parse(eq + 1, strlen(eq + 1), NULL);
		cJSON_DeleteItemFromObjectCaseSensitive(set, key);
		cJSON_AddItemToObject(set, key, value ? value : cJSON_CreateString(eq + 1));
		free(key);
	}
	if (!rc && args_has(&c->args, "hold"))
		cJSON_AddTrueToObject(body, "hold");
	char *path = xasprintf("/jobs/%llu/clone", (unsigned long long)job);
	if (!rc)
		rc = client_call(ctx_client(c), "POST", path, body, &answer, &c->err);
	if (!rc)
		rc = finish_submit(c, answer);
	cJSON_Delete(answer);
	cJSON_Delete(body);
	free(path);
	return rc;
}

static const struct arg_opt submit_opts[] = {
    {"follow", 'f', NULL, "show its log until it ends; Ctrl-C leaves it running"},
    {"wait", 'w', NULL, "wait until it ends; the exit code tells how"},
    {"dry-run", 'n', NULL, "only say whether and how it would run"},
    {"hold", 0, NULL, "keep it from starting until `jobctl release`"},
    {"set", 's', "KEY=VALUE", "change the specification, e.g. hyperparameters.lr=0.1 (repeatable)"},
    {"name", 0, "NAME", "another name"},
    {NULL, 0, NULL, NULL}};
static const struct arg_opt clone_opts[] = {
    {"set", 's', "KEY=VALUE", "change the specification (repeatable)"},
    {"hold", 0, NULL, "keep it from starting until `jobctl release`"},
    {"follow", 'f', NULL, "show its log until it ends"},
    {"wait", 'w', NULL, "wait until it ends"},
    {NULL, 0, NULL, NULL}};

const struct verb verbs_submit[] = {
    {"submit", "FILE|-", "submit a job; prints its id", submit_opts, 1, 1, exec_submit},
    {"clone", "JOB", "submit a copy of a job, with changes", clone_opts, 1, 1, exec_clone},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
