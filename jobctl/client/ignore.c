/*
 * ignore: see ignore.h. hearth.py has the same rules; a test compares the two.
 */
#include "jobctl/client/ignore.h"

#include <fnmatch.h>
#include <string.h>

#include "common/os/fsutil.h"

int ignore_match(const char *pattern, const char *relpath, int is_dir)
{
	char bare[IGNORE_PATTERN_MAX + 1];
	size_t n = strlen(pattern);
	if (n == 0 || n > IGNORE_PATTERN_MAX)
		return 0;
	memcpy(bare, pattern, n + 1);
	if (bare[n - 1] == '/') {
		if (!is_dir)
			return 0;
		bare[n - 1] = 0;
	}
	if (bare[0] == '/')
		return !fnmatch(bare + 1, relpath, FNM_PATHNAME);
	if (strchr(bare, '/'))
		return !fnmatch(bare, relpath, FNM_PATHNAME);
	const char *slash = strrchr(relpath, '/');
	return !fnmatch(bare, slash ? slash + 1 : relpath, 0);
}

int ignore_skip(const char *relpath, int is_dir, void *arg)
{
	const struct ignore *ig = arg;
	for (size_t i = ig->patterns.n; i-- > 0;) {
		const char *p = ig->patterns.v[i];
		if (ignore_match(p + (*p == '!'), relpath, is_dir))
			return *p != '!';
	}
	return 0;
}

static void trim_end(char *line)
{
	size_t n = strlen(line);
	while (n && (line[n - 1] == ' ' || line[n - 1] == '\t' || line[n - 1] == '\r'))
		line[--n] = 0;
}

int ignore_read(struct ignore *ig, const char *dir, struct err *e)
{
	char *path = xasprintf("%s/" IGNORE_FILE, dir), *text = NULL, *next;
	size_t n;
	struct err le;
	int rc = 0, line_no = 0;
	strv_add(&ig->patterns, ".git");
	strv_add(&ig->patterns, "__pycache__/");
	strv_add(&ig->patterns, "*.pyc");
	if (fs_read_file(path, IGNORE_FILE_MAX, &text, &n, &le) && le.code != ERR_NOT_FOUND)
		rc = err_set(e, le.code, "%s", le.text);
	for (char *line = text; !rc && line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		line_no++;
		trim_end(line);
		if (strlen(line) > IGNORE_PATTERN_MAX)
			rc = err_set(e, ERR_INVALID, "%s:%d: a pattern has at most %d bytes", path, line_no,
			             IGNORE_PATTERN_MAX);
		else if (*line && *line != '#' && strcmp(line, "!") != 0 && strcmp(line, "/") != 0)
			strv_add(&ig->patterns, line);
	}
	free(text);
	free(path);
	return rc;
}

void ignore_fini(struct ignore *ig)
{
	strv_fini(&ig->patterns);
}
