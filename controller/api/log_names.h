/*
 * log_names: which stream of a job a user's words mean.
 */
#ifndef HEARTH_CONTROLLER_API_LOG_NAMES_H
#define HEARTH_CONTROLLER_API_LOG_NAMES_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct store_reader;

/* name as in the address: "rank-3", "mpirun", "setup", "system", "setup-algo-2", "setup-MACHINE", "rank",
 * "algo-2", "MACHINE". node ("algo-2" or a machine's name; NULL none) chooses the node of "rank", "setup" and
 * "system"; "rank" and a bare node mean the first rank there. */
int log_name_resolve(struct store_reader *r, uint64_t job, uint32_t attempt, const char *name,
                     const char *node, char *out, size_t out_size, struct err *e);
/* The pure part; places: what store_placement_json gives, NULL none. */
int log_name_choose(const cJSON *places, const char *name, const char *node, char *out, size_t out_size,
                    struct err *e);

#endif
