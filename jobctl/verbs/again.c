/*
 * again: see again.h.
 */
#include "jobctl/verbs/again.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/os/fsutil.h"
#include "jobctl/client/changed.h"
#include "jobctl/client/client.h"
#include "jobctl/show/pools.h"
#include "jobctl/show/print.h"

#define SHOWN_MAX   50 /* files that people see */
#define OPTIONS_MAX 8  /* --set that people see */
#define FILE_MAX    (AGAIN_MAX * AGAIN_ENTRY_MAX)
#define LOCK_TRIES  20
#define LOCK_US     10000

/* ---- the memory --------------------------------------------------------------------------------- */

static char *memory_folder(void)
{
	const char *xdg = getenv("XDG_STATE_HOME");
	if (xdg && xdg[0] == '/')
		return xasprintf("%s/hearth", xdg);
	char *home = client_home(), *dir = xasprintf("%s/.local/state/hearth", home);
	free(home);
	return dir;
}

static cJSON *parse_memory(const char *text, size_t n, struct err *e)
{
	cJSON *all = json_parse(text, n, e), *list = cJSON_DetachItemFromObjectCaseSensitive(all, "submits");
	if (all && !cJSON_IsArray(list)) {
		err_set(e, ERR_INVALID, "expected an object with the list \"submits\"");
		cJSON_Delete(list);
		list = NULL;
	}
	cJSON_Delete(all);
	return list;
}

/* Reads the entries; a missing file has none. */
static cJSON *read_memory(const char *path, struct err *e)
{
	char *text = NULL;
	size_t n = 0;
	struct err le;
	if (fs_read_file(path, FILE_MAX, &text, &n, &le)) {
		if (le.code == ERR_NOT_FOUND)
			return cJSON_CreateArray();
		err_set(e, ERR_INVALID, "%s", le.text);
		return NULL;
	}
	cJSON *list = parse_memory(text, n, &le);
	if (!list)
		err_set(e, ERR_INVALID, "%s: %s; remove the file, which only --again needs", path, le.text);
	free(text);
	return list;
}

static int has_text(const cJSON *o, const char *key, const char *text)
{
	const char *is = jtext(o, key);
	return is && text && strcmp(is, text) == 0;
}

static void read_entry(const cJSON *o, struct again *a)
{
	const cJSON *v;
	a->job = json_whole(o, "job", 0);
	free(a->file);
	a->file = xstrdup(json_str_or(o, "file", ""));
	a->source = xstrdup(jtext(o, "source"));
	a->name = xstrdup(jtext(o, "name"));
	cJSON_ArrayForEach (v, jget(o, "set")) {
		if (cJSON_IsString(v))
			strv_add(&a->set, v->valuestring);
	}
}

/* The file that was submitted from this folder may have been submitted later from another one. */
static const cJSON *newest_of_file(const cJSON *list, const cJSON *entry, const struct again *a)
{
	const cJSON *o;
	cJSON_ArrayForEach (o, list) {
		if (o == entry || (has_text(o, "url", a->url) && has_text(o, "file", jtext(entry, "file"))))
			return o;
	}
	return entry;
}

/* Finds the newest submit of a->file; without it: from a->folder. Returns 1 if it found one, else 0; *newest
 * is then the file of the newest submit to this controller, or NULL. */
static int find_entry(struct again *a, char **newest, struct err *e)
{
	char *dir = memory_folder(), *path = xasprintf("%s/submitted", dir);
	cJSON *list = read_memory(path, e);
	const cJSON *o, *found = NULL, *first = NULL;
	free(path);
	free(dir);
	if (!list)
		return -1;
	cJSON_ArrayForEach (o, list) {
		if (!has_text(o, "url", a->url))
			continue;
		first = first ? first : o;
		if (a->file ? has_text(o, "file", a->file) : has_text(o, "folder", a->folder)) {
			found = o;
			break;
		}
	}
	if (found)
		read_entry(newest_of_file(list, found, a), a);
	*newest = found ? NULL : xstrdup(jtext(first, "file"));
	cJSON_Delete(list);
	return found != NULL;
}

