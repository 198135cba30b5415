/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The edge in the kernel: two tc programs that look state up, call the shared stages and write back. No algorithm
 * stands here. selvedge_guest runs on what leaves a guest (ingress of the host's end of its veth pair, or of its tap),
 * selvedge_uplink on what arrives from the fabric.
 *
 * Packets that are not for the edge leave as they came, to whatever the host would do with them without it.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

typedef struct bpf_spin_lock sv_lock;
#define SV_LOCK(lock) bpf_spin_lock(lock)
#define SV_UNLOCK(lock) bpf_spin_unlock(lock)
#define SV_SYN_OPTIONS_APART

#include "state.h"

/* Of bpf_skb_adjust_room: tell segmentation how long the inner Ethernet header is. */
#define INNER_L2 (((u64)SV_ETH_LEN & BPF_ADJ_ROOM_ENCAP_L2_MASK) << BPF_ADJ_ROOM_ENCAP_L2_SHIFT)

/* Of bpf_skb_adjust_room since Linux 6.3: skb->protocol becomes the inner one. Not in older headers. */
#define DECAP_L3_IPV4 (1ULL << 7)
#define DECAP_L3_IPV6 (1ULL << 8)

/* The longest headers that the parser follows: Ethernet, IPv6 with extensions, TCP with options. */
#define MAX_HEADERS (SV_ETH_LEN + 255 + 60)

/* The agent sizes `flows` before it loads this. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct sv_flow_slot_key);
	__type(value, struct sv_flow_slot);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sv_config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32); /* ifindex */
	__type(value, struct sv_port);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct sv_route_key);
	__type(value, struct sv_route);
} routes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32); /* the agent's number */
	__type(value, struct sv_peer);
} peers SEC(".maps");

struct sv_address {
	u32 word[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct sv_address); /* outer address of a peer, as in sv_packet */
	__type(value, u32);		/* its number */
} remotes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct sv_schedule);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SV_COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SV_EVENT_KINDS);
	__type(key, u32);
	__type(value, u64); /* when an event of this kind was last sent, ns */
} event_times SEC(".maps");

static __always_inline void count(u32 index, u64 n)
{
	u64 *value = bpf_map_lookup_elem(&counters, &index);

	if (value)
		*value += n; /* one CPU, and softirqs do not nest */
}

static __always_inline void *data_of(const struct __sk_buff *skb)
{
	return (void *)(long)skb->data;
}

static __always_inline void *end_of(const struct __sk_buff *skb)
{
	return (void *)(long)skb->data_end;
}

static __noinline int send_event(u32 kind, u32 ifindex, const u32 *addr, u32 value, const struct sv_packet *p)
{
	u64 now = bpf_ktime_get_ns();
	struct sv_event *event;

	if (kind != SV_EVENT_EMIT) {
		u64 *last = bpf_map_lookup_elem(&event_times, &kind);

		if (!last || (*last && now - *last < SV_EVENT_INTERVAL_NS))
			return 0;
		*last = now;
	}
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event)
		return 0;
	event->time = now;
	event->kind = kind;
	event->ifindex = ifindex;
	for (int i = 0; i < 4; i++)
		event->addr[i] = addr ? addr[i] : 0;
	event->value = value;
	event->pad = 0;
	if (p)
		event->packet = *p;
	else
		__builtin_memset(&event->packet, 0, sizeof(event->packet));
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* The options of a SYN whose TCP header starts at `off`. A copy is read: the loop is then proven only once. */
__noinline int parse_syn_options(struct __sk_buff *skb, u32 off, u32 len, struct sv_packet *p)
{
	u8 options[64 + 4] = {0}; /* what the parser can index at most */

	if (!p || !len || len > SV_TCP_MAX_OPTIONS || bpf_skb_load_bytes(skb, off, options, len))
		return -1;
	sv_parse_syn_options(options, options + sizeof(options), len, p);
	return 0;
}

/*
 * Parse the frame at `off` into `p`, which is zero. Headers may still lie in page fragments: then they are pulled in,
 * once. VLAN tags are not followed: tagged frames are no guest's own.
 */
