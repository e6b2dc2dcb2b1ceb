/*
 * jobctl_answers: a controller of fixed answers, for tests of jobctl's verbs.
 */
#ifndef HEARTH_TESTS_UNIT_JOBCTL_JOBCTL_ANSWERS_H
#define HEARTH_TESTS_UNIT_JOBCTL_JOBCTL_ANSWERS_H

#include "tests/unit/jobctl/jobctl_server.h"

/* For js_start; of paths it does not know it says 404. */
void jobctl_answers(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg);

#endif
