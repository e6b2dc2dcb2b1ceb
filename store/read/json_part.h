/*
 * json_part: pieces of JSON that several questions share.
 */
#ifndef HEARTH_STORE_READ_JSON_PART_H
#define HEARTH_STORE_READ_JSON_PART_H

#include <cjson/cJSON.h>

/* Parses text that should be JSON and masks it. A string when it is something else, null for NULL. */
cJSON *json_of_text(const char *text);
cJSON *json_object_of(const char *text); /* null unless it is an object */
/* NaN and infinities become the strings "nan", "inf", "-inf". */
cJSON *json_real(double v);

#endif
