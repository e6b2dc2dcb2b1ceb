/*
 * peer_hello: who is there. The server sends a nonce; the agent signs it with its certificate's key, together
 * with its role and, under TLS, with a value that only the two ends of this very TLS connection can compute
 * (RFC 5705 / 8446 exporter). So a signature is of no use on another connection, in another role or at
 * another time, and a man in the middle with a TLS connection of his own cannot use it.
 *
 * The version: the challenge has the oldest version of which hearthd accepts a connection, and its present
 * one. The agent's hello offers the greatest that both speak, or else its own present one. The welcome has
 * the version that both speak from now on, or 0: they have none in common, and the agent renews its lease and
 * no more. Agents and hearthd of WIRE_OLDEST do not know that 0: they want to see their own version.
 */
#include "common/net/peer.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/net/peer_int.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"

#define PROOF_LABEL    "hearth-hello"
#define EXPORTER_LABEL "EXPORTER-hearth"
#define EXPORTER_SIZE  32
#define NONCE_MAX      64
#define CERT_MAX       (32 * 1024)
#define REFUSED_MS     2000 /* to get a refusal out */

/* What is signed, into out (at most sizeof(struct proof_text)). -1 when TLS gives no exporter. */
struct proof_text {
	uint8_t data[sizeof(PROOF_LABEL) + NONCE_MAX + 1 + EXPORTER_SIZE];
	size_t n;
};

static void add(struct proof_text *t, const void *p, size_t n)
{
	memcpy(t->data + t->n, p, n);
	t->n += n;
}

static int proof_text(struct peer *p, const uint8_t *nonce, size_t nonce_n, uint8_t role,
                      struct proof_text *t, struct err *e)
{
	SSL *ssl = bufferevent_openssl_get_ssl(p->bev);
	uint8_t exporter[EXPORTER_SIZE];

	t->n = 0;
	add(t, PROOF_LABEL, strlen(PROOF_LABEL));
	add(t, nonce, nonce_n);
	add(t, &role, 1);
	if (!ssl)
		return 0;
	if (SSL_export_keying_material(ssl, exporter, sizeof(exporter), EXPORTER_LABEL, strlen(EXPORTER_LABEL),
	                               NULL, 0, 0) != 1)
		return err_set(e, ERR_INTERNAL, "TLS gives no exporter");
	add(t, exporter, sizeof(exporter));
	return 0;
}

/* ---- accepting side ------------------------------------------------------------------------------ */

int peer_send_challenge(struct peer *p, struct err *e)
{
	struct wm_challenge c = {
	    .version_min = WIRE_OLDEST, .version_max = wire_present(), .cluster = p->cluster};

	random_bytes(p->nonce, sizeof(p->nonce));
	c.nonce.data = p->nonce;
	c.nonce.n = sizeof(p->nonce);
	return peer_queue(p, WM_CHALLENGE, &c, 0, e);
}

static int check_version(const struct wm_hello *h, struct err *e)
{
	if (h->version >= WIRE_OLDEST && (wire_settle(h->version) || h->role == ROLE_CONTROL))
		return 0;
	return err_set(e, ERR_UNSUPPORTED,
	               "the agent speaks version %u of the protocol, hearthd versions %u and %u: upgrade %s",
	               h->version, wire_previous(), wire_present(),
	               h->version < wire_present() ? "this agent" : "hearthd");
}

static int check_hello(struct peer *p, const struct wm_hello *h, char node[TLS_NODE_MAX + 1], struct err *e)
{
	struct proof_text t;

	if (check_version(h, e) < 0)
		return -1;
	if (h->role != ROLE_CONTROL && h->role != ROLE_BULK)
		return err_set(e, ERR_PROTOCOL, "there is no role %u", h->role);
	if (tls_ca_verify(p->ca, h->cert_pem, node, TLS_NODE_MAX + 1, e) < 0)
		return -1;
	if (strcmp(node, h->node) != 0)
		return err_set(e, ERR_DENIED, "the certificate is for the node %s, not for %.64s", node, h->node);
	if (proof_text(p, p->nonce, sizeof(p->nonce), h->role, &t, e) < 0)
		return -1;
	return tls_verify_sig(h->cert_pem, t.data, t.n, h->proof.data, h->proof.n, e);
}

static void refuse(struct peer *p, const struct err *why)
{
	struct wm_refused r = {.code = (uint32_t)why->code, .text = (char *)(uintptr_t)why->text};
	struct err e;

	if (peer_queue(p, WM_REFUSED, &r, 0, &e) < 0)
		peer_fail(p, why);
	else
		peer_close_flushed(p, REFUSED_MS);
}

