/*
 * caps: see caps.h. The bare system calls: they concern the calling thread alone, and two calls need no
 * library.
 */
#include "agent/base/caps.h"

#include <linux/capability.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

int caps_ptrace(int on)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
	const uint32_t bit = UINT32_C(1) << CAP_SYS_PTRACE;

	if (syscall(SYS_capget, &head, sets) < 0)
		return -1;
	if (on)
		sets[0].effective |= sets[0].permitted & bit;
	else
		sets[0].effective &= ~bit;
	return (int)syscall(SYS_capset, &head, sets);
}
