/*
 * openapi: the description of the API (OpenAPI 3.1), made from the route table.
 */
#ifndef HEARTH_CONTROLLER_OPENAPI_H
#define HEARTH_CONTROLLER_OPENAPI_H

#include <cjson/cJSON.h>

cJSON *openapi_build(void);
char *openapi_text(void); /* malloc'ed */

#endif
