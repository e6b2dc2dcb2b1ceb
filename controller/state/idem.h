/*
 * idem: idempotency keys: a request that comes twice with one key gets the first answer again.
 */
#ifndef HEARTH_CONTROLLER_STATE_IDEM_H
#define HEARTH_CONTROLLER_STATE_IDEM_H

#include "common/base/hashtable.h"
#include "controller/state/core_state.h"
#include "controller/state/request.h"

struct idem {
	char *key;
	char digest[HASH_HEX_SIZE];
	uint64_t job;   /* the submitted job; 0: body has the answer */
	uint64_t at_us; /* real; 0: of an earlier hearthd, dropped at the next start */
	uint16_t status;
	char *body;
	UT_hash_handle hh; /* in order of arrival: the oldest goes first */
};

int idem_seen(struct core *c, struct request *rq); /* 1 answered */
struct idem *idem_add(struct core *c, const char *key, const char *digest, uint64_t job);
char *idem_scoped(const struct core *c, const struct request *rq); /* USER:KEY, malloc'ed */
cJSON *idem_submitted(uint64_t id, const char *name);
void idem_load(struct core *c, const struct answer_row *r);
/* Stores the answer to a request with a key, if a repetition needs it. */
void idem_keep(struct core *c, const struct request *rq, int status, const cJSON *body);
void idem_clear(struct core *c);

#endif
