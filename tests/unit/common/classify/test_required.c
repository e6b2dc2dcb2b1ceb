/* required: the words that each match of a pattern contains; words: the search for them. */
#include "common/classify/required.h"

#include <stdio.h>
#include <string.h>

#include "common/base/text.h"
#include "tests/lib/tap.h"

/* Returns the words, with "<" and ">" where a word must begin or end. */
static const char *words_of(const char *pattern)
{
	static char out[4096];
	struct word words[REQUIRED_MAX];
	size_t n = required_words(pattern, words);
	struct text t = text_on(out, sizeof(out));

	for (size_t i = 0; i < n; i++)
		text_join(&t, ",", "%s%s%s", words[i].begins ? "<" : "", words[i].text, words[i].ends ? ">" : "");
	return out;
}

static void test_patterns(void)
{
	is_str(words_of("CUDA out of"), "cuda out of", "fixed text, in lower case");
	is_str(words_of("abcdefghijklmnopqrst"), "abcdefghijkl", "a long word is cut");
	is_str(words_of("foo.*elephant"), "elephant", "the longest run counts");
	is_str(words_of("colou?red"), "colo", "an optional letter ends a run");
	is_str(words_of("abcd+efg"), "abcd", "a repeated letter ends a run");
	is_str(words_of("abc{0,3}defg"), "defg", "a letter that may be missing is not required");
	is_str(words_of("(?:foo|quux) x"), "foo,quux", "one word of each alternative");
	is_str(words_of("(?:foo|qu)"), "", "an alternative with a short word: none");
	is_str(words_of("(?:elephant)?mouse"), "mouse", "an optional group is not required");
	is_str(words_of("(?!elephant)mouse"), "mouse", "a negative look-ahead is not required");
	is_str(words_of("(?=.*elephant)mou"), "elephant", "a positive look-ahead is");
	is_str(words_of("[elephant]+mouse"), "mouse", "a set has no word");
	is_str(words_of("[]abc]mouse"), "mouse", "a set with a bracket in it");
	is_str(words_of("[[:alpha:]]mouse"), "mouse", "a set with a class in it");
	is_str(words_of("a\\.b\\(c"), "a.b(c", "escaped punctuation is text");
	is_str(words_of("abc\\d\\wxyzzy"), "xyzzy", "an escaped letter is a kind of characters");
	is_str(words_of("\\binf\\b"), "<inf>", "edges of a word");
	is_str(words_of("elephant|\\d"), "", "an outer alternative without a word: none");
	is_str(words_of("loss .*diverged"), "diverged", "a word of ordinary lines is the last choice");
	is_str(words_of("(?i)(?-i:Killed)"), "killed", "flags");
	is_str(words_of("(?x)a b c d"), "", "unknown flags: none");
	is_str(words_of("abcdef\\1"), "", "unknown escapes: none");
	is_str(words_of("abc(def"), "", "a broken pattern: none");
	is_int(required_alternative("a(b|c)[|]\\||d"), 11, "the first outer alternative");
}

static int found(const char *word, const char *line)
{
	struct word words[REQUIRED_MAX];
	size_t n = required_words(word, words);
	struct word_set *s;
	uint64_t bits = 0;
	int some;

	for (size_t i = 0; i < n; i++)
		words[i].owner = (uint32_t)i;
	s = word_set_create(words, n);
	some = word_set_find(s, line, strlen(line), &bits);
	word_set_destroy(s);
	return some && bits;
}

static void test_search(void)
{
	ok(found("elephant", "an ELEPHANT"), "any case");
	ok(!found("elephant", "an elephan"), "not a part of a word");
	ok(found("(?:she|hers|his)", "ushers"), "a word inside another");
	ok(found("(?:abcdef|bcd)", "xabcdx"), "a shorter word after a longer one failed");
	ok(found("\\binf\\b", "loss=inf"), "a whole word at the end");
	ok(found("\\binf\\b", "inf "), "a whole word at the beginning");
	ok(!found("\\binf\\b", "INFO train"), "a word that goes on");
	ok(!found("\\binf\\b", "ainf"), "a word that began before");
}

int main(void)
{
	test_patterns();
	test_search();
	return tap_done();
}
