/*
 * cmd_submit: submit, clone and retry. jobctl checks the specification first for a quick answer; hearthd
 * checks it again and decides.
 *
 * The source tree is sent before the job: chunks that hearthd lacks, then the manifest. Chunks are content-
 * addressed, so an interrupted submit does not send them twice.
 */
#include "jobctl/verbs/verbs.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/spec/launcher.h"
#include "common/spec/spec.h"
#include "jobctl/client/assign.h"
#include "jobctl/client/bundle.h"
#include "jobctl/client/gitinfo.h"
#include "jobctl/client/interrupt.h"
#include "jobctl/client/ref.h"
#include "jobctl/show/print.h"
#include "jobctl/verbs/again.h"
#include "jobctl/verbs/follow_log.h"
#include "jobctl/verbs/job_end.h"

static const struct arg_opt submit_opts[] = {
    {"follow", 'f', NULL, "Show its log until it ends; Ctrl-C leaves it running"},
    {"wait", 'w', NULL, "Wait until it ends; the exit code says how"},
    {"dry-run", 'n', NULL, "Only report whether and how it would run"},
    {"hold", 0, NULL, "Do not start it before `jobctl release`"},
    {"set", 's', "KEY=VALUE", "Change the specification, e.g. hyperparameters.lr=0.1 (repeatable)"},
    {"name", 0, "NAME", "Use this name"},
    {"again", 'a', NULL, "Submit again what was last submitted from here, and list the files that changed"},
    {"after", 0, "JOB",
     "Wait until JOB has completed; afterany:JOB: has ended, after:JOB: has started (repeatable)"},
    {NULL, 0, NULL, NULL}};

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

/* Adds --after JOB or KIND:JOB to the specification; hearthd accepts only ids, so the reference is resolved
 * here. */
static int add_after(struct ctx *c, cJSON *j, const char *a)
{
	char kind[AFTER_KIND_SIZE];
	const char *ref;
	uint64_t job;
	if (ref_after_kind(a, kind, &ref, &c->err))
		return -1;
	if (ref_resolve(c, ref, &job))
		return err_wrap(&c->err, "--after");
	cJSON *list = cJSON_GetObjectItemCaseSensitive(j, "after");
	if (!cJSON_IsArray(list)) {
		cJSON_DeleteItemFromObjectCaseSensitive(j, "after");
		list = cJSON_AddArrayToObject(j, "after");
	}
	char *text = xasprintf("%s:%" PRIu64, kind, job);
	cJSON_AddItemToArray(list, cJSON_CreateString(text));
	free(text);
	return 0;
}

