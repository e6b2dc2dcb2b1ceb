/*
 * log_places: which nodes an attempt has, for the log thread. It accepts a stream only from a node that has
 * a place in the attempt.
 *
 * The rows of the store decide. So the rule also holds for attempts that have ended and after a restart:
 * late data and data sent again are accepted as long as the row is there. An attempt's nodes never change,
 * so they are cached.
 */
#ifndef HEARTH_CONTROLLER_FILES_LOG_PLACES_H
#define HEARTH_CONTROLLER_FILES_LOG_PLACES_H

#include <stdint.h>

struct log_places;
struct store_reader;

struct log_places *log_places_create(void);
void log_places_destroy(struct log_places *p); /* NULL allowed */
/* 1: the node has a place; 0: it has none, or the attempt is unknown; -1: the rows cannot be read. */
int log_places_has(struct log_places *p, struct store_reader *r, uint64_t job, uint32_t attempt,
                   const char *node);

#endif
