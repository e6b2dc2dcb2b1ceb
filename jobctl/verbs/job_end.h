/*
 * job_end: waits for the end of a job and reports it, for the verbs that follow one job.
 */
#ifndef HEARTH_JOBCTL_VERBS_JOB_END_H
#define HEARTH_JOBCTL_VERBS_JOB_END_H

#include <stdint.h>

struct ctx;

/* Waits until the job has ended and reports the end on standard error. Returns job_exit_code, -1 or
 * EXIT_INTERRUPTED. */
int job_end_report(struct ctx *c, uint64_t job);
/* Does the same after the job's log: with --json standard output has only lines of the log, and the end is on
 * standard error. */
int job_end_report_aside(struct ctx *c, uint64_t job);
/* Says that the job continues after Ctrl-C; returns EXIT_INTERRUPTED. */
int job_end_left_running(uint64_t job);

#endif
