/*
 * disk_space: the watching thread and the decision. The last measurement is in atomics: the thread and
 * callers of disk_space_check may measure at the same time, and either result is good.
 */
#include "controller/files/disk_space.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "common/os/chan.h"
#include "common/os/loop.h"

#define LOOK_MS     1000
#define MIB         (1024u * 1024)
#define DEFAULT_MIB 64u
#define TELL_MAX    8

struct disk_space {
	char *dir;
	int64_t min_free_mb;
	_Atomic uint64_t free_bytes, total_bytes;
	_Atomic int low;
	struct chan *out;
	void (*told)(const struct disk_state *s, void *arg);
	void *arg;
	pthread_t thread;
	int started, stop_fd;
	struct log_limit complaints;
};

/* ---- pure ------------------------------------------------------------------------------------- */

uint64_t disk_space_mark(int64_t min_free_mb, uint64_t total_bytes)
{
	if (min_free_mb >= 0)
		return (uint64_t)min_free_mb * MIB;
	return total_bytes / 20 < DEFAULT_MIB * MIB ? total_bytes / 20 : DEFAULT_MIB * MIB;
}

static uint64_t enough_bytes(const struct disk_state *s)
{
	return s->mark_bytes + s->mark_bytes / 4;
}

void disk_space_judge(struct disk_state *s)
{
	s->low = s->free_bytes < (s->low ? enough_bytes(s) : s->mark_bytes);
}

void disk_space_text(const struct disk_state *s, struct text *t)
{
	char left[24], total[24], mark[24], again[24];

	text_add(t,
	         "the disk of hearthd has %s left of %s; the last %s are reserved for present work "
	         "(min_free_mb), and new work is accepted again from %s on",
	         str_size(s->free_bytes, left, sizeof(left)), str_size(s->total_bytes, total, sizeof(total)),
	         str_size(s->mark_bytes, mark, sizeof(mark)), str_size(enough_bytes(s), again, sizeof(again)));
}

enum disk_room disk_space_room(const char *dir, int64_t min_free_mb)
{
	struct statvfs st;
	uint64_t mark, left;

	if (statvfs(dir, &st) < 0)
		return DISK_ROOM;
	left = (uint64_t)st.f_bavail * st.f_frsize;
	mark = disk_space_mark(min_free_mb > 0 ? min_free_mb : DISK_SPACE_DEFAULT,
	                       (uint64_t)st.f_blocks * st.f_frsize);
	return left < mark / 4 ? DISK_RESERVE : left < mark * 2 ? DISK_NEARLY_FULL : DISK_ROOM;
}

/* ---- looking ---------------------------------------------------------------------------------- */

void disk_space_last(struct disk_space *r, struct disk_state *out)
{
	out->free_bytes = atomic_load(&r->free_bytes);
	out->total_bytes = atomic_load(&r->total_bytes);
	out->mark_bytes = disk_space_mark(r->min_free_mb, out->total_bytes);
	out->low = atomic_load(&r->low);
}

static int look_at_disk(struct disk_space *r, struct disk_state *s, struct err *e)
{
	struct statvfs st;

	if (statvfs(r->dir, &st) < 0)
		return err_sys(e, errno, "%s", r->dir);
	disk_space_last(r, s);
	s->free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
	s->total_bytes = (uint64_t)st.f_blocks * st.f_frsize;
	s->mark_bytes = disk_space_mark(r->min_free_mb, s->total_bytes);
	if (s->mark_bytes && FAULT("data.low"))
		s->free_bytes = s->mark_bytes / 2;
	disk_space_judge(s);
	atomic_store(&r->free_bytes, s->free_bytes);
	atomic_store(&r->total_bytes, s->total_bytes);
	if (atomic_exchange(&r->low, s->low) == s->low)
		return 0;
	if (s->low)
		log_error("event=disk_low free_bytes=%" PRIu64 " mark_bytes=%" PRIu64
		          " text=\"no new work is accepted\"",
		          s->free_bytes, s->mark_bytes);
	else
		log_info("event=disk_room free_bytes=%" PRIu64 " mark_bytes=%" PRIu64, s->free_bytes, s->mark_bytes);
	return 0;
}

int disk_space_check(struct disk_space *r, struct err *e)
{
	struct disk_state s;
	TEXT(why);

	/* If the file system does not answer, the write itself will find the error. */
	if (!r || look_at_disk(r, &s, NULL) < 0 || !s.low)
		return 0;
	disk_space_text(&s, &why);
	return err_set(e, ERR_NOSPACE, "no new work is accepted: %s", why.at);
}

static void *watch_disk(void *arg)
{
	struct disk_space *r = arg;
	struct pollfd stop = {.fd = r->stop_fd, .events = POLLIN};
	struct disk_state s;
	struct err e;
	int was_low = 0;
	unsigned held;

	do {
		if (look_at_disk(r, &s, &e) < 0) {
			if (log_limit_ok(&r->complaints, clock_boot_us(clock_real()), &held))
				log_warn("event=disk_unknown text=\"%s\" suppressed=%u", e.text, held);
		} else if (s.low || was_low) {
			struct disk_state *m = xmemdup(&s, sizeof(s));

			if (chan_send(r->out, m) == 0)
				was_low = s.low;
			else
				free(m); /* the next look reports it */
		}
	} while (poll(&stop, 1, LOOK_MS) == 0);
	return NULL;
}

static void on_state(void *msg, void *arg)
{
	struct disk_space *r = arg;

	r->told(msg, r->arg);
	free(msg);
}

/* ---- life ------------------------------------------------------------------------------------- */

static int start_watch(struct disk_space *r, struct loop *loop, struct err *e)
{
	sigset_t all, old;
	int rc;

	r->out = chan_create(loop, TELL_MAX, 0, on_state, r);
	r->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (r->stop_fd < 0)
		return err_sys(e, errno, "eventfd");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&r->thread, NULL, watch_disk, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return err_sys(e, rc, "thread that watches the disk");
	pthread_setname_np(r->thread, "hearthd-disk");
	r->started = 1;
	return 0;
}

struct disk_space *disk_space_create(const char *dir, int64_t min_free_mb, struct loop *loop,
                                     void (*told)(const struct disk_state *s, void *arg), void *arg,
                                     struct err *e)
{
	struct disk_space *r = xcalloc(1, sizeof(*r));

	r->dir = xstrdup(dir);
	r->min_free_mb = min_free_mb;
	r->told = told;
	r->arg = arg;
	r->stop_fd = -1;
	r->complaints.per_minute = 1;
	if (!loop || start_watch(r, loop, e) == 0)
		return r;
	disk_space_destroy(r);
	return NULL;
}

void disk_space_destroy(struct disk_space *r)
{
	if (!r)
		return;
	if (r->started) {
		eventfd_write(r->stop_fd, 1);
		pthread_join(r->thread, NULL);
	}
	if (r->out)
		chan_destroy(r->out, free);
	if (r->stop_fd >= 0)
		close(r->stop_fd);
	free(r->dir);
	free(r);
}
