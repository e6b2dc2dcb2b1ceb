/*
 * state_link: making and freeing messages to the state thread.
 */
#include "controller/io/state_link.h"

#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "common/os/chan.h"
#include "controller/state/request.h"

#define MESSAGES_MAX 32768u

void to_state_free(struct to_state *m)
{
	if (m->rq)
		request_free(m->rq);
	if (m->msg)
		wire_free(m->type, m->msg);
	free(m->why);
	free(m);
}

static void drop_message(void *msg)
{
	to_state_free(msg);
}

static void on_message(void *msg, void *arg)
{
	struct state_link *l = arg;

	l->fn(msg, l->arg);
	to_state_free(msg);
}

struct state_link *state_link_create(struct loop *state_loop, void (*fn)(struct to_state *m, void *arg),
                                     void *arg)
{
	struct state_link *l = xcalloc(1, sizeof(*l));

	l->fn = fn;
	l->arg = arg;
	l->chan = chan_create(state_loop, MESSAGES_MAX, 0, on_message, l);
	return l;
}

void state_link_destroy(struct state_link *l)
{
	if (!l)
		return;
	chan_destroy(l->chan, drop_message);
	free(l);
}

int state_link_send(struct state_link *l, struct to_state *m)
{
	return chan_send(l->chan, m);
}
