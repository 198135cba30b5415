/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Next hops to peers. bpf_redirect_neigh looks up route and neighbour for each packet, which takes about as long as the headers do. So
 * each CPU asks the kernel for a peer's next hop once in a tick and writes its MAC address itself meanwhile. A tick has 4.2 ms, or one
 * of the timer interrupts that the coarse clock follows, 10 ms at most. The first packet of each tick still goes by
 * bpf_redirect_neigh: the kernel must see that the neighbour is in use, or it would not look whether it is there. A new route or
 * address counts within a tick, and nothing needs the agent.
 *
 * Packets with a mark go by bpf_redirect_neigh, which routes by it. Older kernels (about 6.3) also answer with the last address of a
 * neighbour that has failed; there what follows the first packet of a tick is lost until the next one.
 *
 * The kernel answers only where the uplink forwards (ip_forward, or forwarding for IPv6). Elsewhere all goes by bpf_redirect_neigh. Only
 * for edge.bpf.c.
 */
#ifndef SV_HOPS_H
#define SV_HOPS_H

#define SV_HOP_SHIFT 22
/* Peers whose numbers are the same modulo this take the place from one another. */
#define SV_HOPS 1024

struct sv_hop {
	u32 tick;
	u32 peer; /* its number */
	u32 remote; /* the last word of its outer address */
	u32 ifindex;
	u8 asked;
	u8 known; /* what follows is so */
	u8 pad[2];
	u8 dmac[6];
	u8 smac[6];
};

/* Of each CPU, so that nobody reads half an address; of each load, so that it is not pinned. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SV_HOPS);
	__type(key, u32);
	__type(value, struct sv_hop);
} hops SEC(".maps");

/* linux/socket.h */
#define FAMILY_IPV4 2
#define FAMILY_IPV6 10

static __noinline int ask_hop(struct __sk_buff *skb, const struct sv_tunnel *t, struct sv_hop *h)
{
	struct bpf_fib_lookup fib = {0};

	if (!t || !h)
		return 0;
	h->asked = 1;
	fib.ifindex = h->ifindex;
	fib.l4_protocol = SV_PROTO_UDP;
	fib.tot_len = 1; /* or the packet at hand would be compared with the MTU */
	if (t->family == 4) {
		fib.family = FAMILY_IPV4;
		fib.ipv4_src = bpf_htonl(t->local[3]);
		fib.ipv4_dst = bpf_htonl(t->remote[3]);
	} else {
		fib.family = FAMILY_IPV6;
		for (int i = 0; i < 4; i++) {
			fib.ipv6_src[i] = bpf_htonl(t->local[i]);
			fib.ipv6_dst[i] = bpf_htonl(t->remote[i]);
		}
	}
	if (bpf_fib_lookup(skb, &fib, sizeof(fib), BPF_FIB_LOOKUP_OUTPUT) != BPF_FIB_LKUP_RET_SUCCESS || fib.ifindex != h->ifindex)
		return 0;
	__builtin_memcpy(h->dmac, fib.dmac, 6);
	__builtin_memcpy(h->smac, fib.smac, 6);
	h->known = !!any_mac(h->dmac);
	return 0;
}

/* The next hop to the peer with the number `id`, or 0: the kernel is to find it. */
static __always_inline const struct sv_hop *find_hop(struct __sk_buff *skb, const struct sv_peer *peer, u32 id, u64 now)
{
	u32 place = id & (SV_HOPS - 1), tick = (u32)(now >> SV_HOP_SHIFT);
	struct sv_hop *h = bpf_map_lookup_elem(&hops, &place);

	if (!h || skb->mark)
		return 0;
	if (h->tick != tick || h->peer != id || h->remote != peer->tunnel.remote[3] || h->ifindex != peer->ifindex) {
		h->tick = tick;
		h->peer = id;
		h->remote = peer->tunnel.remote[3];
		h->ifindex = peer->ifindex;
		h->asked = 0;
		h->known = 0;
		return 0;
	}
	if (!h->asked)
		ask_hop(skb, &peer->tunnel, h);
	return h->known ? h : 0;
}

#endif
