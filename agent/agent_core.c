/*
 * agent_core: creates the parts in order and destroys them in reverse. After the first join the agent waits
 * for no network: without hearthd it adopts and watches its launches all the same.
 */
#include "agent/agent_core.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/run_dir.h"
#include "agent/command/mpi.h"
#include "agent/container/container.h"
#include "agent/container/sweeper.h"
#include "agent/control/session.h"
#include "agent/launch/launch_steps.h"
#include "agent/launch/launches.h"
#include "agent/machine/net.h"
#include "agent/pool/pools.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

static int send_report(uint16_t type, const void *msg, uint64_t id, void *arg)
{
	return session_send(((struct agent *)arg)->session, type, msg, id);
}

static void report_acked(uint16_t type, const void *msg, void *arg)
{
	struct agent *a = arg;
	const struct wm_pool_bad *bad = msg;

	if (type == WM_POOL_BAD)
		pools_told(a->host.pools, bad->pool, bad->job);
	launches_acked(a->launches, type, msg);
}

/* hearthd ends the pool on this node. The key begins with no launch's: the report outlives the launch. */
static void report_pool(uint64_t pool, uint64_t job, const char *text, void *arg)
{
	cleanup_free char *key = xasprintf("pool %" PRIu64 ".%" PRIu64, pool, job), *copy = xstrdup(text);
	const struct wm_pool_bad m = {.pool = pool, .job = job, .text = copy};

	outbox_put(((struct agent *)arg)->host.outbox, WM_POOL_BAD, key, &m);
}

static const struct outbox_ops outbox_ops = {.send = send_report, .acked = report_acked};

/* ---- folders and programs --------------------------------------------------------------------------- */

/* For whoever has only DATA: where RUN is may depend on XDG_RUNTIME_DIR. */
static void keep_run_path(const struct agent_config *c)
{
	cleanup_free char *path = xasprintf("%s/run_dir", c->data_dir), *text = xasprintf("%s\n", c->run_dir);
	struct err e;

	if (!c->alone && fs_replace(path, text, strlen(text), 0600, &e) < 0)
		log_warn("event=run_dir_not_kept reason=\"%s\"", e.text);
}

static int open_dirs(struct agent *a, struct err *e)
{
	const struct agent_config *c = &a->env.cfg;
	cleanup_free char *data_lock = xasprintf("%s/lock", c->data_dir);
	cleanup_free char *run_lock = xasprintf("%s/lock", c->run_dir);

	/* Jobs of other accounts walk through both, and list neither. An agent that is not root runs jobs of its
	 * own account only. */
	if (run_dir_make(c->run_dir, a->env.is_root ? 0711 : 0700, e) < 0)
		return -1;
	if (chmod(c->data_dir, 0711) < 0)
		return err_sys(e, errno, "%s: mode", c->data_dir);
	a->data_lock = fs_lock(data_lock, e);
	if (a->data_lock < 0)
		return err_wrap(e, "another agent uses this folder");
	a->run_lock = fs_lock(run_lock, e);
	if (a->run_lock < 0)
		return err_wrap(e, "another agent uses this folder");
	keep_run_path(c);
	return 0;
}

/* Installed: all in one folder, but for users' programs. In a build tree: in the folders beside the agent's.
 */
static char *find_program(const struct agent *a, const char *name)
{
	static const char *const below[] = {"", "/../shim", "/../agent", "/../../bin"};

	for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++) {
		char *path = xasprintf("%s%s/%s", a->env.cfg.libexec_dir, below[i], name);

		if (access(path, X_OK) == 0) {
			char *real = realpath(path, NULL);

			free(path);
			return real;
		}
		free(path);
	}
	return NULL;
}

static int find_programs(struct agent *a, struct err *e)
{
	a->host.shim_path = find_program(a, "hearth-shim");
	a->host.rank_path = find_program(a, "hearth-rank");
	a->host.park_path = find_program(a, "hearth-park");
	a->host.rsh_path = find_program(a, "hearth-rsh");
	if (!a->host.shim_path || !a->host.rank_path || !a->host.rsh_path)
		return err_set(e, ERR_NOT_FOUND, "hearth-shim, hearth-rank or hearth-rsh is not in %s",
		               a->env.cfg.libexec_dir);
	a->host.tools_bin = find_program(a, "hearth-ckpt");
	if (a->host.tools_bin)
		*strrchr(a->host.tools_bin, '/') = '\0';
	a->host.mpirun = mpi_find();
	if (a->host.mpirun)
		a->host.mpi_bin = xstrndup(a->host.mpirun, (size_t)(strrchr(a->host.mpirun, '/') - a->host.mpirun));
	else
		log_warn("event=no_mpirun text=\"jobs with launcher mpirun are refused on this node\"");
	return 0;
}

