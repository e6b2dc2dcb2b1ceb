/*
 * The room files: all work on paths that a user controls. The agent opens none of them: it starts
 * hearth-files, a small process that has fully become the job's account, and talks to it over a pair of
 * sockets.
 *
 * channel: the messages between the two, on a SOCK_SEQPACKET pair. A message is one packet with a version, a
 * type, some texts, some numbers, bytes, and at most one descriptor. Each side checks all of it: the account
 * may end the helper or hold it up, so the agent trusts no more than it would trust the account.
 *
 *   agent                helper
 *                        HELLO                            once; or END with the failure
 *   LOOK path            END v: is folder, size
 *   OPEN path            END + descriptor, v: size        a regular file, for reading
 *   READ path max fd     DATA... END                      a file below the folder fd
 *   OUTPUT path          END                              can a folder be made there?
 *   STEPS path step      END                              does the folder hold a checkpoint of that step?
 *   COPY path ... fd     PROGRESS... END v: see serve.h   a file or the contents of a folder into the folder
 * fd MEASURE dir ... fd   END v: files, bytes              a folder below fd PUT ... fd           PROGRESS...
 * END v: bytes, files  a folder below fd into output_uri STORE dir ... fd     (CHUNKS, WANTED, CHUNK
 * DATA...)... DATA... END digest, v: bytes, files
 *   KEEP fd              END                              the folder fd is where checkpoints are held
 *   CALM cpus            END                              work when nothing else does
 *   WATCH dir fd         DATA... END v: 1 listed          wait for a change below fd, list it (listing.h)
 *   HURRY                none                             ends the wait of a WATCH
 *   HOLD dir name to fd  PROGRESS... END v: see serve_keep.c
 *   DIGEST, KEPT, DROP   END                              see serve_keep.c
 *
 * The agent ends the helper by closing its end; half closed (shutdown), the helper cleans up and answers
 * first.
 */
#ifndef HEARTH_AGENT_FILES_CHANNEL_H
#define HEARTH_AGENT_FILES_CHANNEL_H

#include "common/base/err.h"
#include <stdint.h>

#define FILES_VERSION 3 /* raised by every change: both sides are of one installation */
#define FILES_BYTES   (120u * 1024)
#define FILES_PACKET  (128u * 1024)
#define FILES_TEXT    8192u /* longest text */
#define FILES_TEXTS   4
#define FILES_NUMBERS 6
#define FILES_BATCH   256u /* digests in one CHUNKS */

enum files_type {
	FILES_HELLO = 1,
	FILES_END, /* v[0]: enum err_code; texts[0]: its text */
	FILES_LOOK,
	FILES_OPEN,
	FILES_READ,
	FILES_OUTPUT,
	FILES_STEPS,
	FILES_COPY,
	FILES_MEASURE,
	FILES_PUT,
	FILES_STORE,
	FILES_PROGRESS, /* v[0]: bytes done since the last one; v[1]: bytes in all, 0 unknown */
	FILES_DATA,     /* bytes of a file or manifest */
	FILES_CHUNKS,   /* bytes: digests, 64 digits each */
	FILES_WANTED,   /* bytes: for each of them 1, or 0: it is there already */
	FILES_CHUNK,    /* texts[0]: digest, v[0]: size; its DATA follow */
	FILES_KEEP,
	FILES_CALM,
	FILES_WATCH,
	FILES_HURRY, /* has no answer */
	FILES_HOLD,
	FILES_DIGEST,
	FILES_KEPT,
	FILES_DROP,
	FILES_CHECK,
	FILES_TYPES
};

struct files_msg {
	enum files_type type;
	const char *texts[FILES_TEXTS]; /* NULL is sent as "" */
	uint64_t v[FILES_NUMBERS];
	const void *bytes;
	uint32_t n_bytes;
	int fd; /* -1 none. Sent: stays the sender's */
};

struct files_channel {
	int fd; /* the owner's */
	uint8_t *packet;
	char *texts[FILES_TEXTS]; /* of the message received last */
};

int files_channel_pair(int ends[2], struct err *e);
void files_channel_init(struct files_channel *c, int fd);
void files_channel_fini(struct files_channel *c); /* leaves fd open */
/* Waits while the other side does not read: it ends when that side is gone. */
int files_send(struct files_channel *c, const struct files_msg *m, struct err *e);
/* The next message; its texts and bytes are valid until the next call, its descriptor is the caller's.
 * timeout_ms -1: none. ERR_TIMEOUT; ERR_UNAVAILABLE: the other side has closed; ERR_PROTOCOL: no message of
 * this version. */
int files_recv(struct files_channel *c, int timeout_ms, struct files_msg *m, struct err *e);

#endif
