/*
 * caps: the right of root that a change of the file system identity alone leaves in force.
 *
 * setfsuid takes away root's rights over files, not CAP_SYS_PTRACE, and with that the links of /proc/PID
 * (cwd, root) of other accounts' processes can be followed into folders that are closed to the account.
 */
#ifndef HEARTH_AGENT_BASE_CAPS_H
#define HEARTH_AGENT_BASE_CAPS_H

/* Drops CAP_SYS_PTRACE of the calling thread; on: takes it back, where the process has it at all. -1: errno.
 */
int caps_ptrace(int on);

#endif
