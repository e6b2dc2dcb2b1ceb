/*
 * rules_file: see rules_file.h. A file that is being written may be read in part; its next change is seen a
 * second later.
 */
#include "controller/files/rules_file.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/classify/table.h"
#include "common/os/chan.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"

#define LOOK_MS  1000
#define NEWS_MAX 8

struct rules_file {
	char *path;
	struct chan *out;
	void (*told)(const struct rules_news *n, void *arg);
	void *arg;
	pthread_t thread;
	int started, stop_fd;
};

static void news_free(void *msg)
{
	struct rules_news *n = msg;

	free(n->text);
	free(n);
}

static unsigned count_rules(const struct classify_table *t)
{
	struct classify_table *plain = classify_table_create(NULL, NULL, NULL);
	size_t n = classify_table_rules(t) - classify_table_rules(plain);

	classify_table_destroy(plain);
	return (unsigned)n;
}

static struct rules_news *read_rules(const char *path)
{
	struct rules_news *n = xcalloc(1, sizeof(*n));
	struct classify_table *t = NULL;
	size_t size;

	if (fs_read_file(path, CLASSIFY_FILE_MAX, &n->text, &size, &n->why) < 0) {
		n->text = NULL;
		return n;
	}
	if (strlen(n->text) != size)
		err_set(&n->why, ERR_INVALID, "%s: it has a zero byte; expected text", path);
	else
		t = classify_table_create(n->text, path, &n->why);
	if (t) {
		n->rules = count_rules(t);
		classify_table_destroy(t);
		return n;
	}
	free(n->text);
	n->text = NULL;
	return n;
}

static int is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void *watch_file(void *arg)
{
	struct rules_file *f = arg;
	struct pollfd stop = {.fd = f->stop_fd, .events = POLLIN};
	struct stat was = {0}, now;
	struct rules_news *n;
	int first = 1;

	do {
		if (stat(f->path, &now) < 0)
			now = (struct stat){0};
		if (!first && is_same_file(&was, &now))
			continue;
		n = read_rules(f->path);
		n->first = first;
		if (chan_send(f->out, n) < 0) {
			news_free(n); /* the next look reports it */
			continue;
		}
		was = now;
		first = 0;
	} while (poll(&stop, 1, LOOK_MS) == 0);
	return NULL;
}

static void on_news(void *msg, void *arg)
{
	struct rules_file *f = arg;

	f->told(msg, f->arg);
	news_free(msg);
}

static int start_thread(struct rules_file *f, struct err *e)
{
	sigset_t all, old;
	int rc;

	f->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (f->stop_fd < 0)
		return err_sys(e, errno, "eventfd");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&f->thread, NULL, watch_file, f);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return err_sys(e, rc, "thread that watches %s", f->path);
	pthread_setname_np(f->thread, "hearthd-rules");
	f->started = 1;
	return 0;
}

struct rules_file *rules_file_watch(const char *path, struct loop *loop,
                                    void (*told)(const struct rules_news *n, void *arg), void *arg,
                                    struct err *e)
{
	struct rules_file *f = xcalloc(1, sizeof(*f));

	*f = (struct rules_file){.path = xstrdup(path), .told = told, .arg = arg, .stop_fd = -1};
	f->out = chan_create(loop, NEWS_MAX, 0, on_news, f);
	if (start_thread(f, e) == 0)
		return f;
	rules_file_destroy(f);
	return NULL;
}

void rules_file_destroy(struct rules_file *f)
{
	if (!f)
		return;
	if (f->started) {
		eventfd_write(f->stop_fd, 1);
		pthread_join(f->thread, NULL);
	}
	chan_destroy(f->out, news_free);
	if (f->stop_fd >= 0)
		close(f->stop_fd);
	free(f->path);
	free(f);
}
