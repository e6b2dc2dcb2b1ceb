/*
 * json: getters over cJSON's tree, and our own printer. cJSON's parser is lenient where we are strict;
 * json_check.c looks at the text first. cJSON's printer writes 1700000000000000 as 1.7e+15, which is a
 * time stamp that no person can read; ours writes whole numbers whole.
 */
#include "common/base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"

#define EXACT_MAX 9007199254740992.0 /* 2^53: up to here every whole number is a double */

/* ---- getters ----------------------------------------------------------------------------------- */

/* "path.key", or "key" at the root; cut when very long. */
struct place {
	char text[256];
};

static const char *place_path(struct place *p, const char *path, const char *key)
{
	snprintf(p->text, sizeof(p->text), "%s%s%s", path, *path ? "." : "", key);
	return p->text;
}

static const char *type_name(const cJSON *v)
{
	switch (v->type & 0xff) {
	case cJSON_False:
	case cJSON_True:
		return "true or false";
	case cJSON_NULL:
		return "null";
	case cJSON_Number:
		return "a number";
	case cJSON_String:
		return "a string";
	case cJSON_Array:
		return "a list";
	case cJSON_Object:
		return "an object";
	default:
		return "something else";
	}
}

/* The value, or NULL when missing or null. */
static const cJSON *lookup_key(const cJSON *obj, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);

	return v && !cJSON_IsNull(v) ? v : NULL;
}

static int expected_other(const cJSON *v, const char *path, const char *key, const char *expected,
                          struct err *e)
{
	struct place p;

	return err_set(e, ERR_INVALID, "%s: expected %s, got %s", place_path(&p, path, key), expected,
	               type_name(v));
}

int json_get_str(const cJSON *obj, const char *path, const char *key, const char **out, struct err *e)
{
	const cJSON *v = lookup_key(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsString(v))
		return expected_other(v, path, key, "a string", e);
	*out = v->valuestring;
	return 0;
}

int json_get_bool(const cJSON *obj, const char *path, const char *key, int *out, struct err *e)
{
	const cJSON *v = lookup_key(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsBool(v))
		return expected_other(v, path, key, "true or false", e);
	*out = cJSON_IsTrue(v) ? 1 : 0;
	return 0;
}

int json_get_i64(const cJSON *obj, const char *path, const char *key, int64_t min, int64_t max, int64_t *out,
                 struct err *e)
{
	const cJSON *v = lookup_key(obj, key);
	struct place p;
	int64_t n;
	double d;

	if (!v)
		return 0;
	if (!cJSON_IsNumber(v))
		return expected_other(v, path, key, "a whole number", e);
	d = v->valuedouble;
	if (!(d >= -EXACT_MAX && d <= EXACT_MAX))
		return err_set(e, ERR_INVALID, "%s: %.17g is beyond 2^53", place_path(&p, path, key), d);
	if (d != floor(d))
		return err_set(e, ERR_INVALID, "%s: expected a whole number, got %.17g", place_path(&p, path, key),
		               d);
	n = (int64_t)d;
	if (n < min)
		return err_set(e, ERR_INVALID, "%s: %" PRId64 " is less than %" PRId64, place_path(&p, path, key), n,
		               min);
	if (n > max)
		return err_set(e, ERR_INVALID, "%s: %" PRId64 " is more than %" PRId64, place_path(&p, path, key), n,
		               max);
	*out = n;
	return 0;
}

int json_get_f64(const cJSON *obj, const char *path, const char *key, double *out, struct err *e)
{
	const cJSON *v = lookup_key(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsNumber(v))
		return expected_other(v, path, key, "a number", e);
	*out = v->valuedouble;
	return 0;
}

int json_get_obj(const cJSON *obj, const char *path, const char *key, const cJSON **out, struct err *e)
{
	const cJSON *v = lookup_key(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsObject(v))
		return expected_other(v, path, key, "an object", e);
	*out = v;
	return 0;
}

int json_get_arr(const cJSON *obj, const char *path, const char *key, const cJSON **out, struct err *e)
{
	const cJSON *v = lookup_key(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsArray(v))
		return expected_other(v, path, key, "a list", e);
	*out = v;
	return 0;
}

