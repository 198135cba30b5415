/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What virtual congestion control needs around the stages: its configuration, and its bytes. Only for edge.bpf.c. */
#ifndef SV_CONGESTION_H
#define SV_CONGESTION_H

#include "../option.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sv_vcc_conf);
} congestion SEC(".maps");

/* Policy rules name networks by this, because 0 means any. */
static __always_inline u32 tenant_of(u32 vni)
{
	return vni + 1;
}

/* Of a flow that begins: the loop over the rules, proven once. */
__noinline u8 class_of(const struct sv_packet *p, u32 tenant, u32 egress)
{
	struct sv_vcc_conf *conf;
	struct sv_flow_key key;
	u32 zero = 0;

	conf = bpf_map_lookup_elem(&congestion, &zero);
	if (!conf || !p)
		return 0;
	if (egress)
		sv_flow_key(p, &key);
	else
		sv_flow_key_reverse(p, &key);
	return sv_policy_find(conf->rule, conf->n_rules, &key, tenant);
}

/* What the TCP header of the frame at `off` says to edges. Follows parse_at. */
__noinline int read_option(struct __sk_buff *skb, u32 off, struct sv_packet *p)
{
	u8 *tcp = data_of(skb);

	if (!p || off > SV_ENCAP_LEN6 + SV_SHIM_LEN || p->proto != SV_PROTO_TCP)
		return 0;
	tcp += sv_mask(off + SV_ETH_LEN + p->ip_header_len, 511);
	sv_option_parse(tcp, end_of(skb), p);
	return 0;
}

/* Let the stages have what they need of it. `slot` may be missing. */
static __always_inline void use_congestion(struct sv_ctx *c, struct sv_flow_slot *slot, u32 vni)
{
	u32 zero = 0;

	c->vcc_conf = bpf_map_lookup_elem(&congestion, &zero);
	/* The verifier cannot know that an array has this entry: one without the other would be a maybe in every stage. */
	if (slot && c->vcc_conf)
		c->vcc = &slot->vcc;
	c->tenant = tenant_of(vni);
}

/* Replace a 16-bit number of the IP header, which begins at SV_ETH_LEN, and its checksum if it has one. */
static __always_inline int replace_ip(struct __sk_buff *skb, u32 family, u32 at, u16 from, u16 to)
{
	u16 old = bpf_htons(from), new = bpf_htons(to);

	if (family == 4 && bpf_l3_csum_replace(skb, SV_ETH_LEN + 10, old, new, 2))
		return -1;
	return bpf_skb_store_bytes(skb, SV_ETH_LEN + at, &new, 2, sum_follows(family));
}

/*
 * Bring the feedback option into the frame, or out of it, as `p` wants it: a pure ACK grows or shrinks, and loses padding
 * behind it. Where there is payload, the option can only become padding; and where the kernel will not cut the packet,
 * because it believes it to be in a tunnel still, as over veth pairs it does.
 */
__noinline int write_option(struct __sk_buff *skb, const struct sv_packet *p)
{
	u8 old[SV_PACK_LEN] = {0}, new[SV_PACK_LEN] = {0}, length[2];
	u32 l4, was, is, at, ip_at;
	s64 diff;

	if (!p || p->truncated || p->proto != SV_PROTO_TCP)
		return -1;
	l4 = SV_ETH_LEN + p->ip_header_len;
	if (bpf_skb_load_bytes(skb, l4 + 12, old, 1))
		return -1;
	was = (u32)(old[0] >> 4) * 4;
	old[0] = 0;
	is = p->l4_header_len;
	if (p->pack == SV_PACK_OK)
		sv_option_put(new, p);
	if (is > SV_TCP_MAX_HEADER || was < 20 || is < 20 || (is > was && p->payload))
		return -1;
	at = l4 + (is > was ? is : was) - SV_PACK_LEN;
	/* What lay behind the end, if anything, is in no checksum. */
	if (is > was ? bpf_skb_change_tail(skb, l4 + is, 0) : bpf_skb_load_bytes(skb, at, old, SV_PACK_LEN))
		return -1;
	if (is < was && (p->payload || bpf_skb_change_tail(skb, l4 + is, 0))) {
		for (int i = 0; i < SV_PACK_LEN; i++)
			new[i] = 1; /* no operation */
		is = was;
	}
	diff = bpf_csum_diff((void *)old, SV_PACK_LEN, (void *)new, SV_PACK_LEN, 0);
	if (diff < 0 || bpf_l4_csum_replace(skb, l4 + 16, 0, (u64)diff, 0) ||
	    (is >= was && bpf_skb_store_bytes(skb, at, new, SV_PACK_LEN, 0)))
		return -1;
	if (is == was)
		return 0;
	ip_at = p->family == 4 ? 2 : 4;
	if (bpf_skb_load_bytes(skb, l4 + 12, new, 2) || bpf_skb_load_bytes(skb, SV_ETH_LEN + ip_at, length, 2))
		return -1;
	if (replace_tcp(skb, l4, 12, (u16)(is << 10 | (sv_get16(new) & 0x0fff))) ||
	    bpf_l4_csum_replace(skb, l4 + 16, bpf_htons((u16)was), bpf_htons((u16)is), BPF_F_PSEUDO_HDR | 2) ||
	    replace_ip(skb, p->family, ip_at, sv_get16(length), (u16)(sv_get16(length) + is - was)))
		return -1;
	return 0;
}

