/*
 * net: which interface holds an address, and its network.
 */
#ifndef HEARTH_AGENT_MACHINE_NET_H
#define HEARTH_AGENT_MACHINE_NET_H

/* Name of the interface that has this address (text), malloc'ed; NULL when none. */
char *net_interface_of(const char *address);
/* "10.77.0.0/16" of the interface's network, malloc'ed; any loopback address gives "127.0.0.0/8"; NULL
 * unknown or not IPv4. */
char *net_cidr_of(const char *address);
/* First IPv4 address of an interface; NULL none. */
char *net_address_of(const char *interface);
/* The address that packets to host would leave from; falls back to 127.0.0.1. Never NULL. */
char *net_address_towards(const char *host);

#endif
