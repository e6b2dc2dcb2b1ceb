/*
 * test_tls: the authority and what it signs, signatures, join tokens, and handshakes in memory: right host,
 * wrong host, wrong authority, missing and foreign client certificates.
 */
#include "common/net/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

static const char *top;

static char *in_top(const char *name)
{
	return xasprintf("%s/%s", top, name);
}

static struct tls_ca *open_ca(const char *name)
{
	char *dir = in_top(name);
	struct tls_ca *ca;
	struct err e;

	if (fs_mkdir_p(dir, 0700, &e) < 0)
		tap_bail("%s", e.text);
	ca = tls_ca_open(dir, clock_real_us(clock_real()), &e);
	if (!ca)
		tap_bail("%s", e.text);
	free(dir);
	return ca;
}

static char *file_text(const char *path)
{
	char *text;
	size_t n;
	struct err e;

	if (fs_read_file(path, 1 << 20, &text, &n, &e) < 0)
		tap_bail("%s", e.text);
	return text;
}

static void write_text(const char *path, const char *text)
{
	struct err e;

	if (fs_replace(path, text, strlen(text), 0600, &e) < 0)
		tap_bail("%s", e.text);
}

static int mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (int)(st.st_mode & 0777) : -1;
}

static void test_authority(void)
{
	struct tls_ca *ca = open_ca("ca1"), *again = open_ca("ca1"), *other = open_ca("ca2");
	char *dir = in_top("ca1"), *key = in_top("ca1/ca.key"), *pem = in_top("ca1/ca.pem"), *text, fp[33];
	struct err e;

	is_str(tls_ca_fingerprint(again), tls_ca_fingerprint(ca), "opened again it is the same authority");
	ok(strcmp(tls_ca_fingerprint(other), tls_ca_fingerprint(ca)) != 0, "another folder, another authority");
	is_int(strlen(tls_ca_fingerprint(ca)), 32, "fingerprint has 32 digits");
	is_int(mode_of(key), 0600, "its key is for its owner alone");
	ok(tls_fingerprint(tls_ca_pem(ca), fp, &e) == 0 && strcmp(fp, tls_ca_fingerprint(ca)) == 0,
	   "fingerprint of its certificate");
	is_int(tls_fingerprint("rubbish", fp, &e), -1, "rubbish has none");
	text = file_text(pem);
	is_str(text, tls_ca_pem(ca), "file holds the certificate");
	tls_ca_close(again);
	unlink(pem);
	ok(!tls_ca_open(dir, 1, &e) && e.code == ERR_CONFLICT, "a key without its certificate is not replaced");
	like(e.text, "ca.pem is missing", "and the missing one is named");
	write_text(pem, tls_ca_pem(other));
	ok(!tls_ca_open(dir, 1, &e), "a key with another's certificate");
	like(e.text, "do not belong together", "is refused");
	write_text(pem, "garbage");
	ok(!tls_ca_open(dir, 1, &e), "a spoilt certificate is refused");
	write_text(pem, text);
	unlink(key);
	ok(!tls_ca_open(dir, 1, &e), "a certificate without its key is not replaced");
	like(e.text, "ca.key is missing", "and the missing one is named");
	ok(!tls_ca_open("/nonexistent/x", 1, &e), "folder that cannot be written");
	free(text);
	free(dir);
	free(key);
	free(pem);
	tls_ca_close(ca);
	tls_ca_close(other);
	tls_ca_close(NULL);
}

static char *agent_cert(struct tls_ca *ca, const char *name)
{
	char *path = xasprintf("%s/%s.key", top, name), *csr = NULL, *cert;
	struct err e;

	if (tls_make_key_csr(path, name, &csr, &e) < 0)
		tap_bail("%s", e.text);
	cert = tls_ca_sign_csr(ca, csr, name, 365, &e);
	if (!cert)
		tap_bail("%s", e.text);
	free(csr);
	free(path);
	return cert;
}