/*
 * The changed fields of the TCP header at `l4`, bytes 12 to 15: reserved bits, flags and window. The kernel's helper knows the checksums
 * that are not complete yet.
 */
static __always_inline int write_tcp(struct __sk_buff *skb, const struct sv_packet *p, u32 l4)
{
	u8 *tcp = data_of(skb);
	u32 from, to;

	tcp += sv_mask(l4, 511);
	if (tcp + 20 > (u8 *)end_of(skb))
		return -1;
	from = sv_word32(tcp + 12);
	to = from;
	if (p->dirty & SV_DIRTY_FLAGS)
		to = (u32)sv_option_flags(p, (u16)(from >> 16)) << 16 | (u16)to;
	if (p->dirty & SV_DIRTY_WINDOW)
		to = (to & 0xffff0000u) | p->window;
	if (from == to)
		return 0;
	if (bpf_l4_csum_replace(skb, l4 + 16, bpf_htonl(from), bpf_htonl(to), 4))
		return -1;
	tcp = data_of(skb);
	tcp += sv_mask(l4, 511);
	if (tcp + 20 > (u8 *)end_of(skb))
		return -1;
	sv_set32(tcp + 12, to);
	return 0;
}

/* Global: the verifier proves it once. */
__noinline int write_fields(struct __sk_buff *skb, const struct sv_packet *p)
{
	u8 old[2] __attribute__((aligned(2))), new[2] __attribute__((aligned(2)));
	u32 ip = SV_ETH_LEN;

	if (!p)
		return -1;
	if (p->dirty & (SV_DIRTY_FLAGS | SV_DIRTY_OPTION | SV_DIRTY_SEQ) && p->proto != SV_PROTO_TCP)
		return -1;
	if (p->dirty & SV_DIRTY_SEQ && replace_seq(skb, ip + p->ip_header_len, p->seq))
		return -1;
	if (p->dirty & (SV_DIRTY_WINDOW | SV_DIRTY_FLAGS) && p->proto == SV_PROTO_TCP && write_tcp(skb, p, ip + p->ip_header_len))
		return -1;
	if (p->dirty & SV_DIRTY_OPTION && write_option(skb, p))
		return -1;
	if (p->dirty & SV_DIRTY_ECN) {
		if (bpf_skb_load_bytes(skb, ip, old, 2))
			return -1;
		new[0] = old[0];
		new[1] = old[1];
		if (p->family == 4) {
			new[1] = (old[1] & ~3) | (p->ecn & 3);
			if (bpf_l3_csum_replace(skb, ip + 10, *(u16 *)old, *(u16 *)new, 2))
				return -1;
		} else {
			new[1] = (old[1] & ~0x30) | (p->ecn & 3) << 4;
		}
		if (bpf_skb_store_bytes(skb, ip, new, 2, sum_follows(p->family)))
			return -1;
	}
	return 0;
}

/* Write the fields that a stage changed into the frame. */
static __always_inline int write_back(struct __sk_buff *skb, const struct sv_packet *p)
{
	return p->dirty & ~SV_DIRTY_LABEL ? write_fields(skb, p) : 0;
}

/* What the stages did for a segment of a flow that is remembered. `reported`: it brought a report. */
static __always_inline void count_congestion(struct sv_counters *counters, const struct sv_packet *p, u32 result,
					     int egress, int reported)
{
	if (egress) {
		if (result & SV_POLICED)
			count(counters, SV_COUNT_DROP_POLICED, 1);
		else if (sv_report_is_in(p))
			count(counters, SV_COUNT_PACKS_SENT, 1);
		if (p->emit & SV_EMIT_FACK)
			count(counters, SV_COUNT_FACKS_ASKED, 1);
		return;
	}
	if (reported)
		count(counters, SV_COUNT_REPORTS_RECEIVED, 1);
	if (p->dirty & SV_DIRTY_WINDOW)
		count(counters, SV_COUNT_WINDOWS_LOWERED, 1);
}

#endif
