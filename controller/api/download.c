/*
 * download: sending the parts. When a blob vanishes in the middle, the connection ends, so that the reader
 * sees an incomplete answer.
 */
#include "controller/api/download.h"

#include <errno.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/files/blobs/blobstore.h"
#include "controller/http/http.h"

#define PIECE     (256u * 1024)
#define QUEUE_MAX (512u * 1024)

struct download {
	struct call *call; /* held */
	struct blobstore *bs;
	struct part *parts;
	size_t n, at;  /* parts, and the one in work */
	uint64_t done; /* of that part */
	int fd;        /* of its blob, -1 not open */
};

int download_range(const char *header, uint64_t size, uint64_t *first, uint64_t *count)
{
	char a[24], b[24];
	uint64_t lo = 0, hi = 0;
	const char *dash;

	if (!header || strncmp(header, "bytes=", 6) != 0 || strchr(header, ','))
		return 0;
	header += 6;
	dash = strchr(header, '-');
	if (!dash || dash - header >= (ptrdiff_t)sizeof(a) || strlen(dash + 1) >= sizeof(b))
		return 0;
	memcpy(a, header, (size_t)(dash - header));
	a[dash - header] = '\0';
	memcpy(b, dash + 1, strlen(dash + 1) + 1);
	if ((*a && str_parse_u64(a, &lo) < 0) || (*b && str_parse_u64(b, &hi) < 0) || (!*a && !*b))
		return 0;
	if (!*a) { /* the last hi bytes */
		if (hi == 0 || size == 0)
			return -1;
		*first = hi < size ? size - hi : 0;
		*count = size - *first;
		return 1;
	}
	if (*b && hi < lo)
		return 0;
	if (lo >= size)
		return -1;
	*first = lo;
	*count = *b && hi < size ? hi - lo + 1 : size - lo;
	return 1;
}

static void free_download(struct download *d)
{
	if (d->fd >= 0)
		close(d->fd);
	d->call->on_gone = d->call->on_drain = NULL;
	call_drop(d->call);
	free(d->parts);
	free(d);
}

/* -1: failed; 0: all is sent; 1: more to send. */
static int send_piece(struct download *d, char *piece)
{
	struct part *p = &d->parts[d->at];
	uint64_t left = p->length - d->done, size;
	struct evbuffer *b;
	ssize_t n;

	if (d->fd < 0)
		d->fd = blobstore_open_blob(d->bs, NULL, p->digest, &size, NULL);
	if (d->fd < 0)
		return -1;
	do
		n = pread(d->fd, piece, left < PIECE ? (size_t)left : PIECE, (off_t)(p->offset + d->done));
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -1;
	b = evbuffer_new();
	evbuffer_add(b, piece, (size_t)n);
	call_stream_put(d->call, b);
	evbuffer_free(b);
	d->done += (uint64_t)n;
	return 1;
}

static void pump_parts(struct download *d)
{
	static _Thread_local char piece[PIECE];
	struct call *c;

	while (call_stream_queued(d->call) < QUEUE_MAX) {
		while (d->at < d->n && d->done == d->parts[d->at].length) {
			if (d->fd >= 0)
				close(d->fd);
			d->fd = -1;
			d->at++;
			d->done = 0;
		}
		if (d->at < d->n && send_piece(d, piece) > 0)
			continue;
		c = call_hold(d->call);
		if (d->at < d->n) {
			free_download(d);
			call_stream_abort(c);
		} else {
			free_download(d);
			call_stream_end(c);
		}
		call_drop(c);
		return;
	}
}

static void on_drain(struct call *c)
{
	pump_parts(c->state);
}

static void on_gone(struct call *c)
{
	free_download(c->state);
}

/* Cuts the parts to the bytes first .. first + count. */
static void clip_parts(struct part *parts, size_t n, uint64_t first, uint64_t count)
{
	size_t i;

	for (i = 0; i < n; i++) {
		uint64_t skip = first < parts[i].length ? first : parts[i].length;

		first -= skip;
		parts[i].offset += skip;
		parts[i].length -= skip;
		if (parts[i].length > count)
			parts[i].length = count;
		count -= parts[i].length;
	}
}

void download_start(struct call *c, struct blobstore *bs, struct part *parts, size_t n, const char *name)
{
	uint64_t size = 0, first = 0, count;
	struct download *d;
	char text[96];
	size_t i;
	int ranged;

	for (i = 0; i < n; i++)
		size += parts[i].length;
	count = size;
	ranged = download_range(call_header(c, "Range"), size, &first, &count);
	if (ranged < 0) {
		free(parts);
		snprintf(text, sizeof(text), "bytes */%" PRIu64, size);
		call_add_header(c, "Content-Range", text);
		call_problem(c, 416, NULL, "it has %" PRIu64 " bytes", size);
		return;
	}
	if (ranged > 0) {
		clip_parts(parts, n, first, count);
		snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first, first + count - 1,
		         size);
		call_add_header(c, "Content-Range", text);
	}
	if (name && !strpbrk(name, "\"\\")) {
		cleanup_free char *disposition = xasprintf("attachment; filename=\"%s\"", name);

		call_add_header(c, "Content-Disposition", disposition);
	}
	call_add_header(c, "Accept-Ranges", "bytes");
	d = xcalloc(1, sizeof(*d));
	d->call = call_hold(c);
	d->bs = bs;
	d->parts = parts;
	d->n = n;
	d->fd = -1;
	c->state = d;
	c->on_gone = on_gone;
	c->on_drain = on_drain;
	call_stream_start(c, ranged > 0 ? 206 : 200, "application/octet-stream", (int64_t)count);
	pump_parts(d);
}
