/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The edge in the kernel: two tc programs that look state up, call the shared stages and write back. No algorithm
 * stands here. selvedge_guest runs on what leaves a guest (ingress of the host's end of its veth pair, or of its tap),
 * selvedge_uplink on what arrives from the fabric. What overtook an earlier flowcell comes to the guest by way of the
 * agent and selvedge_drain (receiver.h).
 *
 * Packets that are not for the edge leave as they came, to whatever the host would do with them without it.
 *
 * Needs Linux 6.1, the oldest whose verifier has seen it (docs/kernels.md).
 */
#include "program.h"
#define SV_CLASS_OF(c, p, egress) class_of(p, (c)->tenant, egress)
struct sv_packet;
__noinline unsigned char class_of(const struct sv_packet *p, unsigned int tenant, unsigned int egress);
/* known.h */
#define SV_HEAR(c) hear_elsewhere(c)
#define SV_ALL_CONGESTED(c) all_congested((c)->peer, (c)->now)
#define SV_NEXT_PATH(c) (unsigned short)next_path((c)->peer, (c)->from, (c)->pause, (c)->now)
#define SV_SAME_SCHEDULE(c) same_schedule(c)
#define hear_elsewhere(c) ((c)->news.kind && sv_balance_keeps(&(c)->conf->balance) ? hear_of_path((c)->peer, \
	(unsigned int)(c)->news.kind << 16 | (unsigned int)(c)->news.path << 8 | (c)->news.value, (c)->now) : 0)
__noinline unsigned int next_path(unsigned int id, unsigned int from, unsigned int pause, unsigned long long now);
__noinline int hear_of_path(unsigned int id, unsigned int news, unsigned long long now);
__noinline int all_congested(unsigned int id, unsigned long long now);
struct sv_ctx;
static __always_inline int same_schedule(const struct sv_ctx *c);

/* tenants.h, which also sees what no stage does */
#define SV_DEPART(c, p)
#define SV_HARVEST(c, p) 0

#include "../mss.h"
#include "state.h"

#include "clock.h"
#include "maps.h"
#include "known.h"
#include "skb.h"
#include "congestion.h"
#include "flows.h"
#include "kept.h"
#include "found.h"
#include "tick.h"
#include "tenants.h"
#include "rates.h"

#include "answers.h"
#include "strict.h"
#include "hops.h"
#include "tunnel.h"
#include "probe.h"
#include "told.h"
#include "receiver.h"
#include "stages.h"
#include "plain.h"
#include "cut.h"

/*
 * A segment that the stages have seen turned out to need cutting. They will see what comes of it: it is not to count twice. The
 * flow's later segments are cut before the stages see them.
 */
static __noinline int uncount(struct sv_counters *counters, struct sv_flow_slot *slot, const struct sv_packet *p)
{
	if (!counters || !p)
		return 0;
	if (!slot) {
		counters->n[SV_COUNT_FLOW_TABLE_FULL]--;
		return 0;
	}
	bpf_spin_lock(&slot->lock);
	slot->cut |= SV_CUT_OUT;
	slot->counts.out_segments--;
	slot->counts.out_bytes -= p->payload;
	sv_balance_uncount(&slot->balance, p);
	bpf_spin_unlock(&slot->lock);
	return 0;
}

/* What `p` was to tell the peer it does not, for it does not leave. */
static __always_inline void untell(u32 id, u32 ifindex, const struct sv_packet *p)
{
	if (p->feedback == SV_FEEDBACK_MARKS)
		unpay_guest(ifindex, p);
	else
		untell_peer(id, p);
}

/* Those of an IP and of a TCP header. */
#define REPEATED_HEADERS 40

/* Bytes on the wire of a segment of a guest, in the tunnel, if there is one. */
static __always_inline u64 bytes_to(const struct sv_peer *peer, const struct __sk_buff *skb, const struct sv_packet *p, int parsed,
				    const int plain)
{
	u32 tunnel = plain ? 0 : peer->tunnel.family == 4 ? SV_ENCAP_LEN4 : SV_ENCAP_LEN6;
	u32 len = skb->len - SV_ETH_LEN, packets, repeated;

	if (parsed == SV_PARSE_OK) {
		packets = sv_hyg_packets(p);
		repeated = p->ip_header_len + p->l4_header_len;
	} else {
		/* Of a segment that is neither TCP's nor UDP's, which headers its packets repeat is not known: a tunnel's, most often. */
		packets = skb->gso_size ? (len - 1) / skb->gso_size + 1 : 1;
		repeated = p->ip_header_len + REPEATED_HEADERS;
	}
	/* What is behind the end of the IP packet leaves, too. */
	return len + (u64)packets * (SV_HYG_FRAMING + tunnel) + (u64)(packets - 1) * repeated;
}

