/*
 * xalloc: out of memory is not an error that a daemon of this kind can handle half-way; it aborts
 * with one line, and recovery is the restart, which is tested anyway.
 */
#include "common/base/xalloc.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void *check_allocated(void *p)
{
	static const char text[] = "fatal: out of memory\n";

	if (p)
		return p;
	/* write, not log_error: the log may need memory. */
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	abort();
}

/* malloc(0) may return NULL; one byte keeps "NULL is out of memory" true. */
static size_t at_least_one(size_t size)
{
	return size ? size : 1;
}

void *xmalloc(size_t size)
{
	return check_allocated(malloc(at_least_one(size)));
}

void *xcalloc(size_t n, size_t size)
{
	return check_allocated(calloc(at_least_one(n), at_least_one(size)));
}

void *xrealloc(void *p, size_t size)
{
	return check_allocated(realloc(p, at_least_one(size)));
}

void *xreallocarray(void *p, size_t n, size_t size)
{
	if (size && n > SIZE_MAX / size)
		check_allocated(NULL);
	return xrealloc(p, n * size);
}

char *xstrdup(const char *s)
{
	return s ? check_allocated(strdup(s)) : NULL;
}

char *xstrndup(const char *s, size_t n)
{
	return check_allocated(strndup(s, n));
}

void *xmemdup(const void *p, size_t n)
{
	void *copy = xmalloc(n);

	if (n)
		memcpy(copy, p, n);
	return copy;
}

char *xvasprintf(const char *fmt, va_list ap)
{
	char *s = NULL;

	if (vasprintf(&s, fmt, ap) < 0)
		check_allocated(NULL);
	return s;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	s = xvasprintf(fmt, ap);
	va_end(ap);
	return s;
}

void xappendf(char **s, const char *fmt, ...)
{
	va_list ap;
	char *more, *all;

	va_start(ap, fmt);
	more = xvasprintf(fmt, ap);
	va_end(ap);
	all = xasprintf("%s%s", *s, more);
	free(more);
	free(*s);
	*s = all;
}

/* Room grows at powers of two, so the capacity follows from n and needs no field. */
void strv_take(struct strv *s, char *str)
{
	size_t need = s->n + 2;

	if (!s->v)
		s->v = xcalloc(4, sizeof(*s->v));
	else if (need > 4 && ((need - 1) & (need - 2)) == 0)
		s->v = xreallocarray(s->v, (need - 1) * 2, sizeof(*s->v));
	s->v[s->n++] = str;
	s->v[s->n] = NULL;
}

void strv_add(struct strv *s, const char *str)
{
	strv_take(s, xstrdup(str));
}

void strv_addf(struct strv *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	strv_take(s, xvasprintf(fmt, ap));
	va_end(ap);
}

static char **find_env(const struct strv *s, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < s->n; i++)
		if (strncmp(s->v[i], name, len) == 0 && s->v[i][len] == '=')
			return &s->v[i];
	return NULL;
}

void strv_setenv(struct strv *s, const char *name, const char *value)
{
	char *entry = xasprintf("%s=%s", name, value);
	char **old = find_env(s, name);

	if (!old) {
		strv_take(s, entry);
		return;
	}
	free(*old);
	*old = entry;
}

const char *strv_getenv(const struct strv *s, const char *name)
{
	char **entry = find_env(s, name);

	return entry ? *entry + strlen(name) + 1 : NULL;
}

void strv_fini(struct strv *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
	*s = (struct strv){0};
}
