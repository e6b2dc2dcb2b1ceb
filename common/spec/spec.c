/*
 * spec: job.json -> struct job_spec. See spec.h; spec_keys.c has the keys, spec_value.c and spec_part.c
 * the functions of their values, and spec_json.c the way back.
 *
 * Order: parse the text, refuse whole numbers that a double cannot keep, set the defaults, walk the document
 * by the table, then check what concerns several keys at once. Problems are collected on the way; nothing is
 * given out when there is one.
 */
#include "common/spec/spec.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/spec/spec_int.h"

static void spec_fini(struct job_spec *s);

/* ---- problems ------------------------------------------------------------------------------------ */

static void add_problem(struct spec_parse *p, const char *where, const char *fmt, va_list ap)
{
	char text[400];

	if (p->problems.n >= SPEC_MAX_PROBLEMS) {
		p->more++;
		return;
	}
	vsnprintf(text, sizeof(text), fmt, ap);
	if (*where)
		strv_addf(&p->problems, "%s: %s", where, text);
	else
		strv_add(&p->problems, text);
}

void spec_problem(struct spec_parse *p, const char *where, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_problem(p, where, fmt, ap);
	va_end(ap);
	p->invalid = 1;
}

void spec_unsupported(struct spec_parse *p, const char *where, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_problem(p, where, fmt, ap);
	va_end(ap);
}

void spec_wrong_type(struct spec_parse *p, const char *where, const char *wanted, const cJSON *v)
{
	const char *got = cJSON_IsString(v)   ? "a string"
	                  : cJSON_IsNumber(v) ? "a number"
	                  : cJSON_IsBool(v)   ? "true or false"
	                  : cJSON_IsArray(v)  ? "a list"
	                  : cJSON_IsObject(v) ? "an object"
	                                      : "null";

	spec_problem(p, where, "expected %s, got %s", wanted, got);
}

const char *spec_where(char *out, const char *base, const char *key)
{
	char clean[80];
	size_t n = 0, base_n;

	for (; *key && n < 64; key++)
		clean[n++] = (unsigned char)*key < 0x20 || *key == 0x7f ? '?' : *key;
	/* A cut in the middle of a character would make the message invalid UTF-8. */
	while (*key && n && ((unsigned char)*key & 0xc0) == 0x80) {
		key--;
		n--;
	}
	if (*key) {
		memcpy(clean + n, "...", 3);
		n += 3;
	}
	/* Asked for at every key, shown when one is wrong: without printf. */
	base_n = strnlen(base, 150);
	memcpy(out, base, base_n);
	if (base_n)
		out[base_n++] = '.';
	memcpy(out + base_n, clean, n);
	out[base_n + n] = '\0';
	return out;
}

const char *spec_where_index(char *out, const char *base, size_t index)
{
	snprintf(out, SPEC_WHERE_SIZE, "%.200s[%zu]", base, index);
	return out;
}

/* All problems into one error: whole lines as far as they fit, then how many more there are. */
static int problems_to_err(const struct spec_parse *p, struct err *e)
{
	char text[sizeof(e->text)];
	size_t used = 0, shown = 0;

	for (; shown < p->problems.n; shown++) {
		size_t n = strlen(p->problems.v[shown]);

		if (used + n + 32 >= sizeof(text))
			break;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used ? "\n" : "",
		                         p->problems.v[shown]);
	}
	if (!shown)
		used =
		    (size_t)snprintf(text, sizeof(text), "%.*s...", (int)sizeof(text) - 40, p->problems.v[shown++]);
	if (p->problems.n + p->more > shown)
		snprintf(text + used, sizeof(text) - used, "\n(and %zu more)", p->problems.n + p->more - shown);
	return err_set(e, p->invalid ? ERR_INVALID : ERR_UNSUPPORTED, "%s", text);
}

/* ---- the walk ------------------------------------------------------------------------------------ */

void spec_object(struct spec_parse *p, const char *prefix, const char *where, const cJSON *v, void *out)
{
	const cJSON *item;

	if (!cJSON_IsObject(v)) {
		spec_wrong_type(p, where, "an object", v);
		return;
	}
	cJSON_ArrayForEach (item, v) {
		char path[SPEC_WHERE_SIZE];
		struct spec_rule rule;

		spec_where(path, where, item->string);
		if (!spec_rule_find(prefix, item->string, &rule))
			spec_unknown_key(p, prefix, path, item->string);
		else if (!cJSON_IsNull(item))
			rule.fn(p, &rule, path, item, out);
	}
}

void spec_v_object(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out)
{
	spec_object(p, r->key->path, where, v, out);
}

/* Null, "", [], {} or the default of the table: it says nothing, so it does not ask for a missing
 * feature. */