/* Before all that makes state: may the guest send it to the peer? What comes out of the cutter was held before. */
static __always_inline int within_share(struct __sk_buff *skb, u32 ifindex, const struct sv_port *port, const struct sv_peer *peer,
					struct sv_scratch *scratch, int parsed, int was_cut, const int plain)
{
	const struct sv_packet *p = &scratch->packet;

	scratch->exact = 0;
	if (!share_of(port))
		return 1;
	scratch->exact = shares_now();
	if (was_cut)
		return 1;
	if (!admit_guest(ifindex, share_of(port), port->vni, p, scratch->exact))
		return 0;
	if (hold_guest(skb, ifindex, share_of(port), bytes_to(peer, skb, p, parsed, plain), scratch->exact))
		return 1;
	skb->cb[0] = SV_DROPPED_OVER_RATE;
	skb->cb[1] = ifindex;
	return 0;
}

/*
 * From the guest on port `ifindex`, to the peer with the number `id`. `scratch`: packet and inner destination. `slot`: the flow's, if it
 * has one already. `plain`: without a tunnel.
 */
static __always_inline int to_peer(struct __sk_buff *skb, u32 ifindex, struct sv_counters *counters,
				   const struct sv_config *conf, struct sv_port *port, const struct sv_peer *peer,
				   u32 id, struct sv_scratch *scratch, struct sv_flow_slot *slot, int parsed, int was_cut,
				   const int plain)
{
	struct sv_packet *p = &scratch->packet;
	u32 vni = port->vni, mtu = sv_mtu_of_both(port->mtu, peer->mtu), frame_len;
	int verdict;

	scratch->now = stages_now(conf, 0);
	p->wire = plain ? SV_WIRE_PLAIN : wire_to(peer, id, scratch->now);
	if (!plain && may_cut(conf, was_cut) && ((slot && slot->cut & SV_CUT_OUT) || (skb->gso_size &&
	    (parsed != SV_PARSE_OK || skb->len > 65535 - SV_ENCAP_LEN6))))
		return to_cutter(skb, ifindex, counters, conf);
	if (mtu) {
		/* Of a segment of another transport the size of its packets is not known; without a tunnel it leaves whole. */
		if (!(plain && skb->gso_size && parsed != SV_PARSE_OK) && !sv_toobig_fits(p, skb->len - SV_ETH_LEN, mtu))
			return answer_toobig(skb, ifindex, port, p, mtu);
		if (p->mss && clamp_mss(skb, 0, p, mtu))
			count(counters, SV_COUNT_MSS_CLAMPED, 1);
	}
	if (parsed == SV_PARSE_OK) {
		u32 result;

		/* A peer of plain VXLAN would hand the reserved bits on to its guest. */
		if (conf->flags & SV_CONFIG_CONGESTION && peer->tunnel.version != SV_ENCAP_PLAIN) {
			read_option(skb, 0, p);
			result = egress_congested(slot, conf, peer, (u64)vni << 32 | id, scratch);
		} else {
			result = egress(slot, conf, peer, id, scratch);
		}
		note_results(ifindex, counters, p, result);
		settle_if_due(slot);
		if (result & SV_POLICED)
			return TC_ACT_SHOT;
		if (!plain && write_back(skb, p)) {
			if (p->feedback)
				untell_peer(id, p);
			return drop(counters, SV_COUNT_DROP_ERROR);
		}
	} else if (!plain) {
		p->label = sv_encap_port(0, hash_of(p, conf->seed));
	}
	if (plain) {
		if (parsed != SV_PARSE_OK)
			count_untracked(counters, parsed, p);
		return leave_plain(skb, ifindex, share_of(port), peer->ifindex, p);
	}
	if (share_of(port))
		/* 0: the port had no share when the segment came. */
		depart_guest(ifindex, share_of(port), p, (u64)vni << 32 | id, scratch->exact ? scratch->exact : shares_now());
	frame_len = skb->len;
	verdict = encapsulate(skb, peer, scratch, was_cut ? vni | WAS_CUT : vni, id);
	if (p->feedback) {
		if (verdict < 0)
			untell(id, ifindex, p);
		else
			count(counters, SV_COUNT_FEEDBACK_SENT, 1);
	}
	if (verdict == TO_CUTTER && may_cut(conf, was_cut)) {
		if (parsed == SV_PARSE_OK)
			uncount(counters, slot, p);
		if (share_of(port))
			uncount_guest(ifindex, share_of(port), vni, p);
		return to_cutter(skb, ifindex, counters, conf);
	}
	if (parsed != SV_PARSE_OK)
		count_untracked(counters, parsed, p);
	if (verdict < 0)
		return drop(counters, verdict == -SV_COUNT_DROP_TOO_LARGE ? SV_COUNT_DROP_TOO_LARGE : SV_COUNT_DROP_ERROR);
	count(counters, SV_COUNT_OUT_SEGMENTS, 1);
	count(counters, SV_COUNT_OUT_BYTES, frame_len);
	return verdict;
}

