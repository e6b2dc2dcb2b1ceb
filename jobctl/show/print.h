/*
 * show: prints answers for people: tables, times, metrics and logs. It asks hearthd only for what it prints.
 *
 * print: tables, colours (only on a terminal, never with NO_COLOR), ages and sizes.
 */
#ifndef HEARTH_JOBCTL_SHOW_PRINT_H
#define HEARTH_JOBCTL_SHOW_PRINT_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

int print_is_terminal(void); /* standard output is a terminal */
/* Returns the colour of a job's or node's status; "" if not on a terminal. print_reset ends it. */
const char *print_status_colour(const char *status);
const char *print_bold(void);
const char *print_dim(void);
const char *print_reset(void);
/* Prints "head value" on a line; nothing for an empty value or "-". */
void print_line(const char *head, const char *value);
void print_sentence(const char *head, const char *value); /* a sentence of hearthd's, through print_local */
/* Prints a list likewise, wrapped. */
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

/* Returns the text of a member: strings as they are (not made safe), numbers short, null as "-". The result
 * is in a static ring of 16 buffers. */
const char *print_member(const cJSON *obj, const char *key);
double print_number(const cJSON *obj, const char *key); /* 0 if it is not a number */
/* Turns RFC 3339 into "2026-01-02 03:04:05"; NULL: "-". Times for people are local, with the zone once: in
 * the head of a column, in the first of several lines, in each sentence. JSON has UTC. */
const char *print_time(const char *rfc3339);
const char *print_time_zone(const char *rfc3339); /* "2026-01-02 03:04:05 CET" */
const char *print_zone_head(const char *head);    /* "CREATED" -> "CREATED (CET)" */
/* Replaces times in UTC (RFC 3339, or "2026-01-02 03:04:05 UTC") in a sentence by local ones with their zone.
 * Malloc'ed. */
char *print_local(const char *text);
/* Prints hearthd's warnings to stderr: what is accepted but seldom meant. */
void print_warnings(const cJSON *answer);
/* Turns RFC 3339 into microseconds since 1970; 0: it is invalid. */
uint64_t print_time_us(const char *rfc3339);
/* Returns the time between from and to (NULL: now) as "42s", "3m10s". */
const char *print_span(const char *from, const char *to);
/* Returns how long a job, a member or a line of top ran; "-" before it ran. */
const char *print_ran(const cJSON *job);
/* Returns a sparkline of n values, with NaN as a gap. Malloc'ed. */
char *print_spark(const double *v, size_t n, size_t width);
/* Makes a text from outside safe for a terminal: control characters (C0 except newline and tab, DEL, C1)
 * become '?'. Malloc'ed. */
char *print_safe(const char *s);

#endif
