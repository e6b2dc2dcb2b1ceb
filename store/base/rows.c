/*
 * rows: releasing records.
 */
#include "store/base/rows.h"

#include <stdlib.h>
#include <string.h>

#include "store/base/columns.h"

void event_row_fini(struct event_row *r)
{
	free(r->type);
	free(r->data);
	memset(r, 0, sizeof(*r));
}

/* The strings of the records that have no table in columns.h. */
/* clang-format off */
#define NODE_STRINGS(S) S(name) S(address) S(state) S(reason) S(cert_fingerprint) S(inventory)
#define ARTIFACT_STRINGS(S) S(kind) S(node) S(digest) S(uri)
#define TOKEN_STRINGS(S) S(id) S(kind) S(secret_hash) S(owner) S(used_by) S(scope) S(account) S(note) S(made_with) S(seen_from)
/* clang-format on */

#define FREE(field) free(r->field);

#define FREE_TEXT(name)     free(r->name);
#define FREE_NULLABLE(name) free(r->name);
#define FREE_FILLED(name)   free(r->name);
#define FREE_U64(name)
#define FREE_U32(name)
#define FREE_U8(name)
#define FREE_I64(name)
#define FREE_COLUMN(kind, name, how) FREE_##kind(name)

void job_row_fini(struct job_row *r)
{
	JOB_TABLE(FREE_COLUMN, FREE_COLUMN)
	free(r->spec);
	free(r->run);
	memset(r, 0, sizeof(*r));
}

void attempt_row_fini(struct attempt_row *r)
{
	ATTEMPT_TABLE(FREE_COLUMN, FREE_COLUMN)
	memset(r, 0, sizeof(*r));
}

void rank_row_fini(struct rank_row *r)
{
	RANK_TABLE(FREE_COLUMN, FREE_COLUMN)
	memset(r, 0, sizeof(*r));
}

void checkpoint_row_fini(struct checkpoint_row *r)
{
	CHECKPOINT_TABLE(FREE_COLUMN, FREE_COLUMN)
	memset(r, 0, sizeof(*r));
}

void checkpoint_part_row_fini(struct checkpoint_part_row *r)
{
	CHECKPOINT_PART_TABLE(FREE_COLUMN, FREE_COLUMN)
	memset(r, 0, sizeof(*r));
}

void pool_row_fini(struct pool_row *r)
{
	POOL_TABLE(FREE_COLUMN, FREE_COLUMN)
	memset(r, 0, sizeof(*r));
}

void pool_job_row_fini(struct pool_job_row *r)
{
	POOL_JOB_TABLE(FREE_COLUMN, FREE_COLUMN)
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
