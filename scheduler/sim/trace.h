/*
 * trace: reader of recorded job traces (CSV with a header line) into one internal form.
 *
 * Columns are found by their names: submit_s, duration_s and gpus must be there, user_or_vc and status may;
 * others are passed over. Whole numbers only. Fields may stand in quotes, as RFC 4180 has it: commas, ends of
 * lines and doubled quotes in them belong to the field, and "ab" is the same as ab. The library does no input
 * or output: the caller brings the bytes of the file, and gets the place of a mistake as line and column.
 */
#ifndef HEARTH_SCHEDULER_SIM_TRACE_H
#define HEARTH_SCHEDULER_SIM_TRACE_H
#include <stddef.h>
#include <stdint.h>

#define TRACE_MAX_SECONDS  10000000000u /* 317 years */
#define TRACE_MAX_GPUS     1000000u
#define TRACE_MAX_PRIORITY 1000u

struct trace_job {
	uint64_t submit_s, duration_s;
	uint32_t gpus;
	uint32_t user; /* index into users */
	int32_t priority;
	int firm; /* not preemptible */
};
struct trace {
	struct trace_job *jobs; /* in order of the file */
	size_t n;
	char **users; /* in order of first appearance; users[0] is "" when the column is missing */
	uint32_t n_users;
};
struct trace_mistake {
	size_t line, column; /* from 1; column counts bytes */
	const char *field;   /* name of the column, NULL none */
	const char *what;
};

/* 0 or -1 with *m. */
int trace_parse(struct trace *t, const char *text, size_t n, struct trace_mistake *m);
/* The same, and reads the columns priority (-1000 to 1000) and preemptible (0 or 1), which may be missing. */
int trace_parse_priorities(struct trace *t, const char *text, size_t n, struct trace_mistake *m);
void trace_fini(struct trace *t);

#endif
