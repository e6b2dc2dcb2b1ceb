/*
 * marks: processes by their mark, an entry NAME=value of their environment.
 *
 * One look through /proc serves any number of marks, so its cost grows with the processes of the machine and
 * not with the marks. The look reads at most MARKS_ENVIRON_MAX bytes of each environment: whoever starts a
 * marked process puts the mark first. A process is signalled by a pidfd that was opened before its
 * environment was read: a number that is used again meanwhile can only make the signal miss.
 *
 * A set belongs to one thread at a time.
 */
#ifndef HEARTH_COMMON_OS_MARKS_H
#define HEARTH_COMMON_OS_MARKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"

#define MARKS_ENVIRON_MAX (128u * 1024)

struct marks;

struct marks *marks_create(const char *name);
void marks_destroy(struct marks *m); /* NULL allowed */
/* Adds a value and returns its number, 0 for the first. A value that is there keeps its number. */
size_t marks_add(struct marks *m, const char *value);
/* Looks through /proc once and sends signo (0: nothing) to each process that carries one of the marks, except
 * this one. Returns how many it found; -1: /proc cannot be read. */
int marks_scan(struct marks *m, int signo, struct err *e);
uint32_t marks_found(const struct marks *m, size_t i); /* by the last scan, with the i-th value */
/* Processes with a value that is not in the set, by the last scan, which sends them nothing. */
uint32_t marks_strangers(const struct marks *m);
/* Waits until processes that the last scan signalled have ended, at most ms in all. It waits for some of them
 * only, so that a scan holds few descriptors. */
void marks_wait(struct marks *m, uint32_t ms);

#endif