static void test_agents(void)
{
	struct tls_ca *ca = open_ca("ca3"), *other = open_ca("ca4");
	char *path = in_top("n1.key"), *csr = NULL, *csr2 = NULL, *cert, *cert2, *spoilt, node[64];
	struct err e;

	is_int(tls_make_key_csr(path, "n1", &csr, &e), 0, "key and request");
	is_int(mode_of(path), 0600, "the key is for its owner alone");
	cert = tls_ca_sign_csr(ca, csr, "renamed", 10, &e);
	ok(cert != NULL, "signed");
	ok(tls_ca_verify(ca, cert, node, sizeof(node), &e) == 0, "verified by its authority");
	is_str(node, "renamed", "under the name that the authority chose");
	is_int(tls_ca_verify(ca, cert, node, 4, &e), -1, "a name longer than the caller's room");
	is_int(tls_ca_verify(other, cert, node, sizeof(node), &e), -1, "not by another authority");
	is_int(e.code, ERR_UNAUTHORIZED, "unauthorized");
	is_int(tls_ca_verify(ca, tls_ca_pem(ca), node, sizeof(node), &e), -1, "the authority itself is no agent");
	is_int(tls_ca_verify(ca, "junk", node, sizeof(node), &e), -1, "junk is none");
	is_int(tls_make_key_csr(path, "n1", &csr2, &e), 0, "a key that is there is used again");
	cert2 = tls_ca_sign_csr(ca, csr2, "n1", 10, &e);
	ok(cert2 && tls_ca_verify(ca, cert2, node, sizeof(node), &e) == 0 && strcmp(node, "n1") == 0,
	   "and can be signed again");
	/* one letter in the middle of the base64 text */
	spoilt = xstrdup(csr);
	spoilt[strlen(spoilt) / 2] = spoilt[strlen(spoilt) / 2] == 'A' ? 'B' : 'A';
	ok(!tls_ca_sign_csr(ca, spoilt, "n1", 10, &e), "a spoilt request is not signed");
	ok(!tls_ca_sign_csr(ca, csr, "../n1", 10, &e), "nor one for a bad name");
	ok(!tls_ca_sign_csr(ca, csr, "", 10, &e), "nor for none");
	ok(!tls_ca_sign_csr(ca, "", "n1", 10, &e), "nor an empty one");
	ok(!tls_ca_sign_csr(ca, cert, "n1", 10, &e), "nor a certificate in place of a request");
	is_int(tls_make_key_csr(path, "a b", &csr2, &e), -1, "bad name");
	write_text(path, "not a key");
	is_int(tls_make_key_csr(path, "n1", &csr2, &e), -1, "a spoilt key is not overwritten");
	free(spoilt);
	free(csr);
	free(csr2);
	free(cert);
	free(cert2);
	free(path);
	tls_ca_close(ca);
	tls_ca_close(other);
}

/* A request with a weak key, and one whose signature is by another key. */
static void test_bad_requests(void)
{
	struct tls_ca *ca = open_ca("ca5");
	EVP_PKEY *weak = EVP_RSA_gen(1024), *a = EVP_EC_gen("P-256"), *b = EVP_EC_gen("P-256");
	X509_REQ *req = X509_REQ_new();
	struct err e;

	for (int round = 0; round < 2; round++) {
		BIO *bio = BIO_new(BIO_s_mem());
		char *data, *pem;
		long n;

		X509_REQ_set_pubkey(req, round ? a : weak);
		X509_REQ_sign(req, round ? b : weak, EVP_sha256());
		PEM_write_bio_X509_REQ(bio, req);
		n = BIO_get_mem_data(bio, &data);
		pem = xstrndup(data, (size_t)n);
		ok(!tls_ca_sign_csr(ca, pem, "n1", 10, &e), round ? "a request signed by another key" : "a weak key");
		like(e.text, round ? "not signed by its own key" : "too weak", "said so");
		free(pem);
		BIO_free(bio);
	}
	X509_REQ_free(req);
	EVP_PKEY_free(weak);
	EVP_PKEY_free(a);
	EVP_PKEY_free(b);
	tls_ca_close(ca);
	ERR_clear_error();
}

