/*
 * interrupt: Ctrl-C as a flag and as a descriptor, for verbs that report or clean up before they end.
 *
 * Without interrupt_catch, SIGINT ends the process at once. After it the first SIGINT or SIGTERM only sets
 * the flag; a second one ends the process.
 */
#ifndef HEARTH_JOBCTL_CLIENT_INTERRUPT_H
#define HEARTH_JOBCTL_CLIENT_INTERRUPT_H

#define EXIT_INTERRUPTED 130

void interrupt_catch(void);
int interrupted(void);
int interrupt_fd(void);      /* readable after Ctrl-C; -1: not caught */
int interrupt_sleep(int ms); /* 1: interrupted */

#endif
