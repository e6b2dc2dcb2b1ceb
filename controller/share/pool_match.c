/*
 * pool_match: what a pool has, and what a job wants of it: the first field that differs; and whose jobs are
 * compared with pools at all.
 */
#include "controller/share/pools.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/secret.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/state/launch_facts.h"
#include "controller/state/node_table.h"
#include "controller/state/refs.h"

cJSON *pool_environment(const struct job_spec *s, const char *source, const struct strv *inputs)
{
	cJSON *o = cJSON_CreateObject(), *list;

	json_add_str(o, "requirements", s->requirements);
	json_add_str(o, "source", source && *source ? source : NULL);
	list = cJSON_AddArrayToObject(o, "inputs");
	for (size_t i = 0; i < s->n_inputs; i++) {
		const struct spec_input *in = &s->inputs[i];
		const char *resolved = inputs && i < inputs->n && *inputs->v[i] ? inputs->v[i] : in->uri;
		cleanup_free char *shown = secret_text(resolved); /* all users see it */
		cJSON *one = cJSON_CreateObject();

		json_add_str(one, "name", in->name);
		json_add_str(one, "digest", in->sha256 ? in->sha256 : shown);
		cJSON_AddItemToArray(list, one);
	}
	return o;
}

cJSON *pool_wants(struct core *c, const struct job_spec *s, const char *source)
{
	struct strv inputs = {0};
	cJSON *o;
	struct err e;

	(void)refs_resolve(c, s, &inputs, &e); /* one that is not there yet counts as its reference */
	o = pool_environment(s, source, &inputs);
	strv_fini(&inputs);
	return o;
}

static cJSON *make_missed(const char *field, const char *had, const char *wants)
{
	cJSON *o = cJSON_CreateObject();

	json_add_str(o, "level", "environment");
	json_add_str(o, "field", field);
	json_add_str(o, "had", had);
	json_add_str(o, "wants", wants);
	return o;
}

static int same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

/* Returns the digest of that input; NULL: the environment does not have it. */
static const char *input_digest(const cJSON *environment, const char *name)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, cJSON_GetObjectItemCaseSensitive(environment, "inputs"))
		if (strcmp(json_str_or(v, "name", ""), name) == 0)
			return json_str_or(v, "digest", "");
	return NULL;
}

/* Returns the first input of `of` that `in` has not, or has with another digest. */
static cJSON *differing_input(const cJSON *of, const cJSON *in, int swapped)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, cJSON_GetObjectItemCaseSensitive(of, "inputs")) {
		const char *name = json_str_or(v, "name", ""), *mine = json_str_or(v, "digest", ""),
		           *other = input_digest(in, name);
		char *field;
		cJSON *missed;

		if (other && strcmp(mine, other) == 0)
			continue;
		field = xasprintf("inputs.%s", name);
		missed = swapped ? make_missed(field, mine, other) : make_missed(field, other, mine);
		free(field);
		return missed;
	}
	return NULL;
}

cJSON *pool_missed(const char *had, const cJSON *wants)
{
	static const char *const fields[] = {"requirements", "source"};
	cJSON *has = had ? cJSON_Parse(had) : NULL, *missed = NULL;

	for (int i = 0; i < 2 && !missed; i++) {
		const char *mine = json_str_or(has, fields[i], NULL), *other = json_str_or(wants, fields[i], NULL);

		if (!same_text(mine, other))
			missed = make_missed(fields[i], mine, other);
	}
	if (!missed)
		missed = differing_input(wants, has, 0);
	if (!missed)
		missed = differing_input(has, wants, 1);
	cJSON_Delete(has);
	return missed;
}

/* Equal files are a reason to use a pool; to have none is not. */
static int names_files(const cJSON *environment)
{
	return json_str_or(environment, "requirements", NULL) || json_str_or(environment, "source", NULL) ||
	       cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(environment, "inputs"));
}

const char *pool_key(const char *environment, char out[HASH_HEX_SIZE])
{
	cJSON *o = environment ? cJSON_Parse(environment) : NULL;
	int files = names_files(o);

	cJSON_Delete(o);
	if (!files)
		return NULL;
	hash_hex(environment, strlen(environment), out);
	return out;
}

/* ---- levels ----------------------------------------------------------------------------------------- */

static int same_requirements(const struct pool_rec *p, const cJSON *wants)
{
	cJSON *has = p->environment ? cJSON_Parse(p->environment) : NULL;
	int same = strcmp(json_str_or(has, "requirements", ""), json_str_or(wants, "requirements", "")) == 0;

	cJSON_Delete(has);
	return same;
}

/* 1: parts have ended since its last job. The job gets others there, and wants the same. */
static int has_lost_nodes(const struct pool_rec *p)
{
	cJSON *launch = p->launch ? cJSON_Parse(p->launch) : NULL;
	int n = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(launch, "nodes"));

	cJSON_Delete(launch);
	return (uint32_t)n > p->n_parts;
}

static cJSON *missed_nodes(void)
{
	cJSON *o = launch_missed("nodes", NULL, NULL);

	json_add_str(o, "text", "the pool has lost nodes");
	return o;
}

