/*
 * launch_park: launches without a job, which wait in a warm pool (launch_park.c), and jobs that take them
 * over (launch_take.c).
 */
#ifndef HEARTH_AGENT_LAUNCH_LAUNCH_PARK_H
#define HEARTH_AGENT_LAUNCH_LAUNCH_PARK_H

#include "agent/launch/launch.h"
#include "agent/launch/lproc.h"

/* ---- park (launch_park.c) --------------------------------------------------------------------------- */
int launch_is_parking(const struct launch *l); /* it waits for a job of its pool, or gets ready to */
int launch_park_prepare(struct launch *l, struct err *e); /* in place of staging */
/* 0: all its processes wait for a job; -1: e names the first that does not. */
int launch_park_check(const struct launch *l, struct err *e);
void launch_park_step(struct launch *l);    /* PARKED when it is so */
void launch_park_adopted(struct launch *l); /* an earlier agent had it PARKED */
void launch_park_changed(struct lproc *p);

/* ---- a job takes a parked launch over (launch_take.c) ------------------------------------------------ */
/* Takes plan, when it returns 0; -1: the launch is as before. */
int launch_take(struct launch *l, struct plan *plan, struct err *e);
int launch_is_taken(const struct launch *l); /* it was parked before */
void launch_take_files(struct launch *l);    /* launch_prepare.c */
void launch_take_ready(struct launch *l);    /* its files are in place */
void launch_take_point(void);                /* of several at which a test ends the agent */
void launch_take_answered(struct launch *l); /* a shim has */
void launch_take_changed(struct lproc *p);   /* before it is READY */
void launch_take_await(struct launch *l);    /* READY, and a process has ended */
void launch_take_go(struct launch *l);
/* For a parked rank (launch_procs.c): makes its command and environment; starts it; it could not be. */
int launch_make_start(struct lproc *p, struct err *e); /* -1: its shim would refuse it */
void launch_start_rank(struct lproc *p);
void launch_start_refused(struct lproc *p, enum err_code code, const char *text);
void launch_show_line(struct launch *l); /* of the launcher, for people; launch_procs.c */

#endif