/*
 * Out of the queue with a number, at its device `at`: a port without a network lets it pass. Of one with a network it goes on here, with the
 * port's number as its mark: UNANSWERED.
 */
static __always_inline int to_port_again(struct __sk_buff *skb, const struct sv_port *at)
{
	u32 kept = skb->tc_index, key = SV_RETURN | (kept & SV_RETURN_NUMBER);
	const struct sv_port *port = kept ? bpf_map_lookup_elem(&ports, &key) : 0;

	if (!port)
		return at->flags & SV_PORT_SHARED ? NEXT : TC_ACT_SHOT;
	skb->tc_index = 0;
	if (port->flags & SV_PORT_LIMITED) {
		skb->priority = 0; /* that of its class, which only a pair of devices takes off */
		skb->mark = port->vni;
		return UNANSWERED;
	}
	if (port->flags & SV_PORT_INSIDE) {
		skb->priority = kept & SV_RETURN_PRIORITY ? skb->hash : 0;
		if (kept & SV_RETURN_PRIORITY)
			bpf_set_hash_invalid(skb);
		return into_guest(skb, port->vni);
	}
	skb->tstamp = kept & SV_RETURN_PRIORITY ? SV_RETURNED_PRIORITY : SV_RETURNED;
	return bpf_redirect(port->vni, BPF_F_INGRESS);
}

