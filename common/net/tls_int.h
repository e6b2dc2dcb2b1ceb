/*
 * tls_int: what tls.c and tls_ca.c share. Not for others.
 */
#ifndef HEARTH_COMMON_NET_TLS_INT_H
#define HEARTH_COMMON_NET_TLS_INT_H

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "common/base/err.h"

/* Fills e with the text and OpenSSL's reason, empties OpenSSL's queue of errors. Returns -1. */
int tls_fail(struct err *e, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* First certificate of a PEM text; NULL with e filled. what names it in the error. */
X509 *tls_cert_from_pem(const char *pem, const char *what, struct err *e);
X509 *tls_cert_from_file(const char *path, struct err *e);
char *tls_cert_to_pem(X509 *cert); /* malloc'ed */

/* Private keys never ask for a pass phrase: an encrypted one is an error. */
EVP_PKEY *tls_key_from_file(const char *path, struct err *e);
/* New P-256 key, written to path (0600, atomic, durable). */
EVP_PKEY *tls_key_create(const char *path, struct err *e);

#endif