static int load_identity(struct agent *a, struct err *e)
{
	const char *data = a->env.cfg.data_dir;

	a->identity.ca_path = xasprintf("%s/ca.pem", data);
	a->identity.cert_path = xasprintf("%s/agent.pem", data);
	a->identity.key_path = xasprintf("%s/agent.key", data);
	return fs_read_file(a->identity.ca_path, 65536, &a->identity.ca_pem, NULL, e);
}

static void find_network(struct agent *a)
{
	const struct agent_config *c = &a->env.cfg;

	a->host.ifname = c->interface_name ? xstrdup(c->interface_name) : net_interface_of(c->address);
	a->host.cidr = net_cidr_of(c->address);
	if (!a->host.ifname)
		log_warn("event=no_interface address=%s text=\"no interface of this machine has that address\"",
		         c->address);
}

/* ---- life ------------------------------------------------------------------------------------------- */

static int open_parts(struct agent *a, struct err *e)
{
	struct launch_host *h = &a->host;
	int alone = a->env.cfg.alone;

	if (open_dirs(a, e) < 0 || find_programs(a, e) < 0 || (!alone && load_identity(a, e) < 0) ||
	    proc_boot_id(a->host.boot_id, e) < 0)
		return -1;
	if (!alone)
		find_network(a);
	h->sock_path = xasprintf("%s/agent.sock", a->env.cfg.run_dir);
	h->ca_pem = a->identity.ca_pem;
	h->inv = inventory_create(&a->env, e);
	if (!h->inv)
		return -1;
	h->link = data_link_create(&a->env, a->identity.ca_pem, a->identity.cert_path, a->identity.key_path);
	h->tailer = tailer_create(&a->env, h->link);
	h->trash = trash_create(&a->env);
	h->pools = pools_create(&a->env, h->trash);
	h->outbox = outbox_create(&outbox_ops, a);
	pools_on_end(h->pools, report_pool, a);
	h->sweeper = sweeper_create(a->env.loop, a->env.clock);
	return agent_wire(a, e);
}

struct agent *agent_create(struct loop *loop, struct agent_config *cfg, struct err *e)
{
	struct agent *a = xcalloc(1, sizeof(*a));

	a->env.loop = loop;
	a->host.env = &a->env;
	a->env.clock = clock_real();
	a->env.cfg = *cfg;
	a->env.is_root = geteuid() == 0;
	random_bytes(&a->env.instance, sizeof(a->env.instance));
	a->data_lock = a->run_lock = -1;
	memset(cfg, 0, sizeof(*cfg));
	if (open_parts(a, e) == 0)
		return a;
	agent_destroy(a);
	return NULL;
}

static void config_fini(struct agent_config *c)
{
	free(c->controller);
	free(c->data_dir);
	free(c->run_dir);
	free(c->node);
	free(c->address);
	free(c->interface_name);
	free(c->fabric_interface);
	free(c->instance_type);
	strv_fini(&c->labels);
	free(c->kmsg);
	free(c->fake_gpus);
	free(c->libexec_dir);
}

/* With no launch here there is nothing that a later agent would need. Before they were adopted nobody has
 * looked: what runs of them is known by this folder alone. */
static void remove_empty_run(const struct agent *a)
{
	if (a->adopted && launches_count(a->launches) == 0)
		fs_rm_rf(a->env.cfg.run_dir, NULL);
}

void agent_destroy(struct agent *a)
{
	if (!a)
		return;
	remove_empty_run(a);
	agent_unwire(a);
	launch_info_forget();
	sweeper_destroy(a->host.sweeper);
	pools_destroy(a->host.pools);
	trash_destroy(a->host.trash);
	outbox_destroy(a->host.outbox);
	if (a->host.tailer)
		tailer_destroy(a->host.tailer);
	if (a->host.link)
		data_link_destroy(a->host.link);
	if (a->host.inv)
		inventory_destroy(a->host.inv);
	if (a->data_lock >= 0)
		close(a->data_lock);
	if (a->run_lock >= 0)
		close(a->run_lock);
	free(a->host.shim_path);
	free(a->host.rank_path);
	free(a->host.park_path);
	free(a->host.rsh_path);
	free(a->host.mpirun);
	free(a->host.mpi_bin);
	free(a->host.tools_bin);
	free(a->host.ifname);
	free(a->host.cidr);
	free(a->host.sock_path);
	free(a->identity.ca_pem);
	free(a->identity.ca_path);
	free(a->identity.cert_path);
	free(a->identity.key_path);
	container_env_fini(&a->env);
	config_fini(&a->env.cfg);
	free(a);
}
