/*
 * Files on a disk that lies: logs, blobs, files that are replaced. The power cut at the n-th sync, n = 1, 2,
 * ... until none is left; every n-th read, write, sync and change of a name failing. What was acknowledged is
 * there, what failed was named and works the next time, no descriptor is left open.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "controller/files/blobs/blobstore.h"
#include "controller/files/logs/logstore.h"
#include "shim/shim.h"
#include "tests/lib/faultlibc.h"
#include "tests/lib/powerrun.h"
#include "tests/lib/tap.h"

struct subject {
	const char *name;
	int (*life)(struct power *p);
	/* Looks at what is left after the words that were told; -1 with why. */
	int (*look)(const char *dir, const uint64_t *told, char *why, size_t size);
};

#define TOLD 16 /* the greatest word of each kind: kind << 56 | value */

/* In a life: is this failure named after its cause? The third one in a row: the disk is mended. */
static int is_failing(struct power *p, const struct err *e, int *tries)
{
	const char *cause = strerror(p->plan.fail_errno);

	if (p->plan.fail_nth == 0 || !strstr(e->text, cause)) {
		tap_diag("a failure that does not say \"%s\": %s", cause, e->text);
		return -1;
	}
	if (++*tries == 3)
		liedisk_heal();
	return *tries > 5 ? -1 : 0;
}

/* ---- files that are replaced as a whole --------------------------------------------------------------- */

#define VERSIONS 8

/* A text that says which one it is, longer than a sector. */
static char *make_version(uint64_t k, size_t *n)
{
	char *text = xcalloc(1, 3000);

	*n = 600 + 300 * k;
	for (size_t i = 0; i < *n; i++)
		text[i] = (char)('a' + k);
	return text;
}

static int live_atomic(struct power *p)
{
	char path[600], sub[500];
	int tries = 0;
	struct err e;
	size_t n;

	snprintf(sub, sizeof(sub), "%s/a/b", p->dir);
	snprintf(path, sizeof(path), "%s/file", sub);
	for (uint64_t k = 1; k <= VERSIONS;) {
		char *text = make_version(k, &n);
		int rc = fs_mkdir_durable(sub, 0700, &e) < 0 ? -1 : fs_write_atomic(path, text, n, 0600, &e);

		free(text);
		if (rc == 0)
			power_tell(p, k++);
		else if (is_failing(p, &e, &tries) < 0)
			return 8;
	}
	return 0;
}

static int look_atomic(const char *dir, const uint64_t *told, char *why, size_t size)
{
	char path[600], *text, *want;
	size_t n, want_n;
	uint64_t k;
	struct err e;

	snprintf(path, sizeof(path), "%s/a/b/file", dir);
	if (fs_read_file(path, 1 << 20, &text, &n, &e) < 0) {
		snprintf(why, size, "%" PRIu64 " were written: %s", told[0], e.text);
		return told[0] == 0 && e.code == ERR_NOT_FOUND ? 0 : -1;
	}
	k = n ? (uint64_t)(text[0] - 'a') : 0;
	want = make_version(k <= VERSIONS ? k : 0, &want_n);
	snprintf(why, size, "%" PRIu64 " were written, a file of %zu bytes that begins like %" PRIu64, told[0], n,
	         k);
	n = k < told[0] || k > VERSIONS || n != want_n || memcmp(text, want, n) != 0;
	free(text);
	free(want);
	return n ? -1 : 0;
}

/* ---- a shim's state: no power loss, it lies in memory ----------------------------------------------------
 */

static int live_state(struct power *p)
{
	char token[] = "token", text[] = "";
	int tries = 0, before = faultlibc_descriptors();
	struct err e;

	for (uint32_t k = 1; k <= VERSIONS;) {
		struct shim_state s = {.version = 1,
		                       .shim = {.pid = 100, .start_ticks = 5, .boot_id = "boot"},
		                       .child = {.pid = 101, .start_ticks = 6, .boot_id = "boot"},
		                       .st = {.version = 1, .token = token, .text = text, .exit_code = k}};

		if (shim_state_write(p->dir, &s, &e) == 0)
			power_tell(p, k++);
		else if (is_failing(p, &e, &tries) < 0)
			return 8;
		/* What an agent reads meanwhile is whole. */
		if (tries == 0 && (shim_state_read(p->dir, &s, &e) < 0 || s.st.exit_code + 1 != k))
			return 9;
		if (tries == 0)
			shim_state_fini(&s);
	}
	return faultlibc_descriptors() == before ? 0 : 10;
}

