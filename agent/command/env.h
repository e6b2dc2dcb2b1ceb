/*
 * env: the environment of a launch's processes, and the files in ml/input/config. Pure: everything is in
 * the arguments.
 *
 * A rank gets nothing of the agent's environment. Order: base, rendezvous, Open MPI names, SageMaker names,
 * HEARTH_*, then the job's `environment`, then what nobody may change (the launch's mark). A value that the
 * kernel would refuse (128 KiB a string) is left out, and left_out has its name.
 */
#ifndef HEARTH_AGENT_COMMAND_ENV_H
#define HEARTH_AGENT_COMMAND_ENV_H

#include "agent/base/paths.h"
#include "agent/base/user.h"
#include "agent/command/plan.h"

#define ENV_VALUE_MAX (120u * 1024) /* MAX_ARG_STRLEN is 128 KiB with name and NUL */

struct env_in {
	const struct plan *plan;
	const struct launch_paths *paths;
	const struct launch_user *user;
	uint32_t local_rank;       /* NO_RANK: a launcher (torchrun) that sets ranks itself */
	uint32_t cpus;             /* of this rank: OMP_NUM_THREADS */
	uint32_t node_cpus;        /* of the job on this node */
	const char *visible;       /* CUDA_VISIBLE_DEVICES; NULL: leave unset */
	const char *ifname;        /* interface with the node's address; NULL unknown */
	const char *instance_type; /* NULL none */
	const char *venv_bin;      /* NULL none */
	const char *mpi_bin;       /* where mpirun and orted are; NULL or a standard place */
	const char *tools_bin;     /* folder of hearth-ckpt; NULL or a standard place */
	const char *tmpdir;
	const char *resume_dir; /* as seen; NULL none */
	const char *ca_file;    /* as seen; NULL none */
	const char *shm_dir; /* private to the launch, when the container has no /dev/shm of its own; else NULL */
	struct strv *left_out; /* names; may be NULL */
};

void env_rank(const struct env_in *in, struct strv *out);
/* mpirun, orted: base, the job's OMPI_MCA_* and MCA-free variables, and how to find agent and shims. */
void env_launcher(const struct env_in *in, const char *agent_sock, struct strv *out);
/* Lines "NAME=VALUE" as people may read them: common/base/secret.h. */
void env_masked(const struct strv *env, struct strv *out);

/* hyperparameters.json, inputdataconfig.json, resourceconfig.json, hostfile under dir (ml/input/config). */
int env_files(const struct env_in *in, const char *dir, struct err *e);

/* For the two above and tests: JSON texts, malloc'ed. */
char *env_resource_config(const struct env_in *in);
char *env_input_config(const struct env_in *in);
char *env_tf_config(const struct env_in *in); /* NULL without groups */
/* Script of a command: "train.py" of {"python3", "-u", "train.py"}; else its first word. */
const char *env_entry_point(const struct strv *command);

#endif
