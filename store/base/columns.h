/*
 * columns: the columns of a job's five tables (job, attempt, rank, checkpoint and its parts), one line each.
 * The struct of a row, the statements that write and read it, the release of its strings, the way from a
 * record to its row and back, and the comparison of --verify are all made from these lines. A new column is a
 * line here and a migration.
 *
 * A line is C(kind, name, how); the first one of a table goes to F, so that lists can have commas between.
 *
 *   kind      in C        in SQL
 *   TEXT      char *      text; NULL is stored as NULL
 *   NULLABLE  char *      text; a record without it has a row with NULL, not ""
 *   FILLED    char *      text; NULL is stored as ""
 *   U64, U32, U8, I64     integer
 *
 *   how       in the record (rec.h)                 compared by --verify
 *   KEY       says which row it is                  no
 *   SAME      a field of that name                  yes
 *   UNSEEN    a field of that name                  no: no event has it
 *   MADE      rec.c makes it from other fields      yes
 */
#ifndef HEARTH_STORE_BASE_COLUMNS_H
#define HEARTH_STORE_BASE_COLUMNS_H

/* clang-format off */
#define JOB_TABLE(F, C) \
	F(U64, id, KEY) \
	C(TEXT, name, SAME) \
	C(TEXT, owner, SAME) \
	C(TEXT, experiment, SAME) \
	C(TEXT, notes, SAME) \
	C(TEXT, status, MADE) /* held queued starting running recovering stopping completed failed stopped */ \
	C(I64, priority, SAME) \
	C(TEXT, queue, SAME) \
	C(NULLABLE, bundle, SAME) /* digest of the source tree's manifest; NULL none */ \
	C(U64, created_us, SAME) \
	C(U64, queued_us, SAME) \
	C(U64, started_us, SAME) \
	C(U64, ended_us, SAME) \
	C(I64, exit_code, SAME) /* -1 unknown or none */ \
	C(TEXT, reason, SAME) /* why it is in this state, in words */ \
	C(TEXT, wanted, MADE) /* "" | "stop" | "requeue": what the user asked and is not done yet */ \
	C(U32, attempts, SAME) \
	C(U64, epoch, SAME) \
	C(NULLABLE, idem_key, UNSEEN) /* NULL none */ \
	C(NULLABLE, idem_digest, UNSEEN) /* SHA-256 of the request */ \
	C(U8, pinned, SAME) \
	C(U8, deleted, SAME) \
	C(U32, nodes, SAME) /* asked for, as the next */ \
	C(U32, gpus, SAME) \
	C(TEXT, cleanup, SAME) /* "" | what went wrong in a failed clean-up */ \
	C(U64, array, SAME) /* of a member: the job that it belongs to; its id is array + 1 + its index */ \
	C(U32, members, SAME) /* of an array or a sweep: how many it has; 0: one job */ \
	C(U8, halved, SAME) /* stopped by successive halving */ \
	C(TEXT, rungs, SAME) /* values at its comparisons, parted by blanks; "" none */ \
	C(TEXT, begins, SAME) /* what its next attempt begins with (rec.h); "" what the specification says */ \
	C(U64, ran_us, SAME) /* how long the programs of its attempts ran, of those whose program has ended */ \
	C(U64, runs_since_us, SAME) /* since when the present attempt's program runs; 0: none runs */ \
	C(NULLABLE, run_as, SAME) /* Unix account that runs it; NULL: the account with the owner's name */ \
	C(U64, held_us, SAME) /* how long its ended attempts had their nodes */ \
	C(U32, plan_attempts, SAME) /* restarts until now: struct plan_used, as the next ones */ \
	C(U32, plan_capacity, SAME) \
	C(U32, plan_rollbacks, SAME) \
	C(U32, plan_stuck, SAME) \
	C(U32, plan_unstarted, SAME) \
	C(U64, plan_day_us, SAME) \
	C(U64, plan_mark, SAME) \
	C(TEXT, skip_steps, SAME) /* steps that its next attempt leaves out; "" none */ \
	C(U32, alerts, SAME) /* what its watches have found, in all */ \
	C(TEXT, alert, SAME) /* JSON: the newest one, as in its event, and "at_us"; "" none */ \
	C(U8, begins_asked, SAME) /* 1: a user asked for the step that `begins` has */ \
	C(U64, wants_pool, SAME) /* warm pool that it waits for until its first attempt; 0 none */