static void test_signatures(void)
{
	struct tls_ca *ca = open_ca("ca6");
	char *cert = agent_cert(ca, "sig1"), *other = agent_cert(ca, "sig2"), *path = in_top("sig1.key");
	uint8_t *sig = NULL;
	size_t n = 0;
	struct err e;

	is_int(tls_sign(path, "hello", 5, &sig, &n, &e), 0, "signed");
	is_int(tls_verify_sig(cert, "hello", 5, sig, n, &e), 0, "verified");
	is_int(tls_verify_sig(cert, "hellO", 5, sig, n, &e), -1, "other data");
	is_int(tls_verify_sig(other, "hello", 5, sig, n, &e), -1, "other certificate");
	is_int(tls_verify_sig(cert, "hello", 5, sig, n - 1, &e), -1, "cut signature");
	is_int(tls_verify_sig(cert, "hello", 5, sig, 0, &e), -1, "empty signature");
	is_int(tls_verify_sig("x", "hello", 5, sig, n, &e), -1, "no certificate");
	sig[n / 2] ^= 1;
	is_int(tls_verify_sig(cert, "hello", 5, sig, n, &e), -1, "spoilt signature");
	is_int(tls_sign("/nonexistent", "x", 1, &sig, &n, &e), -1, "no key");
	free(sig);
	free(cert);
	free(other);
	free(path);
	tls_ca_close(ca);
}

static void test_tokens(void)
{
	static const char *const bad[] = {
	    "",
	    "hj1-",
	    "hj2-0123456789abcdef0123456789abcdef-0123456789abcdef0123456789abcdef",
	    "hj1-0123456789abcdef0123456789abcdef",
	    "hj1-0123456789abcdef0123456789abcdef-0123456789abcdef0123456789abcde",
	    "hj1-0123456789abcdef0123456789abcdef-0123456789abcdef0123456789abcdef0",
	    "hj1-0123456789ABCDEF0123456789abcdef-0123456789abcdef0123456789abcdef",
	    "hj1-0123456789abcdef0123456789abcdef-0123456789abcdef0123456789abcdef\n",
	};
	char secret[33], fp[33];
	struct err e;
	char *t = tls_join_token("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");

	is_int(tls_join_parse(t, secret, fp, &e), 0, "a token goes round");
	is_str(secret, "0123456789abcdef0123456789abcdef", "secret");
	is_str(fp, "fedcba9876543210fedcba9876543210", "fingerprint");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		is_int(tls_join_parse(bad[i], secret, fp, &e), -1, bad[i]);
	free(t);
}

/* ---- handshakes ----------------------------------------------------------------------------------- */

/* 1 when both sides finish and 5 bytes arrive. */
static int shake(SSL_CTX *server, SSL_CTX *client, const char *host)
{
	SSL *s = SSL_new(server), *c = SSL_new(client);
	BIO *a, *b;
	int sr = 0, cr = 0, good = 0;
	char got[8] = "";
	struct err e;

	BIO_new_bio_pair(&a, 0, &b, 0);
	SSL_set_bio(s, a, a);
	SSL_set_bio(c, b, b);
	SSL_set_accept_state(s);
	SSL_set_connect_state(c);
	if (tls_client_expect(c, host, &e) == 0) {
		for (int i = 0; i < 20 && !(sr == 1 && cr == 1); i++) {
			cr = SSL_do_handshake(c);
			sr = SSL_do_handshake(s);
		}
		/* With TLS 1.3 a refused client certificate shows only when the server is read. */
		if (sr == 1 && cr == 1 && SSL_write(s, "hello", 5) == 5)
			good = SSL_read(c, got, sizeof(got)) == 5 && memcmp(got, "hello", 5) == 0;
	}
	SSL_free(s);
	SSL_free(c);
	ERR_clear_error();
	return good;
}