static int look_state(const char *dir, const uint64_t *told, char *why, size_t size)
{
	struct shim_state s;
	struct err e;
	int rc;

	if (shim_state_read(dir, &s, &e) < 0) {
		snprintf(why, size, "%s", e.text);
		return -1;
	}
	rc = s.st.exit_code == told[0] ? 0 : -1;
	snprintf(why, size, "%" PRIu64 " were written, %u is there", told[0], s.st.exit_code);
	shim_state_fini(&s);
	return rc;
}

/* ---- logs ------------------------------------------------------------------------------------------------
 */

#define STREAMS  3
#define LOG_SIZE 20000

static char log_byte(unsigned stream, uint64_t at)
{
	return (char)(at % 61 == 60 ? '\n' : 'A' + (at * 7 + at / 61 + stream) % 57);
}

struct log_life {
	struct power *p;
	struct loop *loop;
	struct logstore *ls;
	uint64_t durable[STREAMS], at[STREAMS];
	int eof[STREAMS], failed;
	unsigned seen; /* failures, when the run began */
	struct err e;
};

static void on_durable(uint64_t job, uint32_t attempt, const char *stream, uint64_t offset, int eof,
                       void *arg)
{
	struct log_life *l = arg;
	unsigned s = (unsigned)(stream[5] - '0');

	(void)job;
	(void)attempt;
	l->durable[s] = offset;
	l->eof[s] |= eof;
	if (eof)
		l->at[s] = offset; /* nothing of it will be sent again */
	if (l->p)
		power_tell(l->p, (uint64_t)s << 56 | offset);
	if (l->p && eof)
		power_tell(l->p, (uint64_t)(s + STREAMS) << 56 | 1);
}

static void on_error(uint64_t job, uint32_t attempt, const char *stream, const struct err *e, void *arg)
{
	struct log_life *l = arg;

	(void)job;
	(void)attempt;
	(void)stream;
	l->failed = 1;
	l->e = *e;
}

static int logs_open(struct log_life *l, const char *dir, struct err *e)
{
	char path[600];
	struct logstore_config c = {.dir = path,
	                            .clock = clock_real(),
	                            .sync_ms = 1,
	                            .retry_ms = 1,
	                            .max_open = 2, /* so that files are closed and opened in between */
	                            .on_durable = on_durable,
	                            .on_error = on_error,
	                            .arg = l};

	snprintf(path, sizeof(path), "%s/logs", dir);
	if (!l->loop)
		l->loop = loop_create();
	c.loop = l->loop;
	l->ls = logstore_open(&c, e);
	return l->ls ? 0 : -1;
}

static int log_put(struct log_life *l, unsigned s, size_t n, int eof, struct err *e)
{
	char name[] = "rank-0", data[LOG_SIZE];
	struct log_chunk c = {
	    .job = 1 + s / 2, .attempt = 1, .stream = name, .offset = l->at[s], .data = data, .n = n, .eof = eof};

	name[5] = (char)('0' + s);
	for (size_t i = 0; i < n; i++)
		data[i] = log_byte(s, l->at[s] + i);
	if (logstore_append(l->ls, &c, e) < 0)
		return -1;
	l->at[s] += n;
	return 0;
}

/* As an agent does it: from what is durable on. */
static int log_resume(struct log_life *l, unsigned s, struct err *e)
{
	char name[] = "rank-0";

	name[5] = (char)('0' + s);
	return logstore_durable(l->ls, 1 + s / 2, 1, name, &l->at[s], e);
}

static void log_settle(struct log_life *l)
{
	uint64_t end = clock_boot_us(clock_real()) + 20000000;

	while (!logstore_idle(l->ls) && !l->failed) {
		if (clock_boot_us(clock_real()) > end)
			tap_bail("the log store did not become idle in 20 s");
		loop_run_once(l->loop, 5);
		/* Compressing goes on failing by itself: nobody is told, it is tried again. */
		if (liedisk_failed() > l->seen + 3)
			liedisk_heal();
	}
}

