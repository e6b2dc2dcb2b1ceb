/*
 * openapi: the description of the API (OpenAPI 3.1), made from the route table.
 */
#ifndef HEARTH_CONTROLLER_API_OPENAPI_H
#define HEARTH_CONTROLLER_API_OPENAPI_H

#include <cjson/cJSON.h>
#include <stddef.h>

struct route;

cJSON *openapi_build(const struct route *table, size_t n);
char *openapi_text(const struct route *table, size_t n); /* malloc'ed */

#endif
