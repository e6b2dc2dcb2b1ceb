/*
 * fabric: RDMA devices as sysfs shows them. One that is there but not active is listed and not used.
 */
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "agent/machine/inventory_int.h"
#include "common/os/fsutil.h"

struct reader {
	const char *dir;
	struct strv *out;
};

/* First line of a small file with '|' taken out; "" when it cannot be read. */
static void read_line(const char *dir, const char *device, const char *name, char *out, size_t out_size)
{
	char path[512], *text;
	size_t n;

	out[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s/%s", dir, device, name);
	if (fs_read_file(path, 4096, &text, &n, NULL) < 0)
		return;
	text[strcspn(text, "\r\n|")] = '\0';
	snprintf(out, out_size, "%s", text);
	free(text);
}

static int read_one(const char *name, void *arg)
{
	struct reader *r = arg;
	char layer[64], rate[64], state[64];

	read_line(r->dir, name, "ports/1/link_layer", layer, sizeof(layer));
	read_line(r->dir, name, "ports/1/rate", rate, sizeof(rate));
	read_line(r->dir, name, "ports/1/state", state, sizeof(state));
	if (!strchr(name, '|'))
		strv_addf(r->out, "%s|%s|%s|%s", name, layer, rate, state);
	return 0;
}

void fabric_read(const char *sys_class_infiniband, struct strv *out)
{
	struct reader r = {.dir = sys_class_infiniband, .out = out};

	fs_each(sys_class_infiniband, read_one, &r, NULL); /* no such folder: no fabric */
}

int fabric_usable(const struct strv *fabrics)
{
	for (size_t i = 0; i < fabrics->n; i++)
		if (strstr(fabrics->v[i], "ACTIVE"))
			return 1;
	return 0;
}

void fabric_devices(const struct strv *fabrics, struct strv *out)
{
	glob_t g = {0};

	if (!fabric_usable(fabrics))
		return;
	if (glob("/dev/infiniband/*", 0, NULL, &g) == 0)
		for (size_t i = 0; i < g.gl_pathc; i++)
			strv_add(out, g.gl_pathv[i]);
	globfree(&g);
}
