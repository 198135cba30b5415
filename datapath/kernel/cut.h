/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The way through the cutter, a pair of devices that makes the kernel cut segments. Only for edge.bpf.c. */
#ifndef SV_CUT_H
#define SV_CUT_H

/*
 * A segment that cannot be encapsulated whole, neither TCP's nor UDP's, a guest's own tunnel's or one that is too long, goes
 * through a device that makes the kernel cut it, and comes back in packets. It has been there if it is `was_cut`.
 */
static __always_inline int may_cut(const struct sv_config *conf, int was_cut)
{
	return conf->cutter && !was_cut;
}

static __always_inline int to_cutter(struct __sk_buff *skb, u32 mark, struct sv_counters *counters,
				     const struct sv_config *conf)
{
	count(counters, SV_COUNT_CUT, 1);
	skb->mark = mark;
	return bpf_redirect(conf->cutter, 0);
}

/*
 * Datagrams that arrive as one segment, as from a peer behind a veth pair: taken out of the tunnel, the segment would still say that it is
 * in one, and the kernel drops it where it has to cut it, for the guest's socket or when the guest forwards it. In the tunnel it cuts it rightly.
 * So it goes through the cutter and comes in at the uplink again, which the mark says. All further datagrams of the flow go that way, too,
 * or they would overtake.
 */
#define CUT_IN_TUNNEL 0x40000000u /* of skb->mark, with the uplink's ifindex */
/* Linux puts no more datagrams into a segment (UDP_MAX_SEGMENTS). */
#define MOST_DATAGRAMS 128u
/* All headers of a packet in the tunnel are shorter, bytes. */
#define MOST_HEADERS 256u

static __always_inline int may_cut_in_tunnel(const struct __sk_buff *skb, const struct sv_config *conf, const struct sv_packet *p,
					     const struct sv_flow_slot *slot)
{
	return conf->cutter && p->proto != SV_PROTO_TCP && (skb->gso_size || (slot && slot->cut & SV_CUT_IN));
}

/* What was cut in the tunnel. UNANSWERED: it was not. */
static __noinline int to_uplink_again(struct __sk_buff *skb)
{
	u32 mark = skb->mark;

	return mark & CUT_IN_TUNNEL ? bpf_redirect(mark & ~CUT_IN_TUNNEL, BPF_F_INGRESS) : UNANSWERED;
}

/* At the uplink: was it cut in the tunnel? */
static __noinline int comes_again(struct __sk_buff *skb)
{
	u32 mark = CUT_IN_TUNNEL | skb->ifindex;

	if (skb->mark != mark)
		return 0;
	skb->mark = 0;
	return 1;
}

#endif
