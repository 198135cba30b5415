/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a guest may say besides what the edge carries: under which MAC address, in neighbour discovery, and to the host.
 * Only for edge.bpf.c.
 */
#ifndef SV_STRICT_H
#define SV_STRICT_H

#define SV_ND_ROUTER_ADVERTISEMENT 134
#define SV_ND_REDIRECT 137

#define SV_PROTO_FRAGMENT 44

/* The host strips any number of priority tags. Nobody needs more than a few. */
#define MAX_TAGS 4
#define MAX_IPV6_HEADERS 8

static __always_inline int is_tag(u16 type)
{
	return type == SV_ETHERTYPE_VLAN || type == SV_ETHERTYPE_QINQ;
}

static __always_inline u16 type_at(struct __sk_buff *skb, u32 at)
{
	u8 type[2];

	return bpf_skb_load_bytes(skb, at, type, 2) ? 0 : sv_get16(type);
}

/* Is the frame from the MAC address that the guest has? Each packet pays for this: no helper is called. */
static __always_inline int from_own_mac(struct __sk_buff *skb, const struct sv_port *port)
{
	const u8 *data = data_of(skb), *end = end_of(skb);
	u32 other = 0;

	if (data + SV_ETH_LEN > end)
		return 0;
	for (int i = 0; i < 6; i++)
		other |= data[6 + i] ^ port->mac[i];
	return !other;
}

#define CLAIMS_NOTHING 0
#define CLAIMS_OTHERS 1
#define CLAIMS_TO_EDGE 2 /* it answers the agent's question */
#define CLAIMS_UNROUTED 3 /* of a strict port, to be at an address that never crosses: for the host only */

/*
 * What does an ICMPv6 packet of a port that is strict or learns claim? To be at an address, which may be another's, or to be
 * a router. Solicitations are answer_neighbour's.
 */
static __noinline int claims(struct __sk_buff *skb, u32 ifindex, const struct sv_config *conf, struct sv_port *port,
			     const struct sv_packet *p)
{
	u32 at, target[4];
	u8 icmp[24], to[6];
	int source;

	if (!p || !port || !conf)
		return CLAIMS_OTHERS;
	at = SV_ETH_LEN + p->ip_header_len;
	if (p->family != 6 || bpf_skb_load_bytes(skb, at, icmp, 1))
		return CLAIMS_NOTHING;
	if (icmp[0] == SV_ND_ROUTER_ADVERTISEMENT || icmp[0] == SV_ND_REDIRECT)
		return CLAIMS_OTHERS;
	if (icmp[0] != SV_ND_ADVERTISEMENT)
		return CLAIMS_NOTHING;
	if (bpf_skb_load_bytes(skb, at, icmp, sizeof(icmp)) || bpf_skb_load_bytes(skb, 0, to, sizeof(to)))
		return CLAIMS_OTHERS;
	for (int i = 0; i < 4; i++)
		target[i] = sv_get32(icmp + 8 + 4 * i);
	source = check_source(skb, ifindex, port, target);
	if (source == SOURCE_SPOOFED)
		return CLAIMS_OTHERS;
	if (source == SOURCE_UNROUTED)
		return CLAIMS_UNROUTED;
	if (!(port->flags & SV_PORT_LEARN) || !is_to_edge(to, conf))
		return CLAIMS_NOTHING;
	tell_guest(skb, ifindex, port, target, &port->heard_at);
	return CLAIMS_TO_EDGE;
}

/* What stands behind the IP header of a frame, and behind IPv6's extension headers. */
struct sv_behind {
	u32 at;	   /* where it begins */
	u8 next;   /* its protocol */
	u8 later;  /* it is not the first fragment's */
	u8 bit;	   /* the reserved one of IPv4 */
};

#define BEHIND_NOTHING 0 /* not IP, or too short */
#define BEHIND_IP 1
#define BEHIND_TOO_MANY 2 /* tags or headers */

