/* inventory: GPUs out of a stand-in library and of files, fabrics out of a folder, CPUs and memory of this
 * machine, the messages. */
#include "agent/machine/inventory_int.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/capture.h"
#include "agent/machine/topology.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/machine/nvmlkit.h"

static char *path_in(const char *name)
{
	return xasprintf("%s/%s", tap_tmpdir(), name);
}

static void put(const char *name, const char *text)
{
	cleanup_free char *path = path_in(name);
	cleanup_free char *dir = xstrdup(path);
	struct err e;

	*strrchr(dir, '/') = '\0';
	if (fs_mkdir_p(dir, 0755, &e) < 0 || fs_replace(path, text, strlen(text), 0644, &e) < 0)
		tap_bail("%s", e.text);
}

static void test_fake(void)
{
	static const char *const bad[][2] = {
	    {"{}", "list"},
	    {"[{\"model\":3}]", "[0].model"},
	    {"[{},{\"memory\":\"lots\"}]", "[1].memory"},
	    {"[{\"colour\":\"red\"}]", "colour"},
	    {"[{\"model\":\"a|b\"}]", "[0].model"},
	    {"[{\"numa\":-7}]", "[0].numa"},
	    {"[", "line 1"},
	};
	cleanup_free char *file = path_in("gpus.json");
	struct gpus g;
	struct err e = {0};

	is_int(gpu_fake_load("3", "n1", &g, &e), 0, "a number");
	is_int(g.n, 3, "three");
	is_int(g.fake, 1, "marked");
	is_str(g.v[2].uuid, "FAKE-n1-2", "uuid");
	is_int(gpu_fake_load("0", "n1", &g, &e), 0, "none");
	is_int(g.n, 0, "none at all");
	is_int(gpu_fake_load("65", "n1", &g, &e), -1, "too many");
	put("gpus.json", "[{\"model\":\"H200\",\"memory\":\"141GiB\",\"numa\":1,\"link_group\":2},{}]");
	is_int(gpu_fake_load(file, "n1", &g, &e), 0, "a file");
	is_int(g.n, 2, "two of a file");
	is_str(g.v[0].model, "H200", "model");
	ok(g.v[0].memory_bytes == 141ull << 30, "memory");
	is_int(g.v[0].numa, 1, "numa");
	is_int(g.v[0].link_group, 2, "group");
	is_int(g.v[1].link_group, -1, "no group");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put("gpus.json", bad[i][0]);
		is_int(gpu_fake_load(file, "n1", &g, &e), -1, bad[i][0]);
		like(e.text, bad[i][1], "names it");
		is_int(g.n, 0, "nothing left");
	}
	is_int(gpu_fake_load("/nonexistent/gpus", "n1", &g, &e), -1, "no file");
	is_int(e.code, ERR_NOT_FOUND, "says so");
}

static void test_settings(struct nvml *n)
{
	struct gpu_settings is, to;

	gpu_nvml_settings(n, 2, &is);
	ok(is.v[GPU_POWER_MW] == 400000 && is.v[GPU_COMPUTE_MODE] == 0 && is.v[GPU_MIG_MODE] == 1 &&
	       is.v[GPU_GRAPHICS_MHZ] == 1500 && is.v[GPU_MEMORY_MHZ] == 2000,
	   "settings");
	to = is;
	to.v[GPU_POWER_MW] = 300000;
	to.v[GPU_COMPUTE_MODE] = 3;
	to.v[GPU_GRAPHICS_MHZ] = 900;
	for (int k = 0; k < GPU_SETTINGS; k++)
		gpu_nvml_put(n, 2, &to, (enum gpu_setting)k);
	gpu_nvml_settings(n, 2, &is);
	ok(memcmp(&is, &to, sizeof(is)) == 0, "are put back");
	gpu_nvml_settings(n, 7, &is);
	is_int(is.v[GPU_POWER_MW], -1, "one that the driver does not tell is unknown");
	gpu_nvml_settings(n, 9, &is);
	is_int(is.v[GPU_COMPUTE_MODE], -1, "likewise of a GPU that is not there");
}

