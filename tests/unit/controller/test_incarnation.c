/* When a new incarnation begins, from which numbers it counts, and what of DATA it sets aside: a database
 * that was put back, files of DATA that are missing, older or copied, and starts as ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "controller/files/logs/logstore.h"
#include "controller/incarnation.h"
#include "controller/state/core_io.h"
#include "store/store.h"
#include "store/write/backup.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

#define NOW_US 1790000000000000ull /* second 212163200 since 2020 */

/* ---- the decision ---------------------------------------------------------------------------- */

static struct incarnation_facts sound(void)
{
	return (struct incarnation_facts){.has_file = 1,
	                                  .has_marks = 1,
	                                  .file = 4,
	                                  .marks = {.jobs = 3000, .events = 100000, .last_event = 812},
	                                  .in_store = 1,
	                                  .store = 4,
	                                  .first_job = 1001,
	                                  .last_job = 2222,
	                                  .last_event = 812,
	                                  .now_us = NOW_US};
}

static struct incarnation judge(const struct incarnation_facts *f)
{
	struct incarnation in;

	incarnation_judge(f, &in);
	return in;
}

static void test_goes_on(void)
{
	struct incarnation_facts f = sound();
	struct incarnation in = judge(&f);

	ok(!in.is_new && !in.unrecorded && !in.unwritten, "files and database agree: nothing begins");
	ok(in.number == 4 && in.first_job == 1001, "the numbers are those of the database");
	f.last_event = 900;
	ok(!judge(&f).is_new, "a high-water mark that is old after a power loss begins none");
	f = (struct incarnation_facts){.now_us = NOW_US};
	in = judge(&f);
	ok(!in.is_new && in.unrecorded && in.unwritten && in.number == 0 && in.first_job == 0,
	   "an empty folder begins with incarnation 0");
	f.last_job = 10;
	f.last_event = 100;
	in = judge(&f);
	ok(!in.is_new && in.unrecorded && in.number == 0, "so does the database of an older version");
	f.has_file = f.has_marks = 1;
	f.marks = (struct store_marks){.jobs = 1000, .events = 100000, .last_event = 100};
	in = judge(&f);
	ok(!in.is_new && in.unrecorded && in.number == 0,
	   "also when its first start died before it was recorded");
	f.last_event = 99;
	ok(judge(&f).is_new, "a database of an older version that is behind the mark begins one");
}

static void test_known_marks(void)
{
	struct incarnation_facts f = sound();
	struct incarnation in;

	f.last_event = 811;
	in = judge(&f);
	ok(in.is_new && in.unrecorded && in.unwritten, "the database is older than the high-water mark");
	like(in.why, "its last event is 811, and event 812 was recorded", "and the text has both");
	ok(in.number == 5 && in.first_job == 3001 && in.first_event == 100001,
	   "numbers continue above all that may have been given");
	f = sound();
	f.backup = "2026-01-01T00:00:00Z";
	in = judge(&f);
	ok(in.is_new && in.number == 5 && in.first_job == 3001, "a backup, also when no event is missing");
	like(in.why, "backup of 2026-01-01", "with its time");
	f = sound();
	f.store = 3;
	in = judge(&f);
	ok(in.is_new && in.number == 5, "a database of an earlier incarnation: the number is above both");
	f = sound();
	f.file = 2;
	in = judge(&f);
	ok(in.is_new && in.number == 5, "files of an earlier one, too");
	f = sound();
	f.in_store = 0;
	f.store = f.first_job = f.last_job = f.last_event = 0;
	in = judge(&f);
	ok(in.is_new && in.number == 5 && in.first_job == 3001, "a new database in an old folder");
}

static void test_unknown_marks(void)
{
	struct incarnation_facts f = sound();
	struct incarnation in;

	f.has_file = f.has_marks = 0;
	f.file = 0;
	f.marks = (struct store_marks){0};
	in = judge(&f);
	ok(in.is_new && in.first_job == 2000001, "files are missing: numbers begin far above");
	ok(in.first_event == 2000000001, "those of events, too");
	is_int(in.number, 212163200, "the number is that of the second, as another restore may have had 5");
	f.now_us += 1000000;
	in = judge(&f);
	is_int(in.number, 212163201, "a restore one second later has another number");
	ok(in.first_job == 2001001 && in.first_event == 2001000001, "and other ids");
	f.now_us += 3600 * 1000000ull;
	is_int(judge(&f).first_job, 5601001, "so does one that is an hour later");
	f.now_us = NOW_US;
	f.store = 300000000;
	is_int(judge(&f).number, 300000001, "unless the present one is greater");
	f = sound();
	f.has_marks = 0;
	f.marks = (struct store_marks){0};
	in = judge(&f);
	ok(in.is_new && in.first_job == 2000001, "without DATA/high-water numbers begin far above");
	like(in.why, "DATA/high-water is missing or damaged", "and the text names the file");
	f = sound();
	f.copied = 1;
	in = judge(&f);
	ok(in.is_new && in.first_job == 2000001 && in.number == 212163200,
	   "a copied folder: nobody knows what came after");
	f.store = INCARNATION_MOST;
	is_int(judge(&f).number, INCARNATION_MOST, "numbers fit into an epoch");
	ok((INCARNATION_MOST << INCARNATION_SHIFT) + (1ull << INCARNATION_SHIFT) <= 1ull << 53,
	   "and it is exact in JSON");
}

