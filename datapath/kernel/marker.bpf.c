/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A port of a router in a lab, on the egress of its interface: ECN-capable packets are marked that find more than a threshold of
 * bytes in the port's queue. The queue is a virtual one, with the rate and the buffer of the qdisc behind it: the kernel tells programs
 * no backlog in all its versions, and the qdisc lets bursts go at once.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../limiter.h"

/* What of a packet must be writable for a mark: Ethernet and the IP header without options, IPv6's the longer. */
#define HEADERS (ETH_HLEN + 40u)

struct sv_marked_port {
	struct bpf_spin_lock lock; /* guards pacer and what is counted */
	u32 threshold;		   /* bytes */
	u64 rate;		   /* bytes per second */
	u64 horizon;		   /* ns: the buffer lasts so long. What finds more is dropped by the qdisc, and not counted here */
	struct sv_pacer pacer;
	/* Counted from 0 on. */
	u64 packets;
	u64 full;    /* packets for which there was no room */
	u64 marked;  /* packets that left with a mark because of this queue */
	u64 longest; /* bytes: the longest queue that a packet found */
};

SV_ASSERT_SIZE(struct sv_marked_port, 64);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sv_marked_port);
} port SEC(".maps");

SEC("tc")
int selvedge_mark(struct __sk_buff *skb)
{
	u32 zero = 0, backlog, bytes = skb->wire_len, segments = skb->gso_segs;
	struct sv_marked_port *p = bpf_map_lookup_elem(&port, &zero);
	u64 now = bpf_ktime_get_ns(), at;
	int above;

	if (!p)
		return TC_ACT_UNSPEC;
	segments = sv_max32(segments, 1);
	bpf_spin_lock(&p->lock);
	backlog = sv_pacer_backlog(&p->pacer, p->rate, now);
	if (sv_pacer_admit(&p->pacer, p->rate, p->horizon, bytes, now, &at))
		p->packets += segments;
	else
		p->full += segments;
	if (backlog > p->longest)
		p->longest = backlog;
	above = backlog > p->threshold;
	bpf_spin_unlock(&p->lock);
	if (!above || (skb->protocol != bpf_htons(ETH_P_IP) && skb->protocol != bpf_htons(ETH_P_IPV6)))
		return TC_ACT_UNSPEC;
	/* A packet that TCP keeps for a retransmission shares its bytes with it: the mark would not be set. */
	bpf_skb_pull_data(skb, sv_min32(skb->len, HEADERS));
	if (bpf_skb_ecn_set_ce(skb))
		__sync_fetch_and_add(&p->marked, segments);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