__noinline int parse_at(struct __sk_buff *skb, u32 off, struct sv_packet *p)
{
	int parsed = SV_PARSE_SHORT;

	if (!p || off > SV_ENCAP_LEN6)
		return SV_PARSE_SHORT;
	for (int i = 0; i < 2; i++) {
		u8 *data = data_of(skb), *end = end_of(skb);
		u32 want = off + MAX_HEADERS;

		data += sv_mask(off, 127);
		if (data + SV_ETH_LEN > end)
			parsed = SV_PARSE_SHORT;
		else if (sv_get16(data + 12) == SV_ETHERTYPE_IPV4)
			parsed = sv_parse_ipv4(data + SV_ETH_LEN, end, skb->len - off - SV_ETH_LEN, p);
		else if (sv_get16(data + 12) == SV_ETHERTYPE_IPV6)
			parsed = sv_parse_ipv6(data + SV_ETH_LEN, end, skb->len - off - SV_ETH_LEN, p);
		else
			return SV_PARSE_NOT_IP;
		if (parsed != SV_PARSE_SHORT || i)
			break;
		if (bpf_skb_pull_data(skb, skb->len < want ? skb->len : want))
			break;
	}
	if (skb->gso_segs > 1)
		p->segment_size = skb->gso_size;
	if (parsed == SV_PARSE_OK && p->tcp_flags & SV_TCP_SYN && p->l4_header_len > 20)
		parse_syn_options(skb, off + SV_ETH_LEN + p->ip_header_len, p->l4_header_len - 20, p);
	return parsed;
}

/* May the edge carry it, if perhaps without touching it? Addresses are known in all these cases. */
static __always_inline int carries(int parsed)
{
	return parsed == SV_PARSE_OK || parsed == SV_PARSE_NOT_TRANSPORT || parsed == SV_PARSE_FRAGMENT;
}

static __always_inline struct sv_route *find_route(u32 vni, const u32 *addr)
{
	struct sv_route_key key = { .prefix_len = 32 + 128, .vni = bpf_htonl(vni) };

	for (int i = 0; i < 4; i++)
		key.addr[i] = bpf_htonl(addr[i]);
	return bpf_map_lookup_elem(&routes, &key);
}

/* The flow's state, made if it is new and there is room. */
static __noinline struct sv_flow_slot *find_flow(const struct sv_flow_slot_key *key)
{
	struct sv_flow_slot zero = {0};
	struct sv_flow_slot *slot;

	if (!key)
		return 0;
	slot = bpf_map_lookup_elem(&flows, key);
	if (slot)
		return slot;
	bpf_map_update_elem(&flows, key, &zero, BPF_NOEXIST); /* may fail: another CPU was first, or full */
	slot = bpf_map_lookup_elem(&flows, key);
	if (!slot)
		count(SV_COUNT_FLOW_TABLE_FULL, 1);
	return slot;
}

/* Write the fields that a stage changed. The kernel's helpers know which checksums are not complete yet. */
static __always_inline int write_back(struct __sk_buff *skb, const struct sv_packet *p)
{
	u32 ip = SV_ETH_LEN, l4 = SV_ETH_LEN + p->ip_header_len;
	u8 old[2], new[2];

	if (p->dirty & SV_DIRTY_WINDOW && p->proto == SV_PROTO_TCP) {
		if (bpf_skb_load_bytes(skb, l4 + 14, old, 2))
			return -1;
		sv_put16(new, p->window);
		if (bpf_l4_csum_replace(skb, l4 + 16, *(u16 *)old, *(u16 *)new, 2) ||
		    bpf_skb_store_bytes(skb, l4 + 14, new, 2, 0))
			return -1;
	}
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
		if (bpf_skb_store_bytes(skb, ip, new, 2, 0))
			return -1;
	}
	return 0;
}

static __always_inline int drop(u32 reason)
{
	count(reason, 1);
	return TC_ACT_SHOT;
}

static __always_inline int any_mac(const u8 *mac)
{
	return mac[0] | mac[1] | mac[2] | mac[3] | mac[4] | mac[5];
}

/* To a guest of this host. `family_changed`: skb->protocol still names the outer family. */
static __always_inline int deliver(struct __sk_buff *skb, u32 ifindex, const struct sv_port *port, int family_changed)
{
	if (any_mac(port->mac) && bpf_skb_store_bytes(skb, 0, port->mac, 6, 0))
		return drop(SV_COUNT_DROP_ERROR);
	/* Sending over the pair makes its other end read the frame's type anew; the short cut does not. */
	if (port->flags & SV_PORT_PEER && !family_changed)
		return bpf_redirect_peer(ifindex, 0);
	return bpf_redirect(ifindex, 0);
}

