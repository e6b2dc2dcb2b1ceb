/*
 * waiting: reports why a followed job has not started. A terminal gets one line that is refreshed; else
 * standard error gets a line after some seconds and another one when the reason changes. Standard output
 * gets nothing.
 */
#ifndef HEARTH_JOBCTL_SHOW_WAITING_H
#define HEARTH_JOBCTL_SHOW_WAITING_H

#include <stdint.h>

struct ctx;
struct waiting;

struct waiting *waiting_create(struct ctx *c, uint64_t job);
void waiting_destroy(struct waiting *w);
/* Is called about once a second while nothing has arrived. */
void waiting_tick(struct waiting *w);
void waiting_wipe(struct waiting *w); /* clears the line; call it before other output */

/* Returns whether two reasons differ only in numbers, which change by themselves. Pure, for tests. */
int waiting_alike(const char *a, const char *b);

#endif
