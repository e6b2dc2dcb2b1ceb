/*
 * required: see required.h.
 *
 * A small parser of the common part of Perl's syntax. It may miss words, but it never names one that a match
 * can lack: whatever it does not know sets `unknown`, and then the pattern has no words.
 */
#include "common/classify/required.h"

#include <ctype.h>
#include <string.h>

#define WORD_MIN 3u /* bytes; shorter words are in too many lines */
#define DEEP_MAX 24 /* brackets in brackets */

struct choice { /* words of which each match has one; n 0: unknown */
	size_t n;
	struct word words[REQUIRED_MAX];
};

struct parser {
	const char *at;
	int unknown, deep;
};

/* ---- choices ---------------------------------------------------------------------------------------- */

static size_t shortest_word(const struct choice *c)
{
	size_t min = c->n ? WORD_MAX : 0;

	for (size_t i = 0; i < c->n; i++)
		min = strlen(c->words[i].text) < min ? strlen(c->words[i].text) : min;
	return min;
}

static int is_same_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	text += strspn(text, " ");
	return strncmp(text, word, n) == 0 && strspn(text + n, " ") == strlen(text + n);
}

/* Words that ordinary lines of training are full of are the last choice. */
static int is_common(const struct choice *c)
{
	static const char *const common[] = {"loss",  "info",   "error",    "rank",       "step", "time",
	                                     "warn",  "gpu",    "nccl",     "saved",      "save", "model",
	                                     "ckpt",  "number", "training", "checkpoint", "iter", "scale",
	                                     "batch", "epoch",  "shard",    "file",       "node", "server"};

	for (size_t i = 0; i < c->n; i++)
		for (size_t k = 0; k < sizeof(common) / sizeof(*common); k++)
			if (is_same_word(c->words[i].text, common[k]))
				return 1;
	return 0;
}

static void keep_better(struct choice *best, const struct choice *c)
{
	size_t was = shortest_word(best), now = shortest_word(c);

	if (now < WORD_MIN || (was && is_common(c) && !is_common(best)))
		return;
	if (now > was || (is_common(best) && !is_common(c)) || (now == was && c->n < best->n))
		*best = *c;
}

static void keep_run(struct choice *best, struct choice *run)
{
	keep_better(best, run);
	*run = (struct choice){0};
}

