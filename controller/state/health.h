/*
 * health: what went wrong with a node lately, and how bad that is.
 *
 * A launch that the node failed counts 1, and so does its loss; a connection that broke off counts 1/2. Each
 * counts half as much after six hours and is forgotten after a day. The level is a small number, so that the
 * scheduler is informed seldom: 0 healthy, 1 from a sum of 3/4 on, 2 from 2, 3 from 4. One broken connection
 * leaves a node healthy. hearthd forgets all of it at its end. Pure.
 */
#ifndef HEARTH_CONTROLLER_STATE_HEALTH_H
#define HEARTH_CONTROLLER_STATE_HEALTH_H

#include <stddef.h>
#include <stdint.h>

#define HEALTH_KEPT   16 /* the newest; more would not raise the level */
#define HEALTH_DAY_US 86400000000u

enum health_event { HEALTH_CONNECTION, HEALTH_LAUNCH, HEALTH_LOST, HEALTH_KINDS };
struct health {
	struct {
		uint64_t at_us; /* boot */
		enum health_event kind;
	} of[HEALTH_KEPT]; /* oldest first */
	uint32_t n;
	uint64_t last_us; /* real */
	char last[200];   /* what the newest was */
};

void health_add(struct health *t, enum health_event kind, const char *text, uint64_t boot_us,
                uint64_t real_us);
uint32_t health_level(const struct health *t, uint64_t boot_us);
/* When it is less; UINT64_MAX: it is 0. */
uint64_t health_next_us(const struct health *t, uint64_t boot_us);
void health_count(const struct health *t, uint64_t boot_us, uint32_t n[HEALTH_KINDS]);
/* "2 launches failed and the connection was lost within a day"; "" when nothing was. */
const char *health_text(const struct health *t, uint64_t boot_us, char *out, size_t size);

#endif
