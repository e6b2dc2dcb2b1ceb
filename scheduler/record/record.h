/*
 * record: what is told to the library, and what it decides, as lines of text; and such lines told again.
 *
 * One line an input, in order, each with all that the library was told: a new library that is told the same
 * lines decides the same. docs/spec/12-history.md has the format. The caller of sched_record writes the lines
 * down; lines of its own may stand between them ("at", "try", "tried", and those that begin with "hearth-").
 */
#ifndef HEARTH_SCHEDULER_RECORD_H
#define HEARTH_SCHEDULER_RECORD_H

#include "scheduler/sched.h"

/* line ends with \n and stays the library's. */
typedef void (*sched_record_fn)(const char *line, size_t n, void *arg);
/* Of a library that nothing was told yet but its policy: from now on each input is a line. fn NULL: no more.
 */
void sched_record(struct sched *s, sched_record_fn fn, void *arg);

enum told_kind {
	TOLD_NOTHING, /* an empty line, or one that is not for the library (hearth-...) */
	TOLD_AT,      /* id: milliseconds, of the clock that TOLD_NOW has in seconds */
	TOLD_TRY,     /* until TOLD_TRIED somebody only asks what would be */
	TOLD_TRIED,
	TOLD_NOW, /* id: seconds */
	TOLD_POLICY,
	TOLD_QUEUE,
	TOLD_CLOSE, /* name, yes */
	TOLD_USED,  /* name, number, id: at */
	TOLD_NODE,
	TOLD_GONE, /* id: node */
	TOLD_BOOK,
	TOLD_UNBOOK, /* id */
	TOLD_JOB,
	TOLD_RESTORE, /* job, places, id: when it started, seconds */
	TOLD_HOLDS,   /* job (memory, disk, exclusive), places */
	TOLD_REMOVE,  /* id, as the next five */
	TOLD_PARK,
	TOLD_KNOW,
	TOLD_STARTED,
	TOLD_END,     /* yes: well */
	TOLD_RELEASE, /* node_id, too */
	TOLD_STEP     /* places: what was decided; job 0 nothing */
};
struct sched_told { /* one line; all texts and vectors belong to the teller, until its next line */
	enum told_kind kind;
	uint64_t id, node_id;
	int yes;
	double number;
	const char *name;
	struct sched_policy policy;
	struct sched_queue queue;
	struct sched_node node;
	struct sched_book book;
	struct sched_job job;
	struct sched_decision places;
};

struct teller;
struct teller *teller_create(void);
void teller_destroy(struct teller *t);
/* One line, with or without its \n. -1: *what says what is wrong (static text). */
int teller_read(struct teller *t, const char *line, size_t n, struct sched_told *out, const char **what);
/* Tells it. TOLD_STEP, and what is not for the library, does nothing: the caller asks (sched_step) and
 * compares. TOLD_POLICY only before the first job. */
void told_tell(struct sched *s, const struct sched_told *in);
/* Is that the decision that was made? d NULL: nothing. */
int told_same(const struct sched_told *step, const struct sched_decision *d);

#endif
