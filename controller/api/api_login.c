/*
 * api_login: the dashboard's session. A token that the user types, or a link that `jobctl dash` prints and
 * that works once within a minute, becomes a cookie: HttpOnly, SameSite=Strict, Secure with TLS. The cookie
 * ends with the process, since its key does.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/api/api_cluster.h"
#include "controller/api/thread.h"
#include "controller/http/route.h"

#define SESSION_S 43200u
#define CODE_S    60u

static void set_cookie(struct call *c, struct io *io, const char *value, unsigned age_s)
{
	cleanup_free char *text = xasprintf(AUTH_COOKIE "=%s; Path=/; Max-Age=%u; HttpOnly; SameSite=Strict%s",
	                                    value, age_s, api_of(io)->tls && !c->is_unix ? "; Secure" : "");

	call_add_header(c, "Set-Cookie", text);
}

static void start_session(struct call *c, struct io *io, const struct identity *who)
{
	uint64_t expires = clock_real_us(clock_real()) + SESSION_S * 1000000ull;
	cleanup_free char *value = auth_sign(api_of(io)->auth, 's', who, expires);

	set_cookie(c, io, value, SESSION_S);
}

void api_login(struct call *c, struct io *io)
{
	static const char *const known[] = {"token", NULL};
	cJSON *body = route_body(c), *o;
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
	start_session(c, io, &who);
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "user", who.user);
	call_json(c, 200, o);
}

void api_login_link(struct call *c, struct io *io)
{
	uint64_t expires = clock_real_us(clock_real()) + CODE_S * 1000000ull;
	cleanup_free char *code = auth_sign(api_of(io)->auth, 'c', &c->who, expires);
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

	if (!code || auth_verify(api_of(io)->auth, 'c', code, clock_real_us(clock_real()), &who, &e) < 0) {
		call_problem(c, 401, "run `jobctl dash` again", "%s", code ? e.text : "code: missing");
		return;
	}
	start_session(c, io, &who);
	call_add_header(c, "Location", "/");
	call_add_header(c, "Referrer-Policy", "no-referrer");
	call_empty(c, 303);
}

void api_logout(struct call *c, struct io *io)
{
	set_cookie(c, io, "", 0);
	call_empty(c, 204);
}
