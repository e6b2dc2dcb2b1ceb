/*
 * secret: the one rule of what may not be shown, whatever the stream or answer.
 *
 * A value is secret by its name (variable, hyperparameter, option: see secret_name), or as the user and
 * password in a URL. The program itself gets the real values; only what people read goes through here.
 */
#ifndef HEARTH_COMMON_BASE_SECRET_H
#define HEARTH_COMMON_BASE_SECRET_H

#include <cjson/cJSON.h>

#define SECRET_MASK "***"

/* One of the name's words is or ends with KEY, TOKEN, PASS, PWD, CRED, AUTH, or SECRET, PASSW, PASSPHRASE,
 * CREDENTIAL stand anywhere in it; any case. Not: monkey, tokenizer, author, PWD alone, counts of tokens. */
int secret_name(const char *name);
/* A text with its NAME=VALUE (secret names) and user-infos of URLs masked; malloc'ed. */
char *secret_text(const char *text);
/* Masks a JSON tree in place and returns how many values it hid. In objects `environment` and
 * `hyperparameters`, and everywhere when all, a secret name hides what stands below it. Lists are read as
 * arguments ("--hf_token", "x"), all strings as secret_text does. */
int secret_json(cJSON *v, int all);
/* The same for the value of the variable `name`, which may itself be JSON; malloc'ed. */
char *secret_value(const char *name, const char *value);

#endif
