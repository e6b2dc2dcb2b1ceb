/*
 * manylogs: see manylogs.h.
 *
 * Streams are read in pieces, as events with times. For past attempts a rank's next piece is read when its
 * lines in memory are used up, so that the earliest line of all ranks is known. For a followed attempt
 * jobctl asks for the list of streams some times a second, and reads those that have grown. One connection
 * serves any number of ranks.
 */
#include "jobctl/show/manylogs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "jobctl/client/ctx.h"
#include "jobctl/client/interrupt.h"
#include "jobctl/client/job.h"
#include "jobctl/show/grep.h"
#include "jobctl/show/log_stream.h"
#include "jobctl/show/print.h"
#include "jobctl/show/waiting.h"

#define PIECE_MIN   1024u
#define PIECE_MAX   (256u * 1024)
#define EVENT_MAX   (4u * 1024 * 1024) /* of one event: a piece, with every byte escaped */
#define LINE_MIN    (4u * 1024)
#define LINE_MAX    (64u * 1024) /* a longer one is shown in parts */
#define COST        64u          /* memory of a chunk besides its text */
#define TRIES       20
#define PAUSE_MIN   20
#define PAUSE_MAX   500
#define END_WAIT_US 10000000u /* by then hearthd has ended the streams of lost nodes */

/* Text of one event, and the rest of its last line. Lines are cut out when they are shown, so a short line
 * costs only its bytes. */
struct chunk {
	struct chunk *next;
	uint64_t at_us;
	size_t n, used;
	char text[];
};

struct stream {
	uint32_t rank;
	uint64_t offset, size;       /* next byte to ask for; size according to the list */
	int complete, drained;       /* according to the list; no more bytes will come */
	struct chunk *first, **last; /* last: pointer to the last chunk; *last is NULL if the stream has none */
	size_t n, ends;              /* bytes in memory, and line ends among them */
	uint64_t at_us;
};

struct many {
	struct ctx *c;
	const struct manylogs_ask *ask;
	uint64_t attempt;
	struct stream **s; /* by rank */
	size_t n;
	struct stream **heap; /* streams that have a line; the earliest first */
	size_t heap_n, heap_room;
	int width; /* digits of the greatest rank */
	int any, failed;
	char *line; /* the line that is shown */
	size_t line_n;
	uint64_t line_us;
	/* the present answer */
	struct stream *now;
	char *event;
	size_t event_n, taken, most; /* memory of its events; enough of them */
	uint64_t id;
};

/* ---- which ranks ---------------------------------------------------------------------------------- */

int rank_set_is(const char *text)
{
	return strcmp(text, "all") == 0 ||
	       (text[strcspn(text, ",-")] && strspn(text, "0123456789,-") == strlen(text));
}

static int add_part(const char *part, struct rank_set *s)
{
	const char *dash = strchr(part, '-');
	char *low = xstrndup(part, dash ? (size_t)(dash - part) : strlen(part));
	uint64_t from, to;
	int rc = str_parse_u64(low, &from) || (dash && str_parse_u64(dash + 1, &to)) ? -1 : 0;
	free(low);
	if (!dash)
		to = from;
	if (rc || to < from || to >= MANYLOGS_RANKS)
		return -1;
	s->parts = xrealloc(s->parts, (s->n + 1) * sizeof(*s->parts));
	s->parts[s->n].from = (uint32_t)from;
	s->parts[s->n++].to = (uint32_t)to;
	return 0;
}

int rank_set_parse(const char *text, struct rank_set *s, struct err *e)
{
	cleanup_free char *copy = xstrdup(text);
	char *rest = copy, *part;
	*s = (struct rank_set){.all = strcmp(text, "all") == 0};
	while (!s->all && (part = strsep(&rest, ","))) {
		if (!add_part(part, s))
			continue;
		rank_set_fini(s);
		return err_set(e, ERR_INVALID, "--rank '%s': expected a number, a list (0,2), a range (0-3) or all",
		               text);
	}
	return 0;
}

int rank_set_has(const struct rank_set *s, uint32_t rank)
{
	int has = s->all;
	for (size_t i = 0; i < s->n && !has; i++)
		has = rank >= s->parts[i].from && rank <= s->parts[i].to;
	return has;
}

void rank_set_fini(struct rank_set *s)
{
	free(s->parts);
	s->parts = NULL;
	s->n = 0;
}

/* ---- lines ---------------------------------------------------------------------------------------- */

