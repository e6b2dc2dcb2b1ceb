/*
 * members: the table of an array's or a sweep's members.
 */
#ifndef HEARTH_JOBCTL_MEMBERS_H
#define HEARTH_JOBCTL_MEMBERS_H

#include "jobctl/jobctl.h"

/* "20 members: 4 running, 10 waiting, 6 completed"; malloc'ed. counts: "members" of a job's record. */
char *members_text(const cJSON *counts);
/* Asks for the members and prints them, the best first. metric NULL: the one that the sweep names. 0 or -1.
 */
int members_show(struct ctx *c, uint64_t job, const char *metric, uint64_t limit);

#endif
