/*
 * preload: a Python interpreter that has imported a job's modules before the job exists, and then runs its
 * script. This part decides which commands and which environments such an interpreter fits. The program that
 * waits is agent/stubs/hearth-park. Pure.
 */
#ifndef HEARTH_COMMON_SPEC_PRELOAD_H
#define HEARTH_COMMON_SPEC_PRELOAD_H

#include "common/base/err.h"
#include "common/base/xalloc.h"
#include "common/spec/spec.h"

#define PRELOAD_MAX      32
#define PRELOAD_NAME_MAX 128

struct preload_command {
	size_t options; /* arguments between the interpreter and its program */
	int module;     /* the program is a module: -m NAME */
};

/* Splits [python, options.., script | -m module, arguments..]. -1: no interpreter can wait for such a
 * command; the error's text says why. */
int preload_split(const struct strv *argv, struct preload_command *out, struct err *e);
/* Returns 1 if both commands have the same interpreter and options, which preload_split accepts. */
int preload_same_interpreter(const struct strv *a, const struct strv *b);
/* Adds the command of the interpreter that waits for argv, which preload_split accepts: [python, options..,
 * park, --cuda-context?, modules..]. park is the path of hearth-park. */
void preload_park_argv(const struct strv *argv, const struct job_spec *s, const char *park, struct strv *out);

/* Returns 1 if a variable may get its value after the modules were imported. */
int preload_late_safe(const char *name);
/* Returns the name of the first variable that is not late-safe and differs between two environments
 * (NAME=VALUE, the last one of a name counts), malloc'ed; NULL none. */
char *preload_env_differs(const struct strv *a, const struct strv *b);

/* Returns 1 for the name of a Python module, "torch" or "torch.distributed". */
int preload_is_module(const char *name);

#endif
