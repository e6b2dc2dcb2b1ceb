/*
 * launch: DIR/launch, the order that a shim carries out, and DIR/key.
 *
 * One table of fields drives writing, reading and release, so that the three cannot drift apart. The file is
 * written once by the agent before the shim exists. New fields come at the end, under a new version, and a
 * shim also reads the version before: the programs may be replaced while an older agent still runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/os/fsutil.h"
#include "shim/sealed.h"
#include "shim/shim.h"
#include "shim/state.h"

#define STR_MAX   (1024u * 1024)
#define ITEMS_MAX 65536u
#define KEY_MAX   256

#define LAUNCH_FIELDS_1(F)                                                                                   \
	F(STR, token)                                                                                            \
	F(STR, shim_token)                                                                                       \
	F(U8, kind)                                                                                              \
	F(U64, job)                                                                                              \
	F(U32, attempt)                                                                                          \
	F(U32, rank)                                                                                             \
	F(STRV, argv)                                                                                            \
	F(STRV, env)                                                                                             \
	F(STR, cwd)                                                                                              \
	F(STR, logdir)                                                                                           \
	F(U8, wait_go)                                                                                           \
	F(U8, metrics)                                                                                           \
	F(U8, set_ids)                                                                                           \
	F(U32, uid)                                                                                              \
	F(U32, gid)                                                                                              \
	F(STR, user)                                                                                             \
	F(STRV, cgroup_procs)                                                                                    \
	F(U32, container_pid)                                                                                    \
	F(U64, container_start)                                                                                  \
	F(STRV, oom_files)                                                                                       \
	F(U64, segment_bytes)                                                                                    \
	F(U64, max_bytes)                                                                                        \
	F(U64, limit_nofile)                                                                                     \
	F(U8, memlock_unlimited)                                                                                 \
	F(U64, limit_as)                                                                                         \
	F(U32, grace_ms)                                                                                         \
	F(U32V, cpus)                                                                                            \
	F(U32, oom_score_adj)                                                                                    \
	F(STR, cgroup_kill)

/* Since version 2. */
#define LAUNCH_FIELDS_2(F)                                                                                   \
	F(U8, allow_setuid)                                                                                      \
	F(U8, core_files)                                                                                        \
	F(STR, lease)

/* Since version 3. */
#define LAUNCH_FIELDS_3(F)                                                                                   \
	F(U8, park)                                                                                              \
	F(U8, await_launcher)                                                                                    \
	F(STRV, park_argv)

#define LAUNCH_FIELDS(F)                                                                                     \
	LAUNCH_FIELDS_1(F)                                                                                       \
	LAUNCH_FIELDS_2(F)                                                                                       \
	LAUNCH_FIELDS_3(F)

static int put_U8(struct buf *b, const uint8_t *v)
{
	return buf_put_u8(b, *v);
}
static int put_U32(struct buf *b, const uint32_t *v)
{
	return buf_put_u32(b, *v);
}
static int put_U64(struct buf *b, const uint64_t *v)
{
	return buf_put_u64(b, *v);
}
static int put_STR(struct buf *b, char *const *v)
{
	return buf_put_str(b, *v);
}

static int put_STRV(struct buf *b, const struct strv *v)
{
	if (v->n > ITEMS_MAX || buf_put_u32(b, (uint32_t)v->n) < 0)
		return -1;
	for (size_t i = 0; i < v->n; i++)
		if (buf_put_str(b, v->v[i]) < 0)
			return -1;
	return 0;
}

static int put_U32V(struct buf *b, const struct wire_u32v *v)
{
	if (v->n > ITEMS_MAX || buf_put_u32(b, v->n) < 0)
		return -1;
	for (uint32_t i = 0; i < v->n; i++)
		if (buf_put_u32(b, v->v[i]) < 0)
			return -1;
	return 0;
}

static int get_U8(struct buf *b, uint8_t *v)
{
	return buf_get_u8(b, v);
}
static int get_U32(struct buf *b, uint32_t *v)
{
	return buf_get_u32(b, v);
}
static int get_U64(struct buf *b, uint64_t *v)
{
	return buf_get_u64(b, v);
}
static int get_STR(struct buf *b, char **v)
{
	return buf_get_str(b, v, STR_MAX);
}

