/* trace: see trace.h. One pass over the bytes; copied are the names of users, and quoted fields in which a
 * quote is doubled. */
#include "scheduler/sim/trace.h"

#include "scheduler/base/uthash.h"

#define MAX_COLUMNS 64
#define MAX_USERS   1000000u

enum column { C_SUBMIT, C_DURATION, C_GPUS, C_USER, C_PRIORITY, C_PREEMPTIBLE, C_N };

static const char *const names[C_N] = {"submit_s",   "duration_s", "gpus",
                                       "user_or_vc", "priority",   "preemptible"};

struct user {
	char *name; /* owned by the trace */
	uint32_t index;
	UT_hash_handle hh;
};

struct reader {
	struct trace *t;
	const char *p, *end, *line_start;
	size_t line, cap;
	const char *field_at, *field_line_start; /* where the last field begins, and its line */
	size_t field_line;
	char *plain; /* the last field with its doubled quotes made single; [n_plain] */
	size_t n_plain;
	int is_plain;               /* the last field stands there */
	int column_of[MAX_COLUMNS]; /* enum column or -1 */
	int n_known;                /* columns that are read: C_USER + 1, or C_N */
	size_t n_columns;
	struct user *users, *last;
	struct trace_mistake *m;
};

static int report_mistake(struct reader *r, const char *at, const char *field, const char *what)
{
	/* A quoted field may have begun on an earlier line, and of a copy the place is where it begins. */
	int earlier = r->is_plain || at < r->line_start;

	if (r->is_plain)
		at = r->field_at;
	r->m->line = earlier ? r->field_line : r->line;
	r->m->column = (size_t)(at - (earlier ? r->field_line_start : r->line_start)) + 1;
	r->m->field = field;
	r->m->what = what;
	return -1;
}

/* Each two quotes of the n bytes are made one. */
static const char *unquote_field(struct reader *r, const char *from, size_t n)
{
	size_t k = 0;

	if (r->n_plain < n) {
		r->plain = mem_resize(r->plain, n, 1);
		r->n_plain = n;
	}
	for (size_t i = 0; i < n; i++) {
		r->plain[k++] = from[i];
		i += from[i] == '"';
	}
	r->is_plain = 1;
	return r->plain;
}

/* "..." with commas, line ends and doubled quotes inside (RFC 4180). NULL: a mistake. Follows S-401. */
static const char *quoted_field(struct reader *r, size_t *n, int *more)
{
	const char *from = r->p + 1, *p = from;
	size_t doubled = 0;

	for (; p < r->end && (*p != '"' || (p + 1 < r->end && p[1] == '"')); p++) {
		if (*p == '"') {
			doubled++;
			p++;
		} else if (*p == '\n') {
			r->line++;
			r->line_start = p + 1;
		}
	}
	*n = (size_t)(p - from) - doubled;
	if (p == r->end) {
		r->is_plain = 1; /* named is where it was opened */
		report_mistake(r, from, NULL, "a quote is opened here and not closed");
		return NULL;
	}
	r->p = ++p;
	if (p < r->end && *p == '\r' && (p + 1 == r->end || p[1] == '\n'))
		r->p = ++p;
	if (p < r->end && *p != ',' && *p != '\n') {
		report_mistake(r, p, NULL, "expected a comma or the end of the line after the closing quote");
		return NULL;
	}
	*more = p < r->end && *p == ',';
	r->p = *more ? p + 1 : p;
	return doubled ? unquote_field(r, from, *n + doubled) : from;
}

/* The next field of this line; *more: a comma follows. NULL: a mistake. */
static const char *next_field(struct reader *r, size_t *n, int *more)
{
	const char *from = r->p, *p = from;

	r->field_at = from;
	r->field_line = r->line;
	r->field_line_start = r->line_start;
	r->is_plain = 0;
	if (p < r->end && *p == '"')
		return quoted_field(r, n, more);
	while (p < r->end && *p != ',' && *p != '\n')
		p++;
	*more = p < r->end && *p == ',';
	r->p = *more ? p + 1 : p;
	if (!*more && p > from && p[-1] == '\r')
		p--;
	*n = (size_t)(p - from);
	return from;
}

static void next_line(struct reader *r)
{
	if (r->p < r->end)
		r->p++;
	r->line++;
	r->line_start = r->p;
}

/* Follows S-402 and S-425. */
static int read_header(struct reader *r)
{
	int seen[C_N] = {0}, more = 1;

	if (r->end - r->p >= 3 && memcmp(r->p, "\xef\xbb\xbf", 3) == 0)
		r->p += 3;
	for (; more; r->n_columns++) {
		size_t n;
		const char *f = next_field(r, &n, &more);

		if (!f)
			return -1;
		if (r->n_columns == MAX_COLUMNS)
			return report_mistake(r, f, NULL, "more than 64 columns");
		r->column_of[r->n_columns] = -1;
		for (int c = 0; c < r->n_known; c++) {
			if (strlen(names[c]) != n || memcmp(names[c], f, n) != 0)
				continue;
			if (seen[c]++)
				return report_mistake(r, f, names[c], "this column is there twice");
			r->column_of[r->n_columns] = c;
		}
	}
	for (int c = C_SUBMIT; c <= C_GPUS; c++)
		if (!seen[c])
			return report_mistake(r, r->line_start, names[c], "the first line must name this column");
	next_line(r);
	return 0;
}

