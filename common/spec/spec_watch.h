/*
 * spec_watch: the object `watch` of a job specification: metrics, actions and thresholds of the loss watch
 * and the throughput watch (common/watch). Pure.
 */
#ifndef HEARTH_COMMON_SPEC_SPEC_WATCH_H
#define HEARTH_COMMON_SPEC_SPEC_WATCH_H

#include <cjson/cJSON.h>

#include "common/base/err.h"
#include "common/watch/conf.h"

#define SPEC_WATCH_NAME 129

struct spec_watch {
	struct watch_conf conf;
	char loss[SPEC_WATCH_NAME], step[SPEC_WATCH_NAME]; /* names of metrics */
	char throughput[SPEC_WATCH_NAME];                  /* "": none */
};

void spec_watch_init(struct spec_watch *w); /* the defaults */
/* Reads the value of one key; null leaves the default. The error says what was expected, without the key. */
int spec_watch_set(struct spec_watch *w, const char *key, const cJSON *v, struct err *e);
/* Reads the object over the defaults; path is its own ("watch"). Errors name the key, the value and what was
 * expected. */
int spec_watch_read(const cJSON *obj, const char *path, struct spec_watch *out, struct err *e);
cJSON *spec_watch_json(const struct spec_watch *w); /* all keys; a metric that has no name is null */

#endif