/* Applies --set, --after and --name; without them the text stays as written. */
static int apply_changes(struct ctx *c, const char *file, char **text, size_t *n)
{
	if (!args_has(&c->args, "set") && !args_has(&c->args, "name") && !args_has(&c->args, "after"))
		return 0;
	cJSON *j = json_parse(*text, *n, &c->err);
	if (!j)
		return err_wrap(&c->err, "%s", file);
	int rc = 0;
	const char *a;
	for (size_t i = 0; !rc && (a = args_nth(&c->args, "set", i)); i++)
		rc = assign_check_key(a, jget(j, "hyperparameters"), &c->err) || assign_apply(j, a, &c->err) ? -1 : 0;
	if (!rc && args_has(&c->args, "after") && !cJSON_IsObject(j))
		rc = ctx_fail(c, ERR_INVALID, "%s: expected a JSON object", file);
	for (size_t i = 0; !rc && (a = args_nth(&c->args, "after", i)); i++)
		rc = add_after(c, j, a);
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

/* Returns the file's folder; source_dir is relative to it. */
static char *base_of(const char *file)
{
	if (strcmp(file, "-") == 0)
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

/* Lists the problems, one per line, each with the file's name. */
static void name_problems(struct ctx *c, const char *file, const struct strv *problems)
{
	char *out = xstrdup("");
	for (size_t i = 0; i < problems->n; i++) {
		xappendf(&out, "%s%s: %s", *out ? "\n" : "", file, problems->v[i]);
	}
	if (problems->n)
		c->problems = out;
	else
		free(out);
}

static int load_spec(struct ctx *c, const char *file, char **text, struct job_spec **spec)
{
	size_t n;
	struct strv problems = {0};
	const char *shown = strcmp(file, "-") != 0 ? file : "standard input";
	int rc = strcmp(file, "-") == 0 ? read_stdin(text, &n, &c->err)
	                                : fs_read_file(file, SPEC_MAX_BYTES, text, &n, &c->err);
	if (rc) {
		/* An unreadable file is wrong usage; exit code 3 would mean that the job was not found. */
		c->err.code = ERR_INVALID;
		return -1;
	}
	if (apply_changes(c, shown, text, &n)) {
		free(*text);
		return -1;
	}
	*spec = spec_parse_list(*text, n, &problems, &c->err);
	if (!*spec) {
		free(*text);
		name_problems(c, shown, &problems);
		/* This holds for a reserved key, too: the user has to change the file. */
		c->err.code = ERR_INVALID;
		err_wrap(&c->err, "%s", shown);
		rc = -1;
	}
	strv_fini(&problems);
	return rc;
}

/* Follows or waits for the new job, as requested. A sweep has no log, so its end is awaited. */
static int after_submit(struct ctx *c, uint64_t job, int has_log)
{
	if (!args_has(&c->args, "follow") && !args_has(&c->args, "wait"))
		return EXIT_OK;
	interrupt_catch();
	if (has_log && args_has(&c->args, "follow")) {
		int rc = follow_log(c, job);
		return rc ? rc : job_end_report_aside(c, job);
	}
	return job_end_report(c, job);
}

#define USUAL_LIMIT_S 86400 /* hearthd's default of max_runtime_default */

/* Reports a default time limit, because it ends jobs, too. The usual day is reported only with also_usual. */
static void report_limit(const cJSON *answer, FILE *out, int also_usual)
{
	const char *from = jtext(answer, "max_runtime_from");
	const cJSON *limit = jget(answer, "max_runtime_s");
	char text[40];
	if (!from || strcmp(from, "default") != 0 || !cJSON_IsNumber(limit))
		return;
	if (!also_usual && limit->valuedouble == USUAL_LIMIT_S)
		return;
	fprintf(out,
	        "Time limit: %s, the cluster's default. To change it: --set limits.max_runtime_s=SECONDS, or "
	        "later jobctl set JOB time=DURATION\n",
	        str_duration((uint64_t)limit->valuedouble, text, sizeof(text)));
}

/* Returns Hearth's launcher for this program; NULL: the program is not a launcher. */
static const char *launcher_instead_of(const char *program)
{
	for (int i = 0; i < N_LAUNCHERS; i++) {
		const struct launcher_facts *f = launcher_facts((enum spec_launcher)i);
		for (int k = 0; k < LAUNCHER_PROGRAMS_MAX && f->programs[k]; k++)
			if (strcmp(f->programs[k], program) == 0)
				return f->name;
	}
	return NULL;
}

/* Warns of a launcher in the command: Hearth would start it once for every rank, which is seldom meant. */
static void note_launcher(const struct job_spec *s)
{
	const char *first = s->command.n ? s->command.v[0] : "", *slash = strrchr(first, '/');
	const char *base = slash ? slash + 1 : first;
	if (launcher_facts(s->launcher)->ranks_at_go && s->groups[0].ranks_per_instance == 1)
		return;
	const char *instead = launcher_instead_of(base);
	if (instead)
		fprintf(stderr,
		        "Note: the command begins with %s, and Hearth starts the command once for every rank. Remove "
		        "%s from the command, and set \"launcher\": \"%s\"\n",
		        base, base, instead);
}

/* Shows what a dry run answered. */
static void show_dry_run(const cJSON *answer)
{
	print_warnings(answer);
	printf("Hearth would accept this job.\n");
	const cJSON *text = cJSON_GetObjectItemCaseSensitive(answer, "text");
	if (cJSON_IsString(text)) {
		char *local = print_local(text->valuestring), *safe = print_safe(local);
		puts(safe);
		free(safe);
		free(local);
	}
	const cJSON *limit = jget(answer, "max_runtime_s");
	const char *from = jtext(answer, "max_runtime_from");
	char word[40];
	if (from && strcmp(from, "default") == 0)
		report_limit(answer, stdout, 1);
	else if (cJSON_IsNumber(limit))
		printf("Time limit: %s\n", str_duration((uint64_t)limit->valuedouble, word, sizeof(word)));
}

static int finish_submit(struct ctx *c, const cJSON *answer)
{
	int64_t id = 0;
	if (json_get_i64(answer, "the answer", "id", 1, INT64_MAX, &id, &c->err))
		return -1;
	if (!id)
		return ctx_fail(c, ERR_PROTOCOL, "the controller's answer has no id");
	if (c->json)
		ctx_show_json(c, answer);
	else
		printf("%" PRId64 "\n", id);
	fflush(stdout);
	double members = print_number(answer, "members");
	if (!c->json && members > 0)
		fprintf(stderr,
		        "%.0f members: %" PRId64 ".0 to %" PRId64 ".%.0f; to see their states: jobctl show %" PRId64
		        "\n",
		        members, id, id, members - 1, id);
	if (!c->json) {
		print_warnings(answer);
		report_limit(answer, stderr, 0);
	}
	return after_submit(c, (uint64_t)id, members < 1);
}

/* Answers to what makes a job, or would make it. */
static int finish_new(struct ctx *c, const cJSON *answer, int dry)
{
	if (!dry)
		return finish_submit(c, answer);
	if (!ctx_show_json(c, answer))
		show_dry_run(answer);
	return 0;
}

/* Returns the body of a submission: the specification and its origin. */
static cJSON *submit_body(struct ctx *c, const char *text, const char *digest, cJSON *run, int dry)
{
	char cwd[PATH_MAX];
	cJSON *body = cJSON_CreateObject();
	if (getcwd(cwd, sizeof(cwd)) && str_valid_utf8(cwd, strlen(cwd)))
		cJSON_AddStringToObject(run, "cwd", cwd);
	cJSON_AddStringToObject(run, "client", "jobctl " PACKAGE_VERSION);
	cJSON_AddStringToObject(body, "spec", text);
	if (*digest)
		cJSON_AddStringToObject(body, "bundle", digest);
	cJSON_AddItemToObject(body, "run", run);
	if (args_has(&c->args, "hold"))
		cJSON_AddTrueToObject(body, "hold");
	if (dry)
		cJSON_AddTrueToObject(body, "dry_run");
	return body;
}

/* Finds a missing requirements file now; the node would find it later. */
static int check_requirements(struct ctx *c, const char *dir, const struct job_spec *spec)
{
	if (!spec->requirements)
		return 0;
	char *path = xasprintf("%s/%s", dir, spec->requirements);
	int rc = access(path, F_OK);
	if (rc)
		ctx_fail(c, ERR_INVALID, "requirements: %s: %s", path, strerror(errno));
	free(path);
	return rc ? -1 : 0;
}

/* A submit under way. */
struct submit {
	const char *file;
	char *text;
	struct job_spec *spec;
	char digest[HASH_HEX_SIZE];
	cJSON *run;
	int dry;
	struct again again;
};

static int send_folder(struct ctx *c, struct submit *s, const char *dir)
{
	struct bundle_report r = {.only_ask = s->dry};
	again_compare(c, &s->again, &r);
	/* A dry run asks only if its user sees the answer. */
	int rc = bundle_upload(s->dry && !s->again.report ? NULL : c->client, dir, s->digest, &r, &c->err);
	if (!rc && r.left_out)
		fprintf(stderr,
		        "jobctl: %s: not sent: %" PRIu64 " sockets, pipes, devices or links that leave the folder\n",
		        dir, r.left_out);
	if (!rc)
		rc = again_list_changes(c, &s->again, &r);
	free(r.manifest);
	return rc;
}

static int send_source(struct ctx *c, struct submit *s)
{
	if (!s->spec->source_dir)
		return 0;
	char *dir = source_path(s->file, s->spec->source_dir);
	int rc = check_requirements(c, dir, s->spec);
	if (!rc)
		rc = send_folder(c, s, dir);
	if (!rc)
		gitinfo_add(dir, s->run);
	free(dir);
	return rc;
}

/* Sends the job and prints the answer. */
static int send_job(struct ctx *c, struct submit *s)
{
	cJSON *body = submit_body(c, s->text, s->digest, s->run, s->dry), *answer = NULL;
	int rc = ctx_get(c, "POST", "/jobs", body, &answer);
	if (!rc && !s->dry)
		again_remember(c, &s->again, json_whole(answer, "id", 0), s->digest);
	if (!rc)
		again_note_pool(c, &s->again, answer, s->dry);
	if (!rc && s->again.report && c->json)
		cJSON_AddItemToObject(answer, "again", cJSON_Duplicate(s->again.report, 1));
	if (!rc && !c->json) {
		again_print(&s->again);
		note_launcher(s->spec);
	}
	if (!rc)
		rc = finish_new(c, answer, s->dry);
	cJSON_Delete(answer);
	cJSON_Delete(body);
	return rc;
}

static int exec_submit(struct ctx *c)
{
	struct submit s = {.dry = args_has(&c->args, "dry-run")};
	int rc = again_begin(c, submit_opts, &s.again);
	if (!rc) {
		s.file = c->args.operand[0];
		rc = load_spec(c, s.file, &s.text, &s.spec);
	}
	if (!rc) {
		s.run = cJSON_CreateObject();
		again_look(c, &s.again);
		rc = send_source(c, &s);
		if (!rc)
			rc = send_job(c, &s);
		else
			cJSON_Delete(s.run);
		spec_destroy(s.spec);
		free(s.text);
	}
	again_fini(&s.again);
	return rc;
}

/* Adds KEY=VALUE to set, which hearthd applies to the job's specification. */
static int add_change(struct ctx *c, cJSON *set, const char *assignment)
{
	char *key;
	cJSON *value;
	if (assign_check_key(assignment, NULL, &c->err) || assign_split(assignment, &key, &value, &c->err))
		return -1;
	cJSON_DeleteItemFromObjectCaseSensitive(set, key);
	cJSON_AddItemToObject(set, key, value);
	free(key);
	return 0;
}

/* Adds --after to what the copied job waits for; --set after=[...] replaces that. */
static int add_clone_afters(struct ctx *c, uint64_t job, cJSON *set)
{
	const char *a;
	int rc = 0;
	if (!args_has(&c->args, "after"))
		return 0;
	if (!jget(set, "after")) {
		cJSON *from = ctx_job(c, job);
		const cJSON *old = jget(jget(from, "spec"), "after");
		if (cJSON_IsArray(old))
			cJSON_AddItemToObject(set, "after", cJSON_Duplicate(old, 1));
		rc = from ? 0 : -1;
		cJSON_Delete(from);
	}
	for (size_t i = 0; !rc && (a = args_nth(&c->args, "after", i)); i++)
		rc = add_after(c, set, a);
	return rc;
}

static int exec_clone(struct ctx *c)
{
	uint64_t job;
	int dry = args_has(&c->args, "dry-run");
	if (ref_resolve(c, c->args.operand[0], &job))
		return -1;
	cJSON *body = cJSON_CreateObject(), *set = cJSON_AddObjectToObject(body, "set"), *answer = NULL;
	const char *a, *name = args_get(&c->args, "name");
	int rc = 0;
	for (size_t i = 0; !rc && (a = args_nth(&c->args, "set", i)); i++)
		rc = add_change(c, set, a);
	if (!rc)
		rc = add_clone_afters(c, job, set);
	if (name) {
		cJSON_DeleteItemFromObjectCaseSensitive(set, "name");
		cJSON_AddStringToObject(set, "name", name);
	}
	if (args_has(&c->args, "hold"))
		cJSON_AddTrueToObject(body, "hold");
	if (dry)
		cJSON_AddTrueToObject(body, "dry_run");
	char *path = xasprintf("/jobs/%" PRIu64 "/clone", job);
	if (!rc)
		rc = ctx_get(c, "POST", path, body, &answer);
	if (!rc)
		rc = finish_new(c, answer, dry);
	cJSON_Delete(answer);
	cJSON_Delete(body);
	free(path);
	return rc;
}

/* Says what a retry begins with: the job may have passed on a checkpoint of another one. */
static void show_beginning(const cJSON *answer)
{
	const cJSON *of = jget(answer, "resume_from_job"), *step = jget(answer, "resume_from_step");
	if (cJSON_IsNumber(of) && cJSON_IsNumber(step))
		fprintf(stderr, "it begins with step %.0f of job %.0f\n", step->valuedouble, of->valuedouble);
	else if (cJSON_IsNumber(of))
		fprintf(stderr,
		        "it begins with the checkpoint folder of job %.0f; hearthd does not know its step, so "
		        "HEARTH_RESUME_STEP is not set\n",
		        of->valuedouble);
}

static int exec_retry(struct ctx *c)
{
	uint64_t job, step = 0;
	int dry = args_has(&c->args, "dry-run");
	if (ref_resolve(c, c->args.operand[0], &job) ||
	    args_u64(&c->args, "from", 0, UINT64_C(1) << 53, &step, &c->err))
		return -1;
	cJSON *body = cJSON_CreateObject(), *answer = NULL;
	if (args_has(&c->args, "from"))
		cJSON_AddNumberToObject(body, "from_step", (double)step);
	if (args_has(&c->args, "hold"))
		cJSON_AddTrueToObject(body, "hold");
	if (dry)
		cJSON_AddTrueToObject(body, "dry_run");
	char *path = xasprintf("/jobs/%" PRIu64 "/retry", job);
	int rc = ctx_get(c, "POST", path, body, &answer);
	if (!rc && !c->json)
		show_beginning(answer);
	if (!rc)
		rc = finish_new(c, answer, dry);
	cJSON_Delete(answer);
	cJSON_Delete(body);
	free(path);
	return rc;
}

static const struct arg_opt clone_opts[] = {
    {"set", 's', "KEY=VALUE", "Change the specification (repeatable); KEY=null removes a key"},
    {"name", 0, "NAME", "Use this name"},
    {"hold", 0, NULL, "Do not start it before `jobctl release`"},
    {"after", 0, "JOB", "Also wait for JOB, as in submit (repeatable); --set after=null waits for no job"},
    {"dry-run", 'n', NULL, "Only report whether and how it would run"},
    {"follow", 'f', NULL, "Show its log until it ends"},
    {"wait", 'w', NULL, "Wait until it ends"},
    {NULL, 0, NULL, NULL}};

static const struct arg_opt retry_opts[] = {
    {"from", 0, "STEP", "Begin with the checkpoint of that step"},
    {"hold", 0, NULL, "Do not start it before `jobctl release`"},
    {"dry-run", 'n', NULL, "Only report whether and how it would run"},
    {"follow", 'f', NULL, "Show its log until it ends"},
    {"wait", 'w', NULL, "Wait until it ends"},
    {NULL, 0, NULL, NULL}};

const struct verb verbs_submit[] = {
    {"submit", "FILE|-|--again", "Submit a job and print its id", submit_opts, 0, 1, exec_submit},
    {"clone", "JOB", "Submit a copy of a job, with changes", clone_opts, 1, 1, exec_clone},
    {"retry", "JOB", "Submit an ended job again, from its newest checkpoint", retry_opts, 1, 1, exec_retry},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
