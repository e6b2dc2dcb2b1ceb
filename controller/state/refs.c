/*
 * refs: see refs.h.
 */
#include "controller/state/refs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/strutil.h"
#include "controller/state/core_state.h"

int ref_parse(const char *uri, const char *def, uint64_t *job, char *kind, size_t kind_size, struct err *e)
{
	const char *id = uri + 4, *slash = strchr(id, '/');
	char number[24];
	size_t n = slash ? (size_t)(slash - id) : strlen(id);

	if (n < sizeof(number)) {
		memcpy(number, id, n);
		number[n] = '\0';
		if (str_parse_u64(number, job) == 0 && (slash || def) &&
		    strlen(slash ? slash + 1 : def) < kind_size) {
			snprintf(kind, kind_size, "%s", slash ? slash + 1 : def);
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "\"%.100s\" is not job:ID/KIND", uri);
}

static int resolve_uri(struct core *c, const char *uri, char *out, size_t n, struct err *e)
{
	char kind[32];
	uint64_t job;

	if (ref_parse(uri, NULL, &job, kind, sizeof(kind), e) < 0 || !job_get(c, job, e))
		return -1;
	if (!c->io.artifact)
		return err_set(e, ERR_NOT_FOUND, "job %" PRIu64 " has left no %s", job, kind);
	if (c->io.artifact(job, kind, out, n, c->io.arg, e) < 0)
		return e->code == ERR_NOT_FOUND ? err_wrap(e, "%s", uri) : -1;
	return 0;
}

int refs_resolve(struct core *c, const struct job_spec *spec, struct strv *inputs, struct err *e)
{
	char out[4096 + HASH_HEX_SIZE];

	for (size_t i = 0; i < spec->n_inputs; i++) {
		out[0] = '\0';
		if (strncmp(spec->inputs[i].uri, "job:", 4) == 0 &&
		    resolve_uri(c, spec->inputs[i].uri, out, sizeof(out), e) < 0)
			return err_wrap(e, "inputs.%s", spec->inputs[i].name);
		strv_add(inputs, out);
	}
	return 0;
}
