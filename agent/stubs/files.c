/*
 * hearth-files: works on files as a job's account, for an agent that must not touch them itself.
 *
 *   hearth-files --as UID:GID[:GROUP]...    becomes that account, for an agent that is root
 *   hearth-files --self                     stays the account that it is
 *
 * Its standard input is the channel to the agent (agent/files/channel.h). It has no other descriptor but
 * /dev/null, no capability, and ends with the agent's thread that started it.
 */
#include <linux/close_range.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/files/identity.h"
#include "agent/files/serve.h"

static int become(int argc, char **argv, struct err *e)
{
	struct identity id = {0};
	const struct identity *as = NULL;

	if (argc == 3 && strcmp(argv[1], "--as") == 0) {
		if (identity_parse(argv[2], &id, e) < 0)
			return -1;
		as = &id;
	} else if (argc != 2 || strcmp(argv[1], "--self") != 0) {
		return err_set(e, ERR_INVALID, "usage: hearth-files --as UID:GID[:GROUP]... | --self");
	}
	if (!as && geteuid() == 0)
		return err_set(e, ERR_DENIED, "hearth-files --self is not for root");
	return identity_assume(as, e);
}

int main(int argc, char **argv)
{
	struct err e = {0};
	int rc;

	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("hearth-files " PACKAGE_VERSION);
		return 0;
	}
	syscall(SYS_close_range, 3u, ~0u, 0u); /* the agent left nothing open (proc_spawn): a second lock */
	umask(022);
	rc = become(argc, argv, &e);
	if (rc < 0)
		files_refuse(0, &e);
	else
		rc = files_serve(0, &e);
	_exit(rc < 0 ? 1 : 0); /* no leak check of a sanitizer: it would have to trace this process */
}
