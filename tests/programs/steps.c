/*
 * steps: a program whose whole life can be checked afterwards. Each rank writes a numbered line per step to
 * its output and the same to a file of its own, outside everything that Hearth looks after:
 *
 *   steps [-b BYTES] [-r RANK] [-s SIGNAL] DIR STEPS MS [CODE]
 *
 *   DIR/JOB.ATTEMPT.RANK   appended, one write(2) a line, times on CLOCK_BOOTTIME in microseconds:
 *       start TIME pid=N host=NAME gpus=LIST     a second one means that this attempt's rank was run twice
 *       step K TIME                              written before the line of that step leaves for the output
 *       end TIME code=N write_max_us=N           how long the output held the program up at most
 *   output: "step K of STEPS rank R attempt A", padded to BYTES
 *
 * Ends with CODE after STEPS steps of MS milliseconds. With -r only that rank does and the others with 0;
 * with -s it ends by that signal. No MPI: rank and attempt come from the environment.
 */
#include "common/base/clock.h"
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int side = -1;

static uint64_t now_us(void)
{
	return clock_boot_us(clock_real());
}

static const char *env(const char *name)
{
	const char *value = getenv(name);

	return value ? value : "-";
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
	char line[512];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(line, sizeof line, format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof line || write(side, line, (size_t)n) != n)
		_exit(99); /* nothing that follows could be checked */
}

static void put(const char *data, size_t n)
{
	while (n > 0) {
		ssize_t done = write(STDOUT_FILENO, data, n);

		if (done < 0)
			_exit(98);
		data += done;
		n -= (size_t)done;
	}
}

/* The line of a step; how long its way out took. */
static uint64_t say(unsigned long step, unsigned long steps, size_t bytes)
{
	char *line = malloc(bytes + 256);
	uint64_t from;
	int n;

	if (!line)
		_exit(97);
	n = snprintf(line, 256, "step %lu of %lu rank %s attempt %s", step, steps, env("RANK"),
	             env("HEARTH_ATTEMPT"));
	for (; (size_t)n + 1 < bytes; n++)
		line[n] = '.';
	line[n++] = '\n';
	from = now_us();
	put(line, (size_t)n);
	free(line);
	return now_us() - from;
}

static void rest(unsigned long ms)
{
	struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

	while (nanosleep(&t, &t) < 0)
		;
}

int main(int argc, char **argv)
{
	unsigned long bytes = 0, steps, ms, code;
	const char *only = NULL, *dir;
	uint64_t held_up = 0;
	char path[4096], host[256] = "?";
	int c, by_signal = 0, mine;

	while ((c = getopt(argc, argv, "b:r:s:")) != -1) {
		if (c == 'b')
			bytes = strtoul(optarg, NULL, 10);
		else if (c == 'r')
			only = optarg;
		else if (c == 's')
			by_signal = atoi(optarg);
		else
			return 96;
	}
	if (argc - optind < 3)
		return 96;
	dir = argv[optind];
	steps = strtoul(argv[optind + 1], NULL, 10);
	ms = strtoul(argv[optind + 2], NULL, 10);
	code = argc - optind > 3 ? strtoul(argv[optind + 3], NULL, 10) : 0;
	mine = !only || strcmp(only, env("RANK")) == 0;
	snprintf(path, sizeof path, "%s/%s.%s.%s", dir, env("HEARTH_JOB"), env("HEARTH_ATTEMPT"), env("RANK"));
	side = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	if (side < 0)
		return 95;
	gethostname(host, sizeof host - 1);
	note("start %llu pid=%d host=%s gpus=%s\n", (unsigned long long)now_us(), (int)getpid(), host,
	     env("CUDA_VISIBLE_DEVICES"));
	for (unsigned long k = 1; k <= steps; k++) {
		uint64_t took;

		note("step %lu %llu\n", k, (unsigned long long)now_us());
		took = say(k, steps, bytes);
		held_up = took > held_up ? took : held_up;
		rest(ms);
	}
	note("end %llu code=%lu write_max_us=%llu\n", (unsigned long long)now_us(), mine ? code : 0,
	     (unsigned long long)held_up);
	if (mine && by_signal) {
		raise(by_signal);
		return 94;
	}
	return mine ? (int)code : 0;
}
