/*
 * stage_restore: the checkpoint that an attempt begins with, under its own name and without any other one:
 * each part from what this node holds, else from the folder or the store that has its copy. A part counts
 * when its digest is that of its report.
 *
 *   DeepSpeed  `latest` names it
 *   Megatron   latest_checkpointed_iteration.txt has its number
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/copy.h"
#include "agent/files/files_keep.h"
#include "agent/keep/convention.h"
#include "agent/keep/held.h"
#include "agent/keep/keep_index.h"
#include "agent/stage/stage_int.h"
#include "common/os/fsutil.h"

#define CHECKPOINTS "checkpoints"
#define DEPTH_MAX   32

/* ---- what this node holds ----------------------------------------------------------------------------- */

/* The number of the held copy with that digest; 0: none. */
static uint64_t find_held(const struct stage *s, const char *digest)
{
	cleanup_free char *dir = held_dir(s->env, s->restore.local);
	struct keep_index x = {0};
	uint64_t seq = 0;
	struct err e;

	if (strchr(s->restore.local, '/') || keep_index_load(&x, dir, &e) < 0)
		return 0;
	for (size_t i = 0; i < x.n; i++)
		if (strcmp(x.v[i].digest, digest) == 0)
			seq = x.v[i].seq;
	keep_index_fini(&x);
	return seq;
}

static int count_step(uint64_t bytes, void *arg)
{
	struct stage *s = arg;

	s->bytes += bytes;
	return stage_step(s, bytes);
}

static int copy_held(struct stage *s, int held, const char *place, uint64_t bytes, struct err *e)
{
	int from = openat(held, place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_close int to = from < 0 ? -1 : stage_open_below(s, CHECKPOINTS, e);
	struct copy c = {
	    .step = count_step, .arg = s, .set_owner = s->as_user, .uid = s->user.uid, .gid = s->user.gid};

	if (from < 0)
		return err_sys(e, errno, "%s", place);
	if (to < 0 || stage_check_room(s, bytes, "it", e) < 0) {
		close(from);
		return -1;
	}
	stage_left(s, &c.limit);
	return copy_open(&c, from, place, to, NULL, e) < 0 ? -1 : stage_give(s, to, e);
}

/* 1: it is in place; 0: this node holds none, or a damaged one; -1: the job or the node has no room for it.
 */
static int restore_held(struct stage *s, const char *digest, struct err *why)
{
	uint64_t seq = s->restore.local && *digest ? find_held(s, digest) : 0;
	cleanup_free char *dir = NULL, *files = NULL, *place = NULL;
	cleanup_close int held = -1;
	struct files_digest d;
	struct err e = {0};

	if (!seq)
		return 0;
	dir = held_dir(s->env, s->restore.local);
	files = xasprintf("%s/files", dir);
	place = xasprintf("%" PRIu64, seq);
	held = open(files, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (held < 0 || files_keep(s->files, held, &e) < 0 || files_digest(s->files, place, &d, &e) < 0) {
		stage_say(s, "the copy on this node cannot be read: %s", held < 0 ? "it is gone" : e.text);
		return 0;
	}
	if (strcmp(d.digest, digest) != 0) {
		stage_say(s, "the copy on this node is damaged: its digest differs");
		return 0;
	}
	if (copy_held(s, held, place, d.bytes, &e) == 0)
		return 1;
	if (e.code == ERR_LIMIT || e.code == ERR_NOSPACE) {
		*why = e;
		return -1;
	}
	stage_say(s, "the copy on this node cannot be restored: %s", e.text);
	return 0;
}

/* ---- copies elsewhere --------------------------------------------------------------------------------- */

static int restore_folder(struct stage *s, const char *path, const char *digest, struct err *e)
{
	struct files_digest d;

	if (files_digest(s->files, path, &d, e) < 0)
		return -1;
	if (*digest && strcmp(d.digest, digest) != 0)
		return err_set(e, ERR_IO, "file://%s is damaged: its digest differs", path);
	return stage_files(s, path, CHECKPOINTS, -1, e);
}

static int restore_part(struct stage *s, const char *digest, const char *uri, struct err *e)
{
	int rc = restore_held(s, digest, e);

	if (rc)
		return rc < 0 ? -1 : 0;
	if (strncmp(uri, "file:///", 8) == 0)
		return restore_folder(s, uri + strlen("file://"), digest, e);
	if (strcmp(uri, CKPT_URI_STORE) == 0)
		return stage_tree(s, digest, CHECKPOINTS, NULL, e);
	return err_set(e, ERR_NOT_FOUND, "no copy of it is left: only its node had one");
}

/* ---- markers ------------------------------------------------------------------------------------------ */

static int write_marker(struct stage *s, int at, const char *name, const char *text, struct err *e)
{
	cleanup_close int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0)
		return errno == EEXIST ? 0 : err_sys(e, errno, "%s", name);
	return fs_write_all(fd, text, strlen(text), e) < 0 ? -1 : stage_give(s, fd, e);
}

/* What the folder of a checkpoint has. */
struct inside {
	int deepspeed;  /* parts of one */
	unsigned n;     /* entries */
	char name[256]; /* of one of them */
};

static void look_inside(int at, const char *name, struct inside *in)
{
	int fd = fs_open_below(at, name, O_RDONLY | O_DIRECTORY, 0);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *one;

	*in = (struct inside){0};
	while (d && (one = readdir(d))) {
		if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0)
			continue;
		in->n++;
		in->deepspeed |= convention_is_deepspeed(one->d_name);
		snprintf(in->name, sizeof(in->name), "%s", one->d_name);
	}
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
}