static int is_known(const char *key, const char *const *known)
{
	for (; *known; known++)
		if (strcmp(key, *known) == 0)
			return 1;
	return 0;
}

/* Keys come from outside: control bytes in a message would reach a terminal. */
static void make_printable(const char *s, char *out, size_t size)
{
	size_t n = 0;

	for (; *s && n + 1 < size; s++)
		out[n++] = (unsigned char)*s < 0x20 || *s == 0x7f ? '?' : *s;
	out[n] = '\0';
}

int json_check_keys(const cJSON *obj, const char *path, const char *const *known, struct err *e)
{
	char shown[80];
	const cJSON *v;
	const char *near;

	cJSON_ArrayForEach (v, obj) {
		if (!v->string || is_known(v->string, known))
			continue;
		make_printable(v->string, shown, sizeof(shown));
		near = str_nearest(v->string, known);
		if (near)
			return err_set(e, ERR_INVALID, "%s%sunknown key \"%s\", did you mean \"%s\"?", path,
			               *path ? ": " : "", shown, near);
		return err_set(e, ERR_INVALID, "%s%sunknown key \"%s\"", path, *path ? ": " : "", shown);
	}
	return 0;
}

/* ---- building ---------------------------------------------------------------------------------- */

static void add_item(cJSON *obj, const char *key, cJSON *v)
{
	if (!v || !cJSON_AddItemToObject(obj, key, v))
		abort(); /* out of memory, or obj is not an object */
}

void json_add_str(cJSON *obj, const char *key, const char *s)
{
	add_item(obj, key, s ? cJSON_CreateString(s) : cJSON_CreateNull());
}

void json_add_time(cJSON *obj, const char *key, uint64_t real_us)
{
	char text[CLOCK_RFC3339_SIZE];

	json_add_str(obj, key, real_us ? clock_rfc3339(real_us, text) : NULL);
}

void json_add_u64(cJSON *obj, const char *key, uint64_t v)
{
	char text[24];

	if (v <= (uint64_t)EXACT_MAX) {
		add_item(obj, key, cJSON_CreateNumber((double)v));
		return;
	}
	snprintf(text, sizeof(text), "%" PRIu64, v);
	json_add_str(obj, key, text);
}

/* ---- printing ---------------------------------------------------------------------------------- */

struct printer {
	char *text;
	size_t n, cap;
	int pretty;
};

static void put_bytes(struct printer *p, const char *s, size_t n)
{
	if (p->cap - p->n < n + 1) {
		p->cap = (p->cap + n + 1) * 2;
		p->text = xrealloc(p->text, p->cap);
	}
	memcpy(p->text + p->n, s, n);
	p->n += n;
	p->text[p->n] = '\0';
}

static void put_line(struct printer *p, int depth)
{
	if (!p->pretty)
		return;
	put_bytes(p, "\n", 1);
	for (int i = 0; i < depth; i++)
		put_bytes(p, "  ", 2);
}

/* Bytes that are not UTF-8 (a log line, a file name) become U+FFFD: our output is always valid. */
static size_t put_char(struct printer *p, const char *s, size_t left)
{
	size_t len = 1;

	while (len < 4 && len < left && ((unsigned char)s[len] & 0xc0) == 0x80)
		len++;
	for (; len; len--) {
		if (str_valid_utf8(s, len)) {
			put_bytes(p, s, len);
			return len;
		}
	}
	put_bytes(p, "\xef\xbf\xbd", 3);
	return 1;
}

/* How many bytes at s stand for themselves. */
static size_t plain_bytes(const char *s)
{
	size_t n = 0;

	while ((unsigned char)s[n] >= 0x20 && (unsigned char)s[n] < 0x7f && s[n] != '"' && s[n] != '\\')
		n++;
	return n;
}

