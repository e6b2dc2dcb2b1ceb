/*
 * metrics: see metrics.h.
 */
#include "jobctl/show/metrics.h"

#include "common/base/text.h"
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
		TEXT(of);
		text_add(&of, "rank %s", print_member(m, "rank"));
		if (print_number(m, "ranks") > 1)
			text_add(&of, " of %.0f", print_number(m, "ranks"));
		if (cJSON_IsNumber(jget(m, "attempt")) && print_number(m, "attempt") < attempts)
			text_add(&of, ", attempt %.0f", print_number(m, "attempt"));
		table_cell(t, of.at);
	}
	if (table_rows(t))
		table_print(t);
	table_destroy(t);
}
