/*
 * xalloc: allocation that aborts instead of failing, and scope clean-up.
 *
 * Sizes that come from outside are checked against a limit before they reach these functions.
 */
#ifndef HEARTH_COMMON_BASE_XALLOC_H
#define HEARTH_COMMON_BASE_XALLOC_H

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

void *xmalloc(size_t size) __attribute__((malloc, warn_unused_result));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, warn_unused_result));
void *xrealloc(void *p, size_t size) __attribute__((warn_unused_result));
void *xreallocarray(void *p, size_t n, size_t size) __attribute__((warn_unused_result));
char *xstrdup(const char *s) __attribute__((malloc, warn_unused_result)); /* NULL -> NULL */
char *xstrndup(const char *s, size_t n) __attribute__((malloc, warn_unused_result));
void *xmemdup(const void *p, size_t n) __attribute__((malloc, warn_unused_result));
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2), warn_unused_result));
char *xvasprintf(const char *fmt, va_list ap) __attribute__((warn_unused_result));
/* Appends to a malloc'ed text of no fixed bound; for a bounded sentence see text.h. */
void xappendf(char **s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static inline void cleanup_free_fn(void *p)
{
	free(*(void **)p);
}
static inline void cleanup_close_fn(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
#define cleanup_free  __attribute__((cleanup(cleanup_free_fn)))
#define cleanup_close __attribute__((cleanup(cleanup_close_fn)))

/* A growing NULL-terminated vector of owned strings (argv, envp). Zero-initialised is empty. */
struct strv {
	char **v; /* v[n] == NULL once anything was added; NULL when empty */
	size_t n;
};
void strv_add(struct strv *s, const char *str); /* copies */
void strv_take(struct strv *s, char *str);      /* takes */
void strv_addf(struct strv *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Environment form: replaces NAME=... when present, else appends. */
void strv_setenv(struct strv *s, const char *name, const char *value);
const char *strv_getenv(const struct strv *s, const char *name); /* NULL when unset */
void strv_fini(struct strv *s);

#endif
