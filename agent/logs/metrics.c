/*
 * metrics: see metrics.h.
 */
#include "agent/logs/metrics.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/log.h"

#define NUMBER_MAX   64
#define RULE_EACH_US 1000000

struct one_pattern {
	char *name, *text;
	struct pattern *p; /* NULL: not compiled yet, or refused */
	uint64_t steps;
	unsigned gave_up;
	int is_step, off;
	int is_rule;      /* a line that it matches counts, without a number */
	uint64_t seen_us; /* of a rule: the last line that it matched */
};
struct metric_set {
	struct one_pattern *v;
	size_t n;
	struct pattern_scratch *scratch; /* NULL: nothing is compiled yet */
	uint64_t steps;
};

/* ---- patterns --------------------------------------------------------------------------------------------
 */

static int has_pattern(const struct job_spec *spec)
{
	for (size_t i = 0; i < spec->n_rules; i++)
		if (spec->rules[i].pattern)
			return 1;
	return 0;
}

struct metric_set *metric_set_create(const struct job_spec *spec)
{
	struct metric_set *s;

	if (!spec || (!spec->n_metrics && !has_pattern(spec)))
		return NULL;
	s = xcalloc(1, sizeof(*s));
	s->n = spec->n_metrics;
	s->v = xcalloc(s->n + spec->n_rules, sizeof(*s->v));
	for (size_t i = 0; i < s->n; i++)
		s->v[i] = (struct one_pattern){.name = xstrdup(spec->metrics[i].name),
		                               .text = xstrdup(spec->metrics[i].regex),
		                               .is_step = strcmp(spec->metrics[i].name, "step") == 0};
	for (size_t i = 0; i < spec->n_rules; i++)
		if (spec->rules[i].pattern)
			s->v[s->n++] = (struct one_pattern){.name = xasprintf(RULE_METRIC "%s", spec->rules[i].name),
			                                    .text = xstrdup(spec->rules[i].pattern),
			                                    .is_rule = 1};
	return s;
}

static void compile_patterns(struct metric_set *s)
{
	struct err e;

	s->scratch = pattern_scratch_create();
	for (size_t i = 0; i < s->n; i++) {
		s->v[i].p = pattern_compile(s->v[i].text, &e);
		if (s->v[i].p)
			pattern_speed_up(s->v[i].p);
		else /* hearthd checked it with its own PCRE2: another version here */
			log_warn("event=pattern_refused metric=%s reason=\"%s\"", s->v[i].name, e.text);
	}
}

void metric_set_destroy(struct metric_set *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].name);
		free(s->v[i].text);
		pattern_destroy(s->v[i].p);
	}
	pattern_scratch_destroy(s->scratch);
	free(s->v);
	free(s);
}

size_t metric_set_count(const struct metric_set *s)
{
	return s->n;
}

size_t metric_set_on(const struct metric_set *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += !s->v[i].off;
	return n;
}

void metric_set_switch_off(struct metric_set *s, size_t i)
{
	s->v[i].off = 1;
}

int metric_set_costliest(const struct metric_set *s)
{
	uint64_t most = 0;
	int found = -1;

	for (size_t i = 0; i < s->n; i++)
		if (!s->v[i].off && s->v[i].steps > most) {
			most = s->v[i].steps;
			found = (int)i;
		}
	return found;
}

uint64_t metric_set_steps(const struct metric_set *s)
{
	return s->steps;
}

void metric_set_forget_cost(struct metric_set *s)
{
	for (size_t i = 0; i < s->n; i++)
		s->v[i].steps = 0;
}

struct metric_pattern metric_set_pattern(const struct metric_set *s, size_t i)
{
	const struct one_pattern *p = &s->v[i];

