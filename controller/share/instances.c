/*
 * instances: applies the catalogue of instance types to nodes and jobs: what a node of a type costs and
 * offers, and which types a job may run on.
 *
 * A change by the administrator is an event of the cluster and counts immediately. A node has the price that
 * its agent reported, or else the price of its type.
 */
#include "controller/share/instances.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/inventory.h"
#include "controller/share/catalogue.h"
#include "controller/share/node_feed.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/request.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

#define TYPES_NAMED 6

struct tally { /* nodes of one type */
	const char *type;
	unsigned n;
	UT_hash_handle hh;
};

void instances_open(struct core *c)
{
	c->catalogue = catalogue_create(&c->records);
}

void instances_clear(struct core *c)
{
	catalogue_destroy(c->catalogue);
	c->catalogue = NULL;
}

void instance_load(struct core *c, const char *name, const char *own)
{
	catalogue_load(c->catalogue, name, own);
}

const char *node_type(const struct cnode *n)
{
	return catalogue_plain(n->inv.instance_type ? n->inv.instance_type : "");
}

double node_price(const struct core *c, const struct cnode *n)
{
	struct catalogue_type t;

	if (n->inv.price_per_hour > 0)
		return n->inv.price_per_hour;
	return catalogue_get(c->catalogue, node_type(n), &t) ? t.price : 0;
}

double node_power(const struct core *c, const struct cnode *n)
{
	struct catalogue_type t;

	return catalogue_get(c->catalogue, node_type(n), &t) ? t.power_w : 0;
}

void node_labels(const struct core *c, const struct cnode *n, struct strv *out)
{
	cJSON *type = catalogue_json(c->catalogue, node_type(n));
	const cJSON *s;

	for (size_t i = 0; i < n->inv.labels.n; i++)
		strv_add(out, n->inv.labels.v[i]);
	cJSON_ArrayForEach (s, cJSON_GetObjectItemCaseSensitive(type, "formats"))
		strv_add(out, s->valuestring);
	cJSON_Delete(type);
}

const char *node_label(const struct cnode *n, const char *key)
{
	size_t k = strlen(key);

	for (size_t i = 0; i < n->inv.labels.n; i++) {
		const char *l = n->inv.labels.v[i];

		if (strncmp(l, key, k) == 0 && l[k] == '=' && l[k + 1])
			return l + k + 1;
	}
	return NULL;
}

void instance_types(const struct core *c, const struct job_spec *s, struct strv *out)
{
	catalogue_expand(c->catalogue, &s->instance_types, out);
}

/* ---- nodes by type --------------------------------------------------------------------------- */

static struct tally *count_nodes(const struct core *c)
{
	struct tally *all = NULL, *t;

	for (const struct cnode *n = node_first(c); n; n = node_next(n)) {
		const char *type = node_type(n);

		if (n->r.state == NODE_REMOVED || !n->inv.known || !*type)
			continue;
		HASH_FIND_STR(all, type, t);
		if (!t) {
			t = xcalloc(1, sizeof(*t));
			t->type = type;
			HASH_ADD_KEYPTR(hh, all, t->type, strlen(t->type), t);
		}
		t->n++;
	}
	return all;
}

static unsigned nodes_of(struct tally *all, const char *type)
{
	struct tally *t;

	HASH_FIND_STR(all, type, t);
	return t ? t->n : 0;
}

static void tallies_free(struct tally *all)
{
	struct tally *t, *tmp;

	HASH_ITER (hh, all, t, tmp) {
		HASH_DELETE(hh, all, t);
		free(t);
	}
}

/* ---- at submit ------------------------------------------------------------------------------- */

