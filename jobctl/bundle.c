/*
 * bundle: see bundle.h. The tree is scanned once: chunks go into a private spool folder by digest, so that
 * what hearthd lacks can be sent after asking in batches, without reading the sources twice and seeing two
 * states of them.
 */
#include "jobctl/bundle.h"

#include "common/clock.h"
#include "common/fsutil.h"
#include "common/json.h"
#include "common/proc.h"
#include "common/strutil.h"
#include "common/tree.h"
#include "common/xalloc.h"
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASK_BATCH  2000
#define DIFF_MAX   (1024 * 1024)
#define IGNORE_MAX (256 * 1024)

struct ignore {
	struct strv patterns;
};

int bundle_ignored(const char *pattern, const char *relpath, int is_dir)
{
	char bare[512];
	size_t n = strlen(pattern);
	if (n == 0 || n >= sizeof(bare))
		return 0;
	memcpy(bare, pattern, n + 1);
	if (bare[n - 1] == '/') {
		if (!is_dir)
			return 0;
		bare[n - 1] = 0;
	}
	if (bare[0] == '/')
		return !fnmatch(bare + 1, relpath, FNM_PATHNAME);
	if (strchr(bare, '/'))
		return !fnmatch(bare, relpath, FNM_PATHNAME);
	const char *slash = strrchr(relpath, '/');
	return !fnmatch(bare, slash ? slash + 1 : relpath, 0);
}

static int skip_entry(const char *relpath, int is_dir, void *arg)
{
	const struct ignore *ig = arg;
	for (size_t i = 0; i < ig->patterns.n; i++) {
		if (bundle_ignored(ig->patterns.v[i], relpath, is_dir))
			return 1;
	}
	return 0;
}

static int read_ignore(const char *dir, struct ignore *ig, struct err *e)
{
	strv_add(&ig->patterns, ".git/");
	strv_add(&ig->patterns, "__pycache__/");
	strv_add(&ig->patterns, "*.pyc");
	char *path = xasprintf("%s/.hearthignore", dir), *text = NULL, *save = NULL;
	size_t n;
	struct err le;
	int rc = 0;
	if (!fs_read_file(path, IGNORE_MAX, &text, &n, &le)) {
		for (char *line = strtok_r(text, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
			if (*line && *line != '#')
				strv_add(&ig->patterns, line);
		}
	} else if (le.code != ERR_NOT_FOUND) {
		rc = err_set(e, le.code, "%s", le.text);
	}
	free(text);
	free(path);
	return rc;
}

struct spool {
	char *dir;
	struct strv digests; /* in order of the scan */
};

static int spool_chunk(const char *digest, const void *data, size_t n, void *arg, struct err *e)
{
	struct spool *s = arg;
	strv_add(&s->digests, digest);
	return blob_put(s->dir, digest, data, n, e);
}

static void progress(const char *what, uint64_t done, uint64_t total, int end)
{
	static uint64_t shown_us;
	uint64_t now = clock_boot_us(clock_real());
	if (!isatty(STDERR_FILENO) || (!end && now - shown_us < 100000))
		return;
	shown_us = now;
	char a[32], b[32];
	fprintf(stderr, "\r\033[K%s %s of %s (%u %%)%s", what, str_size(done, a, sizeof(a)),
	        str_size(total, b, sizeof(b)), total ? (unsigned)(done * 100 / total) : 100,
	        end ? "\r\033[K" : "");
}

/* Which of digests [from, to) hearthd lacks: {"missing": [...]}. */
static cJSON *ask_missing(struct client *c, const struct strv *digests, size_t from, size_t to, struct err *e)
{
	cJSON *body = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(body, "digests"), *answer = NULL;
	for (size_t i = from; i < to; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(digests->v[i]));
	client_call(c, "POST", "/blobs/missing", body, &answer, e);
	cJSON_Delete(body);
	return answer;
}

/* One blob, in pieces of at most TREE_CHUNK_MAX. */
static int send_blob(struct client *c, const char *digest, const char *data, size_t n, struct err *e)
{
	size_t off = 0;
	do {
		size_t k = n - off < TREE_CHUNK_MAX ? n - off : TREE_CHUNK_MAX;
		char *path = xasprintf("/blobs/%s?offset=%zu&size=%zu", digest, off, n);
		int rc = client_put(c, path, data + off, k, e);
		free(path);
		if (rc)
			return -1;
		off += k;
	} while (off < n);
	return 0;
}

static int send_missing(struct client *c, const struct spool *s, const cJSON *missing, uint64_t *done,
                        uint64_t total, struct err *e)
{
	const cJSON *d;
	cJSON_ArrayForEach (d, missing) {
		char *data = NULL;
		size_t n;
		if (!cJSON_IsString(d) || !hash_is_hex(d->valuestring))
			return err_set(e, ERR_PROTOCOL, "the controller asked for a blob without a digest");
		if (blob_get(s->dir, d->valuestring, TREE_MANIFEST_MAX, &data, &n, e))
			return -1;
		int rc = send_blob(c, d->valuestring, data, n, e);
		free(data);
		if (rc)
			return -1;
		*done += n;
		progress("uploading", *done < total ? *done : total, total, 0);
	}
	return 0;
}

static int upload(struct client *c, const struct spool *s, uint64_t total, struct err *e)
{
	uint64_t done = 0;
	for (size_t i = 0; i < s->digests.n; i += ASK_BATCH) {
		size_t end = i + ASK_BATCH < s->digests.n ? i + ASK_BATCH : s->digests.n;
		cJSON *answer = ask_missing(c, &s->digests, i, end, e);
		int rc =
		    answer ? send_missing(c, s, cJSON_GetObjectItemCaseSensitive(answer, "missing"), &done, total, e)
		           : -1;
		cJSON_Delete(answer);
		if (rc)
			return -1;
	}
	progress("uploading", total, total, 1);
	return 0;
}

static int check_source(const char *dir, struct err *e)
{
	struct stat st;
	if (stat(dir, &st))
		return err_sys(e, errno, "source_dir: %s", dir);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "source_dir: %s is not a directory", dir);
	return 0;
}

