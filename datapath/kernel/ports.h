/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Guests' ports, as the agent describes them, to the programs of every object that shares this map. */
#ifndef SV_PORTS_H
#define SV_PORTS_H

#include "quota.h"
#include "state.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096 + 16); /* guests' and the agent's own */
	__type(key, u32); /* ifindex */
	__type(value, struct sv_port);
} ports SEC(".maps");

/*
 * What a new slot of the port is to be charged as; 0: there is no room. A port that has limits only has no row here, and a closed one is
 * between two networks: then no network is charged.
 */
static __always_inline u32 may_charge(u32 table, u32 ifindex, u32 began)
{
	const struct sv_port *port = bpf_map_lookup_elem(&ports, &ifindex);
	u32 vni = port && port->vni < SV_PORT_CLOSED ? port->vni : NO_NETWORK;

	return may_begin(table, ifindex, vni, began) ? 0 : charged_as(vni, began);
}

#endif
