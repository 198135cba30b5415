/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What peers say of dropped packets (../dropped.h). It goes to the agent, and to nobody else: guests never see it. Only for edge.bpf.c.
 */
#ifndef SV_TOLD_H
#define SV_TOLD_H

#include "../dropped.h"
#include "../hygenicc.h"

_Static_assert(SV_DROPPED_PROTO == SV_HYG_PROTO, "guests can send neither without a tunnel");

/* By the agent's number for the peer. CPUs share a row without a lock: a peer may get a few more. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SV_MAX_PEERS + 1);
	__type(key, u32);
	__type(value, struct sv_asked);
} told SEC(".maps");

static __noinline int may_say(u32 peer, u64 now)
{
	struct sv_asked *a = bpf_map_lookup_elem(&told, &peer);

	if (!a)
		return 0;
	if (now - a->since >= SV_EMIT_INTERVAL_NS) {
		a->since = now;
		a->n = 0;
	}
	return a->n++ < SV_TOLD_PEER_MAX;
}

/*
 * Follows the check of the sender: `p` is a packet of the guest of that peer, 0 if it is none's, to the guest on `port`. Returns 1 if it
 * tells of dropped packets, and is nobody's any more.
 */
static __noinline int take_told(struct __sk_buff *skb, const struct sv_outer *o, struct sv_packet *p, u32 peer, u32 port)
{
	struct sv_counters *counters = find_counters();
	const struct sv_config *conf;
	u8 tcp[SV_DROPPED_TCP_LEN];
	struct sv_event *event;
	u32 kind, zero = 0;
	u64 now;

	conf = bpf_map_lookup_elem(&config, &zero);
	if (!counters || !conf || !o || !p || o->encap.version != SV_ENCAP_V2)
		return 0;
	kind = o->shim[0] == SV_SHIM_DROP ? SV_EVENT_DROPPED : SV_EVENT_AGAIN;
	if (kind == SV_EVENT_AGAIN && o->shim[0] != SV_SHIM_AGAIN)
		return 0;
	if (!peer || bpf_skb_load_bytes(skb, o->add_len + SV_ETH_LEN + p->ip_header_len, tcp, sizeof(tcp)) ||
	    !sv_dropped_read(o->shim, tcp, p)) {
		count(counters, SV_COUNT_DROPS_TOLD_MALFORMED, 1);
		return 1;
	}
	now = stages_now(conf, 1);
	if (!may_say(peer, now) || !may_ask(ASKED_TOLD, SV_TOLD_MAX, now)) {
		count(counters, SV_COUNT_DROPS_TOLD_WITHHELD, 1);
		return 1;
	}
	event = begin_event(kind, port, o->saddr, (u32)o->shim[1] << 16 | peer, now);
	if (!event)
		return 1;
	event->packet = *p;
	bpf_ringbuf_submit(event, 0);
	count(counters, SV_COUNT_DROPS_TOLD, 1);
	return 1;
}

/*
 * Ports of a notification are those of the packet that was dropped, not swapped: so its connection is one that a guest here sends on, and none
 * from which packets of these ports arrive. What arrives with swapped ports is a connection's own, whatever its DSCP.
 */
static __noinline int names_what_left(struct sv_packet *p, u32 vni)
{
	if (!p || find_flow(p, vni, IN) || !sv_notification_read(p))
		return 0;
	return !!find_flow(p, vni, OUT);
}

/*
 * A frame in the tunnel, which read_outer has read, has the DSCP of a switch's notification. It is one if it was cut, or had nothing that
 * could be, and is for a guest here: what has all its payload, and what is for nobody here, goes on as without that DSCP (UNANSWERED). Its
 * lengths need not be those of the frame. It must come from the peer whose guest was to get the packet. Where nobody has said that
 * switches notify, the DSCP may be others' and proves nothing: then the lengths must be right, and a flow must be there that it names. A
 * function of its own, global: the verifier proves it once.
 */
__noinline int take_notification(struct __sk_buff *skb)
{
	struct sv_counters *counters = find_counters();
	struct sv_scratch *scratch = this_scratch(1);
	const struct sv_config *conf;
	const struct sv_route *route;
	const struct sv_port *port;
	u32 zero = 0, from, target;
	struct sv_event *event;
	struct sv_packet *p;
	struct sv_outer *o;
	int parsed, expected;
	u64 now;

	conf = bpf_map_lookup_elem(&config, &zero);
	if (!counters || !conf || !scratch)
		return UNANSWERED;
	p = &scratch->packet;
	o = &scratch->outer;
	expected = conf->flags & SV_CONFIG_NOTIFIED;
	if (!expected && o->frame_len != skb->len)
		return UNANSWERED;
	parsed = parse_at(skb, o->add_len, p);
	if (o->frame_len == skb->len && (parsed != SV_PARSE_OK || p->payload))
		return UNANSWERED;
	if (parsed != SV_PARSE_OK)
		return drop(counters, SV_COUNT_NOTIFIED_MALFORMED);
	route = find_route(o->encap.vni, p->daddr);
	if (!route || route->kind != SV_ROUTE_LOCAL)
		return UNANSWERED;
	target = route->target;
	port = bpf_map_lookup_elem(&ports, &target);
	if (!port || port->vni != o->encap.vni)
		return UNANSWERED;
	from = peer_of(o->saddr);
	if (!expected) {
		if (!from || !speaks_for(from, o->encap.vni, p) || !names_what_left(p, o->encap.vni))
			return UNANSWERED;
		return drop(counters, SV_COUNT_NOTIFIED);
	}
	if (!from || !speaks_for(from, o->encap.vni, p) || !sv_notification_read(p))
		return drop(counters, SV_COUNT_NOTIFIED_MALFORMED);
	if (!sv_notification_matters(p))
		return drop(counters, SV_COUNT_NOTIFIED);
	now = stages_now(conf, 1);
	if (!may_say(from, now) || !may_ask(ASKED_TOLD, SV_TOLD_MAX, now))
		return drop(counters, SV_COUNT_NOTIFIED_WITHHELD);
	event = begin_event(SV_EVENT_NOTIFIED, target, o->saddr, o->encap.vni, now);
	if (!event)
		return drop(counters, SV_COUNT_NOTIFIED_WITHHELD);
	event->packet = *p;
	bpf_ringbuf_submit(event, 0);
	return drop(counters, SV_COUNT_NOTIFIED);
}

#endif