int bundle_upload(struct client *c, const char *dir, int dry, char digest[HASH_HEX_SIZE], struct err *e)
{
	struct ignore ig = {{0}};
	struct spool s = {0};
	struct tree_stats st = {0};
	char *manifest = NULL, *tmp = NULL;
	size_t n = 0;
	uint64_t special = 0;
	int rc = -1;
	const char *t = getenv("TMPDIR");
	if (check_source(dir, e) || read_ignore(dir, &ig, e))
		goto out;
	tmp = xasprintf("%s/jobctl-XXXXXX", t && *t ? t : "/tmp");
	if (!mkdtemp(tmp)) {
		err_sys(e, errno, "%s", tmp);
		free(tmp);
		tmp = NULL;
		goto out;
	}
	s.dir = tmp;
	if (tree_scan(dir, skip_entry, &ig, spool_chunk, &s, &manifest, &n, digest, &st, &special, e)) {
		err_wrap(e, "source_dir %s", dir);
		goto out;
	}
	if (special)
		fprintf(stderr, "jobctl: %llu sockets, pipes or devices in %s are left out\n",
		        (unsigned long long)special, dir);
	if (!dry) {
		if (spool_chunk(digest, manifest, n, &s, e) || upload(c, &s, st.bytes + n, e))
			goto out;
	}
	rc = 0;
out:
	if (tmp)
		fs_rm_rf(tmp, NULL);
	free(tmp);
	free(manifest);
	strv_fini(&s.digests);
	strv_fini(&ig.patterns);
	return rc;
}