static void put_string(struct printer *p, const char *s)
{
	static const char letters[] = "\b\f\n\r\t\"\\", escapes[] = "bfnrt\"\\";
	size_t left = strlen(s), step;
	const char *at;
	char hex[8];

	put_bytes(p, "\"", 1);
	for (; left; s += step, left -= step) {
		step = plain_bytes(s);
		if (step) {
			put_bytes(p, s, step);
			continue;
		}
		step = 1;
		at = strchr(letters, *s);
		if (at) {
			hex[0] = '\\';
			hex[1] = escapes[at - letters];
			put_bytes(p, hex, 2);
		} else if ((unsigned char)*s < 0x20 || *s == 0x7f) {
			put_bytes(p, hex, (size_t)snprintf(hex, sizeof(hex), "\\u%04x", (unsigned)*s));
		} else {
			step = put_char(p, s, left);
		}
	}
	put_bytes(p, "\"", 1);
}

static void put_whole(struct printer *p, int64_t v)
{
	uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	char text[24];
	size_t at = sizeof(text);

	do {
		text[--at] = (char)('0' + left % 10);
		left /= 10;
	} while (left);
	if (v < 0)
		text[--at] = '-';
	put_bytes(p, text + at, sizeof(text) - at);
}

static void put_number(struct printer *p, double d)
{
	char text[40];
	int n = 0;

	if (!isfinite(d)) { /* JSON has no form for it; a loss may well be NaN */
		put_bytes(p, "null", 4);
		return;
	}
	if (d == floor(d) && fabs(d) <= EXACT_MAX) {
		put_whole(p, (int64_t)d);
		return;
	}
	/* The shortest form that reads back as the same number. */
	for (int digits = 15; digits <= 17; digits++) {
		n = snprintf(text, sizeof(text), "%.*g", digits, d);
		if (strtod(text, NULL) == d)
			break;
	}
	put_bytes(p, text, (size_t)n);
}

static void put_value(struct printer *p, const cJSON *v, int depth);

static void put_children(struct printer *p, const cJSON *v, int depth)
{
	int object = cJSON_IsObject(v);
	const cJSON *child;

	put_bytes(p, object ? "{" : "[", 1);
	cJSON_ArrayForEach (child, v) {
		put_line(p, depth + 1);
		if (object) {
			put_string(p, child->string ? child->string : "");
			put_bytes(p, ": ", p->pretty ? 2 : 1);
		}
		put_value(p, child, depth + 1);
		if (child->next)
			put_bytes(p, ",", 1);
	}
	if (v->child)
		put_line(p, depth);
	put_bytes(p, object ? "}" : "]", 1);
}

static void put_value(struct printer *p, const cJSON *v, int depth)
{
	switch (v->type & 0xff) {
	case cJSON_False:
		put_bytes(p, "false", 5);
		break;
	case cJSON_True:
		put_bytes(p, "true", 4);
		break;
	case cJSON_Number:
		put_number(p, v->valuedouble);
		break;
	case cJSON_String:
		put_string(p, v->valuestring ? v->valuestring : "");
		break;
	case cJSON_Raw:
		put_bytes(p, v->valuestring, strlen(v->valuestring));
		break;
	case cJSON_Array:
	case cJSON_Object:
		put_children(p, v, depth);
		break;
	default:
		put_bytes(p, "null", 4);
		break;
	}
}

static char *print_tree(const cJSON *v, int pretty)
{
	struct printer p = {.text = xmalloc(256), .cap = 256, .pretty = pretty};

	put_value(&p, v, 0);
	return p.text;
}

char *json_text(const cJSON *v)
{
	return print_tree(v, 0);
}

uint64_t json_whole(const cJSON *obj, const char *key, uint64_t def)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);

	return cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble <= EXACT_MAX ? (uint64_t)v->valuedouble
	                                                                               : def;
}

const char *json_str_or(const cJSON *obj, const char *key, const char *def)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(obj, key));

	return s ? s : def;
}

char *json_join(const cJSON *list, const char *between)
{
	char *text = xstrdup("");
	const cJSON *v;

	cJSON_ArrayForEach (v, list) {
		char *more;

		if (!cJSON_IsString(v))
			continue;
		more = xasprintf("%s%s%s", text, *text ? between : "", v->valuestring);
		free(text);
		text = more;
	}
	return text;
}

char *json_text_pretty(const cJSON *v)
{
	return print_tree(v, 1);
}
