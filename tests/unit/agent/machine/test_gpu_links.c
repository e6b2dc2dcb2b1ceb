/* Which GPUs are linked, and on which socket they are: from the agent's library over the wire to what the
 * scheduler gives out. */
#include "agent/machine/inventory_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include "tests/unit/agent/machine/nvmlkit.h"

static char empty[] = "", type[] = "box", address[] = "10.77.0.9";

/* Node `a` as its agent tells it. */
static void tell(struct world *w, const struct wire_strv *lines)
{
	struct wm_inventory m = {.address = address,
	                         .interface_name = empty,
	                         .fabric_interface = empty,
	                         .cpus = 16,
	                         .slots = 16,
	                         .memory_bytes = 64ull << 30,
	                         .disk_bytes = 64ull << 30,
	                         .gpus = *lines,
	                         .instance_type = type,
	                         .topology = empty,
	                         .os_user = empty,
	                         .hostname = empty};

	world_msg(w, "a", 0, WM_INVENTORY, &m);
	world_turn(w);
}

static struct world *world_of(const struct wire_strv *lines)
{
	struct world *w = world_create(5);

	world_agent_up(w, "a", 0, 1);
	tell(w, lines);
	return w;
}

/* One line a GPU: "numa|group" of each, from GPU 0. */
static void lines_of(const char *const *pairs, struct wire_strv *out)
{
	char line[100];

	for (unsigned i = 0; pairs[i]; i++) {
		snprintf(line, sizeof(line), "%u|GPU-%u|A100|1000000|%s|%u", i, i, pairs[i], i);
		wire_strv_add(out, line);
	}
}

static void lines_fini(struct wire_strv *v)
{
	for (uint32_t i = 0; i < v->n; i++)
		free(v->v[i]);
	free(v->v);
	*v = (struct wire_strv){0};
}

/* The GPUs that a job of so many gets, "0 1"; "refused", "waits". */
static const char *given(struct world *w, unsigned gpus, const char *more)
{
	static char text[200];
	char spec[300];
	struct sent *s;
	const struct wm_prepare *m;
	size_t n = 0;

	snprintf(spec, sizeof(spec),
	         "{\"name\": \"g\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
	         "{\"gpus_per_instance\": %u, \"ranks_per_instance\": 1%s}}",
	         gpus, more);
	world_forget(w);
	if (!world_submit(w, spec)) {
		tap_diag("%s", w->err.text);
		return "refused";
	}
	s = world_sent(w, "a", WM_PREPARE);
	if (!s)
		return "waits";
	m = s->msg;
	text[0] = '\0';
	for (uint32_t i = 0; i < m->gpus.n; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u", i ? " " : "", m->gpus.v[i]);
	sent_free(s);
	return text;
}

/* The stand-in's: 0 with 1, 2 with 3, 4 to 6 by a switch, 7 alone. */
static void test_library(void)
{
	cleanup_free char *lib = nvml_double_build();
	struct wire_strv lines = {0};
	struct nvml *n;
	struct gpus g;
	struct world *w;

	if (!lib) {
		tap_skip("no C compiler for the stand-in library");
		return;
	}
	n = gpu_nvml_open(lib, &g);
	inventory_gpu_lines(&g, &lines);
	gpu_nvml_close(n);
	like(lines.v[0], "|-1|0|7", "groups are told from 0, what is not known as -1");
	w = world_of(&lines);
	is_str(given(w, 3, ""), "4 5 6", "three that are linked");
	is_str(given(w, 2, ", \"requires\": [\"nvlink\"]"), "0 1", "two of the first group");
	is_str(given(w, 2, ""), "2 3", "two of the second");
	is_str(given(w, 1, ""), "7", "and the one alone");
	world_end_well(w);
	lines_fini(&lines);
}

/* Two groups across the indices: jobs of 3, 2 and 2. */
static void test_groups(void)
{
	static const char *const two[] = {"0|0", "0|0", "0|1", "0|1", "0|1", "0|1", "0|0", "0|0", NULL},
	                         *const one[] = {"0|0", "0|0", NULL}, *const none[] = {"0|-1", "0|-1", NULL};
	struct wire_strv lines = {0};
	struct world *w;

	lines_of(two, &lines);
	w = world_of(&lines);
	is_str(given(w, 3, ""), "0 1 6", "of the first group");
	is_str(given(w, 2, ""), "2 3", "of the second");
	is_str(given(w, 2, ""), "4 5", "and its rest");
	world_restart(w);
	is_str(given(w, 8, ", \"requires\": [\"nvlink\"]"), "waits", "what is on record knows it, too");
	world_end_well(w);
	lines_fini(&lines);

	lines_of(one, &lines);
	w = world_of(&lines);
	is_str(given(w, 2, ", \"requires\": [\"nvlink\"]"), "0 1", "one group, numbered 0, is linked");
	world_end_well(w);
	lines_fini(&lines);

	lines_of(none, &lines);
	w = world_of(&lines);
	is_str(given(w, 2, ", \"requires\": [\"nvlink\"]"), "refused", "no group is none");
	is_str(given(w, 2, ""), "0 1", "which holds up nobody else");
	world_end_well(w);
	lines_fini(&lines);
}

static void test_sockets(void)
{
	static const char *const unknown[] = {"-1|-1", "0|-1", "-1|-1", "0|-1", NULL}, *const odd[] = {
	                                                                                   "x|99999999999", "|",
	                                                                                   "4294967295|70000",
	                                                                                   "0|-5", NULL};
	struct wire_strv lines = {0};
	struct world *w;

	lines_of(unknown, &lines);
	w = world_of(&lines);
	is_str(given(w, 1, ""), "0", "one");
	is_str(given(w, 2, ""), "1 3", "two of one socket: a GPU of unknown socket is not on the first");
	world_end_well(w);
	lines_fini(&lines);

	lines_of(odd, &lines);
	w = world_of(&lines);
	is_str(given(w, 4, ", \"requires\": [\"nvlink\"]"), "refused", "what is no number is no group");
	is_str(given(w, 4, ""), "0 1 2 3", "nor a socket");
	world_end_well(w);
	lines_fini(&lines);
}

int main(void)
{
	test_library();
	test_groups();
	test_sockets();
	return tap_done();
}
