/*
 * conf: values are kept as text and in parsed form side by side; a load works on a copy that replaces
 * the old values only when the whole file was good.
 */
#include "common/os/conf.h"

#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define CONF_FILE_MAX (1u << 20)

struct value {
	char *text, *source;
	int64_t number; /* of bytes, microseconds, or 0/1 */
	unsigned line;  /* in the file being loaded, 0: not in it */
};

struct conf {
	const struct conf_item *items;
	struct value *values;
	size_t n;
};

/* ---- one value --------------------------------------------------------------------------------- */

static int parse_int(const char *s, int64_t *out, struct err *e)
{
	int negative = *s == '-';
	uint64_t v;

	if (str_parse_u64(s + negative, &v) < 0 || v > INT64_MAX)
		return err_set(e, ERR_INVALID, "'%s' is not a whole number", s);
	*out = negative ? -(int64_t)v : (int64_t)v;
	return 0;
}

static int parse_duration(const char *s, int64_t *out, struct err *e)
{
	size_t n = strlen(s);
	uint64_t v, unit = 1000000;

	if (n > 2 && strcmp(s + n - 2, "ms") == 0) {
		cleanup_free char *digits = xstrndup(s, n - 2);

		if (str_parse_u64(digits, &v) < 0)
			return err_set(e, ERR_INVALID, "'%s' is not a duration", s);
		unit = 1000;
	} else if (str_parse_duration(s, &v, e) < 0) {
		return -1;
	}
	if (v > INT64_MAX / unit)
		return err_set(e, ERR_INVALID, "'%s' is too long a duration", s);
	*out = (int64_t)(v * unit);
	return 0;
}

static int parse_bool(const char *s, int64_t *out, struct err *e)
{
	static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(s, words[i]) == 0) {
			*out = (int64_t)(i & 1);
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "'%s' is neither true nor false", s);
}

static int parse_size(const char *s, int64_t *out, struct err *e)
{
	uint64_t v;

	if (str_parse_size(s, &v, e) < 0)
		return -1;
	if (v > INT64_MAX)
		return err_set(e, ERR_INVALID, "'%s' is too large a size", s);
	*out = (int64_t)v;
	return 0;
}

static int parse_value(enum conf_type type, const char *s, int64_t *out, struct err *e)
{
	switch (type) {
	case CONF_INT:
		return parse_int(s, out, e);
	case CONF_SIZE:
		return parse_size(s, out, e);
	case CONF_DURATION:
		return parse_duration(s, out, e);
	case CONF_BOOL:
		return parse_bool(s, out, e);
	case CONF_STRING:
		break;
	}
	*out = 0;
	return 0;
}

static int check_bounds(const struct conf_item *item, const char *text, int64_t v, struct err *e)
{
	int64_t bound;

	if (item->type == CONF_STRING || item->type == CONF_BOOL)
		return 0;
	if (item->min && parse_value(item->type, item->min, &bound, e) < 0)
		return -1;
	if (item->min && v < bound)
		return err_set(e, ERR_INVALID, "%s is less than %s", text, item->min);
	if (item->max && parse_value(item->type, item->max, &bound, e) < 0)
		return -1;
	if (item->max && v > bound)
		return err_set(e, ERR_INVALID, "%s is more than %s", text, item->max);
	return 0;
}

static int assign_value(struct conf *c, size_t i, const char *text, const char *source, struct err *e)
{
	struct value *v = &c->values[i];
	int64_t number;

	if (parse_value(c->items[i].type, text, &number, e) < 0 ||
	    check_bounds(&c->items[i], text, number, e) < 0)
		return err_wrap(e, "%s", c->items[i].name);
	free(v->text);
	free(v->source);
	v->text = xstrdup(text);
	v->source = xstrdup(source);
	v->number = number;
	return 0;
}

static int find_item(const struct conf *c, const char *name, size_t *out)
{
	for (size_t i = 0; i < c->n; i++) {
		if (strcmp(c->items[i].name, name) == 0) {
			*out = i;
			return 0;
		}
	}
	return -1;
}

