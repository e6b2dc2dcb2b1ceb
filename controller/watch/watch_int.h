/* watch_int: what the files of this room share. Not for others. */
#ifndef HEARTH_CONTROLLER_WATCH_WATCH_INT_H
#define HEARTH_CONTROLLER_WATCH_WATCH_INT_H

#include "common/watch/rule.h"
#include "controller/state/jobs.h"
#include "controller/watch/feed.h"

#define WATCH_PINS 4 /* checkpoints of a job that its watches keep pinned: the newest ones */

struct job_rule;

struct job_watch {
	struct cjob *job;
	struct watch_feed *feed; /* NULL: no point since the state was loaded */
	char *stored;            /* as it was loaded; NULL: used up */
	uint32_t pins[WATCH_PINS], n_pins;
	struct job_rule *rules; /* rules.c; in the order of the specification */
	uint32_t n_rules, rules_attempt;
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

/* rules.c. Returns for each name the rules that it concerns, as bits; NULL: the job has no rules. */
uint32_t *watch_rules_of(struct job_watch *w, const struct wire_strv *names);
/* Return 1 when a rule was raised. */
int watch_rules_judge(struct core *c, struct job_watch *w, uint32_t mask, const struct watch_seen *by,
                      const struct feed_point *p);
/* The stored points of a rule's metric that may be beyond a loaded state. 0: the rule has none. */
int watch_rules_series(const struct job_watch *w, uint32_t rule, struct feed_series *out);
int watch_rules_tick(struct core *c, struct job_watch *w);
cJSON *watch_rules_save(const struct job_watch *w);
void watch_rules_load(struct job_watch *w, const cJSON *list, uint32_t attempt);

struct watch_raised {
	const struct watch_rule *rule;
	struct rule_state *state;
	int64_t step; /* -1 none */
	double value; /* of its metric */
};
/* act.c: records that a rule was raised, and does what it says. */
void watch_raise(struct core *c, struct job_watch *w, const struct watch_seen *by,
                 const struct watch_raised *r);
/* replay.c: judges the stored points beyond a loaded state. Returns 1 when there was an alarm or an order. */
int watch_replay(struct core *c, struct job_watch *w);
/* act.c: records alarms and carries out orders. Returns 1 when there was any. */
int watch_report(struct core *c, struct job_watch *w, const struct watch_seen *by,
                 const struct watch_out *out);

#endif
