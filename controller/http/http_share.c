/*
 * http_share: a hash of owners, each with a list of his connections.
 */
#include "controller/http/http_share.h"

#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "common/base/xalloc.h"
#include "controller/http/http_int.h"
#include "controller/http/identity.h"

#define EACH_SHARE 4 /* one owner has at most this part of the whole */
#define EACH_MIN   64

struct share_owner {
	char name[AUTH_USER_SIZE];
	UT_hash_handle hh;
	struct http_conn *conns; /* oldest first */
	unsigned n;
};

void http_share_init(struct http_share *s, unsigned most)
{
	unsigned least = most < EACH_MIN ? most : EACH_MIN;

	s->most = most;
	s->each = most / EACH_SHARE < least ? least : most / EACH_SHARE;
}

static struct share_owner *find_owner(struct http_share *s, const char *name)
{
	struct share_owner *o;

	HASH_FIND_STR(s->owners, name, o);
	if (o)
		return o;
	o = xcalloc(1, sizeof(*o));
	snprintf(o->name, sizeof(o->name), "%s", name);
	HASH_ADD_STR(s->owners, name, o);
	return o;
}

void http_share_leave(struct http_conn *conn)
{
	struct share_owner *o = conn->owner;
	struct http_share *s = conn->share;

	if (!o)
		return;
	conn->owner = NULL;
	DL_DELETE2(o->conns, conn, owner_prev, owner_next);
	s->n--;
	if (--o->n)
		return;
	HASH_DEL(s->owners, o);
	free(o);
}

/* Ends the oldest connection but this one on which nothing happens, or else one whose request is not here
 * yet. 1: one was ended. */
static int end_oldest(struct share_owner *o, const struct http_conn *but)
{
	struct http_conn *conn, *partial = NULL;

	DL_FOREACH2(o->conns, conn, owner_next)
	{
		if (conn == but || conn->call)
			continue;
		if (conn->phase == HTTP_IDLE)
			break;
		if (!partial)
			partial = conn;
	}
	conn = conn ? conn : partial;
	if (!conn)
		return 0;
	COUNT(conn->h, refused, 1);
	http_conn_free(conn);
	return 1;
}

static struct share_owner *largest_owner(struct http_share *s)
{
	struct share_owner *o, *next, *most = s->owners;

	HASH_ITER (hh, s->owners, o, next)
		if (o->n > most->n)
			most = o;
	return most;
}

enum share_rc http_share_add(struct http_share *s, struct http_conn *conn, const char *owner)
{
	struct share_owner *o = find_owner(s, owner);
	enum share_rc rc = SHARE_OK;

	conn->share = s;
	conn->owner = o;
	DL_APPEND2(o->conns, conn, owner_prev, owner_next);
	o->n++;
	s->n++;
	if (o->n > s->each && !end_oldest(o, conn))
		rc = SHARE_OWNER_FULL;
	else if (s->n > s->most && !end_oldest(largest_owner(s), conn))
		rc = SHARE_FULL;
	if (rc != SHARE_OK)
		http_share_leave(conn);
	return rc;
}
