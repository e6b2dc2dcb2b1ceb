/*
 * data_threads_int: what data_threads.c and data_threads_blob.c share.
 */
#ifndef HEARTH_CONTROLLER_FILES_DATA_THREADS_INT_H
#define HEARTH_CONTROLLER_FILES_DATA_THREADS_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/log.h"
#include "common/net/tls.h"
#include "common/os/chan.h"
#include "common/os/loop.h"
#include "controller/files/data_threads.h"
#include "controller/files/log_places.h"
#include "controller/files/log_retry.h"
#include "controller/files/logs/logstore.h"
#include "store/read/reader.h"

#define HUNG_MAX 64

struct worker {
	struct data_threads *b;
	pthread_t thread;
	int started;
	struct loop *loop;
	struct chan *in;
	_Atomic size_t bytes;  /* that queued messages hold */
	_Atomic uint64_t full; /* posts that found no room */
};

struct stream;

struct data_threads {
	struct data_ops ops;
	struct worker logs, blobs;
	char *log_dir;
	struct blobstore *blobstore;
	struct blob_rights *rights;
	_Atomic uint64_t log_bytes;
	struct log_end
	    *_Atomic unsaid; /* ends that found the queue full, newest first; the state thread adds them */
	_Atomic unsigned n_unsaid;
	/* log thread */
	struct logstore *store;
	struct stream *streams;
	struct store_reader *reader;
	struct log_places *places;
	struct log_quota *quota;
	struct log_retry_queue ends;
	uint64_t hung[HUNG_MAX]; /* refused sessions: data that they sent before they closed are dropped */
	unsigned n_hung;
	struct loop_timer *end_timer;
	struct log_limit complaints, strangers;
	/* blob thread */
	struct asker *askers; /* with questions that wait for a right */
	unsigned n_waiting;
	uint64_t rights_seen;
	struct loop_timer *blob_timer;
	struct log_limit blob_strangers;
};

/* data_threads_blob.c, on an I/O thread: takes msg on 0 */
int data_blob_msg(struct data_threads *b, uint64_t session, const char *node, uint16_t type, uint64_t id,
                  void *msg);
void data_blob_retry(void *data_threads);   /* blob thread: the timer of questions that wait */
void data_blob_end(struct data_threads *b); /* drops them; the blob thread has ended */

#endif
