/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* On and off the tunnel, and to a guest. Only for edge.bpf.c. */
#ifndef SV_TUNNEL_H
#define SV_TUNNEL_H

/* Of bpf_skb_adjust_room: tell segmentation how long the inner Ethernet header is. */
#define INNER_L2 (((u64)SV_ETH_LEN & BPF_ADJ_ROOM_ENCAP_L2_MASK) << BPF_ADJ_ROOM_ENCAP_L2_SHIFT)

/* Of bpf_skb_adjust_room since Linux 6.3: skb->protocol becomes the inner one. Not in older headers. */
#define DECAP_L3_IPV4 (1ULL << 7)
#define DECAP_L3_IPV6 (1ULL << 8)

/* To a guest of this host, whose MAC address the frame has. `family_changed`: skb->protocol still names the outer family. */
static __always_inline int hand_over(u32 ifindex, const struct sv_port *port, int family_changed)
{
	/* Sending over the pair makes its other end read the frame's type anew; the short cut does not. */
	if (port->flags & SV_PORT_PEER && !family_changed)
		return bpf_redirect_peer(ifindex, 0);
	return bpf_redirect(ifindex, 0);
}

/* The same of a frame that may have another. */
static __always_inline int deliver(struct __sk_buff *skb, struct sv_counters *counters, u32 ifindex, const struct sv_port *port)
{
	if (any_mac(port->mac) && bpf_skb_store_bytes(skb, 0, port->mac, 6, 0))
		return drop(counters, SV_COUNT_DROP_ERROR);
	return hand_over(ifindex, port, 0);
}

/* Not a verdict: the kernel is to cut the segment, or to finish it, before it can be encapsulated. */
#define TO_CUTTER (-SV_COUNTERS)

/* Beside the VNI: it was cut already. */
#define WAS_CUT 0x80000000u

/*
 * Room for the outer headers of a packet that the kernel believes to be in a tunnel: a guest's own, or ours, of which it came
 * out on its way through a guest that routes. Such ones the kernel takes for encapsulated by whoever was first. What is in
 * front of the inner frame then is as if we had said so: the inner headers are where they were.
 */
static __noinline int make_plain_room(struct __sk_buff *skb, u32 family, u32 outer_family, u32 shim)
{
	u8 first[40 - 20];
	s32 len4 = SV_ENCAP_LEN4 + (s32)(shim & SV_SHIM_LEN), len6 = SV_ENCAP_LEN6 + (s32)(shim & SV_SHIM_LEN);

	if (family == outer_family)
		return (int)bpf_skb_adjust_room(skb, family == 4 ? len4 : len6, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO);
	/* Only changing the protocol makes skb->protocol name the outer one. It adds or removes what the two headers differ by. */
	if (family == 4)
		return bpf_skb_change_proto(skb, bpf_htons(SV_ETHERTYPE_IPV6), 0) ||
		       bpf_skb_adjust_room(skb, len4, BPF_ADJ_ROOM_MAC, 0);
	return bpf_skb_load_bytes(skb, SV_ETH_LEN, first, sizeof(first)) ||
	       bpf_skb_change_proto(skb, bpf_htons(SV_ETHERTYPE_IPV4), 0) ||
	       bpf_skb_adjust_room(skb, len6, BPF_ADJ_ROOM_MAC, 0) ||
	       bpf_skb_store_bytes(skb, (u32)len4 + SV_ETH_LEN, first, sizeof(first), 0);
}

/*
 * May make_plain_room do it? A TCP segment that the kernel believes to be in a tunnel is not any more, because TCP is nobody's
 * outer header. Of another segment, only the kernel knows where to cut it. Packets of such flows follow their segments, so as
 * not to overtake them.
 */
static __always_inline int may_stay_plain(const struct __sk_buff *skb, const struct sv_packet *p, u32 outer_family, int was_cut)
{
	if (skb->gso_size)
		return p->proto == SV_PROTO_TCP && p->family == outer_family;
	return was_cut || p->proto == SV_PROTO_TCP;
}

/* How to speak to the peer with that number now: SV_WIRE_*. Notes that it is spoken to. */
static __always_inline u8 wire_to(const struct sv_peer *peer, u32 id, u64 now)
{
	struct sv_heard *h = peer->tunnel.version == SV_ENCAP_V2 ? bpf_map_lookup_elem(&heard, &id) : 0;

	if (!h)
		return SV_WIRE_1;
	sv_heard_sent(h, now);
	return sv_heard_version(h, SV_ENCAP_V2, now) == SV_ENCAP_V2 ? SV_WIRE_2 : SV_WIRE_1;
}

