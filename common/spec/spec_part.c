/*
 * spec_part: functions that read the parts of job.json with rules of their own: node demands, launcher, MPI
 * options, groups, inputs, outputs, resume_from, metrics.
 */
#include "common/spec/spec_int.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/pattern.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"

/* Index of the string v in the NULL-terminated list, or -1 with a problem added. */
static int word_of(struct spec_parse *p, const char *where, const cJSON *v, const char *const *words)
{
	const char *s = spec_string(p, where, v, 64, 0);
	char list[128] = "";

	if (!s)
		return -1;
	for (int i = 0; words[i]; i++) {
		size_t used = strlen(list);

		if (strcmp(words[i], s) == 0)
			return i;
		snprintf(list + used, sizeof(list) - used, "%s\"%s\"",
		         !i             ? ""
		         : words[i + 1] ? ", "
		                        : " or ",
		         words[i]);
	}
	spec_problem(p, where, "expected %s, got \"%s\"", list, s);
	return -1;
}

/* ---- demands on nodes ---------------------------------------------------------------------------- */

static void add_type(struct spec_parse *p, const char *where, const cJSON *v, struct strv *types, int in_list)
{
	const char *s = spec_string(p, where, v, 64, 0);
	struct err e;

	if (!s)
		return;
	if (strcmp(s, "auto") == 0)
		spec_unsupported(
		    p, where, "\"auto\" is reserved (choice by objective) and not built yet; name a type or \"any\"");
	else if (strcmp(s, "any") == 0 && in_list)
		spec_problem(p, where, "\"any\" has no place in a list of types; leave the list empty");
	else if (str_check_name(s, 64, where, &e) < 0)
		spec_problem(p, "", "%s", e.text);
	else if (strcmp(s, "any") != 0)
		strv_add(types, s);
}

void spec_v_types(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out)
{
	struct strv *types = (struct strv *)((char *)out + r->offset);
	const cJSON *item;
	size_t i = 0;

	if (!cJSON_IsArray(v) && !cJSON_IsString(v)) {
		spec_wrong_type(p, where, "a string or a list of strings", v);
	} else if (cJSON_GetArraySize(v) > r->max) {
		spec_problem(p, where, "has %d entries; at most %" PRId64 " are allowed", cJSON_GetArraySize(v),
		             r->max);
	} else if (cJSON_IsString(v)) {
		add_type(p, where, v, types, 0);
	} else {
		cJSON_ArrayForEach (item, v) {
			char path[SPEC_WHERE_SIZE];

			add_type(p, spec_where_index(path, where, i++), item, types, 1);
		}
	}
}

void spec_v_model(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out)
{
	const char *s = spec_string(p, where, v, (size_t)r->max, 0);

	if (s && *s && strcmp(s, "any") != 0)
		spec_set_text(out, r->offset, s);
}

/* "nvlink" or "zone=a": both sides are names. */
static int check_label(const char *s, const char *where, struct err *e)
{
	const char *eq = strchr(s, '=');
	char name[129];

	if (!eq)
		return str_check_name(s, 128, where, e);
	if (eq - s > 128)
		return err_set(e, ERR_INVALID, "%s: the label's name is longer than 128 characters", where);
	snprintf(name, sizeof(name), "%.*s", (int)(eq - s), s);
	return str_check_name(name, 128, where, e) < 0 ? -1 : str_check_name(eq + 1, 128, where, e);
}

void spec_v_requires(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                     void *out)
{
	struct strv *labels = (struct strv *)((char *)out + r->offset);
	const cJSON *item;
	size_t i = 0;

	if (!cJSON_IsArray(v)) {
		spec_wrong_type(p, where, "a list of strings", v);
		return;
	}
	if (cJSON_GetArraySize(v) > r->max) {
		spec_problem(p, where, "has %d entries; at most %" PRId64 " are allowed", cJSON_GetArraySize(v),
		             r->max);
		return;
	}
	cJSON_ArrayForEach (item, v) {
		char path[SPEC_WHERE_SIZE];
		const char *s = spec_string(p, spec_where_index(path, where, i++), item, 260, 0);
		struct err e;

		if (s && check_label(s, path, &e) < 0)
			spec_problem(p, "", "%s", e.text);
		else if (s)
			strv_add(labels, s);
	}
}

void spec_v_visibility(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                       void *out)
{
	static const char *const words[] = {"all", "one", NULL};
	int i = word_of(p, where, v, words);

	if (i >= 0)
		*(int *)((char *)out + r->offset) = i;
}

void spec_v_span(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out)
{
	static const char *const words[] = {"node", "switch", "rack", NULL};
	int i = word_of(p, where, v, words);

	if (i >= 0)
		spec_set_text(out, r->offset, words[i]);
}

