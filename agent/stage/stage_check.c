/*
 * stage_check: problems that would make a run useless and can be found before it. Each check runs as the
 * job's account, because only the kernel knows what that account may do.
 *
 * - An output: the folder of output_uri must accept a new folder. A missing one is made, as the upload
 *   would.
 * - A step to resume from: the folder of an earlier job must hold it (hearthd looks into its own store).
 *   Entries of later steps stay behind.
 *
 * Another attempt may write its output at the same time: the probe has a name of its own and is removed.
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
		return err_set(e, ERR_CONFLICT, "%s: a part of its path is not a folder", dir);
	if (stat(dir, &st) < 0 && errno != ENOENT)
		return err_sys(e, errno, "%s", dir);
	if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
		return err_set(e, ERR_CONFLICT, "%s is not a folder", dir);
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
	/* A missing or closed folder may be a share that this node has not mounted: hearthd tries another node. A
	 * file instead of a folder is the owner's mistake. */
	return stage_fail(s, e.code == ERR_CONFLICT ? RC_USER_ERROR : RC_NONE, &e);
}

/* ---- the step to resume from ------------------------------------------------------------------------ */

struct looker {
	struct steps steps;
	const char *dir;
	int depth;
};

/* Checkpoints of several nodes are in folders algo-K. */
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
		rc = err_set(e, ERR_NOT_FOUND, "%s is not a folder of checkpoints", k.dir);
	else
		rc = fs_each(k.dir, look_at_entry, &k, e);
	asuser_leave(&s->as);
	if (rc == 0 && steps_check(&k.steps, e) < 0)
		rc = err_wrap(e, "%s", s->resume);
	steps_fini(&k.steps);
	return rc;
}

/* The job resumes from an earlier step: the next attempt must not find the entries of later ones. Their names
 * in the folder (or a node's folder in it) show their steps. */
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
