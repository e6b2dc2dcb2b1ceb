/*
 * layers: see layers.h.
 */
#include "agent/base/layers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/fsutil.h"

#define LAYERS_MAX 256

/* DATA/jobs/J.A/layers/N, made; malloc'ed. */
static char *make_next(const char *work, struct err *e)
{
	cleanup_free char *all = xasprintf("%s/layers", work);

	if (mkdir(all, 0700) < 0 && errno != EEXIST) {
		err_sys(e, errno, "%s", all);
		return NULL;
	}
	for (unsigned i = 0; i < LAYERS_MAX; i++) {
		char *one = xasprintf("%s/%u", all, i);

		if (mkdir(one, 0700) == 0)
			return one;
		if (errno != EEXIST) {
			err_sys(e, errno, "%s", one);
			free(one);
			return NULL;
		}
		free(one);
	}
	err_set(e, ERR_LIMIT, "%s: more than %d", all, LAYERS_MAX);
	return NULL;
}

int layers_add(const char *work, const char *at, const char *lower, const struct launch_user *owner,
               struct err *e)
{
	cleanup_free char *one = make_next(work, e);
	cleanup_free char *upper = NULL, *mine = NULL, *tree = NULL, *place = NULL;

	if (!one)
		return -1;
	upper = xasprintf("%s/upper", one);
	mine = xasprintf("%s/work", one);
	tree = xasprintf("%s/lower", one);
	place = xasprintf("%s/at", one);
	/* The mount's top has owner and mode of `upper`. */
	if (mkdir(upper, 0755) < 0 || chmod(upper, 0755) < 0 || mkdir(mine, 0700) < 0 ||
	    (owner && chown(upper, owner->uid, owner->gid) < 0) || symlink(lower, tree) < 0 ||
	    symlink(at, place) < 0)
		return err_sys(e, errno, "%s", one);
	return 0;
}

struct listing {
	const char *all;
	struct strv *out;
};

static int list_one(const char *name, void *arg)
{
	const struct listing *l = arg;
	cleanup_free char *place = xasprintf("%s/%s/at", l->all, name);
	struct stat st;

	if (lstat(place, &st) == 0 && S_ISLNK(st.st_mode))
		strv_addf(l->out, "%s/%s", l->all, name);
	return 0;
}

void layers_list(const char *work, struct strv *out)
{
	cleanup_free char *all = xasprintf("%s/layers", work);
	struct listing l = {.all = all, .out = out};

	fs_each(all, list_one, &l, NULL);
}

struct question {
	const char *jobs, *entry_dir;
};

static int look_at_job(const char *name, void *arg)
{
	const struct question *q = arg;
	cleanup_free char *work = xasprintf("%s/%s", q->jobs, name);
	size_t n = strlen(q->entry_dir);
	struct strv found = {0};
	int used = 0;

	layers_list(work, &found);
	for (size_t i = 0; i < found.n && !used; i++) {
		cleanup_free char *link = xasprintf("%s/lower", found.v[i]);
		char target[4096];
		ssize_t len = readlink(link, target, sizeof(target) - 1);

		target[len > 0 ? len : 0] = '\0';
		used = strncmp(target, q->entry_dir, n) == 0 && target[n] == '/';
	}
	strv_fini(&found);
	return used ? -1 : 0;
}

int layers_use(const char *jobs, const char *entry_dir)
{
	struct question q = {.jobs = jobs, .entry_dir = entry_dir};

	return fs_each(jobs, look_at_job, &q, NULL) < 0;
}
