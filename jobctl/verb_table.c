/*
 * verb_table: see verb_table.h.
 */
#include "jobctl/verb_table.h"

#include <stddef.h>

#include "jobctl/local/local.h"
#include "jobctl/sim/simulate.h"
#include "jobctl/verbs/verbs.h"

const struct verb *const verb_table[] = {verbs_submit,     verbs_jobs,
                                         verbs_show,       verbs_wait,
                                         verbs_logs,       verbs_events,
                                         verbs_data,       verbs_checkpoints,
                                         verbs_metrics,    verbs_change,
                                         verbs_diff,       verbs_cluster,
                                         verbs_pool,       verbs_queue,
                                         verbs_instances,  verbs_token,
                                         verbs_login,      verbs_cost,
                                         verbs_reserve,    verbs_local,
                                         verbs_simulate,   verbs_watch_replay,
                                         verbs_trace,      verbs_classify,
                                         verbs_completion, NULL};
