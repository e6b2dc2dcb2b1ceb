/*
 * peerframe: see peerframe.h.
 */
#include "agent/control/peerframe.h"

#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/hash.h"

#define FRAME_MAX 4096u

int peerframe_next(struct bufferevent *bev, uint16_t *type, void **msg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	size_t n = evbuffer_get_length(in);
	struct wire_frame f;
	struct buf b;
	int rc;

	if (n > FRAME_MAX)
		return -1;
	buf_view(&b, evbuffer_pullup(in, -1), n);
	rc = n ? wire_next(&b, &f, NULL) : 0;
	if (rc <= 0)
		return rc;
	if (!wire_allowed(f.type, WIRE_FROM_PEER, WIRE_LOCAL) || wire_decode(f.type, f.body, f.n, msg, NULL) < 0)
		return -1;
	*type = f.type;
	return 1;
}

int peerframe_take(struct bufferevent *bev, uint16_t want, void **msg)
{
	uint16_t type;
	int rc = peerframe_next(bev, &type, msg);

	if (rc <= 0 || type == want)
		return rc;
	wire_free(type, *msg);
	return -1;
}

void peerframe_put(struct bufferevent *bev, uint16_t type, const void *msg)
{
	struct buf out;

	buf_init(&out, FRAME_MAX);
	if (wire_encode(type, msg, 0, &out, NULL) == 0)
		bufferevent_write(bev, buf_head(&out), buf_left(&out));
	buf_fini(&out);
}

int peerframe_name(struct bufferevent *bev, char name[PEERFRAME_NAME_SIZE])
{
	X509 *cert = SSL_get1_peer_certificate(bufferevent_openssl_get_ssl(bev));
	int n = -1;

	if (cert)
		n = X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name, PEERFRAME_NAME_SIZE);
	X509_free(cert);
	return n > 0 ? 0 : -1;
}

int peerframe_print(struct bufferevent *bev, char print[PEERFRAME_PRINT_SIZE])
{
	X509 *cert = SSL_get1_peer_certificate(bufferevent_openssl_get_ssl(bev));
	unsigned char *der = NULL;
	char hex[HASH_HEX_SIZE];
	int n = cert ? i2d_X509(cert, &der) : -1;

	X509_free(cert);
	if (n <= 0)
		return -1;
	hash_hex(der, (size_t)n, hex);
	OPENSSL_free(der);
	memcpy(print, hex, PEERFRAME_PRINT_SIZE - 1);
	print[PEERFRAME_PRINT_SIZE - 1] = '\0';
	return 0;
}
