/*
 * reserve: nodes that are reserved for a period, for the jobs of a queue or for maintenance.
 */
#ifndef HEARTH_CONTROLLER_SHARE_RESERVE_H
#define HEARTH_CONTROLLER_SHARE_RESERVE_H

#include "controller/record/cluster.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

struct creserve { /* begins with its record; core->records holds both */
	struct reservation_rec rec;
	char **sorted; /* names of its nodes, sorted by strcmp; the strings belong to the record */
	uint64_t id;   /* in the scheduler library */
	uint64_t told_from_s, told_to_s; /* the period that the library has */
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
/* Returns pointers to the names, sorted by strcmp; malloc'ed. */
char **reserve_sorted(const struct strv *names);
/* Posts the event and reports to the library; `as` is not one of the records. by: the user. */
void reserve_set(struct core *c, const struct reservation_rec *as, const char *by);
/* The same for a removal; frees r. text: the reason, NULL none. */
void reserve_remove(struct core *c, struct creserve *r, const char *by, const char *text);
/* Returns a reservation of that node that is not over and overlaps the period; but: a name to skip. NULL
 * none. */
struct creserve *reserve_overlap(const struct core *c, const char *node, uint64_t from_us, uint64_t to_us,
                                 const char *but);
int reserve_has_node(const struct creserve *r, const char *node);
int reserve_for_queue(const struct reservation_rec *r,
                      const char *queue); /* 1: the queue's jobs may use the nodes */
/* Returns the real time when the last job that the period disturbs is believed to leave the node; 0: none. */
uint64_t reserve_disturbs(const struct core *c, const struct cnode *n, uint64_t from_us, const char *queue);
cJSON *reserve_json(const struct core *c, const struct creserve *r);

void reserves_open(struct core *c);  /* before the records are created */
void reserves_clear(struct core *c); /* before the records are freed */
int reserve_load(struct core *c, const struct reservation_row *r);
void reserve_node_came(struct core *c, const struct cnode *n); /* a node that is new to the library */
void reserves_loaded(struct core *c); /* all nodes are loaded: reports all reservations to the library */
void reserve_review(struct core *c);  /* begins, ends and removes what is due */
/* Returns the name of a reservation for that queue that is not over; NULL none. */
const char *reserve_of_queue(const struct core *c, const char *queue);
const char *reserve_maintains(const struct core *c, const char *node); /* its maintenance now; NULL none */
/* Names the reservations that keep a job off which would run for limit_s from now. 0: none. */
int reserve_why(const struct core *c, const struct cjob *j, uint64_t limit_s, char *out, size_t size);
/* Lists the reservations of a node, as JSON and in words. */
void reserve_of_node(const struct core *c, const char *node, cJSON *list, char *text, size_t size);

#endif
