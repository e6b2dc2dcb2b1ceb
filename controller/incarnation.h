/*
 * incarnation: the time lines of a cluster. A database that is put back from a backup knows nothing of what
 * came after the backup: it would give ids and epochs again that logs, nodes and outputs have.
 *
 * hearthd compares the database with two files in DATA that no backup of the database holds: `incarnation`
 * (a number, and which file on which machine it is) and `high-water` (store/write/marks.h). When they do not
 * agree, or one is missing, a new incarnation begins:
 *
 *   - ids of jobs and events continue above every id that may have been given;
 *   - the number is in the high bits of each new epoch, so nodes accept new orders, and refuse those of
 *     the lost time line;
 *   - logs that the database does not know go to DATA/lost/NUMBER;
 *   - no blob is removed while DATA/lost has anything in it;
 *   - an event and a line of the log say why.
 *
 * Launches of the lost time line end as others that are not on record (cluster/sync.h). Copies of a whole
 * disk that keep the numbers of its files (snapshots) cannot be recognized: remove DATA/incarnation after
 * such a restore.
 */
#ifndef HEARTH_CONTROLLER_INCARNATION_H
#define HEARTH_CONTROLLER_INCARNATION_H

#include <stdint.h>

#include "common/base/err.h"
#include "common/base/text.h"
#include "store/write/marks.h"

struct store;
struct store_reader;

struct incarnation_facts {
	int has_file, has_marks; /* DATA/incarnation, DATA/high-water */
	int copied;              /* the files were copied from another place */
	uint64_t file;           /* number in DATA/incarnation */
	struct store_marks marks;
	int in_store; /* the database has a number */
	uint64_t store, first_job;
	const char *backup; /* when the database was copied by --backup; NULL: it was not */
	uint64_t last_job, last_event;
	uint64_t now_us;
};

struct incarnation {
	uint64_t number, first_job, first_event; /* for struct core_config */
	int is_new;                              /* it begins with this start; why says why */
	int unrecorded;                          /* the database does not have the number */
	int unwritten;                           /* DATA/incarnation does not have it */
	uint64_t logs_set_aside;
	char why[TEXT_SIZE];
};

/* Decides. Pure. */
void incarnation_judge(const struct incarnation_facts *f, struct incarnation *out);
/* Reads the files; before the store is opened, which makes high-water. */
void incarnation_read(const char *data_dir, struct incarnation_facts *f);
/* Adds the facts of the database, decides, and brings the files in DATA into order. */
int incarnation_begin(const char *data_dir, struct incarnation_facts *f, struct store *s,
                      struct store_reader *r, struct incarnation *out, struct err *e);

#endif
