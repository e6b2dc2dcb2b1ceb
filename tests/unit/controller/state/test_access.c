/*
 * The one decision about rights, over all roles, scopes and actions.
 */
#include <string.h>

#include "controller/state/access.h"
#include "tests/lib/tap.h"

static enum err_code verdict(enum user_role role, enum token_scope scope, enum access_action action,
                             enum user_role least, const char *owner)
{
	const struct access_caller who = {.user = "ada", .role = role, .scope = scope, .token_job = 17};
	const struct access_object on = {.role = least, .job = owner ? 17 : 0, .ref = "17", .owner = owner};
	struct err e = {0};

	return access_check(&who, action, &on, &e) < 0 ? e.code : ERR_NONE;
}

static void test_roles(void)
{
	for (int role = ROLE_NONE; role <= ROLE_ADMIN; role++)
		for (int least = ROLE_NONE; least <= ROLE_ADMIN; least++) {
			enum err_code want = least == ROLE_NONE  ? ERR_NONE
			                     : role == ROLE_NONE ? ERR_UNAUTHORIZED
			                     : role < least      ? ERR_DENIED
			                                         : ERR_NONE;

			ok(verdict((enum user_role)role, SCOPE_ALL, ACCESS_CHANGE, (enum user_role)least, NULL) == want,
			   "role %d where %d is needed", role, least);
		}
}

static void test_scopes(void)
{
	static const enum err_code want[3][3] = {/* read, submit, change */
	                                         [SCOPE_ALL] = {ERR_NONE, ERR_NONE, ERR_NONE},
	                                         [SCOPE_READ] = {ERR_NONE, ERR_DENIED, ERR_DENIED},
	                                         [SCOPE_SUBMIT] = {ERR_NONE, ERR_NONE, ERR_DENIED}};

	for (int scope = SCOPE_ALL; scope <= SCOPE_SUBMIT; scope++)
		for (int action = ACCESS_READ; action <= ACCESS_CHANGE; action++)
			for (int role = ROLE_USER; role <= ROLE_ADMIN; role++)
				ok(verdict((enum user_role)role, (enum token_scope)scope, (enum access_action)action,
				           ROLE_USER, NULL) == want[scope][action],
				   "role %d, scope %d, action %d", role, scope, action);
}

static void test_owner(void)
{
	ok(verdict(ROLE_USER, SCOPE_ALL, ACCESS_CHANGE, ROLE_USER, "ada") == ERR_NONE,
	   "an owner changes the job");
	ok(verdict(ROLE_USER, SCOPE_ALL, ACCESS_CHANGE, ROLE_USER, "bob") == ERR_DENIED, "another user does not");
	ok(verdict(ROLE_USER, SCOPE_ALL, ACCESS_CHANGE, ROLE_USER, "") == ERR_DENIED, "nobody's job is nobody's");
	ok(verdict(ROLE_USER, SCOPE_ALL, ACCESS_READ, ROLE_USER, "bob") == ERR_NONE, "another user reads it");
	ok(verdict(ROLE_ADMIN, SCOPE_ALL, ACCESS_CHANGE, ROLE_USER, "bob") == ERR_NONE,
	   "an administrator changes it");
	ok(verdict(ROLE_ADMIN, SCOPE_READ, ACCESS_CHANGE, ROLE_USER, "bob") == ERR_DENIED,
	   "but not with scope read");
}

static void test_job(void)
{
	const struct access_caller who = {.user = "ada", .role = ROLE_JOB, .token_job = 17};
	const struct access_object mine = {.role = ROLE_JOB, .job = 17, .ref = "17", .owner = "ada"},
	                           other = {.role = ROLE_JOB, .job = 18, .ref = "18", .owner = "ada"};
	struct err e;

	ok(access_check(&who, ACCESS_READ, &mine, &e) == 0, "a job's token reads its job");
	ok(access_check(&who, ACCESS_READ, &other, &e) < 0 && e.code == ERR_DENIED,
	   "and no other of the same user");
}

int main(void)
{
	test_roles();
	test_scopes();
	test_owner();
	test_job();
	return tap_done();
}
