/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * To the agent's device and back from it. Only for edge.bpf.c.
 *
 * A frame that is diverted is the one that the guest would have got, with struct sv_bounce in front. Segments stay whole
 * where the device can say that they had been in a tunnel (TUN_F_UDP_TUNNEL_GSO, Linux 6.17), else the kernel cuts them.
 */
#ifndef SV_RECEIVER_H
#define SV_RECEIVER_H

#define STRAIGHT_ON -1

/* The receiver's device; 0: what is diverted would not come back. */
static __always_inline u32 receiver_ifindex(const struct sv_reorder_alive *holder, u64 now)
{
	u32 zero = 0, *ifindex;

	/* The clock of `now` is the coarser one: it may be behind. */
	if ((s64)(now - holder->alive) > (s64)SV_RECEIVER_ALIVE_NS)
		return 0;
	ifindex = bpf_map_lookup_elem(&receiver_device, &zero);
	return ifindex ? *ifindex : 0;
}

/* A connection begins. */
static __always_inline void follow_anew(struct sv_flow_slot *slot)
{
	bpf_spin_lock(&slot->lock);
	sv_divert_restart(&slot->divert);
	bpf_spin_unlock(&slot->lock);
}

/* A decapsulated segment to the guest on `port`. Returns the verdict if it is to go to the agent first, else STRAIGHT_ON. */
static __noinline int divert(struct __sk_buff *skb, struct sv_flow_slot *slot, const struct sv_packet *p, u32 vni, u32 port)
{
	struct sv_counters *counters = find_counters();
	struct sv_bounce bounce = {0};
	struct sv_reorder_alive *holder;
	u32 zero = 0, ifindex, result;
	u64 now = bpf_ktime_get_coarse_ns();

	holder = bpf_map_lookup_elem(&receiver, &zero);
	if (!holder || !counters || !slot || !p)
		return STRAIGHT_ON;
	ifindex = receiver_ifindex(holder, now);
	bpf_spin_lock(&slot->lock);
	result = sv_divert_segment(&slot->divert, p, SV_DIVERT_CLOCK(now), ifindex != 0, &bounce.place);
	bpf_spin_unlock(&slot->lock);
	if (result & SV_DIVERT_AHEAD)
		count(counters, SV_COUNT_IN_AHEAD, 1);
	if (!(result & SV_DIVERT_ASIDE))
		return STRAIGHT_ON;
	bounce.secret = holder->secret;
	bounce.port = port;
	bounce.vni = vni;
	bounce.cell = p->cell;
	bounce.payload = p->payload;
	bounce.first = !!(result & SV_DIVERT_FIRST);
	bounce.has_cell = p->has_cell;
	if (bpf_skb_change_head(skb, sizeof(bounce), 0) || bpf_skb_store_bytes(skb, 0, &bounce, sizeof(bounce), 0))
		return drop(counters, SV_COUNT_DROP_ERROR);
	count(counters, SV_COUNT_BOUNCED, 1);
	if (bounce.first)
		count(counters, SV_COUNT_DIVERSIONS, 1);
	return bpf_redirect(ifindex, 0);
}

/* What the agent says of a flow. */
static __noinline int hear_mark(struct __sk_buff *skb, u64 secret)
{
	struct sv_mark mark = {0};
	struct sv_flow_slot *slot;
	u32 now = SV_DIVERT_CLOCK(bpf_ktime_get_coarse_ns());

	if (bpf_skb_load_bytes(skb, SV_ETH_LEN, &mark, sizeof(mark)) || mark.secret != secret)
		return -1;
	slot = bpf_map_lookup_elem(&flows, &mark.key);
	if (!slot)
		return 0;
	bpf_spin_lock(&slot->lock);
	sv_divert_drained(&slot->divert, mark.number, now);
	bpf_spin_unlock(&slot->lock);
	return 0;
}

/* On the receiver's device: what the agent gives back. Everything else that comes out there is nobody's. */
SEC("tc")
int selvedge_drain(struct __sk_buff *skb)
{
	struct sv_counters *counters = find_counters();
	struct sv_reorder_alive *holder;
	struct sv_return back = {0};
	struct sv_port *port;
	u32 zero = 0, target;

	holder = bpf_map_lookup_elem(&receiver, &zero);
	if (!counters || !holder || !holder->secret)
		return TC_ACT_SHOT;
	if (skb->protocol == bpf_htons(SV_ETHERTYPE_MARK)) {
		if (hear_mark(skb, holder->secret))
			count(counters, SV_COUNT_DROP_FOREIGN, 1);
		return TC_ACT_SHOT;
	}
	if (bpf_skb_load_bytes(skb, SV_ETH_LEN, &back, sizeof(back)) || back.secret != holder->secret)
		return drop(counters, SV_COUNT_DROP_FOREIGN);
	target = back.port;
	port = bpf_map_lookup_elem(&ports, &target);
	if (!port || port->vni != back.vni)
		return drop(counters, SV_COUNT_DROP_FOREIGN);
	if (bpf_skb_adjust_room(skb, -(s32)sizeof(back), BPF_ADJ_ROOM_MAC,
				BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET) ||
	    bpf_skb_store_bytes(skb, 0, back.ethernet, SV_ETH_LEN, 0))
		return drop(counters, SV_COUNT_DROP_ERROR);
	/* The device took it for another station's. */
	bpf_skb_change_type(skb, 0 /* PACKET_HOST */);
	count(counters, SV_COUNT_DRAINED, 1);
	return deliver(skb, counters, target, port);
}

#endif
