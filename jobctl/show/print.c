/*
 * print: see print.h.
 */
#include "jobctl/show/print.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"

#define HEAD_WIDTH 12
#define FILE_WIDTH 100

struct table {
	char **heads;
	size_t columns;
	char **cells;
	size_t n;
};

int print_is_terminal(void)
{
	return isatty(STDOUT_FILENO);
}

static const char *colour_code(const char *escape)
{
	const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
	return print_is_terminal() && !(no && *no) && term && strcmp(term, "dumb") != 0 ? escape : "";
}

const char *print_bold(void)
{
	return colour_code("\033[1m");
}

const char *print_dim(void)
{
	return colour_code("\033[2m");
}

const char *print_reset(void)
{
	return colour_code("\033[0m");
}

const char *print_status_colour(const char *status)
{
	static const struct {
		const char *status, *escape;
	} table[] = {{"running", "\033[32m"},  {"completed", "\033[32m"}, {"up", "\033[32m"},
	             {"failed", "\033[31m"},   {"lost", "\033[31m"},      {"stopped", "\033[33m"},
	             {"stopping", "\033[33m"}, {"drained", "\033[33m"},   {"draining", "\033[33m"},
	             {"queued", "\033[36m"},   {"starting", "\033[36m"},  {"held", "\033[36m"}};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (status && strcmp(status, table[i].status) == 0)
			return colour_code(table[i].escape);
	}
	return "";
}

struct table *table_create(const char *const *heads, size_t n)
{
	struct table *t = xcalloc(1, sizeof(*t));
	t->columns = n;
	t->heads = xcalloc(n, sizeof(char *));
	for (size_t i = 0; i < n; i++)
		t->heads[i] = xstrdup(heads[i]);
	return t;
}

char *print_safe(const char *s)
{
	char *out = xstrdup(s ? s : "");
	for (char *p = out; *p; p++) {
		unsigned char ch = (unsigned char)*p, next = (unsigned char)p[1];
		if ((ch < 0x20 && ch != '\n' && ch != '\t') || ch == 0x7f)
			*p = '?';
		else if (ch == 0xc2 && next >= 0x80 &&
		         next < 0xa0) /* U+0080..9F: control characters for some terminals */
			p[0] = p[1] = '?';
	}
	return out;
}

void table_cell(struct table *t, const char *text)
{
	if ((t->n & (t->n - 1)) == 0)
		t->cells = xreallocarray(t->cells, t->n ? t->n * 2 : 1, sizeof(char *));
	char *cell = print_safe(text && *text ? text : "-");
	for (char *p = cell; *p; p++) {
		if (*p == '\n' || *p == '\t')
			*p = ' ';
	}
	t->cells[t->n++] = cell;
}

void table_cell_cut(struct table *t, const char *text, size_t max)
{
	size_t n = 0;
	const char *p = text ? text : "";
	/* End of the last character that fits together with the dots. */
	const char *end = p;
	for (; *p && n < max; n++) {
		p++;
		while (((unsigned char)*p & 0xc0) == 0x80)
			p++;
		if (n + 4 <= max)
			end = p;
	}
	if (!*p) {
		table_cell(t, text);
		return;
	}
	char *cut = xasprintf("%.*s...", (int)(end - text), text);
	table_cell(t, cut);
	free(cut);
}

void table_cellf(struct table *t, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *s = xvasprintf(fmt, ap);
	va_end(ap);
	table_cell(t, s);
	free(s);
}

size_t table_rows(const struct table *t)
{
	return t->n / t->columns;
}

/* Returns the columns that a text needs on a terminal, counting one per code point. */
static size_t shown_width(const char *s)
{
	size_t n = 0;
	for (; *s; s++) {
		if (((unsigned char)*s & 0xc0) != 0x80)
			n++;
	}
	return n;
}

static size_t terminal_width(void)
{
	struct winsize w;
	if (isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_col)
		return w.ws_col;
	return (size_t)-1;
}

/* Returns the width of the terminal, or a width that suits files. */
static size_t print_width(void)
{
	size_t width = terminal_width();
	return width == (size_t)-1 || width < 40 ? FILE_WIDTH : width;
}

void print_line(const char *head, const char *value)
{
	if (!value || !*value || strcmp(value, "-") == 0)
		return;
	char *safe = print_safe(value);
	printf("%s%-*s%s %s\n", print_bold(), HEAD_WIDTH, head, print_reset(), safe);
	free(safe);
}

