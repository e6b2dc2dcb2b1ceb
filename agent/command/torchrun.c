/*
 * torchrun: see torchrun.h. The workers of torchrun are stubs, as under mpirun: each rank keeps a shim, a
 * stream and an exact exit status of its own.
 */
#include "agent/command/torchrun.h"

#include <string.h>

static int is_python(const char *word)
{
	const char *slash = strrchr(word, '/');

	return strncmp(slash ? slash + 1 : word, "python", 6) == 0;
}

void torchrun_argv(const struct launcher_in *in, struct strv *out)
{
	const struct plan *p = in->plan;
	struct strv command = {0};

	plan_argv(p, &command);
	strv_add(out, command.n && is_python(command.v[0]) ? command.v[0] : "python3");
	strv_add(out, "-m");
	strv_add(out, "torch.distributed.run");
	strv_addf(out, "--nnodes=%u", p->n_nodes);
	strv_addf(out, "--nproc_per_node=%u", p->local_ranks);
	strv_addf(out, "--node_rank=%u", p->m->node_rank);
	strv_addf(out, "--master_addr=%s", p->g->addresses.v[0]);
	strv_addf(out, "--master_port=%u", p->m->master_port);
	/* It looks after its workers every 5 s otherwise, in torch 1.13: so long a job whose ranks are done would
	 * not end. */
	strv_add(out, "--monitor_interval=0.2");
	/* The stubs write nothing. Torch 1.13 does not understand its own default "0" under Python 3.11; a rule
	 * for another rank means the same. */
	strv_add(out, "--redirects=9:1");
	strv_add(out, "--tee=9:1");
	strv_add(out, "--no_python");
	strv_add(out, in->rank);
	strv_fini(&command);
}

void torchrun_env(const struct launcher_in *in, struct strv *out)
{
	strv_setenv(out, "HEARTH_LAUNCH_DIR", in->run_dir);
}