#define ATTEMPT_TABLE(F, C) \
	F(U64, job, KEY) \
	C(U32, number, KEY) \
	C(U64, epoch, SAME) \
	C(TEXT, state, MADE) /* preparing ready launching running ending ended */ \
	C(TEXT, outcome, MADE) /* "" while it goes; succeeded failed lost rolled_back preempted stopped */ \
	C(TEXT, cls, MADE) /* class of failure, "" none */ \
	C(TEXT, reason, SAME) \
	C(TEXT, cause, SAME) /* why it was started */ \
	C(TEXT, launch_id, SAME) \
	C(TEXT, token, UNSEEN) /* a secret */ \
	C(TEXT, placement, MADE) /* JSON: [{node, address, gpus:[..], cpus:[..], ranks, group}] */ \
	C(I64, resumed_from_step, SAME) /* -1 none */ \
	C(TEXT, resumed_from, SAME) \
	C(I64, exit_code, SAME) \
	C(I64, signal, SAME) \
	C(U64, started_us, SAME) \
	C(U64, ended_us, SAME) \
	C(TEXT, phases, MADE) /* JSON: [{name, started_us, ended_us}] */ \
	C(U32, master_port, SAME) \
	C(U64, price_uusd, SAME) /* an hour, millionths of a US dollar; 0 not known */ \
	C(FILLED, account, SAME) /* who pays: QUEUE/@OWNER */ \
	C(TEXT, evidence, SAME) /* JSON: what the outcome was judged by (rec.h); "" none */ \
	C(TEXT, plan, SAME) /* JSON: what follows (rec.h); "" it ended as it should, or by request */ \
	C(TEXT, skip_steps, SAME) /* steps that it leaves out, of all rollbacks before it; "" none */ \
	C(TEXT, pool, SAME) /* JSON: {"id", "level", "missed"} of the warm pool that it was placed in; "" none */

#define RANK_TABLE(F, C) \
	F(U64, job, KEY) \
	C(U32, attempt, KEY) \
	C(U32, rank, KEY) \
	C(TEXT, node, MADE) /* name of the machine */ \
	C(U32, node_rank, MADE) \
	C(U32, local_rank, SAME) \
	C(TEXT, state, MADE) /* waiting running exited lost failed */ \
	C(I64, exit_code, SAME) /* -1 none */ \
	C(I64, signal, SAME) /* -1 none */ \
	C(U8, oom, SAME) \
	C(U32, pid, SAME) \
	C(U64, started_us, SAME) \
	C(U64, ended_us, SAME) \
	C(TEXT, text, SAME) /* why it failed to start, or last lines when it failed first */ \
	C(TEXT, ended_by, MADE) /* NULL by itself, order, launcher */

#define CHECKPOINT_TABLE(F, C) \
	F(U64, job, KEY) \
	C(U32, number, SAME) /* counted for each job, from 1 */ \
	C(U32, attempt, SAME) \
	C(I64, step, SAME) /* -1 unknown */ \
	C(FILLED, name, SAME) /* of the entry in the folder of checkpoints */ \
	C(FILLED, format, SAME) \
	C(FILLED, step_by, SAME) \
	C(U64, at_us, SAME) /* when its last part was complete */ \
	C(U64, save_ms, SAME) \
	C(NULLABLE, loss, SAME) /* a number as text; NULL none */ \
	C(U32, shards, SAME) /* parts that the program names; 0: it says nothing */ \
	C(U32, expected, SAME) /* parts that the checkpoints before it had */ \
	C(U32, nodes, SAME) /* of its attempt */ \
	C(U32, parent, SAME) /* number of the checkpoint that its attempt began with; 0 none */ \
	C(U8, complete, MADE) \
	C(U8, pinned, SAME) \
	C(U8, set_aside, SAME)

#define CHECKPOINT_PART_TABLE(F, C) \
	F(U64, job, KEY) \
	C(U32, number, KEY) \
	C(U32, part, KEY) \
	C(FILLED, node, SAME) \
	C(U32, node_rank, SAME) \
	C(U32, attempt, SAME) /* with seq: the agent's name for it */ \
	C(U64, seq, SAME) \
	C(TEXT, state, MADE) /* copying verified torn gone */ \
	C(U8, held, SAME) /* its node has a copy */ \
	C(FILLED, digest, SAME) \
	C(FILLED, uri, SAME) /* blob: in hearthd's store */ \
	C(U64, size_bytes, SAME) \
	C(U32, files, SAME) \
	C(NULLABLE, text, SAME) /* why it is torn or gone */
