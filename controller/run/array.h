/*
 * array: arrays and sweeps: a job whose members are jobs of their own.
 */
#ifndef HEARTH_CONTROLLER_RUN_ARRAY_H
#define HEARTH_CONTROLLER_RUN_ARRAY_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/observer.h"

struct member_row;

/* The members of an array or a sweep that has not ended, as far as their records are not enough.
 * hearthd does not store it: it follows from the records. */
struct carray {
	struct job_spec *spec; /* what they have in common; where they lie in the queue follows from it alone */
	cJSON *text;           /* of the specification, and the client's facts: until all are made */
	char *run;
	uint32_t made;            /* members before it have records */
	uint32_t n[N_JOB_STATUS]; /* of those that are made */
	uint32_t admitted;        /* given to the scheduler, or holding resources */
	uint32_t next;            /* none before it waits to be admitted */
	uint32_t stop_at;         /* those before it were told to stop, when that is wanted */
	uint32_t halved;          /* of the stopped ones: by successive halving */
	uint32_t failed[3];       /* first ones that did */
	uint32_t n_failed;        /* of these */
	struct race *race;        /* successive halving; NULL none */
	uint8_t busy;             /* in core->arrays */
	struct cjob *busy_next, *busy_prev;
};

/* by: who wants it. */
void array_rm_begin(struct core *c, const struct cjob *j, const char *by);
/* j gets what its members have in common: from its specification. */
int array_open(struct core *c, struct cjob *j, const char *spec, const char *run, struct err *e);
void array_free(struct core *c, struct cjob *j);
void array_touch(struct core *c, struct cjob *j);
/* As struct observer has it: a member's status is another one now. */
void array_after_event(struct core *c, struct cjob *member, enum event_type t,
                       const struct job_before *before);
/* 1: a member waits with its array until that lets it go to the scheduler. */
int array_parks(struct core *c, const struct cjob *member);
/* Any job goes to the scheduler; a member that is not admitted waits with its array. */
void array_queue(struct core *c, struct cjob *j, const struct job_spec *spec);
void array_close(struct core *c,
                 struct cjob *j); /* members that wait with the scheduler wait with it again */
void array_load(struct core *c, const struct cjob *member);          /* one that has not ended */
void array_load_ended(struct core *c, const struct member_row *row); /* one that has */
void array_loaded(struct core *c, struct cjob *j);                   /* all of them are there */
void arrays_step(struct core *c);                                    /* a part of what is to be done */
int arrays_busy(const struct core *c);
int array_rm_step(struct core *c, uint32_t *budget); /* 1: there is more */
void array_rm_clear(struct core *c);
void race_open(struct core *c, struct cjob *j);
void race_free(struct core *c, struct cjob *j);
void race_follow(struct cjob *j, uint32_t index, enum job_status status, int halved);
void race_load(struct cjob *j, uint32_t index, const char *rungs); /* as its record has them */
void array_points(struct core *c, const struct wm_metrics *m);

#endif
