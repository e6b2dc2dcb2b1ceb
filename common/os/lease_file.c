/*
 * lease_file: see lease_file.h.
 */
#include "common/os/lease_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/lease_times.h"
#include "common/base/xalloc.h"

#define LINE_SIZE  110
#define FILE_SIZE  ((size_t)(2 * LINE_SIZE)) /* older agents read at most 256 */
#define READ_TRIES 5
#define LOOK_US    5000000u /* between looks when there is no time to wait for */
#define SLEEP_US   100000u  /* a shorter one does not count */

uint64_t lease_until_us(uint64_t from_us, uint32_t lease_ms)
{
	return from_us + ((uint64_t)lease_ms + LEASE_SWITCH_MS) * 1000;
}

int lease_file_write(const char *path, const struct lease_record *r, struct err *e)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	char line[LINE_SIZE + 1], text[FILE_SIZE];
	ssize_t n;

	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	n = snprintf(line, sizeof(line), "%" PRIu64 " %u %s %" PRIu64 " %s", r->last_ack_us, r->lease_ms,
	             r->boot_id, r->until_us, r->carry_on ? "carry-on" : "held");
	if (n < 0 || n >= LINE_SIZE)
		return err_set(e, ERR_LIMIT, "%s: the record is too long", path);
	memset(line + n, ' ', (size_t)(LINE_SIZE - n));
	line[LINE_SIZE - 1] = '\n';
	memcpy(text, line, LINE_SIZE);
	memcpy(text + LINE_SIZE, line, LINE_SIZE);
	do
		n = pwrite(fd, text, FILE_SIZE, 0);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)FILE_SIZE)
		return err_sys(e, n < 0 ? errno : ENOSPC, "%s: write", path);
	/* What an earlier record of another length left. */
	return ftruncate(fd, (off_t)FILE_SIZE) < 0 ? err_sys(e, errno, "%s: length", path) : 0;
}

/* 1: understood; 0: damaged, or being written. */
static int parse_record(const char *text, size_t n, struct lease_record *r)
{
	struct lease_record got = {0};
	char word[16] = "";
	int fields = sscanf(text, "%" SCNu64 " %u %39s %" SCNu64 " %15s", &got.last_ack_us, &got.lease_ms,
	                    got.boot_id, &got.until_us, word);

	if (fields == 3 && memchr(text, '\n', n) == text + n - 1) {
		got.until_us = 0; /* of an older agent */
		*r = got;
		return 1;
	}
	got.carry_on = strcmp(word, "carry-on") == 0;
	if (fields != 5 || n != FILE_SIZE || memcmp(text, text + LINE_SIZE, LINE_SIZE) != 0 || !got.until_us ||
	    (!got.carry_on && strcmp(word, "held") != 0))
		return 0;
	*r = got;
	return 1;
}

int lease_file_read(const char *path, struct lease_record *r, struct err *e)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char text[FILE_SIZE + 2];
	ssize_t n;

	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	for (int i = 0; i < READ_TRIES; i++) {
		n = pread(fd, text, sizeof(text) - 1, 0);
		if (n < 0)
			return err_sys(e, errno, "%s: read", path);
		text[n] = '\0';
		if (n > 0 && parse_record(text, (size_t)n, r))
			return 0;
	}
	return err_set(e, ERR_PROTOCOL, "%s: no record of a lease", path);
}

uint64_t lease_switch_look(struct lease_switch *s, const struct lease_record *r, uint64_t now_us,
                           uint64_t slept_us)
{
	int slept = s->looked && slept_us > s->slept_us + SLEEP_US;

	if (r) {
		s->until_us = r->until_us;
		s->lease_ms = r->lease_ms;
	}
	/* Whatever the record says now: the agent may not have run since. */
	if (slept)
		s->grace_until_us = now_us + s->lease_ms * 500ull;
	s->slept_us = slept_us;
	s->looked = 1;
	if (!s->until_us || FAULT("mistake.no_switch"))
		return now_us + LOOK_US;
	if (now_us < s->until_us)
		return s->until_us;
	return now_us < s->grace_until_us ? s->grace_until_us : 0;
}