/* One round over all streams: 0 something waits, 1 all is durable, -1. */
static int log_round(struct log_life *l, unsigned round, struct err *e)
{
	int left = 0;

	for (unsigned s = 0; s < STREAMS; s++) {
		size_t n = 700 + 397 * ((s + round) % 5);
		int eof = l->at[s] + n >= LOG_SIZE;

		if (l->eof[s])
			continue;
		left = 1;
		if (eof)
			n = LOG_SIZE - l->at[s];
		/* The third stream gets its end by logstore_finish. */
		if ((n || eof) && log_put(l, s, n, eof && s != 2, e) < 0)
			return -1;
		if (l->failed) /* as an agent: from what is durable */
			return 1;
	}
	if (round % 3 == 0)
		log_settle(l);
	return left ? 0 : 1;
}

static int log_run(struct log_life *l, struct err *e)
{
	l->seen = liedisk_failed();
	for (unsigned s = 0; s < STREAMS; s++)
		if (log_resume(l, s, e) < 0)
			return -1;
	for (unsigned round = 1; l->at[0] < LOG_SIZE || l->at[1] < LOG_SIZE || l->at[2] < LOG_SIZE; round++) {
		if (round == 1000)
			return err_set(e, ERR_INTERNAL,
			               "the streams do not end: %" PRIu64 "/%d %" PRIu64 "/%d %" PRIu64 "/%d", l->at[0],
			               l->eof[0], l->at[1], l->eof[1], l->at[2], l->eof[2]);
		if (log_round(l, round, e) < 0)
			return -1;
		if (l->failed)
			return err_set(e, ERR_IO, "%s", l->e.text);
	}
	/* hearthd calls an attempt finished when everything of it was acknowledged. */
	log_settle(l);
	for (uint64_t job = 1; !l->failed && job <= 2; job++)
		if (logstore_finish(l->ls, job, 1, e) < 0)
			return -1;
	log_settle(l);
	return l->failed ? err_set(e, ERR_IO, "%s", l->e.text) : 0;
}

static int live_logs(struct power *p)
{
	struct log_life l = {.p = p};
	int tries = 0, before = faultlibc_descriptors(), rc = 0;
	struct err e;

	while (rc == 0) {
		l.failed = 0;
		if (!l.ls && logs_open(&l, p->dir, &e) < 0)
			rc = is_failing(p, &e, &tries);
		else if (log_run(&l, &e) == 0)
			break;
		else
			rc = is_failing(p, &e, &tries);
	}
	logstore_close(l.ls);
	loop_destroy(l.loop);
	if (faultlibc_descriptors() != before)
		rc = tap_ok(0, __func__, __FILE__, __LINE__, "a descriptor was left open") - 1;
	return rc < 0 ? 8 : 0;
}

static int log_same(const char *dir, unsigned s, uint64_t least, int whole, char *why, size_t size)
{
	char path[600], name[] = "rank-0", got[LOG_SIZE + 100];
	int complete;
	struct err e;
	size_t n = 0, i;

	snprintf(path, sizeof(path), "%s/logs", dir);
	name[5] = (char)('0' + s);
	if (logstore_read(path, 1 + s / 2, 1, name, 0, got, sizeof(got), &n, NULL, &complete, &e) < 0) {
		snprintf(why, size, "%s: %s", name, e.text);
		return least == 0 && !whole ? 0 : -1;
	}
	for (i = 0; i < n && got[i] == log_byte(s, i); i++)
		;
	snprintf(why, size, "%s: %zu bytes, %zu right, %" PRIu64 " acknowledged, complete=%d", name, n, i, least,
	         complete);
	return i < least || (whole && (n != LOG_SIZE || i != n || !complete)) ? -1 : 0;
}

