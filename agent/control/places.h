/*
 * places: the places at the peer port for connections that have shown no certificate yet. Pure; times are
 * boot_us.
 *
 * Anybody who reaches the port may open connections. Each source has few places and few handshakes a second,
 * and a newcomer always gets in: the oldest connection of its own source leaves, or, when all places are in
 * use, the oldest one of the source of the lowest rank that has most. A source is an IPv4 address or an IPv6
 * network of 64 bits.
 *
 * Programs of users share the address of their node's agent. An agent that runs as root therefore asks from a
 * port below 1024, which users cannot bind; such connections are a source of their own.
 */
#ifndef HEARTH_AGENT_CONTROL_PLACES_H
#define HEARTH_AGENT_CONTROL_PLACES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define PLACES_ALL    256u /* of connections without a certificate */
#define PLACES_SOURCE 32u  /* of one source */

enum place_rank {
	PLACE_STRANGER,  /* no known agent has that address */
	PLACE_NEIGHBOUR, /* the address of a known agent; maybe a program of a user there */
	PLACE_AGENT,     /* the same from a port below 1024 */
};

struct places;
struct place; /* of one connection */

struct places *places_create(void);
void places_destroy(struct places *s); /* NULL allowed; no place may be in use */
/* Replaces the addresses of the known agents; ports do not matter. */
void places_know(struct places *s, const struct sockaddr_storage *agents, size_t n);
/* Gives a place to a connection. *leaves is the owner of the connection that has to leave for it, NULL none:
 * the caller ends it and calls places_leave. */
struct place *places_enter(struct places *s, const struct sockaddr *from, void *owner, uint64_t now_us,
                           void **leaves);
/* Returns 1, once for each handshake that may start now; 0: ask again later. */
int places_may_start(struct places *s, const struct place *p, uint64_t now_us);
void places_leave(struct places *s, struct place *p); /* frees p */
unsigned places_used(const struct places *s);

#endif