static void test_server_cert(void)
{
	struct tls_ca *ca = open_ca("ca7"), *other = open_ca("ca8");
	static const char *const hosts[] = {"localhost", "node-1.example", "127.0.0.1", "::1", NULL};
	static const char *const more[] = {"localhost", "10.77.0.1", NULL}, *const evil[] = {"a,DNS:b", NULL},
	                         *const none[] = {NULL};
	char *dir = in_top("ca7"), *pem = in_top("ca7/server.pem"), *key = in_top("ca7/server.key"), *one, *two,
	     node[64];
	SSL_CTX *server, *client, *foreign;
	struct err e;

	is_int(tls_ca_server_cert(ca, dir, hosts, &e), 0, "server certificate");
	is_int(mode_of(key), 0600, "its key is for its owner alone");
	one = file_text(pem);
	is_int(tls_ca_verify(ca, one, node, sizeof(node), &e), -1, "hearthd's certificate is no agent's");
	is_int(tls_ca_server_cert(ca, dir, hosts, &e), 0, "asked for again");
	two = file_text(pem);
	is_str(two, one, "it is kept");
	server = tls_server_ctx(pem, key, NULL, &e);
	client = tls_client_ctx(tls_ca_pem(ca), NULL, NULL, &e);
	foreign = tls_client_ctx(tls_ca_pem(other), NULL, NULL, &e);
	ok(server && client && foreign, "contexts");
	ok(shake(server, client, "localhost"), "handshake with a name");
	ok(shake(server, client, "node-1.example"), "with the other name");
	ok(shake(server, client, "127.0.0.1"), "with an address");
	ok(shake(server, client, "::1"), "with an IPv6 address");
	ok(!shake(server, client, "10.77.0.1"), "not with an address that is not in it");
	ok(!shake(server, client, "evil.example"), "nor with another name");
	ok(!shake(server, foreign, "localhost"), "nor by one who trusts another authority");
	free(two);
	is_int(tls_ca_server_cert(ca, dir, more, &e), 0, "a new address");
	two = file_text(pem);
	ok(strcmp(one, two) != 0, "means a new certificate");
	SSL_CTX_free(server);
	server = tls_server_ctx(pem, key, NULL, &e);
	ok(server && shake(server, client, "10.77.0.1"), "which covers it");
	is_int(tls_ca_server_cert(ca, dir, evil, &e), -1, "a name with a comma");
	is_int(tls_ca_server_cert(ca, dir, none, &e), -1, "no name at all");
	write_text(key, "junk");
	ok(!tls_server_ctx(pem, key, NULL, &e), "a spoilt key gives no context");
	is_int(tls_ca_server_cert(ca, dir, more, &e), 0, "and is made anew");
	ok(!tls_client_ctx("junk", NULL, NULL, &e), "no context without an authority");
	SSL_CTX_free(server);
	SSL_CTX_free(client);
	SSL_CTX_free(foreign);
	free(one);
	free(two);
	free(dir);
	free(pem);
	free(key);
	tls_ca_close(ca);
	tls_ca_close(other);
}

static void test_client_certs(void)
{
	struct tls_ca *ca = open_ca("ca9"), *other = open_ca("ca10");
	static const char *const hosts[] = {"localhost", NULL};
	char *dir = in_top("ca9"), *pem = in_top("ca9/server.pem"), *key = in_top("ca9/server.key");
	char *mine = agent_cert(ca, "c1"), *theirs = agent_cert(other, "c2");
	char *mine_path = in_top("c1.pem"), *theirs_path = in_top("c2.pem"), *k1 = in_top("c1.key"),
	     *k2 = in_top("c2.key");
	SSL_CTX *server, *with, *without, *wrong;
	struct err e;

	write_text(mine_path, mine);
	write_text(theirs_path, theirs);
	is_int(tls_ca_server_cert(ca, dir, hosts, &e), 0, "server certificate");
	server = tls_server_ctx(pem, key, tls_ca_pem(ca), &e);
	with = tls_client_ctx(tls_ca_pem(ca), mine_path, k1, &e);
	wrong = tls_client_ctx(tls_ca_pem(ca), theirs_path, k2, &e);
	without = tls_client_ctx(tls_ca_pem(ca), NULL, NULL, &e);
	ok(server && with && wrong && without, "contexts");
	ok(shake(server, with, "localhost"), "an agent's certificate is accepted");
	ok(!shake(server, wrong, "localhost"), "another cluster's is refused");
	ok(shake(server, without, "localhost"), "none is accepted too");
	SSL_CTX_set_verify(server, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	ok(!shake(server, without, "localhost"), "unless the caller demands one");
	ok(!tls_client_ctx(tls_ca_pem(ca), mine_path, k2, &e), "certificate and key of two agents");
	/* An agent must not pose as hearthd. */
	SSL_CTX_free(server);
	server = tls_server_ctx(mine_path, k1, NULL, &e);
	ok(server && !shake(server, without, "c1"), "an agent's certificate is no server's");
	SSL_CTX_free(server);
	SSL_CTX_free(with);
	SSL_CTX_free(wrong);
	SSL_CTX_free(without);
	char *owned[] = {dir, pem, key, mine, theirs, mine_path, theirs_path, k1, k2};
	for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
		free(owned[i]);
	tls_ca_close(ca);
	tls_ca_close(other);
}

int main(void)
{
	top = tap_tmpdir();
	test_authority();
	test_agents();
	test_bad_requests();
	test_signatures();
	test_tokens();
	test_server_cert();
	test_client_certs();
	return tap_done();
}
