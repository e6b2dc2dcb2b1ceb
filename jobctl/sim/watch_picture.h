/*
 * watch_picture: a recorded curve as SVG, with the onsets of its alarms and the steps of its actions. The
 * points are collected in columns (least and greatest value), so that a picture of a million points is as
 * small as one of ten.
 */
#ifndef HEARTH_JOBCTL_SIM_WATCH_PICTURE_H
#define HEARTH_JOBCTL_SIM_WATCH_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct watch_picture {
	struct watch_picture_point {
		int64_t step;
		double value;
	} * points;
	struct watch_picture_mark {
		int64_t step;
		int action; /* else an alarm */
	} * marks;
	size_t n_points, max_points, n_marks, max_marks;
};

void watch_picture_init(struct watch_picture *p);
void watch_picture_fini(struct watch_picture *p);
void watch_picture_add(struct watch_picture *p, int64_t step, double value);
void watch_picture_mark(struct watch_picture *p, int64_t step, int action);
int watch_picture_write(const struct watch_picture *p, const char *path, const char *title, struct err *e);

#endif
