/*
 * sched_again: what a cluster's scheduler was told, in order, told to the scheduler library once more.
 *
 * One line an input, from standard input; `start` asks for the next decision and prints it:
 *   now S                                    the library's time
 *   weight PATH W                            of a queue, or a user in one
 *   node ID GPUS SLOTS USABLE                new or changed
 *   job ID OWNER QUEUE INSTANCES GPUS LIMIT  is queued
 *   release ID NODE                          gives back what it holds there
 *   end ID WELL                              has ended
 *   start                                    -> "ID NODE,NODE,...", or "none"
 * Options: the way of backfill: easy (if not given), conservative, none.
 */
#include "scheduler/sched.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_node(struct sched *s, uint64_t id, unsigned gpus, unsigned slots, int usable)
{
	struct sched_gpu *g = calloc(gpus + 1, sizeof *g);

	for (unsigned i = 0; i < gpus; i++)
		g[i] = (struct sched_gpu){.index = i};
	sched_node_set(
	    s, &(struct sched_node){.id = id, .slots = slots, .gpus = g, .n_gpus = gpus, .usable = usable});
	free(g);
}

static void on_job(struct sched *s, const char *line)
{
	char owner[64], queue[64];
	struct sched_group g = {.ranks = 1, .cpus_per_rank = 1};
	struct sched_job j = {.groups = &g, .n_groups = 1, .owner = owner, .queue = queue};

	if (sscanf(line, "%" SCNu64 " %63s %63s %" SCNu32 " %" SCNu32 " %" SCNu64, &j.id, owner, queue,
	           &g.instances, &g.gpus, &j.limit_s) != 6)
		exit(2);
	j.order = j.id;
	sched_job_add(s, &j);
}

static void on_start(struct sched *s)
{
	struct sched_decision *d = sched_step(s);

	if (!d) {
		puts("none");
		return;
	}
	printf("%" PRIu64 " ", d->job);
	for (uint32_t i = 0; i < d->n; i++)
		printf("%s%" PRIu64, i ? "," : "", d->places[i].node);
	putchar('\n');
	sched_job_started(s, d->job);
	sched_decision_free(d);
}

static int take(struct sched *s, const char *line)
{
	char path[128];
	uint64_t a, b;
	unsigned c, d;
	int yes;
	double w;

	if (sscanf(line, "now %" SCNu64, &a) == 1)
		sched_now(s, a);
	else if (sscanf(line, "weight %127s %lf", path, &w) == 2)
		sched_queue_set(s, &(struct sched_queue){.path = path, .weight = w});
	else if (sscanf(line, "node %" SCNu64 " %u %u %d", &a, &c, &d, &yes) == 4)
		on_node(s, a, c, d, yes);
	else if (strncmp(line, "job ", 4) == 0)
		on_job(s, line + 4);
	else if (sscanf(line, "release %" SCNu64 " %" SCNu64, &a, &b) == 2)
		sched_job_release_place(s, a, b);
	else if (sscanf(line, "end %" SCNu64 " %d", &a, &yes) == 2)
		sched_job_finished(s, a, yes);
	else if (strcmp(line, "start\n") == 0)
		on_start(s);
	else
		return -1;
	return 0;
}

int main(int argc, char **argv)
{
	struct sched_policy p = {.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1, .effort = 200000};
	struct sched *s = sched_create();
	char line[512];
	int rc = 0;

	if (argc > 1)
		p.backfill = strcmp(argv[1], "conservative") == 0 ? SCHED_CONSERVATIVE
		             : strcmp(argv[1], "none") == 0       ? SCHED_BLOCK
		                                                  : SCHED_RESERVE;
	sched_policy_set(s, &p);
	while (rc == 0 && fgets(line, sizeof line, stdin))
		rc = take(s, line);
	if (rc < 0)
		fprintf(stderr, "sched_again: not understood: %s", line);
	sched_destroy(s);
	return rc < 0 ? 2 : 0;
}
