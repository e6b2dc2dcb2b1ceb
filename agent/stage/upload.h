/*
 * upload: what a run leaves goes to output_uri or to hearthd: model, outputs, checkpoints.
 */
#ifndef HEARTH_AGENT_STAGE_UPLOAD_H
#define HEARTH_AGENT_STAGE_UPLOAD_H

#include "agent/base/paths.h"
#include "agent/base/user.h"
#include "agent/link/data_link.h"
#include <stdint.h>

struct upload;
struct upload_result {
	const char *kind; /* model output failure checkpoint */
	const char *digest, *uri;
	uint64_t size_bytes, files;
};
struct upload_ops {
	void (*progress)(uint64_t done, uint64_t total, void *arg);
	void (*artifact)(const struct upload_result *r, void *arg);
	void (*done)(int rc, const char *text, void *arg);
	void (*checkpoints)(void *arg); /* the folder of checkpoints is uploaded, or empty; may be NULL */
};
/* Uploads model, output (without output/failure) and checkpoints: to output_uri/JOB/KIND[/NODE] by file copy,
 * or as trees to hearthd. Empty ones are left out. ERR_CONFLICT: an upload of a greater epoch was there. */
/* Returns NULL when it could not start (the folder is gone): the log says why, and nothing is called. */
struct upload *upload_start(struct agent_env *env, struct data_link *b, uint64_t job, uint32_t attempt,
                            uint64_t epoch, uint32_t node_rank, uint32_t n_nodes,
                            const struct launch_paths *paths, const struct launch_user *user,
                            const char *output_uri, const struct upload_ops *ops, void *arg);
void upload_cancel(struct upload *u);

#endif
