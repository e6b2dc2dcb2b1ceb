/*
 * peer_int: what peer.c (frames, both directions, closing), peer_dial.c (address, TCP, TLS, upgrade),
 * peer_hello.c (proof of who is there) and peer_move.c (to another loop) share. Not for others.
 */
#ifndef HEARTH_COMMON_NET_PEER_INT_H
#define HEARTH_COMMON_NET_PEER_INT_H

#include "common/net/lookup.h"
#include "common/net/peer.h"

#define PEER_TIMEOUT_MS 10000
#define PEER_OUT_LIMIT  (16u * 1024 * 1024)
#define PEER_NONCE_SIZE 32

enum peer_state {
	PEER_LOOKING_UP, /* dialling: the host's name */
	PEER_CONNECTING, /* dialling: TCP */
	PEER_TLS,        /* dialling: TLS handshake */
	PEER_UPGRADING,  /* dialling: waits for 101 */
	PEER_CHALLENGED, /* dialling: waits for CHALLENGE; accepting: waits for HELLO */
	PEER_GREETED,    /* dialling: waits for WELCOME or REFUSED */
	PEER_OPEN,
	PEER_FLUSHING, /* writes what is queued, then waits for the other side to close */
	PEER_CLOSED,   /* on_close was called, or will be by the timer */
};

/* What the dialling side needs until it is open. */
struct peer_dialling {
	char *host, *port;
	int tls;
	char *cert_path, *key_path, *node;
	uint64_t instance;
	unsigned offered; /* version, in the hello */
	uint32_t timeout_ms;
	SSL_CTX *ctx;
	lookup_fn resolve;
	struct lookup *lookup;         /* under way */
	struct addrinfo *addrs, *next; /* next: the one to be tried after the present one */
	unsigned n_addrs;              /* from next */
	uint32_t try_ms;
	unsigned rounds; /* through all addresses, after silence */
	struct loop_fd *connecting;
	struct loop_timer *attempt; /* bounds the try of one address */
	int fd;
};

struct peer {
	struct loop *loop;
	struct bufferevent *bev;
	struct peer_ops ops;
	void *arg;
	enum peer_state state;
	int accepting;
	uint8_t role;
	unsigned version; /* settled; 0: none in common, or not settled yet */
	size_t skip;      /* bytes of input that belong to a frame of another version */
	char node[TLS_NODE_MAX + 1];
	size_t out_limit;
	int want_drain; /* more than a quarter was queued since the last on_drain */
	int shut;       /* our side of the connection is closed already */
	int held;
	struct loop_timer *timer; /* deadline of the handshake, then of the flush */
	int ended;                /* the other side is gone; the timer hands on what came before, then closes */
	struct err why;           /* once ended or closed */
	unsigned depth;           /* callbacks of ours that are running: no release before they return */
	int dead;
	struct tls_ca *ca;
	char *cluster;
	uint8_t nonce[PEER_NONCE_SIZE];
	struct peer_dialling *dial; /* NULL on the accepting side and once open */
};

/* peer.c */
struct peer *peer_new(struct loop *l, const struct peer_ops *ops, void *arg, size_t out_limit);
void peer_enter(struct peer *p);
void peer_leave(struct peer *p); /* p may be gone after it */
/* Takes bev, starts to read. */
void peer_use(struct peer *p, struct bufferevent *bev);
void peer_fail(struct peer *p, const struct err *why); /* closes and calls on_close, once */
void peer_open(struct peer *p, const struct wm_welcome *welcome);
int peer_alive(const struct peer *p); /* neither closed nor destroyed */
int peer_queue(struct peer *p, uint16_t type, const void *msg, uint64_t id, struct err *e);

/* peer_dial.c */
void peer_dial_read(struct peer *p);      /* input while upgrading */
void peer_dial_connected(struct peer *p); /* TLS is there */
void peer_dial_free(struct peer_dialling *d);

/* peer_hello.c: a frame of the handshake. Fails the peer when it is not what should come. Does not take msg.
 */
void peer_shake(struct peer *p, uint16_t type, const void *msg);
int peer_send_challenge(struct peer *p, struct err *e);

#endif
