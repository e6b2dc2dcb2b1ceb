/*
 * waiting: says why a job that is followed has not begun: on a terminal in one line that is drawn anew, else
 * as lines on standard error, the first after some seconds, others when the reason is another one. Standard
 * output is left alone.
 */
#ifndef HEARTH_JOBCTL_WAITING_H
#define HEARTH_JOBCTL_WAITING_H

#include <stdint.h>

struct ctx;
struct waiting;

struct waiting *waiting_create(struct ctx *c, uint64_t job);
void waiting_destroy(struct waiting *w);
/* About once a second while nothing has come. */
void waiting_tick(struct waiting *w);
void waiting_wipe(struct waiting *w); /* before anything else is written */

/* Pure, for tests. Are two reasons the same but for numbers, which change by themselves? */
int waiting_alike(const char *a, const char *b);

#endif