/* Reports an unknown type with the most similar known name. */
static int unknown_type(const struct core *c, struct tally *nodes, const char *asked, struct err *e)
{
	const char **names, *near;
	size_t n;

	names = catalogue_names(c->catalogue, &n);
	names = xreallocarray(names, n + HASH_COUNT(nodes) + 1, sizeof(*names));
	for (const struct tally *t = nodes; t; t = t->hh.next)
		names[n++] = t->type;
	names[n] = NULL;
	near = str_nearest(catalogue_plain(asked), names);
	err_set(
	    e, ERR_CONFLICT,
	    "resources.instance_type: the instance type \"%.64s\" is unknown%s%s%s; jobctl instances lists the "
	    "known ones",
	    asked, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
	free(names);
	return -1;
}

static int no_such_node(struct tally *nodes, const struct job_spec *s, struct err *e)
{
	unsigned named = 0;
	TEXT(have);

	for (const struct tally *t = nodes; t && named < TYPES_NAMED; t = t->hh.next, named++)
		text_join(&have, ", ", "%.40s", t->type);
	return err_set(
	    e, ERR_CONFLICT,
	    "resources.instance_type: impossible on this cluster: no node is of type %.64s%s, or of a type that "
	    "can replace it; types of this cluster: %s%s; declare a replacement: jobctl instances set TYPE "
	    "as=%.64s",
	    s->instance_types.v[0], s->instance_types.n > 1 ? " or one of the others listed" : "",
	    named ? have.at : "none", HASH_COUNT(nodes) > named ? ", ..." : "", s->instance_types.v[0]);
}

int instances_check(const struct core *c, const struct job_spec *s, struct err *e)
{
	struct tally *nodes;
	struct strv types = {0};
	int rc = 0, there = 0, any_node = 0;

	if (!s->instance_types.n)
		return 0;
	for (const struct cnode *n = node_first(c); n && !any_node; n = node_next(n))
		any_node = n->r.state != NODE_REMOVED && n->inv.known;
	nodes = count_nodes(c);
	for (size_t i = 0; i < s->instance_types.n && rc == 0; i++) {
		struct catalogue_type t;

		if (!catalogue_get(c->catalogue, s->instance_types.v[i], &t) &&
		    !nodes_of(nodes, catalogue_plain(s->instance_types.v[i])))
			rc = unknown_type(c, nodes, s->instance_types.v[i], e);
	}
	instance_types(c, s, &types);
	for (size_t i = 0; i < types.n; i++)
		there |= nodes_of(nodes, types.v[i]) > 0;
	if (rc == 0 && any_node && !there) /* without nodes it waits for them */
		rc = no_such_node(nodes, s, e);
	strv_fini(&types);
	tallies_free(nodes);
	return rc;
}

/* ---- what users ask and change ----------------------------------------------------------------- */

static cJSON *type_json(const struct core *c, struct tally *nodes, const char *name)
{
	cJSON *o = catalogue_json(c->catalogue, name);

	json_add_u64(o, "nodes", nodes_of(nodes, catalogue_plain(name)));
	return o;
}

void instances_json(const struct core *c, cJSON *list)
{
	struct tally *nodes = count_nodes(c);
	const char **names;
	struct catalogue_type known;
	size_t n;

	for (const struct tally *t = nodes; t; t = t->hh.next)
		if (!catalogue_get(c->catalogue, t->type, &known))
			cJSON_AddItemToArray(list, type_json(c, nodes, t->type));
	names = catalogue_names(c->catalogue, &n);
	for (size_t i = 0; i < n; i++)
		cJSON_AddItemToArray(list, type_json(c, nodes, names[i]));
	free(names);
	tallies_free(nodes);
}

cJSON *instance_json(const struct core *c, const char *name, struct err *e)
{
	struct tally *nodes = count_nodes(c);
	struct catalogue_type known;
	cJSON *o = NULL;

	if (catalogue_get(c->catalogue, name, &known) || nodes_of(nodes, catalogue_plain(name))) {
		o = type_json(c, nodes, name);
	} else {
		unknown_type(c, nodes, name, e);
		e->code = ERR_NOT_FOUND;
	}
	tallies_free(nodes);
	return o;
}

void instance_changed(struct core *c, const char *name, int mapping)
{
	for (struct cnode *n = node_first(c); n; n = node_next(n))
		if (strcmp(node_type(n), catalogue_plain(name)) == 0)
			node_changed(c, n, 1);
	if (!mapping)
		return;
	for (struct cjob *j = c->jobs.all; j; j = j->hh.next) {
		if (j->r.status != JOB_QUEUED || !j->typed)
			continue;
		j->to_queue = 1;
		job_touch(c, j);
	}
}
