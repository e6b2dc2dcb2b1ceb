/*
 * metrics: see metrics.h. Users write the patterns, and a bad one may need exponential time. So a match is
 * bounded (MATCH_LIMIT), and a pattern that passes the bound too often is disabled.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "agent/logs/metrics.h"

#include <ctype.h>
#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/log.h"

#define MATCH_LIMIT 200000
#define JIT_STACK   (512 * 1024)
#define GIVE_UP     100 /* matches over the limit */
#define NUMBER_MAX  64

struct pattern {
	char *name;
	pcre2_code *code;
	unsigned failures;
	int is_step;
};
struct metric_set {
	struct pattern *v;
	size_t n;
	pcre2_match_data *data;
	pcre2_match_context *context;
	pcre2_jit_stack *stack;
};

/* ---- patterns --------------------------------------------------------------------------------------------
 */

struct metric_set *metric_set_create(const struct job_spec *spec)
{
	struct metric_set *s;

	if (!spec || !spec->n_metrics)
		return NULL;
	s = xcalloc(1, sizeof(*s));
	s->v = xcalloc(spec->n_metrics, sizeof(*s->v));
	for (size_t i = 0; i < spec->n_metrics; i++) {
		int code;
		size_t at;
		pcre2_code *re =
		    pcre2_compile((PCRE2_SPTR)spec->metrics[i].regex, PCRE2_ZERO_TERMINATED, 0, &code, &at, NULL);

		if (!re) { /* hearthd checked it with its own PCRE2: another version here */
			log_warn("event=pattern_refused metric=%s at=%zu", spec->metrics[i].name, at);
			continue;
		}
		pcre2_jit_compile(re, PCRE2_JIT_COMPLETE); /* where it is not to be had, matching is slower */
		s->v[s->n++] = (struct pattern){.name = xstrdup(spec->metrics[i].name),
		                                .code = re,
		                                .is_step = strcmp(spec->metrics[i].name, "step") == 0};
	}
	s->data = pcre2_match_data_create(16, NULL);
	s->context = pcre2_match_context_create(NULL);
	s->stack = pcre2_jit_stack_create(32 * 1024, JIT_STACK, NULL);
	if (!s->data || !s->context)
		abort();
	pcre2_set_match_limit(s->context, MATCH_LIMIT);
	if (s->stack)
		pcre2_jit_stack_assign(s->context, NULL, s->stack);
	return s;
}

void metric_set_destroy(struct metric_set *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].name);
		pcre2_code_free(s->v[i].code);
	}
	pcre2_match_data_free(s->data);
	pcre2_match_context_free(s->context);
	pcre2_jit_stack_free(s->stack);
	free(s->v);
	free(s);
}

/* A number, all of it; what sentences put behind one (". , % ; :") does not count. */
static int parse_number(const char *p, size_t n, double *out)
{
	char text[NUMBER_MAX + 1], *end;

	while (n && isspace((unsigned char)*p)) {
		p++;
		n--;
	}
	while (n && (isspace((unsigned char)p[n - 1]) || strchr(".,%;:", p[n - 1])))
		n--;
	if (n == 0 || n > NUMBER_MAX)
		return -1;
	memcpy(text, p, n);
	text[n] = '\0';
	*out = strtod(text, &end);
	return end == text + n ? 0 : -1;
}

/* 1 found. */
static int match_pattern(struct metric_set *s, struct pattern *p, const char *line, size_t n, double *value)
{
	PCRE2_SIZE *at;
	int rc;

	if (p->failures > GIVE_UP)
		return 0;
	rc = pcre2_match(p->code, (PCRE2_SPTR)line, n, 0, 0, s->data, s->context);
	if (rc < 0 && rc != PCRE2_ERROR_NOMATCH && ++p->failures > GIVE_UP)
		log_warn("event=pattern_given_up metric=%s reason=\"needs too long\"", p->name);
	at = pcre2_get_ovector_pointer(s->data);
	if (rc < 0 || rc == 1 || at[2] == PCRE2_UNSET || at[3] < at[2])
		return 0;
	return parse_number(line + at[2], at[3] - at[2], value) == 0;
}

/* Returns how many points the line had. */
static int patterns_in(struct metric_scan *m, const char *line, size_t n, uint64_t at_us, metric_fn fn,
                       void *arg)
{
	struct metric_set *s = m->set;
	struct metric_point p = {.at_us = at_us};
	int points = 0;

	for (int pass = 0; pass < 2; pass++) /* the step first: it may stand behind the others in the line */
		for (size_t i = 0; i < s->n; i++) {
			if (s->v[i].is_step == pass || !match_pattern(s, &s->v[i], line, n, &p.value))
				continue;
			if (s->v[i].is_step && isfinite(p.value) && fabs(p.value) < 9e15)
				m->step = (int64_t)p.value;
			p.name = s->v[i].name;
			p.step = m->step;
			fn(&p, arg);
			points++;
		}
	return points;
}

/* ---- JSON lines ------------------------------------------------------------------------------------------
 */

