/*
 * tailer: see tailer.h. It follows the segment files of ranks and of the agent's own logs, and sends the
 * bytes.
 *
 * Two cursors read each stream: one sends, one looks for metrics (scanner.h). Neither holds bytes in memory:
 * what the connection, the window or a full batch refuses is read again from disk. A segment is removed when
 * hearthd has its bytes and its points are recorded (points.h); the last 64 KiB stay for tail_last_lines.
 *
 * LOGDIR/acked records how far hearthd has the stream. It is a hint that saves bytes after a restart of the
 * agent.
 *
 * The tailer reads a rank's bytes in the turn in which inotify reports them; under load, at most every 2
 * ms.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "agent/logs/scanner.h"
#include "agent/logs/segments.h"
#include "agent/logs/tailer.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/os/fsutil.h"

#define uthash_fatal(msg) abort()
#include <uthash.h>
#include <utlist.h>

#define CHUNK       (256u * 1024)
#define RECS_MAX    (64u * 1024)   /* bytes of index records with one chunk */
#define TURN_BYTES  (1024u * 1024) /* of one stream in one turn */
#define PUMP_GAP_US 2000u
#define TICK_US     1000000u
#define POLL_US     50000u         /* where inotify is not to be had */
#define KEEP_BYTES  (64u * 1024)   /* for last lines */
#define QUIET_US    (5 * 1000000u) /* then its files are closed */
#define STUCK_US    30000000u      /* no acknowledgement for so long: sent again */

struct tail {
	struct tailer *t;
	uint64_t job, epoch;
	uint32_t attempt, rank;
	char *stream, *logdir;
	struct segments dir;
	int dir_stale, wd; /* wd -1: not watched */
	struct segment_cursor send;
	struct data_link_sub *sub;
	uint64_t acked, acked_saved, acked_us;
	uint64_t sent_end; /* behind the last byte that was sent; less than send.pos where the writer lost some */
	uint64_t pumped_us;
	struct loop_timer *timer;
	struct group *group;     /* NULL: no metrics */
	struct scanner *scanner; /* as group */
	/* end */
	int finishing, eof_sent, eof_acked, told;
	void (*done)(void *arg);
	void *done_arg;
	void (*warn)(const char *key, const char *text, void *arg);
	void (*failure)(const char *stream, uint32_t rank, const struct cause *c, void *arg);
	void (*step)(int64_t step, uint64_t at_us, void *arg);
	void *warn_arg; /* of both */
	struct tail *prev, *next;
	UT_hash_handle hh; /* by wd */
};

struct group { /* what the streams of one launch share */
	uint64_t job;
	uint32_t attempt;
	unsigned scanners;
	struct points *points;
	struct matcher *matcher;
	struct group *next;
};

struct tailer {
	struct agent_env *env;
	struct data_link *b;
	int inotify_fd;
	struct loop_fd *watch;
	struct loop_timer *tick;
	struct tail *tails, *by_wd;
	struct match_pool *pool;
	struct group *groups;
	uint8_t *chunk;
};

static void pump_stream(struct tail *tl);

/* ---- sending --------------------------------------------------------------------------------------------
 */

static void save_acked(struct tail *tl)
{
	cleanup_free char *path = xasprintf("%s/acked", tl->logdir);
	char text[32];

	if (tl->acked == tl->acked_saved)
		return;
	snprintf(text, sizeof(text), "%" PRIu64, tl->acked);
	if (fs_replace(path, text, strlen(text), 0600, NULL) == 0)
		tl->acked_saved = tl->acked;
}

static uint64_t load_acked(const char *logdir)
{
	cleanup_free char *path = xasprintf("%s/acked", logdir);
	uint64_t v = 0;
	char *text;
	size_t n;

	if (fs_read_file(path, 64, &text, &n, NULL) < 0)
		return 0;
	if (str_parse_u64(text, &v) < 0)
		v = 0;
	free(text);
	return v;
}

