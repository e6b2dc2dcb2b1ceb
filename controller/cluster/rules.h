/* rules: an administrator's rules for lines of failures, on their way to the agents. */
#ifndef HEARTH_CONTROLLER_CLUSTER_RULES_H
#define HEARTH_CONTROLLER_CLUSTER_RULES_H

#include "controller/state/node_table.h"

/* As core_set_rules. */
void rules_set(struct core *c, const char *file, const char *text, unsigned rules, int first,
               const char *why);
/* Sends the rules to a node that does not have the present ones. */
void rules_tell(struct core *c, struct cnode *n);

#endif
