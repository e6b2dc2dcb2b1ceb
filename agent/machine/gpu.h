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
/* Settings that a job may change, in the units of the library; -1 unknown. */
enum gpu_setting {
	GPU_POWER_MW,
	GPU_COMPUTE_MODE,
	GPU_MIG_MODE,
	GPU_GRAPHICS_MHZ,
	GPU_MEMORY_MHZ, /* application clocks */
	GPU_SETTINGS
};
struct gpu_settings {
	int64_t v[GPU_SETTINGS];
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
void gpu_nvml_settings(struct nvml *n, uint32_t gpu, struct gpu_settings *out);
/* Sets one of them, as far as the driver allows it; not the MIG mode. */
void gpu_nvml_put(struct nvml *n, uint32_t gpu, const struct gpu_settings *to, enum gpu_setting which);

/* ---- pretended ones: "4", or a file with a JSON list of {model, memory, numa, link_group,
 * memory_used, and settings}
 * ------------------- */
int gpu_fake_load(const char *arg, const char *node, struct gpus *out, struct err *e);
/* Settings are members power_mw, compute_mode, mig_mode, graphics_mhz, memory_mhz of the file. "stuck": true:
 * they cannot be changed. */
void gpu_fake_settings(const char *arg, uint32_t gpu, struct gpu_settings *out);
void gpu_fake_put(const char *arg, uint32_t gpu, const struct gpu_settings *to, enum gpu_setting which);
/* Memory in use, as the file says at this moment (memory_used, default 0). */
void gpu_fake_sample(const char *arg, struct gpu_sample *out, uint32_t count);

#endif