int bundle_download(struct client *c, const char *digest, const char *query, const char *dir, struct err *e)
{
	char **chunks = NULL, *manifest = NULL, *spool = xasprintf("%s/.hearth-get-XXXXXX", dir), *path;
	size_t count = 0, n = 0;
	int rc = -1;
	if (fs_mkdir_p(dir, 0777, e)) {
		free(spool);
		return -1;
	}
	if (!mkdtemp(spool)) {
		rc = err_sys(e, errno, "%s", spool);
		free(spool);
		return rc;
	}
	path = xasprintf("/blobs/%s?%s", digest, query);
	rc = client_get(c, path, TREE_MANIFEST_MAX, &manifest, &n, e);
	free(path);
	if (!rc)
		rc = tree_chunks(manifest, n, &chunks, &count, e);
	for (size_t i = 0; !rc && i < count; i++) {
		char *data = NULL;
		size_t k;
		path = xasprintf("/blobs/%s?%s", chunks[i], query);
		rc = client_get(c, path, TREE_CHUNK_MAX, &data, &k, e);
		if (!rc)
			rc = blob_put(spool, chunks[i], data, k, e);
		free(data);
		free(path);
		progress("downloading chunk", i + 1, count, 0);
	}
	progress("downloading", count, count, 1);
	struct tree_stats st = {0};
	if (!rc)
		rc = tree_extract(manifest, n, spool, dir, &st, e);
	fs_rm_rf(spool, NULL);
	for (size_t i = 0; i < count; i++)
		free(chunks[i]);
	free(chunks);
	free(manifest);
	free(spool);
	return rc;
}

/* Output of a git command, malloc'ed; NULL when it fails. Cut at max. */
static char *git_output(const char *dir, const char *const *args, size_t max, int *cut)
{
	const char *argv[16] = {"git", "-C", dir};
	size_t n = 3;
	for (; *args && n < 15; args++)
		argv[n++] = *args;
	int fds[2], status = -1;
	if (pipe2(fds, O_CLOEXEC))
		return NULL;
	struct proc_spawn s = {.path = "/usr/bin/git",
	                       .argv = (char *const *)(uintptr_t)argv,
	                       .envp = environ,
	                       .stdin_fd = -1,
	                       .stdout_fd = fds[1],
	                       .stderr_fd = -1};
	pid_t pid;
	int rc = proc_spawn(&s, &pid, NULL, NULL);
	close(fds[1]);
	char *out = xmalloc(max + 1);
	size_t len = 0;
	ssize_t k = 0;
	while (!rc && len < max && (k = read(fds[0], out + len, max - len)) > 0)
		len += (size_t)k;
	out[len] = 0;
	if (cut)
		*cut = len == max;
	close(fds[0]);
	while (!rc && waitpid(pid, &status, 0) < 0)
		rc = errno == EINTR ? 0 : -1;
	if (rc || status != 0) {
		if (!(cut && *cut)) {
			free(out);
			return NULL;
		}
	}
	return out;
}

static void chomp(char *s)
{
	size_t n = strlen(s);
	while (n && s[n - 1] == '\n')
		s[--n] = 0;
}

void bundle_git_info(const char *dir, cJSON *run)
{
	static const char *const head[] = {"rev-parse", "HEAD", NULL};
	static const char *const branch[] = {"rev-parse", "--abbrev-ref", "HEAD", NULL};
	static const char *const diff[] = {"diff", "--no-color", "--no-ext-diff", "--relative", "HEAD", "--",
	                                   ".",    NULL};
	char *commit = git_output(dir, head, 128, NULL);
	if (!commit)
		return;
	chomp(commit);
	cJSON_AddStringToObject(run, "git_commit", commit);
	free(commit);
	char *name = git_output(dir, branch, 512, NULL);
	if (name) {
		chomp(name);
		cJSON_AddStringToObject(run, "git_branch", name);
		free(name);
	}
	int cut = 0;
	char *changes = git_output(dir, diff, DIFF_MAX, &cut);
	cJSON_AddBoolToObject(run, "git_dirty", changes && *changes);
	if (changes && *changes && str_valid_utf8(changes, strlen(changes))) {
		cJSON_AddStringToObject(run, "diff", changes);
		if (cut)
			cJSON_AddTrueToObject(run, "diff_cut");
	}
	free(changes);
}