static int find_named(const struct conf *c, const char *name, size_t *out, struct err *e)
{
	cleanup_free const char **known = NULL;
	const char *near;

	if (find_item(c, name, out) == 0)
		return 0;
	known = xcalloc(c->n + 1, sizeof(*known));
	for (size_t i = 0; i < c->n; i++)
		known[i] = c->items[i].name;
	near = str_nearest(name, known);
	if (near)
		return err_set(e, ERR_INVALID, "unknown setting '%.80s', did you mean '%s'?", name, near);
	return err_set(e, ERR_INVALID, "unknown setting '%.80s'", name);
}

/* ---- all values -------------------------------------------------------------------------------- */

static void table_wrong(const char *name, const char *why)
{
	log_error("event=conf_table_wrong name=%s why=%s", name, why);
	abort();
}

struct conf *conf_create(const struct conf_item *items)
{
	struct conf *c = xcalloc(1, sizeof(*c));
	struct err e;
	size_t other;

	c->items = items;
	while (items[c->n].name)
		c->n++;
	c->values = xcalloc(c->n, sizeof(*c->values));
	for (size_t i = 0; i < c->n; i++) {
		if (find_item(c, items[i].name, &other) == 0 && other != i)
			table_wrong(items[i].name, "twice");
		if (assign_value(c, i, items[i].def, "default", &e) < 0)
			table_wrong(items[i].name, e.text);
	}
	return c;
}

static void free_values(struct value *values, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(values[i].text);
		free(values[i].source);
	}
	free(values);
}

void conf_destroy(struct conf *c)
{
	if (!c)
		return;
	free_values(c->values, c->n);
	free(c);
}

static struct value *copy_values(const struct conf *c)
{
	struct value *copy = xcalloc(c->n, sizeof(*copy));

	for (size_t i = 0; i < c->n; i++) {
		copy[i] = c->values[i];
		copy[i].text = xstrdup(c->values[i].text);
		copy[i].source = xstrdup(c->values[i].source);
		copy[i].line = 0;
	}
	return copy;
}

/* ---- files ------------------------------------------------------------------------------------- */

static int is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static char *trim_blanks(char *s)
{
	char *end;

	while (is_blank(*s))
		s++;
	for (end = s + strlen(s); end > s && is_blank(end[-1]); end--)
		end[-1] = '\0';
	return s;
}

/* Removes the comment; a # inside double quotes is a part of the value. */
static void cut_comment(char *line)
{
	int quoted = 0;

	for (char *p = line; *p; p++) {
		if (*p == '"')
			quoted = !quoted;
		else if (*p == '#' && !quoted && (p == line || is_blank(p[-1]))) {
			*p = '\0';
			return;
		}
	}
}

/* Undoes the quotes of a value in place. */
static int unquote_value(char **value, struct err *e)
{
	char *s = *value;
	size_t n = strlen(s);

	if (*s != '"')
		return 0;
	if (n < 2 || strchr(s + 1, '"') != s + n - 1)
		return err_set(e, ERR_INVALID, "a value that begins with '\"' must end with it and hold no other");
	s[n - 1] = '\0';
	*value = s + 1;
	return 0;
}

static int load_line(struct conf *c, char *line, unsigned number, const char *shown_as, struct err *e)
{
	cleanup_free char *source = NULL;
	char *key, *value, *eq;
	size_t i;

	cut_comment(line);
	key = trim_blanks(line);
	if (!*key)
		return 0;
	eq = strchr(key, '=');
	if (!eq)
		return err_set(e, ERR_INVALID, "expected 'key = value'");
	*eq = '\0';
	key = trim_blanks(key);
	value = trim_blanks(eq + 1);
	if (str_has_control(key) || str_has_control(value))
		return err_set(e, ERR_INVALID, "control character");
	if (find_named(c, key, &i, e) < 0 || unquote_value(&value, e) < 0)
		return -1;
	if (c->values[i].line)
		return err_set(e, ERR_INVALID, "'%s' was set on line %u already", key, c->values[i].line);
	source = xasprintf("%s:%u", shown_as, number);
	c->values[i].line = number;
	return assign_value(c, i, value, source, e);
}

