/* A text is built in pieces, is never longer than its buffer, and is cut between characters. */
#include <string.h>

#include "common/base/text.h"
#include "tests/lib/tap.h"

static void test_pieces(void)
{
	TEXT(t);

	ok(text_is_empty(&t), "a new text is empty");
	text_join(&t, ", ", "%d of %d nodes", 3, 4);
	text_join(&t, ", ", "%s is drained", "n1");
	text_add(&t, ".");
	is_str(t.at, "3 of 4 nodes, n1 is drained.", "pieces follow each other, with a separator between them");
	ok(t.len == strlen(t.at) && !text_is_cut(&t), "the length is known and nothing was cut");
	text_clear(&t);
	ok(text_is_empty(&t) && !*t.at, "a cleared text is empty");
}

static void test_bound(void)
{
	char buf[8];
	struct text t = text_on(buf, sizeof(buf));

	text_add(&t, "%s", "1234567");
	ok(!text_is_cut(&t) && t.len == 7, "a text that fits exactly is whole");
	text_add(&t, "8");
	ok(text_is_cut(&t), "one byte more is cut");
	is_str(buf, "1234567", "a cut text keeps its beginning");
	t = text_on(buf, sizeof(buf));
	text_add(&t, "123456789");
	text_add(&t, "x");
	is_str(buf, "1234567", "nothing is added behind a cut");
	t = text_on(buf, 1);
	text_add(&t, "x");
	ok(text_is_cut(&t) && !*buf, "a buffer of one byte holds the ending 0");
}

static void test_characters(void)
{
	char buf[8];
	struct text t = text_on(buf, sizeof(buf));

	text_add(&t, "12345\xe2\x82\xac");
	is_str(buf, "12345", "half a character is not left behind");
	t = text_on(buf, sizeof(buf));
	text_add(&t, "1234\xe2\x82\xac!");
	is_str(buf, "1234\xe2\x82\xac", "a whole character before the cut stays");
	t = text_on(buf, sizeof(buf));
	text_add(&t, "\x80\x80\x80\x80\x80\x80\x80\x80\x80");
	ok(text_is_cut(&t), "bytes that are no UTF-8 are cut like others");
}

int main(void)
{
	test_pieces();
	test_bound();
	test_characters();
	return tap_done();
}
