/*
 * reserve: nodes that are reserved for a period: for the jobs of a queue, or for maintenance.
 */
#ifndef HEARTH_CONTROLLER_SHARE_RESERVE_H
#define HEARTH_CONTROLLER_SHARE_RESERVE_H

#include "controller/record/cluster.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

struct creserve { /* begins with its record, and lies with it in core->records */
	struct reservation_rec rec;
	char **sorted;                   /* names of its nodes, by strcmp; the strings are the record's */
	uint64_t id;                     /* in the scheduler library */
	uint64_t told_from_s, told_to_s; /* what the library knows */
};

static inline struct creserve *reserve_first(const struct core *c)
{
	return (struct creserve *)c->records.all[CLUSTER_RESERVATION];
}

static inline struct creserve *reserve_next(const struct creserve *r)
{
	return r->rec.head.hh.next;
}

struct creserve *reserve_find(const struct core *c, const char *name);
/* Pointers to the names by strcmp, malloc'ed. */
char **reserve_sorted(const struct strv *names);
/* Event and library; `as` is in no records. by: who. */
void reserve_set(struct core *c, const struct reservation_rec *as, const char *by);
/* The same; r goes. text: why, NULL none. */
void reserve_remove(struct core *c, struct creserve *r, const char *by, const char *text);
/* One that is not over and holds that node at some time in between; but: not this one. NULL none. */
struct creserve *reserve_overlap(const struct core *c, const char *node, uint64_t from_us, uint64_t to_us,
                                 const char *but);
int reserve_for_queue(const struct reservation_rec *r, const char *queue); /* its jobs may use the nodes */
/* When the last job that a window disturbs is believed to leave the node, real; 0: none is there then. */
uint64_t reserve_disturbs(const struct core *c, const struct cnode *n, uint64_t from_us, const char *queue);
cJSON *reserve_json(const struct core *c, const struct creserve *r);

void reserves_open(struct core *c);  /* before the records are made */
void reserves_clear(struct core *c); /* before the records go */
int reserve_load(struct core *c, const struct reservation_row *r);
void reserve_node_came(struct core *c, const struct cnode *n); /* the library did not know it */
void reserves_loaded(struct core *c); /* all nodes are there: the library is told of all */
void reserve_review(struct core *c);  /* what begins, ends, goes; when the next is due */
/* One that is not over and keeps nodes for that queue; NULL none. */
const char *reserve_of_queue(const struct core *c, const char *queue);
const char *reserve_maintains(const struct core *c,
                              const char *node); /* the window it is in now; NULL none */
/* What keeps a job off that would run for limit_s from now. 0: nothing. */
int reserve_why(const struct core *c, const struct cjob *j, uint64_t limit_s, char *out, size_t size);
/* Those of a node, into the list and in words. */
void reserve_of_node(const struct core *c, const char *node, cJSON *list, char *text, size_t size);

#endif
