/*
 * history: records the inputs and decisions of the scheduler library (docs/spec/12-history.md).
 *
 * The library's lines are buffered and go into the transaction of the turn, so the history agrees with the
 * rows. They cause a transaction of their own only when many have gathered.
 *
 * A part begins when the library begins: at a start, and after the store refused something. The library then
 * gets the whole state, so each part can be replayed alone. Old parts are removed. A part that has grown to
 * HISTORY_PART ends with a line that says so.
 */
#include "controller/state/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/record/cluster.h"
#include "controller/state/core_state.h"
#include "scheduler/record/record.h"

#define HISTORY_PART (64u << 20)
#define HISTORY_KEEP (2ull * HISTORY_PART) /* of all parts but the last */
#define HISTORY_ROW  (64u << 10)

struct history {
	struct buf lines; /* not written yet */
	size_t bytes;     /* of this part */
	uint64_t at_ms;   /* of the last line; by the library's clock */
	int begun, full;
};

static uint64_t clock_ms(const struct core *c)
{
	return c->alloc.base_s * 1000 + now_boot(c) / 1000;
}

static void append_line(struct history *h, const char *s, size_t n)
{
	if (h->full)
		return;
	if (h->bytes + n > HISTORY_PART) {
		s = "hearth-full\n";
		n = strlen(s);
		h->full = 1;
		log_warn("event=history_full bytes=%zu", h->bytes);
	}
	if (buf_put(&h->lines, s, n) == 0)
		h->bytes += n;
}

static void on_line(const char *line, size_t n, void *arg)
{
	struct core *c = arg;
	uint64_t ms = clock_ms(c);
	char at[32];

	if (ms != c->history->at_ms) {
		c->history->at_ms = ms;
		append_line(c->history, at, (size_t)snprintf(at, sizeof(at), "at %" PRIu64 "\n", ms));
	}
	append_line(c->history, line, n);
}

void history_note(struct core *c, const char *word)
{
	char line[64];

	on_line(line, (size_t)snprintf(line, sizeof(line), "%s\n", word), c);
}

void history_open(struct core *c)
{
	char at[CLOCK_RFC3339_SIZE], line[256];
	struct history *h;

	history_fini(c);
	c->history = h = xcalloc(1, sizeof(*h));
	buf_init(&h->lines, HISTORY_PART + 64);
	clock_rfc3339(now_real(c), at);
	append_line(h, line,
	            (size_t)snprintf(line, sizeof(line), "hearth-history 1 cluster=%.100s began=%s\n",
	                             c->cfg.cluster ? c->cfg.cluster : "", at));
	sched_record(c->sched, on_line, c);
}

/* The end of the last whole line within the first HISTORY_ROW bytes; a longer line goes whole. */
static size_t row_size(const char *p, size_t n)
{
	const char *end;

	if (n <= HISTORY_ROW)
		return n;
	end = memrchr(p, '\n', HISTORY_ROW);
	if (!end)
		end = memchr(p, '\n', n);
	return end ? (size_t)(end - p) + 1 : n;
}

int history_write(struct core *c, struct store_txn *t, int must)
{
	struct history *h = c->history;
	size_t n = buf_left(&h->lines), row;

	if (!n || (!must && n < HISTORY_ROW))
		return 0;
	for (const char *p = (const char *)buf_head(&h->lines); n; p += row, n -= row) {
		row = row_size(p, n);
		store_txn_history(t, !h->begun, now_real(c), p, row);
		if (!h->begun)
			store_txn_history_old(t, HISTORY_KEEP);
		h->begun = 1;
	}
	buf_fini(&h->lines); /* after a start it was large */
	buf_init(&h->lines, HISTORY_PART + 64);
	return 1;
}

void history_fini(struct core *c)
{
	if (!c->history)
		return;
	buf_fini(&c->history->lines);
	free(c->history);
	c->history = NULL;
}
