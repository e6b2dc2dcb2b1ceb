/* nvmlkit: a stand-in of NVIDIA's management library for tests (data/nvml_double.c). */
#ifndef HEARTH_TESTS_UNIT_AGENT_MACHINE_NVMLKIT_H
#define HEARTH_TESTS_UNIT_AGENT_MACHINE_NVMLKIT_H

/* Path of the library, the caller's; NULL when there is no compiler (then a diagnostic says so). */
char *nvml_double_build(void);

#endif
