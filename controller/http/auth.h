/*
 * auth: who makes this call, and may a browser's request be trusted.
 *
 * Sources, in this order: the unix socket's peer credentials; `Authorization: Bearer TOKEN` with
 * DATA/admin.token or a token of the store (by its SHA-256); the session cookie of the dashboard. A cookie
 * has user, role and expiry, signed by a key that lives as long as the process, so no I/O thread stores
 * sessions. The code of a login link is the same with a life of one minute and works once.
 *
 * Against DNS rebinding, a loopback listener answers only to loopback names in Host. Against forged requests
 * of other sites, an Origin that is present must equal Host.
 */
#ifndef HEARTH_CONTROLLER_HTTP_AUTH_H
#define HEARTH_CONTROLLER_HTTP_AUTH_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "controller/http/accounts.h"
#include "controller/state/role.h"

#define AUTH_USER_SIZE 128
#define AUTH_COOKIE    "hearth_session"

struct auth;
struct store_reader;

struct identity {
	char user[AUTH_USER_SIZE]; /* "" unknown */
	enum user_role role;
	uint64_t token_job;              /* of ROLE_JOB */
	char account[ACCOUNT_NAME_SIZE]; /* Unix account that runs this user's jobs; "" none */
};

/* Reads DATA/admin.token, makes it (0600) when missing. accounts: outlives it; NULL: no rules. */
struct auth *auth_create(const char *data_dir, const char *admin_user, const struct accounts *accounts,
                         struct err *e);
void auth_destroy(struct auth *a);

/* Per-thread memory of account names (NSS may be slow). */
struct auth_names;
struct auth_names *auth_names_create(void);
void auth_names_destroy(struct auth_names *n);

struct auth_call {
	const char *authorization, *cookie, *host, *origin; /* headers, NULL none */
	int is_unix;
	uint32_t uid;
	int loopback; /* the TCP listener is a loopback one */
	int write;    /* the call changes something */
	uint64_t now_real_us;
	struct store_reader *reader; /* for tokens; NULL: only admin.token */
};
/* Host and Origin. ERR_DENIED with a sentence. */
int auth_check_origin(const struct auth_call *c, struct err *e);
/* Fills *out; ROLE_NONE when the call has no token, cookie or peer; -1 when one of them is invalid
 * (ERR_UNAUTHORIZED). */
int auth_identify(struct auth *a, struct auth_names *names, const struct auth_call *c, struct identity *out,
                  struct err *e);
/* The sentence for 401, where a token is found. */
const char *auth_hint(const struct auth *a);

/* Cookie or login code for an identity; malloc'ed. kind: 's' session, 'c' login code. */
char *auth_sign(struct auth *a, char kind, const struct identity *who, uint64_t expires_real_us);
int auth_verify(struct auth *a, char kind, const char *text, uint64_t now_real_us, struct identity *out,
                struct err *e);

#endif
