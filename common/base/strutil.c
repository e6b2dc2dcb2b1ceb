/*
 * strutil: parsers here take the whole string or nothing, and say what they expected.
 */
#include "common/base/strutil.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/xalloc.h"

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Leading digits; moves *s past them. -1 without digits, or when the number is too large. */
static int take_u64(const char **s, uint64_t *out)
{
	const char *p = *s;
	uint64_t v = 0;

	if (!is_digit(*p))
		return -1;
	for (; is_digit(*p); p++)
		if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return -1;
	*s = p;
	*out = v;
	return 0;
}

int str_parse_u64(const char *s, uint64_t *out)
{
	uint64_t v;

	if (take_u64(&s, &v) < 0 || *s)
		return -1;
	*out = v;
	return 0;
}

int str_parse_member(const char *s, uint64_t *array, uint32_t *index)
{
	uint64_t a, i;

	if (take_u64(&s, &a) < 0 || *s++ != '.' || take_u64(&s, &i) < 0 || *s || !a || i > UINT32_MAX)
		return -1;
	*array = a;
	*index = (uint32_t)i;
	return 0;
}

static int size_unit(const char *s, uint64_t *unit)
{
	static const char letters[] = "KMGTP";
	const char *at;
	uint64_t base;

	*unit = 1;
	if (!*s || strcasecmp(s, "B") == 0)
		return 0;
	at = strchr(letters, toupper((unsigned char)*s));
	if (!at)
		return -1;
	s++;
	if (!*s || strcasecmp(s, "iB") == 0 || strcasecmp(s, "i") == 0)
		base = 1024;
	else if (strcasecmp(s, "B") == 0)
		base = 1000;
	else
		return -1;
	for (const char *p = letters; p <= at; p++)
		*unit *= base;
	return 0;
}

static int bad_size(const char *s, struct err *e)
{
	return err_set(e, ERR_INVALID, "'%s' is not a size; expected a number with K, M, G, T or KB, MB, GB, TB",
	               s);
}

int str_parse_size(const char *s, uint64_t *bytes, struct err *e)
{
	uint64_t whole, unit, part = 0, scale = 1, sum;
	const char *p = s;
	int fraction = 0;

	if (take_u64(&p, &whole) < 0)
		return bad_size(s, e);
	if (*p == '.') {
		fraction = 1;
		if (!is_digit(*++p))
			return bad_size(s, e);
		/* Digits past the ninth are less than a byte for all but the largest unit. */
		for (; is_digit(*p); p++) {
			if (scale < 1000000000u) {
				part = part * 10 + (uint64_t)(*p - '0');
				scale *= 10;
			}
		}
	}
	if (size_unit(p, &unit) < 0 || (fraction && unit == 1))
		return bad_size(s, e);
	/* part < scale, so the second product needs 128 bits only on the way. */
	if (__builtin_mul_overflow(whole, unit, &sum) ||
	    __builtin_add_overflow(sum, (uint64_t)((unsigned __int128)part * unit / scale), &sum))
		return err_set(e, ERR_INVALID, "'%s' is too large a size", s);
	*bytes = sum;
	return 0;
}

const char *str_amount(double n, char *out, size_t out_size)
{
	double size = n < 0 ? -n : n;
	int decimals = 2;

	/* In millionths, as amounts are kept: libm is not everywhere that this is. */
	if (size < 1) {
		uint64_t micro = (uint64_t)(size * 1e6 + 0.5), unit = 10000;

		for (; decimals < 6; decimals++, unit /= 10) {
			uint64_t shown = (micro + unit / 2) / unit * unit;

			if ((shown > micro ? shown - micro : micro - shown) * 100 <= micro)
				break;
		}
	}
	snprintf(out, out_size, "%.*f", decimals, n);
	return out;
}

const char *str_size(uint64_t bytes, char *out, size_t out_size)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double v = (double)bytes;
	size_t i = 0;

	if (bytes < 1024) {
		snprintf(out, out_size, "%uB", (unsigned)bytes);
		return out;
	}
	/* 1023.95 and more would print as 1024.0 of the smaller unit. */
	for (v /= 1024; v >= 1023.95 && i + 1 < sizeof(units) / sizeof(units[0]); i++)
		v /= 1024;
	snprintf(out, out_size, "%.1f%s", v, units[i]);
	return out;
}

static uint64_t duration_unit(char c)
{
	switch (c) {
	case 's':
		return 1;
	case 'm':
		return 60;
	case 'h':
		return 3600;
	case 'd':
		return 86400;
	default:
		return 0;
	}
}

static int bad_duration(const char *s, struct err *e)
{
	return err_set(e, ERR_INVALID,
	               "'%s' is not a duration; expected seconds, or numbers with d, h, m, s as in 1h30m", s);
}

int str_parse_duration(const char *s, uint64_t *seconds, struct err *e)
{
	uint64_t n, unit, last = UINT64_MAX, sum = 0;
	const char *p = s;

	if (str_parse_u64(s, &n) == 0) {
		*seconds = n;
		return 0;
	}
	do {
		if (take_u64(&p, &n) < 0)
			return bad_duration(s, e);
		unit = duration_unit(*p);
		/* From large to small, each once: "1m1h" is more likely a slip than a wish. */
		if (unit == 0 || unit >= last)
			return bad_duration(s, e);
		p++;
		last = unit;
		if (__builtin_mul_overflow(n, unit, &n) || __builtin_add_overflow(sum, n, &sum))
			return err_set(e, ERR_INVALID, "'%s' is too long a duration", s);
	} while (*p);
	*seconds = sum;
	return 0;
}

