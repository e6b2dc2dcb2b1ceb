/*
 * grep: see grep.h. A line longer than GREP_LINE_MAX is cut before it is matched and shown.
 */
#include "jobctl/show/grep.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>
#include <string.h>

#include "common/base/xalloc.h"

#define GREP_LINE_MAX (1024 * 1024)

struct grep {
	pcre2_code *re;
	pcre2_match_data *md;
	FILE *out;
	size_t n;
	char line[GREP_LINE_MAX]; /* the line that is not complete yet */
};

struct grep *grep_create(const char *pattern, FILE *out, struct err *e)
{
	int code;
	PCRE2_SIZE at;
	pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
	                               PCRE2_UTF | PCRE2_MATCH_INVALID_UTF, &code, &at, NULL);
	if (!re) {
		PCRE2_UCHAR text[128];
		pcre2_get_error_message(code, text, sizeof(text));
		err_set(e, ERR_INVALID, "invalid pattern '%s': %s at character %zu", pattern, (char *)text,
		        (size_t)at + 1);
		return NULL;
	}
	pcre2_jit_compile(re, PCRE2_JIT_COMPLETE); /* without it matching is only slower */
	struct grep *g = xmalloc(sizeof(*g));
	g->re = re;
	g->md = pcre2_match_data_create_from_pattern(re, NULL);
	g->out = out;
	g->n = 0;
	return g;
}

int grep_matches(struct grep *g, const char *line, size_t n)
{
	return pcre2_match(g->re, (PCRE2_SPTR)line, n, 0, 0, g->md, NULL) >= 0;
}

void grep_end_line(struct grep *g)
{
	if (g->n && grep_matches(g, g->line, g->n)) {
		fwrite(g->line, 1, g->n, g->out);
		putc('\n', g->out);
	}
	g->n = 0;
}

void grep_feed(struct grep *g, const char *p, size_t n)
{
	while (n) {
		const char *nl = memchr(p, '\n', n);
		size_t k = nl ? (size_t)(nl - p) : n, room = sizeof(g->line) - g->n, take = k < room ? k : room;
		memcpy(g->line + g->n, p, take);
		g->n += take;
		if (nl) {
			/* An empty line may match, too. */
			if (!g->n && grep_matches(g, g->line, 0))
				putc('\n', g->out);
			grep_end_line(g);
			k++;
		}
		p += k;
		n -= k;
	}
}

void grep_destroy(struct grep *g)
{
	if (!g)
		return;
	pcre2_match_data_free(g->md);
	pcre2_code_free(g->re);
	free(g);
}
