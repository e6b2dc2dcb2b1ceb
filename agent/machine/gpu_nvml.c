/*
 * gpu_nvml: GPUs by NVIDIA's management library, with our own prototypes for the few calls in use (a
 * changed call gets a new suffix, so names are stable). A value that one call cannot give stays unknown. A
 * GPU that does not answer at all is left out and named in the note, so that no job gets it.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/machine/gpu.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define NVML_OK            0
#define NVML_NOT_SUPPORTED 3
#define CLOCK_GRAPHICS     0
#define CLOCK_MEMORY       2
#define LINKS_MAX          18   /* NVML_NVLINK_MAX_LINKS */
#define GROUP_SWITCH       1000 /* all that are linked to a switch: the only fabric of a machine */

typedef struct nvmlDevice_st *nvml_dev;
struct nvml_memory {
	unsigned long long total, free, used;
};
struct nvml_util {
	unsigned gpu, memory; /* per cent */
};
struct nvml_pci { /* nvmlPciInfo_t of the calls with suffix _v3 (PciInfo) and _v2 (remote) */
	char bus_id_legacy[16];
	unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
	char bus_id[32];
};

/* One line a call: name in the library, type. Optional ones may be missing. */
#define CALLS(C)                                                                                             \
	C(init, "nvmlInit_v2", (void), 1)                                                                        \
	C(shutdown, "nvmlShutdown", (void), 1)                                                                   \
	C(count, "nvmlDeviceGetCount_v2", (unsigned *), 1)                                                       \
	C(handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned, nvml_dev *), 1)                                    \
	C(uuid, "nvmlDeviceGetUUID", (nvml_dev, char *, unsigned), 1)                                            \
	C(name, "nvmlDeviceGetName", (nvml_dev, char *, unsigned), 1)                                            \
	C(memory, "nvmlDeviceGetMemoryInfo", (nvml_dev, struct nvml_memory *), 1)                                \
	C(util, "nvmlDeviceGetUtilizationRates", (nvml_dev, struct nvml_util *), 0)                              \
	C(minor, "nvmlDeviceGetMinorNumber", (nvml_dev, unsigned *), 0)                                          \
	C(pci, "nvmlDeviceGetPciInfo_v3", (nvml_dev, struct nvml_pci *), 0)                                      \
	C(link_state, "nvmlDeviceGetNvLinkState", (nvml_dev, unsigned, int *), 0)                                \
	C(link_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2", (nvml_dev, unsigned, struct nvml_pci *), 0)           \
	C(driver, "nvmlSystemGetDriverVersion", (char *, unsigned), 0)                                           \
	C(cuda, "nvmlSystemGetCudaDriverVersion_v2", (int *), 0)                                                 \
	C(power, "nvmlDeviceGetPowerManagementLimit", (nvml_dev, unsigned *), 0)                                 \
	C(set_power, "nvmlDeviceSetPowerManagementLimit", (nvml_dev, unsigned), 0)                               \
	C(compute_mode, "nvmlDeviceGetComputeMode", (nvml_dev, int *), 0)                                        \
	C(set_compute_mode, "nvmlDeviceSetComputeMode", (nvml_dev, int), 0)                                      \
	C(mig_mode, "nvmlDeviceGetMigMode", (nvml_dev, unsigned *, unsigned *), 0)                               \
	C(clock, "nvmlDeviceGetApplicationsClock", (nvml_dev, int, unsigned *), 0)                               \
	C(set_clocks, "nvmlDeviceSetApplicationsClocks", (nvml_dev, unsigned, unsigned), 0)

struct nvml {
	void *lib;
#define C(field, symbol, args, needed) int(*field) args;
	CALLS(C)
#undef C
	nvml_dev dev[GPUS_MAX]; /* by our index */
	int inited;
	uint32_t n;
};

static int load_library(struct nvml *n, const char *library, struct gpus *out)
{
	n->lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!n->lib) {
		snprintf(out->note, sizeof(out->note), "no NVIDIA management library (%s)", library);
		return -1;
	}
	/* By memcpy: ISO C has no cast from an object pointer to a function pointer. */
#define C(field, symbol, args, needed)                                                                       \
	do {                                                                                                     \
		void *p = dlsym(n->lib, symbol);                                                                     \
		memcpy(&n->field, &p, sizeof(p));                                                                    \
		if (!p && needed) {                                                                                  \
			snprintf(out->note, sizeof(out->note), "%s has no %s", library, symbol);                         \
			return -1;                                                                                       \
		}                                                                                                    \
	} while (0);
	CALLS(C)
#undef C
	return 0;
}

