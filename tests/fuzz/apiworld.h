/*
 * apiworld: a whole hearthd but for its agents: the real server (its unix socket, I/O thread, handlers)
 * before the real core and store of a world. The caller's thread is the state thread and the client at once:
 * apiworld_ask sends one request and runs the state thread until the answer is whole.
 */
#ifndef HEARTH_TESTS_FUZZ_APIWORLD_H
#define HEARTH_TESTS_FUZZ_APIWORLD_H

#include <stddef.h>

#include "tests/lib/world.h"

struct apiworld {
	struct world *w;
	struct server *s;
	struct loop *loop; /* of the state thread; the world's own is the store's */
	char *dir, *socket;
	const char *bearer; /* token that goes with each request; NULL: the socket's caller, an administrator */
	unsigned errors;    /* lines of level error in the log since the start */
	char error[256];    /* the last one */
};

struct api_answer {
	int status; /* 0: the server closed without one */
	char *head, *body;
	size_t body_n;
	int endless; /* a stream: cut off */
};

/* Both bail out on failure. */
struct apiworld *apiworld_create(void);
void apiworld_destroy(struct apiworld *a);

/* target: path and query, sent percent-encoded where HTTP needs it; key: Idempotency-Key, NULL none. -1: no
 * answer within half a minute. */
int apiworld_ask(struct apiworld *a, const char *method, const char *target, const char *key,
                 const void *body, size_t body_n, struct api_answer *out);
void api_answer_fini(struct api_answer *out);

#endif
