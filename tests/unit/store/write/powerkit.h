/*
 * powerkit: one life of a store, as numbered transactions that touch every kind of record, and what the
 * database must hold after the first k of them. For tests that let the storage fail.
 */
#ifndef HEARTH_TESTS_UNIT_STORE_WRITE_POWERKIT_H
#define HEARTH_TESTS_UNIT_STORE_WRITE_POWERKIT_H

#include "tests/unit/store/storekit.h"

#define LIFE_STEPS 36 /* six jobs of six steps each */

/* Bytes of one specification in it, 200,000 at first: more than 4 MiB make the writer copy the WAL into the
 * database while it rests, and begin it anew. */
void life_large(size_t bytes);
struct store_txn *life_txn(unsigned step); /* 1..LIFE_STEPS; its event has that id */

/* Everything in the tables of the database but for what can be made anew; malloc'ed. */
char *life_dump(const char *path);
/* What life_dump gives after each of the first LIFE_STEPS transactions ([0]: none), from a run without
 * faults. */
const char *const *life_expected(void);

/* Opens the database as it was left and looks: not less than the first `acked` transactions, and nothing but
 * a whole number of them; --verify finds nothing, before and after the projections were made anew; the next
 * transaction works. 0, or -1 with a line in why. */
int life_check(const char *path, unsigned acked, char *why, size_t size);

#endif