static int says_nothing(const struct spec_rule *r, const cJSON *v)
{
	char *text;
	int same;

	if (cJSON_IsNull(v) || (cJSON_IsString(v) && !*v->valuestring) ||
	    ((cJSON_IsArray(v) || cJSON_IsObject(v)) && !v->child))
		return 1;
	text = json_text(v);
	same = strcmp(text, r->key->dflt) == 0;
	free(text);
	return same;
}

void spec_v_reserved(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                     void *out)
{
	(void)out;
	if (!says_nothing(r, v))
		spec_unsupported(p, where, "this key is reserved (%s) and not built yet; leave it out", r->key->help);
}

/* ---- checks over several keys --------------------------------------------------------------------- */

/* The gang as groups: those given, or one called "algo" from resources. Fills what they leave open. */
static void settle_groups(struct spec_parse *p)
{
	struct job_spec *s = &p->s;

	if (!s->has_groups) {
		s->groups = xcalloc(1, sizeof(*s->groups));
		s->n_groups = 1;
		s->groups[0] = p->base;
		s->groups[0].name = xstrdup("algo");
	} else if (p->base.instances != SPEC_NOT_GIVEN) {
		spec_problem(p, "resources.instances",
		             "each group says its own instances; leave this one out when there are groups");
	}
	for (size_t i = 0; i < s->n_groups; i++) {
		struct spec_group *g = &s->groups[i];

		if (g->instances == SPEC_NOT_GIVEN)
			g->instances = 1;
		if (g->gpus_per_instance == SPEC_NOT_GIVEN)
			g->gpus_per_instance =
			    p->base.gpus_per_instance == SPEC_NOT_GIVEN ? 0 : p->base.gpus_per_instance;
		if (g->ranks_per_instance == SPEC_NOT_GIVEN)
			g->ranks_per_instance =
			    p->base.ranks_per_instance == SPEC_NOT_GIVEN ? 0 : p->base.ranks_per_instance;
		if (!g->ranks_per_instance)
			g->ranks_per_instance = g->gpus_per_instance ? g->gpus_per_instance : 1;
		if (g->cpus_per_rank == SPEC_NOT_GIVEN)
			g->cpus_per_rank = p->base.cpus_per_rank == SPEC_NOT_GIVEN ? 1 : p->base.cpus_per_rank;
	}
}

/* 1 when something was said about that key already: no second complaint that follows from the first. */
static int has_problem(const struct spec_parse *p, const char *key)
{
	for (size_t i = 0; i < p->problems.n; i++)
		if (strncmp(p->problems.v[i], key, strlen(key)) == 0)
			return 1;
	return 0;
}

static void check_gang(struct spec_parse *p)
{
	const struct job_spec *s = &p->s;
	uint64_t nodes = 0, ranks = 0, gpus = 0;
	size_t without_command = 0;

	for (size_t i = 0; i < s->n_groups; i++) {
		const struct spec_group *g = &s->groups[i];

		nodes += g->instances;
		ranks += (uint64_t)g->instances * g->ranks_per_instance;
		gpus += (uint64_t)g->instances * g->gpus_per_instance;
		without_command += !g->command.n;
	}
	if (nodes > SPEC_MAX_NODES)
		spec_problem(p, "groups", "%" PRIu64 " instances in all; at most %d are possible", nodes,
		             SPEC_MAX_NODES);
	if (ranks > SPEC_MAX_RANKS)
		spec_problem(p, s->has_groups ? "groups" : "resources",
		             "%" PRIu64 " ranks in all; at most %d are possible", ranks, SPEC_MAX_RANKS);
	if (without_command && !s->command.n && !has_problem(p, "command") && !has_problem(p, "groups"))
		spec_problem(p, "command",
		             s->has_groups ? "must be given unless every group has a command of its own"
		                           : "must be given: a list such as [\"/usr/bin/python3\", \"train.py\"]");
	if (!gpus && s->gpu_model)
		spec_problem(p, "resources.gpu_model", "the job asks for no GPUs; set gpus_per_instance");
	if (!gpus && s->gpu_memory_bytes)
		spec_problem(p, "resources.gpu_memory", "the job asks for no GPUs; set gpus_per_instance");
	if (s->cuda_context && !gpus)
		spec_problem(p, "warm_pool.cuda_context", "the job asks for no GPUs; set gpus_per_instance");
	if (s->cuda_context && !s->preload.n && !has_problem(p, "warm_pool.preload"))
		spec_problem(p, "warm_pool.cuda_context",
		             "only an interpreter with modules makes one; name them in warm_pool.preload");
	if (s->span_hard && !s->span)
		spec_problem(p, "resources.placement.hard", "needs a span (node, switch or rack)");
	/* One node is within any span. */
	if (s->span && s->span_hard && nodes > 1 && strcmp(s->span, "node") == 0)
		spec_problem(p, "resources.placement",
		             "%" PRIu64
		             " instances cannot all be on one node; one instance can (with more ranks_per_instance), "
		             "or take the span \"switch\"",
		             nodes);
}

