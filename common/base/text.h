/*
 * text: a sentence for people, built piece by piece in a buffer of fixed size. A text never overruns its
 * buffer and always ends with 0; what does not fit is cut between two characters of UTF-8, and text_is_cut
 * tells.
 *
 *     TEXT(why);
 *     text_add(&why, "%u of %u nodes", have, want);
 *     text_join(&why, ", ", "%s is drained", name);
 *     err_set(e, ERR_CONFLICT, "%s", why.at);
 *
 * A function that makes a sentence for its caller takes a `struct text *` and adds to it. Pure.
 */
#ifndef HEARTH_COMMON_BASE_TEXT_H
#define HEARTH_COMMON_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

#define TEXT_SIZE 1024 /* bytes of a sentence, with its ending 0 */

struct text {
	char *at;    /* the caller's buffer; the text so far */
	size_t size; /* bytes of it, at least 1 */
	size_t len;  /* used, without the ending 0 */
	int cut;     /* something did not fit; nothing is added any more */
};

/* Declares an empty text with a buffer in the present scope. */
#define TEXT(name)                                                                                           \
	char name##_bytes[TEXT_SIZE];                                                                            \
	struct text name = text_on(name##_bytes, sizeof(name##_bytes))

/* Returns an empty text in buf, whose old content is lost. buf outlives the text. */
struct text text_on(char *buf, size_t size);
void text_clear(struct text *t);
void text_add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_vadd(struct text *t, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Adds the separator first, unless the text is empty. */
void text_join(struct text *t, const char *separator, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int text_is_empty(const struct text *t);
int text_is_cut(const struct text *t);

#endif
