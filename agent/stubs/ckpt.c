/*
 * hearth-ckpt: says that a checkpoint is complete, for programs and shell scripts.
 *
 *   hearth-ckpt commit DIR --step N [--shards K]
 *
 * It syncs all files below DIR, then writes DIR/hearth.json by a rename: {"step", "shards", "files": {PATH:
 * {"size"}}}. The agent takes DIR as complete when that file is there and the sizes fit. hearth.py's
 * commit_checkpoint writes the same file.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define MANIFEST   "hearth.json"
#define STEP_MAX   ((uint64_t)1 << 53)
#define SHARDS_MAX 65535u
#define OPEN_MAX   32

static const char usage[] = "usage: hearth-ckpt commit DIR --step N [--shards K]\n"
                            "Say that the checkpoint in DIR is complete.\n"
                            "  --step N    step of the checkpoint\n"
                            "  --shards K  number of folders, on all nodes, that make the whole checkpoint\n";

static cJSON *files;
static size_t root; /* length of DIR and its slash */

static int sync_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return -1;
	rc = fsync(fd);
	close(fd);
	return rc;
}

static int add_file(const char *path, const struct stat *st, int type, struct FTW *w)
{
	cJSON *one;

	if (type == FTW_NS || type == FTW_DNR || ((type == FTW_F || type == FTW_DP) && sync_path(path) < 0)) {
		fprintf(stderr, "hearth-ckpt: %s: %s\n", path, strerror(errno));
		return 1;
	}
	if (type != FTW_F || !S_ISREG(st->st_mode) || (w->level == 1 && strcmp(path + root, MANIFEST) == 0))
		return 0;
	if (!str_valid_utf8(path + root, strlen(path + root))) {
		fprintf(stderr, "hearth-ckpt: %s: the name of a file must be UTF-8; rename it\n", path);
		return 1;
	}
	one = cJSON_AddObjectToObject(files, path + root);
	json_add_u64(one, "size", (uint64_t)st->st_size);
	return 0;
}

static int commit(const char *dir, uint64_t step, uint64_t shards)
{
	cleanup_free char *path = xasprintf("%s/%s", dir, MANIFEST), *text = NULL;
	cJSON *o = cJSON_CreateObject();
	struct err e = {0};
	int rc;

	json_add_u64(o, "step", step);
	if (shards)
		json_add_u64(o, "shards", shards);
	files = cJSON_AddObjectToObject(o, "files");
	root = strlen(dir) + 1;
	rc = nftw(dir, add_file, OPEN_MAX, FTW_PHYS | FTW_DEPTH);
	if (rc < 0)
		fprintf(stderr, "hearth-ckpt: %s: %s\n", dir, strerror(errno));
	if (rc == 0 && !files->child) {
		fprintf(stderr, "hearth-ckpt: %s has no files: write the checkpoint first\n", dir);
		rc = -1;
	}
	text = json_text_pretty(o);
	cJSON_Delete(o);
	if (rc == 0 && fs_write_atomic(path, text, strlen(text), 0644, &e) < 0) {
		fprintf(stderr, "hearth-ckpt: %s\n", e.text);
		rc = -1;
	}
	return rc ? 1 : 0;
}

static int parse_number(const char *name, const char *v, uint64_t least, uint64_t most, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(v, &end, 10);
	if (*v >= '0' && *v <= '9' && !*end && !errno && *out >= least && *out <= most)
		return 0;
	fprintf(stderr, "hearth-ckpt: --%s \"%s\": expected a whole number of at least %llu\n", name, v,
	        (unsigned long long)least);
	return -1;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"step", required_argument, NULL, 's'},
	                                        {"shards", required_argument, NULL, 'k'},
	                                        {"help", no_argument, NULL, 'h'},
	                                        {"version", no_argument, NULL, 'v'},
	                                        {0}};
	uint64_t step = UINT64_MAX, shards = 0;
	size_t n;
	int id;

	while ((id = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (id == 'h' || id == 'v') {
			fputs(id == 'h' ? usage : "hearth-ckpt " PACKAGE_VERSION "\n", stdout);
			return 0;
		}
		if (id == '?' || (id == 's' && parse_number("step", optarg, 0, STEP_MAX, &step) < 0) ||
		    (id == 'k' && parse_number("shards", optarg, 1, SHARDS_MAX, &shards) < 0))
			return 2;
	}
	if (argc - optind != 2 || strcmp(argv[optind], "commit") != 0 || step == UINT64_MAX) {
		fputs(usage, stderr);
		return 2;
	}
	for (n = strlen(argv[optind + 1]); n > 1 && argv[optind + 1][n - 1] == '/';)
		argv[optind + 1][--n] = '\0';
	return commit(argv[optind + 1], step, shards);
}
