/*
 * walvfs: an SQLite VFS that joins the writes of the WAL. SQLite writes 24 and then 4,096 bytes for each
 * page; the file system takes as long for the first as for the second.
 *
 * Only for connections with synchronous=FULL: SQLite then syncs the WAL before it tells other connections of
 * what it wrote, and a sync hands everything down. So do reads, and whatever else asks for the file.
 */
#ifndef HEARTH_STORE_BASE_WALVFS_H
#define HEARTH_STORE_BASE_WALVFS_H

/* Its name, for sqlite3_open_v2. Stands on what is the default VFS; NULL: that cannot be,
 * SQLite's own does. */
const char *walvfs(void);

#endif
