/*
 * loglines: see loglines.h. Each line has the offset of its first byte, so that a reader can continue behind
 * the last line.
 */
#include "jobctl/show/loglines.h"

#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"

struct loglines {
	FILE *out;
	struct grep *only;
	uint64_t attempt, offset; /* of the line that is not complete yet */
	char *stream;
	size_t n;
	int open, cut;
	char line[LOGLINES_MAX];
};

struct loglines *loglines_create(FILE *out, struct grep *only)
{
	struct loglines *l = xmalloc(sizeof(*l));
	l->out = out;
	l->only = only;
	l->stream = NULL;
	l->n = 0;
	l->open = l->cut = 0;
	return l;
}

static cJSON *make_place(uint64_t attempt, const char *stream, uint64_t offset)
{
	cJSON *o = cJSON_CreateObject();
	cJSON_AddNumberToObject(o, "attempt", (double)attempt);
	cJSON_AddStringToObject(o, "stream", stream);
	json_add_u64(o, "offset", offset);
	return o;
}

/* Prints and takes o. */
static void print_object(const struct loglines *l, cJSON *o)
{
	char *text = json_text(o);
	fprintf(l->out, "%s\n", text);
	free(text);
	cJSON_Delete(o);
}

void loglines_end(struct loglines *l)
{
	if (l->open && (!l->only || grep_matches(l->only, l->line, l->n))) {
		cJSON *o = make_place(l->attempt, l->stream, l->offset);
		char *text = str_to_utf8(l->line, l->n);
		cJSON_AddStringToObject(o, "text", text);
		if (l->cut)
			cJSON_AddTrueToObject(o, "cut");
		print_object(l, o);
		free(text);
	}
	l->n = 0;
	l->open = l->cut = 0;
}

static void begin_line(struct loglines *l, uint64_t attempt, const char *stream, uint64_t offset)
{
	if (l->open)
		return;
	l->open = 1;
	l->attempt = attempt;
	l->offset = offset;
	if (!l->stream || strcmp(l->stream, stream) != 0) {
		free(l->stream);
		l->stream = xstrdup(stream);
	}
}

void loglines_feed(struct loglines *l, uint64_t attempt, const char *stream, uint64_t offset, const char *p,
                   size_t n)
{
	while (n) {
		const char *nl = memchr(p, '\n', n);
		size_t k = nl ? (size_t)(nl - p) : n, room = sizeof(l->line) - l->n, take = k < room ? k : room;
		begin_line(l, attempt, stream, offset);
		memcpy(l->line + l->n, p, take);
		l->n += take;
		l->cut |= take < k;
		if (nl) {
			loglines_end(l);
			k++;
		}
		p += k;
		offset += k;
		n -= k;
	}
}

void loglines_lost(struct loglines *l, uint64_t attempt, const char *stream, uint64_t offset, uint64_t lost)
{
	loglines_end(l); /* the lost bytes are the rest of that line */
	cJSON *o = make_place(attempt, stream, offset);
	json_add_u64(o, "lost", lost);
	print_object(l, o);
}

void loglines_destroy(struct loglines *l)
{
	if (!l)
		return;
	free(l->stream);
	free(l);
}
