/*
 * room: see room.h.
 */
#include "agent/pool/room.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define WORTH_BYTES (1024u * 1024) /* a smaller folder gives a full disk nothing */

static const struct room_folder *oldest_idle(const struct room_folder *v, size_t n, const uid_t *uid,
                                             uint64_t least)
{
	const struct room_folder *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (v[i].idle_us && v[i].bytes >= least && (!uid || v[i].uid == *uid) &&
		    (!best || v[i].idle_us < best->idle_us))
			best = &v[i];
	return best;
}

static uint64_t sum_of(const struct room_folder *v, size_t n, const uid_t *uid)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		if (!uid || v[i].uid == *uid)
			sum += v[i].bytes;
	return sum;
}

const struct room_folder *room_choose(const struct room_folder *v, size_t n, const struct room *r,
                                      const char **why)
{
	const struct room_folder *best = NULL, *one;

	*why = "cache folders of the account's pools are above their limit on this node";
	for (size_t i = 0; i < n && r->account_bytes; i++) {
		if (!v[i].idle_us || sum_of(v, n, &v[i].uid) <= r->account_bytes)
			continue;
		one = oldest_idle(v, n, &v[i].uid, 1);
		if (one && (!best || one->idle_us < best->idle_us))
			best = one;
	}
	if (best)
		return best;
	*why = "cache folders of pools are above their limit on this node";
	if (r->all_bytes && sum_of(v, n, NULL) > r->all_bytes)
		return oldest_idle(v, n, NULL, 1);
	*why = "the disk of this node is nearly full";
	return r->disk_full ? oldest_idle(v, n, NULL, WORTH_BYTES) : NULL;
}

void room_measure(const char *data_dir, struct room_folder *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		cleanup_free char *cache = xasprintf("%s/pools/%" PRIu64 "/cache", data_dir, v[i].id);
		struct stat st;
		int64_t bytes;

		if (lstat(cache, &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		bytes = fs_tree_bytes(cache, NULL);
		v[i].uid = st.st_uid;
		v[i].bytes = bytes > 0 ? (uint64_t)bytes : 0;
	}
}
