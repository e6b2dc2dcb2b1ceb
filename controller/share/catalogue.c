/*
 * catalogue: see catalogue.h. The shipped facts are instances.csv, embedded.
 *
 * The facts of a type are a JSON object with the keys of the table below: the same in the file, the row, the
 * event and the API. Shipped and own facts are separate, so the removal of an own fact shows the shipped one
 * again.
 */
#include "controller/share/catalogue.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "controller/record/cluster_rows.h"

static const char shipped_csv[] =
#include "controller/instances_gen.h"
    ;

struct entry { /* a shipped type */
	char *name;
	cJSON *facts;
	UT_hash_handle hh;
};

struct catalogue {
	struct entry *entries;
	struct cluster *records;
};

enum kind { NUMBER, WHOLE, YESNO, STRING, LIST };
static const struct fact {
	const char *key;
	enum kind kind;
	double min, max;
} facts[] = {{"gpus", WHOLE, 0, 64},
             {"gpu_model", STRING, 0, 64},
             {"gpu_memory_gb", NUMBER, 0, 100000},
             {"vcpus", WHOLE, 0, 65536},
             {"memory_gib", NUMBER, 0, 1000000},
             {"network_gbps", NUMBER, 0, 1000000},
             {"nvlink", YESNO, 0, 0},
             {"formats", LIST, 0, 32},
             {"price_per_hour", NUMBER, 0, 1000000},
             {"power_w", NUMBER, 0, 1000000},
             {"as", LIST, 0, CATALOGUE_NAME_MAX}};
#define N_FACTS (sizeof(facts) / sizeof(*facts))

const char *const *catalogue_keys(void)
{
	static const char *const keys[N_FACTS + 1] = {
	    "gpus",   "gpu_model", "gpu_memory_gb",  "vcpus",   "memory_gib", "network_gbps",
	    "nvlink", "formats",   "price_per_hour", "power_w", "as"};

	return keys;
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *catalogue_plain(const char *name)
{
	return strncmp(name, "ml.", 3) == 0 ? name + 3 : name;
}

int catalogue_split(const char *name, char family[CATALOGUE_NAME_MAX + 1], char size[CATALOGUE_NAME_MAX + 1])
{
	const char *plain = catalogue_plain(name), *dot = strchr(plain, '.');

	family[0] = size[0] = '\0';
	if (!dot || dot == plain || !dot[1] || strchr(dot + 1, '.') || strlen(plain) > CATALOGUE_NAME_MAX)
		return -1;
	snprintf(family, CATALOGUE_NAME_MAX + 1, "%.*s", (int)(dot - plain), plain);
	snprintf(size, CATALOGUE_NAME_MAX + 1, "%s", dot + 1);
	return 0;
}

static int plain_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int catalogue_check_name(const char *name, struct err *e)
{
	const char *plain = catalogue_plain(name ? name : "");

	if (!plain_char(*plain) || strlen(plain) > CATALOGUE_NAME_MAX)
		return err_set(e, ERR_INVALID,
		               "name: a type has 1 to %d characters and begins with a letter or digit",
		               CATALOGUE_NAME_MAX);
	for (const char *p = plain; *p; p++)
		if (!plain_char(*p) && !strchr("._-", *p))
			return err_set(e, ERR_INVALID,
			               "name: \"%.64s\": a type may have only letters, digits, '.', '_' and '-'", name);
	if (strcmp(plain, "any") == 0 || strcmp(plain, "auto") == 0)
		return err_set(e, ERR_INVALID,
		               "name: \"%s\" has a meaning of its own in job.json; choose another name", plain);
	return 0;
}

/* ---- facts ----------------------------------------------------------------------------------- */

static int check_list(const char *key, const cJSON *v, double max, struct err *e)
{
	const cJSON *s;

	if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) > CATALOGUE_LIST_MAX)
		return err_set(e, ERR_INVALID, "%s: expected a list of at most %d names", key, CATALOGUE_LIST_MAX);
	cJSON_ArrayForEach (s, v) {
		if (!cJSON_IsString(s) || !*s->valuestring || (double)strlen(s->valuestring) > max)
			return err_set(e, ERR_INVALID, "%s: expected names of at most %.0f characters", key, max);
		if (strcmp(key, "as") == 0 && catalogue_check_name(s->valuestring, e) < 0)
			return err_wrap(e, "as");
	}
	return 0;
}

static int check_fact(const struct fact *f, const cJSON *v, struct err *e)
{
	switch (f->kind) {
	case NUMBER:
	case WHOLE:
		if (!cJSON_IsNumber(v) || !(v->valuedouble >= f->min) || v->valuedouble > f->max ||
		    (f->kind == WHOLE && v->valuedouble != floor(v->valuedouble)))
			return err_set(e, ERR_INVALID, "%s: expected a %snumber from %.0f to %.0f", f->key,
			               f->kind == WHOLE ? "whole " : "", f->min, f->max);
		return 0;
	case YESNO:
		return cJSON_IsBool(v) ? 0 : err_set(e, ERR_INVALID, "%s: expected true or false", f->key);
	case STRING:
		if (!cJSON_IsString(v) || !*v->valuestring || (double)strlen(v->valuestring) > f->max)
			return err_set(e, ERR_INVALID, "%s: expected a text of at most %.0f characters", f->key, f->max);
		return 0;
	case LIST:
		return check_list(f->key, v, f->max, e);
	}
	return 0;
}

