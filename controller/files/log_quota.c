/*
 * log_quota: sums of running jobs and their users. A job is counted when its first log comes: what it has on
 * the disk by then (of earlier attempts, or of before a restart) is read from its folder, once.
 */
#include "controller/files/log_quota.h"

#include <inttypes.h>
#include <stdlib.h>
#include <uthash.h>

#include "common/base/clock.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/files/disk_space.h"
#include "controller/files/logs/logstore.h"
#include "store/read/find.h"

#define LOOK_US 20000 /* between two looks at the disk */

enum why { WHY_STREAM, WHY_JOB, WHY_USER, WHY_DISK };

struct user {
	char *name;
	int64_t bytes;
	unsigned jobs;
	UT_hash_handle hh;
};

struct job {
	uint64_t id;
	int64_t bytes;
	struct user *user;
	UT_hash_handle hh;
};

struct log_quota {
	struct log_limits l;
	char *data_dir, *log_dir;
	struct store_reader *reader;
	struct job *jobs;
	struct user *users;
	enum why why; /* of the last answer */
	uint64_t looked_us;
	enum disk_room room;
};

struct log_quota *log_quota_create(const struct log_limits *l, const char *data_dir, struct store_reader *r)
{
	struct log_quota *q = xcalloc(1, sizeof(*q));

	q->l = *l;
	q->data_dir = xstrdup(data_dir);
	q->log_dir = xasprintf("%s/logs", data_dir);
	q->reader = r;
	return q;
}

static void drop_job(struct log_quota *q, struct job *j)
{
	struct user *u = j->user;

	u->bytes -= j->bytes;
	if (--u->jobs == 0) {
		HASH_DEL(q->users, u);
		free(u->name);
		free(u);
	}
	HASH_DEL(q->jobs, j);
	free(j);
}

void log_quota_destroy(struct log_quota *q)
{
	if (!q)
		return;
	while (q->jobs)
		drop_job(q, q->jobs);
	free(q->data_dir);
	free(q->log_dir);
	free(q);
}

static struct user *user_get(struct log_quota *q, const char *name)
{
	struct user *u;

	HASH_FIND_STR(q->users, name, u);
	if (!u) {
		u = xcalloc(1, sizeof(*u));
		u->name = xstrdup(name);
		HASH_ADD_KEYPTR(hh, q->users, u->name, strlen(u->name), u);
	}
	u->jobs++;
	return u;
}

static int add_stream(const struct log_stream *s, void *arg)
{
	int64_t *bytes = arg;

	*bytes += (int64_t)(s->size - (s->cut_to ? s->cut_to - LOGSTORE_FIRST : 0));
	return 0;
}

static int has_ended(const struct job_row *row)
{
	return row->status && (strcmp(row->status, "completed") == 0 || strcmp(row->status, "failed") == 0 ||
	                       strcmp(row->status, "stopped") == 0);
}

/* NULL: the job has ended. Late logs of a lost node do not count: nothing would forget the job again. */
static struct job *job_get(struct log_quota *q, uint64_t id)
{
	struct job_row row = {0};
	struct job *j;
	struct err e;

	HASH_FIND(hh, q->jobs, &id, sizeof(id), j);
	if (j)
		return j;
	store_job_get(q->reader, id, &row, &e);
	if (has_ended(&row)) {
		job_row_fini(&row);
		return NULL;
	}
	j = xcalloc(1, sizeof(*j));
	j->id = id;
	j->user = user_get(q, row.owner ? row.owner : "");
	job_row_fini(&row);
	logstore_streams(q->log_dir, id, 0, add_stream, &j->bytes, &e);
	j->user->bytes += j->bytes;
	HASH_ADD(hh, q->jobs, id, sizeof(j->id), j);
	return j;
}

static enum disk_room look_at_disk(struct log_quota *q)
{
	uint64_t now = clock_boot_us(clock_real());

	if (now - q->looked_us >= LOOK_US || !q->looked_us) {
		q->looked_us = now;
		q->room = disk_space_room(q->data_dir, q->l.min_free_mb);
	}
	return q->room;
}

uint64_t log_quota_limit(struct log_quota *q, uint64_t id)
{
	const struct job *j = job_get(q, id);

	q->why = WHY_STREAM;
	if (j && q->l.job && j->bytes > (int64_t)q->l.job)
		q->why = WHY_JOB;
	else if (j && q->l.user && j->user->bytes > (int64_t)q->l.user)
		q->why = WHY_USER;
	else if (look_at_disk(q) != DISK_ROOM)
		q->why = WHY_DISK;
	return q->why == WHY_STREAM ? q->l.stream : LOGSTORE_LEAST;
}

void log_quota_text(const struct log_quota *q, const char *stream, struct text *t)
{
	const struct {
		const char *what, *setting;
		uint64_t most;
	} of[] = {
	    [WHY_STREAM] = {"the log", "max_log_stream_mb", q->l.stream},
	    [WHY_JOB] = {"all logs of the job", "max_log_job_mb", q->l.job},
	    [WHY_USER] = {"logs of the user's running jobs", "max_log_user_mb", q->l.user},
	};
	char size[24];

	text_add(t, "stream %s: ", stream);
	if (q->why == WHY_DISK)
		text_add(t, "the disk of hearthd is nearly full");
	else
		text_add(t, "%s may have %s (%s)", of[q->why].what, str_size(of[q->why].most, size, sizeof(size)),
		         of[q->why].setting);
	text_add(t, "; hearthd stores its beginning and its newest part. Print less, or write to a file");
}

void log_quota_add(struct log_quota *q, uint64_t id, int64_t bytes)
{
	struct job *j;

	HASH_FIND(hh, q->jobs, &id, sizeof(id), j);
	if (!j) { /* its folder has these bytes already, or has them no longer */
		job_get(q, id);
		return;
	}
	j->bytes += bytes;
	j->user->bytes += bytes;
}

void log_quota_forget(struct log_quota *q, uint64_t id)
{
	struct job *j;

	HASH_FIND(hh, q->jobs, &id, sizeof(id), j);
	if (j)
		drop_job(q, j);
}

int log_quota_room(struct log_quota *q, struct err *e)
{
	if (look_at_disk(q) != DISK_RESERVE)
		return 0;
	return err_set(e, ERR_NOSPACE, "the rest of hearthd's disk is reserved for records (min_free_mb)");
}
