/*
 * numbers: the counters of I/O, for /metrics. Their names are part of the API.
 */
#include <stddef.h>

#include "controller/api/thread.h"
#include "controller/files/data_threads.h"
#include "controller/files/disk_space.h"
#include "controller/io/agents.h"
#include "controller/io/state_link.h"

static uint64_t sum_counter(const struct io_set *s, size_t offset)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < s->n; i++)
		total += atomic_load_explicit(
		    (const _Atomic uint64_t *)(const void *)((const char *)&s->io[i].count + offset),
		    memory_order_relaxed);
	return total;
}

static void add_disk(struct disk_space *space, cJSON *o)
{
	struct disk_state disk;

	if (!space)
		return;
	disk_space_last(space, &disk);
	cJSON_AddNumberToObject(o, "disk_free_bytes", (double)disk.free_bytes);
	cJSON_AddNumberToObject(o, "disk_mark_bytes", (double)disk.mark_bytes);
	cJSON_AddNumberToObject(o, "disk_low", disk.low);
}

cJSON *api_numbers(struct api *a)
{
	static const struct {
		const char *name;
		size_t offset;
	} fields[] = {
	    {"http_connections_total", offsetof(struct http_counters, accepted)},
	    {"http_connections_over_limit_total", offsetof(struct http_counters, over_limit)},
	    {"http_refused_total", offsetof(struct http_counters, refused)},
	    {"http_timeouts_total", offsetof(struct http_counters, timeouts)},
	    {"http_requests_total", offsetof(struct http_counters, requests)},
	    {"http_answers_2xx_total", offsetof(struct http_counters, by_class[2])},
	    {"http_answers_4xx_total", offsetof(struct http_counters, by_class[4])},
	    {"http_answers_5xx_total", offsetof(struct http_counters, by_class[5])},
	    {"http_streamed_bytes_total", offsetof(struct http_counters, bytes_streamed)},
	    {"http_open_connections", offsetof(struct http_counters, open)},
	    {"http_open_streams", offsetof(struct http_counters, streams)},
	};
	cJSON *o = cJSON_CreateObject();
	uint64_t lost = 0;

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		cJSON_AddNumberToObject(o, fields[i].name, (double)sum_counter(a->ios, fields[i].offset));
	for (unsigned i = 0; i < a->ios->n; i++)
		lost += atomic_load(&a->ios->io[i].api->notices_lost);
	cJSON_AddNumberToObject(o, "state_queue", (double)chan_length(a->link->chan));
	cJSON_AddNumberToObject(o, "state_queue_full_total", (double)atomic_load(&a->link->full));
	cJSON_AddNumberToObject(o, "agent_pauses_total", (double)atomic_load(&a->agents->pauses));
	cJSON_AddNumberToObject(o, "notices_lost_total", (double)lost);
	data_stats(a->data, o);
	add_disk(a->disk, o);
	return o;
}
