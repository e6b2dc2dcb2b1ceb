/*
 * simloop: what the world adds to loop.h. In a program of the world all loops share one clock that is moved
 * by hand: a step takes the earliest timer of all, sets the clock and calls it. Timers of equal time come in
 * an order that the seed chooses. Descriptors are real ones and are looked at by loop_run_once alone (the
 * store's thread answers through one), but for those from SIM_FD on: these exist in the world only.
 */
#ifndef HEARTH_TESTS_WORLD_SIMLOOP_H
#define HEARTH_TESTS_WORLD_SIMLOOP_H

#include "common/os/loop.h"

#define SIM_FD (1 << 24)

void simloop_reset(uint64_t now_us, uint64_t seed);
uint64_t simloop_now(void);
int simloop_step(void);      /* 0: nothing is armed */
uint64_t simloop_next(void); /* when the earliest is due; UINT64_MAX none */
/* Called before each callback, with the tag of its loop. */
void simloop_on_enter(void (*fn)(void *tag));
void simloop_tag(struct loop *l, void *tag);
void *simloop_tag_of(const struct loop *l);
void simloop_freeze(struct loop *l, uint64_t until_us); /* its timers wait until then */
uint64_t simloop_frozen(const struct loop *l);
void simloop_kill(struct loop *l); /* none of its timers fires again; its memory is given up */
void simloop_fire(int fd);         /* fd >= SIM_FD is ready */

#endif
