/*
 * from_row: see from_row.h.
 */
#include "store/read/from_row.h"

#include "common/base/xalloc.h"
#include "store/base/columns.h"
#include "store/base/rows.h"
#include "store/base/sqlh.h"

#define READ_TEXT(col)     sqlh_dup(st, col)
#define READ_NULLABLE(col) sqlh_dup(st, col)
#define READ_FILLED(col)   sqlh_dup(st, col)
#define READ_U64(col)      sqlh_u64(st, col)
#define READ_U32(col)      sqlh_u32(st, col)
#define READ_U8(col)       (uint8_t) sqlh_u32(st, col)
#define READ_I64(col)      sqlite3_column_int64(st, col)

#define READ_COLUMN(kind, name, how) r->name = READ_##kind(col++);

void job_from_row(sqlite3_stmt *st, struct job_row *r, int with_spec)
{
	int col = 0;

	JOB_TABLE(READ_COLUMN, READ_COLUMN)
	r->spec = with_spec ? sqlh_dup(st, col) : NULL;
	r->run = with_spec ? sqlh_dup(st, col + 1) : NULL;
}

void attempt_from_row(sqlite3_stmt *st, struct attempt_row *r)
{
	int col = 0;

	ATTEMPT_TABLE(READ_COLUMN, READ_COLUMN)
}

void rank_from_row(sqlite3_stmt *st, struct rank_row *r)
{
	int col = 0;

	RANK_TABLE(READ_COLUMN, READ_COLUMN)
}

void checkpoint_from_row(sqlite3_stmt *st, struct checkpoint_row *r)
{
	int col = 0;

	CHECKPOINT_TABLE(READ_COLUMN, READ_COLUMN)
}

void checkpoint_part_from_row(sqlite3_stmt *st, struct checkpoint_part_row *r)
{
	int col = 0;

	CHECKPOINT_PART_TABLE(READ_COLUMN, READ_COLUMN)
}

void pool_from_row(sqlite3_stmt *st, struct pool_row *r)
{
	int col = 0;

	POOL_TABLE(READ_COLUMN, READ_COLUMN)
}

void pool_job_from_row(sqlite3_stmt *st, struct pool_job_row *r)
{
	int col = 0;

	POOL_JOB_TABLE(READ_COLUMN, READ_COLUMN)
}

/* In keys an empty text stands for NULL. */
static char *dup_or_null(sqlite3_stmt *st, int col)
{
	const char *s = sqlh_str(st, col);

	return s && *s ? xstrdup(s) : NULL;
}

void artifact_from_row(sqlite3_stmt *st, struct artifact_row *r)
{
	*r = (struct artifact_row){
	    .job = sqlh_u64(st, 0),
	    .attempt = sqlh_u32(st, 1),
	    .kind = sqlh_dup(st, 2),
	    .node = dup_or_null(st, 3),
	    .digest = dup_or_null(st, 4),
	    .uri = dup_or_null(st, 5),
	    .size_bytes = sqlh_u64(st, 6),
	    .files = sqlh_u64(st, 7),
	    .at_us = sqlh_u64(st, 8),
	};
}

void node_from_row(sqlite3_stmt *st, struct node_row *r)
{
	*r = (struct node_row){
	    .id = sqlh_u64(st, 0),
	    .name = sqlh_dup(st, 1),
	    .address = sqlh_dup(st, 2),
	    .state = sqlh_dup(st, 3),
	    .reason = sqlh_dup(st, 4),
	    .cert_fingerprint = sqlh_dup(st, 5),
	    .inventory = sqlh_dup(st, 6),
	    .joined_us = sqlh_u64(st, 7),
	    .seen_us = sqlh_u64(st, 8),
	    .drain = (uint8_t)sqlh_u32(st, 9),
	    .spare = (uint8_t)sqlh_u32(st, 10),
	};
}

void token_from_row(sqlite3_stmt *st, struct token_row *r)
{
	*r = (struct token_row){
	    .id = sqlh_dup(st, 0),
	    .kind = sqlh_dup(st, 1),
	    .secret_hash = sqlh_dup(st, 2),
	    .owner = sqlh_dup(st, 3),
	    .job = sqlh_u64(st, 4),
	    .created_us = sqlh_u64(st, 5),
	    .expires_us = sqlh_u64(st, 6),
	    .used_us = sqlh_u64(st, 7),
	    .used_by = sqlh_dup(st, 8),
	    .scope = dup_or_null(st, 9),
	    .account = dup_or_null(st, 10),
	    .note = dup_or_null(st, 11),
	    .made_with = dup_or_null(st, 12),
	    .seen_us = sqlh_u64(st, 13),
	    .seen_from = dup_or_null(st, 14),
	};
}

void queue_of_row(sqlite3_stmt *st, struct queue_row *r)
{
	*r = (struct queue_row){sqlh_str(st, 0), (uint8_t)sqlh_u32(st, 1), (uint8_t)sqlh_u32(st, 4),
	                        sqlh_u64(st, 2), sqlh_u32(st, 3),          sqlh_u32(st, 5),
	                        sqlh_u32(st, 6)};
}

void reservation_of_row(sqlite3_stmt *st, struct reservation_row *r)
{
	*r = (struct reservation_row){sqlh_str(st, 0), sqlh_str(st, 1), sqlh_str(st, 2),
	                              sqlh_str(st, 3), sqlh_str(st, 4), sqlh_str(st, 5),
	                              sqlh_u64(st, 6), sqlh_u64(st, 7), sqlh_u64(st, 8)};
}

void budget_of_row(sqlite3_stmt *st, struct budget_row *r)
{
	*r = (struct budget_row){sqlh_str(st, 0), sqlh_u64(st, 1), sqlh_str(st, 2), sqlh_str(st, 3)};
}
