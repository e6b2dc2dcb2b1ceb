/*
 * incarnation: see incarnation.h. The order of a new one: logs are set aside, the marks of high-water are
 * raised to below the first ids, DATA/incarnation is written, and with the first transaction the database has
 * number and event. When hearthd dies in between, the next start finds that they disagree, and begins another
 * one. It trusts high-water as soon as it finds DATA/incarnation: therefore the marks are durable before.
 */
#include "controller/incarnation.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "controller/files/datafs.h"
#include "controller/files/logs/logstore.h"
#include "controller/state/core_io.h"
#include "store/read/find.h"
#include "store/read/load.h"
#include "store/store.h"

#define FILE_MAX     4096
#define JOBS_APART   1000000ull /* where nobody knows how many ids were given */
#define EVENTS_APART 1000000000ull
#define NUMBERS_FROM 1577836800ull /* 2020-01-01: the seconds after it are numbers */
#define PLACES       10000ull      /* ids of restores within so many seconds are apart */

/* ---- deciding -------------------------------------------------------------------------------- */

static uint64_t greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* A first start wrote the files, and died before it recorded the number; nothing was committed meanwhile. */
static int is_unfinished(const struct incarnation_facts *f)
{
	return f->file == 0 && f->has_marks && f->marks.last_event == f->last_event;
}

/* Adds why a new incarnation begins; empty: it does not. */
static void say_why(const struct incarnation_facts *f, struct text *t)
{
	if (f->in_store && !f->has_file)
		text_add(t, "DATA/incarnation is missing, and the database is of incarnation %" PRIu64, f->store);
	else if (f->has_file && !f->in_store && !is_unfinished(f))
		text_add(t, "DATA is of incarnation %" PRIu64 ", and the database of none", f->file);
	else if (f->file != f->store)
		text_add(t, "DATA is of incarnation %" PRIu64 ", and the database of %" PRIu64, f->file, f->store);
	else if (f->copied)
		text_add(t, "the data folder was copied from another place");
	else if (f->backup)
		text_add(t, "the database is a backup of %s", f->backup);
	else if (f->in_store && !f->has_marks)
		text_add(t, "DATA/high-water is missing or damaged, and the database is of incarnation %" PRIu64,
		         f->store);
	else if (f->has_marks && f->marks.last_event > f->last_event)
		text_add(t,
		         "the database is older than DATA/high-water: its last event is %" PRIu64
		         ", and event %" PRIu64 " was recorded",
		         f->last_event, f->marks.last_event);
}

static uint64_t seconds_of(const struct incarnation_facts *f)
{
	return f->now_us / 1000000;
}

/* Two restores that share no file have different numbers, because seconds pass between them. */
static uint64_t next_number(const struct incarnation_facts *f, int is_known)
{
	uint64_t n = greater(f->file, f->store) + 1, s = seconds_of(f);

	if (!is_known && s > NUMBERS_FROM)
		n = greater(n, s - NUMBERS_FROM);
	return n < INCARNATION_MOST ? n : INCARNATION_MOST;
}

/* Their ids are apart, too: each second has a place of its own, of a thousandth of a step. */
static uint64_t far_above(uint64_t id, uint64_t step, const struct incarnation_facts *f)
{
	return (id / step + 2) * step + seconds_of(f) % PLACES * (step / 1000) + 1;
}

