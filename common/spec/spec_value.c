/*
 * spec_value: functions that read plain values of job.json: names, texts, numbers, sizes, lists,
 * hyperparameters and the environment. Each checks type and bounds, adds a problem that says what was
 * expected, or stores the value.
 */
#include "common/spec/spec_int.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/spec/preload.h"

#define ARG_MAX_BYTES (64 * 1024)        /* Linux takes 128 KiB for one argument or variable */
#define EXACT_MAX     9007199254740992.0 /* 2^53: whole numbers up to here are exact in a double */

const char *spec_string(struct spec_parse *p, const char *where, const cJSON *v, size_t max, int text)
{
	const char *s;

	if (!cJSON_IsString(v)) {
		spec_wrong_type(p, where, "a string", v);
		return NULL;
	}
	s = v->valuestring;
	if (strlen(s) > max) {
		spec_problem(p, where, "is %zu bytes long; at most %zu are allowed", strlen(s), max);
		return NULL;
	}
	for (size_t i = 0; s[i]; i++) {
		unsigned char c = (unsigned char)s[i];

		if ((c < 0x20 && !(text && (c == '\n' || c == '\t'))) || c == 0x7f) {
			spec_problem(p, where, "has a control character (0x%02x) at byte %zu", c, i + 1);
			return NULL;
		}
	}
	return s;
}

/* Names of hyperparameters, metrics: [A-Za-z0-9_] then also . : / @ -, no "..". 0 or -1 with a problem added.
 */
