/*
 * layers: folders of a launch that show a read-only tree of the node's caches, with the launch's own changes
 * on top (overlayfs). hearth-hold mounts them in the launch's namespace.
 *
 *   DATA/jobs/J.A/layers/N/lower   link: the tree, below an entry of a cache
 *   DATA/jobs/J.A/layers/N/upper   what the job changes; the job's account owns it
 *   DATA/jobs/J.A/layers/N/work    the kernel's
 *   DATA/jobs/J.A/layers/N/at      link: where below ml; made last
 *
 * The folder `layers` is closed: only the namespace leads to what is below it. Nothing of a cache may be
 * removed while a layer names it.
 */
#ifndef HEARTH_AGENT_BASE_LAYERS_H
#define HEARTH_AGENT_BASE_LAYERS_H

#include "agent/base/user.h"
#include "common/base/err.h"
#include "common/base/xalloc.h"

/* One more, below the launch's folder `work`. owner NULL: this process. */
int layers_add(const char *work, const char *at, const char *lower, const struct launch_user *owner,
               struct err *e);
/* Adds the folders (.../layers/N) of all complete ones. */
void layers_list(const char *work, struct strv *out);
/* 1: a launch of this node (DATA/jobs) has a layer on something below entry_dir. */
int layers_use(const char *jobs, const char *entry_dir);

#endif
