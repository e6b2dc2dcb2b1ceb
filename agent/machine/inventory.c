/*
 * inventory: what this node has, read once when the agent starts, and the few numbers that change, read for
 * every beat.
 *
 * GPUs are sampled by a thread of their own once a second: the driver of a sick GPU may take seconds to
 * answer, and a beat must not wait for it. The beat carries the last sample.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/capture.h"
#include "agent/base/worker.h"
#include "agent/machine/gpu_state.h"
#include "agent/machine/inventory_int.h"
#include "agent/machine/topology.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"

#define SAMPLE_MS     1000
#define EXTRA_US      20000 /* the least time between two samples */
#define USER_MS       5000
#define IDLE_BYTES    (512ull << 20)    /* of a GPU that nobody uses */
#define IDLE_PART     50                /* likewise one in so many bytes of its memory */
#define SAMPLE_OLD_US (10 * 1000000ull) /* older ones are unknown */

struct inventory {
	struct agent_env *env;
	struct topo topo;
	struct gpus gpus;
	struct nvml *nvml;
	struct gpu_state *state; /* NULL: no GPUs */
	struct strv fabrics, software;
	char *os_user;
	uint64_t memory_bytes, disk_bytes;
	uint64_t cpu_busy, cpu_all; /* of /proc/stat at the last beat */
	struct workers *workers;
	struct worker *sampler, *extra; /* extra: one more sample, at once */
	struct gpu_sample samples[GPUS_MAX];
	uint64_t sampled_us; /* boot, 0 never */
	uint64_t begun_us;   /* likewise, when the sample was begun */
};

/* ---- GPU sampling ----------------------------------------------------------------------------------- */

struct sampler {
	struct inventory *inv;
	struct nvml *nvml;
	uint32_t n;
};

struct sample {
	uint64_t begun_us;
	struct gpu_sample v[GPUS_MAX];
};

static void take_sample(void *arg, void *data)
{
	struct inventory *inv = ((struct sampler *)arg)->inv;
	const struct sample *s = data;

	if (s->begun_us < inv->begun_us) /* of two threads */
		return;
	memcpy(inv->samples, s->v, sizeof(inv->samples));
	inv->begun_us = s->begun_us;
	inv->sampled_us = clock_boot_us(inv->env->clock);
}

static void sample_once(struct worker *w, void *arg)
{
	const struct sampler *s = arg;
	struct sample one = {.begun_us = clock_boot_us(clock_real())};

	gpu_nvml_sample(s->nvml, one.v, s->n);
	worker_post(w, take_sample, xmemdup(&one, sizeof(one)), free);
}

static void sample_run(struct worker *w, void *arg)
{
	do
		sample_once(w, arg);
	while (worker_pause(w, SAMPLE_MS) == 0);
}

static void extra_done(void *arg)
{
	((struct sampler *)arg)->inv->extra = NULL;
}

static void sample_release(void *arg)
{
	free(arg);
}

static void start_sampler(struct inventory *inv)
{
	static const struct worker_task task = {.run = sample_run, .release = sample_release};
	struct sampler s = {.inv = inv, .nvml = inv->nvml, .n = inv->gpus.n};
	struct err e;

	if (!inv->nvml || !inv->gpus.n)
		return;
	inv->workers = workers_create(inv->env->loop);
	inv->sampler = worker_start(inv->workers, &task, xmemdup(&s, sizeof(s)), &e);
	if (!inv->sampler)
		log_warn("event=gpu_sampler_failed reason=\"%s\"", e.text);
}

/* At once, beside the sampler's. A driver that does not answer holds one thread more, no matter how many ask.
 */
static void sample_now(struct inventory *inv)
{
	static const struct worker_task task = {
	    .run = sample_once, .done = extra_done, .release = sample_release};
	struct sampler s = {.inv = inv, .nvml = inv->nvml, .n = inv->gpus.n}, *copy;
	struct err e;

	if (!inv->sampler || inv->extra || clock_boot_us(inv->env->clock) - inv->begun_us < EXTRA_US)
		return;
	copy = xmemdup(&s, sizeof(s));
	inv->extra = worker_start(inv->workers, &task, copy, &e);
	if (!inv->extra)
		free(copy);
}

/* By a program that can be ended: the directory of accounts may not answer. */
static char *user_name(void)
{
	const char *argv[] = {"/usr/bin/id", "-un", NULL};
	const struct capture c = {.argv = argv, .timeout_ms = USER_MS, .max = 256};
	char *name = NULL;
	struct err e;
	size_t n = 0;

	if (capture_run(&c, &name, &n, &e) == 0 && name[strcspn(name, "\n")] == '\n' && name[0] != '\n') {
		name[strcspn(name, "\n")] = '\0';
		return name;
	}
	free(name);
	return xasprintf("%u", geteuid());
}

/* ---- life ------------------------------------------------------------------------------------------- */

