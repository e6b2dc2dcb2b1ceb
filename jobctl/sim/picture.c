/*
 * picture: see picture.h.
 *
 * Time is cut into as many bins as the drawing has columns, and each bin shows the mean over it, so that a
 * picture of a million jobs is as small as one of ten. Waiting times reach from seconds to weeks: their axis
 * is logarithmic.
 */
#include "jobctl/sim/picture.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define WIDTH  960
#define LEFT   70
#define PLOT   860 /* also the number of bins */
#define HEIGHT 180
#define SIZES  24 /* bars at most; larger jobs share the last */

struct series {
	double use[PLOT], queue[PLOT];
	uint64_t first, last;
	double most_waiting;
};

/* Adds `weight` for the time from..to, as a share of each bin. */
static void count_bucket(double *bins, const struct series *s, uint64_t from, uint64_t to, double weight)
{
	double width = (double)(s->last - s->first) / PLOT, a = (double)(from - s->first) / width,
	       b = (double)(to - s->first) / width;

	for (int i = (int)a; i < PLOT && (double)i < b; i++) {
		double lo = a > i ? a : i, hi = b < i + 1 ? b : i + 1;

		if (hi > lo)
			bins[i] += weight * (hi - lo);
	}
}

static void collect_series(struct series *s, const struct sim_conf *conf, const struct sim_result *r)
{
	double all = (double)conf->nodes * conf->gpus_per_node;

	s->first = r->n ? r->jobs[0].submit_s : 0;
	s->last = s->first + (r->makespan_s ? r->makespan_s : 1);
	for (size_t i = 0; i < r->n; i++) {
		const struct sim_job *j = &r->jobs[i];

		if (j->end_s == SIM_NEVER)
			continue;
		count_bucket(s->use, s, j->start_s, j->end_s, j->gpus / all);
		count_bucket(s->queue, s, j->submit_s, j->start_s, 1);
	}
	for (size_t i = 0; i < r->n_stopped; i++) {
		const struct sim_stopped *x = &r->stopped[i];

		if (r->jobs[x->job].end_s == SIM_NEVER)
			continue;
		count_bucket(s->use, s, x->start_s, x->end_s, r->jobs[x->job].gpus / all);
		count_bucket(s->queue, s, x->start_s, x->end_s, -1);
	}
	s->most_waiting = 1;
	for (int i = 0; i < PLOT; i++)
		if (s->queue[i] > s->most_waiting)
			s->most_waiting = s->queue[i];
}

static void draw_text(FILE *f, double x, double y, const char *anchor, const char *s)
{
	fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, s);
}

