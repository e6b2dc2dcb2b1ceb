/* Reports that are kept until acknowledged. */
#include <stdlib.h>

#include "agent/link/outbox.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "tests/lib/tap.h"

static uint64_t ids[64];
static uint64_t jobs[64];
static unsigned n_sent, n_acked;
static int connected = 1;

static int on_send(uint16_t type, const void *msg, uint64_t id, void *arg)
{
	(void)type;
	(void)arg;
	if (!connected)
		return -1;
	jobs[n_sent] = ((const struct wm_launch_report *)msg)->state;
	ids[n_sent++] = id;
	return 0;
}

static void on_acked(uint16_t type, const void *msg, void *arg)
{
	(void)type;
	(void)msg;
	(void)arg;
	n_acked++;
}

static const struct outbox_ops ops = {.send = on_send, .acked = on_acked};

static void put(struct outbox *o, const char *key, uint8_t state)
{
	char none[] = "";
	struct wm_launch_report m = {.job = 1, .state = state, .phase = none, .text = none};

	outbox_put(o, WM_LAUNCH_REPORT, key, &m);
}

int main(void)
{
	struct outbox *o = outbox_create(&ops, NULL);

	put(o, "1.1", LAUNCH_READY);
	put(o, "1.1", LAUNCH_RUNNING);
	is_int(n_sent, 2, "each state is sent");
	is_int(outbox_length(o), 1, "the newer one replaces the older");
	outbox_ack(o, ids[0]);
	is_int(outbox_length(o), 1, "an acknowledgement of the older one keeps the newer");
	outbox_ack(o, ids[1]);
	is_int(outbox_length(o), 0, "one of the newer removes it");
	is_int(n_acked, 1, "and is told");
	outbox_ack(o, 0);
	outbox_ack(o, 4711);
	is_int(n_acked, 1, "unknown numbers change nothing");

	connected = 0;
	put(o, "1.1", LAUNCH_ENDED);
	put(o, "2.1", LAUNCH_READY);
	put(o, "1.1", LAUNCH_CLEANED);
	is_int(n_sent, 2, "no connection, nothing sent");
	connected = 1;
	outbox_reconnected(o);
	outbox_flush(o);
	is_int(n_sent, 4, "both are sent after the next connection");
	is_int(jobs[2], LAUNCH_READY, "in the order in which the states came about");
	is_int(jobs[3], LAUNCH_CLEANED, "the last state alone");
	outbox_flush(o);
	is_int(n_sent, 4, "once for a connection");
	outbox_reconnected(o);
	outbox_flush(o);
	is_int(n_sent, 6, "and again for the next");

	connected = 0;
	put(o, "3.1 first", LAUNCH_RUNNING);
	connected = 1;
	put(o, "3.1 second", LAUNCH_ENDED);
	is_int(n_sent, 6, "nothing overtakes a report for which there was no room");
	outbox_flush(o);
	ok(n_sent == 8 && jobs[6] == LAUNCH_RUNNING && jobs[7] == LAUNCH_ENDED, "both follow in their order");
	put(o, "3.1 third", LAUNCH_ENDED);
	is_int(n_sent, 9, "after which reports go at once again");
	outbox_drop(o, "3.1");

	put(o, "1.10 proc rank-0", LAUNCH_READY);
	put(o, "1.1 proc rank-0", LAUNCH_READY);
	is_int(outbox_holds(o, "1.1"), 2, "entries of one launch");
	is_int(outbox_holds(o, "1.1 proc"), 1, "of its processes");
	outbox_drop(o, "1.1");
	is_int(outbox_length(o), 2, "dropped with their launch, and 1.10 is another one");
	outbox_destroy(o);
	return tap_done();
}