static void test_nvml(void)
{
	static const int groups[] = {0, 0, 1, 1, 2, 2, 2, -1};
	cleanup_free char *lib = nvml_double_build();
	struct gpu_sample s[9];
	struct nvml *n;
	struct gpus g;

	ok(gpu_nvml_open("libnothing-of-the-kind.so.7", &g) == NULL, "no library");
	is_int(g.n, 0, "no GPUs");
	like(g.note, "libnothing", "says which");
	if (!lib) {
		tap_skip("no C compiler for the stand-in library");
		return;
	}
	n = gpu_nvml_open(lib, &g);
	ok(n != NULL, "opened");
	is_int(g.n, 8, "all");
	is_str(g.v[3].uuid, "GPU-00000003", "uuid");
	is_str(g.v[3].model, "Double_H1", "no separator in a name");
	is_int(g.v[3].minor, 4, "minor");
	is_int(g.v[3].numa, -1, "numa node unknown");
	ok(g.v[3].memory_bytes == 80ull << 30, "memory");
	is_str(g.driver, "570.1.2", "driver");
	is_str(g.cuda, "12.8", "CUDA");
	for (int i = 0; i < 8; i++)
		is_int(g.v[i].link_group, groups[i], "link group");
	gpu_nvml_sample(n, s, 9);
	ok(s[1].util > 0.19 && s[1].util < 0.21, "utilisation is a fraction");
	ok(s[1].memory_used == 2u << 20, "memory used");
	ok(s[7].util < 0, "unknown is not zero");
	ok(s[8].util < 0, "nor is one that is not there");
	test_settings(n);
	gpu_nvml_close(n);

	setenv("NVML_DOUBLE_SICK", "1", 1);
	n = gpu_nvml_open(lib, &g);
	is_int(g.n, 7, "the sick one is left out");
	like(g.note, "1 of 8", "and counted");
	is_str(g.v[1].uuid, "GPU-00000002", "the others move up");
	gpu_nvml_close(n);
	unsetenv("NVML_DOUBLE_SICK");
	setenv("NVML_DOUBLE_INIT", "9", 1);
	ok(gpu_nvml_open(lib, &g) == NULL, "no driver");
	like(g.note, "code 9", "with its code");
	unsetenv("NVML_DOUBLE_INIT");
}

