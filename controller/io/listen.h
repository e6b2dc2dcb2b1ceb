/*
 * listen: the sockets that hearthd listens on: one TCP address, with TLS off loopback, and DATA/hearthd.sock.
 */
#ifndef HEARTH_CONTROLLER_IO_LISTEN_H
#define HEARTH_CONTROLLER_IO_LISTEN_H

#include <openssl/ssl.h>

#include "common/base/err.h"
#include "common/net/tls.h"

struct listen_config {
	const char *address;  /* HOST:PORT; port 0: any */
	const char *data_dir; /* for the socket, the certificate and its key */
	struct tls_ca *ca;    /* NULL: loopback only */
	const char *names;    /* further names for the certificate, comma separated; NULL none */
};

struct listeners {
	int tcp_fd, unix_fd; /* -1 none */
	char *unix_path;
	SSL_CTX *ssl; /* NULL plain */
	unsigned port;
	int loopback;
};

void listeners_init(struct listeners *l);
int listeners_open(struct listeners *l, const struct listen_config *c, struct err *e);
void listeners_fini(struct listeners *l);

#endif
