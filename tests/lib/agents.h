/*
 * agents: agents in memory for the world: they obey orders, report states, forget, disconnect, restart, lose
 * power. Messages wait in queues, in order per connection, and are delivered when the test says so. A queue
 * dies with its connection.
 */
#ifndef HEARTH_TESTS_LIB_AGENTS_H
#define HEARTH_TESTS_LIB_AGENTS_H

#include "tests/lib/world.h"

#define AGENTS_MAX 8
#define AGENT_GPUS 4

struct sim_rank {
	uint8_t state; /* enum proc_state */
	uint32_t exit_code, signo;
	uint64_t started_us, ended_us;
};

struct sim_launch {
	uint64_t job, epoch;
	uint32_t attempt, first_rank, n_ranks;
	uint8_t state, cls, kill, collect, keep, uploaded, started;
	uint32_t gpus[AGENT_GPUS], n_gpus;
	struct sim_rank *ranks;
	uint64_t cleaned_frame; /* frame id of the report CLEANED; its ack lets it be forgotten */
	struct sim_launch *next;
};

struct sim_msg {
	uint16_t type;
	void *msg;
	uint64_t session, frame;
	struct sim_msg *next, *prev;
};

struct sim_agent {
	char name[16];
	uint32_t gpus, slots;
	uint64_t session, last_ack_us, last_beat_us;
	int connected, cut; /* cut: dials in vain */
	struct sim_launch *launches;
	struct sim_msg *in, *out;
};

struct fence { /* greatest epoch seen of a job, per agent */
	uint64_t job, epoch;
};

struct sim {
	struct world *w;
	struct sim_agent agents[AGENTS_MAX];
	struct fence fences[AGENTS_MAX][4096];
	unsigned n;
	const char *bad;                  /* a physical invariant was broken */
	unsigned fail_prepare, fail_rank; /* in 1,000 */
};

void sim_init(struct sim *s, struct world *w, unsigned n, uint32_t gpus, uint32_t slots);
void sim_fini(struct sim *s);
void sim_connect(struct sim *s, unsigned i);
void sim_disconnect(struct sim *s, unsigned i);
void sim_power_off(struct sim *s, unsigned i); /* everything on it is gone; comes back empty */
void sim_all_cut_off(struct sim *s);           /* the controller died: no connection is left */
/* One message of agent i; 0 there was none. */
int sim_deliver_to_agent(struct sim *s, unsigned i);
int sim_deliver_to_core(struct sim *s, unsigned i, int twice);
void sim_work(struct sim *s, unsigned i); /* something goes on, on that machine */
void sim_clock(struct sim *s);            /* beats; ranks of an agent whose lease ran out are killed */

#endif
