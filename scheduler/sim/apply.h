/* apply: gives the library one line of a record. */
#ifndef HEARTH_SCHEDULER_SIM_APPLY_H
#define HEARTH_SCHEDULER_SIM_APPLY_H
#include "scheduler/record/record.h"

/* Does nothing for LINE_STEP, for which the caller asks (sched_step) and compares, and for lines that are not
 * for the library. LINE_POLICY only before the first job. */
void record_line_apply(struct sched *s, const struct record_line *in);

#endif
