/*
 * tls: keys, signatures, contexts and join tokens; the authority itself is in tls_ca.c. See tls.h.
 *
 * Only OpenSSL's present interface (EVP) is used. Key files are written whole or not at all, readable by
 * their owner alone.
 */
#include "common/net/tls.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/hash.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/net/tls_int.h"
#include "common/os/fsutil.h"

#define PEM_FILE_MAX (256 * 1024)

int tls_fail(struct err *e, enum err_code code, const char *fmt, ...)
{
	unsigned long last = ERR_peek_error();
	const char *reason = last ? ERR_reason_error_string(last) : NULL;
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ERR_clear_error();
	return err_set(e, code, "%s%s%s", text, reason ? ": " : "", reason ? reason : "");
}

/* ---- PEM ----------------------------------------------------------------------------------------- */

static int no_passphrase(char *buf, int size, int rwflag, void *arg)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	(void)arg;
	return -1;
}

X509 *tls_cert_from_pem(const char *pem, const char *what, struct err *e)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, no_passphrase, NULL) : NULL;

	BIO_free(bio);
	if (!cert)
		tls_fail(e, ERR_INVALID, "%s is not a certificate", what);
	return cert;
}

X509 *tls_cert_from_file(const char *path, struct err *e)
{
	char *pem;
	size_t n;
	X509 *cert;

	if (fs_read_file(path, PEM_FILE_MAX, &pem, &n, e) < 0)
		return NULL;
	cert = tls_cert_from_pem(pem, path, e);
	free(pem);
	return cert;
}

static char *bio_text(BIO *bio)
{
	char *data = NULL;
	long n = BIO_get_mem_data(bio, &data);

	return xstrndup(n > 0 ? data : "", n > 0 ? (size_t)n : 0);
}

char *tls_cert_to_pem(X509 *cert)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *pem;

	if (!bio || !PEM_write_bio_X509(bio, cert))
		abort(); /* only without memory */
	pem = bio_text(bio);
	BIO_free(bio);
	return pem;
}

EVP_PKEY *tls_key_from_file(const char *path, struct err *e)
{
	EVP_PKEY *key = NULL;
	char *pem;
	size_t n;
	BIO *bio;

	if (fs_read_file(path, PEM_FILE_MAX, &pem, &n, e) < 0)
		return NULL;
	bio = BIO_new_mem_buf(pem, -1);
	if (bio)
		key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
	BIO_free(bio);
	OPENSSL_cleanse(pem, n);
	free(pem);
	if (!key)
		tls_fail(e, ERR_INVALID, "%s is not a private key, or it has a pass phrase", path);
	return key;
}

EVP_PKEY *tls_key_create(const char *path, struct err *e)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	BIO *bio = BIO_new(BIO_s_mem());
	char *data = NULL;
	long n = 0;
	int rc = -1;

	if (key && bio && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL)) {
		n = BIO_get_mem_data(bio, &data);
		rc = fs_write_atomic(path, data, (size_t)n, 0600, e);
		OPENSSL_cleanse(data, (size_t)n);
	} else {
		tls_fail(e, ERR_INTERNAL, "cannot make a key");
	}
	BIO_free(bio);
	if (rc == 0)
		return key;
	EVP_PKEY_free(key);
	return NULL;
}

/* ---- agent's key --------------------------------------------------------------------------------- */

static char *make_csr(EVP_PKEY *key, const char *node, struct err *e)
{
	X509_REQ *req = X509_REQ_new();
	BIO *bio = BIO_new(BIO_s_mem());
	char *pem = NULL;

	if (req && bio && X509_REQ_set_version(req, X509_REQ_VERSION_1) &&
	    X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(req), "CN", MBSTRING_UTF8,
	                               (const unsigned char *)node, -1, -1, 0) &&
	    X509_REQ_set_pubkey(req, key) && X509_REQ_sign(req, key, EVP_sha256()) > 0 &&
	    PEM_write_bio_X509_REQ(bio, req))
		pem = bio_text(bio);
	else
		tls_fail(e, ERR_INTERNAL, "cannot make a certificate request for %s", node);
	BIO_free(bio);
	X509_REQ_free(req);
	return pem;
}

