#include "tests/unit/controller/state/apischema.h"

#include <stdint.h>
#include <string.h>

#include "tests/lib/tap.h"

struct look {
	const cJSON *schemas;
	int strict;
};

static int one(const struct look *l, const cJSON *v, const cJSON *schema, const char *where);

static int type_fits(const cJSON *v, const char *type)
{
	if (!type) /* anything */
		return 1;
	return !strcmp(type, "string")    ? cJSON_IsString(v)
	       : !strcmp(type, "number")  ? cJSON_IsNumber(v)
	       : !strcmp(type, "integer") ? cJSON_IsNumber(v) && v->valuedouble == (double)(int64_t)v->valuedouble
	       : !strcmp(type, "boolean") ? cJSON_IsBool(v)
	       : !strcmp(type, "array")   ? cJSON_IsArray(v)
	       : !strcmp(type, "object")  ? cJSON_IsObject(v)
	                                  : 0;
}

static const char *text_of(const cJSON *o, const char *key)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
}

static int is_required(const cJSON *schema, const char *name)
{
	const cJSON *r;

	cJSON_ArrayForEach (r, cJSON_GetObjectItemCaseSensitive(schema, "required"))
		if (!strcmp(r->valuestring, name))
			return 1;
	return 0;
}

static int members(const struct look *l, const cJSON *v, const cJSON *schema, const char *where)
{
	const cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties"), *p, *m;
	int good = 1;

	cJSON_ArrayForEach (p, properties) {
		m = cJSON_GetObjectItemCaseSensitive(v, p->string);
		if (!m && is_required(schema, p->string)) {
			tap_diag("%s: %s is not there", where, p->string);
			good = 0;
		}
		if (m && !(cJSON_IsNull(m) && !is_required(schema, p->string)))
			good &= one(l, m, p, p->string);
	}
	cJSON_ArrayForEach (m, v)
		if (l->strict && properties && !cJSON_GetObjectItemCaseSensitive(properties, m->string)) {
			tap_diag("%s: %s is not described", where, m->string);
			good = 0;
		}
	return good;
}

static int one(const struct look *l, const cJSON *v, const cJSON *schema, const char *where)
{
	const char *ref = text_of(schema, "$ref"), *type;
	const cJSON *items, *item;
	int good = 1;

	if (ref)
		schema = cJSON_GetObjectItemCaseSensitive(l->schemas, strrchr(ref, '/') + 1);
	type = text_of(schema, "type");
	if (!schema || !type_fits(v, type)) {
		tap_diag("%s: %s is wanted", where, schema ? type : "a schema");
		return 0;
	}
	items = cJSON_GetObjectItemCaseSensitive(schema, "items");
	if (cJSON_IsArray(v) && items)
		cJSON_ArrayForEach (item, v)
			good &= one(l, item, items, where);
	if (cJSON_IsObject(v))
		good &= members(l, v, schema, where);
	return good;
}

int api_follows(const cJSON *v, const char *shape, const cJSON *schemas, int strict)
{
	struct look l = {schemas, strict};

	return one(&l, v, cJSON_GetObjectItemCaseSensitive(schemas, shape), shape);
}

const cJSON *api_schemas(const cJSON *document)
{
	return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(document, "components"),
	                                        "schemas");
}
