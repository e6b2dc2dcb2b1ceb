/*
 * hash: OpenSSL's EVP interface; a failure of it means out of memory or a broken installation, and ends
 * the program: no caller could go on with a wrong digest or without randomness.
 */
#include "common/base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"

static void must_work(int good, const char *what)
{
	if (good)
		return;
	log_error("event=crypto_failed what=%s", what);
	abort();
}

static EVP_MD *md;

static void fetch_sha256(void)
{
	md = EVP_MD_fetch(NULL, "SHA256", NULL);
	must_work(md != NULL, "sha256_fetch");
}

/* Looked up among the providers once: EVP_sha256() does it, under a lock, for every digest, which costs more
 * than hashing a specification. */
static const EVP_MD *sha256_md(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fetch_sha256);
	return md;
}

void hash_bytes(const void *p, size_t n, uint8_t out[HASH_BYTES])
{
	must_work(EVP_Digest(n ? p : "", n, out, NULL, sha256_md(), NULL) == 1, "sha256");
}

void hash_hex(const void *p, size_t n, char out[HASH_HEX_SIZE])
{
	uint8_t digest[HASH_BYTES];

	hash_bytes(p, n, digest);
	str_hex(digest, sizeof(digest), out);
}

/* The struct is OpenSSL's own context under our name; it has no fields of ours. */
struct hash_ctx *hash_start(void)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	must_work(ctx && EVP_DigestInit_ex(ctx, sha256_md(), NULL) == 1, "sha256_start");
	return (struct hash_ctx *)ctx;
}

void hash_add(struct hash_ctx *h, const void *p, size_t n)
{
	must_work(n == 0 || EVP_DigestUpdate((EVP_MD_CTX *)h, p, n) == 1, "sha256_add");
}

void hash_end_hex(struct hash_ctx *h, char out[HASH_HEX_SIZE])
{
	uint8_t digest[HASH_BYTES];

	must_work(EVP_DigestFinal_ex((EVP_MD_CTX *)h, digest, NULL) == 1, "sha256_end");
	EVP_MD_CTX_free((EVP_MD_CTX *)h);
	str_hex(digest, sizeof(digest), out);
}

int hash_file_hex(const char *path, char out[HASH_HEX_SIZE], struct err *e)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	char chunk[65536], hex[HASH_HEX_SIZE];
	struct hash_ctx *h;
	ssize_t n;
	int why;

	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	h = hash_start();
	while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		hash_add(h, chunk, (size_t)n);
	}
	why = errno;
	hash_end_hex(h, hex);
	if (n < 0)
		return err_sys(e, why, "%s: read", path);
	memcpy(out, hex, sizeof(hex));
	return 0;
}

int hash_is_hex(const char *s)
{
	uint8_t digest[HASH_BYTES];

	return s && str_unhex(s, digest, sizeof(digest)) == 0;
}

void random_bytes(void *p, size_t n)
{
	uint8_t *at = p;
	int part;

	/* RAND_bytes counts in int. */
	for (; n; at += part, n -= (size_t)part) {
		part = n > 1u << 20 ? 1 << 20 : (int)n;
		must_work(RAND_bytes(at, part) == 1, "random");
	}
}

void random_hex(char *out, size_t n_digits)
{
	uint8_t bytes[16];
	char hex[33];
	size_t part;

	for (; n_digits; out += part, n_digits -= part) {
		part = n_digits < 32 ? n_digits : 32;
		random_bytes(bytes, sizeof(bytes));
		str_hex(bytes, sizeof(bytes), hex);
		memcpy(out, hex, part);
	}
	*out = '\0';
}

int const_time_equal(const void *a, const void *b, size_t n)
{
	return CRYPTO_memcmp(a, b, n) == 0;
}
