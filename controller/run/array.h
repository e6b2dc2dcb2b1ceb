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
	struct job_spec *spec; /* common to all members; it alone decides their order in the queue */
	cJSON *text;           /* of the specification; NULL once all members are made */
	char *run;
	uint32_t made;            /* members with records: those before this index */
	uint32_t n[N_JOB_STATUS]; /* members that are made, by status */
	uint32_t admitted;        /* members in the scheduler or with resources */
	uint32_t next;            /* index; no member before it waits to be admitted */
	uint32_t stop_at;         /* index; members before it have the order to stop */
	uint32_t halved;          /* members that successive halving stopped */
	uint32_t failed[3];       /* indexes of the first failed members */
	uint32_t n_failed;        /* entries of failed[] */
	struct race *race;        /* successive halving; NULL none */
	uint8_t busy;             /* in core->arrays.busy */
	struct cjob *busy_next, *busy_prev;
};

/* Begins to remove the data of all members. by: the user. */
void array_rm_begin(struct core *c, const struct cjob *j, const char *by);
/* Makes j->arr from the specification. */
int array_open(struct core *c, struct cjob *j, const char *spec, const char *run, struct err *e);
void array_free(struct core *c, struct cjob *j);
void array_touch(struct core *c, struct cjob *j);
/* An observer (struct observer): follows the status of members. */
void array_after_event(struct core *c, struct cjob *member, enum event_type t,
                       const struct job_before *before);
/* Returns 1 when a member waits in its array and not in the scheduler. */
int array_parks(struct core *c, const struct cjob *member);
/* Queues any job with the scheduler; a member that is not admitted waits in its array. */
void array_queue(struct core *c, struct cjob *j, const struct job_spec *spec);
void array_close(struct core *c, struct cjob *j); /* takes waiting members back from the scheduler */
void array_load(struct core *c, const struct cjob *member);          /* a member that has not ended */
void array_load_ended(struct core *c, const struct member_row *row); /* a member that has ended */
void array_loaded(struct core *c, struct cjob *j);                   /* all members are loaded */
void arrays_step(struct core *c);                                    /* does the share of one turn */
int arrays_busy(const struct core *c);
int array_rm_step(struct core *c, uint32_t *budget); /* returns 1 when work is left */
void array_rm_clear(struct core *c);
void race_open(struct core *c, struct cjob *j);
void race_free(struct core *c, struct cjob *j);
void race_follow(struct cjob *j, uint32_t index, enum job_status status, int halved);
void race_load(struct cjob *j, uint32_t index, const char *rungs); /* rungs: from the record */
void array_points(struct core *c, const struct wm_metrics *m);

#endif
