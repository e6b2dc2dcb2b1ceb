/*
 * args: options and operands of one verb, from a table. Options may stand anywhere; "--" ends them. An
 * unknown option names the nearest.
 */
#ifndef HEARTH_JOBCTL_ARGS_H
#define HEARTH_JOBCTL_ARGS_H

#include "common/base/err.h"
#include <stddef.h>
#include <stdint.h>

struct arg_opt {
	const char *name;  /* long name without dashes */
	char letter;       /* 0 none */
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
	const char *operand[ARGS_MAX]; /* point into argv */
	size_t n;
};

/* opts ends with a NULL name. argv[0] is the verb. */
int args_parse(const struct arg_opt *opts, int argc, char **argv, struct args *a, struct err *e);
int args_has(const struct args *a, const char *name);
const char *args_get(const struct args *a, const char *name); /* the last one given; NULL */
/* A whole number from min to max; absent: *out stays. */
int args_u64(const struct args *a, const char *name, uint64_t min, uint64_t max, uint64_t *out,
             struct err *e);
const char *args_nth(const struct args *a, const char *name,
                     size_t nth); /* repeated options in order; NULL at the end */

#endif
