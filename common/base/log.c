/*
 * log: a value that a user wrote must not look like fields of its own. log_at finds the texts of %s in what
 * printf made and escapes them there, so that no caller has to. The mutex guards the sink only; the line is
 * made on the caller's stack, and the default sink is one write(2) per line, which the kernel keeps whole for
 * pipes up to PIPE_BUF and for O_APPEND files.
 */
#include "common/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"

#define LINE_MAX_BYTES 4096 /* PIPE_BUF: a whole line is one atomic write */
#define FORMAT_MAX     1024 /* of which texts are found */
#define SPANS_MAX      16   /* texts of a line */

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char program[32] = "hearth";
static int min_level = LOG_LVL_INFO; /* read without the lock, atomically */
static log_sink_fn sink;
static void *sink_arg;

void log_init(const char *name, enum log_level min)
{
	pthread_mutex_lock(&lock);
	snprintf(program, sizeof(program), "%s", name);
	pthread_mutex_unlock(&lock);
	__atomic_store_n(&min_level, (int)min, __ATOMIC_RELAXED);
}

void log_set_sink(log_sink_fn fn, void *arg)
{
	pthread_mutex_lock(&lock);
	sink = fn;
	sink_arg = arg;
	pthread_mutex_unlock(&lock);
}

int log_level_parse(const char *s, enum log_level *out)
{
	for (unsigned i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (strcmp(s, level_names[i]) == 0) {
			*out = (enum log_level)i;
			return 0;
		}
	}
	return -1;
}

/* One byte in its escaped form; returns how many characters. */
static size_t escape_byte(unsigned char c, char out[5])
{
	static const char hex[] = "0123456789abcdef";

	if (c >= 0x20 && c != 0x7f) {
		out[0] = (char)c;
		return 1;
	}
	out[0] = '\\';
	switch (c) {
	case '\n':
		out[1] = 'n';
		return 2;
	case '\t':
		out[1] = 't';
		return 2;
	case '\r':
		out[1] = 'r';
		return 2;
	default:
		out[1] = 'x';
		out[2] = hex[c >> 4];
		out[3] = hex[c & 15];
		return 4;
	}
}

/* The same inside of quotes, where quotes and backslashes are escaped, too. */
static size_t escape_quoted(char c, char out[5])
{
	if (c != '"' && c != '\\')
		return escape_byte((unsigned char)c, out);
	out[0] = '\\';
	out[1] = c;
	return 2;
}

static int needs_quotes(const char *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)v[i] <= 0x20 || v[i] == 0x7f || v[i] == '"' || v[i] == '\\' || v[i] == '=')
			return 1;
	return n == 0;
}

/* ---- texts in a line -------------------------------------------------------------------------------- */

struct span { /* the text of a %s in the line */
	size_t from, to;
	int whole; /* a value by itself, which gets quotes when it needs them; else it has some around it */
};

/* Returns what printf makes of the first n characters of fmt, in bytes. */
static size_t printed_length(const char *fmt, size_t n, va_list ap)
{
	char part[FORMAT_MAX];
	va_list copy;
	int len;

	memcpy(part, fmt, n);
	part[n] = '\0';
	va_copy(copy, ap);
	len = vsnprintf(NULL, 0, part, copy);
	va_end(copy);
	return len > 0 ? (size_t)len : 0;
}

/* Finds the texts of %s that are inside of quotes, or a value from '=' to a blank. */
static size_t find_texts(const char *fmt, va_list ap, struct span spans[SPANS_MAX])
{
	size_t n = 0, end;
	int quoted = 0;

	for (size_t i = 0; fmt[i] && i < FORMAT_MAX - 32 && n < SPANS_MAX; i++) {
		if (fmt[i] == '"')
			quoted = !quoted;
		if (fmt[i] != '%')
			continue;
		end = i + 1 + strspn(fmt + i + 1, "-+ #0'123456789*.hlLqjzt");
		if (fmt[end] == 's' && end < FORMAT_MAX - 1 &&
		    (quoted || (i && fmt[i - 1] == '=' && (!fmt[end + 1] || fmt[end + 1] == ' '))))
			spans[n++] = (struct span){
			    .from = printed_length(fmt, i, ap), .to = printed_length(fmt, end + 1, ap), .whole = !quoted};
		if (!fmt[end])
			break;
		i = end;
	}
	return n;
}

