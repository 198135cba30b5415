/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the edge says to a guest by itself, without the agent: where neighbours are, and that a packet is too big. And
 * whether a guest speaks under its own address. Only for edge.bpf.c.
 */
#ifndef SV_ANSWERS_H
#define SV_ANSWERS_H

#include "../neighbour.h"
#include "../toobig.h"

/* Not a verdict: go on. */
#define UNANSWERED 0x7fff

/* Addresses that a guest needs before it has one, or that are nobody's but its link's: never routed by the edge. */
static __always_inline int of_no_route(const u32 *a)
{
	if (!(a[0] | a[1] | a[3]) && (!a[2] || a[2] == 0xffff))
		return 1; /* unspecified */
	return a[0] >> 22 == 0xfe80 >> 6; /* link-local, fe80::/10 */
}

/* What check_source says of a source address. */
#define SOURCE_SPOOFED 0 /* drop */
#define SOURCE_OWN 1
#define SOURCE_UNROUTED 2 /* for the host only */
#define SOURCE_UNKNOWN 3  /* not, or not yet, routed to the port, which is not strict */

/* Tells the agent whom a port has. `last`: when that was done last. */
static __always_inline void tell_guest(struct __sk_buff *skb, u32 ifindex, const struct sv_port *port, const u32 *addr, u64 *last)
{
	u64 now = bpf_ktime_get_ns();
	struct sv_event *event;
	u8 mac[6] = {0};

	if (*last && now - *last < SV_LEARN_INTERVAL_NS)
		return;
	*last = now;
	event = begin_event(SV_EVENT_GUEST, ifindex, addr, port->vni, now);
	if (!event)
		return;
	bpf_skb_load_bytes(skb, 6, mac, sizeof(mac));
	for (int i = 0; i < 6; i++)
		event->mac[i] = mac[i];
	bpf_ringbuf_submit(event, 0);
}

/* Is a frame that begins with `to` for the edge itself? So guests answer the agent's questions. */
static __always_inline int is_to_edge(const u8 *to, const struct sv_config *conf)
{
	for (int i = 0; i < 6; i++)
		if (to[i] != conf->mac[i])
			return 0;
	return any_mac(conf->mac);
}

/*
 * A port that learns or is strict, which has number `ifindex`, sent from `addr`: SOURCE_*. The frame's source MAC address is
 * reported with what is to be learnt.
 */
static __noinline int check_source(struct __sk_buff *skb, u32 ifindex, struct sv_port *port, const u32 *addr)
{
	struct sv_route *route;

	if (!port || !addr)
		return SOURCE_SPOOFED;
	if (of_no_route(addr))
		return port->flags & SV_PORT_STRICT ? SOURCE_UNROUTED : SOURCE_OWN;
	route = find_route(port->vni, addr);
	if (route && route->kind == SV_ROUTE_LOCAL && route->target == ifindex)
		return SOURCE_OWN;
	if (port->flags & SV_PORT_LEARN)
		tell_guest(skb, ifindex, port, addr, &port->learnt_at);
	return port->flags & SV_PORT_STRICT ? SOURCE_SPOOFED : SOURCE_UNKNOWN;
}

/* The MAC address that stands for `addr` as seen from interface `ifindex`. Returns 0 if that is nobody. */
static __always_inline int mac_of(const struct sv_config *conf, u32 vni, u32 ifindex, const u32 *addr, u8 *mac)
{
	struct sv_route *route = find_route(vni, addr);
	const u8 *known;
	u32 target;

	if (!route)
		return 0;
	known = route->mac;
	if (route->kind == SV_ROUTE_LOCAL) {
		struct sv_port *port;

		target = route->target;
		if (target == ifindex)
			return 0; /* the asker's own */
		port = bpf_map_lookup_elem(&ports, &target);
		/* Looked at alone: clang 16 computes the next line before a condition that is joined with another. */
		if (!port)
			return 0;
		if (port->vni != vni)
			return 0;
		known = port->mac;
	}
	if (!any_mac(known))
		known = conf->mac;
	for (int i = 0; i < 6; i++)
		mac[i] = known[i];
	return any_mac(mac);
}

