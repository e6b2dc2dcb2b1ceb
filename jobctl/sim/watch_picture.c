/* watch_picture: see watch_picture.h. */
#include "jobctl/sim/watch_picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define WIDTH  960
#define LEFT   70
#define TOP    40
#define PLOT   860
#define HEIGHT 320

struct scale {
	double from, steps, low, high;
};

void watch_picture_init(struct watch_picture *p)
{
	*p = (struct watch_picture){.n_points = 0};
}

void watch_picture_fini(struct watch_picture *p)
{
	free(p->points);
	free(p->marks);
}

void watch_picture_add(struct watch_picture *p, int64_t step, double value)
{
	if (!isfinite(value))
		return;
	if (p->n_points == p->max_points) {
		p->max_points = p->max_points ? 2 * p->max_points : 1024;
		p->points = xreallocarray(p->points, p->max_points, sizeof(*p->points));
	}
	p->points[p->n_points++] = (struct watch_picture_point){step, value};
}

void watch_picture_mark(struct watch_picture *p, int64_t step, int action)
{
	if (p->n_marks == p->max_marks) {
		p->max_marks = p->max_marks ? 2 * p->max_marks : 64;
		p->marks = xreallocarray(p->marks, p->max_marks, sizeof(*p->marks));
	}
	p->marks[p->n_marks++] = (struct watch_picture_mark){step, action};
}

static struct scale find_scale(const struct watch_picture *p)
{
	struct scale s = {INFINITY, 0, INFINITY, -INFINITY};
	double last = -INFINITY;
	for (size_t i = 0; i < p->n_points; i++) {
		s.from = fmin(s.from, (double)p->points[i].step);
		last = fmax(last, (double)p->points[i].step);
		s.low = fmin(s.low, p->points[i].value);
		s.high = fmax(s.high, p->points[i].value);
	}
	if (!p->n_points)
		return (struct scale){0, 1, 0, 1};
	s.steps = last > s.from ? last - s.from : 1;
	if (!(s.high > s.low))
		s.high = s.low + 1;
	return s;
}

static void draw_curve(FILE *f, const struct watch_picture *p, const struct scale *s)
{
	double least[PLOT + 1], most[PLOT + 1];
	for (int i = 0; i <= PLOT; i++) {
		least[i] = INFINITY;
		most[i] = -INFINITY;
	}
	for (size_t i = 0; i < p->n_points; i++) {
		int x = (int)(((double)p->points[i].step - s->from) / s->steps * PLOT);
		least[x] = fmin(least[x], p->points[i].value);
		most[x] = fmax(most[x], p->points[i].value);
	}
	fputs("<path class=\"c\" d=\"", f);
	for (int i = 0, begun = 0; i <= PLOT; i++) {
		if (least[i] > most[i])
			continue;
		fprintf(f, "%c%d %.1fV%.1f", begun++ ? 'L' : 'M', LEFT + i,
		        TOP + HEIGHT * (1 - (least[i] - s->low) / (s->high - s->low)),
		        TOP + HEIGHT * (1 - (most[i] - s->low) / (s->high - s->low)));
	}
	fputs("\"/>\n", f);
}

static void draw_marks(FILE *f, const struct watch_picture *p, const struct scale *s)
{
	for (size_t i = 0; i < p->n_marks; i++) {
		double x = LEFT + ((double)p->marks[i].step - s->from) / s->steps * PLOT;
		fprintf(f, "<path class=\"%c\" d=\"M%.1f %dv%d\"/>\n", p->marks[i].action ? 'r' : 'a', x, TOP,
		        HEIGHT);
	}
}

static void draw_picture(FILE *f, const struct watch_picture *p, const char *title)
{
	struct scale s = find_scale(p);
	fprintf(f,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
	        "font-size=\"12\">\n<style>.c{fill:none;stroke:#246}.a{stroke:#d80}.r{stroke:#c00;stroke-width:2}"
	        ".f{fill:none;stroke:#999}</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
	        WIDTH, TOP + HEIGHT + 40);
	fprintf(f, "<text x=\"%d\" y=\"%d\">%s by step; orange: alarms, red: actions</text>\n", LEFT, TOP - 12,
	        title);
	fprintf(f, "<rect class=\"f\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT, TOP, PLOT, HEIGHT);
	fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.5g</text>\n", LEFT - 6, TOP + 10, s.high);
	fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.5g</text>\n", LEFT - 6, TOP + HEIGHT, s.low);
	fprintf(f, "<text x=\"%d\" y=\"%d\">%.0f</text>\n", LEFT, TOP + HEIGHT + 16, s.from);
	fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.0f</text>\n", LEFT + PLOT, TOP + HEIGHT + 16,
	        s.from + s.steps);
	draw_curve(f, p, &s);
	draw_marks(f, p, &s);
	fputs("</svg>\n", f);
}

int watch_picture_write(const struct watch_picture *p, const char *path, const char *title, struct err *e)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	if (!f)
		return err_set(e, ERR_INTERNAL, "no memory for the picture");
	draw_picture(f, p, title);
	fclose(f);
	int rc = fs_write_atomic(path, text, n, 0644, e);
	free(text);
	return rc;
}
