/*
 * instances: the catalogue of instance types at work: what a node of a type costs and offers, and which types
 * a job may run on.
 */
#ifndef HEARTH_CONTROLLER_SHARE_INSTANCES_H
#define HEARTH_CONTROLLER_SHARE_INSTANCES_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

void instances_open(struct core *c);
void instances_clear(struct core *c);
void instance_load(struct core *c, const char *name, const char *own);
const char *node_type(const struct cnode *n);                   /* without "ml."; "" not known */
double node_price(const struct core *c, const struct cnode *n); /* USD an hour; 0 not known */
double node_power(const struct core *c, const struct cnode *n); /* watts at full load; 0 not known */
void node_labels(const struct core *c, const struct cnode *n, struct strv *out); /* with what its type has */
/* "switch": the NAME of its label switch=NAME; NULL it has none. */
const char *node_label(const struct cnode *n, const char *key);
/* Types of nodes that the job may run on, in order; empty: any. out starts empty and is the caller's. */
void instance_types(const struct core *c, const struct job_spec *s, struct strv *out);
/* -1: a type that nobody knows, or that no node is. */
int instances_check(const struct core *c, const struct job_spec *s, struct err *e);

cJSON *instance_json(const struct core *c, const char *name, struct err *e); /* NULL: unknown type */
void instances_json(const struct core *c, cJSON *list);
/* The facts of a type changed: the change counts at once for its nodes and, when mapping is set (it stands
 * for other types), for jobs that wait. */
void instance_changed(struct core *c, const char *name, int mapping);

#endif
