/*
 * failure: lines of an attempt's logs that name a failure, as agents report them (event `failure_line`), and
 * the cause that they and the ends of the ranks give together. Pure.
 *
 * An attempt has at most FAILURES_MAX lines. A stronger line (common/classify/cause.h) may come when the list
 * is full of weaker ones; then it replaces the last of the weakest.
 */
#ifndef HEARTH_CONTROLLER_RECORD_FAILURE_H
#define HEARTH_CONTROLLER_RECORD_FAILURE_H

#include <cjson/cJSON.h>

#include "common/classify/table.h"
#include "controller/record/states.h"

#define FAILURES_MAX      8u
#define FAILURE_LINE_MAX  512u /* bytes of a line that are stored */
#define FAILURE_WORDS_MAX 200u /* bytes of a reason */

struct attempt_rec;
struct text;

struct failure_rec {
	uint32_t rank, place; /* rank 0xffffffff: a launcher's output */
	enum reason_class cls;
	enum line_verdict verdict;
	uint64_t at_us; /* real time, by the node's clock */
	char *reason, *line;
};
struct failure_list {
	uint32_t n;
	struct failure_rec v[FAILURES_MAX];
};
void failure_list_free(struct failure_list *l); /* NULL allowed */
/* Whether a line would be stored; the caller then posts the event. l may be NULL. */
int failure_list_wants(const struct failure_list *l, const struct failure_rec *f);
/* Applies the event. */
void failure_list_add(struct failure_list **l, const cJSON *data);
cJSON *failure_json(const struct failure_rec *f); /* data of the event, without the node */

struct attempt_cause {
	enum reason_class cls;
	enum line_verdict verdict;
	uint32_t rank;                  /* n_ranks: no rank is to blame */
	const struct failure_rec *line; /* NULL: no line says it */
};
/* What ended the attempt, by the facts of the kernel and the lines of the logs: lost nodes, limits of memory
 * and disk, lines, signals, exit codes. A line of broken hardware beats the others. Other lines count only
 * near the end of their rank: a program that went on after a line did not end because of it. step_us: real
 * time by the node's clock at which each rank reported its newest step, n_ranks values, 0 none; NULL:
 * unknown. */
struct attempt_cause attempt_cause(const struct attempt_rec *a, const uint64_t *step_us);
/* Adds "rank 3 on node-b: CUDA out of memory ... (GPU memory ran out)". Adds nothing without a line. */
void attempt_cause_words(const struct attempt_rec *a, const struct attempt_cause *c, struct text *t);

#endif
