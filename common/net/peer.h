/*
 * peer: one framed connection, either end, plain or TLS (bufferevent underneath).
 *
 * Dialling side (agent -> hearthd): TCP, TLS when the URL is https, then
 *     GET /agent/v1 HTTP/1.1 + Upgrade: hearth-agent/1  ->  101
 * then frames: the server sends CHALLENGE, the agent HELLO with a signature by its certificate's key, the
 * server WELCOME or REFUSED. Re-dialling with back-off is the caller's (peer_backoff gives the delay).
 * Accepting side: hearthd's HTTP server hands over the bufferevent after its 101 reply.
 *
 * Output is bounded: peer_send fails with ERR_BUSY when more than the limit is queued (control) or the caller
 * asks peer_queued and waits for on_drain (bulk). A frame that the table (wire_allowed) forbids closes the
 * connection. docs/spec/02-wire.md says how the two sides settle a version.
 */
#ifndef HEARTH_COMMON_NET_PEER_H
#define HEARTH_COMMON_NET_PEER_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/net/lookup.h"
#include "common/net/tls.h"
#include "common/net/wire_msg.h"
#include "common/os/loop.h"

struct bufferevent;
struct peer;

struct peer_ops {
	/* Handshake done. Dialling side: welcome is what the server said. Accepting side: NULL. */
	void (*on_open)(struct peer *p, const struct wm_welcome *welcome, void *arg);
	/* A decoded message; the callee takes msg (wire_free(type, msg)). */
	void (*on_msg)(struct peer *p, uint16_t type, uint64_t id, void *msg, void *arg);
	/* Closed for good by either side or an error (why is never NULL). The peer is destroyed by the callee or
	 * later. */
	void (*on_close)(struct peer *p, const struct err *why, void *arg);
	void (*on_drain)(struct peer *p,
	                 void *arg); /* queued output fell under a quarter of the limit; may be NULL */
	/* Accepting side only: check hello, fill welcome; 0 accept, -1 refuse (e is sent to the agent). The
	 * certificate's chain and the signature were verified already; node = the certificate's CN. */
	int (*on_hello)(struct peer *p, const struct wm_hello *hello, const char *node,
	                struct wm_welcome *welcome, struct err *e, void *arg);
};

struct peer_dial {
	const char *url;    /* http://HOST:PORT or https://HOST:PORT */
	const char *ca_pem; /* for https */
	const char *node, *cert_path, *key_path;
	uint8_t role;        /* enum wire_role */
	uint64_t instance;   /* random number of this agent process */
	uint32_t timeout_ms; /* for connection and handshake; 0 = 10,000 */
	/* A TCP connection that nobody answers for so long is begun again: the kernel waits a second and more
	 * before it repeats a lost SYN. The ninth and later tries last eight times as long, for far hosts. 0: one
	 * try for each address. */
	uint32_t try_ms;
	size_t out_limit;  /* bytes queued at most; 0 = 16 MiB */
	lookup_fn resolve; /* NULL: the system's resolver; tests give their own */
};
/* The peer exists at once; on_open or on_close follows, never before this returns. NULL: url or ca_pem is
 * invalid. A thread resolves the name of a host; timeout_ms bounds that, too. */
struct peer *peer_dial(struct loop *l, const struct peer_dial *d, const struct peer_ops *ops, void *arg,
                       struct err *e);

struct peer_accept {
	struct tls_ca *ca;
	const char *cluster;
	uint32_t timeout_ms;
	size_t out_limit;
};
/* Takes bev (its input may already hold bytes). Starts with CHALLENGE. */
struct peer *peer_accept(struct loop *l, struct bufferevent *bev, const struct peer_accept *a,
                         const struct peer_ops *ops, void *arg);

/* An open connection of the accepting side moves to the loop of another thread. peer_pack destroys p; done
 * gets the parcel, still on p's thread, when the old loop has nothing of it any more. That is after all other
 * owners of the bufferevent have freed it, and after this function has returned. -1: p is of no use any more,
 * and the caller destroys it. */
struct peer_parcel;
int peer_pack(struct peer *p, void (*done)(struct peer_parcel *pp, void *arg), void *arg, struct err *e);
/* Takes pp. ops and arg as in peer_accept; on_open is not called again. */
struct peer *peer_unpack(struct loop *l, struct peer_parcel *pp, const struct peer_ops *ops, void *arg);
void peer_parcel_free(struct peer_parcel *pp); /* closes the connection; NULL allowed */

/* Encodes and queues. ERR_BUSY when the limit would be passed (nothing is queued then). */
int peer_send(struct peer *p, uint16_t type, const void *msg, uint64_t id, struct err *e);
size_t peer_queued(const struct peer *p);
/* hold 1: takes no more input (the other side is slowed down by TCP) until hold 0. For a reader whose own
 * queue is full. */
void peer_hold(struct peer *p, int hold);
uint8_t peer_role(const struct peer *p);
/* The version that both sides speak; 0: they have none in common. Only messages of WIRE_EVER pass then: what
 * else comes is skipped, and what else is sent is refused with ERR_UNSUPPORTED. */
unsigned peer_version(const struct peer *p);
int peer_speaks(const struct peer *p, uint16_t type);
const char *peer_node(const struct peer *p);
void peer_destroy(struct peer *p); /* flushes nothing; allowed in callbacks; NULL allowed */
/* Sends what is queued, then closes: on_close follows, at most timeout_ms later. No more messages come. */
void peer_close_flushed(struct peer *p, uint32_t timeout_ms);

/* Delay after so many failures in a row (1, 2, 3 ...): 100 ms, 200, 400 ... 5 s with +-20 % jitter. */
uint32_t peer_backoff_ms(unsigned failures);

#endif
