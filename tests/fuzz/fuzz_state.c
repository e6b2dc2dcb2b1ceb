/*
 * fuzz_state: bytes as DIR/state (first byte even) or DIR/launch (odd) of a shim. Below 2 the rest is the
 * whole file; else it is the body, sealed here with a checksum that is right, for otherwise no change would
 * ever get past that.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "shim/sealed.h"
#include "shim/state.h"

static void as_state(const void *data, size_t n)
{
	struct shim_state s = {0};

	if (state_decode(data, n, &s, NULL) < 0)
		return;
	/* What callers rely on without looking again. */
	if (s.shim.pid <= 0 || s.child.pid < 0 || !s.st.token || !s.st.text ||
	    !memchr(s.shim.boot_id, 0, sizeof(s.shim.boot_id)))
		abort();
	shim_state_fini(&s);
}

static void as_launch(const void *data, size_t n)
{
	struct shim_launch l = {0};

	if (launch_decode(data, n, &l, NULL) < 0)
		return;
	if (!l.token || !l.shim_token || !l.cwd || !l.logdir || !l.user || !l.cgroup_kill ||
	    (l.argv.n && l.argv.v[l.argv.n]))
		abort();
	shim_launch_fini(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf body, file;
	int launch;

	if (size < 1)
		return 0;
	launch = data[0] & 1;
	buf_view(&body, data + 1, size - 1);
	buf_init(&file, size + SEALED_HEADER_SIZE);
	if (data[0] < 2)
		buf_put(&file, data + 1, size - 1);
	else
		sealed_put(&file, launch ? LAUNCH_MAGIC : STATE_MAGIC, launch ? LAUNCH_VERSION : STATE_VERSION,
		           &body);
	if (launch)
		as_launch(file.data, buf_left(&file));
	else
		as_state(file.data, buf_left(&file));
	buf_fini(&file);
	return 0;
}
