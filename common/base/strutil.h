/*
 * strutil: small text helpers that more than one program needs.
 */
#ifndef HEARTH_COMMON_BASE_STRUTIL_H
#define HEARTH_COMMON_BASE_STRUTIL_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* "8GiB", "512M", "1024", "1.5TB" -> bytes. K/M/G/T are powers of 1024 with or without "iB"; KB/MB/GB/TB are
 * powers of 1000. */
int str_parse_size(const char *s, uint64_t *bytes, struct err *e);
const char *str_size(uint64_t bytes, char *out, size_t out_size); /* "8.0GiB" */
/* Money, hours: two decimals, of a small amount as many as tell it to 1 %, at most six: "12.40", "0.0031". */
const char *str_amount(double n, char *out, size_t out_size);
/* "90", "90s", "5m", "2h", "7d", "1h30m" -> seconds. */
int str_parse_duration(const char *s, uint64_t *seconds, struct err *e);
const char *str_duration(uint64_t seconds, char *out, size_t out_size); /* "1h30m", "42s" */
/* "17.3": a member of an array. */
int str_parse_member(const char *s, uint64_t *array, uint32_t *index);
int str_parse_u64(const char *s, uint64_t *out); /* whole string, decimal; -1 when not */
/* Nearest of a NULL-terminated list by edit distance <= max(2, len/3), else NULL. */
const char *str_nearest(const char *s, const char *const *known);
/* Names of jobs, nodes, channels, tags: [A-Za-z0-9][A-Za-z0-9._-]{0,max-1}; no "..". what names the thing. */
int str_check_name(const char *s, size_t max, const char *what, struct err *e);
int str_valid_utf8(const char *s, size_t n);
/* Bytes of a character that begins so; 0: none does. */
size_t str_utf8_length(unsigned char first);
/* Malloc'ed UTF-8; invalid bytes become U+FFFD, and so does NUL. */
char *str_to_utf8(const char *p, size_t n);
int str_has_control(const char *s); /* bytes < 0x20 (tab and newline too) or 0x7f */
/* Relative path without "." and "..", empty parts (also a trailing '/'), leading '/', control bytes. */
int str_safe_relpath(const char *s);
void str_hex(const uint8_t *p, size_t n, char *out /* 2n+1 */);
int str_unhex(const char *s, uint8_t *out, size_t n); /* exactly 2n lower-case digits */

#endif
