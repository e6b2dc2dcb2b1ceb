/*
 * tls: the cluster's own certificate authority, agent keys, TLS contexts, join tokens (OpenSSL).
 *
 * hearthd makes the authority at its first start (EC P-256, DATA/ca.key 0600, DATA/ca.pem) and a server
 * certificate for its names and addresses. An agent makes its own key, sends a certificate request with a
 * one-time join token over HTTP(S), and gets a certificate (CN = node name). A join token
 * "hj1-SECRET-FINGERPRINT" carries the first 32 hex digits of SHA-256 of the authority's certificate (DER),
 * so that the first contact is already authenticated.
 */
#ifndef HEARTH_COMMON_NET_TLS_H
#define HEARTH_COMMON_NET_TLS_H

#include <openssl/ssl.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define TLS_NODE_MAX 63 /* characters of a node's name: it is the CN of its certificate */

struct tls_ca;
/* Opens DIR/ca.pem + DIR/ca.key, makes them when both are missing (never when only one is). */
struct tls_ca *tls_ca_open(const char *dir, uint64_t now_real_us, struct err *e);
void tls_ca_close(struct tls_ca *ca);
const char *tls_ca_pem(const struct tls_ca *ca);
const char *tls_ca_fingerprint(const struct tls_ca *ca); /* 32 hex digits */
/* Signs a request (PEM): checks its self-signature, sets CN = node whatever it says; days of validity. PEM,
 * malloc'ed. */
char *tls_ca_sign_csr(struct tls_ca *ca, const char *csr_pem, const char *node, unsigned days, struct err *e);
/* Server certificate for hosts (names or IPs), written to DIR/server.{pem,key}; kept while it still covers
 * them. */
int tls_ca_server_cert(struct tls_ca *ca, const char *dir, const char *const *hosts, struct err *e);
/* Verifies that cert (PEM) was issued by the CA, is in time; gives its CN (node_size bytes). */
int tls_ca_verify(struct tls_ca *ca, const char *cert_pem, char *node, size_t node_size, struct err *e);

/* New EC key at path (0600) when missing; *csr_pem malloc'ed request with CN = node. */
int tls_make_key_csr(const char *key_path, const char *node, char **csr_pem, struct err *e);
/* Signature (ECDSA SHA-256) by the key file / verification by a certificate. *sig malloc'ed. */
int tls_sign(const char *key_path, const void *data, size_t n, uint8_t **sig, size_t *sig_n, struct err *e);
int tls_verify_sig(const char *cert_pem, const void *data, size_t n, const uint8_t *sig, size_t sig_n,
                   struct err *e);

/* Contexts, TLS 1.2 or later. Server: DIR/server.{pem,key}; with ca_pem_for_clients a client is asked for a
 * certificate, a wrong one is refused, none is accepted (SSL_CTX_set_verify of the caller may demand one).
 * Client: trusts only ca_pem; key/cert may be NULL. */
SSL_CTX *tls_server_ctx(const char *cert_path, const char *key_path, const char *ca_pem_for_clients,
                        struct err *e);
SSL_CTX *tls_client_ctx(const char *ca_pem, const char *cert_path, const char *key_path, struct err *e);
/* Makes the client check the name or address it dials. */
int tls_client_expect(SSL *ssl, const char *host, struct err *e);

/* Join token text <-> parts. secret: 32 hex digits + NUL; fingerprint: 32 + NUL. */
char *tls_join_token(const char *secret, const char *fingerprint);
int tls_join_parse(const char *token, char secret[33], char fingerprint[33], struct err *e);
/* Fingerprint of a PEM certificate, as in the token. */
int tls_fingerprint(const char *cert_pem, char out[33], struct err *e);

#endif
