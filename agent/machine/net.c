/*
 * net: getifaddrs and nothing more. Names are only resolved in net_address_towards, once at the start of the
 * agent.
 */
#include "agent/machine/net.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/xalloc.h"

static int address_text(const struct sockaddr *sa, char *out, size_t size)
{
	const void *at = NULL;

	if (sa && sa->sa_family == AF_INET)
		at = &((const struct sockaddr_in *)(const void *)sa)->sin_addr;
	else if (sa && sa->sa_family == AF_INET6)
		at = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
	return at && inet_ntop(sa->sa_family, at, out, (socklen_t)size) ? 0 : -1;
}

static int net_is_loopback(const char *address)
{
	struct in_addr v4;

	if (strcmp(address, "::1") == 0 || strcmp(address, "localhost") == 0)
		return 1;
	return inet_pton(AF_INET, address, &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

char *net_interface_of(const char *address)
{
	struct ifaddrs *list;
	char text[INET6_ADDRSTRLEN], *name = NULL;

	if (getifaddrs(&list) < 0)
		return NULL;
	for (struct ifaddrs *i = list; i && !name; i = i->ifa_next) {
		if (address_text(i->ifa_addr, text, sizeof(text)) == 0 && strcmp(text, address) == 0)
			name = xstrdup(i->ifa_name);
		else if (net_is_loopback(address) && (i->ifa_flags & IFF_LOOPBACK))
			name = xstrdup(i->ifa_name); /* 127.0.0.2 and the like stand on no list, but they are there */
	}
	freeifaddrs(list);
	return name;
}

char *net_cidr_of(const char *address)
{
	struct ifaddrs *list;
	struct in_addr want, base;
	char text[INET_ADDRSTRLEN], *cidr = NULL;

	if (net_is_loopback(address))
		return xstrdup("127.0.0.0/8");
	if (inet_pton(AF_INET, address, &want) != 1 || getifaddrs(&list) < 0)
		return NULL;
	for (struct ifaddrs *i = list; i && !cidr; i = i->ifa_next) {
		const struct sockaddr_in *sa = (const void *)i->ifa_addr, *mask = (const void *)i->ifa_netmask;

		if (!sa || !mask || sa->sin_family != AF_INET || sa->sin_addr.s_addr != want.s_addr)
			continue;
		base.s_addr = want.s_addr & mask->sin_addr.s_addr;
		if (inet_ntop(AF_INET, &base, text, sizeof(text)))
			cidr = xasprintf("%s/%d", text, __builtin_popcount(mask->sin_addr.s_addr));
	}
	freeifaddrs(list);
	return cidr;
}

char *net_address_of(const char *interface)
{
	struct ifaddrs *list;
	char text[INET6_ADDRSTRLEN], *out = NULL;

	if (getifaddrs(&list) < 0)
		return NULL;
	for (struct ifaddrs *i = list; i && !out; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && strcmp(i->ifa_name, interface) == 0 &&
		    address_text(i->ifa_addr, text, sizeof(text)) == 0)
			out = xstrdup(text);
	freeifaddrs(list);
	return out;
}

/* Connecting a datagram socket sends nothing, but the kernel chooses the source address. */
char *net_address_towards(const char *host)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM}, *list = NULL;
	struct sockaddr_storage self = {0};
	socklen_t n = sizeof(self);
	char text[INET6_ADDRSTRLEN] = "127.0.0.1";
	int fd;

	if (getaddrinfo(host, "9", &hints, &list) != 0)
		return xstrdup(text);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, list->ai_addr, list->ai_addrlen) == 0 &&
	    getsockname(fd, (struct sockaddr *)&self, &n) == 0)
		address_text((struct sockaddr *)&self, text, sizeof(text));
	if (fd >= 0)
		close(fd);
	freeaddrinfo(list);
	return xstrdup(text);
}
