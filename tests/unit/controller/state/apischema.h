/* apischema: an answer against a schema of the API's document, as far as that goes. */
#ifndef HEARTH_TESTS_UNIT_CONTROLLER_STATE_APISCHEMA_H
#define HEARTH_TESTS_UNIT_CONTROLLER_STATE_APISCHEMA_H

#include <cjson/cJSON.h>

/* 1: required members are there, what is there has its type, or is null where it may be left out; lists and
 * members that refer to a shape of schemas are looked into. strict: nothing is there that is not described.
 * 0: says what is wrong by tap_diag. */
int api_follows(const cJSON *v, const char *shape, const cJSON *schemas, int strict);
/* The schemas of a document. */
const cJSON *api_schemas(const cJSON *document);

#endif