/* Python writes NaN, Infinity and -Infinity, which JSON does not know: they become strings. malloc'ed. */
static char *quote_specials(const char *line, size_t n, size_t *out_n)
{
	static const char *const words[] = {"NaN", "-Infinity", "Infinity"};
	char *out = xmalloc(2 * n + 1), *to = out;
	int in_string = 0;

	for (size_t i = 0; i < n;) {
		size_t len = 0;

		for (size_t w = 0; w < 3 && !in_string && !len; w++)
			if (strncmp(line + i, words[w], n - i < strlen(words[w]) ? n - i : strlen(words[w])) == 0 &&
			    n - i >= strlen(words[w]))
				len = strlen(words[w]);
		if (len) {
			*to++ = '"';
			memcpy(to, line + i, len);
			to += len;
			*to++ = '"';
			i += len;
			continue;
		}
		if (line[i] == '"')
			in_string = !in_string;
		if (in_string && line[i] == '\\' && i + 1 < n)
			*to++ = line[i++];
		*to++ = line[i++];
	}
	*out_n = (size_t)(to - out);
	*to = '\0';
	return out;
}

static int json_number(const cJSON *v, double *out)
{
	if (cJSON_IsNumber(v)) {
		*out = v->valuedouble;
		return 0;
	}
	if (!cJSON_IsString(v))
		return -1;
	if (strcmp(v->valuestring, "NaN") == 0)
		*out = (double)NAN;
	else if (strcmp(v->valuestring, "Infinity") == 0)
		*out = (double)INFINITY;
	else if (strcmp(v->valuestring, "-Infinity") == 0)
		*out = -(double)INFINITY;
	else
		return -1;
	return 0;
}

static int json_in(struct metric_scan *m, const char *line, size_t n, uint64_t at_us, metric_fn fn, void *arg)
{
	struct metric_point p = {.at_us = at_us};
	cleanup_free char *text = NULL;
	const cJSON *item;
	int points = 0;
	cJSON *root;
	size_t text_n;

	text = quote_specials(line, n, &text_n);
	root = json_parse(text, text_n, NULL);
	if (!cJSON_IsObject(root)) {
		m->bad++;
		cJSON_Delete(root);
		return 0;
	}
	item = cJSON_GetObjectItemCaseSensitive(root, "step");
	if (cJSON_IsNumber(item) && fabs(item->valuedouble) < 9e15)
		m->step = (int64_t)item->valuedouble;
	cJSON_ArrayForEach (item, root) {
		if (!item->string || !item->string[0] || strlen(item->string) > METRIC_NAME_MAX ||
		    json_number(item, &p.value) < 0)
			continue;
		p.name = item->string;
		p.step = m->step;
		fn(&p, arg);
		points++;
	}
	cJSON_Delete(root);
	return points;
}

/* ---- lines ------------------------------------------------------------------------------------------------
 */

void metric_scan_init(struct metric_scan *m, struct metric_set *set)
{
	*m = (struct metric_scan){.set = set, .step = METRIC_NO_STEP};
}

void metric_scan_fini(struct metric_scan *m)
{
	free(m->line);
	m->line = NULL;
}

void metric_scan_reset(struct metric_scan *m)
{
	m->n = 0;
	m->long_by = 0;
}

uint64_t metric_scan_pending(const struct metric_scan *m)
{
	return m->n + m->long_by;
}

static int whole_line(struct metric_scan *m, const char *line, size_t n, uint64_t at_us, metric_fn fn,
                      void *arg)
{
	if (n == 0)
		return 0;
	if (n > METRIC_LINE_MAX)
		n = METRIC_LINE_MAX;
	return m->set ? patterns_in(m, line, n, at_us, fn, arg) : json_in(m, line, n, at_us, fn, arg);
}

static void keep_unfinished(struct metric_scan *m, const char *p, size_t n)
{
	size_t room = METRIC_LINE_MAX - m->n, part = n < room ? n : room;

	if (!m->line)
		m->line = xmalloc(METRIC_LINE_MAX);
	memcpy(m->line + m->n, p, part);
	m->n += part;
	m->long_by += n - part;
}

static const char *line_end(const char *p, size_t n)
{
	const char *nl = memchr(p, '\n', n), *cr = memchr(p, '\r', nl ? (size_t)(nl - p) : n);

	return cr ? cr : nl;
}

size_t metric_scan_feed(struct metric_scan *m, const char *p, size_t n, uint64_t at_us, metric_fn fn,
                        int (*stop)(void *), void *arg)
{
	const char *at = p, *end;
	int points;

	while ((end = line_end(at, n - (size_t)(at - p)))) {
		if (metric_scan_pending(m)) {
			keep_unfinished(m, at, (size_t)(end - at));
			points = whole_line(m, m->line, m->n, at_us, fn, arg);
			metric_scan_reset(m);
		} else {
			points = whole_line(m, at, (size_t)(end - at), at_us, fn, arg);
		}
		at = end + 1;
		if (points && stop && stop(arg))
			return (size_t)(at - p);
	}
	if ((size_t)(at - p) < n)
		keep_unfinished(m, at, n - (size_t)(at - p));
	return n;
}

void metric_scan_end(struct metric_scan *m, uint64_t at_us, metric_fn fn, void *arg)
{
	if (m->n)
		whole_line(m, m->line, m->n, at_us, fn, arg);
	metric_scan_reset(m);
}