static cJSON *entry_json(const struct again *a)
{
	cJSON *o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "url", a->url);
	cJSON_AddStringToObject(o, "folder", a->folder);
	cJSON_AddStringToObject(o, "file", a->file);
	json_add_u64(o, "job", a->job);
	json_add_str(o, "source", a->source);
	json_add_str(o, "name", a->name);
	json_add_time(o, "at", clock_real_us(clock_real()));
	cJSON *set = cJSON_AddArrayToObject(o, "set");
	for (size_t i = 0; i < a->set.n; i++)
		cJSON_AddItemToArray(set, cJSON_CreateString(a->set.v[i]));
	return o;
}

/* The new entry replaces that of the same file in the same folder. Submits of the file from elsewhere are
 * older then, and find_entry ignores them. */
static void put_entry(cJSON *list, const struct again *a)
{
	cJSON *entry = entry_json(a);
	char *text = json_text(entry);
	for (cJSON *o = list->child, *next; o; o = next) {
		next = o->next;
		if (has_text(o, "url", a->url) && has_text(o, "folder", a->folder) && has_text(o, "file", a->file))
			cJSON_Delete(cJSON_DetachItemViaPointer(list, o));
	}
	if (strlen(text) <= AGAIN_ENTRY_MAX)
		cJSON_InsertItemInArray(list, 0, entry);
	else
		cJSON_Delete(entry);
	while (cJSON_GetArraySize(list) > AGAIN_MAX)
		cJSON_DeleteItemFromArray(list, AGAIN_MAX);
	free(text);
}

static int lock_memory(const char *dir)
{
	char *path = xasprintf("%s/submitted.lock", dir);
	struct err e;
	int fd = fs_lock(path, &e);
	for (int i = 0; fd < 0 && e.code == ERR_BUSY && i < LOCK_TRIES; i++) {
		usleep(LOCK_US);
		fd = fs_lock(path, &e);
	}
	free(path);
	return fd;
}

static void store_entry(const struct again *a)
{
	char *dir = memory_folder(), *path = xasprintf("%s/submitted", dir);
	int lock = fs_mkdir_p(dir, 0700, NULL) < 0 ? -1 : lock_memory(dir);
	if (lock >= 0) {
		cJSON *list = read_memory(path, NULL), *all = cJSON_CreateObject();
		if (!list) /* damaged: --again would be refused for ever */
			list = cJSON_CreateArray();
		put_entry(list, a);
		cJSON_AddItemToObject(all, "submits", list);
		char *text = json_text(all);
		fs_replace(path, text, strlen(text), 0600, NULL);
		free(text);
		cJSON_Delete(all);
		close(lock);
	}
	free(path);
	free(dir);
}

/* Returns whether a later --set has the same key. */
static int is_replaced(const struct ctx *c, size_t nth)
{
	const char *is = args_nth(&c->args, "set", nth), *later;
	size_t n = strcspn(is, "=");
	for (size_t i = nth + 1; (later = args_nth(&c->args, "set", i)); i++) {
		if (strcspn(later, "=") == n && strncmp(is, later, n) == 0)
			return 1;
	}
	return 0;
}

void again_remember(const struct ctx *c, struct again *a, uint64_t job, const char *source)
{
	const char *value;
	/* JSON holds UTF-8 only. */
	if (!a->file || !str_valid_utf8(a->file, strlen(a->file)) ||
	    !str_valid_utf8(a->folder, strlen(a->folder)))
		return;
	struct again now = {.url = a->url, .folder = a->folder, .file = a->file, .job = job};
	now.source = *source ? xstrdup(source) : NULL;
	now.name = xstrdup(args_get(&c->args, "name"));
	for (size_t i = 0; (value = args_nth(&c->args, "set", i)); i++) {
		if (!is_replaced(c, i))
			strv_add(&now.set, value);
	}
	store_entry(&now);
	free(now.source);
	free(now.name);
	strv_fini(&now.set);
}

/* ---- the last submit ---------------------------------------------------------------------------- */

