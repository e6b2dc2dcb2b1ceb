/*
 * mpi: see mpi.h. Experiments with Open MPI 4.1 gave every option below; its reason is beside it.
 *
 * --host calls the main node "localhost": mpirun then runs its ranks itself, and a job of one node needs no
 * orted. The others are algo-K. Their names need not resolve, and nobody looks them up
 * (if_base_do_not_resolve): they only travel through hearth-rsh. With --map-by slot and slots per node,
 * ranks go to nodes in the order of the list.
 *
 * mpirun's line can name one network for all nodes, and that of its own node would be wrong elsewhere. So
 * each agent puts its own network into the line of its orted and, by MPI_RANK_ENV, into the environment of
 * its ranks.
 */
#include "agent/command/mpi.h"

#include <stdio.h>
#include <string.h>

#include "agent/command/env.h"

static void add_mca(struct strv *out, const char *name, const char *value)
{
	strv_add(out, "--mca");
	strv_add(out, name);
	strv_add(out, value);
}

/* Open MPI refuses a parameter that is given twice: what the job names itself is the job's. */
static int is_named(const struct job_spec *s, const char *name)
{
	for (size_t i = 0; i + 2 < s->mpi_options.n; i += 3)
		if (strcmp(s->mpi_options.v[i + 1], name) == 0)
			return 1;
	for (size_t i = 0; i < s->n_env; i++)
		if (strncmp(s->env[i].name, "OMPI_MCA_", 9) == 0 && strcmp(s->env[i].name + 9, name) == 0)
			return 1;
	return 0;
}

static void default_mca(const struct launcher_in *in, struct strv *out, const char *name, const char *value)
{
	if (!is_named(in->plan->spec, name))
		add_mca(out, name, value);
}

static const char *const net_names[] = {"btl_tcp_if_include", "oob_tcp_if_include"};
#define N_NET_NAMES (sizeof(net_names) / sizeof(net_names[0]))

/* Is the network of this parameter for us to say? Including and excluding rule each other out. */
static int sets_net(const struct job_spec *s, const char *name)
{
	return strcmp(name, "btl_tcp_if_include") != 0 ||
	       (!is_named(s, name) && !is_named(s, "btl_tcp_if_exclude"));
}

void mpi_env(const struct launcher_in *in, struct strv *out)
{
	for (size_t i = 0; in->cidr && i < N_NET_NAMES; i++) {
		cleanup_free char *name = xasprintf(MPI_RANK_ENV "OMPI_MCA_%s", net_names[i]);

		if (sets_net(in->plan->spec, net_names[i]))
			strv_setenv(out, name, in->cidr);
	}
}

static char *host_list(const struct plan *p)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		abort();
	for (uint32_t i = 0; i < p->n_nodes; i++)
		fprintf(f, "%s%s:%u", i ? "," : "", i ? p->g->nodes.v[i] : "localhost", p->g->ranks_per_node.v[i]);
	if (fclose(f) != 0)
		abort();
	return text;
}

static void launch_options(const struct launcher_in *in, struct strv *out)
{
	add_mca(out, "plm_rsh_agent", in->rsh);
	/* Both or none: without the second, orted leaves its session and the lifeline is gone. */
	add_mca(out, "plm_rsh_no_tree_spawn", "1");
	strv_add(out, "--leave-session-attached");
	add_mca(out, "if_base_do_not_resolve", "1");
	add_mca(out, "odls_base_sigkill_timeout",
	        "0"); /* else each abort costs a second; the grace time is the shim's */
	add_mca(out, "orte_abort_on_non_zero_status", "1");
	add_mca(out, "rtc", "^hwloc"); /* two orteds of one job on one machine crash with it */
	/* Last resort only: Hearth decides by lease and progress, long before. */
	add_mca(out, "oob_tcp_keepalive_time", "20");
	add_mca(out, "oob_tcp_keepalive_intvl", "5");
	add_mca(out, "oob_tcp_keepalive_probes", "3");
}

