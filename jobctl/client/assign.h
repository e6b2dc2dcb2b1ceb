/*
 * assign: changes of a specification from the command line: --set a.b.c=value. Pure.
 */
#ifndef HEARTH_JOBCTL_CLIENT_ASSIGN_H
#define HEARTH_JOBCTL_CLIENT_ASSIGN_H

#include <cjson/cJSON.h>

#include "common/base/err.h"

/* Splits "a.b.c=value". The value is JSON if it parses as JSON and the key accepts more than text, else a
 * string. *key and *value are the caller's. */
int assign_split(const char *assignment, char **key, cJSON **value, struct err *e);
/* Returns whether a specification has a key with this first part ("resources.gpus": "resources"). */
int assign_key_known(const char *key);
/* Refuses an assignment to an unknown key; hps: hyperparameters of the job, NULL: unknown. */
int assign_check_key(const char *assignment, const cJSON *hps, struct err *e);
/* Applies an assignment to a specification; null removes the key. */
int assign_apply(cJSON *spec, const char *assignment, struct err *e);

#endif
