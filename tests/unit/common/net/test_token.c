/*
 * The text of users' tokens: made, recognized, and refused when a character is missing or wrong.
 */
#include <string.h>

#include "common/base/xalloc.h"
#include "common/net/token.h"
#include "tests/lib/tap.h"

static const char print[] = "0123456789abcdef0123456789abcdef";

int main(void)
{
	uint8_t secret[USER_SECRET_BYTES] = {1, 2, 3};
	cleanup_free char *text = user_token_text(secret, print);
	char got[33];
	struct err e;
	unsigned accepted = 0;

	is_int((int)strlen(text), 9 + 40 + 1 + 32 + 1 + 8, "its length");
	ok(strncmp(text, "hearth_u_0102030000", 19) == 0, "its prefix and secret: %.20s", text);
	ok(user_token_is(text) && !user_token_is("hj1-0-1"), "it is recognized");
	ok(user_token_parse(text, got, &e) == 0 && strcmp(got, print) == 0, "it has the authority's fingerprint");
	for (size_t i = 0; text[i]; i++) {
		char was = text[i];

		text[i] = was == '0' ? '1' : '0';
		accepted += user_token_parse(text, got, &e) == 0;
		text[i] = was;
	}
	is_int((int)accepted, 0, "one wrong character anywhere is found");
	for (size_t n = strlen(text); n-- > 0;) {
		cleanup_free char *cut = xstrndup(text, n);

		accepted += user_token_parse(cut, got, &e) == 0;
	}
	is_int((int)accepted, 0, "so is a cut");
	ok(user_token_parse("hj1-0-1", got, &e) < 0 && strstr(e.text, USER_TOKEN_PREFIX), "another text: %s",
	   e.text);
	return tap_done();
}
