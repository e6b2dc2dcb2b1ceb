/*
 * identity: who makes a call.
 */
#ifndef HEARTH_CONTROLLER_HTTP_IDENTITY_H
#define HEARTH_CONTROLLER_HTTP_IDENTITY_H

#include <stdint.h>

#include "controller/http/accounts.h"
#include "controller/state/access.h"

#define AUTH_USER_SIZE 128
#define TOKEN_ID_SIZE  24

struct identity {
	char user[AUTH_USER_SIZE]; /* "" unknown */
	enum user_role role;
	enum token_scope scope;
	uint64_t token_job;              /* of ROLE_JOB */
	char token_id[TOKEN_ID_SIZE];    /* of a token or session of the store; "" none */
	uint64_t expires_us;             /* of that token; 0 never */
	char account[ACCOUNT_NAME_SIZE]; /* Unix account that runs this user's jobs; "" none */
	/* The account is the user's own, not one of run_as: the kernel named it, now or when the token was made.
	 * Tokens and sessions that this caller makes for itself carry it. */
	uint8_t account_own;
	uint8_t use_due; /* the use of the token is to be recorded */
};

#endif
