/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the agent says of ports and addresses, to the programs of every object that shares these maps. Needs bpf_endian.h. */
#ifndef SV_TABLES_H
#define SV_TABLES_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sv_config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096 + 16); /* guests' and the agent's own */
	__type(key, u32); /* ifindex */
	__type(value, struct sv_port);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct sv_route_key);
	__type(value, struct sv_route);
} routes SEC(".maps");

static __always_inline struct sv_route *find_route(u32 vni, const u32 *addr)
{
	struct sv_route_key key = { .prefix_len = 32 + 128, .vni = bpf_htonl(vni) };

	for (int i = 0; i < 4; i++)
		key.addr[i] = bpf_htonl(addr[i]);
	return bpf_map_lookup_elem(&routes, &key);
}

#endif
