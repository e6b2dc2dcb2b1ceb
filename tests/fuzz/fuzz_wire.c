/*
 * fuzz_wire: bytes as a stream of frames. What decodes must encode to the same bytes again, copy and print.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/net/wire_msg.h"

static void check(const struct wire_frame *f, void *msg)
{
	char text[512];
	struct buf out;
	void *copy = wire_copy(f->type, msg);

	buf_init(&out, WIRE_HEADER_SIZE + WIRE_MAX_BODY);
	if (wire_encode(f->type, copy, f->id, &out, NULL) < 0 ||
	    buf_left(&out) != WIRE_HEADER_SIZE + (size_t)f->n ||
	    memcmp(buf_head(&out) + WIRE_HEADER_SIZE, f->body, f->n) != 0)
		abort();
	wire_text(f->type, msg, text, sizeof(text));
	wire_free(f->type, copy);
	buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_frame f;
	struct buf in;
	void *msg;

	buf_view(&in, data, size);
	while (wire_next(&in, &f, NULL) == 1) {
		if (wire_decode(f.type, f.body, f.n, &msg, NULL) < 0)
			continue;
		check(&f, msg);
		wire_free(f.type, msg);
	}
	return 0;
}
