/*
 * log_stream: see log_stream.h.
 */
#include "jobctl/show/log_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/clock.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "jobctl/client/ctx.h"
#include "jobctl/client/interrupt.h"
#include "jobctl/client/job.h"
#include "jobctl/show/grep.h"
#include "jobctl/show/loglines.h"
#include "jobctl/show/print.h"
#include "jobctl/show/waiting.h"

/* ---- what the job waits for ---------------------------------------------------------------------- */

static void wipe_waiting(struct log_stream *l)
{
	if (l->waiting)
		waiting_wipe(l->waiting);
}

/* Called about once a second. */
static void idle_cb(void *arg)
{
	struct log_stream *l = arg;
	if (l->any || !l->follow)
		return;
	if (!l->waiting)
		l->waiting = waiting_create(l->c, l->job);
	waiting_tick(l->waiting);
}

/* ---- one stream ---------------------------------------------------------------------------------- */

static const char *stream_name(const struct log_stream *l)
{
	return *l->real ? l->real : l->stream;
}

static int log_cb(const char *p, size_t n, void *arg)
{
	struct log_stream *l = arg;
	wipe_waiting(l);
	if (l->lines)
		loglines_feed(l->lines, l->attempt, stream_name(l), l->offset, p, n);
	l->offset += n;
	l->any = 1;
	if (l->lines)
		;
	else if (l->grep)
		grep_feed(l->grep, p, n);
	else
		fwrite(p, 1, n, stdout);
	l->in_line = n ? p[n - 1] != '\n' : l->in_line;
	l->failed = fflush(stdout) || ferror(stdout);
	return l->failed ? -1 : 0;
}

/* Reads the number of a header line. Returns 0 if it is another header. */
static int read_header_number(const char *p, size_t n, const char *name, uint64_t *out)
{
	char number[32];
	size_t k = 0, len = strlen(name);
	if (n <= len || strncasecmp(p, name, len) != 0)
		return 0;
	for (size_t i = len; i < n && k < sizeof(number) - 1; i++) {
		if (p[i] >= '0' && p[i] <= '9')
			number[k++] = p[i];
	}
	number[k] = 0;
	return !str_parse_u64(number, out);
}

static void read_header_stream(const char *p, size_t n, struct log_stream *l)
{
	static const char name[] = "x-hearth-stream:";
	size_t skip = sizeof(name) - 1;
	if (n <= skip || strncasecmp(p, name, skip) != 0)
		return;
	while (skip < n && p[skip] == ' ')
		skip++;
	snprintf(l->real, sizeof(l->real), "%.*s", (int)strcspn(p + skip, "\r\n"), p + skip);
}

static void report_lost(struct log_stream *l, uint64_t offset, uint64_t lost)
{
	wipe_waiting(l);
	if (l->lines) {
		loglines_lost(l->lines, l->attempt, stream_name(l), offset, lost);
		return;
	}
	if (l->grep)
		grep_end_line(l->grep);
	else if (l->in_line)
		putchar('\n');
	l->in_line = 0;
	printf("[hearth: %" PRIu64 " bytes are missing here: the log is longer than its limit]\n", lost);
}

/* Reads where the answer begins: later than asked if hearthd has cut out what is before it. */
static int header_cb(const char *p, size_t n, void *arg)
{
	struct log_stream *l = arg;
	uint64_t v;
	if (n > 12 && strncmp(p, "HTTP/", 5) == 0) {
		l->lost_us = memmem(p, n < 16 ? n : 16, " 200", 4) ? 0 : l->lost_us;
	} else if (read_header_number(p, n, "x-hearth-attempt:", &v)) {
		l->attempt = v;
	} else if (read_header_number(p, n, "x-hearth-offset:", &v)) {
		uint64_t wanted = l->begun ? l->offset : l->first < 0 ? v : (uint64_t)l->first;
		if (v > wanted && !l->end)
			report_lost(l, v, v - wanted);
		l->offset = v;
		l->begun = 1;
	} else {
		read_header_stream(p, n, l);
	}
	return 0;
}

