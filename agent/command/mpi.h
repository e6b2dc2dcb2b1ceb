/*
 * mpi: the mpirun line of a launch, and the commands of the other launchers. Pure, but for mpi_find.
 */
#ifndef HEARTH_AGENT_MPI_H
#define HEARTH_AGENT_MPI_H

#include "agent/command/plan.h"
#include "common/base/xalloc.h"

struct mpi_in {
	const struct plan *plan;
	const char *rsh, *rank; /* absolute paths of hearth-rsh, hearth-rank */
	const char *cidr;       /* network of this node's address; NULL: let Open MPI choose */
	int as_root;            /* the job's account is root */
	int has_fabric;         /* RDMA, EFA ...: let Open MPI look for it */
};
void mpi_argv(const struct mpi_in *in, struct strv *out);
/* torchrun of this node: `python3 -m torch.distributed.run ... --no_python RANK`; rank: hearth-rank */
void mpi_torchrun_argv(const struct plan *p, const char *rank, struct strv *out);
/* Command of ORTED_START as words (hearth-rsh has taken the shell line apart): orted is looked for in this
 * node's PATH. */
void mpi_orted_argv(const struct wire_strv *words, const struct job_spec *s, const char *cidr,
                    struct strv *out);
/* Variables for launchers on this node: hearth-rank gives them to the rank without the prefix, over those of
 * the launcher. cidr: this node's network; NULL unknown. */
#define MPI_RANK_ENV "HEARTH_RANK_"
void mpi_net_environment(const struct job_spec *s, const char *cidr, struct strv *out);
/* Arguments as one line that a shell would read back, for people. malloc'ed. */
char *mpi_line(const struct strv *argv);
/* mpirun in PATH of the agent or the usual places; malloc'ed absolute path, NULL none. */
char *mpi_find(void);

#endif
