/*
 * local_settings: what the local cluster was started with. Kept in DIR/settings from `local up` to `local
 * down`, so that a program that is started again gets the same as before; the port stands in DIR/port and
 * stays, as agents know it.
 */
#ifndef HEARTH_JOBCTL_LOCAL_SETTINGS_H
#define HEARTH_JOBCTL_LOCAL_SETTINGS_H

#include "common/base/err.h"
#include "jobctl/client/args.h"

#define LOCAL_NODES_MAX 16

struct local_settings {
	unsigned nodes, port; /* port 0: not chosen yet */
	char *fake_gpus;      /* NULL none; a number, or the absolute path of a file */
	int no_namespaces;
};

/* What is remembered (1), or the defaults (0). */
int local_settings_load(const char *dir, struct local_settings *s);
void local_settings_fini(struct local_settings *s);
int local_settings_save(const char *dir, const struct local_settings *s, struct err *e);
void local_settings_forget(const char *dir);

/* The options of `local up` into *s. What a program that runs already would have to be started anew for is
 * refused (ERR_CONFLICT) with a sentence that says what it runs with. */
int local_settings_options(const char *dir, const struct args *a, struct local_settings *s, struct err *e);
/* "2 agents with 4 fake GPUs each, without namespaces". Malloc'ed. */
char *local_settings_text(const struct local_settings *s);

unsigned local_port(const char *dir); /* 0 none is remembered */
int local_port_save(const char *dir, unsigned port, struct err *e);

#endif