/* What leaves a guest. `plain`: the uplink has no tunnel. */
static __always_inline int from_guest(struct __sk_buff *skb, const int plain)
{
	struct sv_counters *counters = find_counters();
	u32 zero = 0, ifindex = skb->ifindex, target, epoch, id;
	struct sv_flow_slot *slot = 0;
	const struct sv_found *found;
	struct sv_config *conf;
	struct sv_route *route;
	struct sv_port *port, *to;
	struct sv_scratch *scratch = new_scratch(0);
	struct sv_packet *p;
	struct sv_peer *peer;
	int parsed = SV_PARSE_NOT_IP, verdict, source = SOURCE_OWN, limited = 0, was_cut = 0, for_host = 0;

	conf = bpf_map_lookup_elem(&config, &zero);
	port = bpf_map_lookup_elem(&ports, &ifindex);
	if (!counters || !conf || !port || !scratch)
		return NEXT;
	p = &scratch->packet;
	if (port->flags & SV_PORT_LIMITED && skb->mark == ifindex) {
		skb->mark = 0;
		return NEXT; /* counted below, when it came out of the queue */
	}
	if (port->flags & SV_PORT_LIMITER) {
		/* It came from a port that limits.bpf.c watches, and out of its queue; or out of the cutter. */
		was_cut = !!(port->flags & SV_PORT_CUTTER);
		if (!was_cut && (skb->tc_index || port->flags & SV_PORT_SHARED)) {
			verdict = to_port_again(skb, port);
			if (verdict != UNANSWERED)
				return verdict;
		}
		if (was_cut) {
			verdict = to_uplink_again(skb);
			if (verdict != UNANSWERED)
				return verdict;
		}
		ifindex = skb->mark;
		port = bpf_map_lookup_elem(&ports, &ifindex);
		if (!port || port->flags & SV_PORT_LIMITER)
			return TC_ACT_SHOT;
		skb->mark = 0;
		limited = 1;
	}
	/* What left the guest in its old network is not to leave in its new one. */
	if (port->vni == SV_PORT_CLOSED)
		return drop(counters, SV_COUNT_DROP_FOREIGN);
	epoch = epoch_of(conf);
	if (skb->vlan_present)
		goto pass;
	parsed = parse_at(skb, 0, p);
	if (port->flags & SV_PORT_STRICT && p->truncated)
		return drop(counters, SV_COUNT_DROP_MALFORMED);
	if (port->flags & SV_PORT_OWN_MAC && carries(parsed) && !from_own_mac(skb, port)) {
		tell_mac(ifindex, port, p->saddr);
		return drop(counters, SV_COUNT_DROP_SPOOFED);
	}
	if (parsed == SV_PARSE_OK) {
		slot = find_flow(p, port->vni, OUT);
		found = slot ? found_in(&slot->found, &slot->found.out_epoch, epoch) : 0;
		if (found && found->out_port == ifindex) {
			id = found->out_peer;
			peer = bpf_map_lookup_elem(&peers, &id);
			if (peer && !within_share(skb, ifindex, port, peer, scratch, parsed, was_cut, plain))
				return TC_ACT_SHOT;
			if (peer) {
				__builtin_memcpy(scratch->mac, found->out_mac, 6);
				goto to_peer;
			}
		}
	}
	if (!carries(parsed) && skb->protocol != bpf_htons(SV_ETHERTYPE_ARP))
		goto pass;
	/* Behind headers that nobody has read, anything may be claimed. */
	if (port->flags & SV_PORT_STRICT && parsed == SV_PARSE_NOT_TRANSPORT && sv_hides_transport(p))
		return drop(counters, SV_COUNT_DROP_MALFORMED);
	if (parsed == SV_PARSE_NOT_IP || (parsed == SV_PARSE_NOT_TRANSPORT && p->proto == SV_PROTO_ICMPV6)) {
		verdict = answer_neighbour(skb, ifindex, counters, conf, port);
		if (verdict != UNANSWERED)
			return verdict;
		if (parsed == SV_PARSE_NOT_IP)
			goto pass;
		if (port->flags & (SV_PORT_STRICT | SV_PORT_LEARN)) {
			verdict = claims(skb, ifindex, conf, port, p);
			if (verdict == CLAIMS_TO_EDGE)
				return TC_ACT_SHOT;
			if (verdict == CLAIMS_OTHERS && port->flags & SV_PORT_STRICT)
				return drop(counters, SV_COUNT_DROP_SPOOFED);
			for_host = verdict == CLAIMS_UNROUTED;
		}
	}
	if (port->flags & (SV_PORT_LEARN | SV_PORT_STRICT)) {
		source = check_source(skb, ifindex, port, p->saddr);
		if (source == SOURCE_SPOOFED)
			return drop(counters, SV_COUNT_DROP_SPOOFED);
		if (source == SOURCE_UNROUTED || for_host)
			goto pass;
	}
	route = find_route(port->vni, p->daddr);
	if (!route)
		goto pass;
	target = route->target;
	if (route->kind == SV_ROUTE_PEER) {
		id = target;
		peer = bpf_map_lookup_elem(&peers, &id);
		if (!peer)
			goto pass;
		if (plain && p->proto == SV_HYG_PROTO)
			return drop(counters, SV_COUNT_DROP_MALFORMED); /* the edges' own there */
		if (!within_share(skb, ifindex, port, peer, scratch, parsed, was_cut, plain))
			return TC_ACT_SHOT;
		if (parsed == SV_PARSE_OK && !slot)
			slot = make_flow(p, port->vni, OUT, ifindex);
		if (slot && epoch && source == SOURCE_OWN)
			cache_egress_lookup(slot, p, port->vni, epoch, ifindex, route);
		__builtin_memcpy(scratch->mac, route->mac, 6);
		goto to_peer;
	}
	to = bpf_map_lookup_elem(&ports, &target);
	/* While a port changes its network, a route may still lead to it from the old one. */
	if (!to || target == ifindex || to->vni != port->vni)
		goto pass;
	/* Of segments that are neither TCP's nor UDP's only the kernel knows how large their packets are. */
	if (to->mtu && !(skb->gso_size && parsed != SV_PARSE_OK) && !sv_toobig_fits(p, skb->len - SV_ETH_LEN, to->mtu))
		return answer_toobig(skb, ifindex, port, p, to->mtu);
	if (p->mss && clamp_mss(skb, 0, p, sv_mtu_of_both(port->mtu, to->mtu)))
		count(counters, SV_COUNT_MSS_CLAMPED, 1);
	count(counters, SV_COUNT_LOCAL_SEGMENTS, 1);
	/* The port took it for another station's; before Linux 6.15 the other guest would, too. */
	bpf_skb_change_type(skb, 0 /* PACKET_HOST */);
	return deliver(skb, counters, target, to);

to_peer:
	return to_peer(skb, ifindex, counters, conf, port, peer, id, scratch, slot, parsed, was_cut, plain);

pass:
	verdict = leave(skb, conf, port, p, parsed);
	if (verdict == FOR_TUNNEL) {
		send_notice(SV_EVENT_TUNNEL, ifindex, p->daddr, 0);
		return drop(counters, SV_COUNT_DROP_TUNNEL);
	}
	if (verdict != UNANSWERED)
		return verdict;
	/* The edge has not read it: the host might forward it to a peer, as it takes tags off. */
	if (plain && !carries(parsed) && is_feedback(skb))
		return drop(counters, SV_COUNT_DROP_MALFORMED);
	count(counters, SV_COUNT_PASSED, 1);
	if (!limited)
		return NEXT;
	/* The host gets it from the port itself; the mark says there that it need not queue again. */
	skb->mark = ifindex;
	return bpf_redirect(ifindex, BPF_F_INGRESS);
}

