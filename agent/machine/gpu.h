/*
 * gpu: the GPUs of this machine, real (gpu_nvml) or pretended (gpu_fake), as plain data.
 */
#ifndef HEARTH_AGENT_MACHINE_GPU_H
#define HEARTH_AGENT_MACHINE_GPU_H

#include "common/base/err.h"
#include <stdint.h>

#define GPUS_MAX     64
#define GPU_NVML_LIB "libnvidia-ml.so.1"

struct gpu {
	char uuid[96];
	char model[96];
	char bus_id[32];       /* "00000000:3B:00.0"; "" unknown */
	uint64_t memory_bytes; /* 0 unknown */
	int numa;              /* node, -1 unknown */
	int link_group;        /* GPUs with the same number see each other by NVLink; -1 none */
	int minor;             /* /dev/nvidiaMINOR, -1 unknown */
};
struct gpu_sample {
	double util;          /* 0..1, -1 unknown */
	uint64_t memory_used; /* bytes */
};
struct gpus {
	struct gpu v[GPUS_MAX];
	uint32_t n;
	int fake;
	char driver[64], cuda[32]; /* versions, "" unknown */
	char note[256];            /* why GPUs are missing; "": nothing to say */
};

/* ---- real ones: NVIDIA's management library, opened at run time; never needed to build or to run
 * ----------- */
struct nvml;
/* NULL when there is no library or no driver behind it: then out->n = 0 and out->note says why. */
struct nvml *gpu_nvml_open(const char *library, struct gpus *out);
void gpu_nvml_close(struct nvml *n);
/* May take long when a GPU is sick: not on the loop. */
void gpu_nvml_sample(struct nvml *n, struct gpu_sample *out, uint32_t count);

/* ---- pretended ones: "4", or a file with a JSON list of {model, memory, numa, link_group,
 * memory_used}
 * ------------------- */
int gpu_fake_load(const char *arg, const char *node, struct gpus *out, struct err *e);
/* Memory in use, as the file says at this moment (memory_used, default 0). */
void gpu_fake_sample(const char *arg, struct gpu_sample *out, uint32_t count);

#endif
