/*
 * serve_watch: waits until something changes in a folder that a job writes, and lists it (listing.h).
 *
 *   WATCH  texts: folder below fd; v: longest wait in ms, 1: list it in any case -> v: 1 it was listed
 *
 * inotify only says when to look: a listing is always a look at the folder itself, so a lost event costs time
 * and nothing else. Where the account has no inotify instance left, each wait ends by its time and lists.
 *
 * A file is open for writing when the kernel refuses a read lease on it. The lease is given back at once. A
 * file that was closed at the last look, with the same time and size, is not asked about again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/listing.h"
#include "agent/files/serve_int.h"
#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define WATCHES     512 /* folders with a watch; deeper changes are found by a later look */
#define MOVED_MAX   256
#define TEXTS_BYTES (4u * 1024 * 1024) /* of all markers of a listing */
#define SETTLE_MS   30                 /* between the first event and the look */
#define CLOSED_BITS 14
#define EVENTS                                                                                               \
	(IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_ONLYDIR |    \
	 IN_EXCL_UNLINK)

struct watching {
	int fd; /* inotify; -1: none is to be had */
	char *paths[WATCHES];
	int wds[WATCHES];
	size_t n, next;
	char *moved[MOVED_MAX];
	size_t n_moved;
	int changed;
	uint64_t closed[1u << CLOSED_BITS]; /* prints of files that were closed */
	uint64_t busy_us;                   /* what the last look took */
};

/* ---- events ----------------------------------------------------------------------------------------- */

static struct watching *start_watching(void)
{
	struct watching *w = xcalloc(1, sizeof(*w));

	signal(SIGIO, SIG_IGN); /* a process that opens a file during our lease */
	w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	w->changed = 1;
	return w;
}

static void forget_moved(struct watching *w)
{
	for (size_t i = 0; i < w->n_moved; i++)
		free(w->moved[i]);
	w->n_moved = 0;
}

void server_unwatch(struct server *s)
{
	struct watching *w = s->watching;

	if (!w)
		return;
	forget_moved(w);
	for (size_t i = 0; i < w->n; i++)
		free(w->paths[i]);
	if (w->fd >= 0)
		close(w->fd);
	free(w);
	s->watching = NULL;
}

/* path "" is the folder itself. */
static void watch_folder(struct watching *w, int fd, const char *path)
{
	char name[40];
	size_t i;
	int wd;

	if (w->fd < 0)
		return;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	wd = inotify_add_watch(w->fd, name, EVENTS);
	for (i = 0; i < w->n && w->wds[i] != wd; i++)
		;
	if (wd < 0 || (i < w->n && strcmp(w->paths[i], path) == 0))
		return;
	if (i == w->n && w->n == WATCHES) {
		i = w->next++ % WATCHES; /* the folders that come last matter most */
		inotify_rm_watch(w->fd, w->wds[i]);
	} else if (i == w->n) {
		w->n++;
		w->paths[i] = NULL;
	}
	free(w->paths[i]);
	w->paths[i] = xstrdup(path);
	w->wds[i] = wd;
}

static void add_event(struct watching *w, const struct inotify_event *ev)
{
	w->changed = 1;
	if (!(ev->mask & IN_MOVED_TO) || !ev->len || w->n_moved == MOVED_MAX)
		return;
	for (size_t i = 0; i < w->n; i++)
		if (w->wds[i] == ev->wd) {
			w->moved[w->n_moved++] =
			    w->paths[i][0] ? xasprintf("%s/%s", w->paths[i], ev->name) : xstrdup(ev->name);
			return;
		}
}

