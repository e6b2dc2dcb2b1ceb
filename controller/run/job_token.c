/*
 * job_token: the token of an attempt, with which its ranks reach hearthd. hearthd stores only its hash.
 */
#include "controller/run/job_token.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/hashtable.h"
#include "controller/park/park.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/turn.h"

/* Derives both tokens from the attempt's secret: an order that is repeated after a restart carries the same
 * tokens. */
void token_secrets(const struct cjob *j, uint32_t place, char launch[33], char job[41])
{
	char text[128], hash[HASH_HEX_SIZE];

	launch_token(j->r.att->token, place, launch);
	snprintf(text, sizeof(text), "job:%s", j->r.att->token ? j->r.att->token : "");
	hash_hex(text, strlen(text), hash);
	snprintf(job, 41, "%.40s", hash);
}

static void job_token_row(struct core *c, struct cjob *j, uint64_t expires_us)
{
	char launch[33], secret[41], hash[HASH_HEX_SIZE], id[64];

	token_secrets(j, 0, launch, secret);
	hash_hex(secret, strlen(secret), hash);
	snprintf(id, sizeof(id), "job-%" PRIu64 ".%u", j->r.id, j->r.att->number);
	store_txn_token(turn_now(c)->txn,
	                &(struct token_row){.id = id,
	                                    .kind = (char *)(uintptr_t) "job",
	                                    .secret_hash = hash,
	                                    .owner = (char *)(uintptr_t)(j->r.owner ? j->r.owner : ""),
	                                    .job = j->r.id,
	                                    .created_us = j->r.att->started_us,
	                                    .expires_us = expires_us});
	turn_now(c)->n++;
}

void token_job_make(struct core *c, struct cjob *j)
{
	job_token_row(c, j, 0);
}

void token_job_expire(struct core *c, struct cjob *j)
{
	job_token_row(c, j, now_real(c));
}