struct inventory *inventory_create(struct agent_env *env, struct err *e)
{
	struct inventory *inv = xcalloc(1, sizeof(*inv));
	uint64_t free_bytes;

	inv->env = env;
	if (env->cfg.fake_gpus) {
		if (gpu_fake_load(env->cfg.fake_gpus, env->cfg.node ? env->cfg.node : "node", &inv->gpus, e) < 0) {
			free(inv);
			return NULL;
		}
	} else {
		inv->nvml = gpu_nvml_open(GPU_NVML_LIB, &inv->gpus);
	}
	topo_read(&inv->topo);
	fabric_read("/sys/class/infiniband", &inv->fabrics);
	software_read(&inv->gpus, &inv->software);
	inv->memory_bytes = memory_total();
	if (fs_disk_free(env->cfg.data_dir, &free_bytes, &inv->disk_bytes, e) < 0) {
		inventory_destroy(inv);
		return NULL;
	}
	if (inv->gpus.note[0])
		log_info("event=gpus count=%u note=\"%s\"", inv->gpus.n, inv->gpus.note);
	inv->os_user = user_name();
	start_sampler(inv);
	if (inv->gpus.n)
		inv->state = gpu_state_create(env, inv->nvml, &inv->gpus);
	return inv;
}

void inventory_destroy(struct inventory *inv)
{
	int hangs;

	if (!inv)
		return;
	hangs = gpu_state_destroy(inv->state) < 0;
	/* A thread inside a driver that does not answer keeps the library open. */
	if (workers_destroy(inv->workers, 3000) == 0 && !hangs)
		gpu_nvml_close(inv->nvml);
	topo_fini(&inv->topo);
	strv_fini(&inv->fabrics);
	strv_fini(&inv->software);
	free(inv->os_user);
	free(inv);
}

/* ---- what there is ------------------------------------------------------------------------------------- */

static uint32_t slot_count(const struct inventory *inv)
{
	return inv->env->cfg.slots ? inv->env->cfg.slots : inv->topo.n;
}

static void add_all(const struct strv *from, struct wire_strv *to)
{
	for (size_t i = 0; i < from->n; i++)
		wire_strv_add(to, from->v[i]);
}

void inventory_gpu_lines(const struct gpus *gpus, struct wire_strv *out)
{
	for (uint32_t i = 0; i < gpus->n; i++) {
		const struct gpu *g = &gpus->v[i];
		cleanup_free char *line = xasprintf("%u|%s|%s|%" PRIu64 "|%d|%d|%d", i, g->uuid, g->model,
		                                    g->memory_bytes, g->numa, g->link_group, g->minor);
		wire_strv_add(out, line);
	}
}

void inventory_fill(struct inventory *inv, struct wm_inventory *m)
{
	const struct agent_config *cfg = &inv->env->cfg;
	char host[256] = "";

	memset(m, 0, sizeof(*m));
	gethostname(host, sizeof(host) - 1);
	m->address = xstrdup(cfg->address ? cfg->address : "");
	m->peer_port = cfg->peer_port;
	m->port_lo = cfg->port_lo;
	m->port_hi = cfg->port_hi;
	m->interface_name = xstrdup(cfg->interface_name ? cfg->interface_name : "");
	m->fabric_interface = xstrdup(cfg->fabric_interface ? cfg->fabric_interface : "");
	m->cpus = inv->topo.n;
	m->slots = slot_count(inv);
	m->memory_bytes = inv->memory_bytes;
	m->disk_bytes = inv->disk_bytes;
	inventory_gpu_lines(&inv->gpus, &m->gpus);
	m->gpus_fake = (uint8_t)inv->gpus.fake;
	add_all(&cfg->labels, &m->labels);
	m->instance_type = xstrdup(cfg->instance_type ? cfg->instance_type : "");
	m->price_per_hour = cfg->price_per_hour;
	add_all(&inv->fabrics, &m->fabrics);
	m->topology = topo_json(&inv->topo);
	add_all(&inv->software, &m->software);
	m->os_user = xstrdup(inv->os_user);
	m->is_root = (uint8_t)(inv->env->is_root != 0);
	m->hostname = xstrdup(host);
}

/* ---- what changes ------------------------------------------------------------------------------------ */

/* CPUs busy since the last call: a number of CPUs, 0 at the first. */
static double cpu_used(struct inventory *inv)
{
	unsigned long long v[8] = {0}, all = 0, busy;
	double used = 0;
	char *text;
	size_t n;

	/* cpu user nice system idle iowait irq softirq steal */
	if (fs_read_file("/proc/stat", 4 * 1024 * 1024, &text, &n, NULL) < 0)
		return 0;
	if (sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5],
	           &v[6], &v[7]) >= 4) {
		for (int i = 0; i < 8; i++)
			all += v[i];
		busy = all - v[3] - v[4];
		if (inv->cpu_all && all > inv->cpu_all && busy >= inv->cpu_busy)
			used = (double)(busy - inv->cpu_busy) / (double)(all - inv->cpu_all) *
			       (double)sysconf(_SC_NPROCESSORS_ONLN);
		inv->cpu_all = all;
		inv->cpu_busy = busy;
	}
	free(text);
	return used;
}

