/*
 * datafs: a list of file systems that are known not to be local. A list of local ones would refuse every new
 * file system. FUSE may be a network (sshfs, gluster, s3fs) or a local disk (the root of an unprivileged
 * container, a shared folder of a virtual machine), so it only causes a warning.
 */
#include "controller/files/datafs.h"

#include <errno.h>
#include <stddef.h>
#include <sys/vfs.h>

#include "common/base/fault.h"
#include "common/base/log.h"

/* Numbers of statfs(2) and of the file systems' own sources; not all of them are in linux/magic.h. */
static const struct {
	uint64_t f_type;
	const char *name;
	enum datafs_verdict verdict;
} known[] = {
    {0x6969, "NFS", DATAFS_NETWORK},
    {0x517b, "SMB", DATAFS_NETWORK},
    {0xff534d42, "CIFS", DATAFS_NETWORK},
    {0xfe534d42, "SMB", DATAFS_NETWORK}, /* version 2 and later */
    {0x0bd00bd0, "Lustre", DATAFS_NETWORK},
    {0x01021997, "9p", DATAFS_NETWORK},
    {0x00c36400, "Ceph", DATAFS_NETWORK},
    {0x5346414f, "AFS", DATAFS_NETWORK},
    {0x6b414653, "AFS", DATAFS_NETWORK},
    {0x73757245, "Coda", DATAFS_NETWORK},
    {0x564c, "NCP", DATAFS_NETWORK},
    {0x47504653, "GPFS", DATAFS_NETWORK},
    {0x19830326, "BeeGFS", DATAFS_NETWORK},
    {0xaad7aaea, "PanFS", DATAFS_NETWORK},
    {0x20030528, "OrangeFS", DATAFS_NETWORK},
    {0x786f4256, "a shared folder of VirtualBox", DATAFS_NETWORK},
    {0xbacbacbc, "a shared folder of VMware", DATAFS_NETWORK},
    {0x65735546, "FUSE", DATAFS_DOUBTFUL},
};

enum datafs_verdict datafs_judge(uint64_t f_type, const char **name)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].f_type == f_type) {
			*name = known[i].name;
			return known[i].verdict;
		}
	return DATAFS_FINE;
}

int datafs_check(const char *dir, int allowed, struct err *e)
{
	struct statfs st;
	const char *name = NULL;
	enum datafs_verdict v;

	if (statfs(dir, &st) < 0)
		return err_sys(e, errno, "%s", dir);
	if (FAULT("data.nfs"))
		st.f_type = 0x6969;
	/* Signed where the word has 32 bits: its bits count. */
	v = datafs_judge((uint32_t)st.f_type, &name);
	if (v == DATAFS_NETWORK && !allowed)
		return err_set(
		    e, ERR_UNSUPPORTED,
		    "%.300s is on %s, which may break the locks, shared memory and syncs that the records need. "
		    "Choose a folder on a local disk with --data, or accept the risk of damaged records: "
		    "--set network_data=yes",
		    dir, name);
	if (v != DATAFS_FINE)
		log_warn("event=data_not_local data=%s file_system=\"%s\" text=\"%s\"", dir, name,
		         v == DATAFS_NETWORK ? "allowed by network_data; records may be damaged"
		                             : "it may be on a network: records need a local disk");
	return 0;
}