struct line {
	char at[LINE_MAX_BYTES];
	size_t n;
	int full;
};

static void put_piece(struct line *l, const char *piece, size_t n)
{
	const size_t room = sizeof(l->at) - 5; /* "..." and newline or NUL */

	if (l->full)
		return;
	l->full = l->n + n > room;
	if (l->full) {
		piece = "...";
		n = 3;
	}
	memcpy(l->at + l->n, piece, n);
	l->n += n;
}

static void put_text(struct line *l, const char *text, size_t n, const struct span *s, size_t n_spans)
{
	const struct span *end = s + n_spans;
	int quotes = 0; /* of ours around this value */
	char piece[5];

	for (size_t i = 0; i <= n && !l->full; i++) {
		if (s < end && i == s->from && s->whole && needs_quotes(text + i, s->to - i)) {
			quotes = 1;
			put_piece(l, "\"", 1);
		}
		for (; s < end && i >= s->to; s++) {
			put_piece(l, "\"", (size_t)quotes);
			quotes = 0;
		}
		if (i < n && s < end && i >= s->from && (quotes || !s->whole))
			put_piece(l, piece, escape_quoted(text[i], piece));
		else if (i < n)
			put_piece(l, piece, escape_byte((unsigned char)text[i], piece));
	}
}

static void to_stderr(char *line, size_t n)
{
	ssize_t done;

	line[n] = '\n';
	/* A log that cannot be written has nobody left to tell; the program goes on. */
	do
		done = write(STDERR_FILENO, line, n + 1);
	while (done < 0 && errno == EINTR);
}

void log_at(enum log_level level, const char *fmt, ...)
{
	char text[LINE_MAX_BYTES], time[CLOCK_RFC3339_SIZE];
	struct span spans[SPANS_MAX];
	struct line line = {.n = 0};
	int saved_errno = errno;
	size_t n_spans;
	va_list ap;

	if ((int)level < __atomic_load_n(&min_level, __ATOMIC_RELAXED))
		return;
	va_start(ap, fmt);
	n_spans = find_texts(fmt, ap, spans);
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		text[0] = '\0';
	va_end(ap);
	clock_rfc3339(clock_real_us(clock_real()), time);

	pthread_mutex_lock(&lock);
	line.n = (size_t)snprintf(line.at, sizeof(line.at), "%s %s %s ", time, level_names[level], program);
	for (size_t i = 0, n = strlen(text); i < n_spans; i++) { /* of a line that was cut */
		spans[i].from = spans[i].from < n ? spans[i].from : n;
		spans[i].to = spans[i].to < n ? spans[i].to : n;
	}
	put_text(&line, text, strlen(text), spans, n_spans);
	line.at[line.n] = '\0';
	if (sink)
		sink(level, line.at, sink_arg);
	else
		to_stderr(line.at, line.n);
	pthread_mutex_unlock(&lock);
	errno = saved_errno;
}

const char *log_quote(char *out, unsigned long out_size, const char *v)
{
	char piece[5];
	size_t n = 0, len;

	if (out_size == 0)
		return out;
	if (!v)
		v = "";
	if (!needs_quotes(v, strlen(v))) {
		snprintf(out, out_size, "%s", v);
		return out;
	}
	if (out_size < 3) {
		out[0] = '\0';
		return out;
	}
	out[n++] = '"';
	for (; *v; v++) {
		len = escape_quoted(*v, piece);
		if (n + len + 2 > out_size)
			break;
		memcpy(out + n, piece, len);
		n += len;
	}
	out[n++] = '"';
	out[n] = '\0';
	return out;
}

int log_limit_ok(struct log_limit *l, unsigned long long now_us, unsigned *suppressed)
{
	if (l->in_window == 0 || now_us - l->window_start_us >= 60000000ull) {
		l->window_start_us = now_us;
		l->in_window = 0;
	}
	if (l->in_window >= l->per_minute) {
		l->suppressed++;
		return 0;
	}
	l->in_window++;
	*suppressed = l->suppressed;
	l->suppressed = 0;
	return 1;
}
