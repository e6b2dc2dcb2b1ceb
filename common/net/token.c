/*
 * token: see token.h.
 */
#include "common/net/token.h"

#include <string.h>

#include "common/base/hash.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"

#define SECRET_DIGITS ((size_t)USER_SECRET_BYTES * 2)
#define PRINT_DIGITS  ((size_t)32)
#define CHECK_DIGITS  ((size_t)8)
#define PREFIX_LEN    (sizeof(USER_TOKEN_PREFIX) - 1)

static void check_of(const char *text, size_t n, char out[CHECK_DIGITS + 1])
{
	char hash[HASH_HEX_SIZE];

	hash_hex(text, n, hash);
	memcpy(out, hash, CHECK_DIGITS);
	out[CHECK_DIGITS] = '\0';
}

char *user_token_text(const void *secret, const char *fingerprint)
{
	char digits[USER_SECRET_BYTES * 2 + 1], check[CHECK_DIGITS + 1];
	cleanup_free char *body = NULL;

	str_hex(secret, USER_SECRET_BYTES, digits);
	body = xasprintf(USER_TOKEN_PREFIX "%s_%s", digits, fingerprint);
	check_of(body, strlen(body), check);
	return xasprintf("%s_%s", body, check);
}

int user_token_is(const char *text)
{
	return strncmp(text, USER_TOKEN_PREFIX, PREFIX_LEN) == 0;
}

int user_token_parse(const char *text, char fingerprint[33], struct err *e)
{
	size_t body = PREFIX_LEN + SECRET_DIGITS + 1 + PRINT_DIGITS;
	char check[CHECK_DIGITS + 1];

	if (!user_token_is(text))
		return err_set(e, ERR_INVALID, "not a user's token; one begins with " USER_TOKEN_PREFIX);
	if (strlen(text) != body + 1 + CHECK_DIGITS || text[PREFIX_LEN + SECRET_DIGITS] != '_' ||
	    text[body] != '_')
		return err_set(e, ERR_INVALID, "the token is cut short or has something added to it; copy it again");
	check_of(text, body, check);
	if (strcmp(check, text + body + 1) != 0)
		return err_set(e, ERR_INVALID, "the token is damaged: its check digits do not match; copy it again");
	memcpy(fingerprint, text + PREFIX_LEN + SECRET_DIGITS + 1, PRINT_DIGITS);
	fingerprint[PRINT_DIGITS] = '\0';
	return 0;
}
