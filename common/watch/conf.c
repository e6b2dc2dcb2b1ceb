/* conf: see conf.h. */
#include "common/watch/conf.h"

const struct watch_conf watch_conf_default = {
    .on = {[WATCH_SPIKE] = WATCH_PIN,
           [WATCH_DROP] = WATCH_PIN,
           [WATCH_NAN] = WATCH_PIN,
           [WATCH_DIVERGENCE] = WATCH_PIN,
           [WATCH_PLATEAU] = WATCH_ALERT,
           [WATCH_SLOW] = WATCH_ALERT,
           [WATCH_STALL] = WATCH_ALERT,
           [WATCH_HANG] = WATCH_ALERT},
    .rising_steps = 50,
    .patience_steps = 200,
    .margin_steps = 100,
    .max_rollbacks = 3,
    .missing_steps = 50,
    .settle_steps = 50,
    .spike_points = 3,
    .spike_floor = 0.2,
    .spike_share = 0.05,
    .spike_sigma = 5,
    .heal_sigma = 3,
    .drop_share = 0.15,
    .drop_sigma = 8,
    .divergence_share = 0.12,
    .divergence_sigma = 3,
    .plateau_steps = 2000,
    .plateau_share = 0.001,
    .slow_share = 0.04,
    .slow_sigma = 1.5,
    .slow_steps = 16,
    .slow_act_steps = 64,
    .stall_times = 60,
    .hang_s = 60,
    .hang_times = 2,
};

const char *watch_kind_name(enum watch_kind k)
{
	static const char *const names[WATCH_KINDS] = {"spike",   "drop", "nan",   "divergence",
	                                               "plateau", "slow", "stall", "hang"};
	return names[k];
}

const char *watch_action_name(enum watch_action a)
{
	static const char *const names[WATCH_ACTIONS] = {"alert", "pin", "rollback", "restart", "stop"};
	return names[a];
}
