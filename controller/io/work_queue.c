/*
 * work_queue: a ring of the users with a question that waits, and a hash of all users with a question.
 */
#include "controller/io/work_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>
#include <utlist.h>

#include "common/base/xalloc.h"
#include "controller/http/identity.h"
#include "controller/io/work.h"

struct work_user {
	char name[AUTH_USER_SIZE];
	UT_hash_handle hh;
	struct work_turn *waiting;     /* oldest first */
	unsigned n, running;           /* n: questions that wait or run */
	struct work_user *prev, *next; /* in the ring, while a question waits */
};

struct work_queue {
	struct work_user *users; /* by name */
	struct work_user *ring;  /* the user whose turn is next first */
	unsigned n;
};

struct work_queue *work_queue_create(void)
{
	return xcalloc(1, sizeof(struct work_queue));
}

void work_queue_destroy(struct work_queue *q)
{
	free(q);
}

static struct work_user *find_user(struct work_queue *q, const char *name)
{
	struct work_user *u;

	HASH_FIND_STR(q->users, name, u);
	if (u)
		return u;
	u = xcalloc(1, sizeof(*u));
	snprintf(u->name, sizeof(u->name), "%s", name);
	HASH_ADD_STR(q->users, name, u);
	return u;
}

enum work_added work_queue_add(struct work_queue *q, struct work_turn *t, const char *user)
{
	struct work_user *u;

	if (q->n >= WORK_QUEUE)
		return WORK_FULL;
	u = find_user(q, user);
	if (u->n >= WORK_USER_QUEUE)
		return WORK_USER_FULL;
	if (!u->waiting)
		DL_APPEND(q->ring, u);
	DL_APPEND(u->waiting, t);
	t->user = u;
	u->n++;
	q->n++;
	return WORK_ADDED;
}

static struct work_turn *start_turn(struct work_queue *q, struct work_user *u)
{
	struct work_turn *t = u->waiting;

	DL_DELETE(u->waiting, t);
	DL_DELETE(q->ring, u);
	if (u->waiting) /* behind all others */
		DL_APPEND(q->ring, u);
	u->running++;
	return t;
}

struct work_turn *work_queue_next(struct work_queue *q)
{
	struct work_user *u;

	DL_FOREACH (q->ring, u)
		if (u->running < WORK_USER_THREADS)
			return start_turn(q, u);
	return NULL;
}

struct work_turn *work_queue_any(struct work_queue *q)
{
	return q->ring ? start_turn(q, q->ring) : NULL;
}

void work_queue_end(struct work_queue *q, struct work_turn *t)
{
	struct work_user *u = t->user;

	q->n--;
	u->running--;
	if (--u->n)
		return;
	HASH_DEL(q->users, u);
	free(u);
}
