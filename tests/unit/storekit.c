#include "tests/unit/storekit.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "tests/lib/tap.h"

void kit_reopen(struct kit *k)
{
	struct store_config c = {.path = k->path, .clock = k->clock};
	struct err e;

	if (!k->loop)
		k->loop = loop_create();
	k->store = store_open(&c, k->loop, &e);
	if (!k->store)
		tap_bail("store_open: %s", e.text);
}

void kit_open(struct kit *k, const char *name)
{
	memset(k, 0, sizeof(*k));
	snprintf(k->path, sizeof(k->path), "%s/%s.db", tap_tmpdir(), name);
	k->clock = clock_real();
	kit_reopen(k);
}

void kit_close(struct kit *k)
{
	store_close(k->store);
	k->store = NULL;
	if (k->loop)
		loop_destroy(k->loop);
	k->loop = NULL;
}

void kit_wait(struct kit *k, int (*done)(void *arg), void *arg, const char *what)
{
	uint64_t end = clock_boot_us(clock_real()) + 20000000;

	while (!done(arg)) {
		if (clock_boot_us(clock_real()) > end)
			tap_bail("waited 20 s for %s", what);
		loop_run_once(k->loop, 20);
	}
}

struct waited {
	int done, rc;
	struct err *e;
};

static void on_done(int rc, const struct err *e, void *arg)
{
	struct waited *w = arg;

	w->done = 1;
	w->rc = rc;
	if (rc < 0 && w->e)
		*w->e = *e;
}

static int is_done(void *arg)
{
	return ((struct waited *)arg)->done;
}

void kit_on_result(int rc, const struct err *e, void *result)
{
	struct kit_result *r = result;

	r->done = 1;
	r->rc = rc;
	r->code = e ? e->code : ERR_NONE;
}

int kit_commit(struct kit *k, struct store_txn *t, struct err *e)
{
	struct waited w = {.e = e};

	if (store_commit(k->store, t, on_done, &w, e) < 0) {
		store_txn_free(t);
		return -1;
	}
	kit_wait(k, is_done, &w, "a commit");
	return w.rc;
}

static int is_projected(void *arg)
{
	struct store_stats st;

	store_stats(((struct kit *)arg)->store, &st);
	return st.projected_event == st.last_event;
}

void kit_wait_projected(struct kit *k)
{
	kit_wait(k, is_projected, k, "the projections");
}

struct job_row kit_job(uint64_t id)
{
	return (struct job_row){
	    .id = id,
	    .name = (char *)"digits",
	    .owner = (char *)"alice",
	    .experiment = (char *)"exp",
	    .notes = (char *)"",
	    .status = (char *)"queued",
	    .queue = (char *)"default",
	    .spec = (char *)KIT_SPEC,
	    .run = (char *)"{\"git\":\"abc\"}",
	    .created_us = KIT_T0 + id,
	    .queued_us = KIT_T0 + id,
	    .exit_code = -1,
	    .reason = (char *)"",
	    .wanted = (char *)"",
	    .epoch = 1,
	    .nodes = 2,
	    .gpus = 2,
	    .cleanup = (char *)"",
	};
}

struct event_row kit_event(uint64_t id, uint64_t job, char *type)
{
	return (struct event_row){
	    .id = id, .job = job, .at_us = KIT_T0 + id, .type = type, .data = (char *)"{\"a\":1}"};
}

void kit_submit(struct kit *k, uint64_t id, const char *spec)
{
	struct store_txn *t = store_txn_new();
	struct job_row r = kit_job(id);
	struct event_row ev = kit_event(id, id, (char *)"submitted");
	struct err e;

	if (spec)
		r.spec = (char *)(uintptr_t)spec;
	store_txn_event(t, &ev);
	store_txn_job(t, &r);
	if (kit_commit(k, t, &e) < 0)
		tap_bail("submit: %s", e.text);
}

struct store_reader *kit_reader(struct kit *k)
{
	struct err e;
	struct store_reader *r = store_reader_open(k->path, &e);

	if (!r)
		tap_bail("store_reader_open: %s", e.text);
	return r;
}