static int read_number(struct reader *r, const char *f, size_t n, enum column c, uint64_t *out)
{
	static const uint64_t most[C_N] = {[C_SUBMIT] = TRACE_MAX_SECONDS,
	                                   [C_DURATION] = TRACE_MAX_SECONDS,
	                                   [C_GPUS] = TRACE_MAX_GPUS,
	                                   [C_PRIORITY] = TRACE_MAX_PRIORITY,
	                                   [C_PREEMPTIBLE] = 1};
	uint64_t v = 0, max = most[c];

	if (!n)
		return report_mistake(r, f, names[c], "a whole number is missing");
	for (size_t i = 0; i < n; i++) {
		if (f[i] < '0' || f[i] > '9')
			return report_mistake(r, f + i, names[c], "expected a whole number, not negative");
		v = v * 10 + (uint64_t)(f[i] - '0');
		if (v > max)
			return report_mistake(r, f, names[c], "the number is too large");
	}
	*out = v;
	return 0;
}

static int read_user(struct reader *r, const char *f, size_t n, uint32_t *out)
{
	struct user *u = r->last;

	/* Neighbours are often of one user. */
	if (!u || strlen(u->name) != n || memcmp(u->name, f, n) != 0)
		HASH_FIND(hh, r->users, f, n, u);
	if (!u) {
		if (r->t->n_users == MAX_USERS)
			return report_mistake(r, f, names[C_USER], "too many different users");
		if (memchr(f, 0, n))
			return report_mistake(r, f, names[C_USER], "a name with a zero byte");
		u = mem_alloc(1, sizeof(*u));
		u->name = mem_alloc(n + 1, 1);
		memcpy(u->name, f, n);
		u->index = r->t->n_users++;
		if (!(u->index & (u->index - 1))) /* room doubles at each power of two */
			r->t->users = mem_resize(r->t->users, u->index ? 2 * (size_t)u->index : 1, sizeof(*r->t->users));
		r->t->users[u->index] = u->name;
		HASH_ADD_KEYPTR(hh, r->users, u->name, n, u);
	}
	r->last = u;
	*out = u->index;
	return 0;
}

static int one_line(struct reader *r)
{
	struct trace_job j = {0};
	int more = 1, has_user = 0, minus = 0;
	size_t k = 0;

	for (; more; k++) {
		uint64_t v = 0;
		size_t n;
		const char *f = next_field(r, &n, &more);
		int c = k < r->n_columns ? r->column_of[k] : -1;

		if (!f)
			return -1;
		if (k >= r->n_columns)
			return report_mistake(r, f, NULL, "more fields than the first line has");
		if (c == C_USER) {
			has_user = 1;
			if (read_user(r, f, n, &j.user) < 0)
				return -1;
		} else if (c >= 0) {
			minus = c == C_PRIORITY && n && *f == '-';
			if (read_number(r, f + minus, n - (size_t)minus, (enum column)c, &v) < 0)
				return -1;
		}
		if (c == C_SUBMIT)
			j.submit_s = v;
		else if (c == C_DURATION)
			j.duration_s = v;
		else if (c == C_GPUS)
			j.gpus = (uint32_t)v;
		else if (c == C_PRIORITY)
			j.priority = minus ? -(int32_t)v : (int32_t)v;
		else if (c == C_PREEMPTIBLE)
			j.firm = !v;
	}
	r->is_plain = 0;
	if (k < r->n_columns)
		return report_mistake(r, r->p, NULL, "fewer fields than the first line has");
	if (!has_user && read_user(r, "", 0, &j.user) < 0)
		return -1;
	if (r->t->n == UINT32_MAX / 4)
		return report_mistake(r, r->line_start, NULL, "too many jobs");
	if (r->t->n == r->cap) {
		r->cap = r->cap ? r->cap * 2 : 4096;
		r->t->jobs = mem_resize(r->t->jobs, r->cap, sizeof(*r->t->jobs));
	}
	r->t->jobs[r->t->n++] = j;
	return 0;
}

static int parse_trace(struct trace *t, const char *text, size_t n, int n_known, struct trace_mistake *m)
{
	struct reader r = {
	    .t = t, .p = text, .end = text + n, .line_start = text, .line = 1, .n_known = n_known, .m = m};
	struct user *u, *tmp;
	int rc = read_header(&r);

	memset(t, 0, sizeof(*t));
	while (rc == 0 && r.p < r.end) {
		if (*r.p != '\n' && !(*r.p == '\r' && r.p + 1 < r.end && r.p[1] == '\n'))
			rc = one_line(&r);
		else
			while (*r.p != '\n')
				r.p++;
		if (rc == 0)
			next_line(&r);
	}
	HASH_ITER (hh, r.users, u, tmp) {
		HASH_DELETE(hh, r.users, u);
		free(u);
	}
	free(r.plain);
	if (rc < 0)
		trace_fini(t);
	return rc;
}

int trace_parse(struct trace *t, const char *text, size_t n, struct trace_mistake *m)
{
	return parse_trace(t, text, n, C_USER + 1, m);
}

int trace_parse_priorities(struct trace *t, const char *text, size_t n, struct trace_mistake *m)
{
	return parse_trace(t, text, n, C_N, m);
}

void trace_fini(struct trace *t)
{
	for (uint32_t i = 0; i < t->n_users; i++)
		free(t->users[i]);
	free(t->users);
	free(t->jobs);
	memset(t, 0, sizeof(*t));
}