int spec_token(struct spec_parse *p, const char *where, const char *name, size_t max)
{
	static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
	size_t n = strlen(name);

	if (!n || n > max)
		spec_problem(p, where, "a name has 1 to %zu characters", max);
	else if (!strchr(first, name[0]))
		spec_problem(p, where, "a name begins with a letter, a digit or _");
	else if (strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/@-") != n)
		spec_problem(p, where, "a name may hold letters, digits and _ . : / @ - only");
	else if (strstr(name, ".."))
		spec_problem(p, where, "a name may not hold \"..\"");
	else
		return 0;
	return -1;
}

void spec_set_text(void *out, size_t offset, const char *s)
{
	char **member = (char **)((char *)out + offset);

	free(*member);
	*member = xstrdup(s);
}

int spec_once(struct spec_parse *p, const char *where, const void *list)
{
	if (list)
		spec_problem(p, where, "is given twice");
	return !list;
}

/* min 1: must be a name; 0: may be empty; -1: names with / : @ too. */
void spec_v_name(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out)
{
	const char *s = spec_string(p, where, v, (size_t)r->max, 0);
	struct err e;

	if (!s)
		return;
	if (r->min < 0) {
		if (spec_token(p, where, s, (size_t)r->max) < 0)
			return;
	} else if ((*s || r->min > 0) && str_check_name(s, (size_t)r->max, where, &e) < 0) {
		/* The text names the thing already. */
		spec_problem(p, "", "%s", e.text);
		return;
	}
	spec_set_text(out, r->offset, s);
}

int spec_check_queue(const char *path, int with_user, struct err *e)
{
	char name[SPEC_MAX_QUEUE + 1];
	unsigned levels = 0;

	if (strlen(path) > SPEC_MAX_QUEUE)
		return err_set(e, ERR_INVALID, "a queue's path has at most %d characters", SPEC_MAX_QUEUE);
	for (const char *p = path;; p++) {
		size_t n = strcspn(p, "/");
		int user = with_user && levels && *p == '@' && !p[n];

		snprintf(name, sizeof(name), "%.*s", (int)n, p);
		if (str_check_name(user ? name + 1 : name, 64, user ? "user" : "queue", e) < 0)
			return -1;
		if (++levels > 4 + (unsigned)user)
			return err_set(e, ERR_INVALID, "queue '%s': at most 4 levels", path);
		p += n;
		if (!*p)
			return 0;
	}
}

void spec_v_queue(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out)
{
	const char *s = spec_string(p, where, v, (size_t)r->max, 0);
	struct err e;

	if (s && spec_check_queue(s, 0, &e) < 0)
		spec_problem(p, where, "%s", e.text);
	else if (s)
		spec_set_text(out, r->offset, s);
}

void spec_v_text(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out)
{
	const char *s = spec_string(p, where, v, (size_t)r->max, 1);

	if (s)
		spec_set_text(out, r->offset, s);
}

void spec_v_pool(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out)
{
	char id[24];
	const char *s = id;

	if (cJSON_IsNumber(v) && v->valuedouble >= 1 && v->valuedouble < 1e15)
		snprintf(id, sizeof(id), "%.0f", v->valuedouble);
	else
		s = spec_string(p, where, v, (size_t)r->max, 0);
	if (s && *s)
		spec_set_text(out, r->offset, s);
}

void spec_v_path(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out)
{
	const char *s = spec_string(p, where, v, (size_t)r->max, 0);

	if (s && *s)
		spec_set_text(out, r->offset, s);
}

void spec_v_relpath(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                    void *out)
{
	const char *s = spec_string(p, where, v, (size_t)r->max, 0);

	if (!s || !*s)
		return;
	if (!str_safe_relpath(s))
		spec_problem(p, where, "must be a path inside source_dir, without a leading / and without ..");
	else
		spec_set_text(out, r->offset, s);
}

void spec_v_argv(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out)
{
	struct strv *argv = (struct strv *)((char *)out + r->offset);
	const cJSON *item;
	size_t i = 0, bytes = 0;

	if (!cJSON_IsArray(v)) {
		spec_wrong_type(p, where, "a list of strings such as [\"/usr/bin/python3\", \"train.py\"]", v);
		return;
	}
	if (cJSON_GetArraySize(v) > r->max) {
		spec_problem(p, where, "has %d entries; at most %" PRId64 " are allowed", cJSON_GetArraySize(v),
		             r->max);
		return;
	}
	strv_fini(argv);
	cJSON_ArrayForEach (item, v) {
		char path[SPEC_WHERE_SIZE];
		/* An argument may be a whole script (sh -c), so line ends and tabs pass; the program's name has none.
		 */
		const char *s = spec_string(p, spec_where_index(path, where, i), item, ARG_MAX_BYTES, i > 0);

		if (s && i == 0 && !*s)
			spec_problem(p, path, "the program's name is empty");
		if (s) {
			strv_add(argv, s);
			bytes += strlen(s) + 1;
		}
		i++;
	}
	if (bytes > 8 * ARG_MAX_BYTES)
		spec_problem(p, where, "is %zu bytes long in all; at most %d are allowed", bytes, 8 * ARG_MAX_BYTES);
}

void spec_v_preload(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                    void *out)
{
	struct strv *modules = (struct strv *)((char *)out + r->offset);
	const cJSON *item;
	size_t i = 0;

	if (!cJSON_IsArray(v)) {
		spec_wrong_type(p, where, "a list of module names such as [\"torch\"]", v);
		return;
	}
	if (cJSON_GetArraySize(v) > r->max) {
		spec_problem(p, where, "has %d entries; at most %" PRId64 " are allowed", cJSON_GetArraySize(v),
		             r->max);
		return;
	}
	strv_fini(modules);
	cJSON_ArrayForEach (item, v) {
		char path[SPEC_WHERE_SIZE];
		const char *s = spec_string(p, spec_where_index(path, where, i++), item, PRELOAD_NAME_MAX, 0);

		if (s && !preload_is_module(s))
			spec_problem(p, path, "\"%s\" is not the name of a Python module such as \"torch.distributed\"",
			             s);
		else if (s)
			strv_add(modules, s);
	}
}

/* Times are whole seconds here; elsewhere "1h" is one, so it is said how many seconds that is. */
static int as_duration(struct spec_parse *p, const char *where, const char *text)
{
	size_t n = strlen(where);
	uint64_t seconds;
	struct err e;

	if (n < 2 || strcmp(where + n - 2, "_s") != 0 || str_parse_duration(text, &seconds, &e) < 0)
		return -1;
	spec_problem(p, where, "is a whole number of seconds: %" PRIu64 ", not \"%s\"", seconds, text);
	return 0;
}

/* The number of v when it is whole and in [min, max]; 0 or -1 with a problem added. */
static int whole_number(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                        int64_t *out)
{
	double d = v->valuedouble;

	if (cJSON_IsString(v) && as_duration(p, where, v->valuestring) == 0)
		return -1;
	if (!cJSON_IsNumber(v)) {
		spec_wrong_type(p, where, "a whole number", v);
		return -1;
	}
	if (!isfinite(d) || d != floor(d)) {
		spec_problem(p, where, "expected a whole number, got %.6g", d);
		return -1;
	}
	if (d < (double)r->min || d > (double)r->max) {
		spec_problem(p, where, "%.15g is not in the range %" PRId64 " to %" PRId64, d, r->min, r->max);
		return -1;
	}
	*out = (int64_t)d;
	return 0;
}

void spec_v_u32(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v, void *out)
{
	int64_t n;

	if (whole_number(p, r, where, v, &n) == 0)
		*(uint32_t *)((char *)out + r->offset) = (uint32_t)n;
}

void spec_v_i64(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v, void *out)
{
	int64_t n;

	if (whole_number(p, r, where, v, &n) == 0)
		*(int64_t *)((char *)out + r->offset) = n;
}

void spec_v_money(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out)
{
	if (cJSON_IsNumber(v) && v->valuedouble >= 0.01 && v->valuedouble <= (double)r->max)
		*(double *)(void *)((char *)out + r->offset) = v->valuedouble;
	else
		spec_problem(p, where, "expected a number of US dollars from 0.01 to %" PRId64 ", or null", r->max);
}

void spec_v_size(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out)
{
	uint64_t *member = (uint64_t *)((char *)out + r->offset);
	uint64_t bytes;
	int64_t n;
	const char *s;
	struct err e;

	if (cJSON_IsNumber(v)) {
		if (whole_number(p, r, where, v, &n) == 0)
			*member = (uint64_t)n;
		return;
	}
	if (!cJSON_IsString(v)) {
		spec_wrong_type(p, where, "a size such as \"8GiB\"", v);
		return;
	}
	s = spec_string(p, where, v, 64, 0);
	if (!s)
		return;
	if (str_parse_size(s, &bytes, &e) < 0)
		spec_problem(p, where, "expected a size such as \"8GiB\" or \"500MB\", got \"%s\"", s);
	else if (bytes > (uint64_t)r->max)
		spec_problem(p, where, "%s is more than any machine has", s);
	else
		*member = bytes;
}

void spec_v_bool(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out)
{
	if (!cJSON_IsBool(v))
		spec_wrong_type(p, where, "true or false", v);
	else
		*(int *)((char *)out + r->offset) = cJSON_IsTrue(v);
}

/* Checks that v is an object of at most max members; the count or -1. */
static int members(struct spec_parse *p, const char *where, const cJSON *v, int64_t max)
{
	if (!cJSON_IsObject(v)) {
		spec_wrong_type(p, where, "an object", v);
		return -1;
	}
	if (cJSON_GetArraySize(v) > max) {
		spec_problem(p, where, "has %d entries; at most %" PRId64 " are allowed", cJSON_GetArraySize(v), max);
		return -1;
	}
	return cJSON_GetArraySize(v);
}

void spec_v_tags(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out)
{
	int n = members(p, where, v, r->max);
	const cJSON *item;

	(void)out;
	if (n <= 0 || !spec_once(p, where, p->s.tags))
		return;
	p->s.tags = xcalloc((size_t)n, sizeof(*p->s.tags));
	cJSON_ArrayForEach (item, v) {
		char path[SPEC_WHERE_SIZE];
		struct err e;
		const char *s = spec_string(p, spec_where(path, where, item->string), item, 1024, 0);

		if (str_check_name(item->string, 128, path, &e) < 0)
			spec_problem(p, "", "%s", e.text);
		else if (s)
			p->s.tags[p->s.n_tags++] = (struct spec_pair){xstrdup(item->string), xstrdup(s)};
	}
}

/* ---- hyperparameters ----------------------------------------------------------------------------- */

/* Shortest decimal that reads back as the same number. */
static char *real_text(double d)
{
	char text[40];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, d);
		if (strtod(text, NULL) == d)
			break;
	}
	return xstrdup(text);
}