void print_sentence(const char *head, const char *value)
{
	char *local = print_local(value);
	print_line(head, local);
	free(local);
}

void print_items(const char *head, char *const *items, size_t n)
{
	size_t width = print_width(), used = 0;
	for (size_t i = 0; i < n; i++) {
		char *safe = print_safe(items[i]);
		size_t need = shown_width(safe);
		if (i && used + 2 + need > width) {
			putchar('\n');
			used = 0;
		}
		if (!used)
			printf("%s%-*s%s ", print_bold(), HEAD_WIDTH, i ? "" : head, print_reset());
		else
			fputs("  ", stdout);
		used += used ? 2 + need : HEAD_WIDTH + 1 + need;
		fputs(safe, stdout);
		free(safe);
	}
	if (n)
		putchar('\n');
}

static void put_cell(const char *s, size_t width, int right, int last, size_t room)
{
	size_t n = shown_width(s);
	if (last && n > room && room > 1) {
		const char *end = s;
		for (size_t k = 0; *end && k < room; end++) {
			if (((unsigned char)end[1] & 0xc0) != 0x80)
				k++;
		}
		printf("%.*s", (int)(end - s), s);
		return;
	}
	if (right)
		printf("%*s%s", (int)(width - n), "", s);
	else if (last)
		fputs(s, stdout);
	else
		printf("%s%*s", s, (int)(width - n), "");
}

static void put_row(const struct table *t, char *const *cells, const size_t *width, int head, size_t terminal)
{
	size_t used = 0;
	for (size_t c = 0; c < t->columns; c++) {
		const char *s = cells[c];
		int right = t->heads[c][0] == '>';
		if (head && right)
			s++;
		const char *colour = head ? print_bold() : print_status_colour(s);
		fputs(colour, stdout);
		put_cell(s, width[c], right, c + 1 == t->columns, terminal > used ? terminal - used : 1);
		if (*colour)
			fputs(print_reset(), stdout);
		used += width[c] + 2;
		if (c + 1 < t->columns)
			fputs("  ", stdout);
	}
	putchar('\n');
}

void table_print(struct table *t)
{
	size_t *width = xcalloc(t->columns, sizeof(size_t)), terminal = terminal_width();
	for (size_t c = 0; c < t->columns; c++) {
		width[c] = shown_width(t->heads[c]) - (t->heads[c][0] == '>');
		for (size_t r = 0; r < table_rows(t); r++) {
			size_t n = shown_width(t->cells[r * t->columns + c]);
			if (n > width[c])
				width[c] = n;
		}
	}
	put_row(t, t->heads, width, 1, terminal);
	for (size_t r = 0; r < table_rows(t); r++)
		put_row(t, t->cells + r * t->columns, width, 0, terminal);
	free(width);
}

void table_destroy(struct table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		free(t->cells[i]);
	for (size_t i = 0; i < t->columns; i++)
		free(t->heads[i]);
	free(t->cells);
	free(t->heads);
	free(t);
}

static char *next_buffer(void)
{
	static char buffers[16][256];
	static unsigned next;
	return buffers[next++ % 16];
}

const char *print_member(const cJSON *obj, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);
	if (cJSON_IsString(v))
		return *v->valuestring ? v->valuestring : "-";
	if (cJSON_IsBool(v))
		return cJSON_IsTrue(v) ? "yes" : "no";
	if (cJSON_IsNumber(v)) {
		char *out = next_buffer();
		double d = v->valuedouble;
		if (fabs(d) < 1e15 && d == floor(d))
			snprintf(out, 256, "%.0f", d);
		else
			snprintf(out, 256, "%.6g", d);
		return out;
	}
	return "-";
}

double print_number(const cJSON *obj, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);
	return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

uint64_t print_time_us(const char *s)
{
	struct tm tm = {0};
	unsigned us = 0;
	if (!s || sscanf(s, "%d-%d-%dT%d:%d:%d.%6uZ", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
	                 &tm.tm_min, &tm.tm_sec, &us) < 6)
		return 0;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	time_t t = timegm(&tm);
	return t < 0 ? 0 : (uint64_t)t * 1000000 + us;
}

static const char *local_time(uint64_t us, const char *form)
{
	char *out = next_buffer();
	time_t t = (time_t)(us / 1000000);
	struct tm tm;
	localtime_r(&t, &tm);
	strftime(out, 256, form, &tm);
	return out;
}