const char *str_duration(uint64_t seconds, char *out, size_t out_size)
{
	static const char units[] = "dhms";
	uint64_t left = seconds;
	size_t n = 0;

	if (out_size)
		out[0] = '\0';
	for (const char *u = units; *u && n < out_size; u++) {
		uint64_t unit = duration_unit(*u), v = left / unit;

		left %= unit;
		if (v || (*u == 's' && n == 0))
			n += (size_t)snprintf(out + n, out_size - n, "%" PRIu64 "%c", v, *u);
	}
	return out;
}

#define NEAREST_MAX 64 /* longer names have no near ones worth naming */

static size_t least_of_three(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* Levenshtein's distance, where a swap of two neighbours counts as one (optimal string alignment). */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
	size_t rows[3][NEAREST_MAX + 1];
	size_t *before = rows[0], *prev = rows[1], *row = rows[2];

	for (size_t j = 0; j <= nb; j++)
		prev[j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t *free_row = before;

		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			row[j] = least_of_three(prev[j] + 1, row[j - 1] + 1, prev[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < row[j])
				row[j] = before[j - 2] + 1;
		}
		before = prev;
		prev = row;
		row = free_row;
	}
	return prev[nb];
}

const char *str_nearest(const char *s, const char *const *known)
{
	const char *best = NULL;
	size_t n = strlen(s), limit = n / 3 > 2 ? n / 3 : 2;

	if (n > NEAREST_MAX)
		return NULL;
	for (; *known; known++) {
		size_t m = strlen(*known), d;

		if (m > NEAREST_MAX)
			continue;
		d = edit_distance(s, n, *known, m);
		/* As many edits as letters: the words have nothing in common ("x" and "id"). */
		if (d > limit || d >= (n > m ? n : m))
			continue;
		if (d == 0)
			return *known;
		best = *known;
		limit = d - 1;
	}
	return best;
}

static int is_alnum(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Makes a printable, short form of a name for an error message; the name may hold any bytes. */
static void show_name(const char *s, char out[68])
{
	size_t n = 0;

	for (; *s && n < 60; s++)
		out[n++] = (unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7f ? '?' : *s;
	if (*s)
		n += (size_t)snprintf(out + n, 4, "...");
	out[n] = '\0';
}

int str_check_name(const char *s, size_t max, const char *what, struct err *e)
{
	char shown[68];

	if (!s || !*s)
		return err_set(e, ERR_INVALID, "%s is empty", what);
	show_name(s, shown);
	if (!is_alnum(*s))
		return err_set(e, ERR_INVALID, "%s '%s' must begin with a letter or a digit", what, shown);
	for (const char *p = s; *p; p++) {
		if ((size_t)(p - s) >= max)
			return err_set(e, ERR_INVALID, "%s '%s' is longer than %zu characters", what, shown, max);
		if (!is_alnum(*p) && *p != '.' && *p != '_' && *p != '-')
			return err_set(e, ERR_INVALID, "%s '%s' may only hold letters, digits, '.', '_' and '-'", what,
			               shown);
		if (p[0] == '.' && p[1] == '.')
			return err_set(e, ERR_INVALID, "%s '%s' must not hold '..'", what, shown);
	}
	return 0;
}

/* Length of the well-formed sequence (Unicode 15, table 3-7) at p, 0: invalid. */
static size_t utf8_len(const unsigned char *p, size_t n)
{
	unsigned char lo = 0x80, hi = 0xbf;
	size_t len;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (n < len)
		return 0;
	if (p[0] == 0xe0)
		lo = 0xa0;
	else if (p[0] == 0xed)
		hi = 0x9f; /* surrogates */
	else if (p[0] == 0xf0)
		lo = 0x90;
	else if (p[0] == 0xf4)
		hi = 0x8f;
	if (p[1] < lo || p[1] > hi)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

int str_valid_utf8(const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t len;

	while (n) {
		len = utf8_len(p, n);
		if (len == 0)
			return 0;
		p += len;
		n -= len;
	}
	return 1;
}

size_t str_utf8_length(unsigned char first)
{
	return first < 0x80                    ? 1
	       : first >= 0xc2 && first < 0xe0 ? 2
	       : first >= 0xe0 && first < 0xf0 ? 3
	       : first >= 0xf0 && first < 0xf5 ? 4
	                                       : 0;
}

char *str_to_utf8(const char *p, size_t n)
{
	char *out = xmalloc(3 * n + 1);
	size_t i = 0, k = 0;

	while (i < n) {
		size_t len = str_utf8_length((unsigned char)p[i]);

		if (len && len <= n - i && p[i] && str_valid_utf8(p + i, len)) {
			memcpy(out + k, p + i, len);
			k += len;
			i += len;
		} else {
			memcpy(out + k, "\xef\xbf\xbd", 3);
			k += 3;
			i++;
		}
	}
	out[k] = '\0';
	return out;
}

int str_has_control(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return 1;
	return 0;
}

int str_safe_relpath(const char *s)
{
	size_t len;

	if (!s || !*s || str_has_control(s))
		return 0;
	for (;; s += len + 1) {
		len = strcspn(s, "/");
		if (len == 0 || (len == 1 && s[0] == '.') || (len == 2 && s[0] == '.' && s[1] == '.'))
			return 0;
		if (!s[len])
			return 1;
	}
}

void str_hex(const uint8_t *p, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[p[i] >> 4];
		out[2 * i + 1] = digits[p[i] & 15];
	}
	out[2 * n] = '\0';
}

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int str_unhex(const char *s, uint8_t *out, size_t n)
{
	if (strlen(s) != 2 * n)
		return -1;
	for (size_t i = 0; i < 2 * n; i++)
		if (hex_digit(s[i]) < 0)
			return -1;
	for (size_t i = 0; i < n; i++)
		out[i] = (uint8_t)(hex_digit(s[2 * i]) << 4 | hex_digit(s[2 * i + 1]));
	return 0;
}