int conf_load_text(struct conf *c, const char *text, const char *shown_as, struct err *e)
{
	struct conf next = {.items = c->items, .n = c->n, .values = copy_values(c)};
	cleanup_free char *copy = xstrdup(text);
	char *line, *rest = copy;
	unsigned number = 0;

	while ((line = strsep(&rest, "\n"))) {
		number++;
		if (load_line(&next, line, number, shown_as, e) < 0) {
			free_values(next.values, next.n);
			return err_wrap(e, "%s:%u", shown_as, number);
		}
	}
	free_values(c->values, c->n);
	c->values = next.values;
	return 0;
}

int conf_load(struct conf *c, const char *path, struct err *e)
{
	cleanup_free char *text = NULL;
	size_t n;

	if (fs_read_file(path, CONF_FILE_MAX, &text, &n, e) < 0)
		return -1;
	if (strlen(text) != n)
		return err_set(e, ERR_INVALID, "%s: holds a NUL byte", path);
	return conf_load_text(c, text, path, e);
}

int conf_set(struct conf *c, const char *assignment, struct err *e)
{
	const char *eq = strchr(assignment, '=');
	cleanup_free char *key = NULL;
	size_t i;

	if (!eq)
		return err_set(e, ERR_INVALID, "'%.80s': expected key=value", assignment);
	key = xstrndup(assignment, (size_t)(eq - assignment));
	if (str_has_control(assignment))
		return err_set(e, ERR_INVALID, "control character in a setting");
	if (find_named(c, trim_blanks(key), &i, e) < 0)
		return -1;
	return assign_value(c, i, eq + 1, "command line", e);
}

/* ---- reading ----------------------------------------------------------------------------------- */

static const struct value *get_value(const struct conf *c, const char *name, enum conf_type type)
{
	size_t i;

	if (find_item(c, name, &i) < 0)
		table_wrong(name, "unknown");
	if (c->items[i].type != type)
		table_wrong(name, "other_type");
	return &c->values[i];
}

int64_t conf_get_int(const struct conf *c, const char *name)
{
	return get_value(c, name, CONF_INT)->number;
}

uint64_t conf_get_size(const struct conf *c, const char *name)
{
	return (uint64_t)get_value(c, name, CONF_SIZE)->number;
}

uint64_t conf_get_duration_us(const struct conf *c, const char *name)
{
	return (uint64_t)get_value(c, name, CONF_DURATION)->number;
}

const char *conf_get_str(const struct conf *c, const char *name)
{
	return get_value(c, name, CONF_STRING)->text;
}

int conf_get_bool(const struct conf *c, const char *name)
{
	return (int)get_value(c, name, CONF_BOOL)->number;
}

const char *conf_source(const struct conf *c, const char *name)
{
	size_t i;

	if (find_item(c, name, &i) < 0)
		table_wrong(name, "unknown");
	return c->values[i].source;
}

static int needs_quotes(const char *s)
{
	size_t n = strlen(s);

	return strchr(s, '#') || (n && (is_blank(s[0]) || is_blank(s[n - 1])));
}

char *conf_text(const struct conf *c)
{
	char *all = xstrdup(""), *next;

	for (size_t i = 0; i < c->n; i++) {
		const struct conf_item *item = &c->items[i];
		const struct value *v = &c->values[i];
		const char *quote = needs_quotes(v->text) ? "\"" : "";

		next = xasprintf("%s# %s\n# default: %s; set by: %s\n%s = %s%s%s\n\n", all, item->help,
		                 *item->def ? item->def : "(none)", v->source, item->name, quote, v->text, quote);
		free(all);
		all = next;
	}
	return all;
}
