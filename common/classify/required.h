/*
 * required: the fixed words that every match of a pattern contains. A search for these words tells at once
 * that most patterns cannot match a line.
 */
#ifndef HEARTH_COMMON_CLASSIFY_REQUIRED_H
#define HEARTH_COMMON_CLASSIFY_REQUIRED_H

#include "common/classify/words.h"

#define REQUIRED_MAX 128u /* words of one pattern */

/* Writes words such that each match of the pattern contains one of them, in any case of letters. Returns
 * their number. 0: the pattern has no such words, or the parser does not know its syntax. */
size_t required_words(const char *pattern, struct word *words);
/* Length of the pattern's first alternative outside of all brackets. */
size_t required_alternative(const char *pattern);

#endif
