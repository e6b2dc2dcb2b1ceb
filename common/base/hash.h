/*
 * hash: SHA-256 content addresses and random bytes, both by OpenSSL.
 */
#ifndef HEARTH_COMMON_BASE_HASH_H
#define HEARTH_COMMON_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define HASH_BYTES    32
#define HASH_HEX_SIZE 65 /* 64 lower-case digits + NUL */

void hash_bytes(const void *p, size_t n, uint8_t out[HASH_BYTES]);
void hash_hex(const void *p, size_t n, char out[HASH_HEX_SIZE]);
int hash_file_hex(const char *path, char out[HASH_HEX_SIZE], struct err *e);
int hash_is_hex(const char *s);

struct hash_ctx;
struct hash_ctx *hash_start(void);
void hash_add(struct hash_ctx *h, const void *p, size_t n);
void hash_end_hex(struct hash_ctx *h, char out[HASH_HEX_SIZE]); /* takes h */

/* Cryptographic randomness (tokens, keys). Aborts when the system has none. */
void random_bytes(void *p, size_t n);
void random_hex(char *out, size_t n_digits);                  /* out has n_digits + 1 bytes */
int const_time_equal(const void *a, const void *b, size_t n); /* 1 equal */

#endif
