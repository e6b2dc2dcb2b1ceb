/*
 * A library with the entry points of NVIDIA's management library that gpu_nvml uses, for machines without
 * one: eight GPUs, 0-3 linked pairwise (0-1, 2-3), 4-6 to a switch, 7 alone; NVML_DOUBLE_SICK names one that
 * does not answer, NVML_DOUBLE_INIT a code; NVML_DOUBLE_USED: memory of all is in use.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pci {
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char bus_id[32];
};
struct memory {
	unsigned long long total, free, used;
};
struct util {
	unsigned gpu, memory;
};

static int sick(const void *dev)
{
	const char *v = getenv("NVML_DOUBLE_SICK");

	return v && (size_t)atoi(v) + 1 == (size_t)dev;
}
int nvmlInit_v2(void)
{
	const char *v = getenv("NVML_DOUBLE_INIT");

	return v ? atoi(v) : 0;
}
int nvmlShutdown(void)
{
	return 0;
}
int nvmlDeviceGetCount_v2(unsigned *n)
{
	*n = 8;
	return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **dev)
{
	*dev = (void *)(size_t)(i + 1);
	return sick(*dev) ? 15 : 0;
}
int nvmlDeviceGetUUID(void *dev, char *out, unsigned n)
{
	snprintf(out, n, "GPU-0000000%zu", (size_t)dev - 1);
	return 0;
}
int nvmlDeviceGetName(void *dev, char *out, unsigned n)
{
	(void)dev;
	snprintf(out, n, "Double|H1");
	return 0;
}
int nvmlDeviceGetMemoryInfo(void *dev, struct memory *m)
{
	m->total = 80ull << 30;
	m->used = getenv("NVML_DOUBLE_USED") ? 6ull << 30 : (size_t)dev << 20;
	m->free = m->total - m->used;
	return 0;
}
int nvmlDeviceGetUtilizationRates(void *dev, struct util *u)
{
	u->gpu = 10 * (unsigned)(size_t)dev;
	u->memory = 1;
	return dev == (void *)8 ? 3 : 0;
}
int nvmlDeviceGetMinorNumber(void *dev, unsigned *m)
{
	*m = 7 - (unsigned)((size_t)dev - 1);
	return 0;
}
int nvmlDeviceGetPciInfo_v3(void *dev, struct pci *p)
{
	memset(p, 0, sizeof(*p));
	snprintf(p->bus_id, sizeof(p->bus_id), "00000000:A%zu:00.0", (size_t)dev);
	return 0;
}
int nvmlDeviceGetNvLinkState(void *dev, unsigned link, int *active)
{
	size_t i = (size_t)dev - 1;

	if (link > 5)
		return 2;
	*active = i < 7 && link < 2;
	return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *dev, unsigned link, struct pci *p)
{
	size_t i = (size_t)dev - 1;

	(void)link;
	memset(p, 0, sizeof(*p));
	if (i < 4)
		snprintf(p->bus_id, sizeof(p->bus_id), "00000000:a%zu:00.0", (i ^ 1) + 1);
	else
		snprintf(p->bus_id, sizeof(p->bus_id), "00000000:F%u:00.0", link);
	return 0;
}
int nvmlSystemGetDriverVersion(char *out, unsigned n)
{
	snprintf(out, n, "570.1.2");
	return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int *v)
{
	*v = 12080;
	return 0;
}

/* Settings of all GPUs together. */
static unsigned power = 400000, graphics = 1500, memory_clock = 2000;
static int mode;

int nvmlDeviceGetPowerManagementLimit(void *dev, unsigned *mw)
{
	*mw = power;
	return dev == (void *)8 ? 3 : 0;
}
int nvmlDeviceSetPowerManagementLimit(void *dev, unsigned mw)
{
	(void)dev;
	power = mw;
	return 0;
}
int nvmlDeviceGetComputeMode(void *dev, int *m)
{
	(void)dev;
	*m = mode;
	return 0;
}
int nvmlDeviceSetComputeMode(void *dev, int m)
{
	(void)dev;
	mode = m;
	return 0;
}
int nvmlDeviceGetMigMode(void *dev, unsigned *now, unsigned *pending)
{
	(void)dev;
	*now = 0;
	*pending = 1;
	return 0;
}
int nvmlDeviceGetApplicationsClock(void *dev, int type, unsigned *mhz)
{
	(void)dev;
	*mhz = type ? memory_clock : graphics;
	return type == 0 || type == 2 ? 0 : 2;
}
int nvmlDeviceSetApplicationsClocks(void *dev, unsigned mem, unsigned sm)
{
	(void)dev;
	memory_clock = mem;
	graphics = sm;
	return 0;
}
