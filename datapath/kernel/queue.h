/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The way of what a limited guest sends into its queue, and out of it. */
#ifndef SV_QUEUE_H
#define SV_QUEUE_H

#include "skb.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct sv_limiter_key);
	__type(value, struct sv_limiter);
} limiters SEC(".maps");

static __always_inline struct sv_limiter *find_limiter(u32 ifindex, u32 direction, struct sv_limiter_key *key)
{
	key->ifindex = ifindex;
	key->direction = direction;
	return bpf_map_lookup_elem(&limiters, key);
}

/* The queue's device takes nothing without an Ethernet header. The kernel takes it off on the way back to the port. */
static __always_inline int put_ethernet(struct __sk_buff *skb)
{
	u16 proto = (u16)skb->protocol;

	return bpf_skb_change_head(skb, SV_ETH_LEN, 0) || bpf_skb_store_bytes(skb, SV_ETH_LEN - 2, &proto, sizeof(proto), 0);
}

/* Towards a queue: its device, 0 if there is none, its class there, and the limiter's flags. */
struct way {
	u32 device;
	u32 class;
	u32 flags; /* SV_LIMITER_* */
};

static __always_inline void note_way(struct way *way, const struct sv_limiter *l, u32 first)
{
	way->device = l->device;
	way->class = first && l->first ? l->first : l->class;
	way->flags = l->flags;
}

static __always_inline int to_queue(struct __sk_buff *skb, const struct way *way)
{
	u32 number = way->flags >> SV_LIMITER_NUMBER;

	if (!way->device)
		return NEXT;
	if (way->flags & SV_LIMITER_BARE && put_ethernet(skb))
		return TC_ACT_SHOT;
	if (!number || way->flags & SV_LIMITER_MARKED) {
		skb->mark = skb->ifindex;
	} else if (skb->priority) {
		number |= SV_RETURN_PRIORITY;
		bpf_set_hash(skb, skb->priority);
	}
	skb->tc_index = number; /* a guest's own must not be taken for one */
	skb->priority = way->class;
	return bpf_redirect(way->device, 0);
}

/*
 * Out of the queue, on its way to the host? Of a port with a network selvedge_guest, which has seen it, takes the mark off and lets
 * it pass.
 */
static __always_inline int came_out(struct __sk_buff *skb)
{
	u64 stamp = skb->tstamp;

	if (stamp != SV_RETURNED && stamp != SV_RETURNED_PRIORITY)
		return skb->mark == skb->ifindex;
	skb->tstamp = 0;
	if (stamp == SV_RETURNED_PRIORITY) {
		skb->priority = skb->hash;
		bpf_set_hash_invalid(skb);
	}
	return 1;
}

#endif
