/*
 * thread: the beginning and end of the API on an I/O thread, and the news that go to all threads.
 */
#include "controller/api/thread.h"

#include "common/base/xalloc.h"
#include "controller/api/api.h"
#include "controller/api/openapi.h"
#include "controller/files/data_threads.h"
#include "store/read/query.h"

/* ---- life ------------------------------------------------------------------------------------- */

/* Id of the newest event in the store: followers that ask for nothing older begin there. By bisection, since
 * ids rise. */
static int find_newest_event(struct api *a, const char *db_path, struct err *e)
{
	struct store_reader *r = store_reader_open(db_path, e);
	uint64_t lo = 0, hi = (uint64_t)1 << 53;

	if (!r)
		return -1;
	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		cJSON *page = store_events_json(r, 0, mid, 1, NULL);

		if (cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(page, "events")))
			lo = mid + 1;
		else
			hi = mid;
		cJSON_Delete(page);
	}
	store_reader_close(r);
	atomic_store(&a->notice_id, lo);
	return 0;
}

int api_init(struct api *a, const char *db_path, struct err *e)
{
	size_t n;
	const struct route *table = route_table(&n);

	a->openapi = openapi_text(table, n);
	return find_newest_event(a, db_path, e);
}

void api_fini(struct api *a)
{
	free(a->openapi);
	a->openapi = NULL;
}

void api_thread_begin(struct io *io, struct api *a)
{
	struct api_thread *t = xcalloc(1, sizeof(*t));

	io->api = t;
	t->api = a;
	t->names = auth_names_create();
	t->sse = sse_create(io);
	t->follow = follow_create(io);
}

void api_thread_stop(struct io *io)
{
	struct api_thread *t = io->api;

	sse_destroy(t->sse);
	t->sse = NULL;
	follow_destroy(t->follow);
	t->follow = NULL;
}

void api_thread_end(struct io *io)
{
	struct api_thread *t = io->api;

	if (!t)
		return;
	api_thread_stop(io);
	auth_names_destroy(t->names);
	free(t);
	io->api = NULL;
}

/* ---- news ------------------------------------------------------------------------------------- */

static void drop_event(void *arg)
{
	event_row_fini(arg);
	free(arg);
}

static void on_notice(struct io *io, void *arg)
{
	struct event_row *ev = arg;

	follow_notice(io, ev);
	sse_notice(io, ev);
}

void api_notice(struct api *a, const struct event_row *ev)
{
	/* Before the answer to the change leaves: whoever has it meets no thread that still knows the old token.
	 */
	if (strcmp(ev->type, "token_made") == 0 || strcmp(ev->type, "token_removed") == 0)
		auth_tokens_changed(a->auth);
	atomic_store(&a->notice_id, ev->id);
	for (unsigned i = 0; i < a->ios->n; i++) {
		struct io *io = &a->ios->io[i];
		struct event_row *copy;

		/* A follower first registers, then reads the store: one that is not seen here finds the event
		 * there. */
		if (!atomic_load(&io->api->listeners))
			continue;
		copy = xcalloc(1, sizeof(*copy));
		*copy = *ev;
		copy->type = xstrdup(ev->type);
		copy->data = xstrdup(ev->data);
		if (io_post(io, on_notice, copy, drop_event) < 0) {
			atomic_fetch_add(&io->api->notices_lost, 1); /* its followers will read the store */
			drop_event(copy);
		}
	}
}

void api_log_grown(struct api *a, unsigned io, struct log_grown *g)
{
	if (io < a->ios->n)
		io_post_wait(&a->ios->io[io], follow_grown, g, free);
	else
		free(g);
}