/* 0 sent; -1 not now. */
static int send_one(struct tail *tl, uint64_t offset, uint8_t *data, size_t n, struct buf *recs, int eof)
{
	struct wm_log_data m = {.job = tl->job,
	                        .epoch = tl->epoch,
	                        .attempt = tl->attempt,
	                        .stream = tl->stream,
	                        .offset = offset,
	                        .eof = (uint8_t)eof};
	struct err e;

	m.data = (struct wire_bytes){.data = data, .n = (uint32_t)n};
	if (recs && buf_left(recs))
		m.rec = (struct wire_bytes){.data = recs->data, .n = (uint32_t)buf_left(recs)};
	if (data_link_send_log(tl->sub, &m, &e) == 0)
		return 0;
	if (e.code != ERR_BUSY && e.code != ERR_UNAVAILABLE)
		log_error("event=log_not_sent stream=%s reason=\"%s\"", tl->stream, e.text);
	return -1;
}

/* 1: there is more to be sent in another turn. */
static int send_some(struct tail *tl)
{
	size_t budget = TURN_BYTES;
	struct buf recs;
	uint64_t before, gap;
	struct err e;
	ptrdiff_t n;
	int eof, rc;

	while (data_link_is_up(tl->t->b) && !tl->eof_sent) {
		if (budget == 0)
			return 1;
		before = tl->send.pos;
		buf_init(&recs, RECS_MAX);
		n = segment_cursor_read(&tl->send, tl->t->chunk, CHUNK < budget ? CHUNK : budget, &recs, &gap, &e);
		if (n < 0)
			log_warn("event=log_not_read stream=%s reason=\"%s\"", tl->stream, e.text);
		if (n <= 0) {
			buf_fini(&recs);
			break;
		}
		eof = tl->finishing && tl->send.pos >= segments_end(&tl->dir);
		rc = send_one(tl, tl->send.pos - (uint64_t)n, tl->t->chunk, (size_t)n, &recs, eof);
		buf_fini(&recs);
		if (rc < 0) {
			segment_cursor_seek(&tl->send, before);
			return 0; /* room or up follows */
		}
		tl->sent_end = tl->send.pos;
		tl->eof_sent = eof;
		budget -= (size_t)n < budget ? (size_t)n : budget;
	}
	/* Nothing was left when the end came: an end of its own, after everything else is durable, so that its
	 * word is not taken from an older acknowledgement. It may lie behind bytes that a full disk refused. */
	if (tl->finishing && !tl->eof_sent && data_link_is_up(tl->t->b) && tl->acked >= tl->sent_end &&
	    send_one(tl, tl->send.pos, NULL, 0, NULL, 1) == 0)
		tl->eof_sent = 1;
	return 0;
}

static void remove_old(struct tail *tl)
{
	uint64_t end = segments_end(&tl->dir), limit = tl->acked;

	if (tl->scanner && scanner_needs(tl->scanner) < limit)
		limit = scanner_needs(tl->scanner);
	if (end < KEEP_BYTES)
		return;
	if (limit > end - KEEP_BYTES)
		limit = end - KEEP_BYTES;
	segments_remove_before(&tl->dir, limit);
}

static void on_log_ack(uint64_t offset, void *arg)
{
	struct tail *tl = arg;
	uint64_t now = clock_boot_us(tl->t->env->clock);

	if (offset > tl->acked)
		tl->acked = offset;
	if (offset > tl->send.pos)
		segment_cursor_seek(&tl->send, offset); /* sent by an earlier agent */
	if (tl->eof_sent && offset >= tl->send.pos)
		tl->eof_acked = 1;
	tl->acked_us = now;
	remove_old(tl);
	pump_stream(tl);
}

static void send_again(struct tail *tl)
{
	segment_cursor_seek(&tl->send, tl->acked);
	tl->sent_end = tl->acked;
	tl->eof_sent = 0;
	tl->acked_us = clock_boot_us(tl->t->env->clock);
}

