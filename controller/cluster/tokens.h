/*
 * tokens: join tokens (one node, one time), and joining.
 */
#ifndef HEARTH_CONTROLLER_CLUSTER_TOKENS_H
#define HEARTH_CONTROLLER_CLUSTER_TOKENS_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

struct token {
	char *id, *kind, *secret_hash, *owner, *used_by;
	uint64_t job, created_us, expires_us, used_us;
	UT_hash_handle hh; /* by secret_hash */
};

void token_add(struct core *c, const struct token_row *r); /* at load */
void tokens_clear(struct core *c);

#endif
