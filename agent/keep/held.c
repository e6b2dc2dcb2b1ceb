/*
 * held: see held.h.
 */
#include "agent/keep/held.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/os/fsutil.h"

#define HELD_PART 4 /* one in so many bytes of the disk may be held */

char *held_dir(const struct agent_env *env, const char *launch)
{
	return xasprintf("%s/held/%s", env->cfg.data_dir, launch);
}

static int make_dir(const char *path, struct err *e)
{
	return mkdir(path, 0700) < 0 && errno != EEXIST ? err_sys(e, errno, "%s", path) : 0;
}

int held_make(const struct agent_env *env, const char *launch, const struct launch_user *user, struct err *e)
{
	cleanup_free char *top = xasprintf("%s/held", env->cfg.data_dir), *dir = held_dir(env, launch);
	cleanup_free char *files = xasprintf("%s/files", dir);
	cleanup_close int fd = -1;

	if (make_dir(top, e) < 0 || make_dir(dir, e) < 0 || make_dir(files, e) < 0)
		return -1;
	fd = open(files, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || (env->is_root && fchown(fd, user->uid, user->gid) < 0))
		return err_sys(e, errno, "%s", files);
	return 0;
}

void held_drop_launch(struct agent_env *env, struct trash *trash, const char *launch)
{
	cleanup_free char *dir = held_dir(env, launch);
	struct err e = {0};

	if (trash_put(trash, dir, "held", &e) < 0 && e.code != ERR_NOT_FOUND)
		log_warn("event=held_not_removed launch=%s reason=\"%s\"", launch, e.text);
}

/* ---- bounds ----------------------------------------------------------------------------------------- */

uint64_t held_limit(const struct agent_env *env)
{
	uint64_t free_bytes = 0, total = 0;

	if (env->cfg.held_limit)
		return env->cfg.held_limit;
	return fs_disk_free(env->cfg.data_dir, &free_bytes, &total, NULL) == 0 ? total / HELD_PART : 0;
}

uint64_t held_part(uint64_t limit, const struct held_use *use)
{
	uint64_t fair = limit / use->accounts / use->own;
	uint64_t left = limit > use->others ? limit - use->others : 0;

	return fair > left ? fair : left;
}
