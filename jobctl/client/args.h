/*
 * args: options and operands of one verb, from a table. Options may be anywhere; "--" ends them. The error
 * for an unknown option names the nearest known one.
 */
#ifndef HEARTH_JOBCTL_CLIENT_ARGS_H
#define HEARTH_JOBCTL_CLIENT_ARGS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct arg_opt {
	const char *name;  /* long name without dashes */
	char letter;       /* 0: none */
	const char *value; /* name of the value in the help; NULL: a switch */
	const char *help;
};

#define ARGS_MAX 512

struct args {
	struct {
		const struct arg_opt *opt;
		const char *value;
	} given[ARGS_MAX];
	size_t n_given;
	const char *operand[ARGS_MAX]; /* pointers into argv */
	size_t n;
};

/* Parses the words. opts ends with a NULL name; argv[0] is the verb. */
int args_parse(const struct arg_opt *opts, int argc, char **argv, struct args *a, struct err *e);
/* Adds an option as if it were given first. value must outlive a. */
int args_prepend(struct args *a, const struct arg_opt *opts, const char *name, const char *value,
                 struct err *e);
int args_has(const struct args *a, const char *name);
const char *args_get(const struct args *a, const char *name); /* the last value given; NULL: none */
/* Reads a whole number from min to max; without the option *out stays as it is. */
int args_u64(const struct args *a, const char *name, uint64_t min, uint64_t max, uint64_t *out,
             struct err *e);
const char *args_nth(const struct args *a, const char *name,
                     size_t nth); /* values of a repeated option, in order; NULL at the end */

#endif
