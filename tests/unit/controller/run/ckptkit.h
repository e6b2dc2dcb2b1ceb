/*
 * ckptkit: a job on the nodes a and b whose attempts report checkpoints, as agents do.
 */
#ifndef HEARTH_TESTS_UNIT_CONTROLLER_RUN_CKPTKIT_H
#define HEARTH_TESTS_UNIT_CONTROLLER_RUN_CKPTKIT_H

#include "tests/lib/world.h"

#define TWO                                                                                                  \
	"{\"name\": \"two\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "               \
	"{\"instances\": 2, \"gpus_per_instance\": 1}}"

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct ck_part {
	uint32_t attempt, shards;
	uint64_t seq, size;
	int64_t step;
	uint8_t state;
	const char *uri, *file; /* file: its name is FILE-STEP, not step-STEP */
};

void ck_report(struct world *w, uint64_t id, const char *node, const struct ck_part *r);
void ck_start(struct world *w, uint64_t id, uint32_t attempt);
struct world *ck_make(uint64_t seed, uint64_t *id);
cJSON *ck_list(struct world *w, uint64_t id);
char *ck_json(struct world *w, uint64_t id);
void ck_verified(struct world *w, uint64_t id, const char *node, uint32_t attempt, uint64_t seq, int64_t step,
                 const char *uri);
void ck_requeue(struct world *w, uint64_t id, uint32_t attempt, const char *body);
void ck_begins(struct world *w, const char *node, const char *want, const char *what);
void ck_finish(struct world *w, uint64_t id, uint32_t attempt);
/* The metric `loss` of attempt 1. */
void ck_loss(struct world *w, uint64_t id, int64_t step, double value);

#endif