static void test_fabric(void)
{
	cleanup_free char *dir = path_in("infiniband");
	struct strv f = {0};

	fabric_read(dir, &f);
	is_int(f.n, 0, "no folder, no fabric");
	ok(!fabric_usable(&f), "not usable");
	put("infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
	put("infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
	put("infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
	fabric_read(dir, &f);
	is_str(f.v[0], "mlx5_0|InfiniBand|400 Gb/sec (4X NDR)|1: DOWN", "a device");
	ok(!fabric_usable(&f), "down is not usable");
	put("infiniband/efa_0/ports/1/state", "4: ACTIVE\n");
	strv_fini(&f);
	fabric_read(dir, &f);
	is_str(f.v[0], "efa_0|||4: ACTIVE", "what is not known stays empty");
	ok(fabric_usable(&f), "one is active");
	strv_fini(&f);
}

static void test_topology(void)
{
	struct topo_cpu cpus[] = {{0, 0, 0, 0}, {1, 0, 0, 1}, {2, 1, 1, 2}, {3, 1, 1, 3}};
	struct topo t, made = {.v = cpus, .n = 4, .by = "test"};
	const uint32_t allowed[] = {0, 1, 2, 3};
	const int numa1[] = {1}, unknown[] = {-1};
	cleanup_free char *json = NULL;
	uint32_t out[4];
	cpu_set_t set;

	topo_read(&t);
	sched_getaffinity(0, sizeof(set), &set);
	is_int(t.n, CPU_COUNT(&set), "the CPUs of this process");
	ok(t.v[0].package >= 0, "with a place");
	topo_fini(&t);
	is_int(topo_near(&made, numa1, 1, allowed, 4, 3, out), 3, "three near");
	ok(out[0] == 2 && out[1] == 3 && out[2] == 0, "the node's first");
	is_int(topo_near(&made, unknown, 1, allowed, 4, 9, out), 4, "no more than there are");
	ok(out[0] == 0 && out[3] == 3, "in order when nothing is known");
	json = topo_json(&made);
	is_str(json, "{\"by\":\"test\",\"cpus\":[[0,0,0,0],[1,0,0,1],[2,1,1,2],[3,1,1,3]]}", "as JSON");
}

static int is_idle(struct inventory *inv, uint64_t since_us)
{
	const uint32_t gpus[] = {1};
	uint64_t used;
	uint32_t gpu;

	return inventory_gpus_idle(inv, gpus, 1, since_us, &gpu, &used);
}

/* ms that it took; 3000: never. */
static int wait_idle(struct inventory *inv, struct loop *loop, int idle)
{
	uint64_t from = clock_boot_us(clock_real()), now = from;

	while (is_idle(inv, from) != idle && now - from < 3000000) {
		loop_run_once(loop, 10);
		now = clock_boot_us(clock_real());
	}
	return (int)((now - from) / 1000);
}

static void test_memory(void)
{
	struct agent_env env = {.loop = loop_create(), .clock = clock_real()};
	cleanup_free char *lib = nvml_double_build();
	void *held = lib ? dlopen(lib, RTLD_NOW) : NULL;
	struct inventory *inv;
	uint64_t from;
	struct err e;
	int took = 0, ms;

	if (!held) {
		tap_skip("no stand-in library");
		return;
	}
	env.cfg.data_dir = (char *)(uintptr_t)tap_tmpdir();
	inv = inventory_create(&env, &e);
	if (!inv)
		tap_bail("%s", e.text);
	for (int i = 0; i < 50; i++)
		loop_run_once(env.loop, 10);
	from = clock_boot_us(clock_real());
	setenv("NVML_DOUBLE_USED", "1", 1);
	ok(!is_idle(inv, from), "an old sample does not say that memory is free");
	for (int i = 0; i < 3; i++) {
		unsetenv("NVML_DOUBLE_USED");
		ms = wait_idle(inv, env.loop, 1);
		took = ms > took ? ms : took;
		setenv("NVML_DOUBLE_USED", "1", 1);
		for (int k = 0; k < 10; k++)
			loop_run_once(env.loop, 10);
		is_idle(inv, 0);
	}
	ok(took < 500, "free memory is seen at once, not by the next regular sample (%d ms)", took);
	unsetenv("NVML_DOUBLE_USED");
	inventory_destroy(inv);
	loop_destroy(env.loop);
	dlclose(held);
}

static void test_whole(void)
{
	struct agent_env env = {.loop = loop_create(), .clock = clock_real()};
	struct wm_inventory m;
	struct wm_beat b;
	struct inventory *inv;
	struct strv list = {0};
	struct err e;
	struct buf wire;
	char *text;

	env.cfg.data_dir = (char *)(uintptr_t)tap_tmpdir();
	env.cfg.node = (char *)(uintptr_t) "n7";
	env.cfg.fake_gpus = (char *)(uintptr_t) "2";
	env.cfg.instance_type = (char *)(uintptr_t) "tiny";
	env.cfg.slots = 5;
	strv_add(&env.cfg.labels, "zone=a");
	inv = inventory_create(&env, &e);
	if (!inv)
		tap_bail("%s", e.text);
	inventory_fill(inv, &m);
	is_int(m.slots, 5, "slots as told");
	ok(m.cpus > 0 && m.memory_bytes > 1 << 20 && m.disk_bytes > 0, "CPUs, memory, disk");
	is_int(m.gpus.n, 2, "GPUs");
	is_str(m.gpus.v[1], "1|FAKE-n7-1|Fake GPU|17179869184|-1|0|-1", "a line");
	is_int(m.gpus_fake, 1, "marked as fake");
	is_str(m.labels.v[0], "zone=a", "label");
	is_str(m.instance_type, "tiny", "type");
	ok(m.os_user[0] && m.hostname[0] && m.topology[0] == '{', "user, host, topology");
	buf_init(&wire, 1 << 20);
	is_int(wire_encode(WM_INVENTORY, &m, 1, &wire, &e), 0, "can be sent");
	buf_fini(&wire);
	wire_fini(WM_INVENTORY, &m);

	inventory_beat(inv, &b);
	wire_fini(WM_BEAT, &b);
	inventory_beat(inv, &b);
	ok(b.memory_used > 0 && b.disk_free > 0 && b.cpu_used >= 0, "beat");
	is_int(b.gpu_util.n, 2, "with the GPUs");
	wire_fini(WM_BEAT, &b);

	text = inventory_visible_devices(inv, (const uint32_t[]){1, 0}, 2);
	is_str(text, "1,0", "fake ones by number");
	free(text);
	text = inventory_visible_devices(inv, NULL, 0);
	is_str(text, "", "none");
	free(text);
	inventory_devices(inv, (const uint32_t[]){0}, 1, &list);
	for (size_t i = 0; i < list.n; i++)
		ok(!strstr(list.v[i], "nvidia"), "no device of a fake GPU");
	strv_fini(&list);
	inventory_software(inv, &list);
	ok(strv_getenv(&list, "kernel") != NULL, "kernel");
	is_str(strv_getenv(&list, "gpus"), "fake", "fakes stand in the record");
	strv_fini(&list);
	ok(inventory_slot_cpu(inv, 0) == inventory_slot_cpu(inv, m.cpus), "slots go around");
	inventory_destroy(inv);
	strv_fini(&env.cfg.labels);
	loop_destroy(env.loop);
}

static void test_capture(void)
{
	const char *fail[] = {"/bin/sh", "-c", "echo no; exit 3", NULL},
	           *slow[] = {"/bin/sh", "-c", "echo x; exec /bin/sleep 600", NULL};
	const char *much[] = {"/bin/sh", "-c", "head -c 1000000 /dev/zero", NULL},
	           *none[] = {"/nonexistent", NULL};
	struct capture c = {.argv = fail, .timeout_ms = 20000, .max = 100};
	struct err e;
	char *out = NULL;
	size_t n;

	is_int(capture_run(&c, &out, &n, &e), -1, "a failure");
	like(e.text, "exit status 3", "with its status");
	is_str(out, "no\n", "and its output");
	free(out);
	c.argv = slow;
	c.timeout_ms = 50;
	is_int(capture_run(&c, &out, &n, &e), -1, "a deadline");
	is_int(e.code, ERR_TIMEOUT, "as such");
	free(out);
	c.argv = much;
	c.timeout_ms = 20000;
	is_int(capture_run(&c, &out, &n, &e), 0, "much output");
	is_int(n, 100, "is cut");
	free(out);
	out = NULL;
	c.argv = none;
	is_int(capture_run(&c, &out, &n, &e), -1, "no program");
	ok(out == NULL, "no output then");
}

int main(void)
{
	test_fake();
	test_nvml();
	test_fabric();
	test_topology();
	test_whole();
	test_memory();
	test_capture();
	return tap_done();
}
