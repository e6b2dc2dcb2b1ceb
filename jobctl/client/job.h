/*
 * job: what the status of a job means.
 */
#ifndef HEARTH_JOBCTL_CLIENT_JOB_H
#define HEARTH_JOBCTL_CLIENT_JOB_H

int job_ended(const char *status);
int job_exit_code(const char *status); /* EXIT_OK if it completed, else EXIT_JOB_FAILED */

#endif
