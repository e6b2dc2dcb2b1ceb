/*
 * peer_ends: what the tests of peer share: an end that counts what happens to it, a server that does what
 * hearthd's HTTP server does (reads the upgrade, answers 101, hands the bufferevent over), authorities and
 * agents' certificates.
 */
#ifndef HEARTH_TESTS_UNIT_COMMON_NET_PEER_ENDS_H
#define HEARTH_TESTS_UNIT_COMMON_NET_PEER_ENDS_H

#include <openssl/ssl.h>

#include "common/base/clock.h"
#include "common/net/peer.h"

#define ANSWER "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nUPGRADE:  hearth-agent/1 \r\n\r\n"

struct bufferevent;
struct evconnlistener;

extern const char *top; /* private folder */
extern struct loop *loop;
extern struct tls_ca *ca, *other_ca;
/* node1's by ca; node2's key; node1's by other_ca; hearthd's */
extern char *cert_path, *key_path, *other_key_path, *foreign_cert_path, *foreign_key_path, *server_pem,
    *server_key;
extern const struct peer_ops ends_ops; /* arg: struct end */

struct end {
	struct peer *peer;
	int opened, closed, drained, hellos;
	struct err why;
	uint64_t session; /* of the welcome */
	unsigned n_msgs;
	uint16_t last_type;
	uint64_t last_id, sum, spoilt; /* spoilt: bytes of log data that are not as the test sends them */
	int refuse;                    /* on_hello says no */
	int destroy_on_msg, close_on_hello;
	char node[64];
	struct wm_hello *hello;
};

struct server {
	struct evconnlistener *listener;
	SSL_CTX *tls;
	unsigned short port;
	struct end end; /* of the newest connection */
	const char *answer;
	struct bufferevent *waiting; /* reads the request */
	uint32_t timeout_ms;
	size_t out_limit;
	char request[1024];
};

void ends_start(void);
void ends_stop(void);
void peer_server_start(struct server *s, int tls, int family);
void peer_server_stop(struct server *s);
char *url_of(const struct server *s); /* malloc'ed */
struct peer *dial_with(struct end *c, const char *url, uint8_t role, const char *cert, const char *key,
                       uint32_t timeout_ms);
void dial(struct end *c, const struct server *s, uint8_t role);

/* Runs the loop until cond, at most 20 s. */
#define UNTIL(cond)                                                                                          \
	do {                                                                                                     \
		for (uint64_t end_us_ = clock_boot_us(clock_real()) + 20000000;                                      \
		     !(cond) && clock_boot_us(clock_real()) < end_us_;)                                              \
			loop_run_once(loop, 10);                                                                         \
	} while (0)

#endif
