/*
 * tls_ca: the cluster's certificate authority: made once, signs the agents' requests and hearthd's own server
 * certificate, and says whether a certificate is one of its own.
 *
 * Agents' certificates are for clients only: an agent must not be able to pose as hearthd to other agents,
 * whatever name it took. Whatever a request asks for, only its key is used.
 */
#include "common/net/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/net/tls_int.h"
#include "common/os/fsutil.h"

#define CA_DAYS     7300
#define SERVER_DAYS 1825
#define RENEW_DAYS  30   /* a server certificate with less than this left is renewed at start */
#define SKEW_S      3600 /* clocks of nodes may be behind */
#define PATH_SIZE   4096
#define HOSTS_MAX   64

struct tls_ca {
	X509 *cert;
	EVP_PKEY *key;
	char *pem;
	char fingerprint[33];
};

static time_t now_s(void)
{
	return (time_t)(clock_real_us(clock_real()) / 1000000);
}

static int add_ext(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;
	int good;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	good = ext && X509_add_ext(cert, ext, -1) == 1;
	X509_EXTENSION_free(ext);
	return good;
}

static int set_serial(X509 *cert)
{
	unsigned char bytes[16];
	BIGNUM *bn;
	int good;

	if (RAND_bytes(bytes, sizeof(bytes)) != 1)
		return 0;
	bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40); /* positive, and of one length */
	bn = BN_bin2bn(bytes, sizeof(bytes), NULL);
	good = bn && BN_to_ASN1_INTEGER(bn, X509_get_serialNumber(cert)) != NULL;
	BN_free(bn);
	return good;
}

/* A certificate with name, key and times, not signed yet. */
static X509 *new_cert(EVP_PKEY *key, const char *cn, time_t from, unsigned days)
{
	X509 *cert = X509_new();
	X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;

	if (name && X509_set_version(cert, X509_VERSION_3) && set_serial(cert) &&
	    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)cn, -1, -1, 0) &&
	    ASN1_TIME_adj(X509_getm_notBefore(cert), from, 0, -SKEW_S) &&
	    ASN1_TIME_adj(X509_getm_notAfter(cert), from, (int)days, 0) && X509_set_pubkey(cert, key))
		return cert;
	X509_free(cert);
	return NULL;
}

/* ---- the authority ------------------------------------------------------------------------------- */