void mpi_argv(const struct launcher_in *in, struct strv *out)
{
	/* Not its absolute path: Open MPI would then look for orted under the same prefix on all nodes. PATH
	 * finds it. */
	strv_add(out, "mpirun");
	if (in->as_root)
		strv_add(out, "--allow-run-as-root");
	launch_options(in, out);
	if (!in->has_fabric) { /* saves about 200 ms of looking for fabrics */
		default_mca(in, out, "pml", "ob1");
		default_mca(in, out, "btl", "tcp,self,vader");
	}
	for (size_t i = 0; in->cidr && i < N_NET_NAMES; i++)
		if (sets_net(in->plan->spec, net_names[i]))
			add_mca(out, net_names[i], in->cidr);
	strv_add(out, "--bind-to");
	strv_add(out, "none"); /* each rank has its CPU set from its shim; the default would pin it to one core */
	strv_add(out, "--map-by");
	strv_add(out, "slot");
	for (size_t i = 0; i < in->plan->spec->mpi_options.n; i++)
		strv_add(out, in->plan->spec->mpi_options.v[i]);
	strv_add(out, "--host");
	strv_take(out, host_list(in->plan));
	strv_add(out, "-np");
	strv_addf(out, "%u", in->plan->world);
	strv_add(out, in->rank);
}

/* Is word i the network of mpirun's node? */
static int is_net(const struct wire_strv *words, uint32_t i, const struct job_spec *s)
{
	const char *name = i >= 2 ? words->v[i - 1] : "", *option = i >= 2 ? words->v[i - 2] : "";

	if (strcmp(option, "-mca") != 0 && strcmp(option, "--mca") != 0)
		return 0;
	for (size_t k = 0; k < N_NET_NAMES; k++)
		if (strcmp(name, net_names[k]) == 0)
			return sets_net(s, name);
	return 0;
}

void mpi_waiting_argv(const struct launcher_in *in, struct strv *out)
{
	(void)in;
	strv_add(out, "orted");
}

void mpi_orted_argv(const struct wire_strv *words, const struct job_spec *s, const char *cidr,
                    struct strv *out)
{
	const char *slash;

	for (uint32_t i = 0; i < words->n; i++) {
		if (cidr && is_net(words, i, s)) {
			strv_add(out, cidr);
			continue;
		}
		/* This node's own orted, wherever mpirun's node has it. */
		slash = i == 0 ? strrchr(words->v[0], '/') : NULL;
		strv_add(out, slash ? slash + 1 : words->v[i]);
	}
}

static int plain_word(const char *s)
{
	return *s &&
	       s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-")] == '\0';
}

char *mpi_line(const struct strv *argv)
{
	char *line = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&line, &n);

	if (!f)
		abort();
	for (size_t i = 0; i < argv->n; i++) {
		if (i)
			fputc(' ', f);
		if (plain_word(argv->v[i])) {
			fputs(argv->v[i], f);
			continue;
		}
		fputc('\'', f);
		for (const char *p = argv->v[i]; *p; p++)
			fputs(*p == '\'' ? "'\\''" : (char[]){*p, '\0'}, f);
		fputc('\'', f);
	}
	if (fclose(f) != 0)
		abort();
	return line;
}

char *mpi_find(void)
{
	const char *path = getenv("PATH");
	cleanup_free char *dirs =
	    xasprintf("%s:/usr/local/bin:/usr/bin:/usr/lib64/openmpi/bin:/opt/openmpi/bin", path ? path : "");
	char *save = NULL;

	for (char *d = strtok_r(dirs, ":", &save); d; d = strtok_r(NULL, ":", &save)) {
		char *at = xasprintf("%s/mpirun", d);

		if (d[0] == '/' && access(at, X_OK) == 0)
			return at;
		free(at);
	}
	return NULL;
}
