/*
 * fuzz_spec: text as a job.json. What is accepted must come back from its normalized form the same.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/spec/spec.h"

static char *normalized(const struct job_spec *s)
{
	cJSON *json = spec_to_json(s);
	char *text = json_text(json);

	cJSON_Delete(json);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct strv problems = {0};
	struct err e;
	struct job_spec *s = spec_parse_list((const char *)data, size, &problems, &e), *back;

	strv_fini(&problems);
	if (s) {
		char *one = normalized(s), *two;

		back = spec_parse(one, strlen(one), &e);
		if (!back)
			abort();
		two = normalized(back);
		if (strcmp(one, two) != 0 || spec_ranks(s) != spec_ranks(back))
			abort();
		free(one);
		free(two);
		spec_destroy(back);
		spec_destroy(s);
	}
	return 0;
}
