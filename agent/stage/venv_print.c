/*
 * venv_print: see venv_print.h.
 */
#include "agent/stage/venv_print.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define PRINT_MAX (256u * 1024 * 1024)
#define DEPTH_MAX 128
#define PYCACHE   "__pycache__"

/* Calls fn with the path below the top and the entry's facts, folders before what is in them. */
struct walk {
	int (*fn)(const char *path, const char *facts, int in_cache, void *arg);
	void *arg;
	int at; /* of the entry: its folder, and its name in there */
	const char *name;
	char path[4096];
};

/* A folder has no times: Python makes __pycache__ in it. */
static char *facts_of(const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return xasprintf("d %o %u", (unsigned)st->st_mode & 07777, (unsigned)st->st_uid);
	return xasprintf("%c %o %u %" PRId64 " %" PRId64 ".%09ld %" PRId64 ".%09ld %" PRIu64,
	                 S_ISREG(st->st_mode)   ? 'f'
	                 : S_ISLNK(st->st_mode) ? 'l'
	                                        : 'o',
	                 (unsigned)st->st_mode & 07777, (unsigned)st->st_uid, (int64_t)st->st_size,
	                 (int64_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (int64_t)st->st_ctim.tv_sec,
	                 st->st_ctim.tv_nsec, (uint64_t)st->st_ino);
}

static int walk_folder(struct walk *w, int fd, size_t n, int in_cache, int depth);

static int walk_entry(struct walk *w, int at, const char *name, size_t n, int in_cache, int depth)
{
	int len = snprintf(w->path + n, sizeof(w->path) - n, "%s%s", n ? "/" : "", name), fd;
	cleanup_free char *facts = NULL;
	struct stat st;

	if (len < 0 || (size_t)len >= sizeof(w->path) - n || depth == DEPTH_MAX ||
	    fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	facts = facts_of(&st);
	in_cache |= strcmp(name, PYCACHE) == 0 && S_ISDIR(st.st_mode);
	w->at = at;
	w->name = name;
	if (w->fn(w->path, facts, in_cache, w->arg) < 0)
		return -1;
	if (!S_ISDIR(st.st_mode))
		return 0;
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return walk_folder(w, fd, n + (size_t)len, in_cache, depth + 1);
}

/* Takes fd. */
static int walk_folder(struct walk *w, int fd, size_t n, int in_cache, int depth)
{
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *one;
	int rc = 0;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while (rc == 0 && (one = readdir(d)))
		if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0)
			rc = walk_entry(w, fd, one->d_name, n, in_cache, depth);
	closedir(d);
	w->path[n] = '\0';
	return rc;
}

static int walk_env(struct walk *w, const char *entry_dir)
{
	cleanup_free char *env = xasprintf("%s/env", entry_dir);

	return walk_folder(w, open(env, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), 0, 0, 0);
}

/* ---- save ---------------------------------------------------------------------------------------------- */

static int write_line(const char *path, const char *facts, int in_cache, void *arg)
{
	(void)in_cache;
	/* No name of a package has a line feed; one that has is a difference at each look. */
	return fprintf(arg, "%s %s\n", facts, path) < 0 ? -1 : 0;
}

int venv_print_save(const char *entry_dir, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/print", entry_dir);
	struct walk w = {.fn = write_line};
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	int rc;

	if (!f)
		abort();
	w.arg = f;
	rc = walk_env(&w, entry_dir);
	fclose(f);
	if (rc < 0)
		rc = err_sys(e, errno, "%s: looking at the environment", entry_dir);
	else
		rc = fs_replace(path, text, n, 0600, e);
	free(text);
	return rc;
}

/* ---- check --------------------------------------------------------------------------------------------- */

struct line {
	char *text; /* FACTS PATH */
	UT_hash_handle hh;
};

struct check {
	const struct walk *walk;
	struct line *lines;
	unsigned left; /* lines that were not seen yet */
	char *what;
};

static int match_line(const char *path, const char *facts, int in_cache, void *arg)
{
	struct check *c = arg;
	cleanup_free char *text = xasprintf("%s %s", facts, path);
	struct line *l;

	HASH_FIND_STR(c->lines, text, l);
	if (l) {
		HASH_DEL(c->lines, l);
		free(l);
		c->left--;
		return 0;
	}
	/* New, or changed: then it is missing at the end. Nobody knows what was compiled into it. */
	if (in_cache && (facts[0] == 'd' || unlinkat(c->walk->at, c->walk->name, 0) == 0))
		return 0;
	c->what = xstrdup(path);
	return -1;
}

static void index_lines(struct check *c, char *text)
{
	char *save = NULL;

	for (char *s = strtok_r(text, "\n", &save); s; s = strtok_r(NULL, "\n", &save)) {
		struct line *l = xcalloc(1, sizeof(*l));

		l->text = s;
		HASH_ADD_KEYPTR(hh, c->lines, l->text, strlen(l->text), l);
		c->left++;
	}
}

static void check_fini(struct check *c)
{
	struct line *l, *next;

	HASH_ITER (hh, c->lines, l, next) {
		HASH_DEL(c->lines, l);
		free(l);
	}
}

int venv_print_check(const char *entry_dir, char **what)
{
	cleanup_free char *path = xasprintf("%s/print", entry_dir);
	cleanup_free char *text = NULL;
	struct check c = {0};
	struct walk w = {.fn = match_line, .arg = &c};
	int same;
	size_t n;

	*what = NULL;
	if (fs_read_file(path, PRINT_MAX, &text, &n, NULL) < 0)
		return 0;
	c.walk = &w;
	index_lines(&c, text);
	same = walk_env(&w, entry_dir) == 0 && c.left == 0;
	if (!same && !c.what && c.lines) {
		/* The path follows the facts. */
		const char *at = strrchr(c.lines->text, ' ');

		c.what = xstrdup(at ? at + 1 : c.lines->text);
	}
	if (same)
		free(c.what);
	else
		*what = c.what;
	check_fini(&c);
	return same;
}
