/*
 * metrics: see metrics.h.
 */
#include "jobctl/show/metrics.h"

#include <stdio.h>

#include "jobctl/client/ctx.h"
#include "jobctl/show/print.h"

void metrics_table(const cJSON *metrics, double attempts)
{
	static const char *const heads[] = {"METRIC", ">LAST", ">MIN", ">MAX", ">STEP", ">POINTS", "OF"};
	struct table *t = table_create(heads, 7);
	const cJSON *m;
	cJSON_ArrayForEach (m, metrics) {
		table_cell(t, m->string);
		table_cell(t, print_member(m, "last"));
		table_cell(t, print_member(m, "min"));
		table_cell(t, print_member(m, "max"));
		table_cell(t, print_member(m, "step"));
		table_cell(t, print_member(m, "count"));
		char attempt[48] = "", of[32] = "";
		if (cJSON_IsNumber(jget(m, "attempt")) && print_number(m, "attempt") < attempts)
			snprintf(attempt, sizeof(attempt), ", attempt %.0f", print_number(m, "attempt"));
		if (print_number(m, "ranks") > 1)
			snprintf(of, sizeof(of), " of %.0f", print_number(m, "ranks"));
		table_cellf(t, "rank %s%s%s", print_member(m, "rank"), of, attempt);
	}
	if (table_rows(t))
		table_print(t);
	table_destroy(t);
}
