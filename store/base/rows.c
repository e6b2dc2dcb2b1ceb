/*
 * rows: releasing records.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/xalloc.h"
#include "store/store.h"

void event_row_fini(struct event_row *r)
{
	free(r->type);
	free(r->data);
	memset(r, 0, sizeof(*r));
}

/* The strings of each record. */
/* clang-format off */
#define JOB_STRINGS(S) \
	S(name) S(owner) S(experiment) S(notes) S(status) S(queue) S(spec) S(bundle) S(run) S(reason) S(wanted) \
	S(idem_key) S(idem_digest) S(cleanup) S(rungs) S(begins)
#define ATTEMPT_STRINGS(S) \
	S(state) S(outcome) S(cls) S(reason) S(cause) S(launch_id) S(token) S(placement) S(resumed_from) \
	S(phases) S(account)
#define RANK_STRINGS(S) S(node) S(state) S(text) S(ended_by)
#define NODE_STRINGS(S) S(name) S(address) S(state) S(reason) S(cert_fingerprint) S(inventory)
#define ARTIFACT_STRINGS(S) S(kind) S(node) S(digest) S(uri)
#define TOKEN_STRINGS(S) S(id) S(kind) S(secret_hash) S(owner) S(used_by)
/* clang-format on */

#define FREE(field) free(r->field);

void job_row_fini(struct job_row *r)
{
	JOB_STRINGS(FREE)
	memset(r, 0, sizeof(*r));
}

void attempt_row_fini(struct attempt_row *r)
{
	ATTEMPT_STRINGS(FREE)
	memset(r, 0, sizeof(*r));
}

void rank_row_fini(struct rank_row *r)
{
	RANK_STRINGS(FREE)
	memset(r, 0, sizeof(*r));
}

void node_row_fini(struct node_row *r)
{
	NODE_STRINGS(FREE)
	memset(r, 0, sizeof(*r));
}

void artifact_row_fini(struct artifact_row *r)
{
	ARTIFACT_STRINGS(FREE)
	memset(r, 0, sizeof(*r));
}

void token_row_fini(struct token_row *r)
{
	TOKEN_STRINGS(FREE)
	memset(r, 0, sizeof(*r));
}

void left_fini(struct left *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->parts[i].what);
	free(l->parts);
	*l = (struct left){0};
}
