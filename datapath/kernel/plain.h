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
		sv_show_plain_ecn(&t->conf, 0, (u8)was, p);
		return 0;
	}
	bpf_spin_lock(&slot->lock);
	sv_show_plain_ecn(&t->conf, &slot->flow, (u8)was, p);
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

/* The same of an uplink without a tunnel: what peers' guests send to guests of this host. The rest is the host's. */
SEC("tc")
int selvedge_plain_uplink(struct __sk_buff *skb)
{
	struct sv_counters *counters = find_counters();
	struct sv_scratch *scratch = new_scratch(1);
	struct sv_flow_slot *slot = 0;
	struct sv_config *conf;
	struct sv_route *route;
	struct sv_port *port;
	struct sv_packet *p;
	u32 zero = 0, target, from, result = 0;
	int parsed, bit;
	u8 was;

	conf = bpf_map_lookup_elem(&config, &zero);
	if (!conf || !scratch || !counters || skb->vlan_present)
		return NEXT;
	p = &scratch->packet;
	parsed = parse_at(skb, 0, p);
	if (!carries(parsed))
		return NEXT;
	route = find_route(0, p->daddr);
	if (!route || route->kind != SV_ROUTE_LOCAL)
		return NEXT;
	target = route->target;
	port = bpf_map_lookup_elem(&ports, &target);
	route = find_route(0, p->saddr);
	if (!port || port->vni || !route || route->kind != SV_ROUTE_PEER)
		return NEXT;
	from = route->target;
	p->wire = SV_WIRE_PLAIN;
	was = p->ecn;
	if (was == SV_ECN_CE)
		count(counters, SV_COUNT_IN_CE, 1);
	bit = take_bit(skb, p);
	if (bit < 0)
		return drop(counters, SV_COUNT_DROP_ERROR);
	if (p->proto == SV_HYG_PROTO) {
		if (parsed == SV_PARSE_NOT_TRANSPORT && share_of(port))
			take_plain_marks(target, share_of(port), p, marks_in(skb, p));
		return drop(counters, SV_COUNT_MARKS_CONSUMED);
	}
	if (bit)
		count(counters, SV_COUNT_FEEDBACK, 1);
	if (share_of(port))
		take_plain_marks(target, share_of(port), p, bit ? sv_hyg_packets(p) : NO_COUNT);
	if (parsed == SV_PARSE_OK) {
		slot = find_flow(p, 0, IN);
		if (!slot)
			slot = make_flow(p, 0, IN, target);
	}
	if (p->mss && port->mtu && clamp_mss(skb, 0, p, port->mtu))
		count(counters, SV_COUNT_MSS_CLAMPED, 1);
	if (parsed == SV_PARSE_OK) {
		struct sv_outer *o = &scratch->outer;

		__builtin_memset(o, 0, sizeof(*o));
		scratch->now = stages_now(conf, 0);
		if (conf->flags & SV_CONFIG_CONGESTION) {
			read_option(skb, 0, p);
			result = ingress_congested(slot, conf, scratch, from, 0);
		} else {
			result = ingress(slot, conf, scratch, from, 0);
		}
		note_results(skb->ifindex, counters, p, result);
		settle_if_due(slot);
		if (result & SV_CONSUMED)
			return drop(counters, SV_COUNT_FACKS_CONSUMED);
	} else {
		count_untracked(counters, parsed, p);
	}
	if (share_of(port) && !(result & SV_ANSWERED))
		show_plain(slot, p, was);
	count(counters, SV_COUNT_IN_SEGMENTS, 1);
	count(counters, SV_COUNT_IN_BYTES, skb->len);
	if (write_back(skb, p))
		return drop(counters, SV_COUNT_DROP_ERROR);
	return deliver(skb, counters, target, port);
}

#endif
