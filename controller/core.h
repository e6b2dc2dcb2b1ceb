/*
 * core: the controller's state and decisions, on one thread, without I/O of its own.
 *
 * Everything that happens comes in through the functions below; everything that it causes goes out through
 * struct core_io: so the same core runs under hearthd and under the simulated world of the tests, on a fake
 * clock and a seed. A record changes only by an event (event.h: apply is pure, act is idempotent); events and
 * rows of one turn are one store transaction; sends, replies and notices that they explain are held until its
 * commit and dropped when it fails.
 */
#ifndef HEARTH_CONTROLLER_CORE_H
#define HEARTH_CONTROLLER_CORE_H

#include "common/net/wire_msg.h"
#include "common/os/loop.h"
#include "controller/state/core_io.h"
#include "controller/state/request.h"

struct core;

struct core *core_create(const struct core_config *c, const struct core_io *io);
/* The end: what is not with the store yet is refused (ERR_UNAVAILABLE), as is all that comes from now on;
 * what the store has is answered when it is durable, and then core_stopped is 1. */
void core_stop(struct core *c);
int core_stopped(const struct core *c);
void core_destroy(struct core *c);
int core_load(struct core *c, struct store *s, struct err *e); /* rows of unfinished jobs, nodes, tokens */

/* Records the incarnation of the configuration; why: it begins now, and the event says why. NULL: no event.
 */
void core_record_incarnation(struct core *c, const char *why, uint64_t logs_set_aside);

void core_agent_up(struct core *c, const char *node, uint64_t session, const struct wm_hello *hello);
void core_agent_msg(struct core *c, const char *node, uint64_t session, uint16_t type, uint64_t id,
                    void *msg); /* takes msg */
void core_agent_down(struct core *c, const char *node, uint64_t session, const char *why);
void core_request(struct core *c, struct request *rq); /* takes rq; answered exactly once */

/* A log of an attempt is above its quota: an event says so, once. */
void core_over_quota(struct core *c, uint64_t job, uint32_t attempt, const char *text);

/* Time: call when core_next_us has come; it does what is due (deadlines, leases, limits). UINT64_MAX =
 * nothing waits. boot_us. */
uint64_t core_next_us(const struct core *c);
void core_tick(struct core *c);
/* Start (real time) of the oldest attempt that goes on; 0 none. */
uint64_t core_oldest_attempt_us(const struct core *c);
/* New work is refused from now on, and why, in words for users; NULL: it is taken again. What is there goes
 * on. */
void core_no_room(struct core *c, const char *why);
/* News of the administrator's rules for lines of failures. text NULL: the file is wrong, and why; the old
 * rules stay. first: since the start of hearthd. */
void core_set_rules(struct core *c, const char *file, const char *text, unsigned rules, int first,
                    const char *why);
/* How long turns took until now, for the statistics. */
void core_turns(struct core *c, const struct loop_turns *turns);
/* End of a turn: commits what was gathered, schedules when needed. */
void core_end_turn(struct core *c);

#endif