/* Adds the names of the launchers that take mpi_options, or of those that can start groups. */
static void list_launchers(struct text *out, int for_groups)
{
	for (int i = 0; i < N_LAUNCHERS; i++) {
		const struct launcher_facts *f = launcher_facts((enum spec_launcher)i);

		if (for_groups ? !f->equal_nodes : f->takes_mpi_options)
			text_join(out, " or ", "%s", f->name);
	}
}

static void check_launcher(struct spec_parse *p)
{
	const struct job_spec *s = &p->s;
	const struct launcher_facts *f = launcher_facts(s->launcher);
	TEXT(names);

	if (s->mpi_options.n && !f->takes_mpi_options) {
		list_launchers(&names, 0);
		spec_problem(p, "mpi_options", "only the %s launcher takes them; this job's is %s", names.at,
		             f->name);
	}
	if (f->equal_nodes && s->n_groups > 1) {
		text_clear(&names);
		list_launchers(&names, 1);
		spec_problem(p, "launcher", "%s starts equal nodes only; use %s for groups", f->name, names.at);
	}
}

static void check_rest(struct spec_parse *p)
{
	const struct job_spec *s = &p->s;

	check_launcher(p);
	if (s->requirements && !s->source_dir)
		spec_problem(p, "requirements", "is a path inside source_dir, but there is no source_dir");
}

/* ---- entry --------------------------------------------------------------------------------------- */

static void set_defaults(struct spec_parse *p)
{
	struct job_spec *s = &p->s;

	*p = (struct spec_parse){0};
	p->base.instances = p->base.gpus_per_instance = SPEC_NOT_GIVEN;
	p->base.ranks_per_instance = p->base.cpus_per_rank = SPEC_NOT_GIVEN;
	s->name = xstrdup("job");
	s->experiment = xstrdup("");
	s->notes = xstrdup("");
	s->queue = xstrdup("default");
	s->resume_step = -1;
	s->grace_s = 30;
	s->keep_last = 3;
	spec_watch_init(&s->watch);
	s->retry = (struct spec_retry){.max_attempts = 3, .capacity = 30, .wait_s = 60, .no_progress = 3};
	s->preemptible = 1;
}

static struct job_spec *parse_root(const cJSON *root, struct strv *problems, struct err *e)
{
	struct spec_parse p;
	struct job_spec *out = NULL;

	set_defaults(&p);
	if (!cJSON_IsObject(root)) {
		spec_problem(&p, "", "a job is a JSON object: {\"command\": [...], ...}");
	} else {
		spec_object(&p, "", "", root, &p);
		settle_groups(&p);
		check_gang(&p);
		check_rest(&p);
		spec_check_sweep(&p);
	}
	if (p.problems.n) {
		problems_to_err(&p, e);
		if (p.more)
			strv_addf(&p.problems, "and %zu more", p.more);
		spec_fini(&p.s);
	} else {
		out = xmemdup(&p.s, sizeof(p.s));
	}
	if (problems)
		*problems = p.problems;
	else
		strv_fini(&p.problems);
	return out;
}

/* cJSON reads every number as a double. A whole number that it cannot keep would silently become another one
 * (a seed, an id), so it is refused here. text is valid JSON already; only strings need to be stepped over.
 */
static int check_whole_numbers(const char *text, size_t n, struct err *e)
{
	size_t line = 1, i = 0;

	while (i < n) {
		size_t start = i, digits;

		if (text[i] == '\n')
			line++;
		if (text[i] == '"') {
			for (i++; i < n && text[i] != '"'; i++)
				i += text[i] == '\\';
			i++;
			continue;
		}
		if (text[i] < '0' || text[i] > '9') {
			i++;
			continue;
		}
		digits = strspn(text + i, "0123456789");
		i += digits;
		if (digits > 15 && i < n && !strchr(".eE", text[i])) {
			char number[64], back[64];

			snprintf(number, sizeof(number), "%.*s", (int)digits, text + start);
			snprintf(back, sizeof(back), "%.0f", strtod(number, NULL));
			if (strcmp(number, back) != 0)
				return err_set(e, ERR_INVALID,
				               "line %zu: %s has more digits than a JSON number keeps; write it as a string",
				               line, number);
		}
		i += strspn(text + i, "0123456789.eE+-");
	}
	return 0;
}

struct job_spec *spec_parse_list(const char *text, size_t n, struct strv *problems, struct err *e)
{
	struct job_spec *out = NULL;
	char *copy;
	cJSON *root;

