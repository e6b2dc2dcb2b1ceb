/*
 * requests: requests of users to the state thread. Each handler in the table of requests answers its request
 * exactly once, immediately or later.
 */
#ifndef HEARTH_CONTROLLER_REQUESTS_REQUESTS_H
#define HEARTH_CONTROLLER_REQUESTS_REQUESTS_H

#include "controller/state/core_state.h"
#include "controller/state/request.h"

#define R(op, handler, role, effect, text) void handler(struct core *c, struct request *rq);
REQUEST_OPS(R) /* controller/state/request_table.h */
#undef R

/* Kinds of REQ_TOKEN (user_tokens_req.c). */
void make_user_token(struct core *c, struct request *rq);
void make_session(struct core *c, struct request *rq);
void token_forget_expired(struct core *c); /* removes expired tokens; to be called when one is made */
void token_post_removed(struct core *c, const char *id, const char *by);

#endif
