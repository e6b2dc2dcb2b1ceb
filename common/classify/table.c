/*
 * table: see table.h.
 *
 * A rule is split at its outer "|", and each part is compiled alone: a search for words (words.h) then says
 * which few parts may match at all. Parts keep the order of the rules.
 */
#include "common/classify/table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/base/pattern.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "common/classify/required.h"
#include "common/net/wire_msg.h"

static const char builtin[] =
#include "common/classify/failure_patterns_gen.h"
    ;

#define LINE_STEPS 200000u /* of all searches in a line (pattern.h): some milliseconds */
#define XID_WORD   "XID "
/* A number of the driver: "Xid (PCI:0000:44:00): 79, ...", "Xid 79", "XID: 79". */
#define XID_HEAD "\\bXid\\b(?: error| code)?(?: \\([^)]*\\))?[:= ]+(?:"

#define V(e, t) t,
static const char *const verdict_names[] = {VERDICTS(V)};
#undef V
#define C(e, t) t,
static const char *const class_names[] = {REASON_CLASSES(C)};
#undef C

struct part { /* one alternative of a rule */
	struct pattern *pattern;
	uint32_t rule;
};

struct classify_table {
	struct line_finding *rules; /* texts are owned */
	size_t n_rules, rules_cap;
	struct part *parts;
	size_t n_parts, parts_cap;
	struct word *words;
	size_t n_words, words_cap;
	struct word_set *set;
	uint64_t *open; /* parts without words */
	size_t n_open, map_words;
};

struct classify_reader {
	const struct classify_table *t;
	struct pattern_scratch *scratch;
	uint64_t *found; /* parts that may match the present line */
	char plain[CLASSIFY_LINE_MAX];
};

const char *verdict_name(enum line_verdict v)
{
	return verdict_names[v];
}

static int find_name(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return (int)i;
	return -1;
}

int verdict_find(const char *name)
{
	return find_name(verdict_names, N_VERDICT, name);
}

/* ---- one rule --------------------------------------------------------------------------------------- */

static int add_part(struct classify_table *t, const char *text, size_t n, struct err *e)
{
	struct word words[REQUIRED_MAX];
	cleanup_free char *full = xasprintf("(?i)%.*s", (int)n, text);
	struct pattern *p = pattern_compile(full, e);
	size_t n_words;

	if (!p)
		return -1;
	pattern_speed_up(p);
	if (t->n_parts == t->parts_cap) {
		t->parts_cap = t->parts_cap ? 2 * t->parts_cap : 256;
		t->parts = xreallocarray(t->parts, t->parts_cap, sizeof(*t->parts));
	}
	t->parts[t->n_parts] = (struct part){.pattern = p, .rule = (uint32_t)t->n_rules};
	n_words = required_words(full, words);
	t->n_open += n_words == 0;
	for (size_t i = 0; i < n_words; i++) {
		if (t->n_words == t->words_cap) {
			t->words_cap = t->words_cap ? 2 * t->words_cap : 512;
			t->words = xreallocarray(t->words, t->words_cap, sizeof(*t->words));
		}
		words[i].owner = (uint32_t)t->n_parts;
		t->words[t->n_words++] = words[i];
	}
	t->n_parts++;
	return 0;
}

static int add_parts(struct classify_table *t, const char *pattern, struct err *e)
{
	size_t n;

	for (;;) {
		n = required_alternative(pattern);
		if (n == 0)
			return err_set(e, ERR_INVALID, "the pattern has an empty alternative, which matches every line");
		if (add_part(t, pattern, n, e) < 0)
			return -1;
		if (!pattern[n])
			return 0;
		pattern += n + 1;
	}
}

/* "XID 79 95": the numbers become one pattern. */
static char *xid_pattern(const char *numbers, struct err *e)
{
	char *text = xstrdup(""), *longer;
	const char *at = numbers;
	size_t n;

	do {
		at += strspn(at, " ");
		n = strspn(at, "0123456789");
		if (n == 0 || n > 5 || (at[n] && at[n] != ' ')) {
			free(text);
			err_set(e, ERR_INVALID, "'%.40s': expected numbers after XID", at);
			return NULL;
		}
		longer = xasprintf("%s%s%.*s", text, *text ? "|" : "", (int)n, at);
		free(text);
		text = longer;
		at += n;
	} while (at[strspn(at, " ")]);
	longer = xasprintf(XID_HEAD "%s)\\b", text);
	free(text);
	return longer;
}

