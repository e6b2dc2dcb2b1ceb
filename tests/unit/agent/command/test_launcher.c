/* The two tables of launchers: facts (common/spec/launcher.h) and actions (agent/command/launcher.h). */
#include <string.h>

#include "agent/command/launcher.h"
#include "common/base/text.h"
#include "common/net/wire_msg.h"
#include "common/spec/spec.h"
#include "tests/lib/tap.h"

static void test_names(void)
{
	TEXT(list);

	for (int i = 0; i < N_LAUNCHERS; i++) {
		const char *name = launcher_name((enum spec_launcher)i);
		cleanup_free char *json = xasprintf("{\"command\":[\"true\"],\"launcher\":\"%s\"}", name);
		struct err e = {0};
		struct job_spec *s = spec_parse(json, strlen(json), &e);

		ok(s && s->launcher == (enum spec_launcher)i, "%s: job.json's word for it is read back", name);
		spec_destroy(s);
		text_join(&list, i == N_LAUNCHERS - 1 ? " or " : ", ", "%s", name);
	}
	is_str(list.at, LAUNCHER_NAMES, "the list of names for texts has all launchers");
	is_str(launcher_name(N_LAUNCHERS), "?", "a launcher out of range has no name");
}

static void test_procs(void)
{
	const struct launcher_proc *p;
	TEXT(streams);

	for (size_t i = 0; (p = launcher_proc_at(i)); i++) {
		ok(launcher_proc(p->kind) == p && launcher_proc_called(p->name) == p,
		   "%s: found by its kind and by its name", p->name);
		if (p->own_stream)
			text_join(&streams, ", ", "%s", p->name);
	}
	is_str(streams.at, LAUNCHER_STREAMS, "the list of streams for texts has all launchers' streams");
	ok(!launcher_proc(PROC_RANK) && !launcher_proc(0) && !launcher_proc_called("rank"),
	   "ranks are no launcher's process");
}

static void test_actions(void)
{
	for (int i = 0; i < N_LAUNCHERS; i++) {
		const struct launcher_facts *f = launcher_facts((enum spec_launcher)i);
		const struct launcher_actions *a = launcher_actions((enum spec_launcher)i);

		ok((f->first_kind == 0) == (a->first_argv == NULL), "%s: a command line for the first node's process",
		   f->name);
		ok((f->other_kind == 0) == (a->other_argv == NULL), "%s: a command line for the others' process",
		   f->name);
		ok((!f->first_kind || launcher_proc(f->first_kind)) &&
		       (!f->other_kind || launcher_proc(f->other_kind)),
		   "%s: its processes are in the table", f->name);
		ok(f->ranks_at_go == (f->first_kind == 0), "%s: somebody starts the ranks", f->name);
		ok(!a->bare_env || a->add_env, "%s: a bare environment gets what the launcher needs", f->name);
	}
}

int main(void)
{
	test_names();
	test_procs();
	test_actions();
	return tap_done();
}
