/*
 * json_part: masking, and numbers that JSON has no word for.
 */
#include "store/read/json_part.h"

#include <math.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/secret.h"

cJSON *json_real(double v)
{
	if (isnan(v))
		return cJSON_CreateString("nan");
	if (isinf(v))
		return cJSON_CreateString(v > 0 ? "inf" : "-inf");
	return cJSON_CreateNumber(v);
}

cJSON *json_of_text(const char *text)
{
	cJSON *v;

	if (!text)
		return cJSON_CreateNull();
	v = json_parse(text, strlen(text), NULL);
	if (!v)
		return cJSON_CreateString(text);
	secret_json(v, 0);
	return v;
}

cJSON *json_object_of(const char *text)
{
	cJSON *v = json_of_text(text);

	if (cJSON_IsObject(v))
		return v;
	cJSON_Delete(v);
	return cJSON_CreateNull();
}
