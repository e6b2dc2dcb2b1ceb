/* watch_int: what the files of this room share. Not for others. */
#ifndef HEARTH_CONTROLLER_WATCH_WATCH_INT_H
#define HEARTH_CONTROLLER_WATCH_WATCH_INT_H

#include "controller/state/jobs.h"
#include "controller/watch/feed.h"

#define WATCH_PINS 4 /* checkpoints of a job that its watches keep pinned: the newest ones */

struct job_watch {
	struct cjob *job;
	struct watch_feed *feed; /* NULL: no point since the state was loaded */
	char *stored;            /* as it was loaded; NULL: used up */
	uint32_t pins[WATCH_PINS], n_pins;
	uint64_t seen_us;       /* boot: of the newest step; 0: none in this attempt */
	uint64_t saved_us;      /* boot */
	uint64_t refill_us;     /* boot: the rate of its points is used up to here */
	uint32_t saved_attempt; /* of the stored state; 0 none */
	uint8_t dirty, has_row;
	struct job_watch *prev, *next;
};

struct watch_seen { /* what brought the news */
	uint32_t rank;  /* NO_RANK: silence */
	const char *node;
};

/* replay.c: judges the stored points beyond a loaded state. Returns 1 when there was an alarm or an order. */
int watch_replay(struct core *c, struct job_watch *w);
/* act.c: records alarms and carries out orders. Returns 1 when there was any. */
int watch_report(struct core *c, struct job_watch *w, const struct watch_seen *by,
                 const struct watch_out *out);

#endif
