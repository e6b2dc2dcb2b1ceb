/*
 * access: who may do what to what. One pure function decides for routes, lists, streams and requests.
 *
 * A caller has a role and, when a token brings the call, the token's scope, which only takes rights away. An
 * action reads, submits (a job and the blobs of its source), or changes. A way into a job's processes counts
 * as a change.
 */
#ifndef HEARTH_CONTROLLER_STATE_ACCESS_H
#define HEARTH_CONTROLLER_STATE_ACCESS_H

#include <stdint.h>

#include "common/base/err.h"
#include "controller/state/role.h"

enum token_scope {
	SCOPE_ALL,    /* all that the role may do */
	SCOPE_READ,   /* reads only */
	SCOPE_SUBMIT, /* reads and submits */
};

enum access_action { ACCESS_READ, ACCESS_SUBMIT, ACCESS_CHANGE };

struct access_caller {
	const char *user;
	enum user_role role;
	enum token_scope scope;
	uint64_t token_job; /* of ROLE_JOB: its job */
};

struct access_object {
	enum user_role role; /* least role for the action; ROLE_NONE: no login is needed */
	uint64_t job;        /* 0: the action names no job */
	const char *ref;     /* the job as people write it */
	const char *owner;   /* the job's owner; NULL: not looked up, which leaves the owner's right unchecked */
};

/* Returns 0, or -1 with ERR_UNAUTHORIZED (log in first) or ERR_DENIED. */
int access_check(const struct access_caller *who, enum access_action action, const struct access_object *on,
                 struct err *e);

#endif
