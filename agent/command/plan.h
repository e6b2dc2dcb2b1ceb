/*
 * plan: what the controller ordered for one launch (job, attempt) on this node: the PREPARE message, checked,
 * with its spec parsed.
 *
 * It is kept in RUN/J.A/plan as the encoded message and a line "plan VERSION", so that an agent that starts
 * again has everything the first one had.
 */
#ifndef HEARTH_AGENT_PLAN_H
#define HEARTH_AGENT_PLAN_H

#include "agent/base/agent_env.h"
#include "common/base/err.h"
#include "common/net/wire_msg.h"
#include "common/spec/spec.h"

struct plan {
	struct wm_prepare *m;             /* owned */
	struct wm_gang *g;                /* out of m; owned */
	struct job_spec *spec;            /* owned */
	uint32_t n_nodes, world;          /* of the whole gang */
	uint32_t first_rank, local_ranks; /* of this node */
};

/* Takes m, also when it fails: ERR_INVALID names the field that does not fit the others. */
struct plan *plan_create(struct wm_prepare *m, struct err *e);
void plan_destroy(struct plan *p);
int plan_save(const struct plan *p, const char *dir, struct err *e);
/* NULL: ERR_NOT_FOUND when there is none; any other code: there is one, and it cannot be read. */
struct plan *plan_load(const char *dir, struct err *e);

/* Index of a node by its name in the gang (algo-1 ...), -1 when it is none. */
int plan_node_index(const struct plan *p, const char *name);
const char *plan_node_name(const struct plan *p); /* of this node */
/* Hyperparameters as arguments, sorted by name: "--name value", "-n value" for names of one letter. */
void plan_hp_args(const struct job_spec *s, struct strv *out);
/* Command of this node with the hyperparameters as arguments. */
void plan_argv(const struct plan *p, struct strv *out);

#endif
