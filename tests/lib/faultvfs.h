/*
 * faultvfs: an SQLite VFS over liedisk: the main database, its WAL and its journals lose power and fail as
 * that says. Shared memory (-shm) goes to the real one; at a cut it is left as garbage or taken away.
 *
 * Becomes SQLite's default, so that the program under test opens its files as always.
 */
#ifndef HEARTH_TESTS_LIB_FAULTVFS_H
#define HEARTH_TESTS_LIB_FAULTVFS_H

void faultvfs_register(void);

#endif