static void drain_events(struct watching *w)
{
	char buf[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n;

	while (w->fd >= 0 && (n = read(w->fd, buf, sizeof(buf))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *ev = (const void *)(buf + at);

			add_event(w, ev);
			at += (ssize_t)(sizeof(*ev) + ev->len);
		}
}

/* Until something changes, the time is over, or the agent has something to say. */
static void await_change(struct server *s, struct watching *w, uint64_t wait_ms)
{
	struct pollfd p[2] = {{.fd = s->channel.fd, .events = POLLIN}, {.fd = w->fd, .events = POLLIN}};
	uint64_t rest = w->busy_us / 50; /* ms: one look in twenty times what it takes */

	drain_events(w);
	if (!w->changed)
		poll(p, 2, (int)wait_ms);
	drain_events(w);
	if (w->changed && !p[0].revents) /* what changes now changes on */
		poll(p, 1, (int)(rest > SETTLE_MS ? rest : SETTLE_MS));
	drain_events(w);
}

/* ---- one entry -------------------------------------------------------------------------------------- */

struct looker {
	struct server *s;
	struct watching *w; /* NULL: no folder is watched, nothing is asked about */
	struct listing *l;
	size_t texts;
};

static uint64_t stamp_ns(const struct statx_timestamp *t)
{
	return t->tv_sec > 0 ? (uint64_t)t->tv_sec * 1000000000u + t->tv_nsec : 0;
}

static uint64_t *closed_slot(struct watching *w, const struct listing_item *it, uint64_t *key)
{
	*key = (it->inode * 0x9e3779b97f4a7c15u ^ it->mtime_ns) * 0x9e3779b97f4a7c15u ^ it->size;
	return &w->closed[(*key * 0x9e3779b97f4a7c15u) >> (64 - CLOSED_BITS)];
}

static void ask_open(struct watching *w, struct listing_item *it, int fd)
{
	uint64_t key, *slot = closed_slot(w, it, &key);

	if (*slot == key)
		return;
	if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0)
		fcntl(fd, F_SETLEASE, F_UNLCK);
	else if (errno == EAGAIN)
		it->flags |= LISTING_OPEN;
	/* Others: a file system without leases, or another's file. Then the quiet time alone decides. */
	if (!(it->flags & LISTING_OPEN))
		*slot = key;
}

static int is_marker(const char *name)
{
	static const char *const markers[] = {"hearth.json", "trainer_state.json", "latest",
	                                      "latest_checkpointed_iteration.txt"};

	for (size_t i = 0; i < sizeof(markers) / sizeof(markers[0]); i++)
		if (strcmp(name, markers[i]) == 0)
			return 1;
	return 0;
}

static void read_marker(struct looker *k, struct listing_item *it, int fd)
{
	ssize_t n;

	if (it->size > LISTING_TEXT || k->texts + it->size > TEXTS_BYTES)
		return;
	it->text = xmalloc((size_t)it->size + 1);
	n = pread(fd, it->text, (size_t)it->size, 0);
	it->n_text = n > 0 ? (size_t)n : 0;
	it->text[it->n_text] = '\0';
	k->texts += it->n_text;
}

static void look_file(struct looker *k, struct listing_item *it, int at, const char *name)
{
	uint64_t key;
	int marker = is_marker(name), fd;

	if (!marker && *closed_slot(k->w, it, &key) == key)
		return;
	fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		it->flags |= errno == ENOENT ? LISTING_OPEN : LISTING_DENIED;
		return;
	}
	ask_open(k->w, it, fd);
	if (marker)
		read_marker(k, it, fd);
	close(fd);
}

static void look_link(struct listing_item *it, int at, const char *name)
{
	char target[1024];
	ssize_t n = readlinkat(at, name, target, sizeof(target));

	if (n < 0 || n == (ssize_t)sizeof(target))
		return;
	it->text = xstrndup(target, (size_t)n);
	it->n_text = (size_t)n;
}

static struct listing_item *add_item(struct looker *k, int at, const char *name, const char *path)
{
	struct listing_item *it;
	struct statx x;