/* Returns a rank's share of MANYLOGS_BYTES. */
static size_t rank_share(const struct many *m, size_t parts, size_t least, size_t most)
{
	size_t n = MANYLOGS_BYTES / (m->n ? m->n : 1) / parts;
	return n < least ? least : n > most ? most : n;
}

static size_t line_most(const struct many *m)
{
	return rank_share(m, 2, LINE_MIN, LINE_MAX);
}

static int has_line(const struct many *m, const struct stream *s)
{
	return s->ends || s->n > line_most(m) || (s->drained && s->n);
}

static void append_bytes(struct chunk **at, const char *p, size_t n)
{
	struct chunk *k = xrealloc(*at, sizeof(*k) + (*at ? (*at)->n : 0) + n);
	if (!*at)
		*k = (struct chunk){0};
	memcpy(k->text + k->n, p, n);
	k->n += n;
	*at = k;
}

static void feed_stream(struct stream *s, uint64_t at_us, const char *p, size_t n)
{
	const char *nl = memchr(p, '\n', n), *end = p + n;
	s->at_us = at_us > s->at_us ? at_us : s->at_us; /* times within a stream never decrease */
	s->n += n;
	for (const char *q = nl; q; q = memchr(q, '\n', (size_t)(end - q))) {
		s->ends++;
		q++;
	}
	/* A line has the time of its first byte, so its continuation needs no chunk of its own. */
	if (*s->last && (*s->last)->text[(*s->last)->n - 1] != '\n') {
		size_t k = nl ? (size_t)(nl - p) + 1 : n;
		append_bytes(s->last, p, k);
		p += k;
	}
	if (p == end)
		return;
	if (*s->last)
		s->last = &(*s->last)->next;
	append_bytes(s->last, p, (size_t)(end - p));
	(*s->last)->at_us = s->at_us;
}

/* Drops the first k bytes, all of one chunk. */
static void use_bytes(struct stream *s, size_t k)
{
	struct chunk *c = s->first;
	c->used += k;
	s->n -= k;
	if (c->used < c->n)
		return;
	s->first = c->next;
	if (s->last == &c->next)
		s->last = &s->first;
	free(c);
}

/* Moves the stream's first line, without its end, to m->line. */
static void take_line(struct many *m, struct stream *s)
{
	size_t most = line_most(m);
	m->line_n = 0;
	m->line_us = s->first->at_us;
	while (s->first) {
		const char *p = s->first->text + s->first->used;
		size_t k = s->first->n - s->first->used, room = most - m->line_n;
		const char *nl = memchr(p, '\n', k < room + 1 ? k : room + 1);
		k = nl ? (size_t)(nl - p) : k < room ? k : room;
		memcpy(m->line + m->line_n, p, k);
		m->line_n += k;
		if (nl) {
			s->ends--;
			use_bytes(s, k + 1);
			return;
		}
		if (!k)
			return; /* the rest of a line that is too long */
		use_bytes(s, k);
	}
}

static void show_json(const struct many *m, const struct stream *s)
{
	cJSON *o = cJSON_CreateObject();
	char *text = str_to_utf8(m->line, m->line_n), name[24], at[CLOCK_RFC3339_SIZE];
	snprintf(name, sizeof(name), "rank-%u", s->rank);
	clock_rfc3339(m->line_us, at);
	cJSON_AddNumberToObject(o, "attempt", (double)m->attempt);
	cJSON_AddStringToObject(o, "stream", name);
	cJSON_AddStringToObject(o, "time", at);
	cJSON_AddStringToObject(o, "text", text);
	free(text);
	text = json_text(o);
	puts(text);
	free(text);
	cJSON_Delete(o);
}

/* Shows and drops the stream's first line. */
static void show_line(struct many *m, struct stream *s)
{
	take_line(m, s);
	m->any = 1;
	if (m->ask->only && !grep_matches(m->ask->only, m->line, m->line_n))
		return;
	if (m->c->json) {
		show_json(m, s);
	} else {
		printf("[%*u] ", m->width, s->rank);
		fwrite(m->line, 1, m->line_n, stdout);
		putchar('\n');
	}
	m->failed |= ferror(stdout);
}

/* ---- whose line comes next: a heap -------------------------------------------------------------------- */

static int comes_before(const struct stream *a, const struct stream *b)
{
	if (a->first->at_us != b->first->at_us)
		return a->first->at_us < b->first->at_us;
	return a->rank < b->rank;
}