static const struct fact *fact_of(const char *key)
{
	for (size_t i = 0; i < N_FACTS; i++)
		if (strcmp(facts[i].key, key) == 0)
			return &facts[i];
	return NULL;
}

/* Appends the known keys to the error. */
static int name_keys(struct err *e)
{
	struct text t = {.at = e->text, .size = sizeof(e->text), .len = strlen(e->text)};

	for (const char *const *k = catalogue_keys(); *k; k++)
		text_add(&t, "%s%s", k == catalogue_keys() ? "; known keys: " : ", ", *k);
	return -1;
}

static int check_changes(const cJSON *changes, struct err *e)
{
	const cJSON *v;

	if (json_check_keys(changes, "", catalogue_keys(), e) < 0)
		return name_keys(e);
	cJSON_ArrayForEach (v, changes)
		if (!cJSON_IsNull(v) && check_fact(fact_of(v->string), v, e) < 0)
			return -1;
	return 0;
}

/* ---- what is shipped --------------------------------------------------------------------------- */

/* A cell of the file as JSON; NULL: not known. */
static cJSON *cell_json(const struct fact *f, const char *cell)
{
	cJSON *list;

	if (!*cell)
		return NULL;
	switch (f->kind) {
	case NUMBER:
	case WHOLE:
		return cJSON_CreateNumber(strtod(cell, NULL));
	case YESNO:
		return cJSON_CreateBool(strcmp(cell, "yes") == 0);
	case STRING:
		return cJSON_CreateString(cell);
	case LIST:
		break;
	}
	list = cJSON_CreateArray();
	while (*cell) {
		size_t n = strcspn(cell, " ");
		char *word = xstrndup(cell, n);

		cJSON_AddItemToArray(list, cJSON_CreateString(word));
		free(word);
		cell += n + strspn(cell + n, " ");
	}
	return list;
}

static struct entry *find_entry(const struct catalogue *c, const char *name)
{
	struct entry *x;

	HASH_FIND_STR(c->entries, catalogue_plain(name), x);
	return x;
}

static const cJSON *own_facts(const struct catalogue *c, const char *name)
{
	const struct instance_rec *t = cluster_instance(c->records, catalogue_plain(name));

	return t ? t->own : NULL;
}

static struct entry *make_entry(struct catalogue *c, const char *name)
{
	struct entry *x = find_entry(c, name);

	if (x)
		return x;
	x = xcalloc(1, sizeof(*x));
	x->name = xstrdup(catalogue_plain(name));
	HASH_ADD_KEYPTR(hh, c->entries, x->name, strlen(x->name), x);
	return x;
}

static void drop_entry(struct catalogue *c, struct entry *x)
{
	HASH_DELETE(hh, c->entries, x);
	free(x->name);
	cJSON_Delete(x->facts);
	free(x);
}

/* Returns the next cell of a line and moves *p behind it. */
static char *next_cell(char **p)
{
	char *from = *p;

	*p += strcspn(*p, ",");
	if (**p)
		*(*p)++ = '\0';
	return from;
}

#define COLUMNS_MAX 16

static void add_line(struct catalogue *c, char *line, const char *const *heads, size_t n)
{
	struct entry *x = make_entry(c, next_cell(&line));

	x->facts = cJSON_CreateObject();
	for (size_t i = 1; i < n; i++) {
		cJSON *v = cell_json(fact_of(heads[i]), next_cell(&line));

		if (v)
			cJSON_AddItemToObject(x->facts, heads[i], v);
	}
}

struct catalogue *catalogue_create(struct cluster *records)
{
	struct catalogue *c = xcalloc(1, sizeof(*c));
	char *text = xstrdup(shipped_csv), *next = text;
	const char *heads[COLUMNS_MAX];
	size_t n = 0;

	c->records = records;
	while (*next) {
		char *line = next;

		next += strcspn(next, "\n");
		if (*next)
			*next++ = '\0';
		if (*line == '#' || !*line)
			continue;
		if (n) {
			add_line(c, line, heads, n);
			continue;
		}
		while (*line && n < COLUMNS_MAX)
			heads[n++] = next_cell(&line);
	}
	free(text);
	return c;
}

void catalogue_destroy(struct catalogue *c)
{
	struct entry *x, *tmp;

	if (!c)
		return;
	HASH_ITER (hh, c->entries, x, tmp)
		drop_entry(c, x);
	free(c);
}

/* ---- questions ------------------------------------------------------------------------------- */

