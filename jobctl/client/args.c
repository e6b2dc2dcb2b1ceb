/*
 * args: see args.h. getopt_long prints its own messages; this parser keeps errors in one form, with the
 * nearest known name.
 */
#include "jobctl/client/args.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/strutil.h"

static const struct arg_opt *find_long(const struct arg_opt *opts, const char *name, size_t n)
{
	for (; opts->name; opts++) {
		if (strlen(opts->name) == n && strncmp(opts->name, name, n) == 0)
			return opts;
	}
	return NULL;
}

static const struct arg_opt *find_letter(const struct arg_opt *opts, char letter)
{
	for (; opts->name; opts++) {
		if (opts->letter && opts->letter == letter)
			return opts;
	}
	return NULL;
}

static int reject_unknown(const struct arg_opt *opts, const char *given, const char *name, struct err *e)
{
	const char *names[64];
	size_t n = 0;
	for (; opts->name && n < 63; opts++)
		names[n++] = opts->name;
	names[n] = NULL;
	const char *near = str_nearest(name, names);
	if (near)
		return err_set(e, ERR_INVALID, "unknown option %s (did you mean --%s?)", given, near);
	return err_set(e, ERR_INVALID, "unknown option %s", given);
}

static int add_option(struct args *a, const struct arg_opt *opt, const char *value, struct err *e)
{
	if (a->n_given == ARGS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d options", ARGS_MAX);
	a->given[a->n_given].opt = opt;
	a->given[a->n_given++].value = value;
	return 0;
}

/* Reads --name, --name=value or --name value. Returns how many further words it used, -1 on error. */
static int take_long(const struct arg_opt *opts, char **argv, int left, struct args *a, struct err *e)
{
	const char *name = argv[0] + 2;
	const char *eq = strchr(name, '=');
	size_t n = eq ? (size_t)(eq - name) : strlen(name);
	const struct arg_opt *opt = find_long(opts, name, n);
	if (!opt) {
		char bare[64];
		size_t k = n < sizeof(bare) - 1 ? n : sizeof(bare) - 1;
		memcpy(bare, name, k);
		bare[k] = 0;
		return reject_unknown(opts, argv[0], bare, e);
	}
	if (!opt->value) {
		if (eq)
			return err_set(e, ERR_INVALID, "option --%s does not accept a value", opt->name);
		return add_option(a, opt, "", e);
	}
	if (eq)
		return add_option(a, opt, eq + 1, e);
	if (left < 2)
		return err_set(e, ERR_INVALID, "option --%s needs a value: %s", opt->name, opt->value);
	return add_option(a, opt, argv[1], e) ? -1 : 1;
}

/* Reads -f, -fg, -n5 or -n 5. */
static int take_short(const struct arg_opt *opts, char **argv, int left, struct args *a, struct err *e)
{
	for (const char *p = argv[0] + 1; *p; p++) {
		const struct arg_opt *opt = find_letter(opts, *p);
		if (!opt)
			return reject_unknown(opts, argv[0], p, e);
		if (!opt->value) {
			if (add_option(a, opt, "", e))
				return -1;
			continue;
		}
		if (p[1])
			return add_option(a, opt, p + 1, e);
		if (left < 2)
			return err_set(e, ERR_INVALID, "option -%c needs a value: %s", *p, opt->value);
		return add_option(a, opt, argv[1], e) ? -1 : 1;
	}
	return 0;
}

int args_parse(const struct arg_opt *opts, int argc, char **argv, struct args *a, struct err *e)
{
	memset(a, 0, sizeof(*a));
	int only_operands = 0;
	for (int i = 1; i < argc; i++) {
		if (!only_operands && strcmp(argv[i], "--") == 0) {
			only_operands = 1;
			continue;
		}
		if (only_operands || argv[i][0] != '-' || !argv[i][1]) {
			if (a->n == ARGS_MAX)
				return err_set(e, ERR_LIMIT, "more than %d operands", ARGS_MAX);
			a->operand[a->n++] = argv[i];
			continue;
		}
		int used = argv[i][1] == '-' ? take_long(opts, argv + i, argc - i, a, e)
		                             : take_short(opts, argv + i, argc - i, a, e);
		if (used < 0)
			return -1;
		i += used;
	}
	return 0;
}

int args_prepend(struct args *a, const struct arg_opt *opts, const char *name, const char *value,
                 struct err *e)
{
	if (add_option(a, find_long(opts, name, strlen(name)), value, e))
		return -1;
	memmove(a->given + 1, a->given, (a->n_given - 1) * sizeof(a->given[0]));
	a->given[0].opt = find_long(opts, name, strlen(name));
	a->given[0].value = value;
	return 0;
}

int args_has(const struct args *a, const char *name)
{
	return args_get(a, name) != NULL;
}

const char *args_get(const struct args *a, const char *name)
{
	for (size_t i = a->n_given; i-- > 0;) {
		if (strcmp(a->given[i].opt->name, name) == 0)
			return a->given[i].value;
	}
	return NULL;
}

int args_u64(const struct args *a, const char *name, uint64_t min, uint64_t max, uint64_t *out, struct err *e)
{
	const char *s = args_get(a, name);
	uint64_t v;
	if (!s)
		return 0;
	if (str_parse_u64(s, &v) || v < min || v > max) {
		if (max >= INT64_MAX)
			return err_set(e, ERR_INVALID, "--%s '%s': expected a whole number of at least %" PRIu64, name, s,
			               min);
		return err_set(e, ERR_INVALID, "--%s '%s': expected a whole number from %" PRIu64 " to %" PRIu64,
		               name, s, min, max);
	}
	*out = v;
	return 0;
}

const char *args_nth(const struct args *a, const char *name, size_t nth)
{
	for (size_t i = 0; i < a->n_given; i++) {
		if (strcmp(a->given[i].opt->name, name) == 0 && nth-- == 0)
			return a->given[i].value;
	}
	return NULL;
}