static int get_STRV(struct buf *b, struct strv *v)
{
	uint32_t n;
	char *s;

	/* Each string takes at least its length: a count that cannot be true is refused before the loop. */
	if (buf_get_u32(b, &n) < 0 || n > ITEMS_MAX || n > buf_left(b) / 4)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		if (buf_get_str(b, &s, STR_MAX) < 0)
			return -1;
		strv_take(v, s);
	}
	return 0;
}

static int get_U32V(struct buf *b, struct wire_u32v *v)
{
	uint32_t n;

	if (buf_get_u32(b, &n) < 0 || n > ITEMS_MAX || n > buf_left(b) / 4)
		return -1;
	v->v = xcalloc(n, sizeof(*v->v));
	v->n = n;
	for (uint32_t i = 0; i < n; i++)
		buf_get_u32(b, &v->v[i]);
	return 0;
}

static void fini_STR(char **v)
{
	free(*v);
}
static void fini_STRV(struct strv *v)
{
	strv_fini(v);
}
static void fini_U32V(struct wire_u32v *v)
{
	free(v->v);
}
#define fini_U8(v)  ((void)(v))
#define fini_U32(v) ((void)(v))
#define fini_U64(v) ((void)(v))

/* DIR/key: readable by the process's account, which learns nothing but how to speak to its own shim. */
static int write_key(const char *dir, const struct shim_launch *l, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/key", dir);
	size_t n = l->shim_token ? strlen(l->shim_token) : 0;

	if (n == 0 || n > KEY_MAX)
		return err_set(e, ERR_INVALID, "the shim's token has %zu characters; 1 to %d are allowed", n,
		               KEY_MAX);
	if (fs_replace(path, l->shim_token, n, 0400, e) < 0)
		return -1;
	if (l->set_ids && chown(path, l->uid, l->gid) < 0)
		return err_sys(e, errno, "%s: chown to %u", path, l->uid);
	return 0;
}

char *shim_key_read(const char *dir, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/key", dir);
	char *key;

	if (fs_read_file(path, KEY_MAX, &key, NULL, e) < 0)
		return NULL;
	return key;
}

int shim_launch_write(const char *dir, const struct shim_launch *l, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/launch", dir);
	struct buf body, file;
	int rc = 0;

	buf_init(&body, SHIM_LAUNCH_MAX - SEALED_HEADER_SIZE);
	buf_init(&file, SHIM_LAUNCH_MAX);
#define PUT(kind, name) rc |= put_##kind(&body, &l->name);
	LAUNCH_FIELDS(PUT)
#undef PUT
	if (rc < 0 || sealed_put(&file, LAUNCH_MAGIC, LAUNCH_VERSION, &body) < 0)
		rc = err_set(e, ERR_LIMIT, "arguments and environment are larger than %u bytes", SHIM_LAUNCH_MAX);
	if (rc == 0)
		rc = fs_replace(path, buf_head(&file), buf_left(&file), 0600, e);
	buf_fini(&body);
	buf_fini(&file);
	return rc < 0 ? -1 : write_key(dir, l, e);
}

int launch_decode(const void *data, size_t n, struct shim_launch *l, struct err *e)
{
	struct shim_launch got = {0};
	uint32_t version;
	struct buf body;
	int rc = 0;

	if (sealed_get_since(data, n, LAUNCH_MAGIC, LAUNCH_OLDEST, LAUNCH_VERSION, &version, &body, e) < 0)
		return -1;
#define GET(kind, name) rc = rc < 0 ? -1 : get_##kind(&body, &got.name);
	LAUNCH_FIELDS_1(GET)
	if (version >= 2) {
		LAUNCH_FIELDS_2(GET)
	}
	if (version >= 3) {
		LAUNCH_FIELDS_3(GET)
	}
#undef GET
	if (rc < 0 || buf_left(&body)) {
		shim_launch_fini(&got);
		return err_set(e, ERR_PROTOCOL, "fields are malformed");
	}
	*l = got;
	return 0;
}

int shim_launch_read(const char *dir, struct shim_launch *l, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/launch", dir);
	cleanup_free char *data = NULL;
	size_t n;

	if (fs_read_file(path, SHIM_LAUNCH_MAX, &data, &n, e) < 0)
		return -1;
	return launch_decode(data, n, l, e) < 0 ? err_wrap(e, "%s", path) : 0;
}

void shim_launch_fini(struct shim_launch *l)
{
#define FINI(kind, name) fini_##kind(&l->name);
	LAUNCH_FIELDS(FINI)
#undef FINI
	*l = (struct shim_launch){0};
}
