/*
 * topology: see topology.h. I/O devices are not asked of hwloc: their back ends load graphics and OpenCL
 * libraries into the agent, and the NUMA node of a GPU is in sysfs.
 */
#include "agent/machine/topology.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_HWLOC
#include <hwloc.h>
#endif

#include "common/base/buf.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define CPUS_MAX 8192

static void read_affinity(struct topo *t)
{
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
	size_t size = CPU_ALLOC_SIZE(CPUS_MAX);

	if (!set)
		abort();
	CPU_ZERO_S(size, set);
	if (sched_getaffinity(0, size, set) < 0)
		CPU_SET_S(0, size, set);
	t->v = xcalloc((size_t)CPU_COUNT_S(size, set), sizeof(*t->v));
	for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++)
		if (CPU_ISSET_S(cpu, size, set))
			t->v[t->n++] = (struct topo_cpu){.os = cpu, .package = -1, .numa = -1, .core = -1};
	CPU_FREE(set);
}

#ifdef HAVE_HWLOC
static int index_above(hwloc_topology_t h, hwloc_obj_t pu, hwloc_obj_type_t type)
{
	hwloc_obj_t o = hwloc_get_ancestor_obj_by_type(h, type, pu);

	return o ? (int)o->logical_index : -1;
}

static int numa_of(hwloc_topology_t h, hwloc_obj_t pu)
{
	hwloc_obj_t node = NULL;

	while ((node = hwloc_get_next_obj_by_type(h, HWLOC_OBJ_NUMANODE, node)))
		if (node->cpuset && hwloc_bitmap_isset(node->cpuset, pu->os_index))
			return (int)node->os_index;
	return -1;
}

static int read_places(struct topo *t)
{
	hwloc_topology_t h;
	hwloc_obj_t pu;

	if (hwloc_topology_init(&h) < 0)
		return -1;
	if (hwloc_topology_load(h) < 0) {
		hwloc_topology_destroy(h);
		return -1;
	}
	for (uint32_t i = 0; i < t->n; i++) {
		pu = hwloc_get_pu_obj_by_os_index(h, t->v[i].os);
		if (!pu)
			continue;
		t->v[i].package = index_above(h, pu, HWLOC_OBJ_PACKAGE);
		t->v[i].core = index_above(h, pu, HWLOC_OBJ_CORE);
		t->v[i].numa = numa_of(h, pu);
	}
	hwloc_topology_destroy(h);
	t->by = "hwloc";
	return 0;
}
#else
static int read_places(struct topo *t)
{
	(void)t;
	return -1;
}
#endif

static int read_number(uint32_t cpu, const char *name)
{
	char path[128], *text;
	size_t n;
	int v = -1;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/%s", cpu, name);
	if (fs_read_file(path, 64, &text, &n, NULL) == 0) {
		v = atoi(text);
		free(text);
	}
	return v;
}

static int find_node(const char *name, void *arg)
{
	if (strncmp(name, "node", 4) == 0 && name[4] >= '0' && name[4] <= '9')
		*(int *)arg = atoi(name + 4);
	return 0;
}

static void read_sysfs(struct topo *t)
{
	char path[96];

	t->by = "sysfs";
	for (uint32_t i = 0; i < t->n; i++) {
		t->v[i].package = read_number(t->v[i].os, "physical_package_id");
		t->v[i].core = read_number(t->v[i].os, "core_id");
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u", t->v[i].os);
		fs_each(path, find_node, &t->v[i].numa, NULL);
	}
}

static int by_place(const void *a, const void *b)
{
	const struct topo_cpu *x = a, *y = b;

	if (x->package != y->package)
		return x->package < y->package ? -1 : 1;
	if (x->numa != y->numa)
		return x->numa < y->numa ? -1 : 1;
	if (x->core != y->core)
		return x->core < y->core ? -1 : 1;
	return x->os < y->os ? -1 : x->os > y->os;
}

void topo_read(struct topo *t)
{
	*t = (struct topo){0};
	read_affinity(t);
	if (read_places(t) < 0)
		read_sysfs(t);
	qsort(t->v, t->n, sizeof(*t->v), by_place);
}

void topo_fini(struct topo *t)
{
	free(t->v);
	*t = (struct topo){0};
}

char *topo_json(const struct topo *t)
{
	struct buf b;
	char item[80];
	char *text;

	buf_init(&b, 1024 * 1024);
	snprintf(item, sizeof(item), "{\"by\":\"%s\",\"cpus\":[", t->by);
	buf_put(&b, item, strlen(item));
	for (uint32_t i = 0; i < t->n; i++) {
		const struct topo_cpu *c = &t->v[i];

		snprintf(item, sizeof(item), "%s[%u,%d,%d,%d]", i ? "," : "", c->os, c->package, c->numa, c->core);
		buf_put(&b, item, strlen(item));
	}
	buf_put(&b, "]}", 2);
	text = xstrndup((const char *)buf_head(&b), buf_left(&b));
	buf_fini(&b);
	return text;
}

static int on_node(const struct topo *t, uint32_t cpu, const int *numa, uint32_t n_numa)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->v[i].os == cpu)
			for (uint32_t k = 0; k < n_numa; k++)
				if (numa[k] >= 0 && numa[k] == t->v[i].numa)
					return 1;
	return 0;
}

uint32_t topo_near(const struct topo *t, const int *numa, uint32_t n_numa, const uint32_t *allowed,
                   uint32_t n, uint32_t want, uint32_t *out)
{
	uint32_t got = 0;

	for (int near = 1; near >= 0; near--)
		for (uint32_t i = 0; i < n && got < want; i++)
			if (on_node(t, allowed[i], numa, n_numa) == near)
				out[got++] = allowed[i];
	return got;
}
