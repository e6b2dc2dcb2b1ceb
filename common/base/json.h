/*
 * json: checked access over cJSON. Only API, specs and configuration are JSON; the wire is binary.
 *
 * Every getter names the path of what is wrong: "resources.instances: expected a whole number, got a
 * string". `path` is the path of `obj` itself ("" for the root).
 */
#ifndef HEARTH_COMMON_BASE_JSON_H
#define HEARTH_COMMON_BASE_JSON_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define JSON_MAX_DEPTH 64

/* Strict: UTF-8, depth <= JSON_MAX_DEPTH, no trailing bytes, no duplicate keys, no NUL. Errors carry line and
 * column and what was found there. Caller frees by cJSON_Delete. */
cJSON *json_parse(const char *text, size_t n, struct err *e);
/* Compact text, malloc'ed (free()); numbers that are whole print without a fraction. */
char *json_text(const cJSON *v);
char *json_text_pretty(const cJSON *v);

/* The strings of a list, with that between them; others are left out. malloc'ed. */
char *json_join(const cJSON *list, const char *between);

/* Missing or null -> *out keeps its value and 0 is returned (defaults go in first). */
int json_get_str(const cJSON *obj, const char *path, const char *key, const char **out, struct err *e);
int json_get_bool(const cJSON *obj, const char *path, const char *key, int *out, struct err *e);
int json_get_i64(const cJSON *obj, const char *path, const char *key, int64_t min, int64_t max, int64_t *out,
                 struct err *e);
int json_get_f64(const cJSON *obj, const char *path, const char *key, double *out, struct err *e);
int json_get_obj(const cJSON *obj, const char *path, const char *key, const cJSON **out, struct err *e);
int json_get_arr(const cJSON *obj, const char *path, const char *key, const cJSON **out, struct err *e);
/* Fails on the first key not in the NULL-terminated list, naming the nearest known one. */
int json_check_keys(const cJSON *obj, const char *path, const char *const *known, struct err *e);

/* What the program wrote itself and reads back (events, rows): no errors, a default instead of what is
 * missing or is something else. json_whole: a number from 0 to 2^53, def otherwise; obj may be NULL. */
uint64_t json_whole(const cJSON *obj, const char *key, uint64_t def);
const char *json_str_or(const cJSON *obj, const char *key, const char *def);

/* Building. */
void json_add_time(cJSON *obj, const char *key, uint64_t real_us); /* 0 -> null */
void json_add_u64(cJSON *obj, const char *key, uint64_t v);        /* exact up to 2^53, else as text */
void json_add_str(cJSON *obj, const char *key, const char *s);     /* NULL -> null */

#endif