static int none_remembered(struct ctx *c, const struct again *a, const char *newest)
{
	return ctx_fail(c, ERR_INVALID,
	                "no submit from %s to %s is remembered%s%s%s; name the file: jobctl submit --again FILE",
	                a->folder, a->url, newest ? " (last submitted on this machine: " : "",
	                newest ? newest : "", newest ? ")" : "");
}

static int is_given(const struct ctx *c, const char *set)
{
	size_t n = strcspn(set, "=");
	const char *now;
	for (size_t i = 0; (now = args_nth(&c->args, "set", i)); i++) {
		if (strcspn(now, "=") == n && strncmp(now, set, n) == 0)
			return 1;
	}
	return 0;
}

/* Drops what the user gives now with another value. */
static void drop_given(const struct ctx *c, struct again *a)
{
	struct strv left = {0};
	for (size_t i = 0; i < a->set.n; i++) {
		if (!is_given(c, a->set.v[i]))
			strv_add(&left, a->set.v[i]);
	}
	strv_fini(&a->set);
	a->set = left;
	if (args_has(&c->args, "name")) {
		free(a->name);
		a->name = NULL;
	}
}

/* Adds the options of the last submit. The arguments then point into a. */
static int add_options(struct ctx *c, const struct arg_opt *opts, struct again *a)
{
	drop_given(c, a);
	if (a->name && args_prepend(&c->args, opts, "name", a->name, &c->err))
		return -1;
	for (size_t i = a->set.n; i-- > 0;) {
		if (args_prepend(&c->args, opts, "set", a->set.v[i], &c->err))
			return -1;
	}
	return 0;
}

static int find_last(struct ctx *c, const struct arg_opt *opts, struct again *a)
{
	char *newest = NULL;
	int found = find_entry(a, &newest, &c->err), rc = found < 0 ? -1 : 0;
	if (!found && !a->file)
		rc = none_remembered(c, a, newest);
	else if (found > 0)
		rc = add_options(c, opts, a);
	free(newest);
	if (rc)
		return -1;
	a->report = cJSON_CreateObject();
	json_add_str(a->report, "file", a->file);
	json_add_str(a->report, "name", a->name);
	cJSON *set = cJSON_AddArrayToObject(a->report, "set");
	for (size_t i = 0; i < a->set.n; i++)
		cJSON_AddItemToArray(set, cJSON_CreateString(a->set.v[i]));
	if (a->job)
		json_add_u64(a->report, "job", a->job);
	else
		cJSON_AddNullToObject(a->report, "job");
	return 0;
}

static char *without_slash(const char *url)
{
	size_t n = strlen(url);
	while (n && url[n - 1] == '/')
		n--;
	return xstrndup(url, n);
}

int again_begin(struct ctx *c, const struct arg_opt *opts, struct again *a)
{
	const char *file = c->args.n ? c->args.operand[0] : NULL;
	int again = args_has(&c->args, "again");
	char cwd[PATH_MAX], real[PATH_MAX];
	if (!file && !again)
		return ctx_fail(c, ERR_INVALID,
		                "submit: expected FILE, - for standard input, or --again for the file submitted last "
		                "from here\nSee: jobctl submit --help");
	if (again && file && strcmp(file, "-") == 0)
		return ctx_fail(c, ERR_INVALID, "--again needs a file; standard input is not remembered");
	if (!ctx_client(c))
		return -1;
	a->url = without_slash(client_url(c->client));
	a->folder = xstrdup(getcwd(cwd, sizeof(cwd)) ? cwd : "");
	/* A missing file is reported when it is read. */
	if (file && strcmp(file, "-") != 0)
		a->file = xstrdup(realpath(file, real) ? real : file);
	if (again && find_last(c, opts, a))
		return -1;
	if (!file)
		c->args.operand[0] = a->file;
	return 0;
}

void again_look(struct ctx *c, struct again *a)
{
	struct err e;
	cJSON *job = NULL;
	char *path = xasprintf("/jobs/%" PRIu64, a->job);
	if (a->report && a->job && !client_call(c->client, "GET", path, NULL, &job, &e)) {
		/* Another cluster at the same address has another job of that number. */
		a->same = a->source ? has_text(job, "bundle", a->source) : !jtext(job, "bundle");
		a->pool = json_whole(jget(job, "warm_pool"), "pool", 0);
	}
	cJSON_Delete(job);
	free(path);
}

