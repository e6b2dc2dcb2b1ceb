/*
 * matcher: the users' patterns, metrics files and lines of failures of one launch, searched on threads.
 * Nothing of it runs on the agent's loop but the hand-over of bytes and points.
 *
 * All launches share a pool of MATCH_THREADS threads. A launch has one task at a time: at most MATCH_CHUNK
 * bytes, 1,000 points and MATCH_QUANTUM_US of CPU time. Then it goes to the end of the queue, so every launch
 * gets its turn. A thread for each launch would be as fair, and cost a stack and a start for each launch.
 * Within a launch the streams take turns in the same way.
 *
 * Lines of failures have a budget of their own, one part in MATCH_FAILURE_SHARE of a CPU. When it is empty,
 * lines are skipped: log bytes never wait, and the end of a stream is always read.
 *
 * A launch has two further budgets of CPU time, for patterns and for metrics files. Each is a bucket that
 * holds MATCH_BURST_US and fills at one part in MATCH_SHARE of a CPU. When the bucket of the patterns is
 * empty, the matcher switches off the costliest ones, until the others caused at most half of the cost, and
 * fills the bucket. `off` reports each, and DIR/patterns_off keeps the list for the next agent. When no
 * pattern is to blame, as with very many empty lines, the search waits until the bucket fills. So do metrics
 * files: their lines are all alike. Log bytes never wait.
 */
#ifndef HEARTH_AGENT_LOGS_MATCHER_H
#define HEARTH_AGENT_LOGS_MATCHER_H

#include "agent/base/agent_env.h"
#include "agent/logs/failures.h"
#include "agent/logs/metrics.h"
#include "common/base/buf.h"

#define MATCH_THREADS          2u            /* of all launches together */
#define MATCH_CHUNK            (128u * 1024) /* bytes of a task */
#define MATCH_POINTS           1000u    /* points of a task; the line that reaches it still counts whole */
#define MATCH_QUANTUM_US       20000u   /* CPU time of a task; the line that passes it is searched whole */
#define MATCH_BURST_US         5000000u /* CPU time of a launch at once */
#define MATCH_SHARE            4u       /* and one of so many microseconds for ever */
#define MATCH_FAILURE_BURST_US 1000000u /* the same for lines of failures */
#define MATCH_FAILURE_SHARE    100u

struct match_pool;
struct match_pool *match_pool_create(struct agent_env *env);
void match_pool_destroy(struct match_pool *p); /* no matcher may be left */
/* Another budget for launches that come later, so that a test need not spend seconds. */
void match_pool_set_budget(struct match_pool *p, uint64_t burst_us, uint32_t share);

/* Replaces the administrator's rules for lines of failures; NULL: none. A wrong line is logged, and the old
 * rules stay. */
void match_pool_set_rules(struct match_pool *p, const char *text);

struct match_off { /* valid during the call */
	const char *metric, *pattern;
	uint32_t rank;    /* whose line was searched last */
	unsigned gave_up; /* searches that came to no end; 0: the budget was used up */
};

struct matcher; /* of one launch */
/* dir: where the list of patterns that are off lies. */
struct matcher *matcher_create(struct match_pool *p, const char *dir);
void matcher_destroy(struct matcher *m); /* no feed may be left; a task under way is dropped */
/* The first call with patterns counts. spec is not kept. Returns 1 when the launch has patterns. */
int matcher_patterns(struct matcher *m, const struct job_spec *spec);

struct match_chunk { /* what a feed is asked for */
	uint8_t *data;   /* room for MATCH_CHUNK bytes */
	size_t n;
	uint64_t at;     /* offset of the first byte in the stream */
	struct buf recs; /* index records of the bytes (segments.h); may stay empty */
	int fresh;       /* bytes before these are lost: forget the unfinished line */
	int end;         /* no bytes: the stream has ended, and so has its last line */
};
struct match_result { /* of one task */
	size_t took;      /* bytes of the chunk that were searched */
	uint64_t pending; /* bytes before their end that belong to an unfinished line */
	int64_t step;
	int rest; /* the end of the stream is a task of its own, even if no line is unfinished */
	int ended;
};
struct match_feed_ops {
	/* Fills c. 1: yes; 0: there is nothing now, or no room for points. match_feed_want asks again. */
	int (*fill)(struct match_chunk *c, void *arg);
	void (*point)(const struct metric_point *p, void *arg); /* for each, before `searched` */
	void (*searched)(const struct match_result *r,
	                 void *arg);                       /* a task is over; the feed asks on by itself */
	void (*off)(const struct match_off *o, void *arg); /* on any feed of the launch */
	/* A line names a failure: a stronger one than those before. NULL: such lines are not wanted. */
	void (*failure)(const struct cause *c, void *arg);
};
enum match_kind { MATCH_OUTPUT, MATCH_JSON, MATCH_PLAIN }; /* PLAIN: output without metrics */
struct match_feed;                                         /* one source: output or metrics file of a rank */
struct match_feed *match_feed_create(struct matcher *m, enum match_kind kind, uint32_t rank, int64_t step,
                                     const struct match_feed_ops *ops, void *arg);
void match_feed_destroy(struct match_feed *f); /* NULL allowed; a task under way is dropped */
void match_feed_want(struct match_feed *f);    /* there may be bytes, or room */

#endif
