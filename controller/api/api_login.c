/*
 * api_login: tokens of nodes and users, who the caller is, and the dashboard's session.
 *
 * The state thread makes and removes tokens; what this thread remembers of them is void as soon as one has
 * changed (api_notice).
 *
 * A token that the user types, or a link that `jobctl dash` prints and that works once within a minute,
 * becomes a session: a cookie (HttpOnly, SameSite=Strict, Secure with TLS) and a key. The login by a token
 * answers with the key; the link leads to the page with the key in the address's fragment, which browsers
 * send to nobody. Sessions are records like tokens: they survive hearthd, are listed and can be ended.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/api/api.h"
#include "controller/api/api_cluster.h"
#include "controller/api/thread.h"
#include "controller/http/route.h"
#include "controller/io/ask.h"

#define SESSION_S 43200u /* as in requests/user_tokens_req.c */
#define CODE_S    60u
#define NOTE_MAX  100u

/* ---- tokens ---- */

/* The state thread checks the rest; a session is made by the login only. */
static int check_kind(const cJSON *body, struct err *e)
{
	static const char *const join[] = {"kind", "ttl_s", NULL}, *const user[] = {"kind",  "ttl_s", "user",
	                                                                            "scope", "note",  NULL};
	const char *kind = "join";

	if (json_get_str(body, "", "kind", &kind, e) < 0)
		return -1;
	if (strcmp(kind, "join") != 0 && strcmp(kind, "user") != 0)
		return err_set(e, ERR_UNSUPPORTED, "kind: expected \"join\" or \"user\", got \"%.64s\"", kind);
	return json_check_keys(body, "", strcmp(kind, "join") == 0 ? join : user, e);
}

void api_tokens(struct call *c, struct io *io)
{
	cJSON *body = route_body(c);
	struct err e;

	if (!body)
		return;
	if (check_kind(body, &e) < 0) {
		cJSON_Delete(body);
		call_fail(c, &e);
		return;
	}
	ask_send(c, io, ask_new(c, REQ_TOKEN, body));
}

void api_token_list(struct call *c, struct io *io)
{
	ask_send(c, io, ask_new(c, REQ_TOKENS, NULL));
}

void api_token_rm(struct call *c, struct io *io)
{
	named_request(c, io, REQ_TOKEN_RM);
}

void api_whoami(struct call *c, struct io *io)
{
	static const char *const roles[] = {"none", "job", "user", "admin"}, *const scopes[] = {"all", "read",
	                                                                                        "submit"};
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "user", c->who.user);
	cJSON_AddStringToObject(o, "role", roles[c->who.role]);
	cJSON_AddStringToObject(o, "scope", scopes[c->who.scope]);
	cJSON_AddStringToObject(o, "account", c->who.account);
	if (*c->who.token_id)
		cJSON_AddStringToObject(o, "token", c->who.token_id);
	if (c->who.token_job)
		json_add_u64(o, "job", c->who.token_job);
	cJSON_AddStringToObject(o, "cluster", api_of(io)->cluster);
	cJSON_AddStringToObject(o, "version", PACKAGE_VERSION);
	call_json(c, 200, o);
}

/* ---- sessions ---- */

static void set_cookie(struct call *c, struct io *io, const char *value, unsigned age_s)
{
	cleanup_free char *text = xasprintf("%s=%s; Path=/; Max-Age=%u; HttpOnly; SameSite=Strict%s",
	                                    auth_cookie_name(api_of(io)->auth), value, age_s,
	                                    api_of(io)->tls && !c->is_unix ? "; Secure" : "");

	call_add_header(c, "Set-Cookie", text);
}

/* What the browser calls itself, for lists of sessions; printable bytes only. */
static void add_note(struct call *c, cJSON *body)
{
	const char *agent = call_header(c, "User-Agent");
	char note[NOTE_MAX + 1];
	size_t n = 0;

	for (; agent && *agent && n < NOTE_MAX; agent++)
		if (*agent >= ' ' && *agent < 127)
			note[n++] = *agent;
	note[n] = '\0';
	cJSON_AddStringToObject(body, "note", note);
}