void spec_v_launcher(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                     void *out)
{
	const char *words[N_LAUNCHERS + 1] = {NULL};
	int i;

	for (i = 0; i < N_LAUNCHERS; i++)
		words[i] = launcher_name((enum spec_launcher)i);
	i = word_of(p, where, v, words);
	if (i >= 0)
		*(enum spec_launcher *)((char *)out + r->offset) = (enum spec_launcher)i;
}

/* ---- MPI options --------------------------------------------------------------------------------- */

/* Parameters that change how messages travel, never how processes start, end or are watched. A name is on the
 * list when it is an entry or begins with an entry and '_'. */
static const char *const mca_allowed[] = {
    "btl",
    "pml",
    "mtl",
    "bml",
    "coll",
    "osc",
    "topo",
    "op",
    "io",
    "fs",
    "fbtl",
    "fcoll",
    "mpi",
    "sharedfp",
    "rcache",
    "mpool",
    "opal_common_ucx",
    "opal_common_ofi",
    "opal_common_verbs",
    "opal_cuda",
    "opal_warn",
    NULL,
};
/* Exceptions: recovery inside MPI and aborts that wait would stand against Hearth's own handling of failures;
 * files of parameters would bring in what is not on the list. */
static const char *const mca_refused[] = {
    "mpi_ft", "mpi_abort_delay", "mpi_paffinity", "mpi_maffinity", "mpi_param_file", NULL,
};
static const struct {
	const char *option, *sentence;
} mpi_refusals[] = {
    {"-np", "the number of processes comes from resources and groups"},
    {"-n", "the number of processes comes from resources and groups"},
    {"-c", "the number of processes comes from resources and groups"},
    {"-N", "the number of processes comes from resources and groups"},
    {"--npernode", "the number of processes comes from resources and groups"},
    {"-H", "Hearth chooses the hosts"},
    {"--host", "Hearth chooses the hosts"},
    {"--hostfile", "Hearth chooses the hosts"},
    {"--machinefile", "Hearth chooses the hosts"},
    {"-x", "variables go into \"environment\""},
    {"--bind-to", "Hearth gives each rank its own CPUs"},
    {"--map-by", "Hearth places the ranks"},
    {"--rank-by", "Hearth places the ranks"},
    {"--oversubscribe", "Hearth places the ranks"},
    {"--enable-recovery", "a gang is restarted as a whole, by Hearth"},
    {"--wdir", "ranks start in source_dir"},
    {"--prefix", "Hearth chooses the MPI installation"},
};

static int on_list(const char *const *list, const char *name)
{
	for (; *list; list++) {
		size_t n = strlen(*list);

		if (strncmp(name, *list, n) == 0 && (!name[n] || name[n] == '_'))
			return 1;
	}
	return 0;
}

static void refuse_mca(struct spec_parse *p, const char *where, const char *name)
{
	static const char *const launch[] = {"plm", "odls",   "oob",     "rsh",    "orte",  "prte",    "rmaps",
	                                     "ras", "ess",    "grpcomm", "routed", "state", "errmgr",  "iof",
	                                     "rtc", "schizo", "filem",   "hwloc",  "pmix",  "plm_rsh", NULL};

	if (on_list(launch, name))
		spec_problem(p, where,
		             "%s is not allowed, because Hearth itself starts and watches the processes; remove it",
		             name);
	else
		spec_problem(p, where,
		             "%s is not on the list of MPI parameters that a job may set (btl, pml, mtl, coll, osc, "
		             "io, mpi ...)",
		             name);
}

static void refuse_option(struct spec_parse *p, const char *where, const char *option)
{
	for (size_t i = 0; i < sizeof(mpi_refusals) / sizeof(mpi_refusals[0]); i++) {
		const char *known = mpi_refusals[i].option;

		/* Open MPI takes one dash or two for its long options. */
		if (strcmp(known, option) == 0 || (strncmp(known, "--", 2) == 0 && strcmp(known + 1, option) == 0)) {
			spec_problem(p, where, "%s cannot be given: %s", option, mpi_refusals[i].sentence);
			return;
		}
	}
	spec_problem(p, where, "\"%s\": only --mca NAME VALUE is possible here", option);
}

static int mca_name_ok(const char *s)
{
	return *s && s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] == '\0';
}