static const cJSON *find_fact(const struct catalogue *c, const char *name, const char *key)
{
	const struct entry *x = find_entry(c, name);
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(own_facts(c, name), key);

	return v ? v : cJSON_GetObjectItemCaseSensitive(x ? x->facts : NULL, key);
}

int catalogue_get(const struct catalogue *c, const char *name, struct catalogue_type *out)
{
	const struct instance_rec *t = cluster_instance(c->records, catalogue_plain(name));
	const struct entry *x = find_entry(c, name);
	const cJSON *price, *power;

	if (!x && !t)
		return 0;
	price = find_fact(c, name, "price_per_hour");
	power = find_fact(c, name, "power_w");
	*out = (struct catalogue_type){.name = x ? x->name : t->head.name,
	                               .own = t ? t->own : NULL,
	                               .price = cJSON_IsNumber(price) ? price->valuedouble : 0,
	                               .power_w = cJSON_IsNumber(power) ? power->valuedouble : 0,
	                               .shipped = x != NULL};
	return 1;
}

cJSON *catalogue_json(const struct catalogue *c, const char *name)
{
	char family[CATALOGUE_NAME_MAX + 1], size[CATALOGUE_NAME_MAX + 1];
	cJSON *o = cJSON_CreateObject();

	json_add_str(o, "name", catalogue_plain(name));
	catalogue_split(name, family, size);
	json_add_str(o, "family", *family ? family : NULL);
	json_add_str(o, "size", *size ? size : NULL);
	for (size_t i = 0; i < N_FACTS; i++) {
		const cJSON *v = find_fact(c, name, facts[i].key);

		cJSON_AddItemToObject(o, facts[i].key,
		                      v                       ? cJSON_Duplicate(v, 1)
		                      : facts[i].kind == LIST ? cJSON_CreateArray()
		                                              : cJSON_CreateNull());
	}
	cJSON_AddBoolToObject(o, "shipped", find_entry(c, name) != NULL);
	cJSON_AddBoolToObject(o, "set", own_facts(c, name) != NULL);
	return o;
}

static int by_version(const void *a, const void *b)
{
	return strverscmp(*(const char *const *)a, *(const char *const *)b);
}

const char **catalogue_names(const struct catalogue *c, size_t *n)
{
	const struct cluster_rec *own = c->records->all[CLUSTER_INSTANCE];
	const char **names = xcalloc(HASH_COUNT(c->entries) + HASH_COUNT(own) + 1, sizeof(*names));

	*n = 0;
	for (const struct entry *x = c->entries; x; x = x->hh.next)
		names[(*n)++] = x->name;
	for (; own; own = own->hh.next)
		if (!find_entry(c, own->name))
			names[(*n)++] = own->name;
	qsort(names, *n, sizeof(*names), by_version);
	return names;
}

static void add_once(struct strv *out, const char *name)
{
	for (size_t i = 0; i < out->n; i++)
		if (strcmp(out->v[i], name) == 0)
			return;
	strv_add(out, name);
}

void catalogue_expand(const struct catalogue *c, const struct strv *wanted, struct strv *out)
{
	const char **names;
	size_t n;

	if (!wanted->n)
		return;
	names = catalogue_names(c, &n);
	for (size_t i = 0; i < wanted->n; i++) {
		const char *plain = catalogue_plain(wanted->v[i]);

		add_once(out, plain);
		for (size_t k = 0; k < n; k++) {
			const cJSON *s;

			cJSON_ArrayForEach (s, find_fact(c, names[k], "as"))
				if (strcmp(catalogue_plain(s->valuestring), plain) == 0)
					add_once(out, names[k]);
		}
	}
	free(names);
}

/* ---- changes --------------------------------------------------------------------------------- */

int catalogue_check(const struct catalogue *c, const char *name, const cJSON *changes, struct err *e)
{
	if (catalogue_check_name(name, e) < 0 || check_changes(changes, e) < 0)
		return -1;
	if (!own_facts(c, name) && HASH_COUNT(c->records->all[CLUSTER_INSTANCE]) >= CATALOGUE_MAX)
		return err_set(e, ERR_LIMIT, "%d instance types are set: that is the limit", CATALOGUE_MAX);
	return 0;
}

void catalogue_load(struct catalogue *c, const char *name, const char *own)
{
	cJSON *o = own ? cJSON_Parse(own) : NULL;
	struct err e;

	if (cJSON_IsObject(o) && catalogue_check(c, name, o, &e) == 0)
		cluster_load(c->records, &(struct store_cluster_row){.instance = name, .own = own});
	cJSON_Delete(o);
}

int catalogue_check_remove(const struct catalogue *c, const char *name, struct err *e)
{
	if (own_facts(c, name))
		return 0;
	return err_set(e, ERR_NOT_FOUND, "nothing is set for the instance type \"%.64s\"%s", name,
	               find_entry(c, name) ? "; it is one of those that are shipped" : "");
}
