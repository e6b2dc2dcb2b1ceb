/* text: see text.h. */
#include "scheduler/model/text.h"
#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

static void put(struct text *t, const char *s, size_t n)
{
	size_t room = t->size > t->n + 1 ? t->size - t->n - 1 : 0;

	n = n < room ? n : room;
	memcpy(t->p + t->n, s, n);
	t->n += n;
	if (t->size)
		t->p[t->n] = '\0';
}

static void put_number(struct text *t, uint64_t v, unsigned least)
{
	char digits[24];
	size_t at = sizeof digits;

	for (; v || least; v /= 10, least -= !!least)
		digits[--at] = (char)('0' + v % 10);
	put(t, digits + at, sizeof digits - at);
}

static void put_signed(struct text *t, int64_t v)
{
	if (v < 0)
		put(t, "-", 1);
	put_number(t, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, 1);
}

static void put_fraction(struct text *t, double v, unsigned places)
{
	uint64_t unit = 1, all;

	if (v != v || v > 1e15 || v < -1e15) {
		put(t, "?", 1);
		return;
	}
	for (unsigned i = 0; i < places; i++)
		unit *= 10;
	if (v < 0) {
		put(t, "-", 1);
		v = -v;
	}
	all = (uint64_t)(v * (double)unit + 0.5);
	put_number(t, all / unit, 1);
	if (places) {
		put(t, ".", 1);
		put_number(t, all % unit, places);
	}
}

static uint64_t get_unsigned(va_list *ap, int longs)
{
	return longs ? va_arg(*ap, unsigned long) : va_arg(*ap, unsigned);
}

static int64_t get_signed(va_list *ap, int longs)
{
	return longs ? va_arg(*ap, long) : va_arg(*ap, int);
}

void text_add(struct text *t, const char *fmt, ...)
{
	va_list ap;

	static_assert(sizeof(long) == 8 && sizeof(long long) == 8 && sizeof(size_t) == 8,
	              "one width for %l, %ll and %z");
	va_start(ap, fmt);
	for (const char *p = fmt; *p; p++) {
		size_t plain = strcspn(p, "%");
		unsigned places = 0;
		int longs = 0;

		put(t, p, plain);
		p += plain;
		if (!*p)
			break;
		p++;
		if (*p == '.') {
			places = (unsigned)(p[1] - '0');
			p += 2;
		}
		for (; *p == 'l' || *p == 'z'; p++)
			longs = 1;
		if (*p == 's') {
			const char *s = va_arg(ap, const char *);

			put(t, s, strlen(s));
		} else if (*p == 'u') {
			put_number(t, get_unsigned(&ap, longs), 1);
		} else if (*p == 'd') {
			put_signed(t, get_signed(&ap, longs));
		} else if (*p == 'f') {
			put_fraction(t, va_arg(ap, double), places);
		} else {
			assert(*p == '%');
			put(t, "%", 1);
		}
	}
	va_end(ap);
}
