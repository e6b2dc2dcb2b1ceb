/* hearth-rsh: the words of its command, and its life beside agents that come and go. */
#include "agent/stubs/rshwords.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/net/wire_msg.h"
#include "common/os/proc.h"
#include "tests/lib/shimlab.h"
#include "tests/lib/tap.h"

/* ---- words ---------------------------------------------------------------------------------------- */

static void words(const char *line, const char *want)
{
	char *args[] = {(char *)(uintptr_t)line};
	struct strv out = {0};
	struct err e;
	char got[1000] = "";

	if (rshwords_split(args, 1, &out, &e) < 0) {
		tap_ok(0, __func__, __FILE__, __LINE__, "%s: %s", line, e.text);
		return;
	}
	for (size_t i = 0; i < out.n; i++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "[%s]", out.v[i]);
	is_str(got, want, line);
	strv_fini(&out);
}

static void no_words(const char *line, const char *why)
{
	char *args[] = {(char *)(uintptr_t)line};
	struct strv out = {0};
	struct err e = {0};

	ok(rshwords_split(args, 1, &out, &e) < 0 && out.n == 0, "refused: %s", line);
	like(e.text, why, "with the reason");
}

static void test_words(void)
{
	char *many[] = {(char *)(uintptr_t) " orted", (char *)(uintptr_t) "-mca", (char *)(uintptr_t) "ess",
	                (char *)(uintptr_t) "\"env\"",
	                (char *)(uintptr_t) "\"1359216640.0;tcp://10.0.0.1:33,10.0.0.2:5;tcp6://[::1]:46261\""};
	struct strv out = {0};
	struct err e;

	is_int(rshwords_split(many, 5, &out, &e), 0, "what Open MPI 4.1 sends");
	ok(out.n == 5 && strcmp(out.v[0], "orted") == 0 && strcmp(out.v[3], "env") == 0 &&
	       strcmp(out.v[4], "1359216640.0;tcp://10.0.0.1:33,10.0.0.2:5;tcp6://[::1]:46261") == 0,
	   "without its quotes");
	strv_fini(&out);
	words("   PATH=/usr/bin:$PATH ; export PATH ; LD_LIBRARY_PATH=/usr/lib:${LD_LIBRARY_PATH:-} ; export "
	      "LD_LIBRARY_PATH ;"
	      "   /usr/bin/orted -mca ess \"env\"",
	      "[/usr/bin/orted][-mca][ess][env]");
	words("orted -mca x \"a b\"'c'\\ d \"\" '' end", "[orted][-mca][x][a bc d][][][end]");
	words("orted \"a\\\"b\\\\c\\d\"", "[orted][a\"b\\c\\d]");
	words("X=1 Y=\"$HOME\" orted a=b", "[orted][a=b]");
	words("orted 'a;b$c`d' \"^s1,s2\" \"vm,algo-[1:1-2]@0(3)\"",
	      "[orted][a;b$c`d][^s1,s2][vm,algo-[1:1-2]@0(3)]");
	words("orted\v-mca \f x", "[orted\v-mca][\f][x]");
	words("( test ! -r ./.profile || . ./.profile;  orted -mca ess \"env\" )", "[orted][-mca][ess][env]");
	words(
	    "( test ! -r ./.profile || . ./.profile;   PATH=/usr/bin:$PATH ; export PATH ;   /usr/bin/orted x )",
	    "[/usr/bin/orted][x]");
	words("  set path = ( /usr/bin $path ) ; if ( $?LD_LIBRARY_PATH == 1 ) set OMPI_have_llp ; if ( "
	      "$?LD_LIBRARY_PATH == 0 ) setenv LD_LIBRARY_PATH /usr/lib ;   /usr/bin/orted -mca \"x\"",
	      "[/usr/bin/orted][-mca][x]");
	no_words("( test ! -r ./.profile || . ./.profile;  orted x", "does not end");
	no_words("( test ! -r ./.profile || . ./.profile; )", "no command");
	no_words("( test ! -r ./.profile || . ./.profile; orted ) ; rm x )", "shell");
	no_words("( test -r x; orted )", "shell");
	no_words("set path = ( /usr/bin $path )", "no command");
	no_words("", "no command");
	no_words(" ; ", "no command");
	no_words("PATH=/x ; export PATH", "no command");
	no_words("orted \"x", "quote");
	no_words("orted 'x", "quote");
	no_words("rm -rf / ; orted", "more than one");
	no_words("orted | tee", "shell");
	no_words("orted > x", "shell");
	no_words("orted & ", "shell");
	no_words("orted $HOME", "shell");
	no_words("orted \"$HOME\"", "shell");
	no_words("orted `id`", "shell");
	no_words("( orted )", "shell");
}

