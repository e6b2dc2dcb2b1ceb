/*
 * The room command: which commands, variables and files the processes of a launch get. Pure: it starts
 * nothing.
 *
 * plan: hearthd's order for one launch (job, attempt) on this node: the PREPARE message, checked, with its
 * spec parsed. RUN/J.A/plan has the encoded message and a line "plan VERSION", so that the next agent has
 * everything that this one had.
 */
#ifndef HEARTH_AGENT_COMMAND_PLAN_H
#define HEARTH_AGENT_COMMAND_PLAN_H

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
/* Returns NULL with ERR_NOT_FOUND for a missing plan, and with another code for one that cannot be read. */
struct plan *plan_load(const char *dir, struct err *e);

/* Returns the index of a node by its name in the gang (algo-1 ...); -1: unknown. */
int plan_node_index(const struct plan *p, const char *name);
const char *plan_node_name(const struct plan *p); /* of this node */
/* Name of the launch's folders, malloc'ed: JOB.ATTEMPT, or that of the parked launch which it took over. */
char *plan_folder(const struct plan *p);
/* Hyperparameters as arguments, sorted by name: "--name value", "-n value" for names of one letter. */
void plan_hp_args(const struct job_spec *s, struct strv *out);
/* Command of this node with the hyperparameters as arguments. */
void plan_argv(const struct plan *p, struct strv *out);

#endif
