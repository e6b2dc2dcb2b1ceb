/*
 * text: see text.h. After the first cut nothing more is added: a sentence that lost its middle would say
 * something else than was meant.
 */
#include "common/base/text.h"

#include <assert.h>
#include <stdio.h>

struct text text_on(char *buf, size_t size)
{
	assert(size);
	*buf = '\0';
	return (struct text){.at = buf, .size = size};
}

void text_clear(struct text *t)
{
	*t = text_on(t->at, t->size);
}

/* Removes the bytes of a character whose end did not fit. */
static void drop_half_character(struct text *t)
{
	size_t start = t->len;

	while (start && ((unsigned char)t->at[start - 1] & 0xc0) == 0x80)
		start--;
	if (!start)
		return;
	unsigned char lead = (unsigned char)t->at[start - 1];
	size_t needs = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;

	if (t->len - start < needs)
		t->len = start - 1;
	t->at[t->len] = '\0';
}

void text_vadd(struct text *t, const char *fmt, va_list ap)
{
	size_t room = t->size - t->len;
	int n;

	if (t->cut)
		return;
	n = vsnprintf(t->at + t->len, room, fmt, ap);
	if (n >= 0 && (size_t)n < room) {
		t->len += (size_t)n;
		return;
	}
	t->cut = 1;
	t->len = n < 0 ? t->len : t->size - 1;
	t->at[t->len] = '\0';
	drop_half_character(t);
}

void text_add(struct text *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	text_vadd(t, fmt, ap);
	va_end(ap);
}

void text_join(struct text *t, const char *separator, const char *fmt, ...)
{
	va_list ap;

	if (t->len)
		text_add(t, "%s", separator);
	va_start(ap, fmt);
	text_vadd(t, fmt, ap);
	va_end(ap);
}

int text_is_empty(const struct text *t)
{
	return t->len == 0;
}

int text_is_cut(const struct text *t)
{
	return t->cut;
}