static void on_up(void *arg)
{
	struct tail *tl = arg;

	send_again(tl);
	pump_stream(tl);
}

static void on_room(void *arg)
{
	pump_stream(arg);
}

/* ---- the pump --------------------------------------------------------------------------------------------
 */

/* The last thing that is done with tl in a callback: done may destroy it. */
static void check_done(struct tail *tl)
{
	if (!tl->finishing || tl->told || !tl->eof_acked || (tl->scanner && !scanner_is_through(tl->scanner)))
		return;
	tl->told = 1;
	save_acked(tl);
	remove_old(tl);
	if (tl->done)
		tl->done(tl->done_arg);
}

static void pump_stream(struct tail *tl)
{
	int more;

	tl->pumped_us = clock_boot_us(tl->t->env->clock);
	if (tl->dir_stale) {
		tl->dir_stale = 0;
		segments_scan(&tl->dir, NULL);
	}
	more = send_some(tl);
	if (more)
		loop_timer_arm(tl->timer, 0);
	if (tl->scanner && tl->finishing)
		scanner_finish(tl->scanner);
	else if (tl->scanner)
		scanner_look(tl->scanner);
	check_done(tl);
}

static void pump_soon(struct tail *tl)
{
	uint64_t now = clock_boot_us(tl->t->env->clock);

	if (loop_timer_armed(tl->timer))
		return;
	if (now - tl->pumped_us >= PUMP_GAP_US)
		pump_stream(tl);
	else
		loop_timer_arm(tl->timer, PUMP_GAP_US);
}

static void on_timer(void *arg)
{
	pump_stream(arg);
}

/* ---- inotify ------------------------------------------------------------------------------------------- */

static void everything_stale(struct tailer *t)
{
	struct tail *tl;

	DL_FOREACH (t->tails, tl) {
		tl->dir_stale = 1;
		loop_timer_arm(tl->timer, 0);
	}
}

static void take_event(struct tailer *t, const struct inotify_event *ev)
{
	size_t n = ev->len ? strlen(ev->name) : 0;
	struct tail *tl;

	if (ev->mask & IN_Q_OVERFLOW) {
		everything_stale(t);
		return;
	}
	HASH_FIND_INT(t->by_wd, &ev->wd, tl);
	if (!tl)
		return;
	if (ev->mask & IN_IGNORED) { /* the folder is gone */
		HASH_DEL(t->by_wd, tl);
		tl->wd = -1;
		return;
	}
	/* An index record is followed by its bytes, which come with their own event. */
	if (n > 8 && strncmp(ev->name, "out.", 4) == 0 && strcmp(ev->name + n - 4, ".log") == 0) {
		if (ev->mask & (IN_CREATE | IN_MOVED_TO))
			tl->dir_stale = 1;
	} else if (strcmp(ev->name, SCAN_JSON_FILE) != 0) {
		return;
	}
	pump_soon(tl);
}

static void on_inotify(int fd, int what, void *arg)
{
	struct tailer *t = arg;
	char raw[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n;

	(void)what;
	n = read(fd, raw, sizeof(raw));
	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *ev = (const struct inotify_event *)(raw + at);

		at += (ssize_t)(sizeof(*ev) + ev->len);
		take_event(t, ev);
	}
}

