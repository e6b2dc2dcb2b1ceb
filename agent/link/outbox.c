/*
 * outbox: a hash by (type, key) for replacing, a list for the order; both through uthash, which keeps
 * insertion order. A replaced entry moves to the end: the order of reports is the order in which the states
 * came about.
 */
#include "agent/link/outbox.h"

#include <stdio.h>
#include <string.h>
#include <uthash.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"

struct entry {
	char *key; /* "type key" */
	uint16_t type;
	void *msg;
	uint64_t id; /* of the last sending; 0 not sent on this connection */
	UT_hash_handle hh;
};

struct outbox {
	struct entry *entries;
	uint64_t last_id;
	int behind; /* something waits to be sent: what comes now waits, too */
	const struct outbox_ops *ops;
	void *arg;
};

struct outbox *outbox_create(const struct outbox_ops *ops, void *arg)
{
	struct outbox *o = xcalloc(1, sizeof(*o));

	o->ops = ops;
	o->arg = arg;
	return o;
}

static void remove_entry(struct outbox *o, struct entry *en)
{
	HASH_DEL(o->entries, en);
	wire_free(en->type, en->msg);
	free(en->key);
	free(en);
}

void outbox_destroy(struct outbox *o)
{
	struct entry *en, *next;

	if (!o)
		return;
	HASH_ITER (hh, o->entries, en, next)
		remove_entry(o, en);
	free(o);
}

static int send_entry(struct outbox *o, struct entry *en)
{
	uint64_t id = ++o->last_id;

	if (o->ops->send(en->type, en->msg, id, o->arg) < 0)
		return -1;
	en->id = id;
	return 0;
}

void outbox_put(struct outbox *o, uint16_t type, const char *key, const void *msg)
{
	cleanup_free char *full = xasprintf("%u %s", type, key);
	struct entry *en;

	HASH_FIND_STR(o->entries, full, en);
	if (en)
		remove_entry(o, en);
	en = xcalloc(1, sizeof(*en));
	en->key = xstrdup(full);
	en->type = type;
	en->msg = wire_copy(type, msg);
	HASH_ADD_KEYPTR(hh, o->entries, en->key, strlen(en->key), en);
	/* The end of a launch that overtook the end of its rank would leave that rank unexplained. */
	if (!o->behind && send_entry(o, en) < 0)
		o->behind = 1;
}

void outbox_ack(struct outbox *o, uint64_t id)
{
	struct entry *en, *next;

	HASH_ITER (hh, o->entries, en, next) {
		if (en->id != id || id == 0)
			continue;
		HASH_DEL(o->entries, en);
		o->ops->acked(en->type, en->msg, o->arg);
		wire_free(en->type, en->msg);
		free(en->key);
		free(en);
		return;
	}
}

void outbox_reconnected(struct outbox *o)
{
	struct entry *en, *next;

	HASH_ITER (hh, o->entries, en, next)
		en->id = FAULT("mistake.no_resend") ? en->id : 0;
	o->behind = 1;
}

void outbox_flush(struct outbox *o)
{
	struct entry *en, *next;

	HASH_ITER (hh, o->entries, en, next)
		if (en->id == 0 && send_entry(o, en) < 0)
			return;
	o->behind = 0;
}

static int is_under(const struct entry *en, const char *prefix, size_t n)
{
	const char *key = strchr(en->key, ' ') + 1;

	return strncmp(key, prefix, n) == 0 && (key[n] == '\0' || key[n] == ' ');
}

void outbox_drop(struct outbox *o, const char *prefix)
{
	struct entry *en, *next;
	size_t n = strlen(prefix);

	HASH_ITER (hh, o->entries, en, next)
		if (is_under(en, prefix, n))
			remove_entry(o, en);
}

size_t outbox_holds(const struct outbox *o, const char *prefix)
{
	struct entry *en, *next;
	size_t n = strlen(prefix), count = 0;

	HASH_ITER (hh, o->entries, en, next)
		count += (size_t)is_under(en, prefix, n);
	return count;
}

int outbox_unsent(const struct outbox *o)
{
	struct entry *en, *next;

	HASH_ITER (hh, o->entries, en, next)
		if (en->id == 0)
			return 1;
	return 0;
}

size_t outbox_length(const struct outbox *o)
{
	return HASH_COUNT(o->entries);
}
