/*
 * table: what a line of a log says about the end of a job. The table is built in (failure_patterns.conf); an
 * administrator's file comes before it. Pure: callers read files and lines themselves.
 *
 * A table never changes, so threads may share it. Each thread has a reader of its own. The first pattern that
 * matches decides. A line that has none of the words that the patterns need costs one pass over its bytes.
 */
#ifndef HEARTH_COMMON_CLASSIFY_TABLE_H
#define HEARTH_COMMON_CLASSIFY_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define CLASSIFY_LINE_MAX 4096u         /* bytes of a line that are read */
#define CLASSIFY_FILE_MAX (256u * 1024) /* bytes of an administrator's file */
#define CLASSIFY_RULES    1000u         /* rules of such a file */
#define CLASSIFY_OPEN     16u /* of its patterns without fixed text: these are tried on every line */

/* clang-format off */
#define VERDICTS(V) \
	V(VERDICT_UNKNOWN, "unknown") V(VERDICT_SYMPTOM, "symptom") V(VERDICT_RECORD, "record") \
	V(VERDICT_REQUEUE, "requeue") V(VERDICT_USER, "user") V(VERDICT_ROLLBACK, "rollback") \
	V(VERDICT_MOVE, "move") V(VERDICT_DRAIN, "drain")
/* clang-format on */
#define V(e, t) e,
enum line_verdict { VERDICTS(V) N_VERDICT };
#undef V
const char *verdict_name(enum line_verdict v);
int verdict_find(const char *name); /* -1 unknown */

struct line_finding { /* what a line means; the texts live as long as the table */
	enum line_verdict verdict;
	int class_number;   /* enum reason_class */
	const char *cls;    /* "gpu", "user_error", ... (docs/spec/01-states.md); "unknown" */
	const char *reason; /* a clause: "the GPU has fallen off the bus" */
};

struct classify_table;
/* extra: an administrator's file, NULL: none. name: what errors call it. NULL: a line is wrong; e names it.
 */
struct classify_table *classify_table_create(const char *extra, const char *name, struct err *e);
void classify_table_destroy(struct classify_table *t);
size_t classify_table_rules(const struct classify_table *t);

struct classify_reader; /* for one thread at a time */
struct classify_reader *classify_reader_create(const struct classify_table *t);
void classify_reader_destroy(struct classify_reader *r);
/* Judges one line, without its newline. */
struct line_finding classify_line(struct classify_reader *r, const char *line, size_t n);

#endif
