/*
 * lookup: the addresses of a host's name, without holding up the loop. An address in numbers needs no
 * look-up and is there at once; a name is looked up by the system's resolver, which blocks for as long as it
 * likes, on a thread of its own.
 *
 * Cancelling leaves the thread behind: it ends when the resolver lets go of it, and what it found is dropped.
 * At most LOOKUP_MAX such threads run at a time.
 */
#ifndef HEARTH_COMMON_NET_LOOKUP_H
#define HEARTH_COMMON_NET_LOOKUP_H

#include <netdb.h>

#include "common/base/err.h"
#include "common/os/loop.h"

#define LOOKUP_MAX 16

struct lookup;
/* As getaddrinfo, which is what NULL stands for. */
typedef int (*lookup_fn)(const char *host, const char *port, const struct addrinfo *hints,
                         struct addrinfo **out);
/* found: on the loop, once, never before this returns; addrs are the callee's (freeaddrinfo), NULL: why. The
 * handle is void then. NULL: too many look-ups hang. */
struct lookup *lookup_start(struct loop *l, const char *host, const char *port, lookup_fn fn,
                            void (*found)(struct addrinfo *addrs, const struct err *why, void *arg),
                            void *arg, struct err *e);
void lookup_cancel(struct lookup *k); /* NULL allowed */
unsigned lookup_threads(void);        /* that have not come back from the resolver, cancelled ones too */

#endif
