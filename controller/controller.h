/*
 * controller: hearthd as a whole. It opens the store, makes the core, starts the server, and runs the state
 * thread's loop until a signal ends it.
 */
#ifndef HEARTH_CONTROLLER_CONTROLLER_H
#define HEARTH_CONTROLLER_CONTROLLER_H

#include "common/base/err.h"
#include "common/base/xalloc.h"

struct controller_options {
	const char *data_dir;
	const char *listen;      /* NULL: the configuration's */
	const char *config_file; /* NULL none; given and missing is an error */
	struct strv sets;        /* "key=value", win over the file */
};

/* Runs until SIGTERM or SIGINT. 0 or -1. */
int controller_run(const struct controller_options *o, struct err *e);
/* Prints findings to stdout. Returns how many, -1 when the check failed. */
int controller_verify(const struct controller_options *o, struct err *e);
int controller_backup(const struct controller_options *o, const char *to, struct err *e);
/* All settings with help, as a configuration file; malloc'ed. */
char *controller_config_text(const struct controller_options *o, struct err *e);

#endif
