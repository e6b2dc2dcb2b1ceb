/*
 * launch_inside: programs that the agent runs for the launch in its container, because they execute code of
 * the job's owner: those that make the environment of its requirements, and the list of its packages. Each
 * has a shim in a folder of its own next to those of the ranks; stage/inside.h runs it from a thread.
 *
 * The launch is not ENDED while one of them may run (launch_kill.c). One that an agent left when it died has
 * killed its program, because the connection ended, and waits to be killed itself.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "agent/launch/launch_steps.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"

#define FIRST_VICTIM 1000 /* oom_score_adj: where memory is short it goes before any rank */

static const char build_folder[] = "build", packages_folder[] = "packages";
static const char *const folders[] = {build_folder, packages_folder};

static struct inside *make_inside(const struct launch *l, const char *name, uint32_t oom_score_adj)
{
	cleanup_free char *dir = xasprintf("%s/%s", l->paths.run, name);
	cleanup_free char *logdir = xasprintf("%s/logs/%s", l->paths.work, name);
	struct shim_launch order = {0};

	launch_order(l, &order);
	order.oom_score_adj = oom_score_adj;
	for (uint32_t i = 0; i < l->n_cpus; i++)
		wire_u32v_add(&order.cpus, l->cpus[i]);
	return inside_create(l->host->shim_path, dir, logdir, &order);
}

int launch_build(struct launch *l, const struct stage_params *p, const struct stage_ops *ops)
{
	cleanup_free char *own = xasprintf("%s/tmp", l->paths.work);

	l->build = stage_build(l->host->env, l->host->link, p, l->build_key, l->own_tmp ? "/tmp" : own,
	                       make_inside(l, build_folder, 0), ops, l);
	return l->build ? 0 : -1;
}

struct inside *launch_inside_packages(struct launch *l)
{
	return make_inside(l, packages_folder, FIRST_VICTIM);
}

void launch_inside_stop(struct launch *l)
{
	if (l->packages)
		packages_stop(l->packages);
	if (!l->build)
		return;
	stage_stop(l->build);
	if (stage_busy(l->build))
		return;
	stage_cancel(l->build); /* it waits for something, or is nearly done */
	l->build = NULL;
}

int launch_inside_busy(const struct launch *l)
{
	return (l->build && stage_busy(l->build)) || (l->packages && packages_busy(l->packages));
}

int launch_inside_is_folder(const char *name)
{
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (strcmp(name, folders[i]) == 0)
			return 1;
	return 0;
}

void launch_inside_drop(const struct launch *l)
{
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		cleanup_free char *dir = xasprintf("%s/%s", l->paths.run, folders[i]);
		struct shim_state s;
		int fd;

		if (shim_state_read(dir, &s, NULL) < 0)
			continue;
		fd = proc_open(&s.shim, NULL);
		if (fd >= 0) {
			proc_signal(fd, SIGKILL, NULL);
			close(fd);
		}
		shim_state_fini(&s);
	}
}
