/*
 * route: matching, decoding and checking of addresses and queries.
 */
#include "controller/http/route.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"

#define QUERY_VALUE_MAX 1024

/* ---- decoding --------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

char *route_decode(const char *s, size_t n, int plus, struct err *e)
{
	char *out = xmalloc(n + 1);
	size_t i, k = 0;

	for (i = 0; i < n; i++) {
		int c = (unsigned char)s[i];

		if (c == '%') {
			int hi = -1, lo = -1;

			if (n - i > 2) {
				hi = hex_digit(s[i + 1]);
				lo = hex_digit(s[i + 2]);
			}
			if (hi < 0 || lo < 0) {
				free(out);
				err_set(e, ERR_INVALID, "malformed percent-encoding in the address");
				return NULL;
			}
			c = hi * 16 + lo;
			i += 2;
		} else if (c == '+' && plus) {
			c = ' ';
		}
		out[k++] = (char)c;
	}
	out[k] = '\0';
	if (strlen(out) != k || str_has_control(out) || !str_valid_utf8(out, k)) {
		free(out);
		err_set(e, ERR_INVALID, "control bytes or malformed UTF-8 in the address");
		return NULL;
	}
	return out;
}

/* ---- matching --------------------------------------------------------------------------------- */

static void free_params(char *params[CALL_MAX_PARAMS])
{
	unsigned i;

	for (i = 0; i < CALL_MAX_PARAMS; i++) {
		free(params[i]);
		params[i] = NULL;
	}
}

int route_match(const char *pattern, const char *path, route_param_fn check, char *params[CALL_MAX_PARAMS],
                struct err *e)
{
	unsigned n_params = 0;
	const char *p = pattern, *at = path;

	memset(params, 0, CALL_MAX_PARAMS * sizeof(params[0]));
	while (*p) {
		const char *name = p + 1, *end;
		size_t len;

		if (*p != '{') {
			if (*p++ != *at++) {
				free_params(params);
				return 0;
			}
			continue;
		}
		end = strchr(p, '}');
		len = end[-1] == '*' ? strlen(at) : strcspn(at, "/");
		if (len == 0 || (end[1] == '\0' && at[len] != '\0')) {
			free_params(params);
			return 0;
		}
		params[n_params] = route_decode(at, len, 0, e);
		if (!params[n_params] || check(name, (size_t)(end - name), params[n_params], e) < 0) {
			free_params(params);
			return -1;
		}
		n_params++;
		at += len;
		p = end + 1;
	}
	if (*at) {
		free_params(params);
		return 0;
	}
	return 1;
}

/* ---- query ------------------------------------------------------------------------------------ */

/* Type letter of a name in "limit:u follow:b", 0 unknown. *known points to the name inside the list. */
static char query_type(const char *list, const char *name, const char **known)
{
	size_t n = strlen(name);

	while (*list) {
		size_t k = strcspn(list, ":");

		if (k == n && strncmp(list, name, n) == 0) {
			*known = list;
			return list[k + 1];
		}
		list += k + 2;
		list += strspn(list, " ");
	}
	return 0;
}

static int unknown_query(const char *list, const char *name, struct err *e)
{
	cleanup_free char *copy = xstrdup(list);
	const char *names[CALL_MAX_QUERY + 1] = {NULL}, *nearest;
	unsigned n = 0;
	char *p, *save = NULL;

	for (p = strtok_r(copy, " ", &save); p && n < CALL_MAX_QUERY; p = strtok_r(NULL, " ", &save)) {
		*strchr(p, ':') = '\0';
		names[n++] = p;
	}
	if (n == 0)
		return err_set(e, ERR_INVALID, "unknown parameter \"%.64s\": this address has no parameters", name);
	nearest = str_nearest(name, names);
	if (nearest)
		return err_set(e, ERR_INVALID, "unknown parameter \"%.64s\": did you mean \"%s\"?", name, nearest);
	return err_set(e, ERR_INVALID, "unknown parameter \"%.64s\"; /openapi.json lists \"%s\" and others", name,
	               names[0]);
}