	return (struct metric_pattern){
	    .metric = p->name, .text = p->text, .off = p->off, .gave_up = p->gave_up, .steps = p->steps};
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

/* Returns 1 when the pattern found a number, or is a rule's and matched. A rule counts one line a second. */
static int match_pattern(struct metric_set *s, struct one_pattern *p, const char *line, size_t n,
                         uint64_t at_us, double *value)
{
	struct pattern_hit hit;
	enum pattern_found found;

	if (p->off || !p->p || (p->is_rule && at_us < p->seen_us + RULE_EACH_US && at_us >= p->seen_us))
		return 0;
	found = pattern_search(p->p, s->scratch, line, n, &hit);
	p->steps += hit.steps;
	s->steps += hit.steps;
	if (found == PATTERN_GAVE_UP && ++p->gave_up >= METRIC_GIVE_UP)
		p->off = 1;
	if (p->is_rule && found == PATTERN_HIT) {
		p->seen_us = at_us;
		*value = 1;
		return 1;
	}
	return found == PATTERN_HIT && hit.group && parse_number(hit.group, hit.n, value) == 0;
}

static void find_patterns(struct metric_scan *m, const char *line, size_t n, uint64_t at_us, metric_fn fn,
                          void *arg)
{
	struct metric_set *s = m->set;
	struct metric_point p = {.at_us = at_us};

	if (!s->scratch)
		compile_patterns(s);
	for (int pass = 0; pass < 2; pass++) /* the step first: it may stand behind the others in the line */
		for (size_t i = 0; i < s->n; i++) {
			if (s->v[i].is_step == pass || !match_pattern(s, &s->v[i], line, n, at_us, &p.value))
				continue;
			if (s->v[i].is_step && isfinite(p.value) && fabs(p.value) < 9e15)
				m->step = (int64_t)p.value;
			p.name = s->v[i].name;
			p.step = m->step;
			fn(&p, arg);
		}
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

static void read_json(struct metric_scan *m, const char *line, size_t n, uint64_t at_us, metric_fn fn,
                      void *arg)
{
	struct metric_point p = {.at_us = at_us};
	cleanup_free char *text = NULL;
	const cJSON *item;
	cJSON *root;
	size_t text_n;

	text = quote_specials(line, n, &text_n);
	root = json_parse(text, text_n, NULL);
	if (!cJSON_IsObject(root)) {
		m->bad++;
		cJSON_Delete(root);
		return;
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
	}
	cJSON_Delete(root);
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

static size_t line_max(const struct metric_scan *m)
{
	return m->set ? METRIC_LINE_MAX : METRIC_JSON_MAX;
}

static void scan_line(struct metric_scan *m, const char *line, size_t n, uint64_t at_us, metric_fn fn,
                      void *arg)
{
	if (n == 0)
		return;
	if (n > line_max(m))
		n = line_max(m);
	if (m->set)
		find_patterns(m, line, n, at_us, fn, arg);
	else
		read_json(m, line, n, at_us, fn, arg);
}

static void keep_unfinished(struct metric_scan *m, const char *p, size_t n)
{
	size_t room = line_max(m) - m->n, part = n < room ? n : room;

	if (!m->line)
		m->line = xmalloc(line_max(m));
	memcpy(m->line + m->n, p, part);
	m->n += part;
	m->long_by += n - part;
}

/* Returns the end of the line that begins at p. *nl: the first newline at or behind p, or `end`; it is found
 * again only when p has passed it, so that a feed of empty lines is read once. */
static const char *line_end(const char *p, const char *end, const char **nl)
{
	const char *cr;

	if (!*nl || *nl < p) {
		*nl = memchr(p, '\n', (size_t)(end - p));
		*nl = *nl ? *nl : end;
	}
	cr = memchr(p, '\r', (size_t)(*nl - p));
	return cr ? cr : *nl < end ? *nl : NULL;
}

size_t metric_scan_feed(struct metric_scan *m, const char *p, size_t n, uint64_t at_us, metric_fn fn,
                        int (*stop)(void *), void *arg)
{
	const char *at = p, *end, *nl = NULL;

	while ((end = line_end(at, p + n, &nl))) {
		if (metric_scan_pending(m)) {
			keep_unfinished(m, at, (size_t)(end - at));
			scan_line(m, m->line, m->n, at_us, fn, arg);
			metric_scan_reset(m);
		} else {
			scan_line(m, at, (size_t)(end - at), at_us, fn, arg);
		}
		at = end + 1;
		if (stop && stop(arg))
			return (size_t)(at - p);
	}
	if ((size_t)(at - p) < n)
		keep_unfinished(m, at, n - (size_t)(at - p));
	return n;
}

void metric_scan_end(struct metric_scan *m, uint64_t at_us, metric_fn fn, void *arg)
{
	if (m->n)
		scan_line(m, m->line, m->n, at_us, fn, arg);
	metric_scan_reset(m);
}