/* Warm pools, and what jobs left in them: records of the cluster (record/pool.h). */
#define POOL_TABLE(F, C) \
	F(U64, id, KEY) \
	C(TEXT, name, SAME) \
	C(TEXT, owner, SAME) \
	C(TEXT, queue, SAME) \
	C(TEXT, state, MADE) /* available in_use terminated */ \
	C(TEXT, cause, SAME) /* of its end; "" none */ \
	C(TEXT, cause_text, SAME) /* the same as a sentence */ \
	C(U64, made_by, SAME) /* job */ \
	C(U64, last_job, SAME) /* that made it, or gave it back last */ \
	C(U8, exclusive, SAME) \
	C(U64, keep_alive_s, SAME) \
	C(TEXT, kept_by, SAME) /* the user that set its time; "" its last job did */ \
	C(U64, idle_uusd, SAME) /* what it cost as long as it was idle, until its last change */ \
	C(U64, made_us, SAME) \
	C(U64, idle_us, SAME) /* since when it is idle */ \
	C(U64, expires_us, SAME) \
	C(U64, chain_us, SAME) /* when the first job of its chain left its first pool */ \
	C(U64, ended_us, SAME) /* 0: it lives */ \
	C(TEXT, environment, SAME) /* JSON: {"requirements", "source", "inputs": [{name, digest}]} */ \
	C(TEXT, parts, MADE) /* JSON: [{node, node_id, gpus, cpus, memory_bytes, disk_bytes, used_by}] */ \
	C(TEXT, ended_parts, SAME) /* JSON: the newest [{node, cause, text, at_us}]; "" none */ \
	C(TEXT, launch, SAME) /* JSON: how its last job was launched; "" unknown */ \
	C(U64, parkings, SAME) /* number of its newest parking; 0 none */ \
	C(U64, park_epoch, SAME) /* of that one */ \
	C(U64, parked, SAME) /* the parking that waits for a job; 0 none */ \
	C(U64, park_us, SAME) /* when that last changed */ \
	C(TEXT, park_text, SAME) /* why nothing is parked; "" nothing went wrong */

#define POOL_JOB_TABLE(F, C) \
	F(U64, job, KEY) \
	C(U64, pool, SAME) /* that it made, or gave back */ \
	C(TEXT, status, MADE) /* available reused terminated */ \
	C(U64, left_us, SAME) \
	C(U64, until_us, SAME) /* 0: it waits still */ \
	C(U64, reused_by, SAME) /* the last job that took some of it; 0 none */ \
	C(TEXT, account, SAME) /* that pays: QUEUE/@OWNER */ \
	C(U64, price_uusd, SAME) /* of an hour, since since_us */ \
	C(U64, since_us, SAME) \
	C(U64, idle_uusd, SAME) /* what it cost until since_us */
/* clang-format on */

/* What the macros below make of a table. */
#define COLUMN_TYPE_TEXT     char *
#define COLUMN_TYPE_NULLABLE char *
#define COLUMN_TYPE_FILLED   char *
#define COLUMN_TYPE_U64      uint64_t
#define COLUMN_TYPE_U32      uint32_t
#define COLUMN_TYPE_U8       uint8_t
#define COLUMN_TYPE_I64      int64_t

#define COLUMN_MEMBER(kind, name, how) COLUMN_TYPE_##kind name;
/* "id", ", name" ...: the list for SQL; the same in a query of several tables: "job.id", ", job.name". */
#define COLUMN_FIRST(kind, name, how)      #name
#define COLUMN_NEXT(kind, name, how)       ", " #name
#define COLUMN_JOB_FIRST(kind, name, how)  "job." #name
#define COLUMN_JOB_NEXT(kind, name, how)   ", job." #name
#define COLUMN_MARK_FIRST(kind, name, how) "?"
#define COLUMN_MARK_NEXT(kind, name, how)  ",?"
#define COLUMN_COUNT(kind, name, how)      +1

#define ATTEMPT_COLUMNS ATTEMPT_TABLE(COLUMN_FIRST, COLUMN_NEXT)
#define RANK_COLUMNS    RANK_TABLE(COLUMN_FIRST, COLUMN_NEXT)

#define CHECKPOINT_COLUMNS      CHECKPOINT_TABLE(COLUMN_FIRST, COLUMN_NEXT)
#define CHECKPOINT_PART_COLUMNS CHECKPOINT_PART_TABLE(COLUMN_FIRST, COLUMN_NEXT)

#define POOL_COLUMNS     POOL_TABLE(COLUMN_FIRST, COLUMN_NEXT)
#define POOL_JOB_COLUMNS POOL_JOB_TABLE(COLUMN_FIRST, COLUMN_NEXT)

#endif