static void swap_entries(struct many *m, size_t a, size_t b)
{
	struct stream *s = m->heap[a];
	m->heap[a] = m->heap[b];
	m->heap[b] = s;
}

static void heap_add(struct many *m, struct stream *s)
{
	size_t i = m->heap_n++;
	if (i == m->heap_room) {
		m->heap_room = i ? i * 2 : 64;
		m->heap = xreallocarray(m->heap, m->heap_room, sizeof(*m->heap));
	}
	m->heap[i] = s;
	for (; i && comes_before(m->heap[i], m->heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap_entries(m, i, (i - 1) / 2);
}

/* Restores the heap after its first stream lost a line. */
static void heap_renew(struct many *m)
{
	if (!has_line(m, m->heap[0]))
		m->heap[0] = m->heap[--m->heap_n];
	for (size_t i = 0, k; (k = 2 * i + 1) < m->heap_n; i = k) {
		if (k + 1 < m->heap_n && comes_before(m->heap[k + 1], m->heap[k]))
			k++;
		if (!comes_before(m->heap[k], m->heap[i]))
			break;
		swap_entries(m, i, k);
	}
}

/* ---- reading -------------------------------------------------------------------------------------- */

static void handle_event(struct many *m)
{
	struct stream *s = m->now;
	cJSON *o;
	const char *text;
	if (m->event_n > 3 && strncmp(m->event, "id:", 3) == 0) {
		m->id = strtoull(m->event + 3, NULL, 10);
		return;
	}
	/* After enough events the rest is ignored and asked for again. */
	if (m->taken > m->most || m->event_n < 5 || strncmp(m->event, "data:", 5) != 0 ||
	    !(o = json_parse(m->event + 5, m->event_n - 5, NULL)))
		return;
	text = jtext(o, "text");
	if (text && cJSON_IsNumber(jget(o, "offset"))) {
		uint64_t at = (uint64_t)print_number(o, "offset");
		if (at > s->offset && !m->c->json)
			printf("[%*u] [hearth: %" PRIu64 " bytes are missing here: the log is longer than its limit]\n",
			       m->width, s->rank, (at - s->offset));
		feed_stream(s, print_time_us(jtext(o, "time")), text, strlen(text));
		m->taken += COST + strlen(text);
	}
	if (m->id > s->offset)
		s->offset = m->id;
	cJSON_Delete(o);
}

static int events_cb(const char *p, size_t n, void *arg)
{
	struct many *m = arg;
	for (size_t i = 0; i < n; i++) {
		if (p[i] != '\n') {
			if (m->event_n < EVENT_MAX)
				m->event[m->event_n++] = p[i];
			continue;
		}
		m->event[m->event_n] = '\0';
		handle_event(m);
		m->event_n = 0;
	}
	return 0;
}

/* Reads one more piece. Returns the number of bytes, -1: c->err is set. */
static int64_t fetch_piece(struct many *m, struct stream *s)
{
	size_t piece = rank_share(m, 16, PIECE_MIN, PIECE_MAX);
	uint64_t from = s->offset;
	char *path =
	    xasprintf("/jobs/%" PRIu64 "/logs/rank-%u?attempt=%" PRIu64 "&offset=%" PRIu64 "&limit=%zu&skip=0",
	              m->ask->job, s->rank, m->attempt, s->offset, piece);
	m->now = s;
	m->event_n = m->taken = 0;
	m->most = 2 * piece;
	m->id = 0;
	int rc = client_stream(m->c->client, path, "text/event-stream", NULL, events_cb, NULL, m, &m->c->err);
	free(path);
	return rc < 0 ? -1 : (int64_t)(s->offset - from);
}

/* Does the same with retries. Bytes that arrived before a failure count. */
static int64_t fetch_with_retries(struct many *m, struct stream *s)
{
	for (int i = 0, pause = PAUSE_MIN;; i++) {
		int64_t n = fetch_piece(m, s);
		if (n >= 0 || i == TRIES || (m->c->err.code != ERR_UNAVAILABLE && m->c->err.code != ERR_BUSY) ||
		    interrupt_sleep(pause))
			return n;
		pause = pause * 2 < PAUSE_MAX ? pause * 2 : PAUSE_MAX;
	}
}

/* ---- the list of streams -------------------------------------------------------------------------- */

static void stream_free(struct stream *s)
{
	for (struct chunk *k = s->first, *next; k; k = next) {
		next = k->next;
		free(k);
	}
	free(s);
}

static void forget_streams(struct many *m)
{
	for (size_t i = 0; i < m->n; i++)
		stream_free(m->s[i]);
	m->n = m->heap_n = 0;
}

static struct stream *stream_of(struct many *m, uint32_t rank)
{
	size_t i = 0, end = m->n;
	while (i < end) {
		size_t mid = (i + end) / 2;
		if (m->s[mid]->rank < rank)
			i = mid + 1;
		else
			end = mid;
	}
	if (i < m->n && m->s[i]->rank == rank)
		return m->s[i];
	struct stream *s = xcalloc(1, sizeof(*s));
	s->rank = rank;
	s->last = &s->first;
	if (m->ask->tail) {
		char name[24];
		snprintf(name, sizeof(name), "rank-%u", rank);
		s->offset = log_stream_tail_start(m->c, m->ask->job, m->attempt, name, m->ask->tail_lines);
	}
	m->s = xrealloc(m->s, (m->n + 1) * sizeof(struct stream *));
	memmove(m->s + i + 1, m->s + i, (m->n - i) * sizeof(struct stream *));
	m->s[i] = s;
	m->n++;
	int width = snprintf(NULL, 0, "%u", m->s[m->n - 1]->rank);
	m->width = width > m->width ? width : m->width;
	return s;
}

static int list_streams(struct many *m)
{
	char *path = xasprintf("/jobs/%" PRIu64 "/logs?attempt=%" PRIu64, m->ask->job, m->attempt);
	cJSON *answer = NULL;
	const cJSON *o;
	int rc = ctx_get(m->c, "GET", path, NULL, &answer);
	free(path);
	cJSON_ArrayForEach (o, jget(answer, "streams")) {
		const char *name = print_member(o, "stream");
		uint64_t rank;
		if (strncmp(name, "rank-", 5) != 0 || str_parse_u64(name + 5, &rank) || rank >= MANYLOGS_RANKS ||
		    !rank_set_has(&m->ask->ranks, (uint32_t)rank))
			continue;
		struct stream *s = stream_of(m, (uint32_t)rank);
		s->size = (uint64_t)print_number(o, "size");
		s->complete = cJSON_IsTrue(jget(o, "complete"));
	}
	cJSON_Delete(answer);
	return rc;
}

/* ---- an attempt that is not followed ---------------------------------------------------------------- */

/* Reads until the stream has a line or has ended. */
static int fill_stream(struct many *m, struct stream *s)
{
	while (!has_line(m, s) && !s->drained) {
		int64_t n = fetch_with_retries(m, s);
		if (n < 0)
			return -1;
		if (n == 0)
			s->drained = 1;
	}
	return 0;
}

static int show_merged(struct many *m)
{
	for (size_t i = 0; i < m->n && !interrupted(); i++) {
		if (fill_stream(m, m->s[i]))
			return -1;
		if (has_line(m, m->s[i]))
			heap_add(m, m->s[i]);
	}
	while (m->heap_n && !m->failed && !interrupted()) {
		show_line(m, m->heap[0]);
		if (fill_stream(m, m->heap[0]))
			return -1;
		heap_renew(m);
	}
	m->failed |= fflush(stdout) != 0;
	return 0;
}

static int show_past(struct many *m)
{
	uint64_t job = m->ask->job, attempt = m->attempt;
	if (list_streams(m))
		return -1;
	if (!m->n)
		return ctx_fail(m->c, ERR_NOT_FOUND,
		                "none of these ranks wrote anything in attempt %" PRIu64 " of job %" PRIu64
		                "%s\nList the streams: jobctl logs %" PRIu64 " --list",
		                attempt, job, attempt ? "" : ", which has not started", job);
	for (size_t i = 0; i < m->ask->ranks.n; i++) {
		uint32_t from = m->ask->ranks.parts[i].from;
		size_t k = 0;
		while (k < m->n && m->s[k]->rank != from)
			k++;
		if (k == m->n)
			fprintf(stderr, "[hearth: rank %u wrote nothing]\n", from);
	}
	return show_merged(m);
}

/* ---- following -------------------------------------------------------------------------------------- */

/* Shows all complete lines. */
static void show_all(struct many *m)
{
	m->heap_n = 0;
	for (size_t i = 0; i < m->n; i++)
		if (has_line(m, m->s[i]))
			heap_add(m, m->s[i]);
	while (m->heap_n && !m->failed) {
		show_line(m, m->heap[0]);
		heap_renew(m);
	}
	m->failed |= fflush(stdout) != 0;
}

/* Reads what is new. Returns the number of bytes, -1: c->err is set. */
static int64_t fetch_news(struct many *m)
{
	int64_t sum = 0;
	if (list_streams(m))
		return -1;
	for (size_t i = 0; i < m->n && !interrupted(); i++) {
		struct stream *s = m->s[i];
		if (s->size > s->offset) {
			int64_t n = fetch_piece(m, s);
			if (n < 0 && m->c->err.code != ERR_UNAVAILABLE && m->c->err.code != ERR_BUSY)
				return -1;
			sum += n > 0 ? n : 0;
		}
		if (s->complete && s->offset >= s->size)
			s->drained = 1;
	}
	return sum;
}

static int all_drained(const struct many *m)
{
	int all = m->n > 0;
	for (size_t i = 0; i < m->n; i++)
		all &= m->s[i]->drained;
	return all;
}

/* Returns whether the attempt is over, and sets *attempts; -1: c->err is set. */
static int attempt_over(struct many *m, uint64_t *attempts, int *job_over)
{
	cJSON *job = ctx_job(m->c, m->ask->job);
	const char *status = jtext(job, "status");
	if (!job)
		return -1;
	*attempts = (uint64_t)print_number(job, "attempt_count");
	*job_over = status && job_ended(status);
	cJSON_Delete(job);
	return *job_over || *attempts > m->attempt;
}

/* Returns 1: a new attempt has begun, 0: the job is over, -1 or EXIT_INTERRUPTED. */
static int follow_attempt(struct many *m, struct waiting *w)
{
	uint64_t over_us = 0, told_us = 0, attempts = 0;
	int pause = PAUSE_MIN, over = 0, job_over = 0;
	for (;;) {
		/* The state is asked for first, so that a read after the end gets everything. */
		if (pause == PAUSE_MAX || over)
			over = attempt_over(m, &attempts, &job_over);
		int64_t n = over < 0     ? -1
		            : m->attempt ? fetch_news(m)
		                         : 0; /* no attempt has begun, so there are no streams */
		uint64_t now = clock_boot_us(clock_real());
		if (interrupted())
			return EXIT_INTERRUPTED;
		if (n < 0)
			return -1;
		if (n && w)
			waiting_wipe(w);
		show_all(m);
		over_us = over && !n ? (over_us ? over_us : now) : 0;
		if (m->failed || (over && !n && (!m->attempt || all_drained(m) || now - over_us > END_WAIT_US)))
			break;
		if (!m->any && w && now - told_us > 1000000) {
			waiting_tick(w);
			told_us = now;
		}
		pause = n ? PAUSE_MIN : pause * 2 < PAUSE_MAX ? pause * 2 : PAUSE_MAX;
		if (interrupt_sleep(pause))
			return EXIT_INTERRUPTED;
	}
	for (size_t i = 0; i < m->n; i++)
		m->s[i]->drained = 1;
	show_all(m);
	return m->failed || m->ask->attempt ? 0 : attempts > m->attempt;
}

static int follow_job(struct many *m)
{
	struct waiting *w = waiting_create(m->c, m->ask->job);
	unsigned old = client_patience(m->c->client, LOST_PATIENCE_S);
	int rc;
	while ((rc = follow_attempt(m, w)) == 1) {
		forget_streams(m);
		if (m->attempt)
			fprintf(stderr, "[hearth: attempt %" PRIu64 "]\n", m->attempt + 1);
		m->attempt++;
	}
	waiting_wipe(w);
	waiting_destroy(w);
	client_patience(m->c->client, old);
	return rc;
}

int manylogs_show(struct ctx *c, const struct manylogs_ask *ask, int *any)
{
	struct many m = {.c = c, .ask = ask, .attempt = ask->attempt};
	cJSON *job = ask->attempt ? NULL : ctx_job(c, ask->job);
	if (!ask->attempt && !job)
		return -1;
	if (!ctx_client(c))
		return -1;
	if (job)
		m.attempt = (uint64_t)print_number(job, "attempt_count");
	m.event = xmalloc(EVENT_MAX + 1);
	m.line = xmalloc(LINE_MAX);
	int rc = ask->follow ? follow_job(&m) : show_past(&m);
	*any = m.any;
	forget_streams(&m);
	free(m.s);
	free(m.heap);
	free(m.line);
	free(m.event);
	cJSON_Delete(job);
	return rc;
}
