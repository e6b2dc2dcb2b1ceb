/* loglab: see the header. */
#include "tests/unit/controller/files/loglab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/loop.h"
#include "tests/lib/tap.h"

static void on_durable(uint64_t job, uint32_t attempt, const char *stream, uint64_t offset, int eof,
                       void *arg)
{
	struct lab *l = arg;

	(void)job;
	(void)attempt;
	l->durable = offset;
	l->eof = eof;
	l->words++;
	snprintf(l->stream, sizeof(l->stream), "%s", stream);
}

static void on_grown(uint64_t job, uint32_t attempt, const char *stream, uint64_t size, int complete,
                     void *arg)
{
	struct lab *l = arg;

	(void)job;
	(void)attempt;
	(void)stream;
	l->size = size;
	l->complete = complete;
}

static void on_error(uint64_t job, uint32_t attempt, const char *stream, const struct err *e, void *arg)
{
	(void)job;
	(void)attempt;
	(void)stream;
	(void)e;
	((struct lab *)arg)->errors++;
}

static uint64_t limit_of(uint64_t job, void *arg)
{
	(void)job;
	return ((struct lab *)arg)->limit;
}

static void on_kept(uint64_t job, int64_t bytes, void *arg)
{
	(void)job;
	((struct lab *)arg)->kept += bytes;
}

static void on_cut(uint64_t job, uint32_t attempt, const char *stream, void *arg)
{
	(void)job;
	(void)attempt;
	(void)stream;
	((struct lab *)arg)->cuts++;
}

void lab_reopen(struct lab *l, unsigned max_open)
{
	struct logstore_config c = {.dir = l->dir,
	                            .clock = clock_real(),
	                            .sync_ms = 5,
	                            .max_open = max_open,
	                            .on_durable = on_durable,
	                            .on_grown = on_grown,
	                            .on_error = on_error,
	                            .limit = limit_of,
	                            .on_kept = on_kept,
	                            .on_cut = on_cut,
	                            .arg = l};
	struct err e;

	if (!l->loop)
		l->loop = loop_create();
	c.loop = l->loop;
	l->ls = logstore_open(&c, &e);
	if (!l->ls)
		tap_bail("logstore_open: %s", e.text);
}

void lab_open(struct lab *l, const char *name)
{
	memset(l, 0, sizeof(*l));
	snprintf(l->dir, sizeof(l->dir), "%s/%s", tap_tmpdir(), name);
	lab_reopen(l, 0);
}

void lab_close(struct lab *l)
{
	logstore_close(l->ls);
	l->ls = NULL;
	loop_destroy(l->loop);
	l->loop = NULL;
}

void lab_settle(struct lab *l)
{
	uint64_t end = clock_boot_us(clock_real()) + 20000000;

	while (!logstore_idle(l->ls)) {
		if (clock_boot_us(clock_real()) > end)
			tap_bail("the log store did not become idle in 20 s");
		loop_run_once(l->loop, 10);
	}
}

int lab_put(struct lab *l, uint64_t offset, const char *text, int eof, struct err *e)
{
	struct log_chunk c = {.job = 1,
	                      .attempt = 1,
	                      .stream = "rank-0",
	                      .offset = offset,
	                      .data = text,
	                      .n = strlen(text),
	                      .eof = eof};

	return logstore_append(l->ls, &c, e);
}

char *lab_content(struct lab *l, const char *stream, uint64_t offset, uint64_t *size, int *complete)
{
	char *out = xcalloc(1, 1 << 16);
	struct err e;
	size_t n;

	if (logstore_read(l->dir, 1, 1, stream, offset, out, (1 << 16) - 1, &n, size, complete, &e) < 0) {
		free(out);
		return xstrdup(e.code == ERR_NOT_FOUND ? "NOT FOUND" : e.text);
	}
	out[n] = '\0';
	return out;
}