static char *log_path(const struct log_stream *l)
{
	char *stream = client_escape(l->stream), *node = l->node ? client_escape(l->node) : NULL;
	/* skip=0: a slow reader here delays only itself, and wants every byte. */
	char *path =
	    xasprintf("/jobs/%" PRIu64 "/logs/%s?offset=%" PRId64 "&skip=0&follow=%d&attempt=%" PRIu64 "%s%s",
	              l->job, stream, l->begun ? (int64_t)l->offset : l->first, l->follow, l->attempt,
	              node ? "&node=" : "", node ? node : "");
	free(stream);
	free(node);
	return path;
}

#define TAIL_FIRST (64 * 1024)
#define TAIL_MOST  (64 * 1024 * 1024)

struct log_tail {
	char *p;
	size_t n;
};

static int tail_cb(const char *p, size_t n, void *arg)
{
	struct log_tail *b = ((struct log_stream *)arg)->end;
	if (b->n + n > TAIL_MOST)
		return -1;
	b->p = xrealloc(b->p, b->n + n + 1);
	memcpy(b->p + b->n, p, n);
	b->n += n;
	return 0;
}

/* Returns where the last `lines` lines begin; *all: b has that many lines. */
static size_t find_tail(const struct log_tail *b, uint64_t lines, int *all)
{
	size_t i = b->n && b->p[b->n - 1] == '\n' ? b->n - 1 : b->n;
	*all = 1;
	if (!lines)
		return b->n;
	for (; i > 0; i--) {
		if (b->p[i - 1] == '\n' && --lines == 0)
			return i;
	}
	*all = 0;
	return 0;
}

static int read_end(struct log_stream *l)
{
	cleanup_free char *path = log_path(l);
	struct err ignored;
	return client_stream(l->c->client, path, "application/octet-stream", NULL, tail_cb, header_cb, l,
	                     &ignored);
}

void log_stream_seek_tail(struct log_stream *l)
{
	int follow = l->follow, all = 0;
	int64_t first = 0;
	uint64_t before = UINT64_MAX;
	for (int64_t ask = TAIL_FIRST; l->tail && !all && ask <= TAIL_MOST / 2; ask *= 4) {
		struct log_tail b = {0};
		l->end = &b;
		l->first = -ask;
		l->begun = l->follow = 0;
		int rc = read_end(l);
		/* It broke off at the hole of a log that is too long: the last lines are behind it. */
		if (rc && l->begun && b.n) {
			l->offset += b.n;
			b.n = 0;
			rc = read_end(l);
		}
		if (!rc)
			first = (int64_t)(l->offset + find_tail(&b, l->tail_lines, &all));
		free(b.p);
		/* All stored bytes were read. */
		if (rc || l->offset == 0 || l->offset == before)
			break;
		before = l->offset;
	}
	l->end = NULL;
	l->follow = follow;
	if (l->tail) {
		l->begun = 0;
		l->offset = 0;
		l->first = first;
	}
}

/* Returns 1 if the job has ended, 0 if not, -1 if unknown (c->err is set). *attempts: number of attempts so
 * far; *placed: its nodes and ranks are known, so a stream that is missing now stays missing. */
static int job_is_over(struct log_stream *l, uint64_t *attempts, int *placed)
{
	cJSON *job = ctx_job(l->c, l->job);
	const char *status = jtext(job, "status");
	int over = job ? status && job_ended(status) : -1;
	*placed = status && (strcmp(status, "starting") == 0 || strcmp(status, "running") == 0);
	*attempts = (uint64_t)print_number(job, "attempt_count");
	cJSON_Delete(job);
	return over;
}

