/*
 * stagekit: one staging or upload after another against a controller's end, for tests; as root the job's
 * account is nobody.
 */
#ifndef HEARTH_TESTS_UNIT_AGENT_STAGE_STAGEKIT_H
#define HEARTH_TESTS_UNIT_AGENT_STAGE_STAGEKIT_H

#include "agent/link/data_link.h"
#include "agent/stage/packages.h"
#include "agent/stage/stage.h"
#include "agent/stage/upload.h"
#include "tests/unit/agent/logs/data_link_ctl.h"

struct stagekit {
	struct data_link_ctl ctl;
	struct agent_env env;
	struct data_link *link;
	struct launch_user user;
	struct launch_paths paths;
	unsigned runs;
	int64_t resume_step;                /* -1 any */
	void (*before)(struct stagekit *k); /* called when the folders are made, before staging; NULL none */
	/* of the last run */
	struct nodelog *setup;
	int done, rc;
	enum reason_class cls;
	char *text, *venv_bin;
	char *keys;        /* of its job.json */
	int built;         /* the environment was made */
	char phases[1024]; /* "bundle input:a " */
	unsigned n_progress;
	char *log; /* of the setup stream */
};

void stagekit_start(struct stagekit *k);
void stagekit_stop(struct stagekit *k);
/* A new job directory; keys: what stands in job.json beside the command, e.g. "\"inputs\":{...}". digests:
 * one per input or NULL. */
void stagekit_job(struct stagekit *k);
struct stage *stagekit_begin(struct stagekit *k, const char *keys, const char *bundle, const char *resume,
                             const char *const *digests);
void stagekit_wait(struct stagekit *k);
void stagekit_run(struct stagekit *k, const char *keys, const char *bundle, const char *resume,
                  const char *const *digests);
/* Content of a file below the job's ml; NULL when there is none. malloc'ed. */
char *stagekit_read(const struct stagekit *k, const char *path);
void stagekit_put(const char *path, const char *text); /* with its folders */
/* Puts a folder into the controller's blobs; digest malloc'ed. */
char *stagekit_tree(struct stagekit *k, const char *dir);
/* n empty files far below dir, so that their manifest has some 780 bytes a file. */
void stagekit_many(const char *dir, unsigned n);
uid_t stagekit_owner(const struct stagekit *k, const char *path); /* (uid_t)-1 none */

#endif
