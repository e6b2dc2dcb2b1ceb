/*
 * work_queue: questions that wait for a worker, in fair turns.
 *
 * Each user has a line of his own, and the users have turns one after the other. One user has at most
 * WORK_USER_QUEUE questions and at most WORK_USER_THREADS workers. No lock: its owner has one.
 */
#ifndef HEARTH_CONTROLLER_IO_WORK_QUEUE_H
#define HEARTH_CONTROLLER_IO_WORK_QUEUE_H

struct work_queue;
struct work_user;

struct work_turn { /* part of a question */
	struct work_user *user;
	struct work_turn *prev, *next;
};

enum work_added { WORK_ADDED, WORK_FULL, WORK_USER_FULL };

struct work_queue *work_queue_create(void);
void work_queue_destroy(struct work_queue *q); /* empty; NULL allowed */
enum work_added work_queue_add(struct work_queue *q, struct work_turn *t, const char *user);
/* Returns the question that runs next; NULL: none may run now. */
struct work_turn *work_queue_next(struct work_queue *q);
/* Ends the run of a question that work_queue_next returned. */
void work_queue_end(struct work_queue *q, struct work_turn *t);
/* Returns any question that waits, as one that runs; NULL: none waits. */
struct work_turn *work_queue_any(struct work_queue *q);

#endif
