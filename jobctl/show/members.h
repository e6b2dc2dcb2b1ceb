/*
 * members: the table of an array's or a sweep's members.
 */
#ifndef HEARTH_JOBCTL_SHOW_MEMBERS_H
#define HEARTH_JOBCTL_SHOW_MEMBERS_H

#include <cjson/cJSON.h>
#include <stdint.h>

struct ctx;

/* Returns "20 members: 4 running, 10 waiting, 6 completed", malloc'ed. counts: "members" of a job's record.
 */
char *members_text(const cJSON *counts);
/* Returns the rest of an array's reason, without the counts: "2 of 6 members failed: 17.3, 17.5" ->
 * "17.3, 17.5". Borrowed. */
const char *members_rest(const char *reason);
/* Fetches the members and prints them, the best first. metric NULL: the metric that the sweep names. */
int members_show(struct ctx *c, uint64_t job, const char *metric, uint64_t limit);

#endif
