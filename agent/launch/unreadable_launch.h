/*
 * unreadable_launch: launches of an earlier agent in RUN whose plan this one cannot read (a failed disk, a
 * damaged file, a plan of a newer agent). Their processes may run all the same. The agent ends them by its
 * other records, and reports the launch as over only when nothing is left.
 *
 * A newer agent may have written the plan or the state. Then all is well with the launch, and only this agent
 * does not understand it: it goes on, unattended, in the state that its file names. An order to kill, or the
 * fence, ends it as below; a newer agent goes on with it. Its results are not removed meanwhile.
 *
 * - STOPPING: the agent kills what runs. When it does not know what may run, this state lasts as long as
 *   the folder exists, and hearthd gives this node no work meanwhile.
 * - ENDED: nothing is left. COLLECT removes the folder in RUN, and CLEANED follows. The run's results stay
 *   in its folder in DATA: without the plan nobody knows which of them to upload.
 *
 * The epoch of a damaged launch is unknown until an order names it, so its first report has no epoch.
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
/* job, attempt: of the folder's name. why ERR_UNSUPPORTED: a newer agent wrote it. */
void unreadable_launches_add(struct unreadable_launches *ws, const char *folder, uint64_t job,
                             uint32_t attempt, const struct err *why);
/* Answers an order for such a launch: 1. Returns 0 for another launch. */
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
