/*
 * test_agent_join: the first start of a real hearth-agent: its mistakes and their sentences, where a join
 * token may come from, tokens that hearthd refuses.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_ctl.h"

#define LONG 20000 /* ms; a deadline, not a time that is waited */

static struct ctl *c;

/* Exit status and what a program said, which must end by itself. */
static int says(const char *args, char **out)
{
	const char *top = getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : "..";
	cleanup_free char *line = xasprintf("timeout 100 %s/agent/hearth-agent </dev/null 2>&1 %s", top, args);
	FILE *f = popen(line, "r");
	int status;

	*out = xcalloc(1, 16384);
	if (!f)
		tap_bail("popen");
	(void)!fread(*out, 1, 16383, f);
	status = pclose(f);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A process that answers every connection in plain HTTP. */
static pid_t plain_server(unsigned *port)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one;
	char junk[1024];
	pid_t pid;

	if (fd < 0 || bind(fd, (struct sockaddr *)&in, n) < 0 || listen(fd, 16) < 0 ||
	    getsockname(fd, (struct sockaddr *)&in, &n) < 0)
		tap_bail("cannot listen");
	*port = ntohs(in.sin_port);
	pid = fork();
	while (pid == 0) {
		one = accept(fd, NULL, NULL);
		if (read(one, junk, sizeof(junk)) > 0)
			(void)!write(one, answer, sizeof(answer) - 1);
		close(one);
	}
	close(fd);
	return pid;
}

/* Each mistake at the first start ends with its cause and what to do next. */
static void test_first_start(void)
{
	cleanup_free char *none = NULL, *half = NULL, *gone = NULL, *scheme = NULL, *free_ = NULL;
	cleanup_free char *data = xasprintf("%s/first", tap_tmpdir());
	unsigned port;
	pid_t plain = plain_server(&port);
	cleanup_free char *only = xasprintf("--data %s", data);
	cleanup_free char *tls = xasprintf("--data %s --name n9 --controller https://127.0.0.1:%u", data, port);
	cleanup_free char *bare = xasprintf("--data %s --name n9 --controller %s", data, c->url);
	cleanup_free char *nobody =
	    xasprintf("--data %s --name n9 --join-wait 1 --controller http://127.0.0.1:1", data);

	is_int(says("", &none), 2, "without arguments: usage");
	like(none, "--controller and --data are missing", "what is missing");
	is_int(says(only, &half), 2, "half of them");
	like(half, "--controller is missing", "named");
	is_int(says(bare, &free_), 1, "no token");
	like(free_, "has not joined a cluster yet; get a token by `jobctl token create`", "what to do");
	setenv("HEARTH_JOIN_TOKEN", c->token, 1);
	is_int(says(tls, &scheme), 1, "https for a controller that speaks http");
	like(scheme, "answers http, not https: give --controller http://127", "is named at once");
	kill(plain, SIGKILL);
	waitpid(plain, NULL, 0);
	is_int(says(nobody, &gone), 1, "nobody at that address");
	like(gone, "event=join_waits for_s=1 reason=", "is said when it begins to wait");
	like(gone, "hearth-agent: http://127.0.0.1:1: Could", "and when it gives up");
	like(gone, "is hearthd running there", "with what to look at");
	unsetenv("HEARTH_JOIN_TOKEN");
}

/* A token is a secret, and the arguments of a program are nobody's. */
static void test_token_sources(void)
{
	cleanup_free char *data = xasprintf("%s/sources", tap_tmpdir());
	cleanup_free char *file = xasprintf("%s/join", tap_tmpdir());
	cleanup_free char *as =
	    xasprintf("--data %s --name n9 --join-wait 1 --controller http://127.0.0.1:1", data);
	cleanup_free char *word = xasprintf("%s --join %s", as, c->token);
	cleanup_free char *from_file = xasprintf("%s --join-file %s", as, file);
	cleanup_free char *from_stdin = xasprintf("%s --join - <%s", as, file);
	char *out;

	is_int(says(word, &out), 2, "a token as an argument is refused");
	like(out, "--join-file FILE", "with what to do");
	ok(!strstr(out, c->token), "and is not repeated");
	free(out);
	is_int(says(from_file, &out), 1, "a file that is missing");
	like(out, "does not exist; write a token of `jobctl token create --join` to it", "is named");
	free(out);
	fs_replace(file, c->token, strlen(c->token), 0644, NULL);
	is_int(says(from_file, &out), 1, "a file that others may read is refused");
	like(out, "chmod 600", "with what to do");
	free(out);
	chmod(file, 0600);
	is_int(says(from_file, &out), 1, "a file of one's own is read");
	like(out, "event=join_waits", "the agent tries to join");
	free(out);
	is_int(says(from_stdin, &out), 1, "standard input, too");
	like(out, "event=join_waits", "the agent tries to join");
	free(out);
}

static void test_bad_token(void)
{
	size_t n = strlen(c->given);
	struct ctl_agent *x;

	memset(c->given + 4, 'f', 8);
	x = ctl_agent_start(c, 2, "n3", NULL);
	ok(ctl_wait_log(x, "this token is not known", LONG), "a wrong token is refused, and the reason is said");
	ctl_agent_kill(x, SIGKILL);
	memcpy(c->given, c->token, sizeof(c->given));
	c->given[n - 1] = c->given[n - 1] == '0' ? '1' : '0';
	x = ctl_agent_start(c, 2, "n3", NULL);
	ok(ctl_wait_log(x, "token", LONG), "nor one of another cluster");
	ctl_agent_kill(x, SIGKILL);
	memcpy(c->given, c->token, sizeof(c->given));
}

/* The start line of an older agent: hearth-agent --join TOKEN. The node has joined already. */
static void test_old_start_line(void)
{
	const char *const word[] = {"--join", c->token, NULL};
	struct ctl_agent *x = ctl_agent_start(c, 1, "n2", NULL);

	ok(ctl_wait_synced(x, 1, LONG), "a node joins");
	ctl_agent_kill(x, SIGTERM);
	x = ctl_agent_start(c, 1, "n2", word);
	ok(ctl_wait_log(x, "event=join_word_ignored", LONG),
	   "hearth-agent --join TOKEN: a node that has joined ignores the token with a warning");
	ok(ctl_wait_synced(x, 2, LONG), "and comes back");
	ctl_agent_kill(x, SIGTERM);
}

int main(void)
{
	cleanup_free char *program = xasprintf(
	    "%s/agent/hearth-agent", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : "..");

	if (access(program, X_OK) < 0)
		tap_skip_all("hearth-agent is not built");
	chmod(tap_tmpdir(), 0711);
	signal(SIGPIPE, SIG_IGN);
	c = ctl_start(tap_tmpdir());
	test_first_start();
	test_token_sources();
	test_old_start_line();
	test_bad_token();
	ctl_stop(c);
	return tap_done();
}
