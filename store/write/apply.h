/*
 * apply: the operations of a transaction as SQL.
 */
#ifndef HEARTH_STORE_WRITE_APPLY_H
#define HEARTH_STORE_WRITE_APPLY_H

#include "store/write/wdb.h"

/* Applies all operations of t inside the transaction that is open. */
int wdb_apply(struct wdb *w, const struct store_txn *t, struct err *e);

#endif
