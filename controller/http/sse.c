/*
 * sse: writing of server-sent events.
 */
#include "controller/http/sse.h"

#include <event2/buffer.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/strutil.h"
#include "controller/http/http.h"

#define RETRY_MS 1000

void sse_put(struct evbuffer *b, uint64_t id, const char *event, const char *data)
{
	const char *end;

	evbuffer_add_printf(b, "id: %" PRIu64 "\n", id);
	if (event)
		evbuffer_add_printf(b, "event: %s\n", event);
	for (;; data = end + 1) {
		end = strchrnul(data, '\n');
		evbuffer_add(b, "data: ", 6);
		evbuffer_add(b, data, (size_t)(end - data));
		evbuffer_add(b, "\n", 1);
		if (!*end)
			break;
	}
	evbuffer_add(b, "\n", 1);
}

void sse_comment(struct evbuffer *b, const char *text)
{
	evbuffer_add_printf(b, ": %s\n\n", text);
}

void sse_begin(struct call *c)
{
	struct evbuffer *b = evbuffer_new();

	call_add_header(c, "Cache-Control", "no-store, no-transform");
	call_add_header(c, "X-Accel-Buffering", "no"); /* nginx would hold events back */
	call_stream_start(c, 200, SSE_TYPE, -1);
	evbuffer_add_printf(b, "retry: %d\n\n", RETRY_MS);
	call_stream_put(c, b);
	evbuffer_free(b);
}

int sse_wanted(const struct call *c)
{
	const char *accept = call_header(c, "Accept");

	return accept && strstr(accept, "text/event-stream");
}

int sse_last_id(const struct call *c, uint64_t *id)
{
	const char *v = call_header(c, "Last-Event-ID");

	*id = 0;
	if (!v || !*v)
		return 0;
	return str_parse_u64(v, id) < 0 || *id > INT64_MAX ? -1 : 1;
}