int tls_make_key_csr(const char *key_path, const char *node, char **csr_pem, struct err *e)
{
	struct stat st;
	EVP_PKEY *key;
	char *pem;

	if (str_check_name(node, TLS_NODE_MAX, "node name", e) < 0)
		return -1;
	key = stat(key_path, &st) == 0 ? tls_key_from_file(key_path, e) : tls_key_create(key_path, e);
	if (!key)
		return -1;
	pem = make_csr(key, node, e);
	EVP_PKEY_free(key);
	if (!pem)
		return -1;
	*csr_pem = pem;
	return 0;
}

int tls_sign(const char *key_path, const void *data, size_t n, uint8_t **sig, size_t *sig_n, struct err *e)
{
	EVP_PKEY *key = tls_key_from_file(key_path, e);
	EVP_MD_CTX *ctx;
	uint8_t *out = NULL;
	size_t out_n = 0;
	int good;

	if (!key)
		return -1;
	ctx = EVP_MD_CTX_new();
	good = ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
	       EVP_DigestSign(ctx, NULL, &out_n, data, n) == 1;
	if (good) {
		out = xmalloc(out_n);
		good = EVP_DigestSign(ctx, out, &out_n, data, n) == 1;
	}
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	if (!good) {
		free(out);
		return tls_fail(e, ERR_INTERNAL, "cannot sign with %s", key_path);
	}
	*sig = out;
	*sig_n = out_n;
	return 0;
}

int tls_verify_sig(const char *cert_pem, const void *data, size_t n, const uint8_t *sig, size_t sig_n,
                   struct err *e)
{
	X509 *cert = tls_cert_from_pem(cert_pem, "what was sent", e);
	EVP_MD_CTX *ctx;
	EVP_PKEY *key;
	int good;

	if (!cert)
		return -1;
	key = X509_get0_pubkey(cert);
	ctx = EVP_MD_CTX_new();
	good = key && ctx && EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
	       EVP_DigestVerify(ctx, sig, sig_n, data, n) == 1;
	EVP_MD_CTX_free(ctx);
	X509_free(cert);
	ERR_clear_error();
	return good ? 0 : err_set(e, ERR_UNAUTHORIZED, "the signature does not fit the certificate");
}

/* ---- contexts ------------------------------------------------------------------------------------ */

static SSL_CTX *new_ctx(const SSL_METHOD *method, struct err *e)
{
	SSL_CTX *ctx = SSL_CTX_new(method);

	if (!ctx || !SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION)) {
		tls_fail(e, ERR_INTERNAL, "cannot make a TLS context");
		SSL_CTX_free(ctx);
		return NULL;
	}
	SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	/* Moving buffers: output is in an evbuffer, which may be packed between two tries. Released buffers:
	 * thousands of agents are idle most of the time. Never SSL_MODE_ENABLE_PARTIAL_WRITE: libevent's
	 * bufferevents go on with the next piece of an evbuffer after a write that was cut short, and bytes in
	 * between are lost. */
	SSL_CTX_set_mode(ctx, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	return ctx;
}

static int use_pair(SSL_CTX *ctx, const char *cert_path, const char *key_path, struct err *e)
{
	X509 *cert = tls_cert_from_file(cert_path, e);
	EVP_PKEY *key = cert ? tls_key_from_file(key_path, e) : NULL;
	int rc = -1;

	if (cert && key) {
		if (SSL_CTX_use_certificate(ctx, cert) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1 &&
		    SSL_CTX_check_private_key(ctx) == 1)
			rc = 0;
		else
			tls_fail(e, ERR_INVALID, "%s and %s do not belong together", cert_path, key_path);
	}
	X509_free(cert);
	EVP_PKEY_free(key);
	return rc;
}

