/*
 * env_json: JSON texts of the environment, all malloc'ed, compact, keys in the order written here.
 */
#ifndef HEARTH_AGENT_COMMAND_ENV_JSON_H
#define HEARTH_AGENT_COMMAND_ENV_JSON_H

#include "agent/command/env.h"

char *env_json_hosts(const struct plan *p, const char *group); /* group NULL: all */
char *env_json_group_names(const struct plan *p);
char *env_json_group_dict(const struct env_in *in);
char *env_json_channels(const struct job_spec *s);
char *env_json_hps(const struct job_spec *s); /* typed values */
char *env_json_user_args(const struct job_spec *s);
char *env_json_training_env(const struct env_in *in);

#endif
