/*
 * order: posting orders to the I/O thread that has the session.
 */
#include "controller/io/order.h"

#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "controller/io/agents.h"
#include "controller/io/io.h"

struct order {
	uint64_t session, id;
	uint16_t type;
	void *msg; /* NULL: close */
	char *why;
};

static void order_free(void *arg)
{
	struct order *o = arg;

	if (o->msg)
		wire_free(o->type, o->msg);
	free(o->why);
	free(o);
}

static struct order *new_message(uint64_t session, uint16_t type, void *msg, uint64_t id)
{
	struct order *o = xcalloc(1, sizeof(*o));

	o->session = session;
	o->type = type;
	o->msg = msg;
	o->id = id;
	return o;
}

static struct order *new_close(uint64_t session, const char *why)
{
	struct order *o = xcalloc(1, sizeof(*o));

	o->session = session;
	o->why = xstrdup(why);
	return o;
}

static void run_order(struct io *io, void *arg)
{
	struct order *o = arg;

	if (o->msg)
		agents_send(io, o->session, o->type, o->msg, o->id);
	else
		agents_close(io, o->session, o->why);
	o->msg = NULL;
	order_free(o);
}

/* Takes o. */
static int post_order(struct io_set *s, struct order *o)
{
	unsigned io = SESSION_IO(o->session);

	if (io < s->all && io_post(&s->io[io], run_order, o, order_free) == 0)
		return 0;
	order_free(o);
	return -1;
}

static void post_order_wait(struct io_set *s, struct order *o)
{
	unsigned io = SESSION_IO(o->session);

	if (io < s->all)
		io_post_wait(&s->io[io], run_order, o, order_free);
	else
		order_free(o);
}

int order_send(struct io_set *s, uint64_t session, uint16_t type, const void *msg, uint64_t id)
{
	return post_order(s, new_message(session, type, wire_copy(type, msg), id));
}

int order_close(struct io_set *s, uint64_t session, const char *why)
{
	return post_order(s, new_close(session, why));
}

void order_send_wait(struct io_set *s, uint64_t session, uint16_t type, void *msg, uint64_t id)
{
	post_order_wait(s, new_message(session, type, msg, id));
}

void order_close_wait(struct io_set *s, uint64_t session, const char *why)
{
	post_order_wait(s, new_close(session, why));
}
