/*
 * launch_dirs: the folders of one launch and their rights.
 *
 * RUN/J.A is 0711 of the agent: the job's account passes through to the sockets of its shims and lists
 * nothing. DATA/jobs/J.A is 0711, too. What the job writes (ml/..., tmp, shm) belongs to its account, and
 * logs belong to the agent. ml is 0700, because every account of the node can guess the names above it.
 *
 * A root agent writes into ml (staging, input/config), and other processes of the account may wait for that
 * moment. So ml, and what is above the inputs in it, is the agent's and closed until all files are complete
 * (stage_hand_over in stage.c); after that root changes nothing below it. A launch that is prepared again
 * gets a new ml, because the old one may belong to the account already.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/launch/launch_steps.h"
#include "agent/pool/pools.h"
#include "common/base/hash.h"
#include "common/os/fsutil.h"

#define AT_ONCE    4 /* folders in a turn of the loop */
#define WARM_CACHE "ml/sagemaker/warmpoolcache"

enum whose { AGENTS, JOBS, LATER }; /* LATER: the agent's until staging hands it over */

static const struct {
	const char *path;
	mode_t mode;
	enum whose whose;
} dirs[] = {
    {"ml", 0700, LATER},
    {"ml/code", 0755, JOBS},
    {"ml/input", 0755, LATER},
    {"ml/input/config", 0755, LATER},
    {"ml/input/data", 0755, LATER},
    {"ml/model", 0755, JOBS},
    {"ml/output", 0755, JOBS},
    {"ml/output/data", 0755, JOBS},
    {"ml/output/intermediate", 0755, JOBS},
    {"ml/output/tensorboard", 0755, JOBS},
    {"ml/checkpoints", 0755, JOBS},
    {"ml/sagemaker", 0755, JOBS},
    {WARM_CACHE, 0700, JOBS},
    {"tmp", 0700, JOBS},
    {"shm", 0700, JOBS},
    {"logs", 0700, AGENTS},
};

/* By descriptor: a name may be a link by the time that it is used again. */
static int make_dir(const struct launch *l, const char *path, mode_t mode, enum whose whose, struct err *e)
{
	int made = mkdir(path, mode) == 0;
	cleanup_close int fd = -1;

	if (!made && errno != EEXIST)
		return err_sys(e, errno, "%s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	/* The umask is 022 (main). */
	if ((!made || (mode & 022)) && fchmod(fd, mode) < 0)
		return err_sys(e, errno, "%s: mode", path);
	if (whose == JOBS && l->host->env->is_root && (!made || l->user.uid || l->user.gid) &&
	    fchown(fd, l->user.uid, l->user.gid) < 0)
		return err_sys(e, errno, "%s: owner", path);
	return 0;
}

/* Not removed here, on the loop: staging does that (DATA/jobs/J.A/old). */
static int put_aside(const struct launch *l, struct err *e)
{
	cleanup_free char *old = xasprintf("%s/old", l->paths.work), *to = NULL;
	char name[17];

	if (!l->host->env->is_root || l->user.uid == 0)
		return 0;
	random_hex(name, 16);
	to = xasprintf("%s/%s", old, name);
	if (make_dir(l, old, 0700, AGENTS, e) < 0)
		return -1;
	if (rename(l->paths.ml, to) < 0 && errno != ENOENT)
		return err_sys(e, errno, "%s: put aside", l->paths.ml);
	return 0;
}

static int begin_dirs(const struct launch *l, struct err *e)
{
	cleanup_free char *jobs = xasprintf("%s/jobs", l->host->env->cfg.data_dir);
	cleanup_free char *orted_tmp = xasprintf("%s/t", l->paths.run);
	cleanup_free char *shm = xasprintf("%s/s", l->paths.run);

	if (make_dir(l, jobs, 0711, AGENTS, e) < 0 || make_dir(l, l->paths.work, 0711, AGENTS, e) < 0 ||
	    put_aside(l, e) < 0)
		return -1;
	/* Short and on tmpfs: unix sockets of Open MPI, and its shared memory, where the launch has no /tmp and
	 * /dev/shm of its own. */
	return make_dir(l, orted_tmp, 0700, JOBS, e) < 0 ? -1 : make_dir(l, shm, 0700, JOBS, e);
}

/* A link, because the folder outlives the launch. Nobody else comes into ml yet, and only the job follows it.
 */
static int link_cache(const struct launch *l, const char *path, struct err *e)
{
	cleanup_free char *pool = pools_path(l->pool), *cache = xasprintf("%s/cache", pool);

	if ((unlink(path) < 0 && errno != ENOENT) || symlink(cache, path) < 0)
		return err_sys(e, errno, "%s", path);
	return 0;
}

static int make_one(const struct launch *l, unsigned i, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/%s", l->paths.work, dirs[i].path);

	if (l->pool && strcmp(dirs[i].path, WARM_CACHE) == 0)
		return link_cache(l, path, e);
	return make_dir(l, path, dirs[i].mode, dirs[i].whose, e);
}

int launch_make_dirs(const struct launch *l, unsigned *at, struct err *e)
{
	const unsigned n = sizeof(dirs) / sizeof(dirs[0]);

	if (*at == 0 && begin_dirs(l, e) < 0)
		return -1;
	for (unsigned i = 0; i < AT_ONCE && *at < n; i++, ++*at)
		if (make_one(l, *at, e) < 0)
			return -1;
	return *at < n;
}
