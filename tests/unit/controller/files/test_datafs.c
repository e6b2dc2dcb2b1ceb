/* Where DATA may lie: types of file systems, and a real folder. */
#include <string.h>

#include "common/base/fault.h"
#include "controller/files/datafs.h"
#include "tests/lib/tap.h"

static void test_judge(void)
{
	static const uint64_t network[] = {0x6969, 0xff534d42, 0xfe534d42, 0x517b, 0x0bd00bd0, 0x01021997};
	static const uint64_t local[] = {0xef53,     0x58465342, 0x9123683e, 0x01021994,
	                                 0x794c7630, 0x2fc12fc1, 0xf2f52010};
	const char *name = NULL;

	for (size_t i = 0; i < sizeof(network) / sizeof(network[0]); i++) {
		name = NULL;
		ok(datafs_judge(network[i], &name) == DATAFS_NETWORK && name, "0x%llx is a network's: %s",
		   (unsigned long long)network[i], name ? name : "");
	}
	ok(datafs_judge(0x65735546, &name) == DATAFS_DOUBTFUL && strcmp(name, "FUSE") == 0,
	   "behind FUSE may be anything");
	name = NULL;
	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		ok(datafs_judge(local[i], &name) == DATAFS_FINE && !name, "0x%llx is local",
		   (unsigned long long)local[i]);
}

static void test_check(void)
{
	struct err e = {.code = ERR_NONE};

	is_int(datafs_check("/proc/self/no such folder", 1, &e), -1, "a folder that is not there");
#ifdef HEARTH_FAULTS
	fault_arm("data.nfs", 1, 2);
	is_int(datafs_check(tap_tmpdir(), 0, &e), -1, "one on NFS is refused");
	ok(e.code == ERR_UNSUPPORTED && strstr(e.text, tap_tmpdir()) && strstr(e.text, "NFS") &&
	       strstr(e.text, "network_data=yes"),
	   "with its name and the way out: %s", e.text);
	is_int(datafs_check(tap_tmpdir(), 1, &e), 0, "unless that is allowed");
	fault_clear();
#else
	tap_skip("failpoints are not built in");
#endif
}

int main(void)
{
	test_judge();
	test_check();
	return tap_done();
}
