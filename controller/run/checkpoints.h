/*
 * checkpoints: the checkpoints of jobs: reports of the nodes, what may be removed, and what users, plans and
 * watches change of them. The rules are in record/ckpt.h.
 */
#ifndef HEARTH_CONTROLLER_RUN_CHECKPOINTS_H
#define HEARTH_CONTROLLER_RUN_CHECKPOINTS_H

#include "controller/record/ckpt.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

void on_checkpoint(struct core *c, struct cnode *n, uint64_t id, const struct wm_checkpoint_report *m);
/* Posts what has changed; text says why. */
void checkpoint_pin(struct core *c, struct cjob *j, uint32_t number, int pinned, const char *text);
void checkpoint_set_aside(struct core *c, struct cjob *j, uint32_t number, int aside, const char *text);
void checkpoint_torn(struct core *c, struct cjob *j, uint32_t number, const char *text);
/* Posts that an attempt does not begin with it. */
void checkpoint_passed(struct core *c, struct cjob *j, const struct ckpt *k, const char *why);
/* A node could not restore what its attempt begins with. */
void checkpoint_not_restored(struct core *c, struct cjob *j, const char *node, const char *text);
/* Removes what is no longer needed (checkpoint.keep_last). ends: the job ends, and nothing is set aside any
 * more. */
void checkpoint_retain(struct core *c, struct cjob *j, int ends);
/* Sends the node of that place the copies that it may remove, if there are any. */
void checkpoint_drop(struct core *c, struct cjob *j, uint32_t place, const struct cnode *n);
/* 1: a node could not restore what the present attempt begins with; an older one can be tried. */
int checkpoint_is_torn(struct core *c, struct cjob *j);
/* Notes a loss that a program reported; step -1: none. */
void checkpoint_loss(struct active *a, int64_t step, double value);

#endif