/* One "--mca NAME VALUE" from entry i on. */
static void one_mca(struct spec_parse *p, const char *where, const cJSON *option, size_t i, struct strv *out)
{
	const cJSON *name_v = option->next, *value_v = name_v ? name_v->next : NULL;
	char name_path[SPEC_WHERE_SIZE], value_path[SPEC_WHERE_SIZE];
	const char *name, *value;

	if (!value_v) {
		spec_problem(p, spec_where_index(name_path, where, i),
		             "--mca needs a name and a value after it, as separate entries");
		return;
	}
	name = spec_string(p, spec_where_index(name_path, where, i + 1), name_v, 128, 0);
	value = spec_string(p, spec_where_index(value_path, where, i + 2), value_v, 4096, 0);
	if (!name || !value)
		return;
	if (!mca_name_ok(name))
		spec_problem(p, name_path, "\"%s\" is not the name of an MPI parameter", name);
	else if (!on_list(mca_allowed, name) || on_list(mca_refused, name))
		refuse_mca(p, name_path, name);
	else if (*value == '-' && !isdigit((unsigned char)value[1]))
		spec_problem(p, value_path, "\"%s\" looks like an option, not like a value of %s", value, name);
	else {
		strv_add(out, "--mca");
		strv_add(out, name);
		strv_add(out, value);
	}
}

void spec_v_mpi(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v, void *out)
{
	struct strv *options = (struct strv *)((char *)out + r->offset);
	const cJSON *item;
	size_t i = 0;

	if (!cJSON_IsArray(v)) {
		spec_wrong_type(p, where, "a list of strings such as [\"--mca\", \"btl\", \"self,tcp\"]", v);
		return;
	}
	if (cJSON_GetArraySize(v) > r->max) {
		spec_problem(p, where, "has %d entries; at most %" PRId64 " are allowed", cJSON_GetArraySize(v),
		             r->max);
		return;
	}
	for (item = v->child; item;) {
		char path[SPEC_WHERE_SIZE];
		const char *s = spec_string(p, spec_where_index(path, where, i), item, 256, 0);

		if (s && (strcmp(s, "--mca") == 0 || strcmp(s, "-mca") == 0)) {
			one_mca(p, where, item, i, options);
			for (int k = 0; k < 3 && item; k++, i++)
				item = item->next;
			continue;
		}
		if (s)
			refuse_option(p, path, s);
		/* What follows a refused option is most likely its value: say nothing about it. */
		item = item->next;
		i++;
		while (item && cJSON_IsString(item) && item->valuestring[0] != '-') {
			item = item->next;
			i++;
		}
	}
}

/* ---- groups -------------------------------------------------------------------------------------- */

void spec_v_groups(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out)
{
	struct job_spec *s = &p->s;
	const cJSON *item;
	size_t i = 0;

	(void)out;
	if (!cJSON_IsArray(v)) {
		spec_wrong_type(p, where, "a list of objects", v);
		return;
	}
	if (!v->child)
		return; /* as null: the whole gang is alike */
	if (!spec_once(p, where, s->groups))
		return;
	if (cJSON_GetArraySize(v) > r->max) {
		spec_problem(p, where, "has %d entries; at most %" PRId64 " are allowed", cJSON_GetArraySize(v),
		             r->max);
		return;
	}
	s->groups = xcalloc((size_t)cJSON_GetArraySize(v), sizeof(*s->groups));
	s->has_groups = 1;
	cJSON_ArrayForEach (item, v) {
		char path[SPEC_WHERE_SIZE];
		struct spec_group *g = &s->groups[s->n_groups++];

		spec_where_index(path, where, i++);
		g->instances = g->gpus_per_instance = g->ranks_per_instance = g->cpus_per_rank = SPEC_NOT_GIVEN;
		spec_object(p, "groups[]", path, item, g);
		if (!g->name && cJSON_IsObject(item)) {
			/* A name that was refused has its own problem already. */
			if (!cJSON_GetObjectItemCaseSensitive(item, "name"))
				spec_problem(p, path, "needs a name");
			continue;
		}
		for (size_t k = 0; g->name && k + 1 < s->n_groups; k++)
			if (s->groups[k].name && strcmp(s->groups[k].name, g->name) == 0)
				spec_problem(p, path, "a second group called \"%s\"", g->name);
	}
}

/* ---- inputs and outputs -------------------------------------------------------------------------- */

/* file:///absolute/path without ".."; what follows file:// is the path as it is (no %-escapes). 0 or -1. */
static int check_file_uri(struct spec_parse *p, const char *where, const char *uri)
{
	const char *path = uri + strlen("file://");

	if (*path != '/')
		spec_problem(p, where, "a file is written file:///absolute/path");
	else
		for (;; path = strchr(path, '/')) {
			if (!path)
				return 0;
			path++;
			if (strncmp(path, "..", 2) == 0 && (path[2] == '/' || !path[2])) {
				spec_problem(p, where, "the path may not hold \"..\"");
				break;
			}
		}
	return -1;
}