/* Asks for a session that may do what this identity may. */
static void start_session(struct call *c, struct io *io, const struct identity *who, ask_fn fn)
{
	cJSON *body = cJSON_CreateObject();
	struct request *rq;

	cJSON_AddStringToObject(body, "kind", "session");
	if (who->role == ROLE_ADMIN)
		cJSON_AddStringToObject(body, "scope", "admin");
	else if (who->scope != SCOPE_ALL)
		cJSON_AddStringToObject(body, "scope", who->scope == SCOPE_READ ? "read" : "submit");
	add_note(c, body);
	c->who = *who;
	rq = ask_new(c, REQ_TOKEN, body);
	free(rq->idem_key); /* each login gets a session of its own */
	rq->idem_key = NULL;
	ask_send_cb(c, io, rq, fn);
}

static const char *member(const cJSON *o, const char *name)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);

	return cJSON_IsString(v) ? v->valuestring : "";
}

static void on_login(struct call *c, struct io *io, int status, cJSON *body, const struct err *e)
{
	if (e) {
		call_fail_with(c, status, e, body);
		cJSON_Delete(body);
		return;
	}
	set_cookie(c, io, member(body, "cookie"), SESSION_S);
	cJSON_DeleteItemFromObjectCaseSensitive(body, "cookie");
	cJSON_DeleteItemFromObjectCaseSensitive(body, "kind");
	cJSON_DeleteItemFromObjectCaseSensitive(body, "scope");
	call_json(c, 200, body);
}

static void on_turn_in(struct call *c, struct io *io, int status, cJSON *body, const struct err *e)
{
	if (e) {
		call_fail_with(c, status, e, body);
	} else {
		cleanup_free char *to = xasprintf("/#session=%s", member(body, "key"));

		set_cookie(c, io, member(body, "cookie"), SESSION_S);
		call_add_header(c, "Location", to);
		call_add_header(c, "Referrer-Policy", "no-referrer");
		call_empty(c, 303);
	}
	cJSON_Delete(body);
}

void api_login(struct call *c, struct io *io)
{
	static const char *const known[] = {"token", NULL};
	cJSON *body = route_body(c);
	const char *token = NULL;
	cleanup_free char *bearer = NULL;
	struct auth_call a = {.now_real_us = clock_real_us(clock_real()), .reader = io->reader};
	struct identity who;
	struct err e;

	if (!body)
		return;
	if (json_check_keys(body, "", known, &e) < 0 || json_get_str(body, "", "token", &token, &e) < 0 ||
	    (!token && err_set(&e, ERR_INVALID, "token: missing") < 0)) {
		cJSON_Delete(body);
		call_fail(c, &e);
		return;
	}
	bearer = xasprintf("Bearer %s", token);
	cJSON_Delete(body);
	a.authorization = bearer;
	if (auth_identify(api_of(io)->auth, io->api->names, &a, &who, &e) < 0 ||
	    (who.role < ROLE_USER && err_set(&e, ERR_DENIED, "a job's token cannot open a session") < 0)) {
		call_problem(c, err_http_status(e.code), auth_hint(api_of(io)->auth), "%s", e.text);
		return;
	}
	start_session(c, io, &who, on_login);
}

void api_login_link(struct call *c, struct io *io)
{
	uint64_t expires = clock_real_us(clock_real()) + CODE_S * 1000000ull;
	cleanup_free char *code = auth_sign(api_of(io)->auth, &c->who, expires);
	cleanup_free char *path = xasprintf("/login?code=%s", code);
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "path", path);
	json_add_time(o, "expires_at", expires);
	call_json(c, 200, o);
}

void api_login_turn_in(struct call *c, struct io *io)
{
	const char *code = query_str(c, "code");
	struct identity who;
	struct err e;

	if (!code || auth_verify(api_of(io)->auth, code, clock_real_us(clock_real()), &who, &e) < 0) {
		call_problem(c, 401, "run `jobctl dash` again", "%s", code ? e.text : "code: missing");
		return;
	}
	start_session(c, io, &who, on_turn_in);
}

static void on_logout(struct call *c, struct io *io, int status, cJSON *body, const struct err *e)
{
	(void)status;
	(void)e; /* a session that is gone already is logged out, too */
	cJSON_Delete(body);
	set_cookie(c, io, "", 0);
	call_empty(c, 204);
}

void api_logout(struct call *c, struct io *io)
{
	struct request *rq;

	/* Only of a session: a program that logs out by mistake keeps its token. */
	if (call_header(c, "Authorization") || c->is_unix || !*c->who.token_id) {
		set_cookie(c, io, "", 0);
		call_empty(c, 204);
		return;
	}
	rq = ask_new(c, REQ_TOKEN_RM, NULL);
	rq->node = xstrdup(c->who.token_id);
	ask_send_cb(c, io, rq, on_logout);
}