static void set_hp(struct spec_hp *hp, const cJSON *v)
{
	double d = v->valuedouble;

	if (cJSON_IsString(v)) {
		hp->type = SPEC_STR;
		hp->text = xstrdup(v->valuestring);
	} else if (cJSON_IsBool(v)) {
		hp->type = SPEC_BOOL;
		hp->num = cJSON_IsTrue(v) ? 1 : 0;
		hp->text = xstrdup(cJSON_IsTrue(v) ? "true" : "false");
	} else if (!cJSON_IsNumber(v)) {
		hp->type = SPEC_JSON;
		hp->text = json_text(v);
	} else if (d == floor(d) && fabs(d) <= EXACT_MAX) {
		/* JSON does not tell 5 from 5.0; the form without a point suits programs that want either. */
		hp->type = SPEC_INT;
		hp->num = d;
		hp->text = xasprintf("%" PRId64, (int64_t)d);
	} else {
		hp->type = SPEC_REAL;
		hp->num = d;
		hp->text = real_text(d);
	}
}

/* Numbers inside lists and objects must be finite too (1e999 reads as infinite). */
static int all_finite(const cJSON *v)
{
	const cJSON *item;

	if (cJSON_IsNumber(v))
		return isfinite(v->valuedouble);
	if (cJSON_IsArray(v) || cJSON_IsObject(v))
		cJSON_ArrayForEach (item, v)
			if (!all_finite(item))
				return 0;
	return 1;
}