/* 1: the marker of entry `name` of the folder `at` is there; 0: it needs none. */
static int mark_entry(struct stage *s, int at, const char *name, struct inside *in, struct err *e)
{
	cleanup_free char *number = xasprintf("%" PRId64, s->resume_step);
	int rc;

	if (strncmp(name, "iter_", 5) == 0 && s->resume_step >= 0)
		rc = write_marker(s, at, "latest_checkpointed_iteration.txt", number, e);
	else {
		look_inside(at, name, in);
		if (!in->deepspeed)
			return 0;
		rc = write_marker(s, at, "latest", name, e);
	}
	return rc < 0 ? -1 : 1;
}

/* The marker is in the folder of what it names. Where a program saves deeper ("run1/iter_0000100"), the
 * folders above have nothing else. */
static int write_markers(struct stage *s, struct err *e)
{
	int at = fs_open_below(s->ml_fd, CHECKPOINTS, O_RDONLY | O_DIRECTORY, 0), below, rc = 0;
	struct inside in = {.n = 1};
	cleanup_free char *name = xstrdup(s->restore.name);

	if (at < 0)
		return err_sys(e, errno, CHECKPOINTS);
	for (int depth = 0; at >= 0 && depth < DEPTH_MAX; depth++) {
		rc = mark_entry(s, at, name, &in, e);
		if (rc || in.n != 1)
			break;
		below = fs_open_below(at, name, O_RDONLY | O_DIRECTORY, 0);
		close(at);
		at = below; /* -1: a file */
		free(name);
		name = xstrdup(in.name);
	}
	if (at >= 0)
		close(at);
	return rc < 0 ? -1 : 0;
}

int stage_restore(struct stage *s)
{
	const struct stage_restoring *r = &s->restore;
	struct err e = {0};
	int rc = r->digests.n ? 0 : err_set(&e, ERR_NOT_FOUND, "the order names no part of it");

	stage_phase(s, "resume", 0);
	for (size_t i = 0; i < r->digests.n && rc == 0; i++)
		rc = restore_part(s, r->digests.v[i], i < r->uris.n ? r->uris.v[i] : "", &e);
	if (rc == 0)
		rc = write_markers(s, &e);
	if (rc == 0) {
		stage_say(s, "checkpoint %s of step %" PRId64 " is in place", r->name, s->resume_step);
		return 0;
	}
	err_wrap(&e, "checkpoint %s to begin with", r->name);
	s->not_restored = !worker_cancelled(s->w) && e.code != ERR_NOSPACE && e.code != ERR_LIMIT;
	return stage_fail(s, RC_NONE, &e);
}