void incarnation_judge(const struct incarnation_facts *f, struct incarnation *out)
{
	uint64_t job = greater(f->last_job, f->first_job ? f->first_job - 1 : 0), event = f->last_event;
	int is_known = f->has_file && f->has_marks && !f->copied;
	struct text why = text_on(out->why, sizeof(out->why));

	say_why(f, &why);
	out->logs_set_aside = 0;
	out->is_new = !text_is_empty(&why);
	out->unrecorded = out->is_new || !f->in_store;
	out->unwritten = out->is_new || !f->has_file;
	out->number = f->store;
	out->first_job = f->first_job;
	out->first_event = 0;
	if (!out->is_new)
		return;
	job = greater(job, f->marks.jobs);
	event = greater(event, greater(f->marks.events, f->marks.last_event));
	out->number = next_number(f, is_known);
	out->first_job = is_known ? job + 1 : far_above(job, JOBS_APART, f);
	out->first_event = is_known ? event + 1 : far_above(event, EVENTS_APART, f);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Empty: unknown. */
static char *machine_id(void)
{
	struct err none;
	char *text;
	size_t n;

	if (fs_read_file("/etc/machine-id", 100, &text, &n, &none) < 0)
		return xstrdup("");
	text[strcspn(text, "\n \t")] = '\0';
	return text;
}

/* On file systems that give a file the same number for ever. */
static uint64_t number_of_file(const char *path)
{
	const char *name;
	struct statfs fs;
	struct stat st;

	if (stat(path, &st) < 0 || statfs(path, &fs) < 0 ||
	    datafs_judge((uint32_t)fs.f_type, &name) != DATAFS_FINE)
		return 0;
	return st.st_ino;
}

static int was_copied(const char *path, const char *machine, uint64_t file)
{
	cleanup_free char *here = machine_id();
	uint64_t now = number_of_file(path);

	return (*machine && *here && strcmp(machine, here) != 0) || (file && now && file != now);
}

void incarnation_read(const char *data_dir, struct incarnation_facts *f)
{
	cleanup_free char *path = xasprintf("%s/incarnation", data_dir), *text = NULL,
	                  *marks = xasprintf("%s/high-water", data_dir);
	char machine[101] = "";
	uint64_t file = 0;
	struct err e;
	size_t n;

	memset(f, 0, sizeof(*f));
	f->now_us = clock_real_us(clock_real());
	if (fs_read_file(path, FILE_MAX, &text, &n, &e) == 0 &&
	    sscanf(text, "incarnation %" SCNu64, &f->file) == 1) {
		const char *at = strstr(text, "\nmachine "), *ino = strstr(text, "\nfile ");

		if (at)
			sscanf(at, "\nmachine %100s", machine);
		if (ino)
			sscanf(ino, "\nfile %" SCNu64, &file);
		f->has_file = 1;
		f->copied = was_copied(path, machine, file);
	}
	f->has_marks = store_marks_read(marks, &f->marks, &e) > 0;
}

/* The file has its own number in it, which it keeps when it is renamed. */
static int write_part(const char *part, uint64_t number, struct err *e)
{
	cleanup_close int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	cleanup_free char *machine = machine_id(), *text = NULL;

	if (fd < 0)
		return err_sys(e, errno, "%s", part);
	text = xasprintf("incarnation %" PRIu64 "\nmachine %s\nfile %" PRIu64 "\n", number, machine,
	                 number_of_file(part));
	if (fs_write_all(fd, text, strlen(text), e) < 0)
		return -1;
	return fsync(fd) == 0 ? 0 : err_sys(e, errno, "fsync %s", part);
}

static int write_file(const char *data_dir, uint64_t number, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/incarnation", data_dir), *part = xasprintf("%s.new", path);
	cleanup_close int dir = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (write_part(part, number, e) < 0)
		return -1;
	if (rename(part, path) < 0 || dir < 0 || fsync(dir) < 0)
		return err_sys(e, errno, "%s", path);
	return 0;
}

/* ---- beginning ------------------------------------------------------------------------------- */

static uint64_t setting_number(struct store *s, const char *key, int *found)
{
	cleanup_free char *text = store_setting(s, key);
	uint64_t n = 0;

	*found = text && str_parse_u64(text, &n) == 0;
	return *found ? n : 0;
}

static int known_job(uint64_t job, uint32_t *attempts, void *arg, struct err *e)
{
	return store_job_attempts(arg, job, attempts, e);
}

/* Also when no log is set aside: the folder holds back the collection of blobs. */
static int set_aside(const char *data_dir, struct store_reader *r, struct incarnation *out, struct err *e)
{
	cleanup_free char *logs = xasprintf("%s/logs", data_dir),
	                  *lost = xasprintf("%s/lost/%" PRIu64, data_dir, out->number),
	                  *note = xasprintf("%s/README", lost), *text = NULL;
	struct log_aside moved;

	if (fs_mkdir_durable(lost, 0700, e) < 0 || logstore_set_aside(logs, lost, known_job, r, &moved, e) < 0)
		return -1;
	out->logs_set_aside = moved.jobs + moved.attempts;
	text = xasprintf(
	    "Incarnation %" PRIu64 " of this cluster began here: %s.\n\n"
	    "logs/ has the logs of %" PRIu64 " jobs and of %" PRIu64
	    " attempts that the database does not know.\n"
	    "hearthd removes no blob while this folder exists. Blobs hold sources and outputs, also of\n"
	    "jobs that the database does not know. Remove the folder when you need nothing of them.\n",
	    out->number, out->why, moved.jobs, moved.attempts);
	return fs_write_atomic(note, text, strlen(text), 0600, e);
}

/* At each start: high-water is made, or is not behind the database. In a new incarnation no id below its
 * first ones is given again. The mark of the newest event says so until its first event is committed, also
 * where DATA/incarnation and the database agree because high-water alone was missing. */
static int settle_marks(const struct incarnation_facts *f, struct store *s, const struct incarnation *in,
                        struct err *e)
{
	struct store_marks least = {.jobs = f->last_job, .events = f->last_event, .last_event = f->last_event};

	if (in->is_new) {
		least.jobs = greater(least.jobs, in->first_job - 1);
		least.events = greater(least.events, in->first_event - 1);
		least.last_event = in->first_event - 1;
	}
	return store_settle_marks(s, &least, e);
}

int incarnation_begin(const char *data_dir, struct incarnation_facts *f, struct store *s,
                      struct store_reader *r, struct incarnation *out, struct err *e)
{
	cleanup_free char *backup = store_setting(s, "backup");
	uint64_t node;
	int found;

	f->store = setting_number(s, "incarnation", &f->in_store);
	f->first_job = setting_number(s, "first_job", &found);
	f->backup = backup;
	if (store_max_ids(s, &f->last_job, &f->last_event, &node, e) < 0)
		return -1;
	incarnation_judge(f, out);
	f->backup = NULL;
	if (out->is_new && set_aside(data_dir, r, out, e) < 0)
		return -1;
	if (settle_marks(f, s, out, e) < 0)
		return -1;
	if (out->unwritten && write_file(data_dir, out->number, e) < 0)
		return -1;
	if (out->is_new)
		log_warn("event=incarnation number=%" PRIu64 " first_job=%" PRIu64 " logs_set_aside=%" PRIu64
		         " text=\"%s\"",
		         out->number, out->first_job, out->logs_set_aside, out->why);
	return 0;
}