/* ---- an agent of a few lines ------------------------------------------------------------------------ */

struct agent {
	char path[200];
	int listen_fd, fd;
	struct buf in;
};

static void agent_up(struct agent *a)
{
	struct sockaddr_un u = {.sun_family = AF_UNIX};

	a->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(u.sun_path, sizeof(u.sun_path), "%.100s", a->path);
	unlink(a->path);
	if (bind(a->listen_fd, (struct sockaddr *)&u, sizeof(u)) < 0 || listen(a->listen_fd, 5) < 0)
		tap_bail("%s: %s", a->path, strerror(errno));
	a->fd = -1;
	buf_init(&a->in, 65536);
}

static void agent_down(struct agent *a)
{
	close(a->listen_fd);
	if (a->fd >= 0)
		close(a->fd);
	buf_fini(&a->in);
}

/* Waits for a request; its message by wire_free. */
static struct wm_local_rsh *agent_request(struct agent *a)
{
	struct pollfd p = {.fd = a->listen_fd, .events = POLLIN};
	struct wire_frame f;
	struct err e;
	uint8_t *room;
	void *msg;
	int rc;

	if (poll(&p, 1, LAB_MS) != 1)
		tap_bail("hearth-rsh does not come");
	a->fd = accept4(a->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	while ((rc = wire_next(&a->in, &f, &e)) == 0) {
		ssize_t n;

		buf_reserve(&a->in, 4096, &room);
		n = recv(a->fd, room, 4096, 0);
		if (n <= 0)
			tap_bail("hearth-rsh hung up");
		a->in.len += (size_t)n;
	}
	if (rc < 0 || f.type != WM_LOCAL_RSH || wire_decode(f.type, f.body, f.n, &msg, &e) < 0)
		tap_bail("not a request: %s", e.text);
	return msg;
}

static void agent_say(struct agent *a, const char *id, enum proc_state state, uint32_t code, uint32_t sig,
                      const char *text)
{
	struct wm_local_rsh_state m = {.rsh_id = (char *)(uintptr_t)id,
	                               .state = (uint8_t)state,
	                               .exit_code = code,
	                               .signal = sig,
	                               .text = (char *)(uintptr_t)text};
	struct buf out;

	buf_init(&out, 65536);
	wire_encode(WM_LOCAL_RSH_STATE, &m, 1, &out, NULL);
	if (send(a->fd, buf_head(&out), buf_left(&out), MSG_NOSIGNAL) != (ssize_t)buf_left(&out))
		tap_bail("send");
	buf_fini(&out);
}

struct rsh {
	pid_t pid;
	int pidfd, err_fd;
};

static void rsh_start(struct rsh *r, const struct agent *a, const char *sock)
{
	cleanup_free char *path = lab_built("agent/hearth-rsh");
	struct strv argv = {0}, env = {0};
	struct err e;
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		tap_bail("pipe");
	strv_add(&argv, "hearth-rsh");
	strv_add(&argv, "algo-2");
	strv_add(&argv, " orted");
	strv_add(&argv, "-mca");
	strv_add(&argv, "\"x;y\"");
	strv_addf(&env, "HEARTH_AGENT_SOCK=%s", sock ? sock : a->path);
	strv_add(&env, "HEARTH_LAUNCH_TOKEN=secret");
	if (proc_spawn(&(struct proc_spawn){.path = path,
	                                    .argv = argv.v,
	                                    .envp = env.v,
	                                    .stdin_fd = -1,
	                                    .stdout_fd = -1,
	                                    .stderr_fd = p[1]},
	               &r->pid, &r->pidfd, &e) < 0)
		tap_bail("%s", e.text);
	close(p[1]);
	r->err_fd = p[0];
	strv_fini(&argv);
	strv_fini(&env);
}

static int rsh_end(struct rsh *r, char *text, size_t size)
{
	struct pollfd p = {.fd = r->pidfd, .events = POLLIN};
	size_t used = 0;
	ssize_t n;
	int status = 0;

	if (poll(&p, 1, LAB_MS) != 1)
		tap_bail("hearth-rsh does not end");
	while ((n = read(r->err_fd, text + used, size - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	waitpid(r->pid, &status, 0);
	close(r->pidfd);
	close(r->err_fd);
	return status;
}

static void test_end(struct agent *a, enum proc_state state, uint32_t code, uint32_t sig, const char *say,
                     int want, const char *want_text)
{
	struct wm_local_rsh *m;
	struct rsh r;
	char text[700];

	agent_up(a);
	rsh_start(&r, a, NULL);
	m = agent_request(a);
	ok(strcmp(m->host, "algo-2") == 0 && strcmp(m->token, "secret") == 0 && strlen(m->rsh_id) == 32 &&
	       m->argv.n == 3 && strcmp(m->argv.v[0], "orted") == 0 && strcmp(m->argv.v[2], "x;y") == 0,
	   "the request");
	agent_say(a, m->rsh_id, PS_WAITING, 0, 0, "");
	agent_say(a, "another one", PS_EXITED, 99, 0, "");
	agent_say(a, m->rsh_id, PS_RUNNING, 0, 0, "");
	agent_say(a, m->rsh_id, state, code, sig, say);
	is_int(rsh_end(&r, text, sizeof(text)), want << 8, "the exit status");
	is_str(text, want_text, "stderr");
	wire_free(WM_LOCAL_RSH, m);
	agent_down(a);
}

static void test_restart(struct agent *a)
{
	struct wm_local_rsh *m, *again;
	struct rsh r;
	char text[700];

	agent_up(a);
	rsh_start(&r, a, NULL);
	m = agent_request(a);
	agent_say(a, m->rsh_id, PS_RUNNING, 0, 0, "");
	for (int i = 0; i < 3; i++) {
		agent_down(a);
		agent_up(a);
		again = agent_request(a);
		is_str(again->rsh_id, m->rsh_id, "it comes back to the next agent under the same id");
		wire_free(WM_LOCAL_RSH, again);
	}
	/* An agent that talks nonsense is one that failed. */
	if (send(a->fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL) != 18)
		tap_bail("send");
	close(a->fd);
	buf_reset(&a->in);
	again = agent_request(a);
	agent_say(a, m->rsh_id, PS_EXITED, 5, 0, "");
	is_int(rsh_end(&r, text, sizeof(text)), 5 << 8, "and ends as orted did");
	wire_free(WM_LOCAL_RSH, again);
	wire_free(WM_LOCAL_RSH, m);
	agent_down(a);
}

static void test_killed(struct agent *a)
{
	struct wm_local_rsh *m;
	struct rsh r;
	char text[700];

	agent_up(a);
	rsh_start(&r, a, NULL);
	m = agent_request(a);
	kill(r.pid, SIGTERM);
	is_int(rsh_end(&r, text, sizeof(text)), SIGTERM, "SIGTERM ends it");
	is_int(recv(a->fd, text, 1, 0), 0, "and the agent sees its end");
	wire_free(WM_LOCAL_RSH, m);
	agent_down(a);
}

int main(void)
{
	struct agent a = {.fd = -1};

	signal(SIGPIPE, SIG_IGN);
	snprintf(a.path, sizeof(a.path), "%.90s/a", tap_tmpdir());
	test_words();
	test_end(&a, PS_EXITED, 0, 0, "", 0, "");
	test_end(&a, PS_EXITED, 205, 0, "", 205, "");
	test_end(&a, PS_EXITED, 137, 9, "", 137, "");
	test_end(&a, PS_FAILED, 0, 0, "no such node", 255, "hearth-rsh: algo-2: no such node\n");
	test_end(&a, PS_LOST, 0, 0, "", 255, "hearth-rsh: algo-2: the fate of orted is unknown\n");
	test_end(&a, PS_UNKNOWN, 0, 0, "", 255, "hearth-rsh: algo-2: the fate of orted is unknown\n");
	test_restart(&a);
	test_killed(&a);
	return tap_done();
}