static void draw_frame(FILE *f, int top, const char *title)
{
	fprintf(f, "<text class=\"t\" x=\"%d\" y=\"%d\">%s</text>\n", LEFT, top - 8, title);
	fprintf(f, "<rect class=\"f\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT, top, PLOT, HEIGHT);
}

static void draw_area(FILE *f, const char *class, int top, const double *v, double most)
{
	fprintf(f, "<path class=\"%s\" d=\"M%d %d", class, LEFT, top + HEIGHT);
	for (int i = 0; i < PLOT; i++) {
		double y = top + HEIGHT * (1 - v[i] / most);

		fprintf(f, "L%d %.1fh1", LEFT + i, y);
	}
	fprintf(f, "V%dZ\"/>\n", top + HEIGHT);
}

static void time_axis(FILE *f, int top, const struct series *s)
{
	double days = (double)(s->last - s->first) / 86400;
	int hours = days < 3;
	double span = hours ? days * 24 : days, step = pow(10, floor(log10(span / 4 + 1e-9)));

	while (span / step > 10)
		step *= span / step > 25 ? 5 : 2;
	for (double v = 0; v <= span; v += step) {
		char label[40];

		snprintf(label, sizeof(label), "%.6g %s", v, hours ? "h" : "d");
		draw_text(f, LEFT + v / span * PLOT, top + HEIGHT + 14, "middle", label);
	}
}

static void over_time(FILE *f, const struct series *s)
{
	char label[40];

	draw_frame(f, 60, "Use of the GPUs");
	draw_area(f, "u", 60, s->use, 1);
	draw_text(f, LEFT - 6, 70, "end", "100 %");
	draw_text(f, LEFT - 6, 60 + HEIGHT, "end", "0 %");
	time_axis(f, 60, s);
	draw_frame(f, 300, "Jobs that wait");
	draw_area(f, "q", 300, s->queue, s->most_waiting);
	snprintf(label, sizeof(label), "%.0f", ceil(s->most_waiting));
	draw_text(f, LEFT - 6, 310, "end", label);
	draw_text(f, LEFT - 6, 300 + HEIGHT, "end", "0");
	time_axis(f, 300, s);
}

/* ---- waiting time by size -------------------------------------------------------------------- */

struct bucket { /* sizes over the last bound, up to this one */
	uint32_t upto;
	uint64_t *waits;
	size_t n;
};

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Powers of two: sizes of jobs are mostly that. */
static size_t draw_buckets(struct bucket *b, const struct sim_result *r)
{
	size_t n = 0;

	for (size_t k = 0; k < SIZES; k++)
		b[k] = (struct bucket){.upto = k + 1 < SIZES ? 1u << k : UINT32_MAX,
		                       .waits = xcalloc(r->n + 1, sizeof(uint64_t))};
	for (size_t i = 0; i < r->n; i++) {
		size_t k = 0;

		while (r->jobs[i].gpus > b[k].upto)
			k++;
		if (r->jobs[i].end_s != SIM_NEVER)
			b[k].waits[b[k].n++] = r->jobs[i].waited_s;
	}
	for (size_t k = 0; k < SIZES; k++) {
		qsort(b[k].waits, b[k].n, sizeof(*b[k].waits), by_value);
		if (b[k].n)
			n = k + 1;
	}
	return n;
}

static double height_of(double wait_s)
{
	return HEIGHT * log10(wait_s + 1) / 8; /* 10^8 s are three years */
}

static void draw_bar(FILE *f, const char *class, double x, double w, double wait_s)
{
	double h = height_of(wait_s) < HEIGHT ? height_of(wait_s) : HEIGHT;

	fprintf(f, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", class, x,
	        540 + HEIGHT - h, w, h);
}

static void by_size(FILE *f, const struct sim_result *r)
{
	static const struct {
		double s;
		const char *name;
	} marks[] = {{0, "0"}, {59, "1 min"}, {3599, "1 h"}, {86399, "1 d"}, {2591999, "30 d"}};
	struct bucket b[SIZES];
	size_t n = draw_buckets(b, r);
	double w = n ? (double)PLOT / (double)n : PLOT;

	draw_frame(f, 540, "Waiting time by GPUs of the job: mean (dark), 95 of 100 (light), longest (line)");
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++)
		draw_text(f, LEFT - 6, 540 + HEIGHT - height_of(marks[i].s), "end", marks[i].name);
	for (size_t k = 0; k < n; k++) {
		double x = LEFT + w * (double)k, sum = 0, longest;
		char label[64];

		snprintf(label, sizeof(label), b[k].upto > 2 ? "%" PRIu32 "-%" PRIu32 : "%" PRIu32,
		         b[k].upto > 2 ? b[k].upto / 2 + 1 : b[k].upto, b[k].upto);
		draw_text(f, x + w / 2, 540 + HEIGHT + 14, "middle", label);
		snprintf(label, sizeof(label), "%zu jobs", b[k].n);
		draw_text(f, x + w / 2, 540 + HEIGHT + 28, "middle", label);
		if (!b[k].n)
			continue;
		for (size_t i = 0; i < b[k].n; i++)
			sum += (double)b[k].waits[i];
		longest = (double)b[k].waits[b[k].n - 1];
		draw_bar(f, "l", x + w * 0.2, w * 0.6, (double)b[k].waits[(b[k].n * 95 + 99) / 100 - 1]);
		draw_bar(f, "m", x + w * 0.3, w * 0.4, sum / (double)b[k].n);
		fprintf(f, "<path class=\"x\" d=\"M%.1f %.1fh%.1f\"/>\n", x + w * 0.2,
		        540 + HEIGHT - height_of(longest), w * 0.6);
	}
	for (size_t k = 0; k < SIZES; k++)
		free(b[k].waits);
}

int picture_write(const char *path, const struct sim_conf *conf, const struct sim_result *r, struct err *e)
{
	struct series *s = xcalloc(1, sizeof(*s));
	char *out = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&out, &n);
	int rc;

	if (!f) {
		free(s);
		return err_set(e, ERR_INTERNAL, "no memory for the picture");
	}
	collect_series(s, conf, r);
	fprintf(f,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"770\" viewBox=\"0 0 %d 770\">\n"
	        "<style>text{font:11px "
	        "sans-serif;fill:#333}.t{font-size:13px;font-weight:bold}.f{fill:none;stroke:#999}"
	        ".u{fill:#4a8}.q{fill:#48c}.m{fill:#c63}.l{fill:#c63;opacity:.35}.x{stroke:#922;stroke-width:2}</"
	        "style>\n"
	        "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
	        WIDTH, WIDTH);
	fprintf(f,
	        "<text class=\"t\" x=\"%d\" y=\"26\">%s, %" PRIu32 " nodes of %" PRIu32
	        " GPUs: %zu jobs, mean completion %.0f s, mean wait %.0f s, use %.1f %%</text>\n",
	        LEFT, sim_policy_name(conf->policy), conf->nodes, conf->gpus_per_node, r->ended, r->avg_jct_s,
	        r->avg_wait_s, 100 * r->utilization);
	over_time(f, s);
	by_size(f, r);
	fputs("</svg>\n", f);
	fclose(f);
	rc = fs_write_atomic(path, out, n, 0644, e);
	free(out);
	free(s);
	return rc;
}
