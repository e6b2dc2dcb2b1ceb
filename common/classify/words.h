/*
 * words: finds which of many fixed words are in a line, in one pass over the line and without regard to the
 * case of ASCII letters (the algorithm of Aho and Corasick, as one table of states).
 *
 * The cost of a line does not depend on the number of words. A set never changes, so threads may share it.
 */
#ifndef HEARTH_COMMON_CLASSIFY_WORDS_H
#define HEARTH_COMMON_CLASSIFY_WORDS_H

#include <stddef.h>
#include <stdint.h>

#define WORD_MAX 12u /* bytes of a word that are searched; a longer one is cut */

struct word {
	char text[WORD_MAX + 1]; /* lower case */
	uint8_t begins, ends;    /* no letter, digit or _ may be before it, after it */
	uint32_t owner;          /* reported when the word is found */
};

struct word_set;
struct word_set *word_set_create(const struct word *words, size_t n);
void word_set_destroy(struct word_set *s);
/* Sets bit `owner` of `found` for each word in the line. Returns whether it set one. */
int word_set_find(const struct word_set *s, const char *line, size_t n, uint64_t *found);

#endif
