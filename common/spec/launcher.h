/*
 * launcher: the facts about each launcher, in one table. A launcher brings up the ranks of a job. The agent's
 * part is in agent/command/launcher.c: command lines and environments.
 *
 * To add a launcher: a value of enum spec_launcher and its lines in launcher.c, its actions in
 * agent/command/launcher.c, a file of its own for its command line in agent/command, and its line in
 * docs/spec/09-agent.md. A new kind of process also needs a value of enum proc_kind on the wire.
 */
#ifndef HEARTH_COMMON_SPEC_LAUNCHER_H
#define HEARTH_COMMON_SPEC_LAUNCHER_H

#include <stddef.h>
#include <stdint.h>

enum spec_launcher { LAUNCHER_MPIRUN, LAUNCHER_DIRECT, LAUNCHER_TORCHRUN, N_LAUNCHERS };

/* For texts that cannot call a function. A unit test compares them with the table. */
#define LAUNCHER_NAMES   "mpirun, direct or torchrun"
#define LAUNCHER_STREAMS "mpirun"

#define LAUNCHER_PROGRAMS_MAX 4

/* Which setting of hearthd bounds the time from the go to the first rank. */
enum launcher_timeout {
	START_WITHIN_READY,      /* ready_timeout */
	START_WITHIN_RENDEZVOUS, /* rendezvous_timeout: the launcher loads a framework first */
};

struct launcher_facts {
	const char *name;
	uint8_t first_kind;    /* enum proc_kind of the launcher's process on the first node; 0: none */
	uint8_t other_kind;    /* the same on the other nodes */
	int ranks_at_go;       /* ranks start when hearthd says go; 0: when the launcher starts hearth-rank */
	int needs_mpirun;      /* each node needs Open MPI */
	int takes_mpi_options; /* job.json: mpi_options */
	int equal_nodes;       /* starts equal nodes only: no groups */
	enum launcher_timeout timeout;
	/* Programs that do the same; a user who begins the command with one starts it once a rank. */
	const char *programs[LAUNCHER_PROGRAMS_MAX];
};

/* A process of a launcher on a node. */
struct launcher_proc {
	uint8_t kind;     /* enum proc_kind */
	const char *name; /* its folder and, with own_stream, its log stream */
	int own_stream;   /* 0: its last lines go to the system stream */
	int starts_at_go; /* 0: it waits for an order of its own */
};

/* Returns the facts of a launcher; of LAUNCHER_MPIRUN for a value out of range. */
const struct launcher_facts *launcher_facts(enum spec_launcher id);
/* Returns the name, "?" for a value out of range. */
const char *launcher_name(enum spec_launcher id);

/* Return NULL when no launcher has such a process: for ranks, and for unknown kinds, names and places. */
const struct launcher_proc *launcher_proc(uint8_t kind);
const struct launcher_proc *launcher_proc_called(const char *name);
const struct launcher_proc *launcher_proc_at(size_t i); /* 0, 1 ... until NULL */

#endif
