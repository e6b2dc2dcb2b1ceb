/* nvmlkit: builds the stand-in of NVIDIA's management library with the machine's compiler. */
#include "tests/unit/agent/machine/nvmlkit.h"

#include <stdlib.h>
#include <unistd.h>

#include "agent/base/capture.h"
#include "agent/machine/gpu.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

char *nvml_double_build(void)
{
	cleanup_free char *source =
	    xasprintf("%s/tests/unit/agent/machine/nvml_double.c", getenv("HEARTH_TOP_SRCDIR") ?: "");
	char *lib = xasprintf("%s/libnvml_double.so", tap_tmpdir());
	cleanup_free char *cc = capture_find("cc");
	/* With the real one's name: who opens that one after this one gets this one. */
	const char *argv[] = {cc, "-shared", "-fPIC", "-Wl,-soname," GPU_NVML_LIB, "-o", lib, source, NULL};
	struct capture c = {.argv = argv, .timeout_ms = 60000, .max = 4096, .with_stderr = 1};
	char *out = NULL;
	struct err e;
	size_t n;

	if (!cc || access(source, R_OK) < 0 || capture_run(&c, &out, &n, &e) < 0) {
		tap_diag("no stand-in library: %s", cc ? out ? out : source : "no compiler");
		free(lib);
		lib = NULL;
	}
	free(out);
	return lib;
}