static int parse_i64(const char *s, int64_t *out)
{
	uint64_t v;

	if (str_parse_u64(*s == '-' ? s + 1 : s, &v) < 0 || v > INT64_MAX)
		return -1;
	*out = *s == '-' ? -(int64_t)v : (int64_t)v;
	return 0;
}

static int check_query(const char *name, const char *value, char type, struct err *e)
{
	uint64_t u;
	int64_t i;

	switch (type) {
	case 'u':
		if (str_parse_u64(value, &u) == 0 && u <= INT64_MAX)
			return 0;
		return err_set(e, ERR_INVALID, "%s: expected a whole number, got \"%.64s\"", name, value);
	case 'i':
		if (parse_i64(value, &i) == 0)
			return 0;
		return err_set(e, ERR_INVALID, "%s: expected a whole number, got \"%.64s\"", name, value);
	case 'b':
		if (strcmp(value, "0") == 0 || strcmp(value, "1") == 0 || strcmp(value, "true") == 0 ||
		    strcmp(value, "false") == 0)
			return 0;
		return err_set(e, ERR_INVALID, "%s: expected 0, 1, true or false, got \"%.64s\"", name, value);
	default:
		if (strlen(value) <= QUERY_VALUE_MAX)
			return 0;
		return err_set(e, ERR_LIMIT, "%s: longer than %d bytes", name, QUERY_VALUE_MAX);
	}
}

static int add_query(struct call *c, const char *text, size_t n, struct err *e)
{
	const char *eq = memchr(text, '=', n), *known = NULL;
	size_t name_n = eq ? (size_t)(eq - text) : n;
	cleanup_free char *name = route_decode(text, name_n, 1, e);
	char *value;
	char type;
	unsigned i;

	if (!name)
		return -1;
	type = query_type(c->route->query, name, &known);
	if (!type)
		return unknown_query(c->route->query, name, e);
	for (i = 0; i < c->n_query; i++)
		if (c->query_name[i] == known)
			return err_set(e, ERR_INVALID, "parameter \"%s\" is given twice", name);
	value = eq ? route_decode(eq + 1, n - name_n - 1, 1, e) : xstrdup("1"); /* ?follow is ?follow=1 */
	if (!value)
		return -1;
	if (check_query(name, value, type, e) < 0) {
		free(value);
		return -1;
	}
	c->query_name[c->n_query] = known;
	c->query_value[c->n_query++] = value;
	return 0;
}

static int parse_query(struct call *c, struct err *e)
{
	const char *p = c->query_text;

	while (p && *p) {
		size_t n = strcspn(p, "&");

		/* A route knows fewer than CALL_MAX_QUERY names and none may come twice, so the table cannot
		 * overflow. */
		if (n && add_query(c, p, n, e) < 0)
			return -1;
		p += n + (p[n] == '&');
	}
	return 0;
}

const char *query_str(const struct call *c, const char *name)
{
	size_t n = strlen(name);
	unsigned i;

	for (i = 0; i < c->n_query; i++)
		if (strncmp(c->query_name[i], name, n) == 0 && c->query_name[i][n] == ':')
			return c->query_value[i];
	return NULL;
}

uint64_t query_u64(const struct call *c, const char *name, uint64_t otherwise)
{
	const char *v = query_str(c, name);
	uint64_t u;

	return v && str_parse_u64(v, &u) == 0 ? u : otherwise;
}

int64_t query_i64(const struct call *c, const char *name, int64_t otherwise)
{
	const char *v = query_str(c, name);
	int64_t i;

	return v && parse_i64(v, &i) == 0 ? i : otherwise;
}

int query_bool(const struct call *c, const char *name)
{
	const char *v = query_str(c, name);

	return v && (*v == '1' || *v == 't');
}

/* ---- body ------------------------------------------------------------------------------------- */

cJSON *route_body(struct call *c)
{
	struct err e;
	cJSON *o;

	if (!c->body_n)
		return cJSON_CreateObject();
	o = json_parse((const char *)c->body, c->body_n, &e);
	if (!o) {
		err_wrap(&e, "body");
		call_fail(c, &e);
		return NULL;
	}
	if (!cJSON_IsObject(o)) {
		cJSON_Delete(o);
		call_problem(c, 400, NULL, "body: expected a JSON object");
		return NULL;
	}
	return o;
}

