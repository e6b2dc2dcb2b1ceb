/*
 * launcher: see launcher.h.
 */
#include "agent/command/launcher.h"

#include "agent/command/mpi.h"
#include "agent/command/torchrun.h"

static const struct launcher_actions actions[N_LAUNCHERS] = {
    [LAUNCHER_MPIRUN] = {.first_argv = mpi_argv,
                         .other_argv = mpi_waiting_argv,
                         .add_env = mpi_env,
                         .bare_env = 1,
                         .line_info = "mpirun"},
    [LAUNCHER_DIRECT] = {.first_argv = NULL},
    [LAUNCHER_TORCHRUN] = {.first_argv = torchrun_argv, .other_argv = torchrun_argv, .add_env = torchrun_env},
};

const struct launcher_actions *launcher_actions(enum spec_launcher id)
{
	return &actions[(size_t)id < N_LAUNCHERS ? id : LAUNCHER_MPIRUN];
}
