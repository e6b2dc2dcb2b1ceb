/*
 * log_events: cutting at the marks of the side index. Bytes that are not UTF-8 are shown as U+FFFD; the raw
 * endpoint gives them as they are.
 */
#include "controller/api/log_events.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/files/logs/logstore.h"
#include "controller/http/sse.h"

size_t log_events_cut(const char *p, size_t n)
{
	size_t k;

	for (k = 1; k <= 3 && k <= n; k++) {
		unsigned char c = (unsigned char)p[n - k];

		if ((c & 0xc0) == 0x80)
			continue;
		return str_utf8_length(c) > k ? k : 0;
	}
	return 0;
}

static void put_one(struct evbuffer *b, uint64_t offset, uint64_t at_us, uint32_t fd, const char *p, size_t n)
{
	cJSON *o = cJSON_CreateObject();
	char *text = str_to_utf8(p, n), *line;

	json_add_u64(o, "offset", offset);
	json_add_time(o, "time", at_us);
	cJSON_AddNumberToObject(o, "fd", fd);
	cJSON_AddStringToObject(o, "text", text);
	line = json_text(o);
	sse_put(b, offset + n, NULL, line);
	free(line);
	free(text);
	cJSON_Delete(o);
}

size_t log_events_put(struct evbuffer *b, const char *dir, uint64_t job, uint32_t attempt, const char *stream,
                      uint64_t offset, const char *p, size_t n)
{
	struct log_mark *marks = NULL;
	size_t n_marks = 0, i = 0, done = 0, cut = log_events_cut(p, n);
	uint64_t at_us = 0;
	uint32_t fd = 1;

	if (cut < n)
		n -= cut;
	logstore_marks(dir, job, attempt, stream, offset, n, &marks, &n_marks, NULL);
	while (done < n) {
		uint64_t at = offset + done, end = offset + n;

		for (; i < n_marks && marks[i].offset <= at; i++) {
			at_us = marks[i].at_us;
			fd = marks[i].fd;
		}
		if (i < n_marks && marks[i].offset < end)
			end = marks[i].offset;
		put_one(b, at, at_us, fd, p + done, (size_t)(end - at));
		done = (size_t)(end - offset);
	}
	free(marks);
	return n;
}

void log_events_note(struct evbuffer *b, uint64_t id, const char *text)
{
	cJSON *o = cJSON_CreateObject();
	char *line;

	cJSON_AddStringToObject(o, "text", text);
	line = json_text(o);
	sse_put(b, id, "skipped", line);
	free(line);
	cJSON_Delete(o);
}
