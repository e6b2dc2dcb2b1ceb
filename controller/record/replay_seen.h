/*
 * replay_seen: what the cluster's events tell of one thing (a node, a token, a queue ...), by its kind and
 * name, until its row is compared: facts as the events have them, in a JSON object. For replay*.c only.
 */
#ifndef HEARTH_CONTROLLER_REPLAY_SEEN_H
#define HEARTH_CONTROLLER_REPLAY_SEEN_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

#include "controller/record/event.h"
#include "store/store.h"

struct seen {
	char *key; /* kind and name; begins with the kind */
	const char *kind, *name;
	cJSON *facts;
	int there; /* a row of it is expected */
	int row;   /* and was seen */
	UT_hash_handle hh;
};

/* -1, with the text in why. */
int replay_say(char *why, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The data of an event; NULL when they are no JSON object (why says so). None at all are an empty one. */
cJSON *replay_data(const struct event_row *ev, char *why, size_t size);

/* kind: a text that stays. make 0: NULL when there is none. */
struct seen *seen_get(struct seen **all, const char *kind, const char *name, int make);
/* The one that an event is about: made where `make` is, and there from then on; else it must be there. NULL:
 * why. */
struct seen *seen_of_event(struct seen **all, const char *kind, const char *name, int make, char *why,
                           size_t size);
/* The one that a row is of, NULL (why): no event tells of it, or they say that it was removed. */
struct seen *seen_of_row(struct seen **all, const char *kind, const char *name, char *why, size_t size);
/* It was removed: no row is expected, no fact is left. */
void seen_gone(struct seen *s);
/* Frees all up to the next that is there and has no row (-1); 0: none is left. */
int seen_rest(struct seen **all, char *why, size_t size);

const char *seen_str(const struct seen *s, const char *key); /* "" none */
uint64_t seen_num(const struct seen *s, const char *key);    /* 0 none */
void seen_set_str(struct seen *s, const char *key, const char *v);
void seen_set_num(struct seen *s, const char *key, uint64_t v);
/* Takes the fields of data into the facts; null takes one away. */
void seen_take(struct seen *s, const cJSON *data);
/* 0, or -1 with a why that names the field. row NULL is "". */
int seen_str_is(const struct seen *s, const char *key, const char *row, char *why, size_t size);
int seen_num_is(const struct seen *s, const char *key, uint64_t row, char *why, size_t size);
/* The same of times, which may be some seconds apart: event and row each looked at the clock. 0, never, is
 * near to no other. */
int seen_time_near(const struct seen *s, const char *key, uint64_t row, char *why, size_t size);
int seen_near(uint64_t a, uint64_t b);

#endif
