/*
 * pattern: see pattern.h.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "common/base/pattern.h"

#include <pcre2.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"

#define CLOCK_EVERY   256u         /* callouts between two looks at the clock; each may scan the line once */
#define BYTES_A_STEP  16u          /* a scan for the first character costs about so little */
#define JIT_STACK_MIN (32u * 1024) /* bytes */
#define JIT_STACK_MAX (1024u * 1024)
#define HEAP_MAX_KIB  4096u /* without the just-in-time compiler */
#define MATCH_MAX     10000000u
#define NEST_MAX      100u    /* brackets in brackets */
#define GAVE_UP       (-1000) /* what the callout returns to end a search; PCRE2's own errors are above */

struct pattern {
	pcre2_code *code;
	uint32_t groups;
};

struct pattern_scratch {
	pcre2_match_data *data;
	pcre2_match_context *context;
	pcre2_jit_stack *stack;
	uint64_t callouts, began_us; /* of the present search */
};

/* ---- patterns --------------------------------------------------------------------------------------- */

static pcre2_code *compile_text(const char *text, struct err *e)
{
	pcre2_compile_context *c = pcre2_compile_context_create(NULL);
	PCRE2_UCHAR why[160];
	pcre2_code *code;
	size_t at = 0;
	int rc = 0;

	if (!c)
		abort();
	pcre2_set_parens_nest_limit(c, NEST_MAX);
	code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_AUTO_CALLOUT, &rc, &at, c);
	pcre2_compile_context_free(c);
	if (code)
		return code;
	pcre2_get_error_message(rc, why, sizeof(why));
	err_set(e, ERR_INVALID, "the pattern is wrong at byte %zu: %s", at, (const char *)why);
	return NULL;
}

struct pattern *pattern_compile(const char *text, struct err *e)
{
	struct pattern *p;
	pcre2_code *code;
	size_t size = 0;

	if (strlen(text) > PATTERN_TEXT_MAX) {
		err_set(e, ERR_LIMIT, "the pattern has %zu bytes; at most %u are allowed", strlen(text),
		        PATTERN_TEXT_MAX);
		return NULL;
	}
	code = compile_text(text, e);
	if (!code)
		return NULL;
	pcre2_pattern_info(code, PCRE2_INFO_SIZE, &size);
	if (size > PATTERN_SIZE_MAX) {
		pcre2_code_free(code);
		err_set(e, ERR_LIMIT,
		        "the pattern needs %zu bytes when compiled; at most %u are allowed; use fewer or smaller "
		        "repeats of groups",
		        size, PATTERN_SIZE_MAX);
		return NULL;
	}
	p = xcalloc(1, sizeof(*p));
	p->code = code;
	pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &p->groups);
	return p;
}

void pattern_destroy(struct pattern *p)
{
	if (!p)
		return;
	pcre2_code_free(p->code);
	free(p);
}

uint32_t pattern_groups(const struct pattern *p)
{
	return p->groups;
}

void pattern_speed_up(struct pattern *p)
{
	pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
}

/* ---- searches --------------------------------------------------------------------------------------- */

static int on_callout(pcre2_callout_block *block, void *arg)
{
	struct pattern_scratch *s = arg;

	(void)block;
	if (++s->callouts % CLOCK_EVERY)
		return 0;
	if (s->callouts == CLOCK_EVERY) {
		s->began_us = clock_thread_cpu_us();
		return 0;
	}
	return clock_thread_cpu_us() - s->began_us > PATTERN_SEARCH_US ? GAVE_UP : 0;
}

struct pattern_scratch *pattern_scratch_create(void)
{
	struct pattern_scratch *s = xcalloc(1, sizeof(*s));

	s->data = pcre2_match_data_create(2, NULL); /* the match and its first group */
	s->context = pcre2_match_context_create(NULL);
	s->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, NULL); /* NULL where there is no JIT */
	if (!s->data || !s->context)
		abort();
	pcre2_set_match_limit(s->context, MATCH_MAX);
	pcre2_set_heap_limit(s->context, HEAP_MAX_KIB);
	pcre2_set_callout(s->context, on_callout, s);
	if (s->stack)
		pcre2_jit_stack_assign(s->context, NULL, s->stack);
	return s;
}

void pattern_scratch_destroy(struct pattern_scratch *s)
{
	if (!s)
		return;
	pcre2_match_data_free(s->data);
	pcre2_match_context_free(s->context);
	pcre2_jit_stack_free(s->stack);
	free(s);
}

/* A line that is not UTF-8 cannot match a pattern that demands it. */
static int is_utf_error(int rc)
{
	return rc <= PCRE2_ERROR_UTF8_ERR1 && rc >= PCRE2_ERROR_UTF8_ERR21;
}

enum pattern_found pattern_search(const struct pattern *p, struct pattern_scratch *s, const char *line,
                                  size_t n, struct pattern_hit *hit)
{
	const PCRE2_SIZE *at;
	int rc;

	if (n > PATTERN_LINE_MAX)
		n = PATTERN_LINE_MAX;
	*hit = (struct pattern_hit){0};
	s->callouts = 0;
	rc = pcre2_match(p->code, (PCRE2_SPTR)line, n, 0, 0, s->data, s->context);
	hit->steps = 1 + s->callouts + n / BYTES_A_STEP;
	if (rc == PCRE2_ERROR_NOMATCH || is_utf_error(rc))
		return PATTERN_MISS;
	if (rc < 0)
		return PATTERN_GAVE_UP;
	at = pcre2_get_ovector_pointer(s->data);
	/* rc 0: there are more groups than the scratch has room for, and the first one is set. */
	if (rc != 1 && at[2] != PCRE2_UNSET && at[3] >= at[2]) {
		hit->group = line + at[2];
		hit->n = at[3] - at[2];
	}
	return PATTERN_HIT;
}
