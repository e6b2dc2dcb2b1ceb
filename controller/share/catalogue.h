/*
 * catalogue: instance types: what a machine of a type has and costs, and which own machines stand in for it.
 * Pure but for the facts that the program carries (instances.csv): no I/O, no clock. What is set is in the
 * records of the cluster.
 *
 * A type is known by its name without "ml.": "ml.p4d.24xlarge" and "p4d.24xlarge" are one. What the
 * administrator sets goes over what is shipped, key by key; his own types have only what he set.
 */
#ifndef HEARTH_CONTROLLER_CATALOGUE_H
#define HEARTH_CONTROLLER_CATALOGUE_H

#include <cjson/cJSON.h>

#include "common/base/err.h"
#include "common/base/xalloc.h"
#include "controller/record/cluster.h"

#define CATALOGUE_NAME_MAX 64
#define CATALOGUE_MAX      2000 /* types that are set */
#define CATALOGUE_LIST_MAX 32   /* names in `as`, formats */

struct catalogue;
struct catalogue_type {
	const char *name; /* without "ml." */
	const cJSON *own; /* what is set; NULL nothing */
	double price;     /* USD per hour; 0 not known */
	double power_w;   /* at full load; 0 not known */
	int shipped;
};

/* With what is shipped, and what is set in those records, which it only reads. */
struct catalogue *catalogue_create(struct cluster *records);
void catalogue_destroy(struct catalogue *c);
/* "ml.p4d.24xlarge" -> "p4d.24xlarge"; a pointer into name. */
const char *catalogue_plain(const char *name);
/* "ml.p4d.24xlarge" -> "p4d", "24xlarge". 0, or -1: it is no such name (both are "" then). */
int catalogue_split(const char *name, char family[CATALOGUE_NAME_MAX + 1], char size[CATALOGUE_NAME_MAX + 1]);
int catalogue_check_name(const char *name, struct err *e);

/* 1 found, out borrows from c until the next change. */
int catalogue_get(const struct catalogue *c, const char *name, struct catalogue_type *out);
/* Its facts as they count, own over shipped; what is not known is null (a list: empty), so all of a type that
 * is not there. */
cJSON *catalogue_json(const struct catalogue *c, const char *name);
/* Names in order; the list is malloc'ed and NULL-terminated, the names are c's. */
const char **catalogue_names(const struct catalogue *c, size_t *n);
/* May these facts be set? changes: facts by their keys; null takes an own one back. The event that sets them
 * is the caller's. */
int catalogue_check(const struct catalogue *c, const char *name, const cJSON *changes, struct err *e);
/* May what was set for it go? -1: nothing was (ERR_NOT_FOUND). */
int catalogue_check_remove(const struct catalogue *c, const char *name, struct err *e);
/* Into the records, as stored (the own facts, as text); wrong ones are left out. */
void catalogue_load(struct catalogue *c, const char *name, const char *own);
/* The types, in order of preference, that a job may run on that asks for `wanted`: each type itself, then, by
 * name, those that stand in for it (`as`); each once. out starts empty and is the caller's. */
void catalogue_expand(const struct catalogue *c, const struct strv *wanted, struct strv *out);
/* The known keys of a type, NULL-terminated: those of `changes`. */
const char *const *catalogue_keys(void);

#endif