/*
 * Put the outer headers in front and send the frame to the peer. The kernel sees a tunnel, and keeps GSO frames whole.
 * `network`: the VNI, perhaps with WAS_CUT. `id`: the peer's number. Returns the verdict, TO_CUTTER, or why the frame must be dropped: an
 * SV_COUNT_DROP_*, negated. Global: the verifier proves it once.
 */
__noinline int encapsulate(struct __sk_buff *skb, const struct sv_peer *peer, const struct sv_scratch *scratch, u32 network, u32 id)
{
	struct sv_encap e = { .vni = network & SV_ENCAP_VNI_MASK };
	u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L4_UDP | BPF_F_ADJ_ROOM_ENCAP_L2_ETH | INNER_L2;
	u32 frame_len = skb->len, shim = 0, len;
	u8 *data = data_of(skb), *inner, ecn;
	struct sv_ethernet ethernet;
	const struct sv_packet *p;
	const struct sv_hop *hop;

	if (!peer || !scratch)
		return -SV_COUNT_DROP_ERROR;
	p = &scratch->packet;
	e.version = sv_min32(peer->tunnel.version, SV_ENCAP_V1);
	e.speaks2 = peer->tunnel.version > SV_ENCAP_V1;
	if (p->wire == SV_WIRE_2) {
		e.version = SV_ENCAP_V2;
		if (p->pack == SV_PACK_SHIM)
			shim = SV_SHIM_LEN;
	}
	shim = sv_forget8(shim) & SV_SHIM_LEN; /* or the verifier would follow what comes twice */
	e.shim = shim / SV_SHIM_LEN;
	e.has_cell = p->has_cell;
	e.cell = (u8)p->cell;
	e.feedback = p->feedback;
	e.path = p->feedback_path;
	e.value = p->feedback_value;
	if (frame_len + shim > 65535 - SV_ENCAP_LEN6)
		return -SV_COUNT_DROP_TOO_LARGE;
	if (data + SV_ETH_LEN > (u8 *)end_of(skb))
		return -SV_COUNT_DROP_ERROR;
	read_ethernet(&ethernet, data);
	to_mac(&ethernet, scratch->mac);
	hop = find_hop(skb, peer, id, scratch->now);
	/* The inner Ethernet header is overwritten by the room that is made in front of the network header. */
	if (peer->tunnel.family == 4) {
		len = SV_ENCAP_LEN4;
		flags |= BPF_F_ADJ_ROOM_ENCAP_L3_IPV4;
	} else {
		len = SV_ENCAP_LEN6;
		flags |= BPF_F_ADJ_ROOM_ENCAP_L3_IPV6;
	}
	if (bpf_skb_adjust_room(skb, (s32)(len + shim), BPF_ADJ_ROOM_MAC, flags)) {
		u32 family = len == SV_ENCAP_LEN4 ? 4 : 6;

		if (!may_stay_plain(skb, p, family, network & WAS_CUT))
			return TO_CUTTER;
		if (make_plain_room(skb, p->family, family, shim))
			return -SV_COUNT_DROP_ERROR;
	}
	data = data_of(skb);
	ecn = sv_ecn_departs(p);
	if (len == SV_ENCAP_LEN4) {
		if (data + SV_ENCAP_LEN4 > (u8 *)end_of(skb))
			return -SV_COUNT_DROP_ERROR;
		sv_encap_write4(data, &peer->tunnel, &e, p->label, ecn, frame_len + shim);
		inner = data + SV_ENCAP_LEN4;
	} else {
		if (data + SV_ENCAP_LEN6 > (u8 *)end_of(skb))
			return -SV_COUNT_DROP_ERROR;
		sv_encap_write6(data, &peer->tunnel, &e, p->label, ecn, frame_len + shim);
		inner = data + SV_ENCAP_LEN6;
	}
	if (shim) {
		if (inner + SV_SHIM_LEN > (u8 *)end_of(skb))
			return -SV_COUNT_DROP_ERROR;
		sv_shim_put_report(inner, p);
		inner += SV_SHIM_LEN;
	}
	if (inner + SV_ETH_LEN > (u8 *)end_of(skb))
		return -SV_COUNT_DROP_ERROR;
	write_ethernet(inner, &ethernet);
	sv_encap_write_macs(data, hop ? hop->dmac : peer->tunnel.dmac, hop ? hop->smac : peer->tunnel.smac);
	/*
	 * The sender's socket left one: Linux routers on the way would choose a path by it rather than by the label. Without
	 * any, a veth pair's GRO would put all flows into one of its eight lists, each of which holds eight.
	 */
	bpf_set_hash(skb, sv_encap_hash(&peer->tunnel, p->label));
	return hop || any_mac(peer->tunnel.dmac) ? bpf_redirect(peer->ifindex, 0) : bpf_redirect_neigh(peer->ifindex, 0, 0, 0);
}

