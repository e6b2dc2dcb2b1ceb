/*
 * token: the text of a user's token, "hearth_u_SECRET_FINGERPRINT_CHECK".
 *
 * SECRET has 40 hex digits of chance. FINGERPRINT is that of the cluster's authority (tls.h), so that a
 * client recognizes the controller before it sends the token. CHECK, the first 8 digits of SHA-256 of all
 * before it, finds a token that was cut or mistyped, and lets scanners of secrets recognize one.
 */
#ifndef HEARTH_COMMON_NET_TOKEN_H
#define HEARTH_COMMON_NET_TOKEN_H

#include "common/base/err.h"

#define USER_TOKEN_PREFIX "hearth_u_"
#define USER_SECRET_BYTES 20

/* secret: USER_SECRET_BYTES of chance; fingerprint: 32 hex digits. Malloc'ed. */
char *user_token_text(const void *secret, const char *fingerprint);
int user_token_is(const char *text); /* begins like one */
/* Checks the form and gives the fingerprint. ERR_INVALID: another text, or one that was cut. */
int user_token_parse(const char *text, char fingerprint[33], struct err *e);

#endif
