/*
 * room: which idle warm pool of a node goes, because the cache folders of all pools take too much of the
 * disk.
 */
#ifndef HEARTH_AGENT_POOL_ROOM_H
#define HEARTH_AGENT_POOL_ROOM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct room_folder {
	uint64_t id, bytes;
	uid_t uid;
	uint64_t idle_us; /* since when, by the wall clock; 0: in use */
};

struct room {
	uint64_t account_bytes, all_bytes; /* most of the folders of one account, and of all; 0 none */
	int disk_full;
};

/* The oldest idle folder whose end makes room, with the reason; NULL: all may stay. */
const struct room_folder *room_choose(const struct room_folder *v, size_t n, const struct room *r,
                                      const char **why);
/* Measures the folders DATA/pools/ID/cache of v: bytes and uid. May take long: for threads. */
void room_measure(const char *data_dir, struct room_folder *v, size_t n);

#endif
