/*
 * launch_dirs: the folders of one launch and who may see them.
 *
 * RUN/J.A is 0711 of the agent: the job's account walks through to the sockets of its shims, but lists
 * nothing. DATA/jobs/J.A is 0711 too; what the job writes (ml/..., tmp, shm) belongs to its account; logs
 * belong to the agent.
 */
#include <errno.h>
#include <sys/stat.h>

#include "agent/launch.h"
#include "common/fsutil.h"

static const struct {
	const char *path;
	mode_t mode;
	int job; /* belongs to the job's account */
} dirs[] = {
    {"ml", 0755, 1},
    {"ml/code", 0755, 1},
    {"ml/input", 0755, 1},
    {"ml/input/config", 0755, 1},
    {"ml/input/data", 0755, 1},
    {"ml/model", 0755, 1},
    {"ml/output", 0755, 1},
    {"ml/output/data", 0755, 1},
    {"ml/output/intermediate", 0755, 1},
    {"ml/output/tensorboard", 0755, 1},
    {"ml/checkpoints", 0755, 1},
    {"ml/sagemaker", 0755, 1},
    {"ml/sagemaker/warmpoolcache", 0755, 1},
    {"tmp", 0700, 1},
    {"shm", 0700, 1},
    {"logs", 0700, 0},
};

static int make(const struct launch *l, const char *path, mode_t mode, int job, struct err *e)
{
	int made = mkdir(path, mode) == 0;

	if (!made && errno != EEXIST)
		return err_sys(e, errno, "%s", path);
	/* Only the agent writes above these folders, so nobody can have put a link here. The umask is 022 (main).
	 */
	if ((!made || (mode & 022)) && chmod(path, mode) < 0)
		return err_sys(e, errno, "%s: mode", path);
	if (job && l->a->env.is_root && (!made || l->user.uid || l->user.gid) &&
	    lchown(path, l->user.uid, l->user.gid) < 0)
		return err_sys(e, errno, "%s: owner", path);
	return 0;
}

int launch_make_dirs(struct launch *l, struct err *e)
{
	cleanup_free char *jobs = xasprintf("%s/jobs", l->a->env.cfg.data_dir);
	cleanup_free char *orted_tmp = xasprintf("%s/t", l->paths.run);
	cleanup_free char *shm = xasprintf("%s/s", l->paths.run);

	if (make(l, jobs, 0711, 0, e) < 0 || make(l, l->paths.work, 0711, 0, e) < 0)
		return -1;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		cleanup_free char *path = xasprintf("%s/%s", l->paths.work, dirs[i].path);

		if (make(l, path, dirs[i].mode, dirs[i].job, e) < 0)
			return -1;
	}
	/* Short and on tmpfs: unix sockets of Open MPI, and its shared memory, where the launch has no /tmp and
	 * /dev/shm of its own. */
	if (make(l, orted_tmp, 0700, 1, e) < 0)
		return -1;
	return make(l, shm, 0700, 1, e);
}
