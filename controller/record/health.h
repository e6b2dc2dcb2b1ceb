/*
 * health: what went wrong with a node lately, and how much it is doubted for that.
 *
 * A launch that the node failed, and its loss, count 1; a connection that broke off 1/2. Each counts half as
 * much after six hours, and is forgotten after a day. The doubt is a small number, so that the scheduler is
 * told seldom: 0 healthy, 1 from a sum of 3/4 on, 2 from 2, 3 from 4. A single broken connection is no doubt.
 * All of it is in memory: it begins anew with hearthd.
 */
#ifndef HEARTH_CONTROLLER_RECORD_HEALTH_H
#define HEARTH_CONTROLLER_RECORD_HEALTH_H

#include <stddef.h>
#include <stdint.h>

#define TROUBLE_KEPT   16 /* the newest; more would not raise the doubt */
#define TROUBLE_DAY_US 86400000000u

enum trouble_kind { TROUBLE_CONNECTION, TROUBLE_LAUNCH, TROUBLE_LOST, TROUBLE_KINDS };
struct trouble {
	struct {
		uint64_t at_us; /* boot */
		enum trouble_kind kind;
	} of[TROUBLE_KEPT]; /* oldest first */
	uint32_t n;
	uint64_t last_us; /* real */
	char last[200];   /* what the newest was */
};

void trouble_add(struct trouble *t, enum trouble_kind kind, const char *text, uint64_t boot_us,
                 uint64_t real_us);
uint32_t trouble_doubt(const struct trouble *t, uint64_t boot_us);
/* When it is less; UINT64_MAX: it is 0. */
uint64_t trouble_next_us(const struct trouble *t, uint64_t boot_us);
void trouble_count(const struct trouble *t, uint64_t boot_us, uint32_t n[TROUBLE_KINDS]);
/* "2 launches failed and the connection was lost within a day"; "" when nothing was. */
const char *trouble_text(const struct trouble *t, uint64_t boot_us, char *out, size_t size);

#endif
