/*
 * sealed: a small record that is either whole or recognised as not being so.
 *
 * u32 magic | u32 version | u32 body length | u32 CRC-32 of the body | body | any padding. Big-endian.
 */
#ifndef HEARTH_SHIM_SEALED_H
#define HEARTH_SHIM_SEALED_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include <stddef.h>
#include <stdint.h>

#define SEALED_HEADER_SIZE 16

uint32_t sealed_crc(const void *p, size_t n); /* CRC-32 as in IEEE 802.3 */
/* Appends header and body to out; fails (nothing appended) when out's limit is too small. */
int sealed_put(struct buf *out, uint32_t magic, uint32_t version, const struct buf *body);
/* Checks what was read from a file and makes *body a view into it. ERR_PROTOCOL names what is wrong. */
int sealed_get(const void *data, size_t n, uint32_t magic, uint32_t version, struct buf *body, struct err *e);
/* The same for several versions; *version is that of the file. */
int sealed_get_since(const void *data, size_t n, uint32_t magic, uint32_t oldest, uint32_t newest,
                     uint32_t *version, struct buf *body, struct err *e);

#endif