SEC("tc")
int selvedge_guest(struct __sk_buff *skb)
{
	return is_hosts_own(skb) ? NEXT : from_guest(skb, 0);
}

SEC("tc")
int selvedge_plain_guest(struct __sk_buff *skb)
{
	return is_hosts_own(skb) ? NEXT : from_guest(skb, 1);
}

/* Largest IP packets between peer `id` and a guest whose own are at most `most`; 0: no bound. Global: the verifier proves it once. */
__noinline u32 mtu_between(u32 most, u32 id)
{
	const struct sv_peer *peer = bpf_map_lookup_elem(&peers, &id);

	return sv_mtu_of_both(most, peer ? peer->mtu : 0);
}

SEC("tc")
int selvedge_uplink(struct __sk_buff *skb)
{
	struct sv_counters *counters;
	struct sv_config *conf;
	struct sv_route *route;
	struct sv_port *port;
	u32 key = 0, target;
	struct sv_scratch *scratch = new_scratch(1);
	struct sv_packet *p;
	struct sv_outer *o;
	struct sv_flow_slot *slot = 0;
	int parsed, family_changes, known, again;
	u32 epoch, from, most = STRANGER, began = 0;
	struct sv_arrival kept;
	struct sv_peer *sender;
	int probed;

	conf = bpf_map_lookup_elem(&config, &key);
	if (!conf || !scratch)
		return NEXT;
	p = &scratch->packet;
	o = &scratch->outer;
	if (!conf->udp_port || skb->vlan_present || !read_outer(skb, conf->udp_port, o))
		return NEXT;
	counters = find_counters();
	if (!counters)
		return NEXT;
	if (sv_notification_is(data_of(skb), end_of(skb))) {
		probed = take_notification(skb);
		if (probed != UNANSWERED)
			return probed;
		__builtin_memset(p, 0, sizeof(*p));
	}
	if (o->frame_len != skb->len) {
		send_notice(SV_EVENT_LENGTHS, skb->ifindex, o->saddr, 0);
		return drop(counters, SV_COUNT_DROP_LENGTHS);
	}
	scratch->now = stages_now(conf, 0);
	epoch = epoch_of(conf);
	again = comes_again(skb);
	parsed = parse_at(skb, o->add_len, p);
	if (!carries(parsed))
		goto nobody;
	if (parsed == SV_PARSE_OK)
		slot = find_flow(p, o->encap.vni, IN);
	known = slot && kept_in(&slot->found, epoch, p, o->saddr, &kept);
	if (known) {
		target = kept.port;
	} else {
		route = find_route(o->encap.vni, p->daddr);
		if (!route || route->kind != SV_ROUTE_LOCAL)
			goto nobody;
		target = route->target;
	}
	port = bpf_map_lookup_elem(&ports, &target);
	if (!port || port->vni != o->encap.vni)
		goto nobody;
	from = known ? kept.peer : peer_of(o->saddr);
	if (known) {
		most = kept.most;
	} else if (from) {
		sender = bpf_map_lookup_elem(&peers, &from);
		most = sender ? sender->tunnel.version : SV_ENCAP_PLAIN;
	}
	if (again && skb->gso_size)
		return drop(counters, SV_COUNT_DROP_ERROR); /* it was not cut, and would go round for ever */
	/* Who may not send it is found out below. */
	if (!again && may_cut_in_tunnel(skb, conf, p, slot) &&
	    (from ? known || speaks_for(from, o->encap.vni, p) : conf->flags & SV_CONFIG_ANY_PEER)) {
		if (skb->gso_size && skb->len > MOST_DATAGRAMS * skb->gso_size + MOST_HEADERS)
			return drop(counters, SV_COUNT_DROP_TOO_LARGE);
		if (parsed == SV_PARSE_OK && !slot)
			slot = make_flow(p, o->encap.vni, IN, target);
		if (slot)
			slot->cut |= SV_CUT_IN;
		return to_cutter(skb, CUT_IN_TUNNEL | skb->ifindex, counters, conf);
	}
	if (!check_sender(skb, counters, conf, o, most))
		return TC_ACT_SHOT;
	/* What a flow has kept was checked when it was kept. */
	if (!known && from && !speaks_for(from, o->encap.vni, p)) {
		send_notice_of(SV_EVENT_FORGED, skb->ifindex, o->saddr, o->encap.vni, p);
		return drop(counters, SV_COUNT_DROP_FORGED);
	}
	if (parsed == SV_PARSE_OK && !slot)
		slot = make_flow(p, o->encap.vni, IN, target);
	if (slot && from && epoch && !known && !kept_in(&slot->found, epoch, p, o->saddr, &kept))
		cache_ingress_lookup(slot, p, o->encap.vni, epoch, target, o->saddr, from, (u8)most);
	if (most == SV_ENCAP_V2) {
		struct sv_heard *h = bpf_map_lookup_elem(&heard, &from);

		if (h)
			sv_heard_note(h, sv_encap_claim(&o->encap), o->encap.version == SV_ENCAP_PLAIN, scratch->now);
	}
	if (o->encap.shim && p->proto == SV_DROPPED_PROTO && take_told(skb, o, p, most == SV_ENCAP_V2 ? from : 0, target))
		return TC_ACT_SHOT;
	if (o->ecn == SV_ECN_CE)
		count(counters, SV_COUNT_IN_CE, 1);
	if (!sv_ecn_arrives(p, o->ecn, most == SV_ENCAP_V2 && o->encap.version == SV_ENCAP_V2 ? SV_WIRE_2 : SV_WIRE_1))
		return drop(counters, SV_COUNT_DROP_ECN);
	if ((share_of(port) || p->proto == SV_HYG_PROTO) && take_marks(o, target, share_of(port), p))
		return drop(counters, SV_COUNT_MARKS_CONSUMED);
	p->label = o->sport;
	if (p->mss && clamp_mss(skb, o->add_len, p, mtu_between(port->mtu, from)))
		count(counters, SV_COUNT_MSS_CLAMPED, 1);
	if (parsed == SV_PARSE_OK) {
		u32 result;

		if (conf->flags & SV_CONFIG_CONGESTION && o->encap.version != SV_ENCAP_PLAIN) {
			read_option(skb, o->add_len, p);
			if (o->encap.shim && p->wire == SV_WIRE_2)
				sv_shim_take_report(o->shim, p);
			result = ingress_congested(slot, conf, scratch, from, share_of(port));
		} else {
			result = ingress(slot, conf, scratch, from, share_of(port));
		}
		note_results(skb->ifindex, counters, p, result);
		settle_if_due(slot);
		if (result & SV_CONSUMED)
			return drop(counters, SV_COUNT_FACKS_CONSUMED);
		began = result & SV_BEGAN;
	} else {
		sv_show_unread_ecn(p, share_of(port));
		count_untracked(counters, parsed, p);
	}
	count(counters, SV_COUNT_IN_SEGMENTS, 1);
	count(counters, SV_COUNT_IN_BYTES, skb->len - o->add_len);
	if (decapsulate(skb, o, &family_changes, p->family, port) || write_back(skb, p))
		return drop(counters, SV_COUNT_DROP_ERROR);
	if (conf->flags & SV_CONFIG_REORDER && slot && p->proto == SV_PROTO_TCP && !family_changes) {
		int verdict;

		if (began)
			follow_anew(slot);
		verdict = divert(skb, slot, p, o->encap.vni, target);
		if (verdict != STRAIGHT_ON)
			return verdict;
	}
	return hand_over(target, port, family_changes);

nobody:
	probed = take_probe(skb, counters, conf, o);
	if (probed != UNANSWERED)
		return probed;
	count(counters, SV_COUNT_IN_NO_GUEST, 1);
	return NEXT;
}

/* On the agent's own tunnel device, which is there for GRO only: nothing that comes through it is for anybody. */
SEC("tc")
int selvedge_nothing(struct __sk_buff *skb)
{
	return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "GPL";
