/*
 * The room stage: files of a job come to its node before the start, and its results leave after the end.
 *
 * stage: bundle, inputs and the checkpoint to resume from, brought in by a thread of its own, before there is
 * a container; and then, where it is missing, the environment of the requirements, made inside the container.
 */
#ifndef HEARTH_AGENT_STAGE_STAGE_H
#define HEARTH_AGENT_STAGE_STAGE_H

#include "agent/base/paths.h"
#include "agent/base/user.h"
#include "agent/link/data_link.h"
#include "agent/logs/nodelog.h"
#include "agent/stage/inside.h"
#include "common/net/wire_msg.h"
#include "common/spec/spec.h"
#include <stdint.h>

struct pool_folder;
struct stage;
struct stage_params {
	uint64_t job, epoch;
	uint32_t attempt;
	const struct job_spec *spec; /* must live until done */
	const struct launch_paths *paths;
	const struct launch_user *user;
	const char *bundle_digest; /* NULL none */
	const struct wire_strv
	    *input_digests;       /* one per input: digest or uri of job:ID/kind inputs, "" for others */
	const char *resume_from;  /* digest, file:// uri or NULL */
	const char *resume_name;  /* entry to restore from its parts; NULL: resume_from alone counts */
	const char *resume_local; /* launch whose held copies may be used; NULL none */
	const struct wire_strv *resume_digests, *resume_uris;
	int64_t resume_step;   /* the step that a file:// uri must hold; -1 any */
	struct nodelog *setup; /* gets progress and pip's output; NULL none */
	int ahead; /* no launch yet: outputs are not tried, and inputs come into the cache only, where it can know
	              them; at low priority, and a tenth of the disk stays free */
	uint32_t
	    holder_pid; /* of its container, which runs already (container_shim): layers come into it; 0 none */
	uint64_t holder_start;
	const struct pool_folder *pool; /* what it uses of the caches is that pool's; NULL none */
};
struct stage_result {
	int rc; /* 0, or -1 with class and text */
	enum reason_class cls;
	const char *text;
	int not_restored;      /* a copy of the checkpoint to begin with is damaged or missing */
	const char *venv_bin;  /* of the virtual environment; NULL none (yet) */
	const char *build_key; /* the environment is missing: stage_build makes it; NULL: nothing is missing */
};
struct stage_ops {
	void (*progress)(const char *phase, uint64_t done, uint64_t total,
	                 void *arg); /* phases: bundle, input:CH, requirements, resume */
	void (*done)(const struct stage_result *r, void *arg);
};
/* Starts staging, before container_create (linked inputs). resume_from goes into ml/checkpoints. Returns NULL
 * when it could not start: the log says why, and nothing is called. */
struct stage *stage_start(struct agent_env *env, struct data_link *b, const struct stage_params *p,
                          const struct stage_ops *ops, void *arg);
/* Makes the virtual environment build_key inside the launch's container. params: as for stage_start, with the
 * paths as the container shows them; tmpdir: a temporary folder inside. Takes `in`. */
struct stage *stage_build(struct agent_env *env, struct data_link *b, const struct stage_params *p,
                          const char *build_key, const char *tmpdir, struct inside *in,
                          const struct stage_ops *ops, void *arg);
/* A build starts nothing more in the container, and what runs there is killed. done follows. */
void stage_stop(struct stage *s);
int stage_busy(const struct stage *s); /* of a build: 1: something may run in the container */
void stage_cancel(struct stage *s); /* no callback after this; returns at once, and the thread stops later */

#endif