	if (statx(at, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_BTIME, &x) < 0)
		return NULL;
	it = listing_add(k->l, path);
	if (!it)
		return NULL;
	it->type = S_ISDIR(x.stx_mode) ? 'd' : S_ISREG(x.stx_mode) ? 'f' : S_ISLNK(x.stx_mode) ? 'l' : 's';
	it->size = x.stx_size;
	it->inode = x.stx_ino;
	it->mtime_ns = stamp_ns(&x.stx_mtime);
	it->ctime_ns = stamp_ns(&x.stx_ctime);
	it->born_ns = x.stx_mask & STATX_BTIME ? stamp_ns(&x.stx_btime) : 0;
	for (size_t i = 0; k->w && i < k->w->n_moved; i++)
		if (strcmp(k->w->moved[i], path) == 0)
			it->flags |= LISTING_MOVED;
	return it;
}

/* ---- folders ---------------------------------------------------------------------------------------- */

static void look_folder(struct looker *k, int fd, const char *path, int depth);

static void look_entry(struct looker *k, int at, const char *name, const char *path, int depth)
{
	struct listing_item *it = add_item(k, at, name, path);
	int fd;

	if (it && it->type == 'f' && k->w)
		look_file(k, it, at, name);
	if (it && it->type == 'l')
		look_link(it, at, name);
	if (!it || it->type != 'd')
		return;
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		it->flags |= LISTING_DENIED;
	else if (depth >= LISTING_DEPTH)
		k->l->cut = 1, close(fd);
	else
		look_folder(k, fd, path, depth + 1);
}

/* Takes fd. */
static void look_folder(struct looker *k, int fd, const char *path, int depth)
{
	const struct dirent *one;
	DIR *d;

	if (k->w)
		watch_folder(k->w, fd, path); /* before it is read: what comes later makes an event */
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return;
	}
	while ((one = readdir(d)) && !k->l->cut) {
		cleanup_free char *below = *path ? xasprintf("%s/%s", path, one->d_name) : xstrdup(one->d_name);

		if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0)
			continue;
		if (strlen(below) > 4000)
			k->l->cut = 1;
		else
			look_entry(k, dirfd(d), one->d_name, below, depth);
	}
	closedir(d);
}

int server_list_entry(struct server *s, int at, const char *name, struct listing *out)
{
	struct looker k = {.s = s, .l = out};

	look_entry(&k, at, name, name, 0);
	return out->n && !out->cut ? 0 : -1;
}

/* ---- the request ------------------------------------------------------------------------------------- */

static int send_listing(struct server *s, const struct listing *l, struct err *e)
{
	struct buf b;
	int rc;

	buf_init(&b, LISTING_BYTES);
	rc = listing_encode(l, &b) < 0 ? err_set(e, ERR_LIMIT, "the folder of checkpoints has too many entries")
	                               : server_send_data(s, buf_head(&b), buf_left(&b), e);
	buf_fini(&b);
	return rc;
}

static int list_folder(struct server *s, const struct files_msg *m, struct err *e)
{
	uint64_t began = clock_boot_us(clock_real());
	struct listing l = {.at_us = clock_real_us(clock_real())};
	struct looker k = {.s = s, .w = s->watching, .l = &l};
	int fd = server_open_below(m, m->texts[0], e), rc = 0;

	if (fd >= 0)
		look_folder(&k, fd, "", 0);
	else if (e->code != ERR_NOT_FOUND)
		return -1;
	forget_moved(s->watching);
	s->watching->busy_us = clock_boot_us(clock_real()) - began;
	rc = send_listing(s, &l, e);
	listing_fini(&l);
	return rc;
}

int serve_watch(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	if (!s->watching)
		s->watching = start_watching();
	await_change(s, s->watching, m->v[0] < 60000 ? m->v[0] : 60000);
	if (!s->watching->changed && s->watching->fd >= 0 && !m->v[1])
		return 0;
	s->watching->changed = 0;
	reply->v[1] = 1;
	return list_folder(s, m, e);
}