/* Stages of a segment of the guest. */
static __noinline int egress(struct __sk_buff *skb, const struct sv_config *conf, const struct sv_peer *peer, u32 vni,
			     struct sv_packet *p)
{
	struct sv_flow_slot_key key = {0};
	struct sv_schedule *schedule;
	struct sv_flow_slot *slot;
	struct sv_ctx c = {0};
	u32 result, id;

	if (!conf || !peer || !p)
		return 0;
	id = peer->schedule;
	schedule = bpf_map_lookup_elem(&paths, &id);
	sv_flow_key(p, &key.key);
	key.vni = vni;
	slot = find_flow(&key);
	c.conf = &conf->conf;
	c.hash = sv_flow_hash(&key.key, conf->seed);
	c.now = bpf_ktime_get_ns();
	if (schedule) {
		c.labels = schedule->labels;
		c.n_labels = schedule->n;
	}
	if (slot) {
		c.flow = &slot->flow;
		c.flowcell = &slot->flowcell;
		c.flow_lock = &slot->lock;
		__sync_fetch_and_add(&slot->out_segments, 1);
		__sync_fetch_and_add(&slot->out_bytes, p->payload);
	} else {
		send_event(SV_EVENT_TABLE_FULL, skb->ifindex, p->daddr, 0, 0);
	}
	result = sv_egress(&c, p);
	p->label = sv_encap_port(p->label, c.hash);
	if (result & SV_BEGAN)
		count(SV_COUNT_FLOWS_BEGUN, 1);
	if (result & SV_CELL_OPENED)
		count(SV_COUNT_FLOWCELLS, 1);
	return 0;
}

/* Stages of a segment from the fabric. */
static __noinline int ingress(struct __sk_buff *skb, const struct sv_config *conf, const struct sv_outer *o,
			      struct sv_packet *p)
{
	struct sv_flow_slot_key key = {0};
	struct sv_flow_slot *slot;
	struct sv_ctx c = {0};
	u32 result;

	if (!conf || !o || !p)
		return 0;
	sv_flow_key_reverse(p, &key.key);
	key.vni = o->encap.vni;
	slot = find_flow(&key);
	c.conf = &conf->conf;
	c.now = bpf_ktime_get_ns();
	if (slot) {
		c.flow = &slot->flow;
		c.flowcell = &slot->flowcell;
		c.flow_lock = &slot->lock;
		__sync_fetch_and_add(&slot->in_segments, 1);
		__sync_fetch_and_add(&slot->in_bytes, p->payload);
		if (o->encap.has_cell) {
			p->has_cell = 1;
			p->cell = sv_encap_cell(slot->flow.in_cell, o->encap.cell);
		}
	} else {
		send_event(SV_EVENT_TABLE_FULL, skb->ifindex, p->daddr, 0, 0);
	}
	result = sv_ingress(&c, p);
	if (result & SV_BEGAN)
		count(SV_COUNT_FLOWS_BEGUN, 1);
	if (result & SV_CELL_LATE)
		count(SV_COUNT_IN_LATE, 1);
	return 0;
}

