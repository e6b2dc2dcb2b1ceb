/*
 * watch: judges the loss and the step times of a training run. Promise: pure state machines. They do no I/O,
 * read no clock, never log, use a few KiB for each series and O(window) time for each point, and return what
 * they find as data. The caller feeds points, stores the state, and carries out the orders.
 *
 * conf: what the machines look for, and what follows; watch_conf_default has every default.
 */
#ifndef HEARTH_COMMON_WATCH_CONF_H
#define HEARTH_COMMON_WATCH_CONF_H

#include <stdint.h>

enum watch_kind {
	WATCH_SPIKE,      /* the loss is far above its level for several steps */
	WATCH_DROP,       /* far below it */
	WATCH_NAN,        /* the loss is not finite, or missing while steps go on */
	WATCH_DIVERGENCE, /* the level itself rises slowly */
	WATCH_PLATEAU,    /* the level has stopped to fall */
	WATCH_SLOW,       /* steps take longer than they did */
	WATCH_STALL,      /* one step took very long */
	WATCH_HANG,       /* no step has ended for longer than any legal pause */
	WATCH_KINDS
};

enum watch_action {
	WATCH_ALERT, /* the alarm alone */
	WATCH_PIN,   /* and the last good checkpoint is preserved */
	WATCH_ROLLBACK,
	WATCH_RESTART,
	WATCH_STOP,
	WATCH_ACTIONS
};

struct watch_conf {
	enum watch_action on[WATCH_KINDS];
	int64_t rising_steps;   /* a spike that still rises so many steps after its onset is acted on */
	int64_t patience_steps; /* one that has not healed after so many steps is, too */
	int64_t margin_steps;   /* distance from the checkpoint to the onset; doubles with each rollback */
	int64_t max_rollbacks;  /* then stop */
	int64_t missing_steps;  /* steps without a loss that count as NaN */
	int64_t settle_steps;   /* steps after the order of a rollback in which nothing is judged */
	int64_t
	    spike_points;   /* high points that make a spike, 2 when the loss is logged every 3rd step or less */
	double spike_floor; /* least height of a spike, in the unit of the loss */
	double spike_share; /* least height as a share of the reference */
	double spike_sigma; /* least height in robust standard deviations */
	double heal_sigma;  /* a point so near to the reference has healed */
	double drop_share;  /* as the spike's, for drops */
	double drop_sigma;
	double divergence_share; /* rise of the level, as a share of its best */
	double divergence_sigma;
	int64_t plateau_steps;  /* a plateau is at least so long, and half of the run */
	double plateau_share;   /* a smaller improvement, as a share of the whole one, does not count */
	double slow_share;      /* rise of the step time that counts, as a share */
	double slow_sigma;      /* and in robust standard deviations */
	int64_t slow_steps;     /* steps that a rise lasts before the alarm, when the step time is steady */
	int64_t slow_act_steps; /* steps that it lasts before the action */
	double stall_times;     /* step time, as a multiple of the median, that is a stall */
	double hang_s;          /* least seconds without a step that are a hang */
	double hang_times;      /* and the least multiple of the longest pause seen */
};

extern const struct watch_conf watch_conf_default;

const char *watch_kind_name(enum watch_kind k);     /* "spike" */
const char *watch_action_name(enum watch_action a); /* "rollback" */

#endif