static int look_logs(const char *dir, const uint64_t *told, char *why, size_t size)
{
	struct log_life l = {0};
	struct err e = {0};
	int rc = 0;

	/* The machine has started anew since. */
	setenv("HEARTH_TEST_BOOT_ID", "22222222-2222-2222-2222-222222222222", 1);
	for (unsigned s = 0; rc == 0 && s < STREAMS; s++)
		rc = log_same(dir, s, told[s], 0, why, size);
	if (rc == 0 && logs_open(&l, dir, &e) < 0)
		rc = -1;
	for (unsigned s = 0; rc == 0 && s < STREAMS; s++) {
		rc = log_resume(&l, s, &e);
		if (rc == 0 && l.at[s] < told[s])
			rc = err_set(&e, ERR_INTERNAL, "stream %u goes on at %" PRIu64 ", %" PRIu64 " were acknowledged",
			             s, l.at[s], told[s]);
	}
	if (rc == 0)
		rc = log_run(&l, &e);
	if (rc < 0 && e.text[0])
		snprintf(why, size, "%s", e.text);
	logstore_close(l.ls);
	if (l.loop)
		loop_destroy(l.loop);
	for (unsigned s = 0; rc == 0 && s < STREAMS; s++)
		rc = log_same(dir, s, LOG_SIZE, 1, why, size);
	unsetenv("HEARTH_TEST_BOOT_ID");
	return rc;
}

/* ---- blobs -----------------------------------------------------------------------------------------------
 */

#define BLOBS 5

static char *make_blob(unsigned k, size_t *n, char digest[HASH_HEX_SIZE])
{
	char *data = xcalloc(1, 10000);

	*n = 10 + 1900u * k;
	for (size_t i = 0; i < *n; i++)
		data[i] = (char)(i * 31 + i / 256 + k);
	hash_hex(data, *n, digest);
	return data;
}

/* In pieces of 3,000 bytes, from where the store says. */
static int blob_give(struct blobstore *b, unsigned k, struct err *e)
{
	char digest[HASH_HEX_SIZE];
	uint64_t present = 0;
	int complete = 0, rc;
	size_t n;
	char *data = make_blob(k, &n, digest);

	rc = blobstore_present(b, "alice", digest, &present, &complete, e);
	for (int i = 0; rc == 0 && !complete && i < 10; i++) {
		struct blob_piece p = {.owner = "alice",
		                       .digest = digest,
		                       .offset = present,
		                       .total = n,
		                       .data = data + present,
		                       .n = n - present < 3000 ? n - present : 3000};

		rc = blobstore_put(b, &p, &present, &complete, e);
	}
	free(data);
	if (rc == 0 && !complete)
		return err_set(e, ERR_INTERNAL, "blob %u does not become complete", k);
	return rc;
}

static int live_blobs(struct power *p)
{
	int tries = 0, before = faultlibc_descriptors();
	struct blobstore *b = NULL;
	struct err e;

	for (unsigned k = 1; k <= BLOBS;) {
		if (!b)
			b = blobstore_open(p->dir, clock_real(), &e);
		if (b && blob_give(b, k, &e) == 0)
			power_tell(p, k++);
		else if (is_failing(p, &e, &tries) < 0)
			return 8;
	}
	blobstore_close(b);
	if (faultlibc_descriptors() != before) {
		tap_diag("a descriptor was left open");
		return 9;
	}
	return 0;
}

static int look_blobs(const char *dir, const uint64_t *told, char *why, size_t size)
{
	struct err e;
	struct blobstore *b = blobstore_open(dir, clock_real(), &e);
	int rc = b ? 0 : -1;

	for (unsigned k = 1; rc == 0 && k <= BLOBS; k++) {
		char digest[HASH_HEX_SIZE], *want, *got = NULL;
		size_t want_n, n = 0;

		want = make_blob(k, &want_n, digest);
		/* What was not complete yet may be torn: then it is told to begin again. */
		if (k > told[0] && blob_give(b, k, &e) < 0)
			rc = e.code == ERR_INVALID ? blob_give(b, k, &e) : -1;
		if (rc == 0)
			rc = blobstore_get(b, "alice", digest, &got, &n, &e);
		if (rc == 0 && (n != want_n || memcmp(got, want, n) != 0))
			rc = err_set(&e, ERR_INTERNAL, "blob %u has other bytes", k);
		free(want);
		free(got);
	}
	if (rc < 0)
		snprintf(why, size, "%" PRIu64 " acknowledged: %s", told[0], e.text);
	blobstore_close(b);
	return rc;
}

