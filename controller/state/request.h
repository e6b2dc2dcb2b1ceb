/*
 * request: what crosses between the I/O threads (HTTP) and the state thread.
 *
 * An I/O thread authenticates, parses and bounds a call, fills a request and sends it through the state
 * thread's channel. The state thread answers each request exactly once by request_reply, after everything
 * that the answer claims is committed. The answer travels back to the I/O thread that asked. A request that
 * meets a full channel is answered 503 by the I/O thread itself.
 */
#ifndef HEARTH_CONTROLLER_STATE_REQUEST_H
#define HEARTH_CONTROLLER_STATE_REQUEST_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/hash.h"
#include "common/spec/spec.h"
#include "controller/state/request_table.h"
#include "controller/state/role.h"

enum request_effect { RQ_ASKS, RQ_CHANGES, RQ_ADDS }; /* see request_table.h */

enum request_op {
#define R(op, handler, role, effect, text) op,
	REQUEST_OPS(R)
#undef R
};

struct request {
	enum request_op op;
	char *user; /* who asks: name of a user; owned */
	enum user_role role;
	char
	    *account; /* Unix account that runs jobs of this user; "": none; NULL: the one with the user's name */
	char *owner;  /* CLONE: who owns the new job; NULL: the user */
	uint64_t token_job;              /* of ROLE_JOB: the job whose token it is */
	char *token_id;                  /* of the token that brings the request; NULL none */
	uint64_t token_expires_us;       /* 0 never */
	int account_own;                 /* account is the user's own, not one of run_as */
	uint64_t job;                    /* 0 none */
	char *node;                      /* node name; NULL none */
	struct job_spec *spec;           /* SUBMIT, CLONE: parsed already */
	char *text;                      /* verbatim spec text */
	cJSON *body;                     /* parsed body; NULL none */
	char *idem_key;                  /* Idempotency-Key; NULL none */
	char idem_digest[HASH_HEX_SIZE]; /* of user + method + path + body */

	/* filled by the I/O side */
	void (*reply)(struct request *rq, int status, cJSON *body,
	              const struct err *e); /* any thread's view: called on the state thread;
	                                       takes rq and body; e set when status >= 400 */
	void *io;                           /* the I/O side's own */
	void *core;                         /* the state thread's own */
};

struct request *request_new(enum request_op op);
void request_free(struct request *rq);
const char *request_op_text(enum request_op op);
int request_op_writes(enum request_op op);  /* 1: changes something */
int request_op_repeats(enum request_op op); /* 1: a repetition gets the stored answer (RQ_CHANGES) */

#endif