static char *cut_word(char **at)
{
	char *word = *at += strspn(*at, " \t");

	*at += strcspn(*at, " \t");
	if (**at)
		*(*at)++ = '\0';
	return word;
}

static int cut_reason(char **at, char **reason, struct err *e)
{
	char *end;

	*at += strspn(*at, " \t");
	end = **at == '"' ? strchr(*at + 1, '"') : NULL;
	if (!end || end == *at + 1)
		return err_set(e, ERR_INVALID, "expected a reason in \"...\" after the class");
	*end = '\0';
	*reason = *at + 1;
	*at = end + 1 + strspn(end + 1, " \t");
	if (!**at)
		return err_set(e, ERR_INVALID, "expected a pattern after the reason");
	return 0;
}

static int add_rule(struct classify_table *t, char *line, struct err *e)
{
	char *verdict = cut_word(&line), *cls = cut_word(&line), *reason = NULL;
	cleanup_free char *xids = NULL;
	int v = verdict_find(verdict);
	int c = find_name(class_names, sizeof(class_names) / sizeof(*class_names), cls);

	if (v < 0)
		return err_set(
		    e, ERR_INVALID,
		    "unknown verdict '%.40s'; expected drain, move, rollback, user, requeue, record, symptom "
		    "or unknown",
		    verdict);
	if (c < 0 || !*cls)
		return err_set(e, ERR_INVALID,
		               "unknown class '%.40s'; expected one such as gpu, network or user_error", cls);
	if (cut_reason(&line, &reason, e) < 0)
		return -1;
	if (strncmp(line, XID_WORD, strlen(XID_WORD)) == 0) {
		xids = xid_pattern(line + strlen(XID_WORD), e);
		if (!xids)
			return -1;
	}
	if (t->n_rules == t->rules_cap) {
		t->rules_cap = t->rules_cap ? 2 * t->rules_cap : 128;
		t->rules = xreallocarray(t->rules, t->rules_cap, sizeof(*t->rules));
	}
	if (add_parts(t, xids ? xids : line, e) < 0)
		return -1;
	t->rules[t->n_rules++] = (struct line_finding){
	    .verdict = (enum line_verdict)v, .class_number = c, .cls = class_names[c], .reason = xstrdup(reason)};
	return 0;
}

/* ---- files ------------------------------------------------------------------------------------------ */

static int add_file(struct classify_table *t, const char *text, const char *name, struct err *e)
{
	cleanup_free char *copy = xstrdup(text);
	char *line = copy, *end;
	unsigned number = 0;

	for (; line; line = end) {
		end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		number++;
		line[strcspn(line, "\r")] = '\0';
		line += strspn(line, " \t");
		if (*line && *line != '#' && add_rule(t, line, e) < 0)
			return err_wrap(e, "%s: line %u", name, number);
	}
	return 0;
}

static int add_extra(struct classify_table *t, const char *text, const char *name, struct err *e)
{
	if (strlen(text) > CLASSIFY_FILE_MAX)
		return err_set(e, ERR_LIMIT, "%s has %zu bytes; at most %u are allowed", name, strlen(text),
		               CLASSIFY_FILE_MAX);
	if (add_file(t, text, name, e) < 0)
		return -1;
	if (t->n_rules > CLASSIFY_RULES)
		return err_set(e, ERR_LIMIT, "%s has %zu rules; at most %u are allowed", name, t->n_rules,
		               CLASSIFY_RULES);
	if (t->n_open > CLASSIFY_OPEN)
		return err_set(
		    e, ERR_LIMIT,
		    "%s has %zu patterns without three letters of fixed text; at most %u are allowed, because "
		    "each is tried on every line",
		    name, t->n_open, CLASSIFY_OPEN);
	return 0;
}

