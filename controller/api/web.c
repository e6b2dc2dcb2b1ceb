/*
 * web: the dashboard's files, embedded at build. With --web-dir they are read from a folder at each request,
 * for work on them.
 *
 * The page runs under a policy that allows requests to its own origin only. The files contain nothing about
 * the cluster; they ask the API for all that they show.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "controller/api/api_cluster.h"
#include "controller/api/thread.h"
#include "controller/web_gen.h"

#define FILE_MAX (16u * 1024 * 1024)
#define POLICY                                                                                               \
	"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'; "   \
	"base-uri 'none'; form-action 'self'"

static const char *type_of(const char *path)
{
	static const struct {
		const char *end, *type;
	} types[] = {{".html", "text/html; charset=utf-8"},
	             {".css", "text/css; charset=utf-8"},
	             {".js", "text/javascript; charset=utf-8"},
	             {".svg", "image/svg+xml"},
	             {".json", "application/json"},
	             {".woff2", "font/woff2"},
	             {".png", "image/png"}};
	size_t n = strlen(path);
	unsigned i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		size_t k = strlen(types[i].end);

		if (n > k && strcmp(path + n - k, types[i].end) == 0)
			return types[i].type;
	}
	return "application/octet-stream";
}

static void from_folder(struct call *c, const char *dir, const char *path)
{
	cleanup_free char *full = xasprintf("%s/%s", dir, path);
	struct err e;
	char *data;
	size_t n;

	if (fs_read_file(full, FILE_MAX, &data, &n, &e) < 0) {
		call_fail(c, &e);
		return;
	}
	call_copy(c, 200, type_of(path), data, n);
	free(data);
}

void api_web(struct call *c, struct io *io)
{
	const char *path =
	    c->params[0] ? c->params[0] : "index.html"; /* a safe relative path: route_match saw to it */
	size_t i;

	call_add_header(c, "Content-Security-Policy", POLICY);
	call_add_header(c, "Referrer-Policy", "no-referrer");
	call_add_header(c, "Cache-Control", "no-cache");
	if (api_of(io)->web_dir) {
		from_folder(c, api_of(io)->web_dir, path);
		return;
	}
	for (i = 0; i < sizeof(embedded_files) / sizeof(embedded_files[0]); i++)
		if (strcmp(embedded_files[i].path, path) == 0) {
			call_data(c, 200, type_of(path), embedded_files[i].data, embedded_files[i].size);
			return;
		}
	call_problem(c, 404, NULL, "unknown page");
}
