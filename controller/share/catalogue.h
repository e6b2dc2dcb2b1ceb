/*
 * catalogue: instance types: what a machine of a type has and costs, and which own machines can replace it.
 * Pure except for the shipped facts (instances.csv, embedded): no I/O, no clock. Facts that an administrator
 * sets are in the records of the cluster.
 *
 * The name of a type does not include "ml.": "ml.p4d.24xlarge" and "p4d.24xlarge" are one type. Each fact
 * that the administrator sets replaces the shipped one. An administrator's own type has only the facts that
 * were set.
 */
#ifndef HEARTH_CONTROLLER_SHARE_CATALOGUE_H
#define HEARTH_CONTROLLER_SHARE_CATALOGUE_H

#include <cjson/cJSON.h>

#include "common/base/err.h"
#include "common/base/xalloc.h"
#include "controller/record/cluster.h"

#define CATALOGUE_NAME_MAX 64
#define CATALOGUE_MAX      2000 /* types with facts that an administrator set */
#define CATALOGUE_LIST_MAX 32   /* names in `as`, formats */

struct catalogue;
struct catalogue_type {
	const char *name; /* without "ml." */
	const cJSON *own; /* facts that an administrator set; NULL none */
	double price;     /* USD per hour; 0 not known */
	double power_w;   /* at full load; 0 not known */
	int shipped;
};

/* Returns a catalogue of the shipped facts and those in the records, which it only reads. */
struct catalogue *catalogue_create(struct cluster *records);
void catalogue_destroy(struct catalogue *c);
/* "ml.p4d.24xlarge" -> "p4d.24xlarge"; a pointer into name. */
const char *catalogue_plain(const char *name);
/* "ml.p4d.24xlarge" -> "p4d", "24xlarge". -1: not a name of that form; both are "" then. */
int catalogue_split(const char *name, char family[CATALOGUE_NAME_MAX + 1], char size[CATALOGUE_NAME_MAX + 1]);
int catalogue_check_name(const char *name, struct err *e);

/* Returns 1 when the type exists; out borrows from c until the next change. */
int catalogue_get(const struct catalogue *c, const char *name, struct catalogue_type *out);
/* Returns the facts of a type; own facts replace shipped ones. Unknown facts are null (a list: empty), so an
 * unknown type has only such facts. */
cJSON *catalogue_json(const struct catalogue *c, const char *name);
/* Returns the names in order; the list is malloc'ed and NULL-terminated, the names belong to c. */
const char **catalogue_names(const struct catalogue *c, size_t *n);
/* Checks facts that an administrator wants to set. changes: facts by key; null removes an own fact. The
 * caller posts the event. */
int catalogue_check(const struct catalogue *c, const char *name, const cJSON *changes, struct err *e);
/* Checks that a type has own facts to remove. -1: it has none (ERR_NOT_FOUND). */
int catalogue_check_remove(const struct catalogue *c, const char *name, struct err *e);
/* Loads the stored own facts of a type (JSON text) into the records; skips invalid ones. */
void catalogue_load(struct catalogue *c, const char *name, const char *own);
/* Lists the types that a job may run on which asks for `wanted`, in order of preference: each type, then, by
 * name, the types that can replace it (`as`). out starts empty and belongs to the caller. */
void catalogue_expand(const struct catalogue *c, const struct strv *wanted, struct strv *out);
/* Returns the keys of facts, NULL-terminated. */
const char *const *catalogue_keys(void);

#endif
