/*
 * hearth-wait: waits in a parked process for its program, and executes it (docs/spec/03-shim.md, Waiting
 * interpreter). The slow steps between fork and exec, of which control groups are the slowest, are over then.
 *
 * It allocates little, and has no descriptor but the standard ones, the socket and the metrics.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "shim/exec.h"
#include "shim/shim.h"

#define FRAME_MAX (8u * 1024 * 1024)

/* 0: the shim is gone, or has closed its end. */
static int read_all(void *to, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k = read(SHIM_PARK_FD, (char *)to + got, n - got);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return 0;
		got += (size_t)k;
	}
	return 1;
}

static int get_words(struct buf *b, struct strv *out)
{
	uint32_t n, len;

	if (buf_get_u32(b, &n) < 0)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		if (buf_get_u32(b, &len) < 0 || buf_left(b) < len)
			return -1;
		strv_take(out, xstrndup((const char *)buf_head(b), len));
		buf_skip(b, len);
	}
	return 0;
}

static void say(const char *words)
{
	(void)!write(SHIM_PARK_FD, words, strlen(words));
}

int main(void)
{
	struct strv argv = {0}, env = {0}, cwd = {0};
	uint8_t size[4], *body;
	struct buf b;
	uint32_t n;

	if (fcntl(SHIM_PARK_FD, F_SETFD, FD_CLOEXEC) < 0)
		return 1;
	say("ready\n");
	if (!read_all(size, sizeof(size)))
		return 0;
	n = (uint32_t)size[0] << 24 | (uint32_t)size[1] << 16 | (uint32_t)size[2] << 8 | size[3];
	if (n > FRAME_MAX)
		return 1;
	body = xmalloc(n + 1);
	if (!read_all(body, n))
		return 1;
	buf_view(&b, body, n);
	if (get_words(&b, &argv) < 0 || get_words(&b, &env) < 0 || get_words(&b, &cwd) < 0 || !cwd.n)
		return 1;
	say("e"); /* the shim knows by the end of the socket that the program runs */
	exec_report_to(SHIM_PARK_FD, "x ");
	exec_enter(cwd.v[0]);
	exec_program(&argv, &env, NULL);
}