	if (n > SPEC_MAX_BYTES) {
		err_set(e, ERR_LIMIT, "the job is %zu bytes long; at most %d are allowed", n, SPEC_MAX_BYTES);
		return NULL;
	}
	root = json_parse(text, n, e);
	if (!root)
		return NULL;
	copy = xstrndup(text, n); /* terminated, for strspn */
	if (check_whole_numbers(copy, strlen(copy), e) == 0)
		out = parse_root(root, problems, e);
	free(copy);
	cJSON_Delete(root);
	return out;
}

struct job_spec *spec_parse(const char *text, size_t n, struct err *e)
{
	return spec_parse_list(text, n, NULL, e);
}

struct job_spec *spec_from_json(const cJSON *root, struct err *e)
{
	return parse_root(root, NULL, e);
}

static void spec_fini(struct job_spec *s)
{
	for (size_t i = 0; i < s->n_tags; i++) {
		free(s->tags[i].name);
		free(s->tags[i].value);
	}
	for (size_t i = 0; i < s->n_env; i++) {
		free(s->env[i].name);
		free(s->env[i].value);
	}
	for (size_t i = 0; i < s->n_hps; i++) {
		free(s->hps[i].name);
		free(s->hps[i].text);
	}
	for (size_t i = 0; i < s->n_groups; i++) {
		free(s->groups[i].name);
		strv_fini(&s->groups[i].command);
	}
	for (size_t i = 0; i < s->n_inputs; i++) {
		free(s->inputs[i].name);
		free(s->inputs[i].uri);
		free(s->inputs[i].sha256);
	}
	for (size_t i = 0; i < s->n_rules; i++) {
		free(s->rules[i].name);
		free(s->rules[i].metric);
		free(s->rules[i].pattern);
	}
	free(s->rules);
	for (size_t i = 0; i < s->n_metrics; i++) {
		free(s->metrics[i].name);
		free(s->metrics[i].regex);
	}
	for (size_t i = 0; i < s->n_member_refs; i++)
		free(s->member_refs[i].where);
	free(s->member_refs);
	strv_fini(&s->command);
	strv_fini(&s->instance_types);
	strv_fini(&s->requires);
	strv_fini(&s->mpi_options);
	strv_fini(&s->preload);
	sweep_fini(&s->sweep);
	void *owned[] = {s->tags,           s->env,        s->hps,          s->groups,        s->inputs,
	                 s->metrics,        s->name,       s->experiment,   s->notes,         s->queue,
	                 s->span,           s->source_dir, s->requirements, s->gpu_model,     s->output_uri,
	                 s->checkpoint_uri, s->resume_job, s->after,        s->search.metric, s->pool};
	for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
		free(owned[i]);
	memset(s, 0, sizeof(*s));
}

void spec_destroy(struct job_spec *s)
{
	if (s)
		spec_fini(s);
	free(s);
}

uint32_t spec_nodes(const struct job_spec *s)
{
	uint32_t n = 0;

	for (size_t i = 0; i < s->n_groups; i++)
		n += s->groups[i].instances;
	return n;
}

uint32_t spec_ranks(const struct job_spec *s)
{
	uint32_t n = 0;

	for (size_t i = 0; i < s->n_groups; i++)
		n += s->groups[i].instances * s->groups[i].ranks_per_instance;
	return n;
}

const struct spec_group *spec_group_of(const struct job_spec *s, uint32_t node_rank)
{
	for (size_t i = 0; i < s->n_groups; i++) {
		if (node_rank < s->groups[i].instances)
			return &s->groups[i];
		node_rank -= s->groups[i].instances;
	}
	return NULL;
}

/* ---- what is refused of new jobs alone ---------------------------------------------------------- */

int spec_check_job_name(const char *name, struct err *e)
{
	uint64_t number;
	uint32_t index;

	if (str_check_name(name, 128, "name", e) < 0)
		return -1;
	if (strcmp(name, "last") == 0)
		return err_set(e, ERR_INVALID,
		               "name: \"last\" means one's newest job (jobctl show last); call it otherwise");
	if (str_parse_u64(name, &number) == 0 || str_parse_member(name, &number, &index) == 0 ||
	    strspn(name, "0123456789") == strlen(name))
		return err_set(
		    e, ERR_INVALID,
		    "name: \"%.40s\" would be read as the number of a job; put a letter in front: \"job-%.40s\"",
		    name, name);
	return 0;
}

int spec_check_new(const struct job_spec *s, struct err *e)
{
	if (s->name && spec_check_job_name(s->name, e) < 0)
		return -1;
	if (s->sweep.empty)
		return err_set(e, ERR_INVALID,
		               "sweep: it names no hyperparameter; it needs at least one with its values, as in "
		               "{\"lr\": [0.1, 0.01]}. Without one leave the key out");
	if (s->resume_step > SPEC_MAX_STEP)
		return err_set(e, ERR_INVALID, "resume_from: a step is at most 2^53 (%" PRId64 "), got %" PRId64,
		               SPEC_MAX_STEP, s->resume_step);
	return 0;
}
