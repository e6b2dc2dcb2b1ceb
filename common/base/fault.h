/*
 * fault: named failpoints, compiled out without --enable-faults.
 *
 *   if (FAULT("store.commit")) return err_set(e, ERR_IO, "injected");
 *
 * Armed by name through HEARTH_FAULTS="store.commit=3x2,shim.write=1" (fail the third and fourth call; the
 * first call once), read at the first point that is hit, or by fault_arm in tests. fault.c has one table of
 * the names; an unknown name ends the program.
 */
#ifndef HEARTH_COMMON_BASE_FAULT_H
#define HEARTH_COMMON_BASE_FAULT_H

#ifdef HEARTH_FAULTS
int fault_hit(const char *name);
int fault_arm(const char *name, unsigned nth, unsigned repeat); /* -1 unknown name */
int fault_arm_env(const char *value);
void fault_clear(void);
unsigned fault_count(const char *name); /* calls seen since clear */
#define FAULT(name) fault_hit(name)
#else
#define FAULT(name) 0
#endif

#endif