void again_compare(struct ctx *c, struct again *a, struct bundle_report *r)
{
	struct err e;
	if (!a->same || !a->source)
		return;
	a->changed = changed_create(c->client, a->job, a->source, &e);
	if (a->changed) {
		r->chunk = changed_keep;
		r->arg = a->changed;
	}
}

int again_list_changes(struct ctx *c, struct again *a, const struct bundle_report *r)
{
	if (!a->report || !r->manifest)
		return 0;
	json_add_u64(a->report, "sent_bytes", r->only_ask ? 0 : r->sent_bytes);
	if (r->only_ask)
		json_add_u64(a->report, "would_send_bytes", r->sent_bytes);
	return a->changed ? changed_list(a->changed, r->manifest, r->manifest_n, a->report, &c->err) : 0;
}

/* ---- the pool of the new job -------------------------------------------------------------------- */

static char *use_text(uint64_t job, const cJSON *pool)
{
	char *level = print_safe(print_member(pool, "level")), *why = pools_missed_short(jget(pool, "missed"));
	char *text = xasprintf("Job %" PRIu64 " uses warm pool %s (level %s%s%s)", job, print_member(pool, "id"),
	                       level, why ? ": " : "", why ? why : "");
	free(level);
	free(why);
	return text;
}

/* job: the new one as hearthd shows it. Returns the pool of its attempt; NULL none. */
static const cJSON *pool_of_job(struct again *a, uint64_t id, const cJSON *job)
{
	const cJSON *list = jget(job, "attempts"),
	            *pool = jget(cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1), "pool");
	if (cJSON_IsObject(pool))
		a->pool_text = use_text(id, pool);
	else if (cJSON_GetArraySize(list))
		a->pool_text = xasprintf("No warm pool matches: job %" PRIu64 " starts on cold nodes", id);
	else
		a->pool_text = xasprintf("Job %" PRIu64 " has no nodes yet; to see why: jobctl why %" PRIu64, id, id);
	return cJSON_IsObject(pool) ? pool : NULL;
}

/* Why the job would use none: most often another job of the user is in the last job's pool. */
static char *no_pool_text(struct ctx *c, const struct again *a)
{
	char *path = xasprintf("/pools/%" PRIu64, a->pool), *text = NULL;
	cJSON *pool = NULL;
	struct err e;
	if (a->pool && !client_call(c->client, "GET", path, NULL, &pool, &e) &&
	    has_text(pool, "state", "in_use") && json_whole(pool, "used_by", 0))
		text = xasprintf("Warm pool %" PRIu64 " is in use by job %" PRIu64 ", and no other one matches",
		                 a->pool, json_whole(pool, "used_by", 0));
	cJSON_Delete(pool);
	free(path);
	return text ? text : xstrdup("No warm pool matches");
}

/* hearthd decides in the turn of the submit, so the new job has its nodes if there are any. */
void again_note_pool(struct ctx *c, struct again *a, const cJSON *answer, int dry)
{
	uint64_t id = json_whole(answer, "id", 0);
	const cJSON *pool = dry ? jget(answer, "pool") : NULL;
	cJSON *job = NULL;
	struct err e;
	char *path = xasprintf("/jobs/%" PRIu64, id);
	if (a->report && !dry && id && !jget(answer, "members") &&
	    !client_call(c->client, "GET", path, NULL, &job, &e))
		pool = pool_of_job(a, id, job);
	if (a->report && dry && !cJSON_IsObject(pool))
		a->pool_text = no_pool_text(c, a);
	if (a->report)
		cJSON_AddItemToObject(a->report, "pool",
		                      cJSON_IsObject(pool) ? cJSON_Duplicate(jget(pool, "id"), 1)
		                                           : cJSON_CreateNull());
	cJSON_Delete(job);
	free(path);
}

/* ---- what people see ---------------------------------------------------------------------------- */