static X509 *self_signed(EVP_PKEY *key, time_t from)
{
	X509 *cert = new_cert(key, "Hearth cluster authority", from, CA_DAYS);

	if (cert && X509_set_issuer_name(cert, X509_get_subject_name(cert)) &&
	    add_ext(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	    add_ext(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	    add_ext(cert, cert, NID_subject_key_identifier, "hash") && X509_sign(cert, key, EVP_sha256()) > 0)
		return cert;
	X509_free(cert);
	return NULL;
}

/* A crash between the two writes leaves the key alone. The next start then asks (see tls_ca_open) instead of
 * making a new authority by itself: it cannot tell this from a lost certificate that nodes still trust. */
static int make_ca(const char *key_path, const char *cert_path, uint64_t now_real_us, struct err *e)
{
	EVP_PKEY *key = tls_key_create(key_path, e);
	X509 *cert;
	char *pem;
	int rc;

	if (!key)
		return -1;
	cert = self_signed(key, (time_t)(now_real_us / 1000000));
	EVP_PKEY_free(key);
	if (!cert)
		return tls_fail(e, ERR_INTERNAL, "cannot make the authority's certificate");
	pem = tls_cert_to_pem(cert);
	X509_free(cert);
	rc = fs_write_atomic(cert_path, pem, strlen(pem), 0644, e);
	free(pem);
	return rc;
}

struct tls_ca *tls_ca_open(const char *dir, uint64_t now_real_us, struct err *e)
{
	char key_path[PATH_SIZE], cert_path[PATH_SIZE];
	struct tls_ca *ca;
	struct stat st;
	int has_key, has_cert;

	if (snprintf(key_path, sizeof(key_path), "%s/ca.key", dir) >= (int)sizeof(key_path) ||
	    snprintf(cert_path, sizeof(cert_path), "%s/ca.pem", dir) >= (int)sizeof(cert_path)) {
		err_set(e, ERR_LIMIT, "the path of the data folder is too long");
		return NULL;
	}
	has_key = stat(key_path, &st) == 0;
	has_cert = stat(cert_path, &st) == 0;
	if (has_key != has_cert) {
		err_set(
		    e, ERR_CONFLICT,
		    "%s is there but %s is missing; restore it, or remove both to begin a new authority (all nodes "
		    "must join again then)",
		    has_key ? key_path : cert_path, has_key ? cert_path : key_path);
		return NULL;
	}
	if (!has_key && make_ca(key_path, cert_path, now_real_us, e) < 0)
		return NULL;
	ca = xcalloc(1, sizeof(*ca));
	ca->cert = tls_cert_from_file(cert_path, e);
	ca->key = ca->cert ? tls_key_from_file(key_path, e) : NULL;
	if (!ca->key) {
		tls_ca_close(ca);
		return NULL;
	}
	ca->pem = tls_cert_to_pem(ca->cert);
	if (X509_check_private_key(ca->cert, ca->key) != 1) {
		tls_fail(e, ERR_CONFLICT, "%s and %s do not belong together", cert_path, key_path);
		tls_ca_close(ca);
		return NULL;
	}
	if (tls_fingerprint(ca->pem, ca->fingerprint, e) < 0) {
		tls_ca_close(ca);
		return NULL;
	}
	return ca;
}

void tls_ca_close(struct tls_ca *ca)
{
	if (!ca)
		return;
	X509_free(ca->cert);
	EVP_PKEY_free(ca->key);
	free(ca->pem);
	free(ca);
}

const char *tls_ca_pem(const struct tls_ca *ca)
{
	return ca->pem;
}

const char *tls_ca_fingerprint(const struct tls_ca *ca)
{
	return ca->fingerprint;
}

/* ---- signing ------------------------------------------------------------------------------------- */

static X509 *issue(struct tls_ca *ca, EVP_PKEY *key, const char *cn, unsigned days, const char *usage,
                   const char *san)
{
	X509 *cert = new_cert(key, cn, now_s(), days);

	if (cert && X509_set_issuer_name(cert, X509_get_subject_name(ca->cert)) &&
	    add_ext(cert, ca->cert, NID_basic_constraints, "critical,CA:FALSE") &&
	    add_ext(cert, ca->cert, NID_key_usage, "critical,digitalSignature") &&
	    add_ext(cert, ca->cert, NID_ext_key_usage, usage) &&
	    add_ext(cert, ca->cert, NID_subject_alt_name, san) &&
	    add_ext(cert, ca->cert, NID_authority_key_identifier, "keyid") &&
	    X509_sign(cert, ca->key, EVP_sha256()) > 0)
		return cert;
	X509_free(cert);
	return NULL;
}

/* The request's key when its signature fits and it is strong enough; the request keeps it. */
static EVP_PKEY *csr_key(X509_REQ *req, struct err *e)
{
	EVP_PKEY *key = X509_REQ_get0_pubkey(req);

	if (!key || X509_REQ_verify(req, key) != 1) {
		tls_fail(e, ERR_INVALID, "the certificate request is not signed by its own key");
		return NULL;
	}
	if (EVP_PKEY_get_security_bits(key) < 112) {
		err_set(e, ERR_INVALID, "the key of the certificate request is too weak");
		return NULL;
	}
	return key;
}

char *tls_ca_sign_csr(struct tls_ca *ca, const char *csr_pem, const char *node, unsigned days, struct err *e)
{
	char san[TLS_NODE_MAX + 8], *pem = NULL;
	X509_REQ *req = NULL;
	X509 *cert;
	EVP_PKEY *key;
	BIO *bio;

	if (str_check_name(node, TLS_NODE_MAX, "node name", e) < 0)
		return NULL;
	bio = BIO_new_mem_buf(csr_pem, -1);
	if (bio)
		req = PEM_read_bio_X509_REQ(bio, NULL, NULL, NULL);
	BIO_free(bio);
	if (!req) {
		tls_fail(e, ERR_INVALID, "not a certificate request");
		return NULL;
	}
	key = csr_key(req, e);
	if (key) {
		snprintf(san, sizeof(san), "DNS:%s", node);
		cert = issue(ca, key, node, days, "clientAuth", san);
		if (cert)
			pem = tls_cert_to_pem(cert);
		else
			tls_fail(e, ERR_INTERNAL, "cannot sign a certificate for %s", node);
		X509_free(cert);
	}
	X509_REQ_free(req);
	return pem;
}

/* ---- hearthd's own certificate ------------------------------------------------------------------- */

static int is_address(const char *host)
{
	struct in6_addr addr;

	return inet_pton(AF_INET, host, &addr) == 1 || inet_pton(AF_INET6, host, &addr) == 1;
}

/* 1 when DIR/server.* are a pair issued by this authority, cover all hosts and do not end soon. */
static int still_covers(struct tls_ca *ca, const char *cert_path, const char *key_path,
                        const char *const *hosts)
{
	X509 *cert = tls_cert_from_file(cert_path, NULL);
	EVP_PKEY *key = cert ? tls_key_from_file(key_path, NULL) : NULL;
	time_t soon = now_s() + RENEW_DAYS * 86400L;
	int good = key && X509_check_private_key(cert, key) == 1 && X509_verify(cert, ca->key) == 1 &&
	           X509_cmp_time(X509_get0_notAfter(cert), &soon) > 0;

	for (; good && *hosts; hosts++)
		good = is_address(*hosts) ? X509_check_ip_asc(cert, *hosts, 0) == 1
		                          : X509_check_host(cert, *hosts, 0, 0, NULL) == 1;
	X509_free(cert);
	EVP_PKEY_free(key);
	ERR_clear_error();
	return good;
}

/* A name of a host goes into a configuration text of OpenSSL, where commas and colons would mean something.
 */
static int san_of(const char *const *hosts, char *out, size_t out_size, struct err *e)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; hosts[i]; i++) {
		int address = is_address(hosts[i]);

		if (!address &&
		    hosts[i][strspn(hosts[i], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")])
			return err_set(e, ERR_INVALID, "\"%.100s\" is not a host name or address", hosts[i]);
		if (i >= HOSTS_MAX || !*hosts[i] || strlen(hosts[i]) > 253)
			return err_set(e, ERR_INVALID, "an empty name of a host, or one too long, or too many of them");
		used += (size_t)snprintf(out + used, out_size - used, "%s%s:%s", i ? "," : "", address ? "IP" : "DNS",
		                         hosts[i]);
	}
	return used ? 0 : err_set(e, ERR_INVALID, "a server certificate needs a name or an address");
}

int tls_ca_server_cert(struct tls_ca *ca, const char *dir, const char *const *hosts, struct err *e)
{
	char key_path[PATH_SIZE], cert_path[PATH_SIZE], san[HOSTS_MAX * 260];
	EVP_PKEY *key;
	X509 *cert;
	char *pem;
	int rc;

	if (snprintf(key_path, sizeof(key_path), "%s/server.key", dir) >= (int)sizeof(key_path) ||
	    snprintf(cert_path, sizeof(cert_path), "%s/server.pem", dir) >= (int)sizeof(cert_path))
		return err_set(e, ERR_LIMIT, "the path of the data folder is too long");
	if (san_of(hosts, san, sizeof(san), e) < 0)
		return -1;
	if (still_covers(ca, cert_path, key_path, hosts))
		return 0;
	/* After a crash between the two writes the pair does not fit and is made again at the next start. */
	key = tls_key_create(key_path, e);
	if (!key)
		return -1;
	cert = issue(ca, key, "hearthd", SERVER_DAYS, "serverAuth", san);
	EVP_PKEY_free(key);
	if (!cert)
		return tls_fail(e, ERR_INTERNAL, "cannot make a server certificate for %.200s", san);
	pem = tls_cert_to_pem(cert);
	X509_free(cert);
	rc = fs_write_atomic(cert_path, pem, strlen(pem), 0644, e);
	free(pem);
	return rc;
}

/* ---- verification -------------------------------------------------------------------------------- */

/* Reads the one CN of the subject; -1: none, several, or an invalid name. */
static int node_of(X509 *cert, char *node, size_t node_size, struct err *e)
{
	X509_NAME *subject = X509_get_subject_name(cert);
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
	unsigned char *utf8 = NULL;
	int n, rc = -1;

	if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0)
		return err_set(e, ERR_UNAUTHORIZED, "the certificate names no single node");
	n = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
	if (n < 0)
		return tls_fail(e, ERR_UNAUTHORIZED, "the certificate's name cannot be read");
	/* A NUL inside would make the rest of the name invisible. */
	if ((size_t)n != strlen((char *)utf8) || (size_t)n >= node_size)
		err_set(e, ERR_UNAUTHORIZED, "the certificate's name is too long or holds a NUL");
	else if (str_check_name((char *)utf8, TLS_NODE_MAX, "node name", e) == 0)
		rc = 0;
	if (rc == 0)
		memcpy(node, utf8, (size_t)n + 1);
	OPENSSL_free(utf8);
	return rc;
}

int tls_ca_verify(struct tls_ca *ca, const char *cert_pem, char *node, size_t node_size, struct err *e)
{
	X509 *cert = tls_cert_from_pem(cert_pem, "what was sent", e);
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	int rc = -1;

	if (!cert) {
		/* e says why */
	} else if (!store || !ctx || X509_STORE_add_cert(store, ca->cert) != 1 ||
	           !X509_STORE_CTX_init(ctx, store, cert, NULL) ||
	           !X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_SSL_CLIENT)) {
		tls_fail(e, ERR_INTERNAL, "cannot check a certificate");
	} else if (X509_verify_cert(ctx) != 1) {
		err_set(e, ERR_UNAUTHORIZED, "the certificate is not valid in this cluster: %s",
		        X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
	} else {
		rc = node_of(cert, node, node_size, e);
	}
	ERR_clear_error();
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	X509_free(cert);
	return rc;
}