/* Put the outer headers in front and send the frame to the peer. The kernel sees a tunnel, and keeps GSO frames whole. */
static __always_inline int encapsulate(struct __sk_buff *skb, const struct sv_peer *peer, const struct sv_route *route,
				       u32 vni, const struct sv_packet *p)
{
	struct sv_encap e = { .vni = vni, .version = peer->tunnel.version, .has_cell = p->has_cell, .cell = (u8)p->cell };
	u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L4_UDP | BPF_F_ADJ_ROOM_ENCAP_L2_ETH | INNER_L2;
	u8 head[SV_ENCAP_LEN6 + SV_ETH_LEN];
	u32 frame_len = skb->len;
	u32 ifindex = peer->ifindex;
	int next_hop_known;
	long failed;

	if (frame_len > 65535 - SV_ENCAP_LEN6)
		return drop(SV_COUNT_DROP_TOO_LARGE);
	next_hop_known = any_mac(peer->tunnel.dmac);
	sv_encap_write(head, &peer->tunnel, &e, p->label, p->ecn, frame_len);
	/* The inner Ethernet header is overwritten by the room that is made in front of the network header. */
	if (peer->tunnel.family == 4) {
		u8 *inner = head + SV_ENCAP_LEN4;

		if (bpf_skb_load_bytes(skb, 0, inner, SV_ETH_LEN))
			return drop(SV_COUNT_DROP_ERROR);
		if (any_mac(route->mac))
			__builtin_memcpy(inner, route->mac, 6);
		failed = bpf_skb_adjust_room(skb, SV_ENCAP_LEN4, BPF_ADJ_ROOM_MAC, flags | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4) ||
			 bpf_skb_store_bytes(skb, 0, head, SV_ENCAP_LEN4 + SV_ETH_LEN, 0);
	} else {
		u8 *inner = head + SV_ENCAP_LEN6;

		if (bpf_skb_load_bytes(skb, 0, inner, SV_ETH_LEN))
			return drop(SV_COUNT_DROP_ERROR);
		if (any_mac(route->mac))
			__builtin_memcpy(inner, route->mac, 6);
		failed = bpf_skb_adjust_room(skb, SV_ENCAP_LEN6, BPF_ADJ_ROOM_MAC, flags | BPF_F_ADJ_ROOM_ENCAP_L3_IPV6) ||
			 bpf_skb_store_bytes(skb, 0, head, SV_ENCAP_LEN6 + SV_ETH_LEN, 0);
	}
	if (failed)
		return drop(SV_COUNT_DROP_ERROR);
	count(SV_COUNT_OUT_SEGMENTS, 1);
	count(SV_COUNT_OUT_BYTES, frame_len);
	return next_hop_known ? bpf_redirect(ifindex, 0) : bpf_redirect_neigh(ifindex, 0, 0, 0);
}

static __always_inline int pass(void)
{
	count(SV_COUNT_PASSED, 1);
	return TC_ACT_OK;
}

SEC("tc")
int selvedge_guest(struct __sk_buff *skb)
{
	u32 zero = 0, ifindex = skb->ifindex, vni;
	struct sv_config *conf;
	struct sv_route *route;
	struct sv_port *port;
	struct sv_peer *peer;
	struct sv_packet p = {0};
	int parsed;

	conf = bpf_map_lookup_elem(&config, &zero);
	port = bpf_map_lookup_elem(&ports, &ifindex);
	if (!conf || !port || skb->vlan_present)
		return pass();
	vni = port->vni;
	parsed = parse_at(skb, 0, &p);
	if (!carries(parsed))
		return pass();
	route = find_route(vni, p.daddr);
	if (!route)
		return pass();
	if (route->kind == SV_ROUTE_LOCAL) {
		u32 target = route->target;
		struct sv_port *to = bpf_map_lookup_elem(&ports, &target);

		if (!to || target == ifindex)
			return pass();
		count(SV_COUNT_LOCAL_SEGMENTS, 1);
		return deliver(skb, target, to, 0);
	}
	zero = route->target;
	peer = bpf_map_lookup_elem(&peers, &zero);
	if (!peer)
		return pass();
	if (parsed == SV_PARSE_OK) {
		egress(skb, conf, peer, vni, &p);
		if (p.emit)
			send_event(SV_EVENT_EMIT, ifindex, p.daddr, p.emit, &p);
		if (write_back(skb, &p))
			return drop(SV_COUNT_DROP_ERROR);
	} else {
		struct sv_flow_key key;

		sv_flow_key(&p, &key);
		p.label = sv_encap_port(0, sv_flow_hash(&key, conf->seed));
		count(SV_COUNT_UNTRACKED, 1);
	}
	return encapsulate(skb, peer, route, vni, &p);
}

/* Read the outer headers, pulling them in if need be. */
static __noinline int read_outer(struct __sk_buff *skb, u32 port, struct sv_outer *o)
{
	if (!o)
		return 0;
	for (int i = 0; i < 2; i++) {
		u8 *data = data_of(skb), *end = end_of(skb);
		u32 want = SV_ENCAP_LEN6 + SV_ETH_LEN;

		if (sv_encap_read(data, end, (u16)port, o))
			return 1;
		if (i || data + want <= end)
			return 0;
		if (bpf_skb_pull_data(skb, skb->len < want ? skb->len : want))
			return 0;
	}
	return 0;
}