static void print_changes(const cJSON *list)
{
	const cJSON *o;
	int n = 0;
	cJSON_ArrayForEach (o, list) {
		char *path = print_safe(jtext(o, "path")), size[24];
		if (n++ == SHOWN_MAX) {
			fprintf(stderr, "  and %d more; to see all: --json\n", cJSON_GetArraySize(list) - SHOWN_MAX);
			free(path);
			return;
		}
		fprintf(stderr, "  %-8s %s", jtext(o, "how"), path);
		if (jget(o, "size"))
			fprintf(stderr, "  %s", str_size(json_whole(o, "size", 0), size, sizeof(size)));
		fputc('\n', stderr);
		free(path);
	}
}

/* Returns how many files both sources have together. */
static uint64_t count_files(const struct again *a)
{
	uint64_t n = json_whole(a->report, "files", 0);
	const cJSON *o;
	cJSON_ArrayForEach (o, jget(a->report, "changed"))
		n += has_text(o, "how", "removed") ? 1 : 0;
	return n;
}

static void print_sum(const struct again *a)
{
	uint64_t files = count_files(a), unsure = json_whole(a->report, "not_compared", 0);
	int n = cJSON_GetArraySize(jget(a->report, "changed"));
	const cJSON *would = jget(a->report, "would_send_bytes");
	uint64_t bytes = json_whole(a->report, would ? "would_send_bytes" : "sent_bytes", 0);
	char all[24], sent[24];
	if (n)
		fprintf(stderr, "%d of %" PRIu64 " files differ%s from job %" PRIu64, n, files, n == 1 ? "s" : "",
		        a->job);
	else
		fprintf(stderr, "No file of the source differs from that of job %" PRIu64, a->job);
	str_size(json_whole(a->report, "bytes", 0), all, sizeof(all));
	if (bytes)
		fprintf(stderr, "; %s %s of %s\n", would ? "it would send" : "sent",
		        str_size(bytes, sent, sizeof(sent)), all);
	else
		fprintf(stderr, "; the controller has all %s\n", all);
	if (unsure)
		fprintf(stderr, "%" PRIu64 " more files are in blocks that differ; jobctl did not compare them\n",
		        unsure);
}

/* A value of the environment may be a secret. */
static void print_set(const char *set)
{
	size_t n = strncmp(set, "environment.", 12) == 0 ? strcspn(set, "=") : strlen(set);
	char *part = xstrndup(set, n), *safe = print_safe(part);
	fprintf(stderr, " --set %s%s", safe, set[n] ? "=..." : "");
	free(safe);
	free(part);
}

static void print_options(const struct again *a, const char *file)
{
	char *name = a->name ? print_safe(a->name) : NULL;
	fprintf(stderr, "Again: %s, last submitted as job %" PRIu64, file, a->job);
	if (a->set.n || name)
		fputs(", with", stderr);
	for (size_t i = 0; i < a->set.n && i < OPTIONS_MAX; i++)
		print_set(a->set.v[i]);
	if (a->set.n > OPTIONS_MAX)
		fprintf(stderr, " (and %zu more)", a->set.n - OPTIONS_MAX);
	if (name)
		fprintf(stderr, " --name %s", name);
	fputc('\n', stderr);
	free(name);
}

void again_print(const struct again *a)
{
	if (!a->report)
		return;
	char *file = print_safe(a->file);
	if (!a->job)
		fprintf(stderr, "Note: %s was not submitted from this machine yet, so nothing can be compared\n",
		        file);
	else
		print_options(a, file);
	free(file);
	print_changes(jget(a->report, "changed"));
	if (jget(a->report, "changed"))
		print_sum(a);
	else if (a->job && !jget(a->report, "sent_bytes"))
		fprintf(stderr, "The job has no source\n");
	else if (a->job)
		fprintf(stderr,
		        "The controller does not have the source of job %" PRIu64 ", so nothing is compared\n",
		        a->job);
	if (a->pool_text)
		fprintf(stderr, "%s\n", a->pool_text);
}

void again_fini(struct again *a)
{
	free(a->url);
	free(a->folder);
	free(a->file);
	free(a->source);
	free(a->name);
	free(a->pool_text);
	strv_fini(&a->set);
	cJSON_Delete(a->report);
	changed_destroy(a->changed);
	memset(a, 0, sizeof(*a));
}
