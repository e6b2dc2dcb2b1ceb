/*
 * sealed: see sealed.h. The checksum guards against torn and damaged files, not against people: who may
 * write the file may also make its checksum.
 */
#include "shim/sealed.h"

#define CRC_POLY 0xedb88320u

uint32_t sealed_crc(const void *p, size_t n)
{
	const uint8_t *at = p;
	uint32_t crc = ~0u;

	/* Bit by bit: the records have a few kilobytes and are written a handful of times in a life. */
	for (size_t i = 0; i < n; i++) {
		crc ^= at[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? CRC_POLY : 0);
	}
	return ~crc;
}

int sealed_put(struct buf *out, uint32_t magic, uint32_t version, const struct buf *body)
{
	size_t n = buf_left(body);
	uint8_t *room;

	if (n > UINT32_MAX || buf_reserve(out, SEALED_HEADER_SIZE + n, &room) < 0)
		return -1;
	buf_put_u32(out, magic);
	buf_put_u32(out, version);
	buf_put_u32(out, (uint32_t)n);
	buf_put_u32(out, sealed_crc(buf_head(body), n));
	return buf_put(out, buf_head(body), n);
}

int sealed_get(const void *data, size_t n, uint32_t magic, uint32_t version, struct buf *body, struct err *e)
{
	uint32_t got;

	return sealed_get_since(data, n, magic, version, version, &got, body, e);
}

int sealed_get_since(const void *data, size_t n, uint32_t magic, uint32_t oldest, uint32_t newest,
                     uint32_t *version, struct buf *body, struct err *e)
{
	uint32_t got_magic, got_version, len, crc;
	struct buf in;

	buf_view(&in, data, n);
	if (buf_get_u32(&in, &got_magic) < 0 || buf_get_u32(&in, &got_version) < 0 ||
	    buf_get_u32(&in, &len) < 0 || buf_get_u32(&in, &crc) < 0)
		return err_set(e, ERR_PROTOCOL, "cut short: %zu bytes", n);
	if (got_magic != magic)
		return err_set(e, ERR_PROTOCOL, "not a file of this kind");
	if (got_version < oldest || got_version > newest)
		return err_set(e, ERR_PROTOCOL, "version %u; this program knows %u", got_version, newest);
	if (len > buf_left(&in))
		return err_set(e, ERR_PROTOCOL, "torn: %u bytes expected, %zu there", len, buf_left(&in));
	if (sealed_crc(buf_head(&in), len) != crc)
		return err_set(e, ERR_PROTOCOL, "torn or damaged: wrong checksum");
	*version = got_version;
	buf_view(body, buf_head(&in), len);
	return 0;
}