/* Decides on an error of the transfer: 0: try again, -1: final. */
static int handle_error(struct log_stream *l, const struct err *e)
{
	uint64_t now = clock_boot_us(clock_real()), attempts;
	int placed;
	if (e->code == ERR_NOT_FOUND && l->follow && !l->pinned) {
		int over = job_is_over(l, &attempts, &placed);
		/* The attempt ended before its rank wrote anything, and a new one began. */
		if (over >= 0 && !l->begun && l->attempt && attempts > l->attempt) {
			l->attempt = attempts;
			return 0;
		}
		if (over < 0 || (!over && !placed))
			return over;
	} else if (e->code == ERR_UNAVAILABLE || e->code == ERR_BUSY) {
		unsigned patience = l->follow ? LOST_PATIENCE_S : CLIENT_PATIENCE_S;
		if (!l->lost_us)
			l->lost_us = now;
		if (now - l->lost_us < (uint64_t)patience * 1000000)
			return 0;
	}
	l->c->err = *e;
	return -1;
}

int log_stream_read(struct log_stream *l)
{
	int pause_ms = 20;
	for (;;) {
		char *path = log_path(l);
		uint64_t before = l->offset;
		struct err e = {0};
		client_on_idle(l->c->client, idle_cb, l);
		int rc =
		    client_stream(l->c->client, path, "application/octet-stream", NULL, log_cb, header_cb, l, &e);
		client_on_idle(l->c->client, NULL, NULL);
		free(path);
		wipe_waiting(l);
		if (interrupted())
			return EXIT_INTERRUPTED;
		if (rc == 0 || l->failed)
			return 0; /* main reports failed output */
		if (l->offset > before)
			pause_ms = 20;
		if (handle_error(l, &e))
			return -1;
		if (interrupt_sleep(pause_ms))
			return EXIT_INTERRUPTED;
		pause_ms = pause_ms < 1000 ? pause_ms * 2 : 1000;
	}
}

/* Waits after the end of an attempt's stream: 1: a new attempt has begun, 0: the job has ended. */
static int wait_next_attempt(struct log_stream *l)
{
	int pause_ms = 10;
	for (;;) {
		uint64_t attempts;
		int placed;
		unsigned old = client_patience(l->c->client, LOST_PATIENCE_S);
		int over = job_is_over(l, &attempts, &placed);
		client_patience(l->c->client, old);
		if (interrupted())
			return EXIT_INTERRUPTED;
		if (over < 0)
			return -1;
		if (attempts > l->attempt)
			return 1;
		if (over)
			return 0;
		if (interrupt_sleep(pause_ms))
			return EXIT_INTERRUPTED;
		pause_ms = pause_ms < 500 ? pause_ms * 2 : 500;
	}
}

void log_stream_end_line(struct log_stream *l)
{
	if (l->lines)
		loglines_end(l->lines);
	else if (l->grep)
		grep_end_line(l->grep);
}

int log_stream_read_all(struct log_stream *l)
{
	for (;;) {
		int rc = log_stream_read(l);
		log_stream_end_line(l);
		if (rc || !l->follow || l->pinned || l->failed)
			return rc;
		rc = wait_next_attempt(l);
		if (rc != 1)
			return rc;
		fprintf(stderr, "[hearth: attempt %" PRIu64 "]\n", l->attempt + 1);
		l->attempt++;
		l->begun = 0;
		l->first = 0;
		l->offset = 0;
	}
}

void log_stream_fini(struct log_stream *l)
{
	waiting_destroy(l->waiting);
	loglines_destroy(l->lines);
	grep_destroy(l->grep);
	free(l->stream);
	free(l->node);
}

uint64_t log_stream_tail_start(struct ctx *c, uint64_t job, uint64_t attempt, const char *stream,
                               uint64_t lines)
{
	struct log_stream l = {
	    .c = c, .job = job, .attempt = attempt, .stream = xstrdup(stream), .tail = 1, .tail_lines = lines};
	log_stream_seek_tail(&l);
	log_stream_fini(&l);
	return (uint64_t)l.first;
}
