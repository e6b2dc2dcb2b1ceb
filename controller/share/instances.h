/*
 * instances: applies the catalogue of instance types: what a node of a type costs and offers, and which types
 * a job may run on.
 */
#ifndef HEARTH_CONTROLLER_SHARE_INSTANCES_H
#define HEARTH_CONTROLLER_SHARE_INSTANCES_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

void instances_open(struct core *c);
void instances_clear(struct core *c);
void instance_load(struct core *c, const char *name, const char *own);
const char *node_type(const struct cnode *n);                   /* without "ml."; "" unknown */
double node_price(const struct core *c, const struct cnode *n); /* USD an hour; 0 unknown */
double node_power(const struct core *c, const struct cnode *n); /* watts at full load; 0 unknown */
void node_labels(const struct core *c, const struct cnode *n,
                 struct strv *out); /* its own and those of its type */
/* Returns the value of a label: NAME of switch=NAME for "switch"; NULL none. */
const char *node_label(const struct cnode *n, const char *key);
/* Lists the types that the job may run on, in order; empty: any. out starts empty and belongs to the caller.
 */
void instance_types(const struct core *c, const struct job_spec *s, struct strv *out);
/* -1: an unknown type, or a type that no node has. */
int instances_check(const struct core *c, const struct job_spec *s, struct err *e);

cJSON *instance_json(const struct core *c, const char *name, struct err *e); /* NULL: unknown type */
void instances_json(const struct core *c, cJSON *list);
/* Applies changed facts of a type to its nodes and, with mapping (the types that it can replace changed), to
 * waiting jobs. */
void instance_changed(struct core *c, const char *name, int mapping);

#endif