static int is_letter(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* "\\b": the word before it ends here, and the word after it begins here. */
static void keep_edge(struct choice *best, struct choice *run, char next)
{
	size_t n = strlen(run->words[0].text);

	run->words[0].ends = n && n < WORD_MAX && is_letter(run->words[0].text[n - 1]);
	keep_run(best, run);
	run->words[0].begins = is_letter(next) != 0;
}

static void add_char(struct choice *run, char c)
{
	size_t n = strlen(run->words[0].text);

	run->n = 1;
	if (n == WORD_MAX)
		return;
	run->words[0].text[n] = (char)tolower((unsigned char)c);
	run->words[0].text[n + 1] = '\0';
}

static void drop_char(struct choice *run, size_t len)
{
	if (len < WORD_MAX)
		run->words[0].text[len] = '\0';
	run->n = len > 0;
}

/* ---- syntax ----------------------------------------------------------------------------------------- */

/* Skips a repeat. Returns the fewest times: 1 without a repeat; *is: there was one. */
static unsigned read_repeat(struct parser *p, int *is)
{
	unsigned min = 1;
	const char *c = p->at;

	*is = 1;
	if (*c == '*' || *c == '?') {
		min = 0;
		c++;
	} else if (*c == '+') {
		c++;
	} else if (*c == '{' && isdigit((unsigned char)c[1])) {
		min = c[1] == '0' ? 0 : 1;
		c += strspn(c + 1, "0123456789,") + 1;
		if (*c++ != '}') {
			p->unknown = 1;
			return 0;
		}
	} else {
		*is = 0;
		return 1;
	}
	if (*c == '?' || *c == '+')
		c++;
	p->at = c;
	return min;
}

static void skip_set(struct parser *p)
{
	const char *c = p->at + 1;

	if (*c == '^')
		c++;
	if (*c == ']')
		c++;
	for (; *c && *c != ']'; c++) {
		if (*c == '[' && c[1] == ':') { /* [:alpha:] */
			c = strstr(c, ":]");
			if (!c) {
				p->unknown = 1;
				return;
			}
			c++;
		} else if (*c == '\\' && c[1])
			c++;
	}
	if (*c != ']')
		p->unknown = 1;
	p->at = *c ? c + 1 : c;
}

enum { KIND_OF_CHARACTERS = 0, PLACE = -1, EDGE_OF_WORD = -2 };

/* Returns the character that an escape stands for, or one of the above. */
static int read_escape(struct parser *p)
{
	char c = p->at[1];

	if (!c) {
		p->unknown = 1;
		return 0;
	}
	p->at += 2;
	if (ispunct((unsigned char)c))
		return c;
	if (c == 'b')
		return EDGE_OF_WORD;
	if (strchr("BAzZG", c))
		return PLACE;
	if (!strchr("dDwWsShHvVRXntrfea", c))
		p->unknown = 1;
	return KIND_OF_CHARACTERS;
}

static void read_choices(struct parser *p, struct choice *out);

/* Skips what follows a bracket. 1: the group says what is not there, so its words do not count. */
static int read_group_kind(struct parser *p)
{
	const char *c = p->at;

	if (*c != '?')
		return 0;
	c++;
	if (*c == ':' || *c == '>') {
		p->at = c + 1;
		return 0;
	}
	if (*c == '<' && (c[1] == '=' || c[1] == '!'))
		c++;
	if (*c == '=' || *c == '!') {
		p->at = c + 1;
		return *c == '!';
	}
	c += strspn(c, "i-");
	if (*c == ':')
		p->at = c + 1;
	else if (*c == ')')
		p->at = c;
	else
		p->unknown = 1;
	return 0;
}

static void read_group(struct parser *p, struct choice *out)
{
	int denies;

	p->at++;
	if (++p->deep > DEEP_MAX)
		p->unknown = 1;
	denies = read_group_kind(p);
	if (p->unknown)
		return;
	read_choices(p, out);
	if (*p->at == ')')
		p->at++;
	else
		p->unknown = 1;
	p->deep--;
	if (denies)
		out->n = 0;
}

/* One alternative: the best of its parts. */
static void read_sequence(struct parser *p, struct choice *best)
{
	struct choice run = {0}, group = {0};
	int c, repeated;
	size_t len;

	best->n = 0;
	while (*p->at && *p->at != '|' && *p->at != ')' && !p->unknown) {
		c = 0;
		group.n = 0;
		if (*p->at == '(')
			read_group(p, &group);
		else if (*p->at == '[')
			skip_set(p);
		else if (*p->at == '\\')
			c = read_escape(p);
		else if (*p->at == '^' || *p->at == '$')
			c = PLACE, p->at++;
		else
			c = *p->at == '.' ? 0 : (unsigned char)*p->at, p->at++;
		len = strlen(run.words[0].text);
		if (c > 0)
			add_char(&run, (char)c);
		else if (c == EDGE_OF_WORD)
			keep_edge(best, &run, *p->at);
		if (read_repeat(p, &repeated) == 0) {
			group.n = 0;
			if (c > 0)
				drop_char(&run, len);
		}
		if (c == 0 || repeated)
			keep_run(best, &run);
		keep_better(best, &group);
	}
	keep_run(best, &run);
}

static void read_choices(struct parser *p, struct choice *out)
{
	struct choice one;
	int open = 0; /* an alternative has no words */

	out->n = 0;
	do {
		if (*p->at == '|')
			p->at++;
		read_sequence(p, &one);
		open |= one.n == 0 || out->n + one.n > REQUIRED_MAX;
		for (size_t i = 0; i < one.n && !open; i++)
			out->words[out->n++] = one.words[i];
	} while (*p->at == '|' && !p->unknown);
	if (open)
		out->n = 0;
}

size_t required_words(const char *pattern, struct word *words)
{
	struct parser p = {.at = pattern};
	struct choice all;

	read_choices(&p, &all);
	if (p.unknown || *p.at)
		return 0;
	memcpy(words, all.words, all.n * sizeof(*words));
	return all.n;
}

size_t required_alternative(const char *pattern)
{
	struct parser p = {.at = pattern};
	struct choice one;

	read_sequence(&p, &one);
	return p.unknown || *p.at != '|' ? strlen(pattern) : (size_t)(p.at - pattern);
}