/* Does ARP's sender name the guest's own MAC address, as does the frame? Of neighbour discovery, `mac` is the frame's. */
static __always_inline int own_sender(const u8 *frame, const struct sv_neighbour *q, const struct sv_port *port)
{
	for (int i = 0; i < 6; i++)
		if (frame[6 + i] != port->mac[i] || q->mac[i] != port->mac[i])
			return 0;
	return 1;
}

/* An ARP packet or a neighbour solicitation of port `ifindex`, perhaps. A verdict, or UNANSWERED. */
static __noinline int answer_neighbour(struct __sk_buff *skb, u32 ifindex, struct sv_counters *counters,
				       const struct sv_config *conf, struct sv_port *port)
{
	u8 frame[SV_NEIGHBOUR_MAX] = {0}, mac[6] = {0};
	struct sv_neighbour q = {0};
	u32 len = skb->len;
	long failed;

	if (!counters || !conf || !port)
		return UNANSWERED;
	if (len >= SV_ND_LEN)
		failed = bpf_skb_load_bytes(skb, 0, frame, SV_ND_LEN);
	else if (len >= SV_ND_MIN)
		failed = bpf_skb_load_bytes(skb, 0, frame, SV_ND_MIN);
	else
		failed = bpf_skb_load_bytes(skb, 0, frame, SV_ARP_LEN);
	if (failed || !sv_neighbour_read(frame, len, &q))
		/* Of ARP, a strict port lets only that pass of which the asker is known. */
		return port->flags & SV_PORT_STRICT && skb->protocol == bpf_htons(SV_ETHERTYPE_ARP) ?
			drop(counters, SV_COUNT_DROP_MALFORMED) : UNANSWERED;
	if (port->flags & SV_PORT_OWN_MAC && !own_sender(frame, &q, port)) {
		tell_mac(ifindex, port, q.asker);
		return drop(counters, SV_COUNT_DROP_SPOOFED);
	}
	if (port->flags & (SV_PORT_LEARN | SV_PORT_STRICT) && check_source(skb, ifindex, port, q.asker) == SOURCE_SPOOFED)
		return drop(counters, SV_COUNT_DROP_SPOOFED);
	if (port->flags & SV_PORT_LEARN && q.family == 4 && sv_get16(frame + SV_ETH_LEN + 6) == SV_ARP_REPLY && is_to_edge(frame, conf)) {
		tell_guest(skb, ifindex, port, q.asker, &port->heard_at);
		return TC_ACT_SHOT;
	}
	if (!q.question || !mac_of(conf, port->vni, ifindex, q.asked, mac))
		return UNANSWERED;
	len = sv_neighbour_answer(frame, &q, mac);
	if (len != skb->len && bpf_skb_change_tail(skb, len, 0))
		return drop(counters, SV_COUNT_DROP_ERROR);
	failed = q.family == 4 ? bpf_skb_store_bytes(skb, 0, frame, SV_ARP_LEN, BPF_F_RECOMPUTE_CSUM) :
				 bpf_skb_store_bytes(skb, 0, frame, SV_ND_LEN, BPF_F_RECOMPUTE_CSUM);
	if (failed)
		return drop(counters, SV_COUNT_DROP_ERROR);
	count(counters, SV_COUNT_ANSWERED, 1);
	return bpf_redirect(ifindex, 0);
}

/* The transport checksum of the packet whose IP header is at SV_ETH_LEN. */
static __always_inline u16 load_check(struct __sk_buff *skb, const struct sv_packet *p)
{
	u32 l4 = SV_ETH_LEN + p->ip_header_len;
	u8 check[2] = {0};

	if (p->l4_header_len)
		bpf_skb_load_bytes(skb, l4 + (p->proto == SV_PROTO_TCP ? 16 : 6), check, 2);
	return sv_get16(check);
}