static void got_hello(struct peer *p, const struct wm_hello *h)
{
	struct wm_welcome w = {0};
	char node[TLS_NODE_MAX + 1];
	struct err e;

	if (check_hello(p, h, node, &e) < 0) {
		refuse(p, &e);
		return;
	}
	/* Asked before on_open, but only about somebody whose proof was good. */
	p->role = h->role;
	memcpy(p->node, node, sizeof(node));
	if (p->ops.on_hello(p, h, p->node, &w, &e, p->arg) < 0) {
		if (peer_alive(p))
			refuse(p, &e);
	} else if (peer_alive(p)) {
		w.version = wire_settle(h->version);
		if (h->version == WIRE_OLDEST)
			w.version = WIRE_OLDEST;
		if (peer_queue(p, WM_WELCOME, &w, 0, &e) < 0) {
			peer_fail(p, &e);
		} else {
			p->version = wire_settle(h->version);
			peer_open(p, NULL);
		}
	}
	wire_fini(WM_WELCOME, &w);
}

/* ---- dialling side ------------------------------------------------------------------------------- */

/* What to offer to a hearthd of which the challenge is; 0: it accepts no agent of any version that is known
 * here. */
static unsigned version_for(const struct wm_challenge *c)
{
	unsigned present = wire_present();

	if (c->version_max >= present)
		return c->version_min <= present ? present : 0;
	if (c->version_max < WIRE_OLDEST)
		return 0;
	return wire_settle(c->version_max) || c->version_max == WIRE_OLDEST ? c->version_max : present;
}

static int send_hello(struct peer *p, const struct wm_challenge *c, struct err *e)
{
	struct peer_dialling *d = p->dial;
	struct wm_hello h = {
	    .version = version_for(c), .role = p->role, .node = d->node, .instance = d->instance};
	char boot_id[PROC_BOOT_ID_SIZE];
	struct proof_text t;
	size_t cert_n, sig_n;
	int rc;

	if (!h.version)
		return err_set(
		    e, ERR_UNSUPPORTED,
		    "hearthd accepts versions %u to %u of the protocol, this agent speaks %u and %u: upgrade %s",
		    c->version_min, c->version_max, wire_previous(), wire_present(),
		    c->version_max < wire_present() ? "hearthd" : "this agent");
	d->offered = h.version;
	/* Too short a nonce could have been used before. */
	if (c->nonce.n < 16 || c->nonce.n > NONCE_MAX)
		return err_set(e, ERR_PROTOCOL, "the challenge has a nonce of %u bytes", c->nonce.n);
	if (proof_text(p, c->nonce.data, c->nonce.n, p->role, &t, e) < 0 || proc_boot_id(boot_id, e) < 0 ||
	    fs_read_file(d->cert_path, CERT_MAX, &h.cert_pem, &cert_n, e) < 0)
		return -1;
	rc = tls_sign(d->key_path, t.data, t.n, &h.proof.data, &sig_n, e);
	if (rc == 0) {
		h.proof.n = (uint32_t)sig_n;
		h.boot_id = boot_id;
		h.software = (char *)(uintptr_t)PACKAGE_VERSION;
		rc = peer_queue(p, WM_HELLO, &h, 0, e);
	}
	free(h.proof.data);
	free(h.cert_pem);
	return rc;
}

static void got_challenge(struct peer *p, const struct wm_challenge *c)
{
	struct err e;

	if (send_hello(p, c, &e) < 0)
		peer_fail(p, &e);
	else
		p->state = PEER_GREETED;
}

static void got_refused(struct peer *p, const struct wm_refused *r)
{
	/* The other side's number is believed only when it is one of ours. */
	enum err_code code = r->code > ERR_NONE && r->code <= ERR_GONE ? (enum err_code)r->code : ERR_DENIED;
	struct err e;

	err_set(&e, code, "hearthd refuses this agent: %.300s", r->text);
	peer_fail(p, &e);
}

static void got_welcome(struct peer *p, const struct wm_welcome *w)
{
	struct err e;

	if (w->version != 0 && w->version != p->dial->offered) {
		err_set(&e, ERR_PROTOCOL, "hearthd settled on version %u, which was not offered", w->version);
		peer_fail(p, &e);
		return;
	}
	p->version = wire_settle(w->version);
	peer_dial_free(p->dial);
	p->dial = NULL;
	peer_open(p, w);
}

void peer_shake(struct peer *p, uint16_t type, const void *msg)
{
	struct err e;

	if (p->accepting && type == WM_HELLO && p->state == PEER_CHALLENGED) {
		got_hello(p, msg);
	} else if (!p->accepting && type == WM_CHALLENGE && p->state == PEER_CHALLENGED) {
		got_challenge(p, msg);
	} else if (!p->accepting && type == WM_REFUSED) {
		got_refused(p, msg);
	} else if (!p->accepting && type == WM_WELCOME && p->state == PEER_GREETED) {
		got_welcome(p, msg);
	} else {
		err_set(&e, ERR_PROTOCOL, "a %s frame is not allowed here", wire_name(type));
		peer_fail(p, &e);
	}
}
