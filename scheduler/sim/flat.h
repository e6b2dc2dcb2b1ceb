/*
 * flat: N identical nodes of G GPUs, as the comparison rules of the simulator see a cluster: free GPUs are a
 * number a node.
 *
 * Nodes of equal free count stand in one set, a bitmap with two levels of summary above it, so that the best
 * fit (fewest free GPUs that suffice, lowest index) costs a few word operations whatever the number of nodes.
 */
#ifndef HEARTH_SCHEDULER_SIM_FLAT_H
#define HEARTH_SCHEDULER_SIM_FLAT_H
#include <stdint.h>

#define FLAT_MAX_NODES (64u * 64 * 64)
#define FLAT_MAX_GPUS  64u /* per node */

struct flat_set {
	uint64_t *bits, *words, top; /* words: which of bits are not 0; top: which of words */
};
struct flat {
	uint32_t nodes, per_node;
	uint8_t *free;                     /* [nodes] */
	uint32_t count[FLAT_MAX_GPUS + 1]; /* nodes with that many free */
	uint64_t some;                     /* bit f-1: count[f] > 0 */
	struct flat_set set[FLAT_MAX_GPUS + 1];
};

void flat_init(struct flat *f, uint32_t nodes, uint32_t per_node);
void flat_fini(struct flat *f);
/* Spots of a gang: floor(g/G) whole nodes and one for the remainder. */
uint32_t flat_spots(uint32_t per_node, uint32_t gpus);
int flat_fits(const struct flat *f, uint32_t gpus);
/* Where the gang goes, in nodes[flat_spots]: whole nodes first, the one of the remainder last. It must fit.
 */
void flat_find(const struct flat *f, uint32_t gpus, uint32_t *nodes);
void flat_take(struct flat *f, uint32_t gpus, const uint32_t *nodes);
void flat_give(struct flat *f, uint32_t gpus, const uint32_t *nodes);

/* The same by counts alone, for looking ahead. */
struct flat_view {
	uint32_t nodes, per_node;
	uint8_t *free;
	uint32_t count[FLAT_MAX_GPUS + 1];
};
void flat_view_copy(struct flat_view *v, const struct flat *f); /* free must have room for all nodes */
int flat_view_fits(const struct flat_view *v, uint32_t gpus);
void flat_view_change(struct flat_view *v, uint32_t gpus, const uint32_t *nodes, int sign);

#endif
