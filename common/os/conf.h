/*
 * conf: settings of a daemon: one table of what there is, files of `key = value` lines, and
 * `--set key=value` on the command line. What is set later wins; every value is checked when it is set.
 *
 * File: one setting a line; '#' at the start of a line or after a blank begins a comment; double quotes
 * around a value (no escapes) keep blanks and '#'. Errors name file:line, the key and the nearest
 * known one.
 */
#ifndef HEARTH_COMMON_OS_CONF_H
#define HEARTH_COMMON_OS_CONF_H

#include <stdint.h>

#include "common/base/err.h"

enum conf_type {
	CONF_INT,      /* whole number, may be negative */
	CONF_SIZE,     /* bytes: "8GiB" */
	CONF_DURATION, /* "1h30m", "90", "250ms" */
	CONF_STRING,
	CONF_BOOL, /* true/false, yes/no, on/off, 1/0 */
};

/* Values as one would write them in a file. The table ends with a NULL name and outlives the conf. */
struct conf_item {
	const char *name;
	enum conf_type type;
	const char *def;
	const char *min, *max; /* NULL: none; ignored for strings and bools */
	const char *help;      /* one line */
};

struct conf;

/* All defaults. Aborts when the table itself is wrong (a default out of bounds, a name twice). */
struct conf *conf_create(const struct conf_item *items);
void conf_destroy(struct conf *c);
/* ERR_NOT_FOUND when there is no such file; the settings stay as they were after any error. */
int conf_load(struct conf *c, const char *path, struct err *e);
int conf_load_text(struct conf *c, const char *text, const char *shown_as, struct err *e);
int conf_set(struct conf *c, const char *assignment, struct err *e); /* "key=value", from --set */

/* An unknown name or another type than the table's aborts: a mistake of our own. */
int64_t conf_get_int(const struct conf *c, const char *name);
uint64_t conf_get_size(const struct conf *c, const char *name);        /* bytes */
uint64_t conf_get_duration_us(const struct conf *c, const char *name); /* microseconds */
const char *conf_get_str(const struct conf *c, const char *name);      /* the conf's; "" when empty */
int conf_get_bool(const struct conf *c, const char *name);
/* Where the value comes from: "default", "FILE:LINE" or "command line". */
const char *conf_source(const struct conf *c, const char *name);

/* Every setting with its help, present value and source, as a file that conf_load would take. Malloc'ed. */
char *conf_text(const struct conf *c);

#endif
