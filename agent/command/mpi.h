/*
 * mpi: the command lines of mpirun and orted. Pure, but for mpi_find.
 */
#ifndef HEARTH_AGENT_COMMAND_MPI_H
#define HEARTH_AGENT_COMMAND_MPI_H

#include "agent/command/launcher_in.h"
#include "common/base/xalloc.h"

/* Adds the line of mpirun, for the main node. */
void mpi_argv(const struct launcher_in *in, struct strv *out);
/* Adds what orted's shim has until ORTED_START brings the rest. */
void mpi_waiting_argv(const struct launcher_in *in, struct strv *out);
/* Command of ORTED_START as words (hearth-rsh has taken the shell line apart): orted is looked for in this
 * node's PATH. */
void mpi_orted_argv(const struct wire_strv *words, const struct job_spec *s, const char *cidr,
                    struct strv *out);
/* Variables for launchers on this node: hearth-rank gives them to the rank without the prefix, over those of
 * the launcher. They name this node's network. */
#define MPI_RANK_ENV "HEARTH_RANK_"
void mpi_env(const struct launcher_in *in, struct strv *out);
/* Arguments as one line that a shell would read back, for people. malloc'ed. */
char *mpi_line(const struct strv *argv);
/* mpirun in PATH of the agent or the usual places; malloc'ed absolute path, NULL none. */
char *mpi_find(void);

#endif