static void mark_open_parts(struct classify_table *t)
{
	t->map_words = (t->n_parts + 63) / 64;
	t->open = xcalloc(t->map_words, sizeof(*t->open));
	memset(t->open, 0xff, t->map_words * sizeof(*t->open));
	if (t->n_parts % 64)
		t->open[t->map_words - 1] = (UINT64_C(1) << (t->n_parts % 64)) - 1;
	for (size_t i = 0; i < t->n_words; i++)
		t->open[t->words[i].owner / 64] &= ~(UINT64_C(1) << (t->words[i].owner % 64));
}

struct classify_table *classify_table_create(const char *extra, const char *name, struct err *e)
{
	struct classify_table *t = xcalloc(1, sizeof(*t));

	if ((extra && add_extra(t, extra, name, e) < 0) || add_file(t, builtin, "the table of Hearth", e) < 0) {
		classify_table_destroy(t);
		return NULL;
	}
	mark_open_parts(t);
	t->set = word_set_create(t->words, t->n_words);
	free(t->words);
	t->words = NULL;
	return t;
}

void classify_table_destroy(struct classify_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_rules; i++)
		free((char *)(uintptr_t)t->rules[i].reason);
	for (size_t i = 0; i < t->n_parts; i++)
		pattern_destroy(t->parts[i].pattern);
	word_set_destroy(t->set);
	free(t->rules);
	free(t->parts);
	free(t->words);
	free(t->open);
	free(t);
}

size_t classify_table_rules(const struct classify_table *t)
{
	return t->n_rules;
}

/* ---- lines ------------------------------------------------------------------------------------------ */

struct classify_reader *classify_reader_create(const struct classify_table *t)
{
	struct classify_reader *r = xcalloc(1, sizeof(*r));

	r->t = t;
	r->scratch = pattern_scratch_create();
	r->found = xcalloc(t->map_words, sizeof(*r->found));
	return r;
}

void classify_reader_destroy(struct classify_reader *r)
{
	if (!r)
		return;
	pattern_scratch_destroy(r->scratch);
	free(r->found);
	free(r);
}

/* Copies a line without the colours of terminals: ESC [ ... letter. */
static size_t drop_colours(char *to, const char *line, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		if (line[i] != '\033') {
			to[len++] = line[i];
			continue;
		}
		if (i + 1 < n && line[i + 1] == '[')
			for (i += 2; i < n && !isalpha((unsigned char)line[i]); i++)
				;
	}
	return len;
}

static struct line_finding try_parts(struct classify_reader *r, const char *line, size_t n)
{
	const struct classify_table *t = r->t;
	struct pattern_hit hit;
	uint64_t bits, steps = 0;
	size_t i;

	for (size_t w = 0; w < t->map_words; w++)
		for (bits = r->found[w]; bits && steps < LINE_STEPS; bits &= bits - 1) {
			i = w * 64 + (size_t)__builtin_ctzll(bits);
			if (pattern_search(t->parts[i].pattern, r->scratch, line, n, &hit) == PATTERN_HIT)
				return t->rules[t->parts[i].rule];
			steps += hit.steps;
		}
	return (struct line_finding){
	    .verdict = VERDICT_UNKNOWN, .class_number = RC_UNKNOWN, .cls = "unknown", .reason = ""};
}

struct line_finding classify_line(struct classify_reader *r, const char *line, size_t n)
{
	const struct classify_table *t = r->t;
	struct line_finding none = {
	    .verdict = VERDICT_UNKNOWN, .class_number = RC_UNKNOWN, .cls = "unknown", .reason = ""};

	if (n > CLASSIFY_LINE_MAX)
		n = CLASSIFY_LINE_MAX;
	if (n && memchr(line, '\033', n)) {
		n = drop_colours(r->plain, line, n);
		line = r->plain;
	}
	memcpy(r->found, t->open, t->map_words * sizeof(*r->found));
	if (!word_set_find(t->set, line, n, r->found) && !t->n_open)
		return none;
	return try_parts(r, line, n);
}