/* Who sent this? Returns 0 if it is to be dropped. Metadata of strangers and of unknown versions is wiped. */
static __noinline int check_sender(struct __sk_buff *skb, const struct sv_config *conf, struct sv_outer *o)
{
	struct sv_address from;
	int known;

	if (!conf || !o)
		return 0;
	for (int i = 0; i < 4; i++)
		from.word[i] = o->saddr[i];
	known = bpf_map_lookup_elem(&remotes, &from) != 0;
	if (!known) {
		count(SV_COUNT_UNKNOWN_PEER, 1);
		if (o->encap.feedback)
			count(SV_COUNT_FEEDBACK_IGNORED, 1);
		send_event(SV_EVENT_UNKNOWN_PEER, skb->ifindex, o->saddr, 0, 0);
		o->encap.has_cell = 0;
		o->encap.feedback = SV_FEEDBACK_NONE;
		return conf->flags & SV_CONFIG_ANY_PEER;
	}
	if (o->encap.version > SV_ENCAP_V1) {
		count(SV_COUNT_UNKNOWN_VERSION, 1);
		send_event(SV_EVENT_UNKNOWN_VERSION, skb->ifindex, o->saddr, o->encap.version, 0);
	}
	if (o->encap.feedback)
		count(SV_COUNT_FEEDBACK, 1);
	return 1;
}

/*
 * Where the inner family is another, skb->protocol must follow, or segments larger than a packet are lost. Linux can
 * do that since 6.3; before, such segments get through the overlay only in packets.
 */
static __always_inline int decapsulate(struct __sk_buff *skb, const struct sv_outer *o, int *family_changes, u8 family)
{
	u64 follow = family == 4 ? DECAP_L3_IPV4 : DECAP_L3_IPV6;
	s32 cut = o->add_len == SV_ENCAP_LEN4 ? -SV_ENCAP_LEN4 : -SV_ENCAP_LEN6;
	u8 ethernet[SV_ETH_LEN];

	*family_changes = family != (o->add_len == SV_ENCAP_LEN4 ? 4 : 6);
	if (bpf_skb_load_bytes(skb, o->add_len, ethernet, SV_ETH_LEN))
		return -1;
	if (*family_changes && !bpf_skb_adjust_room(skb, cut, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO | follow))
		*family_changes = 0;
	else if (bpf_skb_adjust_room(skb, cut, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO))
		return -1;
	return bpf_skb_store_bytes(skb, 0, ethernet, SV_ETH_LEN, 0);
}

SEC("tc")
int selvedge_uplink(struct __sk_buff *skb)
{
	struct sv_config *conf;
	struct sv_route *route;
	struct sv_port *port;
	u32 key = 0, target;
	struct sv_packet p = {0};
	struct sv_outer o = {0};
	int parsed, ecn, family_changes;

	conf = bpf_map_lookup_elem(&config, &key);
	if (!conf || !conf->udp_port || skb->vlan_present || !read_outer(skb, conf->udp_port, &o))
		return TC_ACT_OK;
	parsed = parse_at(skb, o.add_len, &p);
	if (!carries(parsed))
		goto nobody;
	route = find_route(o.encap.vni, p.daddr);
	if (!route || route->kind != SV_ROUTE_LOCAL)
		goto nobody;
	target = route->target;
	port = bpf_map_lookup_elem(&ports, &target);
	if (!port || port->vni != o.encap.vni)
		goto nobody;
	if (!check_sender(skb, conf, &o))
		return TC_ACT_SHOT;
	if (o.ecn == SV_ECN_CE)
		count(SV_COUNT_IN_CE, 1);
	ecn = sv_encap_ecn(p.ecn, o.ecn);
	if (ecn < 0)
		return drop(SV_COUNT_DROP_ECN);
	if (ecn != p.ecn) {
		p.ecn = (u8)ecn;
		p.dirty |= SV_DIRTY_ECN;
	}
	p.label = o.sport;
	if (parsed == SV_PARSE_OK)
		ingress(skb, conf, &o, &p);
	else
		count(SV_COUNT_UNTRACKED, 1);
	if (p.emit)
		send_event(SV_EVENT_EMIT, skb->ifindex, p.daddr, p.emit, &p);
	count(SV_COUNT_IN_SEGMENTS, 1);
	count(SV_COUNT_IN_BYTES, skb->len - o.add_len);
	if (decapsulate(skb, &o, &family_changes, p.family) || write_back(skb, &p))
		return drop(SV_COUNT_DROP_ERROR);
	return deliver(skb, target, port, family_changes);

nobody:
	count(SV_COUNT_IN_NO_GUEST, 1);
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "GPL";
