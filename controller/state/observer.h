/*
 * observer: what other rooms do when a record changes or a transaction ends.
 *
 * turn.c knows nobody: it calls the functions of one table (core.c), in the order of the table. A function
 * that is NULL is skipped.
 */
#ifndef HEARTH_CONTROLLER_STATE_OBSERVER_H
#define HEARTH_CONTROLLER_STATE_OBSERVER_H

#include "controller/record/event.h"
#include "controller/state/core_state.h"
#include "controller/state/request.h"

/* A job's record before an event, and whether the event was accepted. */
struct job_before {
	enum job_status status;
	uint8_t is_new;  /* it had no record */
	uint8_t refused; /* the record is as it was */
};

struct observer {
	/* data: of the event; more may be added. j NULL: an event of the cluster. */
	void (*before_event)(struct core *c, const struct cjob *j, enum event_type t, cJSON *data);
	/* For jobs only. Called once for each before_event, also when the event was refused. */
	void (*after_event)(struct core *c, struct cjob *j, enum event_type t, const struct job_before *before);
	/* The answer to a request will leave with this turn. body may be NULL. */
	void (*before_reply)(struct core *c, const struct request *rq, int status, const cJSON *body);
	/* Adds rows of other tables, before the turn gathers its own. */
	void (*before_commit)(struct core *c);
	void (*commit_failed)(struct core *c, const struct err *e);
	void (*store_recovered)(struct core *c);
	/* The job leaves memory; others drop what they hold of it. */
	void (*job_goes)(struct core *c, struct cjob *j);
};

#endif