/* Functions of their own, for the sake of the stack. */
static __noinline int write_toobig4(u8 *b, const struct sv_packet *p, u32 unfinished, u32 check, u32 mtu)
{
	if (!b || !p || !sv_toobig_answerable(b + SV_ETH_LEN + SV_TOOBIG_ADD4, p))
		return 0;
	sv_toobig_write4(b, p, (int)unfinished, (u16)check, mtu);
	return 1;
}

static __noinline int write_toobig6(u8 *b, const struct sv_packet *p, u32 unfinished, u32 check, u32 mtu)
{
	if (!b || !p || !sv_toobig_answerable(b + SV_ETH_LEN + SV_TOOBIG_ADD6, p))
		return 0;
	sv_toobig_write6(b, p, (int)unfinished, (u16)check, mtu);
	return 1;
}

/*
 * A guest's packet does not fit in `limit`, where it is to go: it becomes the answer that says so, or is dropped. The answer is the
 * packet itself, cut and with headers put in front, so that it needs nothing but this program.
 */
static __noinline int answer_toobig(struct __sk_buff *skb, u32 ifindex, struct sv_port *port,
				    const struct sv_packet *p, u32 limit)
{
	struct sv_counters *counters = find_counters();
	u8 b[SV_TOOBIG_MAX] = {0};
	int unfinished, add;
	u64 now = bpf_ktime_get_ns();
	u16 check;
	u32 mtu;

	if (!counters || !port || !p)
		return TC_ACT_SHOT;
	count(counters, SV_COUNT_DROP_OVERSIZE, 1);
	if (skb->len < SV_ETH_LEN + SV_TOOBIG_QUOTE || p->ip_header_len > SV_TOOBIG_QUOTE - 20 || p->truncated)
		return TC_ACT_SHOT;
	if (port->toobig_at && now - port->toobig_at < SV_TOOBIG_INTERVAL_NS)
		return TC_ACT_SHOT;
	mtu = sv_toobig_limit(p->family, limit);
	check = load_check(skb, p);
	unfinished = sv_toobig_unfinished(p, check);
	if (bpf_skb_load_bytes(skb, 0, b, SV_ETH_LEN))
		return TC_ACT_SHOT;
	if (p->family == 4) {
		if (bpf_skb_load_bytes(skb, SV_ETH_LEN, b + SV_ETH_LEN + SV_TOOBIG_ADD4, SV_TOOBIG_QUOTE) ||
		    !write_toobig4(b, p, (u32)unfinished, check, mtu))
			return TC_ACT_SHOT;
		add = SV_TOOBIG_ADD4;
	} else {
		if (bpf_skb_load_bytes(skb, SV_ETH_LEN, b + SV_ETH_LEN + SV_TOOBIG_ADD6, SV_TOOBIG_QUOTE) ||
		    !write_toobig6(b, p, (u32)unfinished, check, mtu))
			return TC_ACT_SHOT;
		add = SV_TOOBIG_ADD6;
	}
	port->toobig_at = now;
	/* Cutting also makes it a plain packet that is not to be segmented. */
	if (bpf_skb_change_tail(skb, SV_ETH_LEN + SV_TOOBIG_QUOTE, 0) ||
	    bpf_skb_adjust_room(skb, add, BPF_ADJ_ROOM_MAC, 0))
		return drop(counters, SV_COUNT_DROP_ERROR);
	if (add == SV_TOOBIG_ADD4 ? bpf_skb_store_bytes(skb, 0, b, SV_ETH_LEN + SV_TOOBIG_ADD4, BPF_F_RECOMPUTE_CSUM) :
				    bpf_skb_store_bytes(skb, 0, b, SV_ETH_LEN + SV_TOOBIG_ADD6, BPF_F_RECOMPUTE_CSUM))
		return drop(counters, SV_COUNT_DROP_ERROR);
	count(counters, SV_COUNT_OVERSIZE_ANSWERED, 1);
	return bpf_redirect(ifindex, 0);
}

#endif