/* ---- all of them -----------------------------------------------------------------------------------------
 */

static void on_word(uint64_t word, void *arg)
{
	uint64_t *told = arg, value = word & ((1ull << 56) - 1);

	if (value > told[word >> 56])
		told[word >> 56] = value;
}

/* 1 when it was not as it should be. */
static int run_once(const struct subject *s, const char *what, struct power *p)
{
	uint64_t told[TOLD] = {0};
	char dir[400], why[700] = "";

	snprintf(dir, sizeof(dir), "%s/%s", tap_tmpdir(), s->name);
	p->dir = dir;
	p->life = s->life;
	p->told = on_word;
	p->arg = told;
	power_run(p);
	if (s->look(dir, told, why, sizeof(why)) == 0)
		return 0;
	if (p->plan.deaf)
		return 1;
	tap_diag("%s, %s: cut=%u fail=%u seed=%" PRIu64 ": %s", s->name, what, p->plan.cut_sync, p->plan.fail_nth,
	         p->plan.seed, why);
	return 1;
}

static void test_cut(const struct subject *s, int deaf)
{
	unsigned n, cuts = 0, bad = 0, seeds = power_soak() ? 100 : 2;

	for (unsigned seed = 1; seed <= seeds; seed++) {
		struct power p;

		n = 0;
		do {
			n++;
			p = (struct power){.plan = {.seed = seed * 1000 + n, .cut_sync = n, .deaf = deaf}};
			bad += (unsigned)run_once(s, "cut", &p);
			cuts += (unsigned)p.cut;
		} while (p.cut && n < 1000);
	}
	if (deaf)
		ok(bad > 0, "%s: a disk that does not sync is caught, %u of %u", s->name, bad, cuts);
	else
		ok(!bad && cuts > seeds, "%s: power cut at each of %u syncs: what was acknowledged is there", s->name,
		   cuts / seeds);
}

static void test_fail(const struct subject *s, enum lie_op op, int err, const char *what, int then_cut)
{
	unsigned n = 0, bad = 0;
	struct power p;

	do {
		/* All of them under HEARTH_SOAK; else ever wider steps. */
		n += power_soak() ? 1 : 1 + n / 8;
		for (unsigned repeat = 1; repeat < 4; repeat++) {
			p = (struct power){.plan = {.seed = n * 10 + repeat,
			                            .fail_op = op,
			                            .fail_nth = n,
			                            .fail_repeat = repeat == 3 ? 1000000 : repeat,
			                            .fail_errno = err}};
			if (then_cut)
				p.plan.cut_sync = n + repeat;
			bad += (unsigned)run_once(s, what, &p);
		}
	} while ((p.failed || p.cut) && n < 10000);
	ok(!bad && n > 1 && n < 10000, "%s, %s: up to the %u-th: named, then it works", s->name, what, n - 1);
}

static void drop_line(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

int main(void)
{
	static const struct subject subjects[] = {
	    {"replaced files", live_atomic, look_atomic},
	    {"logs", live_logs, look_logs},
	    {"blobs", live_blobs, look_blobs},
	};

	static const struct subject state = {"a shim's state", live_state, look_state};

	power_in_memory();
	log_set_sink(drop_line, NULL);
	test_fail(&state, LIE_WRITE, ENOSPC, "no room", 0);
	test_fail(&state, LIE_NAME, EIO, "a rename fails", 0);
	for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
		const struct subject *s = &subjects[i];

		test_cut(s, 0);
		test_cut(s, 1);
		test_fail(s, LIE_SYNC, EIO, "a sync fails", 0);
		test_fail(s, LIE_SYNC, EIO, "a sync fails, then a cut", 1);
		test_fail(s, LIE_WRITE, ENOSPC, "no room", 0);
		test_fail(s, LIE_WRITE, EIO, "a write fails", 0);
		test_fail(s, LIE_NAME, ENOSPC, "no room for a name", 0);
		if (s->life != live_atomic)
			test_fail(s, LIE_READ, EIO, "a read fails", 0);
	}
	return tap_done();
}