/* ---- a data folder --------------------------------------------------------------------------- */

struct lab {
	char dir[600], db[700], marks[700];
	struct kit k;
	struct store_reader *reader;
	struct incarnation in;
};

/* As hearthd does it at its start. */
static int lab_start(struct lab *l)
{
	struct incarnation_facts f;
	struct err e = {.text = ""};
	int rc;

	incarnation_read(l->dir, &f);
	memset(&l->k, 0, sizeof(l->k));
	snprintf(l->k.path, sizeof(l->k.path), "%.500s", l->db);
	l->k.clock = clock_real();
	l->k.marks = l->marks;
	kit_reopen(&l->k);
	l->reader = kit_reader(&l->k);
	rc = incarnation_begin(l->dir, &f, l->k.store, l->reader, &l->in, &e);
	if (rc < 0)
		tap_diag("%s", e.text);
	return rc;
}

static void lab_stop(struct lab *l)
{
	store_reader_close(l->reader);
	kit_close(&l->k);
}

/* What the core commits first. */
static void record(struct lab *l)
{
	struct store_txn *t = store_txn_new();
	cleanup_free char *number = xasprintf("%llu", (unsigned long long)l->in.number),
	                  *first = xasprintf("%llu", (unsigned long long)l->in.first_job);
	struct event_row ev = kit_event(l->in.first_event, 0, C("incarnation"));
	struct err e;

	if (l->in.is_new)
		store_txn_event(t, &ev);
	store_txn_setting(t, "incarnation", number);
	store_txn_setting(t, "first_job", first);
	store_txn_setting(t, "backup", NULL);
	if (kit_commit(&l->k, t, &e) < 0)
		tap_bail("%s", e.text);
}

static void lab_dir(struct lab *l, const char *name)
{
	snprintf(l->dir, sizeof(l->dir), "%s/%s", tap_tmpdir(), name);
	snprintf(l->db, sizeof(l->db), "%s/hearth.db", l->dir);
	snprintf(l->marks, sizeof(l->marks), "%s/high-water", l->dir);
	if (fs_mkdir_p(l->dir, 0700, NULL) < 0)
		tap_bail("%s", l->dir);
}

static void put_log(struct lab *l, const char *attempt)
{
	cleanup_free char *dir = xasprintf("%s/logs/%s", l->dir, attempt),
	                  *path = xasprintf("%s/rank-0.log", dir);
	struct err e;

	if (fs_mkdir_p(dir, 0700, &e) < 0 || fs_write_atomic(path, attempt, strlen(attempt), 0600, &e) < 0)
		tap_bail("%s", e.text);
}

static int is_there(struct lab *l, const char *name)
{
	cleanup_free char *path = xasprintf("%s/%s", l->dir, name);

	return access(path, F_OK) == 0;
}

static void put_job(struct lab *l, uint64_t id, uint32_t attempts)
{
	struct store_txn *t = store_txn_new();
	struct job_row r = kit_job(id);
	struct event_row ev = kit_event(id, id, C("submitted"));
	struct err e;

	r.attempts = attempts;
	store_txn_event(t, &ev);
	store_txn_job(t, &r);
	if (kit_commit(&l->k, t, &e) < 0)
		tap_bail("%s", e.text);
}

static void restore(struct lab *l, const char *from)
{
	cleanup_free char *rm = xasprintf("rm -f %s %s-wal %s-shm && cp %s %s", l->db, l->db, l->db, from, l->db);

	if (system(rm) != 0)
		tap_bail("%s", rm);
}