const char *print_time(const char *rfc3339)
{
	uint64_t us = print_time_us(rfc3339);
	return us ? local_time(us, "%Y-%m-%d %H:%M:%S") : "-";
}

const char *print_time_zone(const char *rfc3339)
{
	uint64_t us = print_time_us(rfc3339);
	return us ? local_time(us, "%Y-%m-%d %H:%M:%S %Z") : "-";
}

const char *print_zone_head(const char *head)
{
	char *out = next_buffer(), zone[64];
	snprintf(zone, sizeof(zone), "%s", local_time(clock_real_us(clock_real()), "%Z"));
	snprintf(out, 256, "%.100s (%s)", head, zone);
	return out;
}

/* Returns the bytes of a time in UTC at p, and sets *us; 0: no time begins there. */
static size_t utc_at(const char *p, uint64_t *us)
{
	static const char form[] = "dddd-dd-ddxdd:dd:dd";
	char text[24];
	size_t n = sizeof(form) - 1;
	for (size_t i = 0; i < n; i++) {
		int right = form[i] == 'd'   ? p[i] >= '0' && p[i] <= '9'
		            : form[i] == 'x' ? p[i] == 'T' || p[i] == ' '
		                             : p[i] == form[i];
		if (!right)
			return 0;
	}
	snprintf(text, sizeof(text), "%.*sZ", (int)n, p);
	text[10] = 'T';
	*us = print_time_us(text);
	if (p[10] == ' ')
		return *us && strncmp(p + n, " UTC", 4) == 0 ? n + 4 : 0;
	if (p[n] == '.')
		n += 1 + strspn(p + n + 1, "0123456789");
	return *us && p[n] == 'Z' ? n + 1 : 0;
}

char *print_local(const char *text)
{
	size_t room = strlen(text ? text : "") + 1, k = 0, n;
	char *out = xmalloc(room);
	for (const char *p = text ? text : ""; *p; p += n) {
		uint64_t us;
		n = utc_at(p, &us);
		const char *with = n ? local_time(us, "%Y-%m-%d %H:%M:%S %Z") : p;
		size_t add = n ? strlen(with) : 1;
		if (!n)
			n = 1;
		if (add > n)
			out = xrealloc(out, room += add - n);
		memcpy(out + k, with, add);
		k += add;
	}
	out[k] = 0;
	return out;
}

static const char *span_text(uint64_t us)
{
	char *out = next_buffer();
	if (us < 10000000) {
		snprintf(out, 256, "%.1fs", (double)us / 1e6);
		return out;
	}
	return str_duration(us / 1000000, out, 256);
}

const char *print_span(const char *from, const char *to)
{
	uint64_t a = print_time_us(from), b = to ? print_time_us(to) : clock_real_us(clock_real());
	return !a || b < a ? "-" : span_text(b - a);
}

const char *print_ran(const cJSON *job)
{
	const cJSON *s = cJSON_GetObjectItemCaseSensitive(job, "ran_s");
	const char *from = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(job, "started_at"));
	if (!s && from) /* an older controller */
		return print_span(from, cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(job, "ended_at")));
	return cJSON_IsNumber(s) && s->valuedouble >= 0 && s->valuedouble < 1e12
	           ? span_text((uint64_t)(s->valuedouble * 1e6 + 0.5))
	           : "-";
}

char *print_spark(const double *v, size_t n, size_t width)
{
	static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	double lo = INFINITY, hi = -INFINITY;
	for (size_t i = 0; i < n; i++) {
		if (isfinite(v[i])) {
			lo = fmin(lo, v[i]);
			hi = fmax(hi, v[i]);
		}
	}
	if (width > n)
		width = n;
	char *out = xmalloc(width * 4 + 1), *o = out;
	*o = 0;
	for (size_t i = 0; i < width; i++) {
		double x = v[i * n / width];
		const char *bar = " ";
		if (isfinite(x))
			bar = bars[hi > lo ? (int)((x - lo) / (hi - lo) * 7.0 + 0.5) : 0];
		o = stpcpy(o, bar);
	}
	return out;
}

void print_warnings(const cJSON *answer)
{
	const cJSON *w;
	cJSON_ArrayForEach (w, cJSON_GetObjectItemCaseSensitive(answer, "warnings")) {
		char *safe = print_safe(cJSON_IsString(w) ? w->valuestring : "");
		fprintf(stderr, "Note: %s\n", safe);
		free(safe);
	}
}
