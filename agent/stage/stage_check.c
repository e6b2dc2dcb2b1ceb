/*
 * stage_check: problems that would make a run useless and can be found before it. The job's account makes
 * each check (hearth-files), because only the kernel knows what that account may do.
 *
 * - An output: the folder of output_uri must accept a new folder. A missing one is made, as the upload
 *   would.
 * - A step to resume from: the folder of an earlier job must hold it (hearthd looks into its own store).
 *   Entries of later steps stay behind.
 */
#include <string.h>

#include "agent/stage/stage_int.h"
#include "common/tree/steps.h"

/* ---- outputs ---------------------------------------------------------------------------------------- */

int stage_output(struct stage *s)
{
	struct err e;

	if (!s->output)
		return 0;
	if (files_try_output(s->files, s->output, &e) == 0)
		return 0;
	err_wrap(&e, "output_uri, as account %s", s->user.name);
	/* A missing or closed folder may be a share that this node has not mounted: hearthd tries another node. A
	 * file instead of a folder, or a path through procfs, is the owner's mistake. */
	return stage_fail(s, e.code == ERR_CONFLICT || e.code == ERR_INVALID ? RC_USER_ERROR : RC_NONE, &e);
}

/* ---- the step to resume from ------------------------------------------------------------------------ */

int stage_resume_step(struct stage *s, struct err *e)
{
	const size_t scheme = strlen("file://");

	if (s->resume_step < 0 || strncmp(s->resume, "file://", scheme) != 0)
		return 0;
	return files_check_step(s->files, s->resume + scheme, s->resume_step, e);
}

/* The job resumes from an earlier step: the next attempt must not find the entries of later ones. Their names
 * in the folder (or a node's folder in it) show their steps. */
int stage_later(const char *relpath, void *arg)
{
	struct stage *s = arg;
	int later = steps_is_later(relpath, s->resume_step);

	s->later += (uint64_t)later;
	return later;
}