static int begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

static void refuse_scheme(struct spec_parse *p, const char *where, const char *uri, const char *wanted)
{
	static const char *const later[] = {"s3://", "gs://", "hdfs://", "fsx://", NULL};

	for (size_t i = 0; later[i]; i++) {
		if (!begins(uri, later[i]))
			continue;
		spec_unsupported(p, where, "%s is reserved and not built yet; use %s", later[i], wanted);
		return;
	}
	spec_problem(p, where, "expected %s, got \"%.80s\"", wanted, uri);
}

void spec_v_input_uri(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                      void *out)
{
	const char *s = spec_string(p, where, v, (size_t)r->max, 0);

	if (!s)
		return;
	if (begins(s, "file://")) {
		if (check_file_uri(p, where, s) < 0)
			return;
	} else if (begins(s, "http://") || begins(s, "https://")) {
		const char *host = strstr(s, "://") + 3;

		if (!isalnum((unsigned char)*host) && *host != '[') {
			spec_problem(p, where, "\"%.80s\" names no host", s);
			return;
		}
		if (strpbrk(s, " \"<>\\^`{|}")) {
			spec_problem(p, where, "has characters that must be %%-escaped in an address");
			return;
		}
	} else if (begins(s, "job:")) {
		uint64_t job = 0;
		const char *part = s + 4 + spec_take_job(p, where, s + 4, &job);
		char *by_number;

		if (!job || (strcmp(part, "/model") != 0 && strcmp(part, "/output") != 0 &&
		             strcmp(part, "/checkpoint") != 0)) {
			spec_problem(p, where, "expected job:ID/model, job:ID/output or job:ID/checkpoint, got \"%.80s\"",
			             s);
			return;
		}
		by_number = xasprintf("job:%" PRIu64 "%s", job, part);
		spec_set_text(out, r->offset, by_number);
		free(by_number);
		return;
	} else {
		refuse_scheme(p, where, s, "file:///PATH, http(s)://... or job:ID/model");
		return;
	}
	spec_set_text(out, r->offset, s);
}

void spec_v_input_mode(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                       void *out)
{
	static const char *const words[] = {"copy", "link", NULL};
	int i = word_of(p, where, v, words);

	if (i >= 0)
		*(int *)((char *)out + r->offset) = i;
}

void spec_v_sha256(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out)
{
	const char *s = spec_string(p, where, v, 128, 0);

	if (!s || !*s)
		return;
	if (!hash_is_hex(s))
		spec_problem(p, where, "expected 64 hexadecimal digits in lower case");
	else
		spec_set_text(out, r->offset, s);
}

/* Two channels must not become the same SM_CHANNEL_ variable. */
static int same_variable(const char *a, const char *b)
{
	for (; *a && *b; a++, b++) {
		int x = isalnum((unsigned char)*a) ? toupper((unsigned char)*a) : '_';
		int y = isalnum((unsigned char)*b) ? toupper((unsigned char)*b) : '_';

		if (x != y)
			return 0;
	}
	return *a == *b;
}

static void one_input(struct spec_parse *p, const char *where, const cJSON *item)
{
	struct spec_input *in = &p->s.inputs[p->s.n_inputs++];
	struct err e;

	in->name = xstrdup(item->string);
	if (str_check_name(item->string, 64, where, &e) < 0)
		spec_problem(p, "", "%s", e.text);
	for (size_t k = 0; k + 1 < p->s.n_inputs; k++)
		if (same_variable(p->s.inputs[k].name, in->name))
			spec_problem(p, where, "would share its variable SM_CHANNEL_... with the channel \"%.64s\"",
			             p->s.inputs[k].name);
	if (cJSON_IsString(item)) {
		spec_problem(p, where, "expected an object such as {\"uri\": \"file:///data\"}, got a string");
		return;
	}
	spec_object(p, "inputs.*", where, item, in);
	if (!cJSON_IsObject(item))
		return;
	if (!in->uri) {
		if (!cJSON_GetObjectItemCaseSensitive(item, "uri"))
			spec_problem(p, where, "needs a uri");
		return;
	}
	if (in->link && !begins(in->uri, "file://"))
		spec_problem(p, where, "mode \"link\" is for file:// only");
	if (in->link && in->unpack)
		spec_problem(p, where, "an archive cannot be unpacked in mode \"link\"");
	if (in->sha256 && !begins(in->uri, "http"))
		spec_problem(p, where, "sha256 is for http(s) only");
	if (in->unpack && begins(in->uri, "job:"))
		spec_problem(p, where, "unpack is for file:// and http(s) only");
}

