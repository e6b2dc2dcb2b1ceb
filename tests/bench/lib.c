/* bench lib: see lib.h. */
#include "tests/bench/lib.h"

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SAMPLES_MAX 4000000

uint64_t bench_now_us(void)
{
	return clock_boot_us(clock_real());
}

void bench_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

void samples_add(struct samples *s, uint64_t us)
{
	if (s->n == SAMPLES_MAX)
		return;
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 1024;
		s->v = xreallocarray(s->v, s->cap, sizeof(*s->v));
	}
	s->v[s->n++] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

uint32_t samples_at(struct samples *s, double quantile)
{
	size_t i = (size_t)((double)s->n * quantile);

	if (!s->n)
		return 0;
	qsort(s->v, s->n, sizeof(*s->v), by_value);
	return s->v[i < s->n ? i : s->n - 1];
}

void samples_fini(struct samples *s)
{
	free(s->v);
	memset(s, 0, sizeof(*s));
}

/* ---- /proc ------------------------------------------------------------------------------------ */

/* The number behind "NAME:" in a status file, 0 without it. */
static uint64_t status_number(const char *path, const char *name)
{
	FILE *f = fopen(path, "re");
	char line[256];
	uint64_t v = 0;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			v = strtoull(line + strlen(name) + 1, NULL, 10);
	if (f)
		fclose(f);
	return v;
}

static uint64_t cpu_us(const char *stat)
{
	FILE *f = fopen(stat, "re");
	unsigned long user = 0, system = 0;
	char line[1024], *p;

	if (f && fgets(line, sizeof(line), f) && (p = strrchr(line, ')')))
		sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
	if (f)
		fclose(f);
	return (user + system) * (1000000u / (unsigned long)sysconf(_SC_CLK_TCK));
}

void usage_of(pid_t pid, struct usage *u)
{
	char path[64];
	struct dirent *d;
	DIR *tasks;

	memset(u, 0, sizeof(*u));
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	u->cpu_us = cpu_us(path);
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	u->rss_kib = status_number(path, "VmRSS");
	u->top_kib = status_number(path, "VmHWM");
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && (d = readdir(tasks))) {
		char file[400];

		if (d->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "/proc/%d/task/%s/status", (int)pid, d->d_name);
		u->switches += status_number(file, "voluntary_ctxt_switches");
	}
	if (tasks)
		closedir(tasks);
}

/* ---- HTTP --------------------------------------------------------------------------------------- */

int bench_dial(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)))
		bench_die("%s: %s", path, strerror(errno));
	return fd;
}

pid_t bench_peer(int fd)
{
	struct ucred cred = {0};
	socklen_t n = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n))
		bench_die("who listens: %s", strerror(errno));
	return cred.pid;
}

size_t bench_answer_complete(const char *buf, size_t n)
{
	const char *end = memmem(buf, n, "\r\n\r\n", 4), *len;
	size_t all;

	if (!end)
		return 0;
	if (strncmp(buf, "HTTP/1.1 20", 11) != 0)
		bench_die("refused: %.*s", (int)n, buf);
	len = strcasestr(buf, "content-length:");
	all = (size_t)(end + 4 - buf) + (len && len < end ? strtoul(len + 15, NULL, 10) : 0);
	return all <= n ? all : 0;
}

char *bench_call(const char *path, const char *method, const char *target, const char *body)
{
	int fd = bench_dial(path);
	size_t n = 0, cap = 65536, whole;
	char *buf = xmalloc(cap), *text;

	dprintf(fd,
	        "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	        "Content-Length: %zu\r\n\r\n%s",
	        method, target, body ? strlen(body) : 0, body ? body : "");
	for (;;) {
		ssize_t k = read(fd, buf + n, cap - n - 1);

		if (k <= 0)
			bench_die("%s %s: connection closed", method, target);
		n += (size_t)k;
		buf[n] = '\0';
		whole = bench_answer_complete(buf, n);
		if (whole)
			break;
		if (cap - n < 32768)
			buf = xrealloc(buf, cap *= 2);
	}
	close(fd);
	text = xstrdup(strstr(buf, "\r\n\r\n") + 4);
	free(buf);
	return text;
}