static void watch_folder(struct tail *tl)
{
	struct tailer *t = tl->t;

	tl->wd = t->inotify_fd < 0 ? -1
	                           : inotify_add_watch(t->inotify_fd, tl->logdir,
	                                               IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
	if (tl->wd >= 0)
		HASH_ADD_INT(t->by_wd, wd, tl);
}

static void on_tick(void *arg)
{
	struct tailer *t = arg;
	uint64_t now = clock_boot_us(t->env->clock), next = TICK_US;
	struct tail *tl;

	DL_FOREACH (t->tails, tl) {
		if (now - tl->acked_us > TICK_US)
			save_acked(tl);
		if (now - tl->pumped_us > QUIET_US) {
			segment_cursor_park(&tl->send);
			if (tl->scanner)
				scanner_park(tl->scanner);
		}
		if (tl->scanner)
			scanner_tick(tl->scanner, now);
		if (tl->wd < 0) {
			next = POLL_US;
			tl->dir_stale = 1;
			loop_timer_arm(tl->timer, 0);
		}
		if (data_link_is_up(t->b) && (tl->send.pos > tl->acked || (tl->eof_sent && !tl->eof_acked)) &&
		    now - tl->acked_us > STUCK_US) {
			log_warn("event=log_stuck stream=%s acked=%" PRIu64 " sent=%" PRIu64, tl->stream, tl->acked,
			         tl->send.pos);
			send_again(tl);
			loop_timer_arm(tl->timer, 0);
		}
	}
	loop_timer_arm(t->tick, next);
}

/* ---- life ------------------------------------------------------------------------------------------------
 */

static struct group *find_group(struct tailer *t, const struct tail_params *p)
{
	cleanup_free char *dir = xstrdup(p->logdir);
	char *end = strrchr(dir, '/');
	struct group *g;

	LL_FOREACH (t->groups, g)
		if (g->job == p->job && g->attempt == p->attempt)
			return g;
	if (end && end != dir)
		*end = '\0';
	g = xcalloc(1, sizeof(*g));
	*g = (struct group){.job = p->job,
	                    .attempt = p->attempt,
	                    .points = points_open(t->env, t->b, p->job, p->attempt, dir),
	                    .matcher = matcher_create(t->pool, dir)};
	LL_PREPEND(t->groups, g);
	return g;
}

static void leave_group(struct tailer *t, struct group *g)
{
	if (!g || --g->scanners)
		return;
	LL_DELETE(t->groups, g);
	matcher_destroy(g->matcher);
	points_close(g->points);
	free(g);
}

static void warn_owner(const char *key, const char *text, void *arg)
{
	struct tail *tl = arg;

	if (tl->warn)
		tl->warn(key, text, tl->warn_arg);
}

static void report_failure(const struct cause *c, void *arg)
{
	struct tail *tl = arg;

	tl->failure(tl->stream, tl->rank, c, tl->warn_arg);
}

static void tell_step(int64_t step, uint64_t at_us, void *arg)
{
	struct tail *tl = arg;

	if (tl->step)
		tl->step(step, at_us, tl->warn_arg);
}

static void open_metrics(struct tail *tl, const struct tail_params *p)
{
	struct scanner_params sp = {.env = tl->t->env,
	                            .dir = &tl->dir,
	                            .stream = tl->stream,
	                            .logdir = tl->logdir,
	                            .rank = p->rank,
	                            .spec = p->spec,
	                            .changed = on_timer,
	                            .warn = warn_owner,
	                            .failure = p->failure ? report_failure : NULL,
	                            .step = tell_step,
	                            .arg = tl};

	if (p->rank == NO_RANK && (!p->spec || !p->spec->n_metrics) && !p->failure)
		return;
	tl->group = find_group(tl->t, p);
	tl->group->scanners++;
	points_set_epoch(tl->group->points, p->epoch);
	sp.points = tl->group->points;
	sp.matcher = tl->group->matcher;
	tl->scanner = scanner_create(&sp);
}

struct tail *tail_start(struct tailer *t, const struct tail_params *p)
{
	static const struct data_link_sub_ops ops = {.up = on_up, .room = on_room, .log_ack = on_log_ack};
	struct tail *tl = xcalloc(1, sizeof(*tl));
	struct err e;

	*tl = (struct tail){.t = t,
	                    .job = p->job,
	                    .epoch = p->epoch,
	                    .attempt = p->attempt,
	                    .stream = xstrdup(p->stream),
	                    .logdir = xstrdup(p->logdir),
	                    .rank = p->rank,
	                    .warn = p->warn,
	                    .failure = p->failure,
	                    .step = p->step,
	                    .warn_arg = p->arg,
	                    .wd = -1};
	tl->timer = loop_timer_create(t->env->loop, on_timer, tl);
	if (fs_mkdir_p(p->logdir, 0755, &e) < 0 || segments_open(&tl->dir, p->logdir, &e) < 0) {
		log_error("event=log_not_followed stream=%s reason=\"%s\"", p->stream, e.text);
		tl->dir = (struct segments){.path = xstrdup(p->logdir)};
	}
	watch_folder(tl);
	tl->dir_stale = 1; /* what came before the watch was set */
	tl->acked = tl->acked_saved = load_acked(p->logdir);
	if (tl->acked > segments_end(&tl->dir))
		tl->acked = tl->acked_saved = 0;
	tl->acked_us = clock_boot_us(t->env->clock);
	segment_cursor_init(&tl->send, &tl->dir, tl->acked);
	tl->sub = data_link_subscribe(t->b, p->job, p->attempt, p->stream, &ops, tl);
	open_metrics(tl, p);
	DL_APPEND(t->tails, tl);
	loop_timer_arm(tl->timer, 0);
	return tl;
}

int tail_read_rest(struct tail *tl)
{
	if (!tl->scanner)
		return 1;
	segments_scan(&tl->dir, NULL);
	scanner_look(tl->scanner);
	return scanner_has_read(tl->scanner);
}

void tail_finish(struct tail *tl, void (*done)(void *arg), void *arg)
{
	tl->finishing = 1;
	tl->done = done;
	tl->done_arg = arg;
	tl->dir_stale = 1;
	tl->eof_acked = tl->told = 0;
	/* Never from within this call: the caller may not expect its callback yet. */
	loop_timer_arm(tl->timer, 0);
}

void tail_destroy(struct tail *tl)
{
	struct tailer *t;

	if (!tl)
		return;
	t = tl->t;
	save_acked(tl);
	if (tl->wd >= 0) {
		HASH_DEL(t->by_wd, tl);
		inotify_rm_watch(t->inotify_fd, tl->wd);
	}
	DL_DELETE(t->tails, tl);
	data_link_unsubscribe(tl->sub);
	scanner_destroy(tl->scanner);
	leave_group(t, tl->group);
	loop_timer_destroy(tl->timer);
	segment_cursor_fini(&tl->send);
	segments_close(&tl->dir);
	free(tl->stream);
	free(tl->logdir);
	free(tl);
}

struct tailer *tailer_create(struct agent_env *env, struct data_link *b)
{
	struct tailer *t = xcalloc(1, sizeof(*t));

	t->env = env;
	t->b = b;
	t->chunk = xmalloc(CHUNK);
	t->pool = match_pool_create(env);
	t->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (t->inotify_fd < 0)
		log_warn("event=no_inotify reason=\"%s\"", strerror(errno)); /* then by looking, 20 times a second */
	else
		t->watch = loop_fd_create(env->loop, t->inotify_fd, LOOP_READ, on_inotify, t);
	t->tick = loop_timer_create(env->loop, on_tick, t);
	loop_timer_arm(t->tick, TICK_US);
	return t;
}

void tailer_set_rules(struct tailer *t, const char *text)
{
	match_pool_set_rules(t->pool, text);
}

void tailer_destroy(struct tailer *t)
{
	if (!t)
		return;
	while (t->tails)
		tail_destroy(t->tails);
	loop_fd_destroy(t->watch);
	loop_timer_destroy(t->tick);
	if (t->inotify_fd >= 0)
		close(t->inotify_fd);
	match_pool_destroy(t->pool);
	free(t->chunk);
	free(t);
}
