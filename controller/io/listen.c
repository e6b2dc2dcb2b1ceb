/*
 * listen: opening the sockets and making the server's certificate.
 */
#include "controller/io/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"

static int split_listen(const char *listen, char *host, size_t host_size, char *port, size_t port_size,
                        struct err *e)
{
	const char *colon = strrchr(listen, ':');
	size_t n = colon ? (size_t)(colon - listen) : 0;
	uint64_t v;

	if (!colon || n == 0 || n >= host_size || strlen(colon + 1) >= port_size ||
	    str_parse_u64(colon + 1, &v) < 0 || v > 65535)
		return err_set(e, ERR_INVALID, "listen address \"%s\": expected HOST:PORT", listen);
	memcpy(host, listen, n);
	host[n] = '\0';
	if (host[0] == '[' && host[n - 1] == ']') {
		memmove(host, host + 1, n);
		host[n - 2] = '\0';
	}
	snprintf(port, port_size, "%s", colon + 1);
	return 0;
}

static int is_loopback(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return (ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24) == 127;
	if (a->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
	return 0;
}

static unsigned port_of(int fd)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);

	if (getsockname(fd, (struct sockaddr *)&a, &n) < 0)
		return 0;
	if (a.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)(void *)&a)->sin6_port);
	return ntohs(((struct sockaddr_in *)(void *)&a)->sin_port);
}

static int listen_tcp(struct listeners *l, const char *address, struct err *e)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
	char host[256], port[8];
	int rc, one = 1;

	if (split_listen(address, host, sizeof(host), port, sizeof(port), e) < 0)
		return -1;
	rc = getaddrinfo(host, port, &hints, &list);
	if (rc)
		return err_set(e, ERR_INVALID, "listen address \"%s\": %s", address, gai_strerror(rc));
	l->loopback = is_loopback(list->ai_addr);
	l->tcp_fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->tcp_fd >= 0)
		setsockopt(l->tcp_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (l->tcp_fd < 0 || bind(l->tcp_fd, list->ai_addr, list->ai_addrlen) < 0 || listen(l->tcp_fd, 1024) < 0)
		err_sys(e, errno, "listening on %s", address);
	else
		l->port = port_of(l->tcp_fd);
	freeaddrinfo(list);
	return l->port ? 0 : -1;
}

static int listen_unix(struct listeners *l, struct err *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (strlen(l->unix_path) >= sizeof(a.sun_path)) {
		/* Not fatal: a data folder deep in a tree is common in tests; TCP and the token remain. */
		log_warn("event=no_unix_socket reason=\"path longer than %zu bytes\" path=%s", sizeof(a.sun_path) - 1,
		         l->unix_path);
		return 0;
	}
	memcpy(a.sun_path, l->unix_path, strlen(l->unix_path) + 1);
	unlink(l->unix_path); /* left by a hearthd that was killed: by the lock on DATA no other one runs */
	l->unix_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->unix_fd < 0 || bind(l->unix_fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    chmod(l->unix_path, 0666) < 0 || listen(l->unix_fd, 1024) < 0)
		return err_sys(e, errno, "%s", l->unix_path);
	return 0;
}

static int make_tls(struct listeners *l, const struct listen_config *c, struct err *e)
{
	const char *hosts[66] = {"localhost", "127.0.0.1"};
	cleanup_free char *names = xstrdup(c->names ? c->names : "");
	cleanup_free char *cert = xasprintf("%s/server.pem", c->data_dir),
	                  *key = xasprintf("%s/server.key", c->data_dir);
	char own[256], host[256], port[8], *p, *save = NULL;
	unsigned n = 2;

	if (!c->ca)
		return err_set(e, ERR_INVALID,
		               "listen address \"%s\": only loopback works without a certificate authority",
		               c->address);
	if (split_listen(c->address, host, sizeof(host), port, sizeof(port), e) < 0)
		return -1;
	if (strcmp(host, "0.0.0.0") != 0 && strcmp(host, "::") != 0)
		hosts[n++] = host;
	if (gethostname(own, sizeof(own)) == 0) {
		own[sizeof(own) - 1] = '\0';
		hosts[n++] = own;
	}
	for (p = strtok_r(names, ", ", &save); p && n < 65; p = strtok_r(NULL, ", ", &save))
		hosts[n++] = p;
	if (tls_ca_server_cert(c->ca, c->data_dir, hosts, e) < 0)
		return -1;
	l->ssl = tls_server_ctx(cert, key, tls_ca_pem(c->ca), e);
	return l->ssl ? 0 : -1;
}

void listeners_init(struct listeners *l)
{
	memset(l, 0, sizeof(*l));
	l->tcp_fd = l->unix_fd = -1;
}

int listeners_open(struct listeners *l, const struct listen_config *c, struct err *e)
{
	l->unix_path = xasprintf("%s/hearthd.sock", c->data_dir);
	if (listen_tcp(l, c->address, e) < 0 || listen_unix(l, e) < 0)
		return -1;
	return l->loopback ? 0 : make_tls(l, c, e);
}

void listeners_fini(struct listeners *l)
{
	if (l->tcp_fd >= 0)
		close(l->tcp_fd);
	if (l->unix_fd >= 0) {
		close(l->unix_fd);
		unlink(l->unix_path);
	}
	SSL_CTX_free(l->ssl);
	free(l->unix_path);
}
