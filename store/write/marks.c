/*
 * marks: see marks.h. The file has one block of text of a fixed length, which is written in place: it needs
 * no space on a full disk, and a write of less than a sector is not torn.
 */
#include "store/write/marks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define TEXT_MAX    256
#define BLOCK_JOBS  1000
#define BLOCK_EVENT 100000
#define FORMAT      "hearth-high-water 1\njobs %020" PRIu64 "\nevents %020" PRIu64 "\nlast_event %020" PRIu64 "\n"

static int parse_marks(const char *text, size_t n, struct store_marks *m)
{
	struct store_marks got;
	char again[TEXT_MAX];
	int len;

	if (sscanf(text, "hearth-high-water 1\njobs %" SCNu64 "\nevents %" SCNu64 "\nlast_event %" SCNu64,
	           &got.jobs, &got.events, &got.last_event) != 3)
		return -1;
	len = snprintf(again, sizeof(again), FORMAT, got.jobs, got.events, got.last_event);
	if ((size_t)len != n || memcmp(text, again, n) != 0)
		return -1;
	*m = got;
	return 0;
}

int store_marks_read(const char *path, struct store_marks *m, struct err *e)
{
	struct err why = {.code = ERR_NONE};
	cleanup_free char *text = NULL;
	size_t n;

	if (fs_read_file(path, TEXT_MAX, &text, &n, &why) < 0)
		return why.code == ERR_NOT_FOUND ? 0 : err_set(e, why.code, "%s", why.text);
	if (parse_marks(text, n, m) < 0)
		return err_set(e, ERR_INVALID, "%s is damaged", path);
	return 1;
}

static int write_marks(const struct marks *k, const struct store_marks *m, struct err *e)
{
	char text[TEXT_MAX];
	int n = snprintf(text, sizeof(text), FORMAT, m->jobs, m->events, m->last_event);

	if (FAULT("store.marks"))
		return err_set(e, ERR_NOSPACE, "write the high-water file: injected");
	if (!k->is_sound && ftruncate(k->fd, 0) < 0)
		return err_sys(e, errno, "truncate the high-water file");
	return pwrite(k->fd, text, (size_t)n, 0) == n ? 0 : err_sys(e, errno, "write the high-water file");
}

static int sync_name(const char *path, struct err *e)
{
	cleanup_free char *copy = xstrdup(path);
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0 || fsync(fd) < 0)
		rc = err_sys(e, errno, "fsync the folder of %s", path);
	if (fd >= 0)
		close(fd);
	return rc;
}

int marks_open(struct marks *k, const char *path, struct err *e)
{
	int rc;

	memset(k, 0, sizeof(*k));
	k->fd = -1;
	if (!path)
		return 0;
	rc = store_marks_read(path, &k->m, e);
	if (rc < 0)
		log_warn("event=high_water_damaged text=\"%s\"", e->text);
	k->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (k->fd < 0)
		return err_sys(e, errno, "%s", path);
	k->is_sound = rc > 0;
	return rc == 0 ? sync_name(path, e) : 0;
}

void marks_close(struct marks *k)
{
	if (k->fd >= 0)
		close(k->fd);
	k->fd = -1;
}

static uint64_t block_end(uint64_t id, uint64_t mark, uint64_t block)
{
	return id <= mark ? mark : (id + block - 1) / block * block;
}

static uint64_t greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

int marks_settle(struct marks *k, const struct store_marks *least, struct err *e)
{
	struct store_marks to = {.jobs = block_end(least->jobs, k->m.jobs, BLOCK_JOBS),
	                         .events = block_end(least->events, k->m.events, BLOCK_EVENT),
	                         .last_event = greater(least->last_event, k->m.last_event)};

	if (k->fd < 0 || (k->is_sound && memcmp(&to, &k->m, sizeof(to)) == 0))
		return 0;
	if (write_marks(k, &to, e) < 0)
		return -1;
	if (fdatasync(k->fd) < 0)
		return err_sys(e, errno, "sync the high-water file");
	k->m = to;
	k->is_sound = 1;
	return 0;
}

int marks_raise(struct marks *k, uint64_t job, uint64_t event, struct err *e)
{
	if (job <= k->m.jobs && event <= k->m.events)
		return 0;
	return marks_settle(k, &(struct store_marks){.jobs = job, .events = event}, e);
}

void marks_note(struct marks *k, uint64_t event)
{
	struct store_marks to = k->m;
	struct err e;

	if (k->fd < 0 || !k->is_sound || event <= to.last_event)
		return;
	to.last_event = event;
	if (write_marks(k, &to, &e) == 0) {
		k->m = to;
		k->failed = 0;
	} else if (!k->failed) {
		k->failed = 1;
		log_warn("event=high_water_not_written text=\"%s\"", e.text);
	}
}
