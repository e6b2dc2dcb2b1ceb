/*
 * words: see words.h.
 */
#include "common/classify/words.h"

#include <ctype.h>
#include <string.h>

#include "common/base/xalloc.h"

struct word_set {
	uint8_t column[256]; /* of a byte in the table; bytes that no word has share column 0 */
	uint32_t columns, states;
	uint32_t *next;    /* state after a byte: next[state * columns + column] */
	uint32_t *first;   /* 1 + the first of the words that end in a state; 0: none */
	uint32_t *shorter; /* the state of the longest shorter word that ends here; 0: none */
	struct word *words;
	uint32_t *same_end; /* by word: 1 + the next word with the same text */
};

static void choose_columns(struct word_set *s, const struct word *words, size_t n)
{
	s->columns = 1;
	for (size_t i = 0; i < n; i++)
		for (const char *c = words[i].text; *c; c++)
			if (!s->column[(uint8_t)*c])
				s->column[(uint8_t)*c] = (uint8_t)s->columns++;
	for (int c = 'A'; c <= 'Z'; c++)
		s->column[c] = s->column[c - 'A' + 'a'];
}

/* Builds the trie; 0 means "no such branch" until link_states fills the gaps. */
static void add_word(struct word_set *s, const struct word *w, uint32_t i)
{
	uint32_t at = 0, *to;

	for (const char *c = w->text; *c; c++) {
		to = &s->next[(size_t)at * s->columns + s->column[(uint8_t)*c]];
		if (!*to)
			*to = s->states++;
		at = *to;
	}
	s->same_end[i] = s->first[at];
	s->first[at] = i + 1;
}

/* Fills the gaps breadth first: a missing branch goes where the longest proper suffix of the state goes. */
static void link_states(struct word_set *s)
{
	uint32_t *queue = xcalloc(s->states, sizeof(*queue)), *suffix = xcalloc(s->states, sizeof(*suffix));
	uint32_t head = 0, tail = 0, at, *to, back;

	queue[tail++] = 0;
	while (head < tail) {
		at = queue[head++];
		for (uint32_t c = 0; c < s->columns; c++) {
			to = &s->next[(size_t)at * s->columns + c];
			back = at ? s->next[(size_t)suffix[at] * s->columns + c] : 0;
			if (!*to) {
				*to = back;
				continue;
			}
			suffix[*to] = back;
			s->shorter[*to] = s->first[back] ? back : s->shorter[back];
			queue[tail++] = *to;
		}
	}
	free(queue);
	free(suffix);
}

struct word_set *word_set_create(const struct word *words, size_t n)
{
	struct word_set *s = xcalloc(1, sizeof(*s));
	size_t states = 1;

	for (size_t i = 0; i < n; i++)
		states += strlen(words[i].text);
	choose_columns(s, words, n);
	s->next = xcalloc(states * s->columns, sizeof(*s->next));
	s->first = xcalloc(states, sizeof(*s->first));
	s->shorter = xcalloc(states, sizeof(*s->shorter));
	s->words = xcalloc(n + 1, sizeof(*s->words));
	if (n)
		memcpy(s->words, words, n * sizeof(*words));
	s->same_end = xcalloc(n + 1, sizeof(*s->same_end));
	s->states = 1;
	for (size_t i = 0; i < n; i++)
		add_word(s, &words[i], (uint32_t)i);
	link_states(s);
	return s;
}

void word_set_destroy(struct word_set *s)
{
	if (!s)
		return;
	free(s->next);
	free(s->first);
	free(s->shorter);
	free(s->words);
	free(s->same_end);
	free(s);
}

static int is_letter(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Reports the words that end before byte `end` of the line. Returns whether there is one. */
static int report_words(const struct word_set *s, uint32_t at, const char *line, size_t n, size_t end,
                        uint64_t *found)
{
	const struct word *w;
	size_t begin;
	int some = 0;

	for (; at; at = s->shorter[at])
		for (uint32_t i = s->first[at]; i; i = s->same_end[i - 1]) {
			w = &s->words[i - 1];
			begin = end - strlen(w->text);
			if ((w->ends && end < n && is_letter(line[end])) ||
			    (w->begins && begin && is_letter(line[begin - 1])))
				continue;
			found[w->owner / 64] |= UINT64_C(1) << (w->owner % 64);
			some = 1;
		}
	return some;
}

int word_set_find(const struct word_set *s, const char *line, size_t n, uint64_t *found)
{
	uint32_t at = 0;
	int some = 0;

	for (size_t i = 0; i < n; i++) {
		at = s->next[(size_t)at * s->columns + s->column[(uint8_t)line[i]]];
		if (s->first[at] || s->shorter[at])
			some |= report_words(s, at, line, n, i + 1, found);
	}
	return some;
}
