/*
 * verbs: the verbs that talk to the controller, one file per group. A verb checks its arguments, makes its
 * calls and prints the answer; what several verbs print is in show/.
 *
 * Each list ends with a NULL name.
 */
#ifndef HEARTH_JOBCTL_VERBS_VERBS_H
#define HEARTH_JOBCTL_VERBS_VERBS_H

#include "jobctl/client/ctx.h"

extern const struct verb verbs_change[], verbs_checkpoints[], verbs_classify[], verbs_cluster[],
    verbs_completion[], verbs_cost[], verbs_data[], verbs_diff[], verbs_events[], verbs_instances[],
    verbs_jobs[], verbs_logs[], verbs_metrics[], verbs_login[], verbs_pool[], verbs_queue[], verbs_reserve[],
    verbs_token[], verbs_show[], verbs_submit[], verbs_trace[], verbs_wait[];

#endif
