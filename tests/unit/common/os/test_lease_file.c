/* lease_file: what is written is read, older agents' files, damage, and when a shim's switch looks and acts.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/lease_file.h"
#include "tests/lib/tap.h"

#define S 1000000ull

static char *path;

static const struct lease_record held = {
    .last_ack_us = 100 * S, .lease_ms = 10000, .boot_id = "boot", .until_us = 110 * S + 250000};

static void put_text(const char *text)
{
	struct err e = {0};

	is_int(fs_replace(path, text, strlen(text), 0600, &e), 0, "a file is there");
}

static void test_file(void)
{
	struct lease_record r = held, got = {0};
	struct err e = {0};
	char *text = NULL;
	size_t n = 0;

	is_int(lease_file_read(path, &got, &e), -1, "without a file there is no record");
	is_int(e.code, ERR_NOT_FOUND, "it is missing");
	r.carry_on = 1;
	r.last_ack_us = UINT64_MAX;
	r.until_us = UINT64_MAX;
	memset(r.boot_id, 'b', sizeof(r.boot_id) - 1);
	is_int(lease_file_write(path, &r, &e), 0, "the longest record is written");
	is_int(lease_file_read(path, &got, &e), 0, "and read");
	ok(got.last_ack_us == UINT64_MAX && got.until_us == UINT64_MAX && got.carry_on,
	   "with its times and its verdict");
	is_str(got.boot_id, r.boot_id, "and its boot");
	is_int(lease_file_write(path, &held, &e), 0, "a shorter one is written over it");
	is_int(lease_file_read(path, &got, &e), 0, "and read");
	ok(got.until_us == held.until_us && got.lease_ms == 10000 && !got.carry_on, "as it was written");
	is_int(fs_read_file(path, 256, &text, &n, &e), 0, "older agents can read so much");
	like(text, "100000000 10000 boot ", "and find the three words that they know");
	free(text);
	put_text("100000000 10000 boot\n");
	is_int(lease_file_read(path, &got, &e), 0, "a record of an older agent is read");
	is_int(got.until_us, 0, "it tells no end");
	is_int(lease_file_write(path, &held, &e), 0, "and is replaced in place");
	is_int(lease_file_read(path, &got, &e), 0, "by one that is read");
}

static void test_damage(void)
{
	struct lease_record got = held;
	char *text = NULL;
	struct err e = {0};
	size_t n = 0;
	int read = 0;

	lease_file_write(path, &held, &e);
	fs_read_file(path, 256, &text, &n, &e);
	for (size_t i = 0; i < n; i++) { /* each byte of either line */
		char was = text[i];

		text[i] = was == '7' ? '8' : '7';
		fs_replace(path, text, n, 0600, &e);
		text[i] = was;
		read += lease_file_read(path, &got, &e) == 0;
	}
	is_int(read, 0, "a file with one wrong byte has none");
	for (size_t i = 0; i < n; i++) {
		fs_replace(path, text, i, 0600, &e);
		read += lease_file_read(path, &got, &e) == 0 && got.until_us;
	}
	is_int(read, 0, "nor is one that is cut short");
	ok(got.until_us == held.until_us, "and nothing was changed");
	free(text);
}

static void test_switch(void)
{
	struct lease_record r = held, old = {.lease_ms = 10000};
	struct lease_switch s = {0};
	uint64_t end = held.until_us;

	is_int(lease_until_us(100 * S, 10000), end, "ranks end a lease and a quarter of a second later");
	ok(lease_switch_look(&s, NULL, 90 * S, 0) > 90 * S, "without a record it waits");
	ok(lease_switch_look(&s, &old, 500 * S, 0) > 500 * S,
	   "with one of an older agent, too, whatever the time");
	is_int(lease_switch_look(&s, &r, 101 * S, 0), end, "it looks again when the lease is over");
	r.until_us += 5 * S;
	is_int(lease_switch_look(&s, &r, end, 0), end + 5 * S, "a later record counts");
	ok(lease_switch_look(&s, &r, end + 5 * S - 1, 0) != 0, "not before it is over");
	is_int(lease_switch_look(&s, &r, end + 5 * S, 0), 0, "over: the process ends");

	s = (struct lease_switch){0};
	lease_switch_look(&s, &held, 101 * S, 0);
	is_int(lease_switch_look(&s, NULL, end, 0), 0, "a file that is gone renews nothing");

	s = (struct lease_switch){0};
	lease_switch_look(&s, &held, 101 * S, 7 * S);
	is_int(lease_switch_look(&s, &held, 4000 * S, 3900 * S), 4005 * S,
	       "after a sleep the agent has half a lease to decide");
	is_int(lease_switch_look(&s, &held, 4005 * S, 3900 * S), 0, "and no more");
	s = (struct lease_switch){0};
	lease_switch_look(&s, &held, 101 * S, 7 * S);
	is_int(lease_switch_look(&s, &held, 4000 * S, 7 * S), 0, "one that only stood still has none");
}

/* The agent wrote further records before the sleep, and the shim wakes before the agent. */
static void test_sleep(void)
{
	struct lease_record later = held;
	struct lease_switch s = {0};

	later.until_us += 8 * S;
	lease_switch_look(&s, &held, 101 * S, 7 * S);
	is_int(lease_switch_look(&s, &later, 4000 * S, 3900 * S), 4005 * S,
	       "a record that is over when it is found after a sleep: half a lease");
	is_int(lease_switch_look(&s, &later, 4005 * S, 3900 * S), 0, "and no more");

	s = (struct lease_switch){0};
	lease_switch_look(&s, &held, 101 * S, 7 * S);
	lease_switch_look(&s, &later, 4000 * S, 3900 * S);
	later.until_us = 4003 * S;
	is_int(lease_switch_look(&s, &later, 4004 * S, 3900 * S), 4005 * S, "nor does a further one end it");
	later.until_us = 4010 * S;
	is_int(lease_switch_look(&s, &later, 4005 * S, 3900 * S), 4010 * S, "one that lasts counts again");
	is_int(lease_switch_look(&s, &later, 4010 * S, 3900 * S), 0, "to its end");

	s = (struct lease_switch){0};
	later.until_us = held.until_us + 8 * S;
	lease_switch_look(&s, &held, 101 * S, 7 * S);
	is_int(lease_switch_look(&s, &later, later.until_us - 1000, 8 * S), later.until_us,
	       "a record that is all but over");
	ok(lease_switch_look(&s, &later, later.until_us, 8 * S) > later.until_us + 4 * S,
	   "after a sleep: half a lease, too");

	s = (struct lease_switch){0};
	is_int(lease_switch_look(&s, &held, 4000 * S, 3900 * S), 0, "a sleep before the process was there");
}

int main(void)
{
	path = xasprintf("%s/lease", tap_tmpdir());
	test_file();
	test_damage();
	test_switch();
	test_sleep();
	free(path);
	return tap_done();
}
