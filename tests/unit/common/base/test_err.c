/* err and xalloc: texts, codes, wrapping, cutting; vectors of strings. */
#include "common/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

static void test_set(void)
{
	struct err e = {0};

	is_int(err_set(&e, ERR_INVALID, "node %d", 7), -1, "err_set returns -1");
	is_int(e.code, ERR_INVALID, "code is kept");
	is_str(e.text, "node 7", "text is formatted");
	is_int(err_set(NULL, ERR_INVALID, "x"), -1, "no error struct is fine");
	err_set(&e, ERR_CONFLICT, "again: %s", e.text);
	is_str(e.text, "again: node 7", "an argument may be the text that is replaced");
}

static void test_sys(void)
{
	static const struct {
		int errnum;
		enum err_code code;
	} map[] = {{ENOSPC, ERR_NOSPACE}, {EDQUOT, ERR_NOSPACE},   {ENOENT, ERR_NOT_FOUND},
	           {EACCES, ERR_DENIED},  {EPERM, ERR_DENIED},     {EIO, ERR_IO},
	           {EBADF, ERR_IO},       {ETIMEDOUT, ERR_TIMEOUT}};
	struct err e;

	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++) {
		is_int(err_sys(&e, map[i].errnum, "open %s", "f"), -1, "err_sys returns -1");
		is_int(e.code, map[i].code, err_code_name(map[i].code));
	}
	err_sys(&e, ENOENT, "%s", "a/b");
	is_str(e.text, "a/b: No such file or directory", "text of errno follows");
	is_int(err_sys(NULL, ENOENT, "x"), -1, "no error struct is fine");
}

static void test_wrap(void)
{
	struct err e;

	err_set(&e, ERR_LIMIT, "too long");
	is_int(err_wrap(&e, "line %d", 3), -1, "err_wrap returns -1");
	is_str(e.text, "line 3: too long", "context goes before");
	is_int(e.code, ERR_LIMIT, "code stays");
	is_int(err_wrap(NULL, "x"), -1, "no error struct is fine");
}

static void test_cut(void)
{
	struct err e;
	char text[1200];

	/* Every length around the limit, with characters of two bytes, so that each cut meets each phase. */
	for (size_t n = 500; n < 1100; n++) {
		memset(text, 'a', sizeof(text));
		for (size_t i = n % 2; i + 1 < n; i += 2)
			memcpy(text + i, "\xc3\xa9", 2);
		text[n] = '\0';
		err_set(&e, ERR_INVALID, "%s", text);
		if (strlen(e.text) >= sizeof(e.text) || (n >= sizeof(e.text)) != (strstr(e.text, "...") != NULL) ||
		    !str_valid_utf8(e.text, strlen(e.text)))
			break;
		if (n == 1099)
			ok(1, "long texts are cut with dots between characters");
	}
	for (int i = 0; i < 400; i++)
		err_wrap(&e, "layer %d", i);
	ok(strlen(e.text) < sizeof(e.text), "wrapping without end stays bounded");
	like(e.text, "layer 399: layer 398", "the outermost layers stay");
	like(e.text + strlen(e.text) - 3, "...", "and the end is marked");
}

static void test_names(void)
{
	is_str(err_code_name(ERR_NOT_FOUND), "ERR_NOT_FOUND", "name");
	is_str(err_code_text(ERR_BUSY), "busy", "text");
	is_int(err_http_status(ERR_NOSPACE), 507, "status");
	is_int(ERR_GONE, 15, "the numbers are on the wire: none moves");
	is_int(err_http_status(ERR_NONE), 200, "no error is 200");
	is_str(err_code_name((enum err_code)999), "ERR_UNKNOWN", "an unknown code has a name");
	is_int(err_http_status((enum err_code)999), 500, "an unknown code is 500");
	is_str(err_code_text((enum err_code)999), "unknown error", "an unknown code has a text");
}

static void test_alloc(void)
{
	char *s;
	void *p;

	p = xmalloc(0);
	ok(p, "xmalloc(0) is not NULL");
	free(p);
	p = xcalloc(0, 8);
	ok(p, "xcalloc(0) is not NULL");
	p = xrealloc(p, 0);
	ok(p, "xrealloc to 0 is not NULL");
	free(p);
	is_str(xstrdup(NULL), NULL, "xstrdup(NULL) is NULL");
	s = xstrndup("abcdef", 3);
	is_str(s, "abc", "xstrndup cuts");
	free(s);
	p = xmemdup(NULL, 0);
	ok(p, "xmemdup of nothing");
	free(p);
	s = xasprintf("%s-%d", "a", 5);
	is_str(s, "a-5", "xasprintf");
	xappendf(&s, "%s, %s", s, "b");
	is_str(s, "a-5a-5, b", "xappendf appends, also a text to itself");
	free(s);
}

static void test_strv(void)
{
	struct strv v = {0};
	char want[16];
	int good = 1;

	for (int i = 0; i < 1000; i++) {
		strv_addf(&v, "item %d", i);
		good &= v.n == (size_t)i + 1 && v.v[v.n] == NULL;
	}
	for (int i = 0; i < 1000; i++) {
		snprintf(want, sizeof(want), "item %d", i);
		good &= strcmp(v.v[i], want) == 0;
	}
	ok(good, "1000 strings, always terminated");
	strv_fini(&v);
	ok(!v.v && v.n == 0, "strv_fini leaves it empty");

	strv_setenv(&v, "PATH", "/bin");
	strv_setenv(&v, "PATHX", "no");
	strv_setenv(&v, "PATH", "/usr/bin=x");
	is_int(v.n, 2, "setenv replaces");
	is_str(strv_getenv(&v, "PATH"), "/usr/bin=x", "getenv");
	is_str(strv_getenv(&v, "PAT"), NULL, "a prefix is not a name");
	is_str(v.v[0], "PATH=/usr/bin=x", "in its old place");
	strv_add(&v, "LAST");
	strv_take(&v, xstrdup("TAKEN=1"));
	is_str(strv_getenv(&v, "LAST"), NULL, "an entry without '=' is no variable");
	is_str(strv_getenv(&v, "TAKEN"), "1", "taken string");
	strv_fini(&v);
}

int main(void)
{
	test_set();
	test_sys();
	test_wrap();
	test_cut();
	test_names();
	test_alloc();
	test_strv();
	return tap_done();
}
