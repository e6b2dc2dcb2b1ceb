/* cgroup: levels that launches share. What groups do to processes: test_container. */
#include "agent/container/cgroup.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

/* Groups of several launches with one layout: the node's level is made once, goes with the last launch, and
 * comes again. */
static void test_levels(void)
{
	const struct cg_limits lim = {.pids_max = 77};
	struct cg_layout l;
	struct cgroup a, b;
	struct strv notes = {0};
	cleanup_free char *node = xasprintf("unit-levels-%d", getpid()), *other = xasprintf("%s-b", node);
	struct stat st;
	struct err e;
	int missing = 0, left = 0;

	cg_layout_read(&l, "/proc/self/mountinfo", "/proc/self/cgroup", 1);
	for (int round = 0; round < 2; round++) {
		cgroup_create(&a, &l, node, "x", &lim, &notes);
		cgroup_create(&b, &l, round ? node : other, "y", &lim, &notes);
		for (int i = 0; i < CG_N; i++)
			missing += l.base[i] && (!a.dir[i] || !b.dir[i] || stat(a.dir[i], &st) < 0 ||
			                         stat(b.dir[i], &st) < 0 || !strstr(b.dir[i], round ? node : other));
		if (b.dir[CG_PIDS]) {
			cleanup_free char *max = xasprintf("%s/pids.max", b.dir[CG_PIDS]), *text = NULL;

			fs_read_file(max, 100, &text, NULL, &e);
			is_str(text, "77\n", "limited");
		}
		if (cgroup_remove(&a, &e) < 0 || cgroup_remove(&b, &e) < 0)
			left++;
		cgroup_fini(&a);
		cgroup_fini(&b);
	}
	is_int(missing, 0, "every group was made");
	is_int(left, 0, "and removed");
	for (int i = 0; i < CG_N; i++)
		left += l.of_node[i] && stat(l.of_node[i], &st) == 0;
	is_int(left, 0, "the node's level, too");
	cg_layout_fini(&l);
	strv_fini(&notes);
}

int main(void)
{
	if (geteuid() != 0)
		tap_skip_all("needs root: control groups");
	test_levels();
	return tap_done();
}