int spec_hp_value(struct spec_parse *p, const char *where, const cJSON *v)
{
	if (cJSON_IsNull(v))
		spec_problem(p, where, "null is not a value; leave the key out or write \"null\"");
	else if (!all_finite(v))
		spec_problem(p, where, "the number is too large");
	else if (!cJSON_IsString(v) || spec_string(p, where, v, ARG_MAX_BYTES, 1))
		return 0;
	return -1;
}

void spec_v_hps(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v, void *out)
{
	int n = members(p, where, v, r->max);
	const cJSON *item;
	size_t bytes = 0;

	(void)out;
	if (n <= 0 || !spec_once(p, where, p->s.hps))
		return;
	p->s.hps = xcalloc((size_t)n, sizeof(*p->s.hps));
	cJSON_ArrayForEach (item, v) {
		char path[SPEC_WHERE_SIZE];
		struct spec_hp *hp = &p->s.hps[p->s.n_hps];

		spec_where(path, where, item->string);
		if (spec_token(p, path, item->string, 256) < 0 || spec_hp_value(p, path, item) < 0)
			continue;
		set_hp(hp, item);
		hp->name = xstrdup(item->string);
		bytes += strlen(hp->name) + strlen(hp->text) + 6;
		p->s.n_hps++;
	}
	if (bytes > SPEC_MAX_HPS_BYTES)
		spec_problem(p, where, "are %zu bytes in all; at most %d fit into the environment of a process",
		             bytes, SPEC_MAX_HPS_BYTES);
}

/* ---- environment --------------------------------------------------------------------------------- */

/* Set by Hearth or by mpirun for each rank: a job that set them would be started with wrong ones, or would go
 * round the allow-list of mpi_options. A name that ends in * stands for all that begin so. */
static const char *owned_by_hearth(const char *name)
{
	static const char *const owned[] = {
	    "HEARTH_*",    "SM_*",        "OMPI_*",     "PMIX_*",
	    "PRTE_*",      "PMI_*",       "RANK",       "LOCAL_RANK",
	    "WORLD_SIZE",  "NODE_RANK",   "GROUP_RANK", "LOCAL_WORLD_SIZE",
	    "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG",  "CUDA_VISIBLE_DEVICES",
	};

	for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) {
		size_t n = strlen(owned[i]);

		if (owned[i][n - 1] == '*' ? strncmp(name, owned[i], n - 1) == 0 : strcmp(name, owned[i]) == 0)
			return owned[i];
	}
	return NULL;
}

static int check_env_name(struct spec_parse *p, const char *where, const char *name)
{
	static const char chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
	const char *owned = owned_by_hearth(name);
	size_t n = strlen(name);

	if (!n || n > 256 || strspn(name, chars) != n || (name[0] >= '0' && name[0] <= '9'))
		spec_problem(
		    p, where,
		    "not the name of an environment variable: letters, digits and _, not beginning with a digit");
	else if (owned && strncmp(name, "OMPI_MCA_", 9) == 0)
		spec_problem(p, where, "settings of the MPI library go into mpi_options (--mca NAME VALUE)");
	else if (owned)
		spec_problem(p, where, "is set by Hearth itself (%s) and cannot be given", owned);
	else
		return 0;
	return -1;
}

void spec_v_env(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v, void *out)
{
	int n = members(p, where, v, r->max);
	const cJSON *item;

	(void)out;
	if (n <= 0 || !spec_once(p, where, p->s.env))
		return;
	p->s.env = xcalloc((size_t)n, sizeof(*p->s.env));
	cJSON_ArrayForEach (item, v) {
		char path[SPEC_WHERE_SIZE];
		const char *s;

		spec_where(path, where, item->string);
		if (cJSON_IsNumber(item) || cJSON_IsBool(item)) {
			spec_problem(p, path, "expected a string; put the value in quotes");
			continue;
		}
		s = spec_string(p, path, item, ARG_MAX_BYTES, 1);
		if (check_env_name(p, path, item->string) == 0 && s)
			p->s.env[p->s.n_env++] = (struct spec_pair){xstrdup(item->string), xstrdup(s)};
	}
}
