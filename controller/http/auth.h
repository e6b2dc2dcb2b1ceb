/*
 * auth: who makes this call, and may a browser's request be trusted.
 *
 * Sources, in this order: `Authorization: Bearer TOKEN` with DATA/admin.token or a token of the store (by its
 * SHA-256); the unix socket's peer credentials; a session of the dashboard. Threads remember tokens, so a
 * call with one reads no store.
 *
 * A session needs its cookie and its key. Browsers send a cookie to every port of a host, so a job's own web
 * service there receives it; the key is in the page's storage, which belongs to one origin, and the page
 * sends it as a header. The code of a login link is signed by a key that lives as long as the process; it
 * lives for a minute and works once.
 *
 * Against DNS rebinding, a loopback listener answers only to loopback names in Host. Against forged requests
 * of other sites, an Origin that is present must equal Host.
 */
#ifndef HEARTH_CONTROLLER_HTTP_AUTH_H
#define HEARTH_CONTROLLER_HTTP_AUTH_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "controller/http/identity.h"

#define AUTH_COOKIE     "hearth_session" /* and _PORT */
#define AUTH_KEY_HEADER "X-Hearth-Key"

struct auth;
struct store_reader;

/* Reads DATA/admin.token, makes it (0600) when missing. accounts: outlives it; NULL: no rules. */
struct auth *auth_create(const char *data_dir, const char *admin_user, const struct accounts *accounts,
                         struct err *e);
void auth_destroy(struct auth *a);

/* Per-thread memory of account names and of tokens (token_cache.h). auth_identify only knows names that were
 * put there. */
struct auth_names;
struct auth_names *auth_names_create(void);
void auth_names_destroy(struct auth_names *n);
/* 1: the thread remembers this account, or that it is unknown. */
int auth_names_has(const struct auth_names *n, uint32_t uid, uint64_t now_real_us);
/* name "": unknown, which is remembered for a few seconds only. */
void auth_names_put(struct auth_names *n, uint32_t uid, const char *name, uint64_t now_real_us);
/* Asks the name service; "": unknown. May take as long as the service likes: not for I/O threads. */
void auth_look_up(uint32_t uid, char name[AUTH_USER_SIZE]);

struct auth_call {
	const char *authorization, *cookie, *session_key, *host, *origin; /* headers, NULL none */
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
/* Cookies are shared by all ports of a host: two hearthds there must not overwrite each other's. Before the
 * first call. */
void auth_set_port(struct auth *a, unsigned port);
const char *auth_cookie_name(const struct auth *a);
/* Tokens were made or removed: what threads remember of them is void. Any thread. */
void auth_tokens_changed(struct auth *a);
/* The sentence for 401, where a token is found. */
const char *auth_hint(const struct auth *a);

/* The code of a login link for an identity; malloc'ed. */
char *auth_sign(struct auth *a, const struct identity *who, uint64_t expires_real_us);
int auth_verify(struct auth *a, const char *text, uint64_t now_real_us, struct identity *out, struct err *e);

#endif