void inventory_beat(struct inventory *inv, struct wm_beat *m)
{
	uint64_t now = clock_boot_us(inv->env->clock), total;
	int known = inv->sampled_us && now - inv->sampled_us < SAMPLE_OLD_US;
	uint32_t n = inv->gpus.n;

	memset(m, 0, sizeof(*m));
	m->boot_us = now;
	if (getloadavg(&m->load1, 1) != 1)
		m->load1 = 0;
	m->memory_used = memory_used();
	fs_disk_free(inv->env->cfg.data_dir, &m->disk_free, &total, NULL);
	m->cpu_used = cpu_used(inv);
	if (!n)
		return;
	m->gpu_util = (struct wire_f64v){.v = xcalloc(n, sizeof(double)), .n = n};
	m->gpu_memory_used = (struct wire_u64v){.v = xcalloc(n, sizeof(uint64_t)), .n = n};
	for (uint32_t i = 0; i < n; i++) {
		m->gpu_util.v[i] = inv->gpus.fake ? 0 : known ? inv->samples[i].util : -1;
		m->gpu_memory_used.v[i] = known ? inv->samples[i].memory_used : 0;
	}
}

/* ---- questions of the launch --------------------------------------------------------------------------- */

uint32_t inventory_cpus_near(struct inventory *inv, const uint32_t *gpus, uint32_t n_gpus,
                             const uint32_t *cpus, uint32_t n_cpus, uint32_t want, uint32_t *out)
{
	int numa[GPUS_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_gpus && n < GPUS_MAX; i++)
		if (gpus[i] < inv->gpus.n)
			numa[n++] = inv->gpus.v[gpus[i]].numa;
	return topo_near(&inv->topo, numa, n, cpus, n_cpus, want, out);
}

uint32_t inventory_slot_cpu(struct inventory *inv, uint32_t slot)
{
	return inv->topo.v[slot % inv->topo.n].os; /* more slots than CPUs: they share */
}

int inventory_gpus_idle(struct inventory *inv, const uint32_t *gpus, uint32_t n, uint64_t since_us,
                        uint32_t *gpu, uint64_t *used)
{
	uint64_t now = clock_boot_us(inv->env->clock), most;

	if (inv->gpus.fake)
		gpu_fake_sample(inv->env->cfg.fake_gpus, inv->samples, inv->gpus.n);
	else if (!inv->sampled_us || now - inv->sampled_us >= SAMPLE_OLD_US)
		return 1;
	sample_now(inv);
	if (!inv->gpus.fake && inv->begun_us < since_us)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		if (gpus[i] >= inv->gpus.n)
			continue;
		most = inv->gpus.v[gpus[i]].memory_bytes / IDLE_PART;
		most = most < IDLE_BYTES ? IDLE_BYTES : most;
		if (inv->samples[gpus[i]].memory_used <= most)
			continue;
		*gpu = gpus[i];
		*used = inv->samples[gpus[i]].memory_used;
		return 0;
	}
	return 1;
}

struct gpu_state *inventory_gpu_state(struct inventory *inv)
{
	return inv->state;
}

char *inventory_visible_devices(struct inventory *inv, const uint32_t *gpus, uint32_t n)
{
	char *text = xstrdup(""), *next;

	for (uint32_t i = 0; i < n; i++) {
		if (gpus[i] >= inv->gpus.n)
			continue;
		/* By uuid: the library's numbers follow the bus, CUDA's the speed. */
		next = inv->gpus.fake ? xasprintf("%s%s%u", text, *text ? "," : "", gpus[i])
		                      : xasprintf("%s%s%s", text, *text ? "," : "", inv->gpus.v[gpus[i]].uuid);
		free(text);
		text = next;
	}
	return text;
}

void inventory_devices(struct inventory *inv, const uint32_t *gpus, uint32_t n, struct strv *out)
{
	static const char *const shared[] = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
	                                     "/dev/nvidia-modeset", "/dev/gdrdrv"};

	fabric_devices(&inv->fabrics, out);
	if (inv->gpus.fake || !inv->gpus.n || !n)
		return;
	for (uint32_t i = 0; i < n; i++)
		if (gpus[i] < inv->gpus.n && inv->gpus.v[gpus[i]].minor >= 0)
			strv_addf(out, "/dev/nvidia%d", inv->gpus.v[gpus[i]].minor);
	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		if (access(shared[i], F_OK) == 0)
			strv_add(out, shared[i]);
}

int inventory_has_fabric(const struct inventory *inv)
{
	return fabric_usable(&inv->fabrics);
}

void inventory_software(struct inventory *inv, struct strv *out)
{
	for (size_t i = 0; i < inv->software.n; i++)
		strv_add(out, inv->software.v[i]);
}
