/*
 * log: the mutex guards the sink only; the line is made on the caller's stack, and the default sink is
 * one write(2) per line, which the kernel keeps whole for pipes up to PIPE_BUF and for O_APPEND files.
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
	char text[LINE_MAX_BYTES], line[LINE_MAX_BYTES], time[CLOCK_RFC3339_SIZE], piece[5];
	const size_t room = sizeof(line) - 5; /* "..." and newline or NUL */
	int saved_errno = errno;
	size_t n, len;
	va_list ap;

	if ((int)level < __atomic_load_n(&min_level, __ATOMIC_RELAXED))
		return;
	va_start(ap, fmt);
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		text[0] = '\0';
	va_end(ap);
	clock_rfc3339(clock_real_us(clock_real()), time);

	pthread_mutex_lock(&lock);
	n = (size_t)snprintf(line, sizeof(line), "%s %s %s ", time, level_names[level], program);
	for (const char *p = text; *p; p++) {
		len = escape_byte((unsigned char)*p, piece);
		if (n + len > room) {
			memcpy(line + n, "...", 3);
			n += 3;
			break;
		}
		memcpy(line + n, piece, len);
		n += len;
	}
	line[n] = '\0';
	if (sink)
		sink(level, line, sink_arg);
	else
		to_stderr(line, n);
	pthread_mutex_unlock(&lock);
	errno = saved_errno;
}

static int needs_quotes(const char *v)
{
	if (!*v)
		return 1;
	for (; *v; v++)
		if ((unsigned char)*v <= 0x20 || *v == 0x7f || *v == '"' || *v == '\\' || *v == '=')
			return 1;
	return 0;
}

const char *log_quote(char *out, unsigned long out_size, const char *v)
{
	char piece[5];
	size_t n = 0, len;

	if (out_size == 0)
		return out;
	if (!v)
		v = "";
	if (!needs_quotes(v)) {
		snprintf(out, out_size, "%s", v);
		return out;
	}
	if (out_size < 3) {
		out[0] = '\0';
		return out;
	}
	out[n++] = '"';
	for (; *v; v++) {
		if (*v == '"' || *v == '\\') {
			piece[0] = '\\';
			piece[1] = *v;
			len = 2;
		} else {
			len = escape_byte((unsigned char)*v, piece);
		}
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
