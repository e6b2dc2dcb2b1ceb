/*
 * channel: see channel.h.
 *
 *   u32 magic | u16 version | u16 type | FILES_TEXTS texts | FILES_NUMBERS u64 | bytes
 */
#include "agent/files/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/xalloc.h"

#define MAGIC 0x48664c73u /* HfLs */

int files_channel_pair(int ends[2], struct err *e)
{
	int size = 2 * (int)FILES_PACKET;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, errno, "socket pair");
	/* Several packets on their way: the two sides work at the same time. */
	for (int i = 0; i < 2; i++)
		setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	return 0;
}

void files_channel_init(struct files_channel *c, int fd)
{
	*c = (struct files_channel){.fd = fd, .packet = xmalloc(FILES_PACKET)};
}

static void forget_texts(struct files_channel *c)
{
	for (int i = 0; i < FILES_TEXTS; i++) {
		free(c->texts[i]);
		c->texts[i] = NULL;
	}
}

void files_channel_fini(struct files_channel *c)
{
	forget_texts(c);
	free(c->packet);
	c->packet = NULL;
}

/* ---- sending ---------------------------------------------------------------------------------------- */

static int encode_msg(const struct files_msg *m, struct buf *b)
{
	int rc = buf_put_u32(b, MAGIC) | buf_put_u16(b, FILES_VERSION) | buf_put_u16(b, (uint16_t)m->type);

	for (int i = 0; i < FILES_TEXTS; i++)
		rc |= m->texts[i] && strlen(m->texts[i]) > FILES_TEXT ? -1 : buf_put_str(b, m->texts[i]);
	for (int i = 0; i < FILES_NUMBERS; i++)
		rc |= buf_put_u64(b, m->v[i]);
	return rc | buf_put_bytes(b, m->n_bytes ? m->bytes : "", m->n_bytes);
}

static void add_fd(struct msghdr *h, char *space, size_t n, int fd)
{
	struct cmsghdr *c;

	h->msg_control = space;
	h->msg_controllen = n;
	c = CMSG_FIRSTHDR(h);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
}

int files_send(struct files_channel *c, const struct files_msg *m, struct err *e)
{
	char space[CMSG_SPACE(sizeof(int))] __attribute__((aligned(__alignof__(struct cmsghdr)))) = {0};
	struct buf b;
	struct iovec io;
	struct msghdr h = {.msg_iov = &io, .msg_iovlen = 1};
	ssize_t n;

	buf_init(&b, FILES_PACKET);
	if (encode_msg(m, &b) < 0) {
		buf_fini(&b);
		return err_set(e, ERR_LIMIT, "a path or name is too long");
	}
	io = (struct iovec){.iov_base = b.data, .iov_len = b.len};
	if (m->fd >= 0)
		add_fd(&h, space, sizeof(space), m->fd);
	do
		n = sendmsg(c->fd, &h, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	buf_fini(&b);
	if (n < 0)
		return errno == EPIPE || errno == ECONNRESET
		           ? err_set(e, ERR_UNAVAILABLE, "the other side has closed the channel")
		           : err_sys(e, errno, "channel");
	return 0;
}

/* ---- receiving -------------------------------------------------------------------------------------- */

static int take_fd(struct msghdr *h)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(h);
	int fd = -1;

	/* There is room for one: the kernel closes the rest. */
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len >= CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static int decode_msg(struct files_channel *c, struct buf *b, struct files_msg *m)
{
	uint16_t version = 0, type = 0;
	uint32_t magic = 0;
	const uint8_t *bytes;
	int rc;

	if (buf_get_u32(b, &magic) < 0 || magic != MAGIC || buf_get_u16(b, &version) < 0 ||
	    version != FILES_VERSION || buf_get_u16(b, &type) < 0 || type == 0 || type >= FILES_TYPES)
		return -1;
	m->type = (enum files_type)type;
	for (int i = 0; i < FILES_TEXTS; i++) {
		if (buf_get_str(b, &c->texts[i], FILES_TEXT) < 0)
			return -1;
		m->texts[i] = c->texts[i];
	}
	for (int i = 0; i < FILES_NUMBERS; i++)
		if (buf_get_u64(b, &m->v[i]) < 0)
			return -1;
	rc = buf_get_bytes(b, &bytes, &m->n_bytes, FILES_BYTES);
	m->bytes = bytes;
	return rc < 0 || buf_left(b) ? -1 : 0;
}

static int wait_packet(int fd, int timeout_ms, struct err *e)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n = poll(&p, 1, timeout_ms);

	if (n > 0)
		return 0;
	if (n == 0 || errno == EINTR)
		return err_set(e, ERR_TIMEOUT, "no message on the channel");
	return err_sys(e, errno, "channel");
}

int files_recv(struct files_channel *c, int timeout_ms, struct files_msg *m, struct err *e)
{
	char space[CMSG_SPACE(sizeof(int))] __attribute__((aligned(__alignof__(struct cmsghdr))));
	struct iovec io = {.iov_base = c->packet, .iov_len = FILES_PACKET};
	struct msghdr h = {
	    .msg_iov = &io, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
	struct buf b;
	ssize_t n;

	if (wait_packet(c->fd, timeout_ms, e) < 0)
		return -1;
	do
		n = recvmsg(c->fd, &h, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return err_set(e, ERR_UNAVAILABLE, "the other side has closed the channel");
	if (n < 0)
		return err_sys(e, errno, "channel");
	forget_texts(c);
	*m = (struct files_msg){.fd = take_fd(&h)};
	buf_view(&b, c->packet, (size_t)n);
	if (!(h.msg_flags & MSG_TRUNC) && decode_msg(c, &b, m) == 0)
		return 0;
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
	return err_set(e, ERR_PROTOCOL, "a message of another version or none at all");
}
