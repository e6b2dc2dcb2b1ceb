/*
 * reserve: what the two files about reservations share; nobody else includes it.
 */
#ifndef HEARTH_CONTROLLER_RESERVE_H
#define HEARTH_CONTROLLER_RESERVE_H

#include "controller/core_int.h"

enum reserve_state { RESERVE_PLANNED, RESERVE_ACTIVE, RESERVE_ENDED };

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

#endif
