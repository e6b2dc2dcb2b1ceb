/*
 * stage_check: what would make a run useless and can be known before it begins. Everything is tried as the
 * job's account: only that tells what it may do, whatever the file system thinks of modes, lists and roots.
 *
 * An output: the folder of output_uri takes a new folder; it is made when it is missing, as the upload would.
 *
 * A step to resume from: the folder of an earlier job holds it (hearthd looks into its own store); and what
 * in it is of a later step, which stays behind.
 *
 * Another attempt may be at its output at the same time: the probe has a name of its own and goes again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/stage/stage_int.h"
#include "common/base/hash.h"
#include "common/os/fsutil.h"
#include "common/tree/steps.h"

/* ---- outputs ---------------------------------------------------------------------------------------- */

/* ERR_CONFLICT: the path itself is wrong. */
static int try_folder(const char *dir, struct err *e)
{
	cleanup_free char *probe = NULL;
	struct stat st;
	char name[17];

	if (stat(dir, &st) < 0 && errno == ENOTDIR)
		return err_set(e, ERR_CONFLICT, "%s: a part of its path is no folder", dir);
	if (stat(dir, &st) < 0 && errno != ENOENT)
		return err_sys(e, errno, "%s", dir);
	if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
		return err_set(e, ERR_CONFLICT, "%s is no folder", dir);
	if (fs_mkdir_p(dir, 0755, e) < 0)
		return err_wrap(e, "%s is not there and cannot be made", dir);
	random_hex(name, 16);
	probe = xasprintf("%s/.hearth-%s", dir, name);
	if (mkdir(probe, 0700) < 0)
		return err_sys(e, errno, "%s cannot be written", dir);
	return rmdir(probe) < 0 ? err_sys(e, errno, "%s", probe) : 0;
}

int stage_output(struct stage *s)
{
	struct err e;
	int rc;

	if (!s->output)
		return 0;
	rc = asuser_enter(&s->as, &e);
	if (rc == 0)
		rc = try_folder(s->output, &e);
	asuser_leave(&s->as);
	if (rc == 0)
		return 0;
	err_wrap(&e, "output_uri, as account %s", s->user.name);
	/* What is missing or closed here may be a share that this node has not mounted: another one is tried. A
	 * file in the place of a folder is the owner's own. */
	return stage_fail(s, e.code == ERR_CONFLICT ? RC_USER_ERROR : RC_NONE, &e);
}

/* ---- the step to resume from ------------------------------------------------------------------------ */

struct looker {
	struct steps steps;
	const char *dir;
	int depth;
};

/* Those of several nodes lie below algo-K, as they were put there. */
static int look_at_entry(const char *name, void *arg)
{
	struct looker *k = arg;
	const char *dir = k->dir;
	cleanup_free char *path = NULL;
	struct stat st;

	if (k->depth || strncmp(name, "algo-", 5) != 0) {
		steps_add(&k->steps, name, strlen(name));
		return 0;
	}
	path = xasprintf("%s/%s", dir, name);
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	k->dir = path;
	k->depth = 1;
	fs_each(path, look_at_entry, k, NULL);
	k->depth = 0;
	k->dir = dir;
	return 0;
}

int stage_resume_step(struct stage *s, struct err *e)
{
	struct looker k = {.steps = {.want = s->resume_step}};
	struct stat st;
	int rc;

	if (s->resume_step < 0 || strncmp(s->resume, "file://", 7) != 0)
		return 0;
	k.dir = s->resume + strlen("file://");
	if (asuser_enter(&s->as, e) < 0)
		return -1;
	if (stat(k.dir, &st) < 0)
		rc = err_sys(e, errno, "%s", k.dir);
	else if (!S_ISDIR(st.st_mode))
		rc = err_set(e, ERR_NOT_FOUND, "%s is no folder of checkpoints", k.dir);
	else
		rc = fs_each(k.dir, look_at_entry, &k, e);
	asuser_leave(&s->as);
	if (rc == 0 && steps_check(&k.steps, e) < 0)
		rc = err_wrap(e, "%s", s->resume);
	steps_fini(&k.steps);
	return rc;
}

/* Goes on from an earlier step: what comes after it was left behind, and must not be what the next attempt
 * finds. It is told by the names in the folder (or a node's folder in it), as the step itself is. */
int stage_later(const char *relpath, void *arg)
{
	struct stage *s = arg;
	const char *slash = strchr(relpath, '/');
	int later;

	if (s->resume_step < 0)
		return 0;
	if (strncmp(relpath, "algo-", 5) == 0) {
		if (!slash)
			return 0;
		relpath = slash + 1;
		slash = strchr(relpath, '/');
	}
	later = !slash && steps_entry(relpath, strlen(relpath)) > s->resume_step;
	s->later += (uint64_t)later;
	return later;
}
