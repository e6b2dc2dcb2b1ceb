/*
 * topology: the CPUs that this process may use, and their place: package, NUMA node, core. By hwloc where
 * it is built in, else by sysfs.
 */
#ifndef HEARTH_AGENT_MACHINE_TOPOLOGY_H
#define HEARTH_AGENT_MACHINE_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

struct topo_cpu {
	uint32_t os;             /* number as in /proc/cpuinfo and sched_setaffinity */
	int package, numa, core; /* -1 unknown */
};
struct topo {
	struct topo_cpu *v; /* ordered by package, NUMA node, core, number: neighbours lie near to each other */
	uint32_t n;
	const char *by; /* "hwloc", "sysfs" */
};

void topo_read(struct topo *t);
void topo_fini(struct topo *t);
/* {"by":"hwloc","cpus":[[os,package,numa,core],...]}, malloc'ed */
char *topo_json(const struct topo *t);
/* From `allowed` (n of them) at most want, those on one of the NUMA nodes first, else in the order given.
 * Returns how many. */
uint32_t topo_near(const struct topo *t, const int *numa, uint32_t n_numa, const uint32_t *allowed,
                   uint32_t n, uint32_t want, uint32_t *out);

#endif
