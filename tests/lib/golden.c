/*
 * golden: with HEARTH_GOLDEN_OUT, a folder, the sentences are appended to files there and not compared.
 */
#include "tests/lib/golden.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

static void put_escaped(FILE *f, const char *s)
{
	const char *tmp = tap_tmpdir();

	for (; *s; s++) {
		if (strncmp(s, tmp, strlen(tmp)) == 0) {
			fputs("TMPDIR", f);
			s += strlen(tmp) - 1;
		} else if (*s == '\n') {
			fputs("\\n", f);
		} else if (*s == '\t') {
			fputs("\\t", f);
		} else if (*s == '\\') {
			fputs("\\\\", f);
		} else {
			fputc(*s, f);
		}
	}
}

/* Returns the line of the file for this ID and sentence. */
static char *make_line(const char *id, const char *got)
{
	char *line;
	size_t n;
	FILE *f = open_memstream(&line, &n);

	if (!f)
		tap_bail("no memory for a golden line");
	put_escaped(f, id);
	fputc('\t', f);
	put_escaped(f, got);
	fputc('\n', f);
	fclose(f);
	return line;
}

/* One write a line: programs that run at the same time append to the same file. */
static void append_line(const char *path, const char *line)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

	if (fd < 0 || write(fd, line, strlen(line)) != (ssize_t)strlen(line))
		tap_bail("cannot write %s", path);
	close(fd);
}

/* Returns the line of the file with the same ID, without its newline; NULL when the ID is missing. */
static char *find_line(const char *path, const char *line)
{
	size_t n_id = strcspn(line, "\t") + 1, n;
	char *all, *found = NULL;
	struct err e;

	if (fs_read_file(path, 1 << 20, &all, &n, &e) < 0)
		tap_bail("%s; make it with build-aux/golden.sh --renew", e.text);
	for (char *at = all; at && *at && !found; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		if (strncmp(at, line, n_id) == 0)
			found = xstrndup(at, strcspn(at, "\n"));
	free(all);
	return found;
}

static const char *missing_fact(const char *got, const char *const *facts)
{
	for (; *facts; facts++)
		if (!strstr(got, *facts))
			return *facts;
	return NULL;
}

int tap_golden(const char *id, const char *got, const char *func, const char *file, int line,
               const char *const *facts)
{
	const char *slash = strchr(id, '/'), *out = getenv("HEARTH_GOLDEN_OUT"),
	           *top = getenv("HEARTH_TOP_SRCDIR");
	const char *fact = got ? missing_fact(got, facts) : "a sentence";
	char *have, *want = NULL, *path;
	int pass;

	if (!slash || (!out && !top))
		tap_bail("golden '%s': expected FILE/ID, and HEARTH_TOP_SRCDIR in the environment", id);
	have = make_line(slash + 1, got ? got : "(NULL)");
	path = out ? xasprintf("%s/%.*s.txt", out, (int)(slash - id), id)
	           : xasprintf("%s/tests/golden/%.*s.txt", top, (int)(slash - id), id);
	if (out)
		append_line(path, have);
	else
		want = find_line(path, have);
	have[strlen(have) - 1] = '\0';
	pass = !fact && (out || (want && strcmp(have, want) == 0));
	tap_ok(pass, func, file, line, "%s", id);
	if (fact)
		tap_diag("  got  %s\n#   want something with %s", got ? got : "(NULL)", fact);
	if (!pass && !out)
		tap_diag("  got  %s\n#   want %s\n#   in %s (build-aux/golden.sh --renew renews it)", have,
		         want ? want : "a line with this ID", path);
	free(have);
	free(want);
	free(path);
	return pass;
}
