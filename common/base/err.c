/*
 * err: texts are made in a local buffer first, so that arguments may point into the error that is
 * being replaced (`err_set(e, e->code, "%s: %s", what, e->text)`).
 */
#include "common/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name, *text;
	int status;
} codes[] = {
#define E(name, status, text) {#name, text, status},
    ERR_CODES(E)
#undef E
};

#define N_CODES (sizeof(codes) / sizeof(codes[0]))

/* A text that was cut ends in "...", and never in half a UTF-8 character. */
static void mark_cut(char *text, size_t size, size_t wanted)
{
	size_t at;

	if (wanted < size)
		return;
	at = size - 4;
	while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
		at--;
	memcpy(text + at, "...", 4);
}

static void fill_text(struct err *e, const char *fmt, va_list ap, const char *sep, const char *tail)
{
	char text[sizeof(e->text)];
	size_t used, wanted;
	int n;

	n = vsnprintf(text, sizeof(text), fmt, ap);
	wanted = n < 0 ? 0 : (size_t)n;
	if (n < 0)
		text[0] = '\0';
	used = wanted < sizeof(text) ? wanted : sizeof(text) - 1;
	if (tail) {
		n = snprintf(text + used, sizeof(text) - used, "%s%s", sep, tail);
		wanted += n < 0 ? 0 : (size_t)n;
	}
	mark_cut(text, sizeof(text), wanted);
	memcpy(e->text, text, sizeof(text));
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return -1;
	va_start(ap, fmt);
	fill_text(e, fmt, ap, "", NULL);
	va_end(ap);
	e->code = code;
	return -1;
}

static enum err_code code_of_errno(int errnum)
{
	switch (errnum) {
	case ENOSPC:
	case EDQUOT:
		return ERR_NOSPACE;
	case ENOENT:
		return ERR_NOT_FOUND;
	case EACCES:
	case EPERM:
		return ERR_DENIED;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	default:
		return ERR_IO;
	}
}

int err_sys(struct err *e, int errnum, const char *fmt, ...)
{
	char why[128];
	va_list ap;

	if (!e)
		return -1;
	va_start(ap, fmt);
	/* The GNU strerror_r may return its own static text and leave `why` alone; either is good. */
	fill_text(e, fmt, ap, ": ", strerror_r(errnum, why, sizeof(why)));
	va_end(ap);
	e->code = code_of_errno(errnum);
	return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char old[sizeof(e->text)];
	va_list ap;

	if (!e)
		return -1;
	memcpy(old, e->text, sizeof(old));
	va_start(ap, fmt);
	fill_text(e, fmt, ap, ": ", old);
	va_end(ap);
	return -1;
}

const char *err_code_name(enum err_code code)
{
	return (size_t)code < N_CODES ? codes[code].name : "ERR_UNKNOWN";
}

const char *err_code_text(enum err_code code)
{
	return (size_t)code < N_CODES ? codes[code].text : "unknown error";
}

int err_http_status(enum err_code code)
{
	return (size_t)code < N_CODES ? codes[code].status : 500;
}
