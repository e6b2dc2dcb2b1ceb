/*
 * local_settings: the settings with which the local cluster was started. DIR/settings has them from `local
 * up` to `local down`, so that a program that starts again gets the same ones. DIR/port has the port and
 * outlives `local down`, because agents know it.
 */
#ifndef HEARTH_JOBCTL_LOCAL_LOCAL_SETTINGS_H
#define HEARTH_JOBCTL_LOCAL_LOCAL_SETTINGS_H

#include "common/base/err.h"
#include "jobctl/client/args.h"

#define LOCAL_NODES_MAX 16

struct local_settings {
	unsigned nodes, port; /* port 0: not chosen yet */
	char *fake_gpus;      /* a number, or the absolute path of a file; NULL: none */
	int no_namespaces;
};

/* Loads the stored settings (1) or the defaults (0). */
int local_settings_load(const char *dir, struct local_settings *s);
void local_settings_fini(struct local_settings *s);
int local_settings_save(const char *dir, const struct local_settings *s, struct err *e);
void local_settings_forget(const char *dir);

/* Applies the options of `local up` to *s. Refuses an option (ERR_CONFLICT) that would need the restart of a
 * running program; the error names its present setting. */
int local_settings_options(const char *dir, const struct args *a, struct local_settings *s, struct err *e);
/* Returns "2 agents with 4 fake GPUs each, without namespaces". Malloc'ed. */
char *local_settings_text(const struct local_settings *s);

unsigned local_port(const char *dir); /* 0: none is stored */
int local_port_save(const char *dir, unsigned port, struct err *e);

#endif