static void test_life(struct lab *l)
{
	cleanup_free char *backup = NULL;
	struct err e;

	lab_dir(l, "life");
	backup = xasprintf("%s.backup", l->dir);
	is_int(lab_start(l), 0, "the first start");
	ok(!l->in.is_new && is_there(l, "incarnation"), "has incarnation 0 and writes the file");
	record(l);
	put_job(l, 1, 1);
	put_job(l, 2, 0);
	put_log(l, "1/1");
	if (store_backup(l->db, backup, &e) < 0)
		tap_bail("%s", e.text);
	put_job(l, 3, 1);
	put_log(l, "1/2");
	put_log(l, "2/1");
	put_log(l, "3/1");
	put_log(l, ".finish/x");
	lab_stop(l);
	lab_start(l);
	ok(!l->in.is_new, "a restart goes on");
	lab_stop(l);

	restore(l, backup);
	is_int(lab_start(l), 0, "the start with a backup");
	ok(l->in.is_new && l->in.number == 1 && l->in.first_job == 1001, "begins incarnation 1");
	ok(is_there(l, "logs/1/1/rank-0.log"), "logs of a known attempt stay");
	ok(!is_there(l, "logs/1/2") && is_there(l, "lost/1/logs/1/2/rank-0.log"),
	   "those of an unknown attempt are set aside");
	ok(!is_there(l, "logs/2/1") && is_there(l, "lost/1/logs/2/1/rank-0.log"), "also of a job that never ran");
	ok(!is_there(l, "logs/3") && is_there(l, "lost/1/logs/3/1/rank-0.log"), "and those of an unknown job");
	ok(is_there(l, "logs/.finish/x"), "other files stay");
	ok(is_there(l, "lost/1/README"), "a note says why");
	is_int(l->in.logs_set_aside, 3, "three are counted");
	lab_stop(l);

	is_int(lab_start(l), 0, "it died before the database had the number");
	ok(l->in.is_new && l->in.number == 2, "another incarnation begins");
	record(l);
	lab_stop(l);
	lab_start(l);
	ok(!l->in.is_new && l->in.number == 2 && l->in.first_job == 1001,
	   "then it goes on, with the number of its first job");
	lab_stop(l);
}

/* The same folder under another name is the same; its copy is not. */
static void test_copy(struct lab *l)
{
	struct lab other;
	cleanup_free char *cp = NULL;

	lab_dir(l, "moved");
	lab_start(l);
	record(l);
	put_job(l, 1, 1);
	lab_stop(l);
	snprintf(other.dir, sizeof(other.dir), "%s", l->dir);
	lab_dir(l, "elsewhere");
	if (rmdir(l->dir) < 0 || rename(other.dir, l->dir) < 0)
		tap_bail("rename");
	lab_start(l);
	ok(!l->in.is_new, "a folder that was moved goes on");
	lab_stop(l);
	lab_dir(&other, "copied");
	cp = xasprintf("cp -a %s/. %s", l->dir, other.dir);
	if (system(cp) != 0)
		tap_bail("%s", cp);
	lab_start(&other);
	ok(other.in.is_new && strstr(other.in.why, "copied"), "a copy begins a new incarnation");
	record(&other);
	lab_stop(&other);
	lab_start(&other);
	ok(!other.in.is_new, "once");
	lab_stop(&other);
	lab_start(l);
	ok(!l->in.is_new, "and the first folder goes on");
	lab_stop(l);
}

/* ---- a start that dies ----------------------------------------------------------------------- */

enum damage { ONLY_DB, COPIED, NO_FILE, NO_MARKS, BAD_MARKS, BACKUP, DAMAGES };
static const char *const damages[] = {"only the database", "a copied folder",      "no DATA/incarnation",
                                      "no high-water",     "a damaged high-water", "a backup"};

enum death { NOT, AFTER_STORE, HALF_MARKS, AFTER_ASIDE, AFTER_MARKS, AFTER_FILE, DEATHS };
static const char *const deaths[] = {"no death",
                                     "death with an open store",
                                     "death within the write of high-water",
                                     "death before high-water",
                                     "death before DATA/incarnation",
                                     "death before the first commit"};

static void run_shell(char *command)
{
	if (system(command) != 0)
		tap_bail("%s", command);
	free(command);
}

/* A cluster that gave the jobs 1 to 700; its database, and a backup of it, know three. Each case has one of
 * its own, because the files of a copied folder are recognized. */
static void make_cluster(struct lab *l, const char *plain, const char *backup)
{
	struct err e;

	lab_start(l);
	record(l);
	for (uint64_t id = 1; id <= 3; id++)
		put_job(l, id, 1);
	if (store_backup(l->db, backup, &e) < 0)
		tap_bail("%s", e.text);
	lab_stop(l);
	run_shell(xasprintf("cp %s %s", l->db, plain));
	lab_start(l);
	put_job(l, 700, 1);
	lab_stop(l);
}

static void damage_folder(struct lab *l, const char *plain, const char *backup, enum damage how)
{
	if (how == ONLY_DB)
		run_shell(xasprintf("rm -r %s/* && cp %s %s", l->dir, plain, l->db));
	if (how == COPIED)
		run_shell(xasprintf("cp -a %s %s.copy && rm -r %s && mv %s.copy %s", l->dir, l->dir, l->dir, l->dir,
		                    l->dir));
	if (how == NO_FILE)
		run_shell(xasprintf("rm %s/incarnation", l->dir));
	if (how == NO_MARKS)
		run_shell(xasprintf("rm %s", l->marks));
	if (how == BAD_MARKS)
		run_shell(xasprintf("echo jobs >%s", l->marks));
	restore(l, how == BACKUP ? backup : plain);
}