/* ---- dispatch --------------------------------------------------------------------------------- */

static void log_audit(struct call *c, int status)
{
	if (!c->route || !(c->route->flags & RF_WRITE))
		return;
	log_info("event=audit user=%s role=%d token=%s from=%s method=%s path=%s status=%d", c->who.user,
	         (int)c->who.role, *c->who.token_id ? c->who.token_id : "none", c->peer,
	         http_method_name(c->method), c->path, status);
}

static const struct route *find_route(const struct router *r, struct call *c, struct err *e,
                                      struct text *allow)
{
	const struct route *table = r->table;
	const struct route *found = NULL;
	size_t i;

	e->code = ERR_NONE;
	for (i = 0; i < r->n && !found; i++) {
		char *params[CALL_MAX_PARAMS];
		struct err bad;
		int rc = route_match(table[i].pattern, c->path, r->check_param, params, &bad);

		if (rc == 0)
			continue;
		if (table[i].method != c->method) {
			text_join(allow, ", ", "%s", http_method_name(table[i].method));
			if (rc > 0)
				free_params(params);
			continue;
		}
		if (rc < 0) { /* another pattern may still fit literally */
			if (e->code == ERR_NONE)
				*e = bad;
			continue;
		}
		memcpy(c->params, params, sizeof(params));
		found = &table[i];
	}
	return found;
}

enum access_action route_action(const struct route *r)
{
	if (r->flags & RF_SUBMIT)
		return ACCESS_SUBMIT;
	return r->flags & RF_WRITE || (r->method != HTTP_GET && r->method != HTTP_HEAD) ? ACCESS_CHANGE
	                                                                                : ACCESS_READ;
}

struct access_caller call_who(const struct call *c)
{
	return (struct access_caller){
	    .user = c->who.user, .role = c->who.role, .scope = c->who.scope, .token_job = c->who.token_job};
}

static int check_caller(const struct router *r, struct call *c, struct io *io, struct err *e)
{
	const struct access_object on = {.role = c->route->role};
	struct access_caller who;

	if (r->identify(c, io, e) < 0)
		return -1;
	who = call_who(c);
	return access_check(&who, route_action(c->route), &on, e);
}

static int check_body(const struct router *r, const struct call *c, struct err *e)
{
	const char *type = call_header(c, "Content-Type");

	if (c->route->flags & RF_RAW)
		return 0;
	if (c->body_n > r->body_max)
		return err_set(e, ERR_LIMIT, "the body has %zu bytes; expected at most %zu", c->body_n, r->body_max);
	/* A form of another site could send text/plain without asking; JSON needs a preflight, which is never
	 * answered. */
	if (c->body_n && (c->route->flags & RF_WRITE) && type && strncasecmp(type, "application/json", 16) != 0)
		return err_set(e, ERR_UNSUPPORTED, "the body is %.64s; expected application/json", type);
	return 0;
}

void route_dispatch(const struct router *r, struct call *c, struct io *io)
{
	struct err e;
	TEXT(allow);

	c->on_answer = log_audit;
	c->route = find_route(r, c, &e, &allow);
	if (!c->route && e.code != ERR_NONE) {
		call_fail(c, &e);
	} else if (!c->route && !text_is_empty(&allow)) {
		call_add_header(c, "Allow", allow.at);
		call_problem(c, 405, NULL, "%s is not allowed at this address; allowed: %s",
		             http_method_name(c->method), allow.at);
	} else if (!c->route) {
		call_problem(c, 404, "/openapi.json describes the whole API", "unknown address");
	} else if (check_caller(r, c, io, &e) < 0) {
		call_problem(c, err_http_status(e.code), e.code == ERR_UNAUTHORIZED ? r->login_hint(io) : NULL, "%s",
		             e.text);
	} else if (parse_query(c, &e) < 0 || check_body(r, c, &e) < 0) {
		call_fail(c, &e);
	} else if (r->check_target(c, io, &e) < 0) {
		call_fail(c, &e);
	} else if (c->route->flags & RF_LATER) { /* its rights count already: a test walks the table */
		call_problem(c, 501, NULL, "%s %s is not built yet", http_method_name(c->method), c->route->pattern);
	} else {
		c->route->handler(c, io);
	}
}
