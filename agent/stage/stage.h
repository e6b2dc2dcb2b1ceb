/*
 * The room stage: files of a job come to its node before the start, and its results leave after the end.
 *
 * stage: bundle, inputs, requirements and the checkpoint to resume from, brought in by a thread of its own.
 */
#ifndef HEARTH_AGENT_STAGE_STAGE_H
#define HEARTH_AGENT_STAGE_STAGE_H

#include "agent/base/paths.h"
#include "agent/base/user.h"
#include "agent/link/data_link.h"
#include "agent/logs/nodelog.h"
#include "common/net/wire_msg.h"
#include "common/spec/spec.h"
#include <stdint.h>

struct stage;
struct stage_params {
	uint64_t job, epoch;
	uint32_t attempt;
	const struct job_spec *spec; /* must live until done */
	const struct launch_paths *paths;
	const struct launch_user *user;
	const char *bundle_digest; /* NULL none */
	const struct wire_strv
	    *input_digests;      /* one per input: digest or uri of job:ID/kind inputs, "" for others */
	const char *resume_from; /* digest, file:// uri or NULL */
	int64_t resume_step;     /* the step that a file:// uri must hold; -1 any */
	struct nodelog *setup;   /* gets progress and pip's output */
};
struct stage_ops {
	void (*progress)(const char *phase, uint64_t done, uint64_t total,
	                 void *arg); /* phases: bundle, input:CH, requirements, resume */
	void (*done)(int rc, enum reason_class cls, const char *text, const char *venv_bin,
	             void *arg); /* venv_bin NULL none */
};
/* Starts staging, before container_create (linked inputs). resume_from goes into ml/checkpoints. Returns NULL
 * when it could not start: the log says why, and nothing is called. */
struct stage *stage_start(struct agent_env *env, struct data_link *b, const struct stage_params *p,
                          const struct stage_ops *ops, void *arg);
void stage_cancel(struct stage *s); /* no callback after this; returns at once, and the thread stops later */

#endif
