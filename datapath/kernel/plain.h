/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Uplinks without a tunnel (../hygenicc_plain.h): what is written into packets there, and read from them. Only for edge.bpf.c. */
#ifndef SV_PLAIN_H
#define SV_PLAIN_H

/* Writes the reserved bit of an IPv4 header. Returns how it was, or less than 0. */
static __noinline int put_bit(struct __sk_buff *skb, u32 bit)
{
	u32 at = SV_ETH_LEN + SV_PLAIN_BIT_AT;
	u8 bytes[2];
	u16 was, is;

	if (bpf_skb_load_bytes(skb, at, bytes, 2))
		return -1;
	was = sv_get16(bytes);
	is = sv_plain_word(was, (int)bit);
	if (is != was && replace_ip(skb, 4, SV_PLAIN_BIT_AT, was, is))
		return -1;
	return !!(was & SV_PLAIN_BIT);
}

/* Takes the bit away, for guests do not see it. Returns 1 if it was there, or less than 0. */
static __always_inline int take_bit(struct __sk_buff *skb, const struct sv_packet *p)
{
	return p->family == 4 ? put_bit(skb, 0) : 0;
}

/* Marks that a packet of feedback counts; NO_COUNT: it is none. */
static __always_inline u32 marks_in(struct __sk_buff *skb, const struct sv_packet *p)
{
	u8 count[SV_PLAIN_COUNT_LEN];

	if (!p->ip_header_len || bpf_skb_load_bytes(skb, SV_ETH_LEN + p->ip_header_len, count, sizeof(count)))
		return NO_COUNT;
	return sv_get16(count);
}

/* What the guest sees of ECN. `slot`: the flow's, or none. */
static __noinline int show_plain(struct sv_flow_slot *slot, struct sv_packet *p, u32 was)
{
	struct sv_tenants *t;
	u32 zero = 0;

	t = bpf_map_lookup_elem(&tenants, &zero);
	if (!t || !p)
		return 0;
	if (!slot) {
		sv_plain_show(&t->conf, 0, (u8)was, p);
		return 0;
	}
	bpf_spin_lock(&slot->lock);
	sv_plain_show(&t->conf, &slot->flow, (u8)was, p);
	bpf_spin_unlock(&slot->lock);
	return 0;
}

/*
 * The guest's segment has passed the stages: marks that are owed, and out by `uplink`, where the host's routes lead. `share`: or 0. Global:
 * the verifier proves it once.
 */
__noinline int leave_plain(struct __sk_buff *skb, u32 ifindex, u32 share, u32 uplink, struct sv_packet *p)
{
	struct sv_counters *counters = find_counters();
	u32 len = skb->len;
	int bit;

	if (!counters || !p)
		return TC_ACT_SHOT;
	bit = share ? depart_plain(ifindex, share, p) : 0;
	if (write_back(skb, p) || (p->family == 4 && put_bit(skb, (u32)bit) < 0)) {
		if (bit)
			unpay_plain(ifindex, p, sv_hyg_packets(p));
		return drop(counters, SV_COUNT_DROP_ERROR);
	}
	if (bit)
		count(counters, SV_COUNT_FEEDBACK_SENT, 1);
	count(counters, SV_COUNT_OUT_SEGMENTS, 1);
	count(counters, SV_COUNT_OUT_BYTES, len);
	return bpf_redirect_neigh(uplink, 0, 0, 0);
}

#endif