/* As a host that forwards it would see it, which takes tags off. Lengths do not count: that host may see to them in another way than this one. */
static __noinline int look_behind(struct __sk_buff *skb, struct sv_behind *b)
{
	u32 at = 12;
	u8 ip[10], next;
	u16 type = type_at(skb, at);

	if (!b)
		return BEHIND_TOO_MANY;
	__builtin_memset(b, 0, sizeof(*b));
	for (int i = 0; i < MAX_TAGS && is_tag(type); i++) {
		at += SV_VLAN_LEN;
		type = type_at(skb, at);
	}
	if (is_tag(type))
		return BEHIND_TOO_MANY;
	at += 2;
	if (bpf_skb_load_bytes(skb, at, ip, sizeof(ip)))
		return BEHIND_NOTHING;
	if (type == SV_ETHERTYPE_IPV4) {
		next = ip[9];
		b->later = !!(sv_get16(ip + 6) & 0x1fff);
		b->bit = ip[6] >> 7;
		at += (u32)(ip[0] & 15) * 4;
	} else if (type == SV_ETHERTYPE_IPV6) {
		next = ip[6];
		at += 40;
		for (int i = 0; i < MAX_IPV6_HEADERS && (sv_is_extension(next) || next == SV_PROTO_FRAGMENT) && !b->later; i++) {
			u8 header[4];

			if (bpf_skb_load_bytes(skb, at, header, sizeof(header)))
				return BEHIND_NOTHING;
			if (next == SV_PROTO_FRAGMENT) {
				b->later = !!(sv_get16(header + 2) & 0xfff8);
				at += 8;
			} else {
				at += ((u32)header[1] + 1) * 8;
			}
			next = header[0];
		}
		if (!b->later && (sv_is_extension(next) || next == SV_PROTO_FRAGMENT))
			return BEHIND_TOO_MANY;
	} else {
		return BEHIND_NOTHING;
	}
	b->at = at;
	b->next = next;
	return BEHIND_IP;
}

/* Would a host that forwards it send it to the tunnel's UDP port? This and the next are global: the verifier proves each once. */
__noinline int is_for_tunnel(struct __sk_buff *skb, u32 port)
{
	struct sv_behind b;
	int found = look_behind(skb, &b);
	u8 dport[2];

	if (found != BEHIND_IP)
		return found == BEHIND_TOO_MANY;
	return b.next == SV_PROTO_UDP && !b.later && !bpf_skb_load_bytes(skb, b.at + 2, dport, 2) && sv_get16(dport) == port;
}

/* Without a tunnel: would a peer take for feedback what a host forwards of it? */
__noinline int is_feedback(struct __sk_buff *skb)
{
	struct sv_behind b;
	int found = look_behind(skb, &b);

	return found == BEHIND_TOO_MANY || (found == BEHIND_IP && (b.next == SV_HYG_PROTO || b.bit));
}

/* Not a verdict: it is to the tunnel's UDP port. */
#define FOR_TUNNEL (UNANSWERED - 1)

/* What is not for a guest: may the host have it? A verdict that drops it, FOR_TUNNEL, or UNANSWERED. `parsed`: of `p`. */
static __noinline int leave(struct __sk_buff *skb, const struct sv_config *conf, const struct sv_port *port,
			    const struct sv_packet *p, int parsed)
{
	struct sv_counters *counters = find_counters();

	if (!counters || !conf || !port || !p)
		return TC_ACT_SHOT;
	if (port->flags & SV_PORT_STRICT) {
		u16 type = type_at(skb, 12);

		if (skb->vlan_present || is_tag(type))
			return drop(counters, SV_COUNT_DROP_TAGGED);
		/* What is ARP was found well-formed before. */
		if (!carries(parsed) && type != SV_ETHERTYPE_ARP)
			return drop(counters, SV_COUNT_DROP_MALFORMED);
		if (sv_hides_transport(p))
			return drop(counters, SV_COUNT_DROP_MALFORMED);
	}
	if (port->flags & SV_PORT_ISOLATED)
		return drop(counters, SV_COUNT_DROP_HOST);
	if (conf->udp_port && is_for_tunnel(skb, conf->udp_port))
		return FOR_TUNNEL;
	return UNANSWERED;
}

#endif
