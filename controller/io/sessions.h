/*
 * sessions: the state thread's view of which node is connected where. Everything here is for the state
 * thread.
 *
 * I/O threads accept agents independently and may report in any order. Sessions rise: of two of the same node
 * and role the greater is the newer, and the older is closed. The receiver hears of a replaced control
 * connection as down, then up. METRICS come over the bulk connection but are handed up under the node's
 * control session, since the receiver knows no other.
 *
 * Orders that find an I/O thread's channel full must not vanish silently: the session is doomed, its
 * connection is closed as soon as there is room for the message, and the next one starts with the agent's
 * full state.
 */
#ifndef HEARTH_CONTROLLER_IO_SESSIONS_H
#define HEARTH_CONTROLLER_IO_SESSIONS_H

#include <stdint.h>

struct io_set;
struct loop;
struct sessions;
struct to_state;
struct wm_hello;

struct sessions_ops { /* the receiver of news about agents */
	void (*up)(const char *node, uint64_t session, const struct wm_hello *hello, void *arg);
	void (*msg)(const char *node, uint64_t session, uint16_t type, uint64_t id, void *msg,
	            void *arg); /* takes msg; METRICS too */
	void (*down)(const char *node, uint64_t session, const char *why, void *arg);
	void *arg;
};

struct sessions *sessions_create(struct io_set *ios, struct loop *state_loop, const struct sessions_ops *ops);
void sessions_destroy(struct sessions *s);         /* NULL allowed */
unsigned sessions_count(const struct sessions *s); /* nodes with a control connection */

/* What I/O threads report. */
void sessions_up(struct sessions *s, struct to_state *m);
void sessions_msg(struct sessions *s, struct to_state *m); /* takes m->msg when it sets it to NULL */
void sessions_down(struct sessions *s, struct to_state *m);

/* To agents. Copies msg; dropped unless that session is the node's control connection. */
void sessions_send(struct sessions *s, const char *node, uint64_t session, uint16_t type, const void *msg,
                   uint64_t id);
void sessions_send_bulk(struct sessions *s, const char *node, uint16_t type, const void *msg);
void sessions_close(struct sessions *s, const char *node, uint64_t session, const char *why);

#endif