static int numa_of(const char *bus_id)
{
	char path[96], low[32], *text;
	size_t n;
	int numa = -1;

	/* The library says 00000000:3B:00.0, sysfs 0000:3b:00.0. */
	snprintf(low, sizeof(low), "%s", strlen(bus_id) > 12 ? bus_id + 4 : bus_id);
	for (char *c = low; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", low);
	if (fs_read_file(path, 64, &text, &n, NULL) == 0) {
		numa = atoi(text);
		free(text);
	}
	return numa < 0 ? -1 : numa;
}

/* Text that goes into a line of the inventory. */
static void clean_text(char *s)
{
	for (; *s; s++)
		if (*s == '|' || (unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '_';
}

static int read_one(struct nvml *n, unsigned index, struct gpus *out)
{
	struct gpu *g = &out->v[out->n];
	struct nvml_memory mem = {0};
	struct nvml_pci pci = {0};
	unsigned minor;
	nvml_dev dev;
	int rc;

	*g = (struct gpu){.numa = -1, .link_group = -1, .minor = -1};
	if (n->handle(index, &dev) != NVML_OK || n->uuid(dev, g->uuid, sizeof(g->uuid)) != NVML_OK ||
	    n->name(dev, g->model, sizeof(g->model)) != NVML_OK)
		return -1;
	rc = n->memory(dev, &mem);
	if (rc != NVML_OK &&
	    rc != NVML_NOT_SUPPORTED) /* some share the machine's memory and have none of their own */
		return -1;
	g->uuid[sizeof(g->uuid) - 1] = g->model[sizeof(g->model) - 1] = '\0';
	clean_text(g->uuid);
	clean_text(g->model);
	g->memory_bytes = mem.total;
	if (n->minor && n->minor(dev, &minor) == NVML_OK && minor < 4096)
		g->minor = (int)minor;
	if (n->pci && n->pci(dev, &pci) == NVML_OK) {
		snprintf(g->bus_id, sizeof(g->bus_id), "%.31s", pci.bus_id);
		g->numa = numa_of(g->bus_id);
	}
	n->dev[out->n++] = dev;
	return 0;
}

static int index_of_bus(const struct gpus *g, const char *bus_id)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (strcasecmp(g->v[i].bus_id, bus_id) == 0)
			return (int)i;
	return -1;
}

static void join_links(struct gpus *g, int a, int b)
{
	int from = g->v[b].link_group, to = g->v[a].link_group;

	for (uint32_t i = 0; i < g->n; i++)
		if (g->v[i].link_group == from)
			g->v[i].link_group = to;
}

/* GPUs that are linked to each other form a group; so do all whose links end in a switch. */
static void find_groups(struct nvml *n, struct gpus *g)
{
	int linked[GPUS_MAX] = {0}, active, other, at_switch = -1, next = 0;
	struct nvml_pci pci;

	if (!n->link_state || !n->link_pci)
		return;
	for (uint32_t i = 0; i < g->n; i++)
		g->v[i].link_group = GROUP_SWITCH + (int)i;
	for (uint32_t i = 0; i < g->n; i++) {
		for (unsigned l = 0; l < LINKS_MAX; l++) {
			if (n->link_state(n->dev[i], l, &active) != NVML_OK || !active ||
			    n->link_pci(n->dev[i], l, &pci) != NVML_OK)
				continue;
			pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
			other = index_of_bus(g, pci.bus_id);
			if (other < 0 && at_switch < 0)
				at_switch = (int)i;
			linked[i] = 1;
			join_links(g, other >= 0 ? other : at_switch, (int)i);
		}
	}
	for (uint32_t i = 0; i < g->n; i++) /* small numbers in order of first use */
		if (g->v[i].link_group >= GROUP_SWITCH) {
			int from = g->v[i].link_group, to = linked[i] ? next++ : -1;

			for (uint32_t k = i; k < g->n; k++)
				if (g->v[k].link_group == from)
					g->v[k].link_group = to;
		}
}

static void read_versions(struct nvml *n, struct gpus *out)
{
	int cuda;

	if (n->driver && n->driver(out->driver, sizeof(out->driver)) != NVML_OK)
		out->driver[0] = '\0';
	out->driver[sizeof(out->driver) - 1] = '\0';
	clean_text(out->driver);
	if (n->cuda && n->cuda(&cuda) == NVML_OK)
		snprintf(out->cuda, sizeof(out->cuda), "%d.%d", cuda / 1000, cuda % 1000 / 10);
}

struct nvml *gpu_nvml_open(const char *library, struct gpus *out)
{
	struct nvml *n = xcalloc(1, sizeof(*n));
	unsigned count = 0, missing = 0;
	int rc;

	memset(out, 0, sizeof(*out));
	if (load_library(n, library, out) < 0) {
		gpu_nvml_close(n);
		return NULL;
	}
	rc = n->init();
	if (rc != NVML_OK) {
		snprintf(out->note, sizeof(out->note), "NVIDIA driver does not answer (code %d)", rc);
		gpu_nvml_close(n);
		return NULL;
	}
	n->inited = 1;
	read_versions(n, out);
	if (n->count(&count) != NVML_OK)
		count = 0;
	for (unsigned i = 0; i < count && out->n < GPUS_MAX; i++)
		missing += read_one(n, i, out) < 0;
	if (missing)
		snprintf(out->note, sizeof(out->note), "%u of %u GPUs do not answer and are left out", missing,
		         count);
	n->n = out->n;
	find_groups(n, out);
	return n;
}

void gpu_nvml_close(struct nvml *n)
{
	if (!n)
		return;
	if (n->inited)
		n->shutdown();
	if (n->lib)
		dlclose(n->lib);
	free(n);
}

void gpu_nvml_sample(struct nvml *n, struct gpu_sample *out, uint32_t count)
{
	struct nvml_util util;
	struct nvml_memory mem;

	for (uint32_t i = 0; i < count; i++) {
		out[i] = (struct gpu_sample){.util = -1};
		if (i >= n->n)
			continue;
		if (n->util && n->util(n->dev[i], &util) == NVML_OK)
			out[i].util = util.gpu / 100.0;
		if (n->memory(n->dev[i], &mem) == NVML_OK)
			out[i].memory_used = mem.used;
	}
}

void gpu_nvml_settings(struct nvml *n, uint32_t gpu, struct gpu_settings *out)
{
	nvml_dev dev = gpu < n->n ? n->dev[gpu] : NULL;
	unsigned u, pending;
	int mode;

	for (int i = 0; i < GPU_SETTINGS; i++)
		out->v[i] = -1;
	if (!dev)
		return;
	if (n->power && n->power(dev, &u) == NVML_OK)
		out->v[GPU_POWER_MW] = u;
	if (n->compute_mode && n->compute_mode(dev, &mode) == NVML_OK)
		out->v[GPU_COMPUTE_MODE] = mode;
	if (n->mig_mode && n->mig_mode(dev, &u, &pending) == NVML_OK)
		out->v[GPU_MIG_MODE] = pending; /* what the next reset makes of it */
	if (n->clock && n->clock(dev, CLOCK_GRAPHICS, &u) == NVML_OK)
		out->v[GPU_GRAPHICS_MHZ] = u;
	if (n->clock && n->clock(dev, CLOCK_MEMORY, &u) == NVML_OK)
		out->v[GPU_MEMORY_MHZ] = u;
}

void gpu_nvml_put(struct nvml *n, uint32_t gpu, const struct gpu_settings *to, enum gpu_setting which)
{
	nvml_dev dev = gpu < n->n ? n->dev[gpu] : NULL;
	int clocks = (which == GPU_GRAPHICS_MHZ || which == GPU_MEMORY_MHZ) && to->v[GPU_GRAPHICS_MHZ] > 0 &&
	             to->v[GPU_MEMORY_MHZ] > 0;

	if (!dev)
		return;
	if (which == GPU_POWER_MW && n->set_power)
		n->set_power(dev, (unsigned)to->v[which]);
	if (which == GPU_COMPUTE_MODE && n->set_compute_mode)
		n->set_compute_mode(dev, (int)to->v[which]);
	if (clocks && n->set_clocks)
		n->set_clocks(dev, (unsigned)to->v[GPU_MEMORY_MHZ], (unsigned)to->v[GPU_GRAPHICS_MHZ]);
}
