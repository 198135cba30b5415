/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the agent says of ports, addresses and peers, to the programs of every object that shares these maps. Needs bpf_endian.h. */
#ifndef SV_TABLES_H
#define SV_TABLES_H

#include "ports.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sv_config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct sv_route_key);
	__type(value, struct sv_route);
} routes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SV_MAX_PEERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* the agent's number */
	__type(value, struct sv_peer);
} peers SEC(".maps");

/* What each peer was heard to understand: an array, because every packet looks. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SV_MAX_PEERS + 1);
	__type(key, u32); /* the agent's number */
	__type(value, struct sv_heard);
} heard SEC(".maps");

struct sv_address {
	u32 word[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct sv_address); /* outer address of a peer, as in sv_packet */
	__type(value, u32);		/* its number */
} remotes SEC(".maps");

static __always_inline struct sv_route *find_route(u32 vni, const u32 *addr)
{
	struct sv_route_key key = { .prefix_len = 32 + 128, .vni = bpf_htonl(vni) };

	for (int i = 0; i < 4; i++)
		key.addr[i] = bpf_htonl(addr[i]);
	return bpf_map_lookup_elem(&routes, &key);
}

/* The number of the peer with that outer address; 0: nobody's. */
static __always_inline u32 peer_of(const u32 *addr)
{
	struct sv_address from;
	const u32 *id;

	for (int i = 0; i < 4; i++)
		from.word[i] = addr[i];
	id = bpf_map_lookup_elem(&remotes, &from);
	return id ? *id : 0;
}

#endif
