/*
 * verb_table: the closed list of jobctl's verbs, in the order of the help.
 *
 * jobctl is a thin client of hearthd's HTTP API. Its folders, each of which may use only those before it:
 * client (calls), show (output for people), local (a cluster on this machine), sim (simulation without a
 * controller), verbs (one file per group of verbs).
 */
#ifndef HEARTH_JOBCTL_VERB_TABLE_H
#define HEARTH_JOBCTL_VERB_TABLE_H

#include "jobctl/client/ctx.h"

extern const struct verb *const verb_table[]; /* lists, each of which ends with a NULL name; then NULL */

#endif
