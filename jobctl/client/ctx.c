/*
 * ctx: see ctx.h.
 */
#include "jobctl/client/ctx.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"

int ctx_fail(struct ctx *c, enum err_code code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *s = xvasprintf(fmt, ap);
	va_end(ap);
	err_set(&c->err, code, "%s", s);
	free(s);
	return -1;
}

int ctx_number(struct ctx *c, const char *key, const char *value, double *out)
{
	char *end;
	double v = strtod(value, &end);
	/* strtod also accepts "nan", "inf", "0x1p3" and blanks in front; here they are invalid. */
	if (!*value || *end || !isfinite(v) || strspn(value, "0123456789.eE+-") != strlen(value))
		return ctx_fail(c, ERR_INVALID, "%s '%s': expected a number", key, value);
	*out = v;
	return 0;
}

static struct client *make_client(struct ctx *c, const unsigned *patience_s, struct err *e)
{
	struct client_config cfg;
	if (client_config_load(&cfg, c->url_flag, c->find_local, e))
		return NULL;
	if (patience_s)
		cfg.patience_s = *patience_s;
	struct client *client = client_create(&cfg, e);
	client_config_fini(&cfg);
	return client;
}

struct client *ctx_client(struct ctx *c)
{
	if (!c->client)
		c->client = make_client(c, NULL, &c->err);
	return c->client;
}

struct client *ctx_second_client(struct ctx *c, unsigned patience_s, struct err *e)
{
	return make_client(c, &patience_s, e);
}

void ctx_print_json(const cJSON *v)
{
	char *text = json_text_pretty(v);
	puts(text);
	free(text);
}

int ctx_show_json(struct ctx *c, const cJSON *answer)
{
	if (!c->json)
		return 0;
	ctx_print_json(answer);
	return 1;
}

int ctx_get(struct ctx *c, const char *method, const char *path, const cJSON *body, cJSON **out)
{
	*out = NULL;
	if (!ctx_client(c) || client_call(c->client, method, path, body, out, &c->err))
		return -1;
	/* An empty answer becomes an object without members, because callers look members up in it. */
	if (!*out)
		*out = cJSON_CreateObject();
	return 0;
}

int ctx_call(struct ctx *c, const char *method, const char *path, const cJSON *body, cJSON **out)
{
	cJSON *answer;
	if (ctx_get(c, method, path, body, &answer))
		return -1;
	if (ctx_show_json(c, answer)) {
		cJSON_Delete(answer);
		return 1;
	}
	*out = answer;
	return 0;
}

cJSON *ctx_job(struct ctx *c, uint64_t job)
{
	char *path = xasprintf("/jobs/%" PRIu64, job);
	cJSON *answer = NULL;
	ctx_get(c, "GET", path, NULL, &answer);
	free(path);
	return answer;
}

const cJSON *jget(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

const char *jtext(const cJSON *o, const char *key)
{
	const cJSON *v = jget(o, key);
	return cJSON_IsString(v) ? v->valuestring : NULL;
}