/* The launch would fit, but none waits, or it is for a job of the whole pool. */
static cJSON *missed_parked(const struct pool_rec *p)
{
	cJSON *o = launch_missed("parked", NULL, NULL);
	TEXT(text);

	if (p->parked)
		text_add(&text, "only a part of the pool");
	else if (p->park_text)
		text_add(&text, "nothing parked: %.160s", p->park_text);
	else
		text_add(&text, "nothing parked yet");
	json_add_str(o, "text", text.at);
	return o;
}

void pool_fit(const struct core *c, const struct pool_rec *p, const cJSON *environment, const cJSON *launch,
              int whole, struct pool_fit *out)
{
	cJSON *missed = pool_missed(p->environment, environment), *more = NULL;

	*out = (struct pool_fit){.level = missed ? "node" : "environment", .missed = missed};
	if (!c->cfg.warm_parked)
		return;
	/* The source may differ: a launch that waits has none. */
	if (missed && !same_requirements(p, environment))
		return;
	more = launch_facts_missed(p->launch, launch);
	if (!more && p->parked && whole) {
		cJSON_Delete(missed);
		*out = (struct pool_fit){.level = "launch", .parking = p->parked};
		if (launch_has_interpreter(p->launch, p->park_text, launch, &out->missed))
			out->level = "interpreter";
	} else if (!missed) {
		out->missed = has_lost_nodes(p) ? missed_nodes() : more ? more : missed_parked(p);
		more = out->missed == more ? NULL : more;
	}
	cJSON_Delete(more);
}

struct ordered { /* a place, and its node's rank in the launch that waits */
	struct sched_place at;
	uint32_t rank, was;
};

struct name_rank {
	const char *name;
	uint32_t rank;
};

static int name_cmp(const void *a, const void *b)
{
	return strcmp(((const struct name_rank *)a)->name, ((const struct name_rank *)b)->name);
}

static uint32_t rank_of(const struct core *c, const struct name_rank *names, uint32_t n, uint64_t node)
{
	const struct cnode *x = node_by_id(c, node);
	const struct name_rank like = {.name = x ? x->name : ""}, *found;

	found = bsearch(&like, names, n, sizeof(*names), name_cmp);
	return found ? found->rank : UINT32_MAX;
}

static int ordered_cmp(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->was < y->was ? -1 : x->was > y->was;
}

/* Each run of places of one group by rank, for all of them in n log n: as many as 512 nodes are ordered on
 * the state thread. */
static void order_places(const struct core *c, const struct name_rank *names, struct sched_place *v,
                         uint32_t n)
{
	struct ordered *o = xcalloc(n, sizeof(*o));

	for (uint32_t i = 0; i < n; i++)
		o[i] = (struct ordered){.at = v[i], .rank = rank_of(c, names, n, v[i].node), .was = i};
	for (uint32_t from = 0, to; from < n; from = to) {
		for (to = from + 1; to < n && v[to].group == v[from].group;)
			to++;
		qsort(o + from, to - from, sizeof(*o), ordered_cmp);
	}
	for (uint32_t i = 0; i < n; i++)
		v[i] = o[i].at;
	free(o);
}

void pool_order(const struct core *c, const struct pool_rec *p, struct sched_place *v, uint32_t n)
{
	cJSON *launch = p->parked && p->launch ? cJSON_Parse(p->launch) : NULL;
	const cJSON *nodes = cJSON_GetObjectItemCaseSensitive(launch, "nodes"), *one;

	if (nodes && n && (uint32_t)cJSON_GetArraySize(nodes) == n) {
		struct name_rank *names = xcalloc(n, sizeof(*names));
		uint32_t i = 0;

		cJSON_ArrayForEach (one, nodes) {
			names[i] = (struct name_rank){cJSON_IsString(one) ? one->valuestring : "", i};
			i++;
		}
		qsort(names, n, sizeof(*names), name_cmp);
		order_places(c, names, v, n);
		free(names);
	}
	cJSON_Delete(launch);
}

/* ---- users of pools --------------------------------------------------------------------------------- */

struct pool_user {
	UT_hash_handle hh;
	char name[];
};

int pool_user_is(const struct core *c, const char *owner)
{
	struct pool_user *u;

	HASH_FIND_STR(c->pools.users, owner, u);
	return u != NULL;
}

void pool_user_add(struct core *c, const char *owner)
{
	struct pool_user *u;

	if (pool_user_is(c, owner))
		return;
	u = xcalloc(1, sizeof(*u) + strlen(owner) + 1);
	memcpy(u->name, owner, strlen(owner) + 1);
	HASH_ADD_STR(c->pools.users, name, u);
}

void pool_users_loaded(struct core *c)
{
	for (struct cluster_rec *r = c->records.all[CLUSTER_POOL]; r; r = r->hh.next) {
		const struct pool_rec *p = (const struct pool_rec *)r;

		if (!p->ended_us && p->owner)
			pool_user_add(c, p->owner);
	}
}

void pool_users_free(struct core *c)
{
	struct pool_user *u, *next;

	HASH_ITER (hh, c->pools.users, u, next) {
		HASH_DEL(c->pools.users, u);
		free(u);
	}
}
