/*
 * prom: one pass over the members; a member that is no number is left out.
 */
#include "controller/api/prom.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/xalloc.h"

static void name_of(const char *key, char *out, size_t size)
{
	size_t i;

	snprintf(out, size, "hearth_%s", key);
	for (i = 0; out[i]; i++)
		if (!isalnum((unsigned char)out[i]) && out[i] != '_')
			out[i] = '_';
}

static void put_type(FILE *f, const char *name)
{
	size_t n = strlen(name);

	fprintf(f, "# TYPE %s %s\n", name, n > 6 && strcmp(name + n - 6, "_total") == 0 ? "counter" : "gauge");
}

static void put_value(FILE *f, double v)
{
	if (isnan(v))
		fputs(" NaN\n", f);
	else if (isinf(v))
		fputs(v > 0 ? " +Inf\n" : " -Inf\n", f);
	else
		fprintf(f, " %.17g\n", v);
}

static void put_label(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', f);
		if (*s == '\n')
			fputs("\\n", f);
		else
			fputc(*s, f);
	}
}

static void put_member(FILE *f, const cJSON *m)
{
	char name[128];
	const cJSON *v;
	int any = 0;

	name_of(m->string, name, sizeof(name));
	if (cJSON_IsNumber(m)) {
		put_type(f, name);
		fputs(name, f);
		put_value(f, m->valuedouble);
		return;
	}
	if (!cJSON_IsObject(m))
		return;
	cJSON_ArrayForEach (v, m) {
		if (!cJSON_IsNumber(v))
			continue;
		if (!any++)
			put_type(f, name);
		fprintf(f, "%s{state=\"", name);
		put_label(f, v->string);
		fputs("\"}", f);
		put_value(f, v->valuedouble);
	}
}

char *prom_text(const cJSON *a, const cJSON *b)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	const cJSON *m;

	if (!f)
		return xstrdup("");
	cJSON_ArrayForEach (m, a)
		put_member(f, m);
	cJSON_ArrayForEach (m, b)
		if (!cJSON_HasObjectItem(a, m->string))
			put_member(f, m);
	fclose(f);
	return text;
}
