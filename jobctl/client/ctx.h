/*
 * client: what every verb needs to talk to hearthd. It parses arguments, finds the controller and calls it,
 * resolves job references, and moves files up and down. It prints nothing but progress and errors of a call.
 *
 * ctx: the context of one verb. A verb is one table entry (struct verb). Its exec gets a context with parsed
 * arguments and returns an exit code, or -1 with ctx->err set: main then prints the error and chooses the
 * exit code (client_exit_code).
 */
#ifndef HEARTH_JOBCTL_CLIENT_CTX_H
#define HEARTH_JOBCTL_CLIENT_CTX_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "common/base/err.h"
#include "jobctl/client/args.h"
#include "jobctl/client/client.h"

struct verb;

struct ctx {
	const struct verb *const *verbs; /* all verbs: lists that end with a NULL name, then NULL */
	client_url_fn find_local;        /* finds the local cluster; NULL: do not look for one */
	const char *url_flag;
	struct client *client; /* made by the first ctx_client */
	struct args args;
	int json;
	struct err err;
	char *problems; /* a text too long for err; main prints it instead */
};

struct verb {
	const char *name; /* "submit", "node drain" */
	const char *operands;
	const char *help; /* a verb phrase */
	const struct arg_opt *opts;
	unsigned min, max; /* operands */
	int (*exec)(struct ctx *c);
};

/* Exit codes of the interface. */
enum {
	EXIT_OK = 0,
	EXIT_JOB_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NOT_FOUND = 3,
	EXIT_REFUSED = 4,
	EXIT_NO_CONTROLLER = 5,
	EXIT_TIMED_OUT = 124,
	EXIT_PIPE = 141 /* the reader of standard output has gone; the code that SIGPIPE gives */
};

/* Returns the context's client, made when needed; NULL: ctx->err is set. */
struct client *ctx_client(struct ctx *c);
/* Makes a second client for the same controller, for calls while the first one reads an answer. */
struct client *ctx_second_client(struct ctx *c, unsigned patience_s, struct err *e);
/* Sets ctx->err; returns -1. */
int ctx_fail(struct ctx *c, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Reads a decimal number ("0.5", "1e-3"). Hexadecimal, nan, inf and other text is invalid; the error names
 * key. */
int ctx_number(struct ctx *c, const char *key, const char *value, double *out);
/* Makes a call. *out is the caller's; an empty answer becomes an object without members. */
int ctx_get(struct ctx *c, const char *method, const char *path, const cJSON *body, cJSON **out);
/* Makes a call and prints the answer if --json was given. 1: printed, 0: *out is the caller's, -1: error. */
int ctx_call(struct ctx *c, const char *method, const char *path, const cJSON *body, cJSON **out);
void ctx_print_json(const cJSON *v);
int ctx_show_json(struct ctx *c, const cJSON *answer); /* 1: printed, because --json was given */
cJSON *ctx_job(struct ctx *c, uint64_t job);           /* the job's record; NULL: ctx->err is set */
const cJSON *jget(const cJSON *o, const char *key);
const char *jtext(const cJSON *o, const char *key); /* NULL unless it is a string */

#endif
