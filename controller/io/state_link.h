/*
 * state_link: the channel from all I/O threads to the state thread. It is bounded; a sender that finds it
 * full keeps its message and pauses or refuses.
 */
#ifndef HEARTH_CONTROLLER_IO_STATE_LINK_H
#define HEARTH_CONTROLLER_IO_STATE_LINK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define NODE_NAME_SIZE 128 /* bytes of a node's name, with its ending 0 */

struct loop;
struct request;

enum to_state_kind { TS_REQUEST, TS_AGENT_UP, TS_AGENT_MSG, TS_AGENT_DOWN, TS_OVER_QUOTA };
struct to_state {
	enum to_state_kind kind;
	struct request *rq; /* owned */
	char node[NODE_NAME_SIZE];
	uint64_t session;
	uint8_t role;
	uint16_t type;
	uint64_t id;
	void *msg; /* struct wm_hello of TS_AGENT_UP too; owned */
	char *why;
	uint64_t job; /* of TS_OVER_QUOTA; why: the text */
	uint32_t attempt;
};
void to_state_free(struct to_state *m);

struct state_link {
	struct chan *chan;
	void (*fn)(struct to_state *m, void *arg);
	void *arg;
	_Atomic uint64_t full; /* requests answered 503 because the channel was full */
};

/* fn runs on the state thread; it sets to NULL the parts of m that it takes, and the rest is freed
 * afterwards.
 */
struct state_link *state_link_create(struct loop *state_loop, void (*fn)(struct to_state *m, void *arg),
                                     void *arg);
void state_link_destroy(struct state_link *l); /* NULL allowed */
/* Any thread. -1 full: m stays the caller's. */
int state_link_send(struct state_link *l, struct to_state *m);

#endif
