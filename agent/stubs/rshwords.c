/*
 * rshwords: see rshwords.h. The rules of a POSIX shell for quotes; nothing is expanded, so a `$` or a
 * backquote that a shell would expand is refused, but for the assignments that are thrown away.
 */
#include "agent/stubs/rshwords.h"

#include <ctype.h>
#include <string.h>

#define LINE_MAX_BYTES (1024u * 1024)
#define BLANKS         " \t\r\n" /* a vertical tab or a form feed is part of a word, as in a shell */

struct word {
	char *text; /* as long as the whole line */
	size_t n;
	int any;     /* something was there, be it "" */
	int expands; /* a $ or ` that a shell would have replaced */
};

static char *join_words(char *const *args, size_t n, struct err *e)
{
	size_t size = 1;
	char *line, *at;

	for (size_t i = 0; i < n; i++)
		size += strlen(args[i]) + 1;
	if (size > LINE_MAX_BYTES) {
		err_set(e, ERR_LIMIT, "the command has more than %u bytes", LINE_MAX_BYTES);
		return NULL;
	}
	line = at = xmalloc(size);
	for (size_t i = 0; i < n; i++) {
		at = stpcpy(at, args[i]);
		*at++ = ' ';
	}
	*at = '\0';
	return line;
}

static void put_char(struct word *w, char c)
{
	w->text[w->n++] = c;
	w->any = 1;
}

/* Reads "..." from behind its opening quote; returns what follows the closing one, NULL: no closing one. */
static const char *double_quoted(const char *p, struct word *w)
{
	w->any = 1;
	for (; *p && *p != '"'; p++) {
		if (*p == '\\' && p[1] && strchr("\"\\$`", p[1]))
			put_char(w, *++p);
		else {
			w->expands |= *p == '$' || *p == '`';
			put_char(w, *p);
		}
	}
	return *p ? p + 1 : NULL;
}

static const char *single_quoted(const char *p, struct word *w)
{
	w->any = 1;
	for (; *p && *p != '\''; p++)
		put_char(w, *p);
	return *p ? p + 1 : NULL;
}

/* One word up to an unquoted blank or ';'. NULL with e set when it needs a shell. */
static const char *take_word(const char *p, struct word *w, struct err *e)
{
	*w = (struct word){.text = w->text};
	while (p && *p && !strchr(BLANKS ";", *p)) {
		if (*p == '"') {
			p = double_quoted(p + 1, w);
		} else if (*p == '\'') {
			p = single_quoted(p + 1, w);
		} else if (*p == '\\' && p[1]) {
			put_char(w, p[1]);
			p += 2;
		} else if (strchr("()|&<>", *p) || (*p == '#' && !w->any)) {
			err_set(e, ERR_INVALID, "the command needs a shell ('%c'); hearth-rsh has none", *p);
			return NULL;
		} else {
			w->expands |= strchr("$`*?", *p) != NULL;
			put_char(w, *p++);
		}
	}
	if (!p)
		err_set(e, ERR_INVALID, "the command has a quote that does not end");
	else
		w->text[w->n] = '\0';
	return p;
}

/* NAME=... with NAME unquoted would need more care in a shell; as this is only thrown away, it does not here.
 */
static int is_assignment(const char *s)
{
	size_t n = 0;

	while (isalnum((unsigned char)s[n]) || s[n] == '_')
		n++;
	return n > 0 && !isdigit((unsigned char)s[0]) && s[n] == '=';
}

/* A ';' ends a command. One of assignments or an export is dropped; another one before the last is an error.
 */
static int end_command(struct strv *out, int *expands, struct err *e)
{
	if (out->n && strcmp(out->v[0], "export") != 0)
		return err_set(e, ERR_INVALID, "the command is more than one ('%.60s' first); hearth-rsh runs one",
		               out->v[0]);
	strv_fini(out);
	*expands = 0;
	return 0;
}

/* Open MPI wraps the command so for an account whose shell is sh, ksh or one that it does not know. The agent
 * makes orted's environment, so the profile is not read. Returns what is inside, cut from line; or line. */
static char *unwrap(char *line, struct err *e)
{
	static const char wrap[] = "( test ! -r ./.profile || . ./.profile;";
	char *end;

	line += strspn(line, BLANKS);
	if (strncmp(line, wrap, sizeof(wrap) - 1) != 0)
		return line;
	line += sizeof(wrap) - 1;
	for (end = line + strlen(line); end > line && strchr(BLANKS, end[-1]);)
		end--;
	if (end == line || end[-1] != ')') {
		err_set(e, ERR_INVALID, "the command has a '(' that does not end");
		return NULL;
	}
	end[-1] = '\0';
	return line;
}

/* A command in front that sets a variable of csh: "set path = ( ... )", "if ( ... ) setenv ...". Returns its
 * end; or p. */
static const char *skip_csh(const char *p)
{
	if (strncmp(p, "set ", 4) == 0 || strncmp(p, "setenv ", 7) == 0 || strncmp(p, "if ( $?", 7) == 0)
		return p + strcspn(p, ";");
	return p;
}

static int split_words(const char *p, struct word *w, struct strv *out, struct err *e)
{
	int expands = 0;

	for (;;) {
		p += strspn(p, BLANKS);
		if (out->n == 0)
			p = skip_csh(p);
		if (!*p)
			break;
		if (*p == ';') {
			if (end_command(out, &expands, e) < 0)
				return -1;
			p++;
			continue;
		}
		p = take_word(p, w, e);
		if (!p)
			return -1;
		if (out->n == 0 && is_assignment(w->text))
			continue;
		strv_add(out, w->text);
		expands |= w->expands;
	}
	if (expands)
		return err_set(e, ERR_INVALID,
		               "the command needs a shell ($, `, * or ? outside quotes); hearth-rsh has none");
	if (!out->n || strcmp(out->v[0], "export") == 0)
		return err_set(e, ERR_INVALID, "no command was given");
	return 0;
}

int rshwords_split(char *const *args, size_t n, struct strv *out, struct err *e)
{
	cleanup_free char *line = join_words(args, n, e);
	char *inside = line ? unwrap(line, e) : NULL;
	struct word w = {0};
	int rc;

	if (!inside)
		return -1;
	w.text = xmalloc(strlen(inside) + 1);
	rc = split_words(inside, &w, out, e);
	free(w.text);
	if (rc < 0)
		strv_fini(out);
	return rc;
}
