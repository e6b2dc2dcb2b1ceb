/*
 * interrupt: Ctrl-C as a flag and as a descriptor, for verbs that have something to say or to clean up first.
 *
 * Without interrupt_catch SIGINT ends the process at once, as everywhere. After it the first SIGINT or
 * SIGTERM only sets the flag; a second one ends the process.
 */
#ifndef HEARTH_JOBCTL_INTERRUPT_H
#define HEARTH_JOBCTL_INTERRUPT_H

#define EXIT_INTERRUPTED 130

void interrupt_catch(void);
int interrupted(void);
int interrupt_fd(void);      /* readable from then on; -1 when not caught */
int interrupt_sleep(int ms); /* 1: interrupted */

#endif
