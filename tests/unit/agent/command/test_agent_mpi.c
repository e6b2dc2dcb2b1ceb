/* mpirun line, torchrun, orted's shell command. */
#include <stdlib.h>

#include "agent/command/mpi.h"
#include "agent/command/torchrun.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_plan.h"

static const char spec3[] =
    "{\"name\":\"digits\",\"command\":[\"python3\",\"train.py\"],\"hyperparameters\":{\"lr\":0.1,\"e\":5},"
    "\"launcher\":\"%s\",\"groups\":[{\"name\":\"chief\",\"instances\":1,\"ranks_per_instance\":2},"
    "{\"name\":\"worker\",\"instances\":2,\"ranks_per_instance\":1}]}";

static const char spec_equal[] =
    "{\"name\":\"digits\",\"command\":[\"python3\",\"train.py\"],\"launcher\":\"%s\","
    "\"hyperparameters\":{\"lr\":0.1,\"e\":5},"
    "\"resources\":{\"instances\":3,\"ranks_per_instance\":2}}";

static struct plan *make(const char *format, const char *launcher, const uint32_t *ranks, uint32_t node_rank)
{
	static const char *const nodes[] = {"algo-1", "algo-2", "algo-3", NULL};
	static const char *const addresses[] = {"10.77.0.1", "10.77.0.2", "10.77.0.3"};
	static const char *const groups[] = {"chief", "worker", "worker"};
	cleanup_free char *spec = xasprintf(format, launcher);
	struct err e;
	struct plan *p = plan_create(test_prepare(spec, node_rank, nodes, addresses, ranks, groups), &e);

	if (!p)
		tap_bail("plan: %s", e.text);
	return p;
}

static void test_mpirun(void)
{
	static const uint32_t ranks[] = {2, 1, 1};
	struct plan *p = make(spec3, "mpirun", ranks, 0);
	struct launcher_in in = {
	    .plan = p, .rsh = "/x/hearth-rsh", .rank = "/x/hearth-rank", .cidr = "10.77.0.0/16", .as_root = 1};
	struct strv argv = {0};
	char *line;

	mpi_argv(&in, &argv);
	line = mpi_line(&argv);
	is_str(line,
	       "mpirun --allow-run-as-root --mca plm_rsh_agent /x/hearth-rsh --mca plm_rsh_no_tree_spawn 1 "
	       "--leave-session-attached --mca if_base_do_not_resolve 1 --mca odls_base_sigkill_timeout 0 "
	       "--mca orte_abort_on_non_zero_status 1 --mca rtc '^hwloc' --mca oob_tcp_keepalive_time 20 "
	       "--mca oob_tcp_keepalive_intvl 5 --mca oob_tcp_keepalive_probes 3 --mca pml ob1 --mca btl "
	       "tcp,self,vader "
	       "--mca btl_tcp_if_include 10.77.0.0/16 --mca oob_tcp_if_include 10.77.0.0/16 --bind-to none "
	       "--map-by slot "
	       "--host localhost:2,algo-2:1,algo-3:1 -np 4 /x/hearth-rank",
	       "the whole line");
	free(line);
	strv_fini(&argv);

	in.as_root = 0;
	in.has_fabric = 1;
	in.cidr = NULL;
	mpi_argv(&in, &argv);
	line = mpi_line(&argv);
	ok(!strstr(line, "allow-run-as-root") && !strstr(line, "ob1") && !strstr(line, "if_include"),
	   "ordinary user, fabric, no network known");
	free(line);
	strv_fini(&argv);
	plan_destroy(p);
}

static void test_torchrun(void)
{
	static const uint32_t ranks[] = {2, 2, 2};
	struct plan *p = make(spec_equal, "torchrun", ranks, 1);
	struct launcher_in in = {.plan = p, .rank = "/x/hearth-rank"};
	struct strv argv = {0};
	char *line;

	torchrun_argv(&in, &argv);
	line = mpi_line(&argv);
	is_str(line,
	       "python3 -m torch.distributed.run --nnodes=3 --nproc_per_node=2 --node_rank=1 "
	       "--master_addr=10.77.0.1 "
	       "--master_port=20100 --monitor_interval=0.2 --redirects=9:1 --tee=9:1 --no_python /x/hearth-rank",
	       "torchrun of the second node");
	free(line);
	strv_fini(&argv);
	plan_destroy(p);
}

