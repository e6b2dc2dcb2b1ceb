/*
 * software: versions for the record of a run: kernel, driver, CUDA, NCCL, Open MPI, Python. The agent asks
 * the programs once, at its start. A missing program is left out; nothing is guessed.
 */
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "agent/base/capture.h"
#include "agent/machine/inventory_int.h"

#define PROGRAM_MS 5000

/* First line of what the program says, malloc'ed; NULL when it fails. */
static char *first_line(const char *program, const char *arg)
{
	const char *argv[] = {program, arg, NULL};
	struct capture c = {.argv = argv, .timeout_ms = PROGRAM_MS, .max = 4096, .with_stderr = 1};
	char *out = NULL;
	size_t n;

	if (capture_run(&c, &out, &n, NULL) < 0) {
		free(out);
		return NULL;
	}
	out[strcspn(out, "\r\n")] = '\0';
	return out;
}

static void add_mpi(struct strv *out)
{
	cleanup_free char *mpirun = capture_find("mpirun");
	cleanup_free char *line = mpirun ? first_line(mpirun, "--version") : NULL;

	/* "mpirun (Open MPI) 4.1.4" */
	if (line && strncmp(line, "mpirun (Open MPI) ", 18) == 0)
		strv_addf(out, "openmpi=%s", line + 18);
	else if (line && *line)
		strv_addf(out, "mpi=%s", line);
}

static void add_python(struct strv *out)
{
	cleanup_free char *line =
	    access("/usr/bin/python3", X_OK) == 0 ? first_line("/usr/bin/python3", "--version") : NULL;

	if (line && strncmp(line, "Python ", 7) == 0)
		strv_addf(out, "python=%s", line + 7);
}

/* The library's file carries its version; loading it only to ask would start the GPU's run time in the agent.
 */
static void add_nccl(struct strv *out)
{
	static const char *const places[] = {
	    "/usr/lib/*/libnccl.so.2.*", "/usr/lib64/libnccl.so.2.*", "/usr/local/lib/libnccl.so.2.*",
	    "/usr/local/cuda/lib64/libnccl.so.2.*", "/opt/nccl/lib/libnccl.so.2.*"};
	glob_t g = {0};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (glob(places[i], 0, NULL, &g) == 0 && g.gl_pathc) {
			strv_addf(out, "nccl=%s", strstr(g.gl_pathv[0], "libnccl.so.") + strlen("libnccl.so."));
			globfree(&g);
			return;
		}
		globfree(&g);
	}
}

void software_read(const struct gpus *gpus, struct strv *out)
{
	struct utsname u;

	if (uname(&u) == 0)
		strv_addf(out, "kernel=%s %s %s", u.sysname, u.release, u.machine);
	if (gpus->fake)
		strv_add(out, "gpus=fake");
	if (gpus->driver[0])
		strv_addf(out, "nvidia_driver=%s", gpus->driver);
	if (gpus->cuda[0])
		strv_addf(out, "cuda_driver=%s", gpus->cuda);
	add_nccl(out);
	add_mpi(out);
	add_python(out);
	strv_add(out, "hearth=" PACKAGE_VERSION);
}
