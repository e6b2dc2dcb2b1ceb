/*
 * state: DIR/state, which says who the shim is and what became of its process.
 *
 * The record that matters most is the last one, and it must not fail because a tmpfs is full. So there are
 * two files of one page each, `state` and `state.alt`: the new record is written over state.alt, whose page
 * exists, and the two names are exchanged, which needs no memory either. Where the file system cannot
 * exchange names the new file is renamed over the old one. A reader may hold the file that is being written
 * again; the checksum tells, and it reads once more.
 *
 * Nothing is synced: the directory is on tmpfs, and after a power loss the boot id says that the process is
 * lost.
 */
#include "shim/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/fault.h"
#include "common/os/fsutil.h"
#include "shim/sealed.h"

#define READ_TRIES 5

static void put_id(struct buf *b, const struct proc_id *id)
{
	buf_put_u32(b, (uint32_t)id->pid);
	buf_put_u64(b, id->start_ticks);
	buf_put_str(b, id->boot_id);
}

static int get_id(struct buf *b, struct proc_id *id)
{
	const uint8_t *boot;
	uint32_t pid, n;

	if (buf_get_u32(b, &pid) < 0 || buf_get_u64(b, &id->start_ticks) < 0 ||
	    buf_get_bytes(b, &boot, &n, PROC_BOOT_ID_SIZE - 1) < 0 || pid > INT32_MAX ||
	    (n && memchr(boot, 0, n)))
		return -1;
	id->pid = (pid_t)pid;
	if (n)
		memcpy(id->boot_id, boot, n);
	id->boot_id[n] = '\0';
	return 0;
}

/* The page to write. The status goes in as its wire message: one encoder for socket and file. */
static int encode_page(const struct shim_state *s, uint8_t page[STATE_SIZE], struct err *e)
{
	struct buf body, file;
	int rc;

	buf_init(&body, STATE_SIZE - SEALED_HEADER_SIZE);
	buf_init(&file, STATE_SIZE);
	put_id(&body, &s->shim);
	put_id(&body, &s->child);
	rc = wire_encode(WM_SHIM_STATUS, &s->st, 0, &body, e);
	if (rc == 0 && sealed_put(&file, STATE_MAGIC, STATE_VERSION, &body) < 0)
		rc = err_set(e, ERR_LIMIT, "state does not fit into %d bytes", STATE_SIZE);
	if (rc == 0) {
		memset(page, 0, STATE_SIZE);
		memcpy(page, buf_head(&file), buf_left(&file));
	}
	buf_fini(&body);
	buf_fini(&file);
	return rc;
}

static int write_page(int dir_fd, const uint8_t page[STATE_SIZE], struct err *e)
{
	cleanup_close int fd = openat(dir_fd, "state.alt", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	ssize_t n;

	if (fd < 0)
		return err_sys(e, errno, "state.alt: open");
	do
		n = pwrite(fd, page, STATE_SIZE, 0);
	while (n < 0 && errno == EINTR);
	if (n != STATE_SIZE)
		return err_sys(e, n < 0 ? errno : ENOSPC, "state.alt: write");
	return 0;
}

int state_write_at(int dir_fd, const struct shim_state *s, struct err *e)
{
	uint8_t page[STATE_SIZE];

	if (FAULT("shim.state"))
		return err_sys(e, ENOSPC, "state: injected");
	if (encode_page(s, page, e) < 0 || write_page(dir_fd, page, e) < 0)
		return -1;
	if (renameat2(dir_fd, "state.alt", dir_fd, "state", RENAME_EXCHANGE) == 0)
		return 0;
	/* The first time, or a file system without exchange. */
	if (renameat(dir_fd, "state.alt", dir_fd, "state") < 0)
		return err_sys(e, errno, "state: rename");
	/* The spare page is taken now, while nothing is lost yet; without it the next write tries again. */
	write_page(dir_fd, page, NULL);
	return 0;
}

int shim_state_write(const char *dir, const struct shim_state *s, struct err *e)
{
	cleanup_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "%s", dir);
	return state_write_at(fd, s, e);
}

int state_decode(const void *data, size_t n, struct shim_state *s, struct err *e)
{
	struct shim_state got = {.version = STATE_VERSION};
	struct wire_frame f;
	struct buf body;
	void *st;

	if (sealed_get(data, n, STATE_MAGIC, STATE_VERSION, &body, e) < 0)
		return -1;
	if (get_id(&body, &got.shim) < 0 || get_id(&body, &got.child) < 0 || got.shim.pid <= 0 ||
	    wire_next(&body, &f, NULL) != 1 || f.type != WM_SHIM_STATUS || buf_left(&body) ||
	    wire_decode(f.type, f.body, f.n, &st, NULL) < 0)
		return err_set(e, ERR_PROTOCOL, "fields are malformed");
	got.st = *(struct wm_shim_status *)st;
	free(st); /* the strings moved into got */
	*s = got;
	return 0;
}

int shim_state_read(const char *dir, struct shim_state *s, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/state", dir);

	for (int i = 1;; i++) {
		cleanup_free char *data = NULL;
		size_t n;

		if (fs_read_file(path, STATE_SIZE, &data, &n, e) < 0)
			return -1;
		if (state_decode(data, n, s, e) == 0)
			return 0;
		if (i == READ_TRIES)
			return err_wrap(e, "%s", path);
	}
}

void shim_state_fini(struct shim_state *s)
{
	wire_fini(WM_SHIM_STATUS, &s->st);
	*s = (struct shim_state){0};
}
