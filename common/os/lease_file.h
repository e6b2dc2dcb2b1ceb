/*
 * lease_file: RUN/lease, the record of a node's lease, by which ranks end without an agent.
 *
 * The agent writes how long its ranks may run without a further record: a lease and LEASE_SWITCH_MS after the
 * last beat that hearthd answered was sent, or after the verdict that hearthd is down. Each shim reads the
 * record, sleeps until that time, reads again, and ends its process when there is no later one. An agent that
 * lives has acted before; hearthd declares the node lost later (docs/spec/08-lease.md).
 *
 * The file has one record in two equal lines. It is written in place: no memory is needed for that, even on a
 * full tmpfs. A reader that finds two different lines has met a write and reads again. Older agents write and
 * read the first three words of one line.
 */
#ifndef HEARTH_COMMON_OS_LEASE_FILE_H
#define HEARTH_COMMON_OS_LEASE_FILE_H

#include "common/base/err.h"
#include "common/os/proc.h"
#include <stdint.h>

struct lease_record {     /* times are CLOCK_BOOTTIME */
	uint64_t last_ack_us; /* when the last answered beat was sent */
	uint32_t lease_ms;
	char boot_id[PROC_BOOT_ID_SIZE];
	uint64_t until_us; /* ranks may run so long without a further record; 0: an older agent wrote it */
	int carry_on;      /* by the verdict that hearthd is down, else by its answer */
};

/* When ranks end, by the time of the answered beat or of the verdict. */
uint64_t lease_until_us(uint64_t from_us, uint32_t lease_ms);
int lease_file_write(const char *path, const struct lease_record *r, struct err *e);
/* ERR_NOT_FOUND no file, ERR_PROTOCOL damaged or being written. Takes no memory. */
int lease_file_read(const char *path, struct lease_record *r, struct err *e);

struct lease_switch {        /* one shim's; begins as {0} */
	uint64_t until_us;       /* of the last record; 0 none yet */
	uint64_t slept_us;       /* clock_slept_us at the last look */
	uint64_t grace_until_us; /* after the machine slept; 0 none */
	uint32_t lease_ms;
	int looked; /* once at least */
};
/* Decides when to look again, in boot time; 0: the lease is over, end the process. r: what the file says,
 * NULL unreadable or of another boot. slept_us: how long the machine has slept. After a sleep since
 * the last look the agent gets half a lease: it could not have acted before, whatever the record says. */
uint64_t lease_switch_look(struct lease_switch *s, const struct lease_record *r, uint64_t now_us,
                           uint64_t slept_us);

#endif
