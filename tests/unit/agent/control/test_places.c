/*
 * test_places: who leaves when the peer port is full, and how many handshakes a source may begin.
 */
#include "agent/control/places.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/tap.h"

#define SECOND 1000000ull

static struct places *s;
static uint64_t now = 1000 * SECOND;

static struct sockaddr_storage address(const char *text, uint16_t port)
{
	struct sockaddr_storage ss = {0};
	struct sockaddr_in *v4 = (void *)&ss;
	struct sockaddr_in6 *v6 = (void *)&ss;

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
	} else {
		inet_pton(AF_INET6, text, &v6->sin6_addr);
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
	}
	return ss;
}

struct conn {
	struct place *place;
	int in;
};

static void end_conn(struct conn *c)
{
	places_leave(s, c->place);
	c->in = 0;
}

static struct conn *enter(struct conn *c, const char *from, uint16_t port)
{
	struct sockaddr_storage ss = address(from, port);
	void *leaves;

	c->place = places_enter(s, (struct sockaddr *)&ss, c, now, &leaves);
	c->in = 1;
	if (leaves)
		end_conn(leaves);
	return c;
}

static unsigned fill(struct conn *c, unsigned n, const char *form, unsigned sources)
{
	for (unsigned i = 0; i < n; i++) {
		char from[64];

		snprintf(from, sizeof(from), form, 1 + i % sources);
		enter(&c[i], from, 40000);
	}
	return places_used(s);
}

static unsigned count(const struct conn *c, unsigned n)
{
	unsigned in = 0;

	for (unsigned i = 0; i < n; i++)
		in += c[i].in != 0;
	return in;
}

static void end_all(struct conn *c, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (c[i].in)
			end_conn(&c[i]);
}

static void test_source(void)
{
	static struct conn one[100], other;

	enter(&other, "10.0.0.2", 40000);
	fill(one, 100, "10.0.0.1", 1);
	is_int(count(one, 100), PLACES_SOURCE, "one source has its places");
	ok(one[99].in && !one[0].in, "the newest of them are in");
	ok(other.in, "another source keeps its place");
	end_all(one, 100);
	end_conn(&other);
	fill(one, 100, "2001:db8::%x", 50);
	is_int(count(one, 100), PLACES_SOURCE, "a network of IPv6 is one source");
	end_all(one, 100);
	enter(&one[0], "::ffff:10.0.0.1", 40000);
	fill(&one[1], 40, "10.0.0.1", 1);
	is_int(one[0].in, 0, "an IPv4 address is one source in either form");
	end_all(one, 100);
}

static void test_full(void)
{
	struct sockaddr_storage agents[2] = {address("10.0.0.1", 7000), address("10.0.0.2", 7000)};
	static struct conn crowd[600], mine[2];

	places_know(s, agents, 2);
	enter(&mine[0], "10.0.0.1", 40000);
	enter(&mine[1], "10.0.0.2", 900);
	is_int(fill(crowd, 600, "192.0.2.%u", 200), PLACES_ALL, "full");
	ok(mine[0].in && mine[1].in, "strangers push out no known agent");
	end_all(crowd, 600);
	fill(crowd, 254, "10.0.0.%u", 2);
	is_int(count(crowd, 254), 2 * PLACES_SOURCE, "places of the agents' own addresses");
	ok(mine[1].in, "a program at an agent's address does not push out the agent itself");
	end_all(crowd, 600);
	end_all(mine, 2);
	fill(crowd, 30, "192.0.2.1", 1);
	fill(&crowd[30], 226, "198.51.100.%u", 200);
	enter(&mine[0], "203.0.113.1", 40000);
	ok(!crowd[0].in && crowd[30].in, "the source with most connections loses its oldest");
	end_all(crowd, 600);
	end_all(mine, 2);
	is_int(places_used(s), 0, "empty");
}

static unsigned start_all(const struct conn *c, unsigned n)
{
	unsigned started = 0;

	for (unsigned i = 0; i < n; i++)
		started += (unsigned)places_may_start(s, c->place, now);
	return started;
}

static void test_handshakes(void)
{
	struct sockaddr_storage agents[1] = {address("10.0.0.1", 7000)};
	static struct conn crowd[100], mine[2];
	unsigned all = 0;

	now += 100 * SECOND;
	enter(&mine[0], "192.0.2.1", 40000);
	is_int(start_all(mine, 1000), 32, "a source begins so many handshakes at once");
	now += SECOND;
	is_int(start_all(mine, 1000), 20, "and so many a second");
	end_conn(&mine[0]);
	places_know(s, agents, 1);
	fill(crowd, 100, "198.51.100.%u", 100);
	for (int k = 0; k < 100; k++)
		all += start_all(&crowd[k], 100);
	ok(all > 200 && all <= 300, "all strangers together: %u", all);
	enter(&mine[0], "10.0.0.1", 40000);
	ok(start_all(mine, 10) == 10, "handshakes are left for the address of an agent");
	enter(&mine[1], "10.0.0.1", 900);
	ok(start_all(&mine[1], 10) == 10, "and for the agent itself");
	end_all(crowd, 100);
	end_all(mine, 2);
}

/* More sources than the table holds. */
static void test_sources(void)
{
	struct conn c = {0};

	for (unsigned i = 0; i < 5000; i++) {
		char from[64];

		snprintf(from, sizeof(from), "11.%u.%u.1", i / 250, i % 250);
		enter(&c, from, 40000);
		places_may_start(s, c.place, now);
		end_conn(&c);
	}
	is_int(places_used(s), 0, "5,000 sources came and went");
	enter(&c, "12.0.0.1", 40000);
	is_int(start_all(&c, 1), 0, "what finds no room in the table shares few handshakes");
	now += 60 * SECOND;
	end_conn(&c);
	enter(&c, "12.0.0.2", 40000);
	is_int(start_all(&c, 1000), 32, "later there is room again");
	end_conn(&c);
}

int main(void)
{
	s = places_create();
	test_source();
	test_full();
	test_handshakes();
	test_sources();
	places_destroy(s);
	return tap_done();
}
