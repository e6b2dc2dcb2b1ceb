/*
 * access: see access.h.
 */
#include "controller/state/access.h"

#include <string.h>

static int check_scope(enum token_scope scope, enum access_action action, struct err *e)
{
	if (scope == SCOPE_READ && action != ACCESS_READ)
		return err_set(e, ERR_DENIED,
		               "this token may only read; make one with more rights: jobctl token create");
	if (scope == SCOPE_SUBMIT && action == ACCESS_CHANGE)
		return err_set(e, ERR_DENIED,
		               "this token may only read and submit; make one with more rights: jobctl token create");
	return 0;
}

static int check_job(const struct access_caller *who, enum access_action action,
                     const struct access_object *on, struct err *e)
{
	if (who->role == ROLE_JOB && who->token_job != on->job)
		return err_set(e, ERR_DENIED, "a job's token reaches that job only (%llu)",
		               (unsigned long long)who->token_job);
	if (who->role == ROLE_ADMIN || action != ACCESS_CHANGE || !on->owner)
		return 0;
	if (strcmp(on->owner, who->user) == 0)
		return 0;
	return err_set(e, ERR_DENIED, "job %s belongs to %s", on->ref, *on->owner ? on->owner : "nobody");
}

int access_check(const struct access_caller *who, enum access_action action, const struct access_object *on,
                 struct err *e)
{
	if (on->role == ROLE_NONE && !on->job)
		return 0;
	if (who->role == ROLE_NONE)
		return err_set(e, ERR_UNAUTHORIZED,
		               "log in first: no token came with the request (Authorization: Bearer TOKEN)");
	if (who->role < on->role)
		return err_set(e, ERR_DENIED,
		               who->role == ROLE_JOB ? "a job's token is not enough for this"
		                                     : "only an administrator may do this");
	if (check_scope(who->scope, action, e) < 0)
		return -1;
	return on->job ? check_job(who, action, on, e) : 0;
}
