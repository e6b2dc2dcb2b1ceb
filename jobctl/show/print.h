/*
 * print: tables, colours (only on a terminal, never with NO_COLOR), ages and sizes for people.
 */
#ifndef HEARTH_JOBCTL_PRINT_H
#define HEARTH_JOBCTL_PRINT_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

int print_is_terminal(void); /* standard output */
/* Colour of a job's or node's status; "" when not on a terminal. print_reset ends it. */
const char *print_status_colour(const char *status);
const char *print_bold(void);
const char *print_dim(void);
const char *print_reset(void);
/* "head         value" on a line; nothing for an empty value or "-". */
void print_line(const char *head, const char *value);
void print_sentence(const char *head, const char *value); /* of hearthd's: with print_local */
/* The same for a list, wrapped. */
void print_items(const char *head, char *const *items, size_t n);

struct table;
struct table *table_create(const char *const *heads, size_t n); /* a head that starts with '>' aligns right */
void table_cell(
    struct table *t,
    const char *text); /* next cell; rows fill up from left to right; control bytes are shown as '?' */
void table_cell_cut(struct table *t, const char *text, size_t max); /* "..." ends what is longer */
void table_cellf(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void table_print(struct table *t); /* cuts the last column at the terminal's width */
size_t table_rows(const struct table *t);
void table_destroy(struct table *t);

/* Text of a member for people: strings as they are (not made safe), numbers short, null "-". Static ring of
 * 16 buffers. */
const char *print_member(const cJSON *obj, const char *key);
double print_number(const cJSON *obj, const char *key); /* 0 when it is none */
/* RFC 3339 -> "2026-01-02 03:04:05"; NULL "-". People are shown local time, and its zone once: in the head of
 * a column, with the first of several lines, in each sentence. JSON has UTC. */
const char *print_time(const char *rfc3339);
const char *print_time_zone(const char *rfc3339); /* "2026-01-02 03:04:05 CET" */
const char *print_zone_head(const char *head);    /* "CREATED" -> "CREATED (CET)" */
/* A sentence in which times in UTC (RFC 3339, or "2026-01-02 03:04:05 UTC") become local ones with their
 * zone. Malloc'ed. */
char *print_local(const char *text);
/* RFC 3339 -> microseconds since 1970, 0 when it is not one. */
uint64_t print_time_us(const char *rfc3339);
/* "42s", "3m10s" between two times; to NULL = now. */
const char *print_span(const char *from, const char *to);
/* How long a job ran: a job, member or line of top as the controller gives it; "-" before it ran. */
const char *print_ran(const cJSON *job);
/* Sparkline of n values, NaN as a gap. Malloc'ed. */
char *print_spark(const double *v, size_t n, size_t width);
/* A text from outside, safe for a terminal: control characters (C0 but newline and tab, DEL, C1) become '?'.
 * Malloc'ed. */
char *print_safe(const char *s);

#endif