static int trust_ca(SSL_CTX *ctx, const char *ca_pem, struct err *e)
{
	X509 *ca = tls_cert_from_pem(ca_pem, "the authority's file", e);
	int rc = 0;

	if (!ca)
		return -1;
	if (X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), ca) != 1)
		rc = tls_fail(e, ERR_INTERNAL, "cannot use the authority's certificate");
	X509_free(ca);
	return rc;
}

SSL_CTX *tls_server_ctx(const char *cert_path, const char *key_path, const char *ca_pem_for_clients,
                        struct err *e)
{
	SSL_CTX *ctx = new_ctx(TLS_server_method(), e);

	if (!ctx)
		return NULL;
	SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"hearth", 6);
	if (use_pair(ctx, cert_path, key_path, e) < 0 ||
	    (ca_pem_for_clients && trust_ca(ctx, ca_pem_for_clients, e) < 0)) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	if (ca_pem_for_clients)
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	return ctx;
}

SSL_CTX *tls_client_ctx(const char *ca_pem, const char *cert_path, const char *key_path, struct err *e)
{
	SSL_CTX *ctx = new_ctx(TLS_client_method(), e);

	if (!ctx)
		return NULL;
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	if (trust_ca(ctx, ca_pem, e) < 0 ||
	    (cert_path && key_path && use_pair(ctx, cert_path, key_path, e) < 0)) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

int tls_client_expect(SSL *ssl, const char *host, struct err *e)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
	struct in6_addr addr;
	int good;

	if (inet_pton(AF_INET, host, &addr) == 1 || inet_pton(AF_INET6, host, &addr) == 1)
		good = X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1;
	else
		good = SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
	return good ? 0 : tls_fail(e, ERR_INVALID, "\"%.100s\" is not a host name", host);
}

/* ---- join tokens --------------------------------------------------------------------------------- */

#define TOKEN_PREFIX "hj1-"
#define TOKEN_PART   32 /* hex digits */

char *tls_join_token(const char *secret, const char *fingerprint)
{
	return xasprintf(TOKEN_PREFIX "%s-%s", secret, fingerprint);
}

int tls_join_parse(const char *token, char secret[33], char fingerprint[33], struct err *e)
{
	static const char digits[] = "0123456789abcdef";
	size_t prefix = strlen(TOKEN_PREFIX);
	const char *a = token + prefix, *b;

	if (strncmp(token, TOKEN_PREFIX, prefix) != 0 || strspn(a, digits) != TOKEN_PART || a[TOKEN_PART] != '-')
		return err_set(e, ERR_INVALID, "invalid join token; a token has the form hj1-SECRET-FINGERPRINT");
	b = a + TOKEN_PART + 1;
	if (strspn(b, digits) != TOKEN_PART || b[TOKEN_PART])
		return err_set(e, ERR_INVALID, "the join token is cut short or has something added to it");
	memcpy(secret, a, TOKEN_PART);
	memcpy(fingerprint, b, TOKEN_PART);
	secret[TOKEN_PART] = fingerprint[TOKEN_PART] = '\0';
	return 0;
}

int tls_fingerprint(const char *cert_pem, char out[33], struct err *e)
{
	X509 *cert = tls_cert_from_pem(cert_pem, "what was sent", e);
	unsigned char *der = NULL;
	char hex[HASH_HEX_SIZE];
	int n;

	if (!cert)
		return -1;
	n = i2d_X509(cert, &der);
	X509_free(cert);
	if (n <= 0)
		return tls_fail(e, ERR_INVALID, "the certificate cannot be encoded");
	hash_hex(der, (size_t)n, hex);
	OPENSSL_free(der);
	memcpy(out, hex, TOKEN_PART);
	out[TOKEN_PART] = '\0';
	return 0;
}