void spec_v_inputs(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out)
{
	const cJSON *item;

	(void)out;
	if (!cJSON_IsObject(v)) {
		spec_wrong_type(p, where, "an object of channels: {\"train\": {\"uri\": \"file:///data\"}}", v);
		return;
	}
	if (cJSON_GetArraySize(v) > r->max) {
		spec_problem(p, where, "has %d entries; at most %" PRId64 " are allowed", cJSON_GetArraySize(v),
		             r->max);
		return;
	}
	if (!v->child || !spec_once(p, where, p->s.inputs))
		return;
	p->s.inputs = xcalloc((size_t)cJSON_GetArraySize(v), sizeof(*p->s.inputs));
	cJSON_ArrayForEach (item, v) {
		char path[SPEC_WHERE_SIZE];

		one_input(p, spec_where(path, where, item->string), item);
	}
}

void spec_v_output(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out)
{
	const char *s = spec_string(p, where, v, (size_t)r->max, 0);

	if (!s || !*s)
		return;
	if (!begins(s, "file://"))
		refuse_scheme(p, where, s, "file:///PATH");
	else if (check_file_uri(p, where, s) == 0)
		spec_set_text(out, r->offset, s);
}

void spec_v_resume(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out)
{
	const char *s = spec_string(p, where, v, (size_t)r->max, 0);
	uint64_t job = 0;
	size_t n;

	(void)out;
	if (!s || !*s)
		return;
	if (begins(s, "file://")) {
		if (check_file_uri(p, where, s) == 0)
			spec_set_text(&p->s.resume_job, 0, s);
		return;
	}
	if (!begins(s, "job:")) {
		refuse_scheme(p, where, s, "job:ID, job:ID@STEP or file:///PATH");
		return;
	}
	n = spec_take_job(p, where, s + 4, &job);
	if (n && s[4 + n] == '@') {
		uint64_t step;

		if (str_parse_u64(s + 4 + n + 1, &step) < 0 || step > INT64_MAX) {
			spec_problem(p, where, "\"%.80s\": the step after @ must be a number", s);
			return;
		}
		p->s.resume_step = (int64_t)step;
	} else if (!n || s[4 + n]) {
		spec_problem(p, where,
		             "expected job:ID or job:ID@STEP, where ID is a number such as 17 or 17.3, got \"%.80s\"",
		             s);
		return;
	}
	free(p->s.resume_job);
	p->s.resume_job = xasprintf("job:%" PRIu64, job);
}

/* ---- metrics ------------------------------------------------------------------------------------- */

void spec_v_regex(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out)
{
	const char *s = spec_string(p, where, v, (size_t)r->max, 1);
	struct pattern *pattern;
	uint32_t groups;
	struct err e;

	if (!s)
		return;
	if (!*s) {
		spec_problem(p, where, "the pattern is empty");
		return;
	}
	pattern = pattern_compile(s, &e);
	if (!pattern) {
		spec_problem(p, where, "%s", e.text);
		return;
	}
	groups = pattern_groups(pattern);
	pattern_destroy(pattern);
	if (!groups)
		spec_problem(p, where, "the pattern has no group; put the number in brackets: loss=([0-9.]+)");
	else
		spec_set_text(out, r->offset, s);
}

void spec_v_metrics(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                    void *out)
{
	const cJSON *item;
	size_t i = 0;

	(void)out;
	if (!cJSON_IsArray(v)) {
		spec_wrong_type(p, where, "a list such as [{\"name\": \"loss\", \"regex\": \"loss=([0-9.]+)\"}]", v);
		return;
	}
	if (cJSON_GetArraySize(v) > r->max) {
		spec_problem(p, where, "has %d entries; at most %" PRId64 " are allowed", cJSON_GetArraySize(v),
		             r->max);
		return;
	}
	if (!v->child || !spec_once(p, where, p->s.metrics))
		return;
	p->s.metrics = xcalloc((size_t)cJSON_GetArraySize(v), sizeof(*p->s.metrics));
	cJSON_ArrayForEach (item, v) {
		char path[SPEC_WHERE_SIZE];
		struct spec_metric *m = &p->s.metrics[p->s.n_metrics++];

		spec_where_index(path, where, i++);
		spec_object(p, "metrics[]", path, item, m);
		if (cJSON_IsObject(item) && !cJSON_GetObjectItemCaseSensitive(item, "name"))
			spec_problem(p, path, "needs a name");
		if (cJSON_IsObject(item) && !cJSON_GetObjectItemCaseSensitive(item, "regex"))
			spec_problem(p, path, "needs a regex");
	}
}
