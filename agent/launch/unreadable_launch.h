/*
 * unreadable_launch: launches of an earlier agent in RUN that this one cannot go on with, because their plan
 * cannot be read (a failed disk, a spoilt file, a plan of a newer agent). Their processes may run all the
 * same: they are ended by what else is on record, and only when nothing is left is the launch told to be
 * over.
 *
 *   STOPPING   what runs is being killed; also where it is not known what may run: then for as long as the
 *              folder is there, and the controller gives this node no work meanwhile
 *   ENDED      nothing is left; COLLECT removes the folder in RUN, CLEANED follows. What the run wrote stays
 *              in its folder in DATA: without the plan nobody knows what of it is to be kept
 *
 * The epoch is unknown until an order names it, so the first report is that of a launch of no epoch.
 */
#ifndef HEARTH_AGENT_LAUNCH_UNREADABLE_LAUNCH_H
#define HEARTH_AGENT_LAUNCH_UNREADABLE_LAUNCH_H

#include "common/base/err.h"
#include <stdint.h>

struct launch_host;
struct unreadable_launches;

/* Is anything there that a shim leaves: may a process of that launch run? 1 also when that cannot be read. */
int unreadable_launch_has_shims(const char *dir);

struct unreadable_launches *unreadable_launches_create(struct launch_host *host);
void unreadable_launches_destroy(struct unreadable_launches *ws); /* memory only; NULL allowed */
void unreadable_launches_add(struct unreadable_launches *ws, const char *key, uint64_t job, uint32_t attempt,
                             const char *why);
/* An order for such a launch: 1, and it was answered; 0: there is none of that name. */
int unreadable_launches_order(struct unreadable_launches *ws, uint16_t type, uint64_t job, uint32_t attempt,
                              uint64_t epoch);
void unreadable_launches_report_all(struct unreadable_launches *ws);
void unreadable_launches_cleaned(struct unreadable_launches *ws, uint64_t job,
                                 uint32_t attempt); /* CLEANED is durable */
uint32_t unreadable_launches_count(const struct unreadable_launches *ws);
int unreadable_launches_alive(const struct unreadable_launches *ws);
void unreadable_launches_kill(struct unreadable_launches *ws);    /* once more, now */
void unreadable_launches_discard(struct unreadable_launches *ws); /* those that are over, untold */

#endif