/* Read the outer headers, pulling them in if need be. */
static __noinline int read_outer(struct __sk_buff *skb, u32 port, struct sv_outer *o)
{
	if (!o)
		return 0;
	for (int i = 0; i < 2; i++) {
		u8 *data = data_of(skb), *end = end_of(skb);
		u32 want = SV_ENCAP_LEN6 + SV_SHIM_LEN + SV_ETH_LEN;

		if (sv_encap_read(data, end, (u16)port, o))
			return 1;
		if (i || data + want <= end)
			return 0;
		if (bpf_skb_pull_data(skb, skb->len < want ? skb->len : want))
			return 0;
	}
	return 0;
}

/* Is the inner source of `p`, which came through the tunnel, a guest of the peer with that number? */
static __noinline int speaks_for(u32 peer, u32 vni, const struct sv_packet *p)
{
	struct sv_route *route;

	if (!p)
		return 0;
	route = find_route(vni, p->saddr);
	return route && route->kind == SV_ROUTE_PEER && route->target == peer;
}

/* No peer. */
#define STRANGER 0xff

/*
 * Who sent this: a STRANGER, or a peer, to which we speak up to version `most`? Returns 0 if it is to be dropped. Metadata of strangers
 * and of unknown versions is wiped.
 */
static __noinline int check_sender(struct __sk_buff *skb, struct sv_counters *counters, const struct sv_config *conf,
				   struct sv_outer *o, u32 most)
{
	if (!counters || !conf || !o)
		return 0;
	if (most == STRANGER) {
		count(counters, SV_COUNT_UNKNOWN_PEER, 1);
		if (o->encap.feedback)
			count(counters, SV_COUNT_FEEDBACK_IGNORED, 1);
		send_notice(SV_EVENT_UNKNOWN_PEER, skb->ifindex, o->saddr, 0);
		o->encap.has_cell = 0;
		o->encap.feedback = SV_FEEDBACK_NONE;
		return conf->flags & SV_CONFIG_ANY_PEER;
	}
	if (o->encap.version > sv_heard_most((u8)most)) {
		count(counters, SV_COUNT_UNKNOWN_VERSION, 1);
		send_notice(SV_EVENT_UNKNOWN_VERSION, skb->ifindex, o->saddr, o->encap.version);
		o->encap.has_cell = 0;
		o->encap.feedback = SV_FEEDBACK_NONE;
	}
	if (o->encap.feedback)
		count(counters, SV_COUNT_FEEDBACK, 1);
	return 1;
}

/*
 * Cut `add_len` bytes of tunnel, whose family is another than the inner one: skb->protocol must follow, or segments larger than
 * a packet are lost. Linux does that in one step since 6.3; before, the outer IP header first becomes one of the inner family, which
 * is 20 bytes longer or shorter. Returns 0 if that was done, a positive number if the frame is as it was.
 */
static __always_inline long cut_other_family(struct __sk_buff *skb, u32 add_len, u8 family)
{
	u64 follow = family == 4 ? DECAP_L3_IPV4 : DECAP_L3_IPV6;
	u16 type = family == 4 ? SV_ETHERTYPE_IPV4 : SV_ETHERTYPE_IPV6;
	s32 cut = -(s32)add_len;

	if (!bpf_skb_adjust_room(skb, cut, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO | follow))
		return 0;
	if (bpf_skb_change_proto(skb, bpf_htons(type), 0))
		return 1; /* before 5.13 segments of UDP */
	cut += family == 4 ? 20 : -20;
	return bpf_skb_adjust_room(skb, cut, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO) ? -1 : 0;
}

/*
 * Takes the tunnel off a frame to the guest on that port. `family`: the inner one. `family_changes`: does skb->protocol still name another
 * afterwards?
 */
static __always_inline int decapsulate(struct __sk_buff *skb, const struct sv_outer *o, int *family_changes, u8 family,
				       const struct sv_port *port)
{
	s32 cut = -(s32)o->add_len;
	struct sv_ethernet ethernet;
	u8 *data = data_of(skb);
	long left = 1;

	*family_changes = family != sv_outer_family(o);
	data += sv_mask(o->add_len, 127);
	if (data + SV_ETH_LEN > (u8 *)end_of(skb))
		return -1;
	read_ethernet(&ethernet, data);
	to_mac(&ethernet, port->mac);
	if (*family_changes)
		left = cut_other_family(skb, o->add_len, family);
	if (!left)
		*family_changes = 0;
	else if (left < 0 || bpf_skb_adjust_room(skb, cut, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO))
		return -1;
	/* Of the outer ports: by it, RPS would spread one flow's flowcells over CPUs. */
	bpf_set_hash_invalid(skb);
	data = data_of(skb);
	if (data + SV_ETH_LEN > (u8 *)end_of(skb))
		return -1;
	write_ethernet(data, &ethernet);
	return 0;
}

#endif