static void test_orted(void)
{
	static const char *const more[] = {"-mca",        "btl_tcp_if_include", "10.77.0.0/16",
	                                   "--mca",       "oob_tcp_if_include", "10.77.0.0/16",
	                                   "10.77.0.0/16"};
	static const uint32_t ranks[] = {2, 1, 1};
	struct plan *p = make(spec3, "mpirun", ranks, 1);
	struct wire_strv words = {0};
	struct strv argv = {0};

	wire_strv_add(&words, "/opt/openmpi/bin/orted");
	wire_strv_add(&words, "-mca");
	wire_strv_add(&words, "a/b");
	mpi_orted_argv(&words, p->spec, "10.78.0.0/16", &argv);
	is_int(argv.n, 3, "as many words");
	is_str(argv.v[0], "orted", "this node's own orted");
	is_str(argv.v[2], "a/b", "the rest as it came");
	strv_fini(&argv);
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		wire_strv_add(&words, more[i]);
	mpi_orted_argv(&words, p->spec, "10.78.0.0/16", &argv);
	is_str(argv.v[5], "10.78.0.0/16", "the network of this node, not of mpirun's");
	is_str(argv.v[8], "10.78.0.0/16", "for both uses of it");
	is_str(argv.v[9], "10.77.0.0/16", "a word that only looks like it is left alone");
	strv_fini(&argv);
	mpi_orted_argv(&words, p->spec, NULL, &argv);
	is_str(argv.v[5], "10.77.0.0/16", "left where this node's is not known");
	strv_fini(&argv);
	plan_destroy(p);
	for (uint32_t i = 0; i < words.n; i++)
		free(words.v[i]);
	free(words.v);
}

/* Open MPI takes no parameter twice: what a job says itself is not said by Hearth, too. */
static void test_own(void)
{
	static const char spec[] =
	    "{\"name\":\"d\",\"command\":[\"a\"],\"launcher\":\"%s\",\"resources\":{\"instances\":3},"
	    "\"mpi_options\":[\"--mca\",\"btl_tcp_if_exclude\",\"lo\",\"--mca\",\"pml\",\"ucx\"]}";
	static const uint32_t ranks[] = {1, 1, 1};
	struct plan *p = make(spec, "mpirun", ranks, 1);
	struct launcher_in in = {
	    .plan = p, .rsh = "/x/hearth-rsh", .rank = "/x/hearth-rank", .cidr = "10.77.0.0/16"};
	struct strv argv = {0}, env = {0};
	char *line;

	mpi_argv(&in, &argv);
	line = mpi_line(&argv);
	ok(!strstr(line, "pml ob1") && strstr(line, "--mca pml ucx"), "the job's pml alone");
	like(line, "--mca btl tcp,self,vader", "the rest as always");
	ok(!strstr(line, "btl_tcp_if_include"), "what it excludes leaves nothing to include");
	like(line, "oob_tcp_if_include 10.77.0.0/16", "Hearth's own connections stay on their network");
	in.cidr = "10.78.0.0/16";
	mpi_env(&in, &env);
	is_int(env.n, 1, "the same in the environment");
	is_str(env.v[0], "HEARTH_RANK_OMPI_MCA_oob_tcp_if_include=10.78.0.0/16", "with this node's network");
	in.cidr = NULL;
	mpi_env(&in, &env);
	is_int(env.n, 1, "nothing where it is not known");
	free(line);
	strv_fini(&argv);
	strv_fini(&env);
	plan_destroy(p);
}

static void test_quoting(void)
{
	struct strv argv = {0};
	char *line;

	strv_add(&argv, "a b");
	strv_add(&argv, "it's");
	strv_add(&argv, "");
	strv_add(&argv, "--x=1");
	line = mpi_line(&argv);
	is_str(line, "'a b' 'it'\\''s' '' --x=1", "a shell reads it back");
	free(line);
	strv_fini(&argv);
}

int main(void)
{
	test_mpirun();
	test_torchrun();
	test_orted();
	test_own();
	test_quoting();
	return tap_done();
}
