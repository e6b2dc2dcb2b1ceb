/*
 * prom: numbers as Prometheus text (exposition format 0.0.4).
 */
#ifndef HEARTH_CONTROLLER_API_PROM_H
#define HEARTH_CONTROLLER_API_PROM_H

#include <cjson/cJSON.h>

#define PROM_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Numeric members of both objects (a name in both: a's) as hearth_NAME. A member that is an object of numbers
 * becomes one metric with a label: {"jobs":
 * {"running": 3}} -> hearth_jobs{state="running"} 3. Names that end in _total are counters. Malloc'ed. */
char *prom_text(const cJSON *a, const cJSON *b);

#endif
