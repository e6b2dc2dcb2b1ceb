/*
 * record: the input of the library, and what it decides, as lines of text.
 *
 * Promise of this folder: a library that is given the lines of a record decides the same, and the record of
 * that is the same text. It writes and reads lines, and knows nothing of nodes or jobs beyond what a line
 * says. It may use scheduler/base and the public header.
 *
 * docs/spec/12-history.md has the format: one line for each input, in order. The caller of sched_record
 * stores the lines. Lines of its own may stand between them ("at", "try", "tried", and those that begin with
 * "hearth-").
 */
#ifndef HEARTH_SCHEDULER_RECORD_RECORD_H
#define HEARTH_SCHEDULER_RECORD_RECORD_H
#include "scheduler/sched.h"

enum record_line_kind {
	LINE_NOTHING, /* an empty line, or one that is not for the library (hearth-...) */
	LINE_AT,      /* id: milliseconds, of the clock that LINE_NOW has in seconds */
	LINE_TRY,     /* until LINE_TRIED somebody only asks what would be */
	LINE_TRIED,
	LINE_NOW, /* id: seconds */
	LINE_POLICY,
	LINE_QUEUE,
	LINE_CLOSE, /* name, yes */
	LINE_USED,  /* name, number, id: at */
	LINE_NODE,
	LINE_GONE, /* id: node */
	LINE_RESERVATION,
	LINE_UNRESERVE, /* id */
	LINE_JOB,
	LINE_EXCHANGE, /* job, drop */
	LINE_RESTORE,  /* job, places, id: when it started, seconds */
	LINE_HOLDS,    /* job (memory, disk, exclusive), places */
	LINE_REMOVE,   /* id, as the next five */
	LINE_PARK,
	LINE_KNOW,
	LINE_STARTED,
	LINE_END,     /* yes: well */
	LINE_RELEASE, /* node_id, too */
	LINE_POOL,
	LINE_POOL_REMOVE, /* id */
	LINE_STEP         /* places: what was decided; job 0 nothing */
};
struct record_line { /* one line; all texts and vectors belong to the teller, until its next line */
	enum record_line_kind kind;
	uint64_t id, node_id;
	int yes;
	double number;
	const char *name;
	struct sched_policy policy;
	struct sched_queue queue;
	struct sched_node node;
	struct sched_reservation reservation;
	struct sched_job job;
	const uint64_t *drop;
	uint32_t n_drop;
	struct sched_decision places;
	struct sched_pool pool;
};

struct record_reader;
struct record_reader *record_reader_create(void);
void record_reader_destroy(struct record_reader *t);
/* One line, with or without its \n. -1: *what says what is wrong (static text). */
int record_reader_next(struct record_reader *t, const char *line, size_t n, struct record_line *out,
                       const char **what);
/* Is that the decision that was made? d NULL: nothing. */
int record_line_matches(const struct record_line *step, const struct sched_decision *d);

#endif