static void open_only(struct lab *l)
{
	memset(&l->k, 0, sizeof(l->k));
	snprintf(l->k.path, sizeof(l->k.path), "%.500s", l->db);
	l->k.clock = clock_real();
	l->k.marks = l->marks;
	kit_reopen(&l->k);
	kit_close(&l->k);
}

/* A file that is there is written in place, within a sector: only a new one can be torn. */
static void tear_marks(struct lab *l)
{
	struct store_marks m;
	struct err e;

	open_only(l);
	if (store_marks_read(l->marks, &m, &e) <= 0)
		run_shell(xasprintf("printf hearth-high >%s", l->marks));
}

static void die_before_marks(struct lab *l)
{
#ifdef HEARTH_FAULTS
	struct store_marks m;
	struct err e;
	int is_sound = store_marks_read(l->marks, &m, &e) > 0;

	fault_arm("store.marks", 1, 1000000);
	/* No case needs another mark when the file is sound and was not copied. */
	ok(lab_start(l) < 0 || is_sound, "the start fails");
	fault_clear();
	lab_stop(l);
#else
	open_only(l);
#endif
}

static void die(struct lab *l, enum death at)
{
	cleanup_free char *part = xasprintf("%s/incarnation.new", l->dir);

	if (at == AFTER_STORE)
		open_only(l);
	if (at == HALF_MARKS)
		tear_marks(l);
	if (at == AFTER_ASIDE)
		die_before_marks(l);
	if (at == AFTER_MARKS && mkdir(part, 0700) < 0)
		tap_bail("mkdir %s", part);
	if (at == AFTER_MARKS || at == AFTER_FILE) {
		is_int(lab_start(l), at == AFTER_MARKS ? -1 : 0, "the start that dies");
		lab_stop(l);
	}
	rmdir(part);
}

static void test_death(enum damage how, enum death at)
{
	cleanup_free char *name = xasprintf("%d.%d", how, at),
	                  *why = xasprintf("%s, %s", damages[how], deaths[at]),
	                  *plain = xasprintf("%s/%s.plain", tap_tmpdir(), name),
	                  *backup = xasprintf("%s/%s.backup", tap_tmpdir(), name);
	uint64_t least = how == BACKUP ? 1001 : 2000001, first, number;
	struct store_marks m = {0};
	struct err e;
	struct lab l;

	lab_dir(&l, name);
	make_cluster(&l, plain, backup);
	damage_folder(&l, plain, backup, how);
	die(&l, at);
	lab_start(&l);
	first = l.in.first_job;
	number = l.in.number;
	ok(l.in.is_new && (how == BACKUP ? first == least : first >= least), "%s: the next job is %llu", why,
	   (unsigned long long)first);
	ok(store_marks_read(l.marks, &m, &e) > 0 && m.jobs + 1 >= first && m.events + 1 >= l.in.first_event,
	   "%s: high-water has the ids", why);
	record(&l);
	lab_stop(&l);
	lab_start(&l);
	ok(!l.in.is_new && l.in.first_job == first, "%s: the next start begins no other", why);
	lab_stop(&l);
	restore(&l, plain);
	lab_start(&l);
	ok(l.in.is_new && l.in.number > number && l.in.first_job >= first,
	   "%s: nor are ids given again when it is restored again before a job", why);
	lab_stop(&l);
}

static void test_deaths(void)
{
	for (enum damage how = 0; how < DAMAGES; how++)
		for (enum death at = 0; at < DEATHS; at++)
			test_death(how, at);
}

/* A database of a version that had no such files does not count as a restored one, however its first start
 * ends. */
static void test_upgrade(void)
{
	for (enum death at = 0; at < DEATHS; at++) {
		cleanup_free char *name = xasprintf("upgrade%d", (int)at);
		struct lab l;

		lab_dir(&l, name);
		memset(&l.k, 0, sizeof(l.k));
		snprintf(l.k.path, sizeof(l.k.path), "%.500s", l.db);
		l.k.clock = clock_real();
		kit_reopen(&l.k);
		put_job(&l, 2222, 1);
		kit_close(&l.k);
		die(&l, at);
		lab_start(&l);
		ok(!l.in.is_new && l.in.number == 0, "upgrade, %s: no incarnation begins", deaths[at]);
		record(&l);
		lab_stop(&l);
		lab_start(&l);
		ok(!l.in.is_new, "nor with the start after it");
		lab_stop(&l);
	}
}

int main(void)
{
	struct lab l;

	test_goes_on();
	test_known_marks();
	test_unknown_marks();
	test_life(&l);
	test_copy(&l);
	test_deaths();
	test_upgrade();
	return tap_done();
}
