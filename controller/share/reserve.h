/*
 * reserve: nodes that are reserved for a period: for the jobs of a queue, or for maintenance.
 */
#ifndef HEARTH_CONTROLLER_SHARE_RESERVE_H
#define HEARTH_CONTROLLER_SHARE_RESERVE_H

#include "controller/record/cluster.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

struct creserve {
	char *name, *queue; /* queue: "" nobody's, maintenance */
	char *reason, *owner;
	struct strv nodes; /* names: a node that left and joined anew is the same */
	char **sorted;     /* the same pointers, by strcmp; NULL: not in the table */
	enum reserve_state state;
	uint64_t id;                         /* in the scheduler library */
	uint64_t from_us, to_us, created_us; /* real */
	uint64_t told_from_s, told_to_s;     /* what the library knows */
	UT_hash_handle hh;
};

struct creserve *reserve_find(const struct core *c, const char *name);
const char *reserve_state_name(const struct creserve *r);
void reserve_free(struct creserve *r);
/* Pointers to the names by strcmp, malloc'ed. */
char **reserve_sorted(const struct strv *names);
/* Into the table, which takes it; one of that name goes. */
void reserve_put(struct core *c, struct creserve *r);
void reserve_drop(struct core *c, struct creserve *r);
/* Event, row and library. by: who; text: why, NULL none. */
void reserve_post(struct core *c, struct creserve *r, enum event_type t, const char *by, const char *text);
/* One that is not over and holds that node at some time in between; but: not this one. NULL none. */
struct creserve *reserve_overlap(const struct core *c, const char *node, uint64_t from_us, uint64_t to_us,
                                 const char *but);
int reserve_for_queue(const struct creserve *r, const char *queue); /* its jobs may use the nodes */
/* When the last job that a window disturbs is believed to leave the node, real; 0: none is there then. */
uint64_t reserve_disturbs(const struct core *c, const struct cnode *n, uint64_t from_us, const char *queue);
cJSON *reserve_json(const struct core *c, const struct creserve *r);

void reserves_clear(struct core *c);
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
