/*
 * jobctl: what all verbs share. A verb is one table entry (struct verb); its exec gets a context with parsed
 * arguments and returns an exit code, or -1 with ctx->err set: main prints it and chooses the exit code
 * (client_exit_code).
 */
#ifndef HEARTH_JOBCTL_JOBCTL_H
#define HEARTH_JOBCTL_JOBCTL_H

#include "common/base/err.h"
#include "jobctl/client/args.h"
#include "jobctl/client/client.h"
#include <cjson/cJSON.h>
#include <stdint.h>

struct ctx {
	const char *url_flag;
	struct client *client; /* made at the first ctx_client */
	struct args args;
	int json;
	struct err err;
	char *problems; /* a text too long for err: printed instead of it */
};

struct verb {
	const char *name; /* "submit", "node drain" */
	const char *operands;
	const char *help;
	const struct arg_opt *opts;
	unsigned min, max; /* operands */
	int (*exec)(struct ctx *c);
};

/* exit codes of the interface */
enum {
	EXIT_OK = 0,
	EXIT_JOB_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NOT_FOUND = 3,
	EXIT_REFUSED = 4,
	EXIT_NO_CONTROLLER = 5,
	EXIT_TIMED_OUT = 124,
	EXIT_PIPE = 141 /* the reader of standard output is gone; as the signal would say */
};

extern const struct verb
    *const verb_lists[]; /* NULL-terminated list of lists, each ending with a NULL name */
extern const struct verb verbs_submit[], verbs_jobs[], verbs_show[], verbs_change[], verbs_logs[],
    verbs_data[], verbs_metrics[], verbs_diff[], verbs_queue[], verbs_instances[], verbs_cost[],
    verbs_reserve[], verbs_wait[], verbs_events[], verbs_cluster[], verbs_local[], verbs_simulate[],
    verbs_trace[], verbs_completion[];

struct client *ctx_client(struct ctx *c); /* NULL: ctx->err is set */
int ctx_fail(struct ctx *c, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A decimal number ("0.5", "1e-3"); what is none, is hexadecimal, nan or too large is refused by its key's
 * name.
 */
int ctx_number(struct ctx *c, const char *key, const char *value, double *out);
/* A call; *out is the caller's, an object without members when the answer was empty. */
int ctx_get(struct ctx *c, const char *method, const char *path, const cJSON *body, cJSON **out);
/* The same, but when --json was given the answer is printed. 1: printed, 0: *out is the caller's, -1 error.
 */
int ctx_call(struct ctx *c, const char *method, const char *path, const cJSON *body, cJSON **out);
void ctx_print_json(const cJSON *v);
int ctx_show_json(struct ctx *c, const cJSON *answer); /* 1: printed, since --json was given */
cJSON *ctx_job(struct ctx *c, uint64_t job);           /* the record; NULL: ctx->err is set */
const cJSON *jget(const cJSON *o, const char *key);
const char *jtext(const cJSON *o, const char *key); /* NULL when it is no string */

/* A job reference -> id: number, "last", NAME, NAME~N. 0 or -1. */
int ref_resolve(struct ctx *c, const char *ref, uint64_t *job);
/* One of the jobs that operands name. */
struct job_ref {
	uint64_t id;   /* 0: nothing is called so, why says it */
	char *why;     /* NULL unless id is 0 */
	unsigned part; /* which part of the lists named it, counted from 1 */
	char *range;   /* "17-20" when that part is a range, else NULL */
};
/* Operands that may be lists and ranges (17-20,23,last). Names that nothing has are in the list, too; any
 * other failure gives -1. */
int ref_resolve_list(struct ctx *c, const char *const *refs, size_t n, struct job_ref **list, size_t *count);
void ref_list_free(struct job_ref *list, size_t count);
/* "17-20,23" -> parts; pure, for tests. Calls fn for each single reference; part is what it stands in. */
typedef int (*ref_fn)(const char *ref, const char *part, void *arg);
int ref_expand(const char *text, ref_fn fn, void *arg, struct err *e);

/* "a.b.c=value": value is JSON when it parses as JSON and the key takes more than text, else a string. *key
 * and *value are the caller's. */
int spec_assignment(const char *assignment, char **key, cJSON **value, struct err *e);
/* Does a specification have a key that begins so ("resources.gpus" with "resources")? */
int spec_is_key(const char *key);
/* Refuses an assignment to a key that there is not; hps: those of the job, NULL unknown. */
int spec_check_key(const char *assignment, const cJSON *hps, struct err *e);
/* The same, put into a specification; null removes the key. */
int spec_set(cJSON *spec, const char *assignment, struct err *e);

#define AFTER_KIND_SIZE 16
/* "afterany:JOB" -> "afterany" and JOB; "JOB" -> "afterok". No job's name holds a colon. */
int spec_after_kind_of(const char *text, char kind[AFTER_KIND_SIZE], const char **ref, struct err *e);

/* Waits until the job has ended. 0: *status malloc'ed end state. deadline_us on the boot clock, 0 none. */
int job_wait_end(struct ctx *c, uint64_t job, uint64_t deadline_us, char **status);
/* Waits until it has ended and says on standard error how; job_exit_code, -1, EXIT_INTERRUPTED. */
int job_tell_end(struct ctx *c, uint64_t job);
/* After its log: with --json standard output has lines of the log alone, the end stands on standard error. */
int job_tell_end_aside(struct ctx *c, uint64_t job);
int job_follow_log(struct ctx *c, uint64_t job); /* its log to the end; 0, -1, EXIT_INTERRUPTED */
int job_exit_code(const char *status);           /* completed 0, else 1 */
int job_ended(const char *status);
/* Says that the job goes on after Ctrl-C; returns EXIT_INTERRUPTED. */
int job_left_running(uint64_t job);

/* A controller that is away while something is followed or waited for is given this long to come back. */
#define LOST_PATIENCE_S 300

#endif
