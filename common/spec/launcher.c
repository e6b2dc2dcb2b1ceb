/*
 * launcher: see launcher.h.
 */
#include "common/spec/launcher.h"

#include <string.h>

#include "common/net/wire_msg.h"

static const struct launcher_facts facts[N_LAUNCHERS] = {
    [LAUNCHER_MPIRUN] = {.name = "mpirun",
                         .first_kind = PROC_MPIRUN,
                         .other_kind = PROC_ORTED,
                         .needs_mpirun = 1,
                         .takes_mpi_options = 1,
                         .timeout = START_WITHIN_READY,
                         .programs = {"mpirun", "mpiexec", "srun"}},
    [LAUNCHER_DIRECT] = {.name = "direct", .ranks_at_go = 1, .timeout = START_WITHIN_READY},
    [LAUNCHER_TORCHRUN] = {.name = "torchrun",
                           .first_kind = PROC_TORCHRUN,
                           .other_kind = PROC_TORCHRUN,
                           .equal_nodes = 1,
                           .timeout = START_WITHIN_RENDEZVOUS,
                           .programs = {"torchrun"}},
};

static const struct launcher_proc procs[] = {
    {.kind = PROC_MPIRUN, .name = "mpirun", .own_stream = 1, .starts_at_go = 1},
    {.kind = PROC_ORTED, .name = "orted"}, /* starts when mpirun asks for it: ORTED_START */
    {.kind = PROC_TORCHRUN, .name = "torchrun", .starts_at_go = 1},
};

const struct launcher_facts *launcher_facts(enum spec_launcher id)
{
	return (size_t)id < N_LAUNCHERS ? &facts[id] : &facts[LAUNCHER_MPIRUN];
}

const char *launcher_name(enum spec_launcher id)
{
	return (size_t)id < N_LAUNCHERS ? facts[id].name : "?";
}

const struct launcher_proc *launcher_proc_at(size_t i)
{
	return i < sizeof(procs) / sizeof(procs[0]) ? &procs[i] : NULL;
}

const struct launcher_proc *launcher_proc(uint8_t kind)
{
	const struct launcher_proc *p = NULL;

	for (size_t i = 0; (p = launcher_proc_at(i)) && p->kind != kind;)
		i++;
	return p;
}

const struct launcher_proc *launcher_proc_called(const char *name)
{
	const struct launcher_proc *p = NULL;

	for (size_t i = 0; (p = launcher_proc_at(i)) && strcmp(p->name, name) != 0;)
		i++;
	return p;
}
