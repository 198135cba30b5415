/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The program that hears of packets that the kernel drops, for their reason, and hands those of followed connections to the agent. It runs
 * for every packet of the host that is freed without having arrived, so it looks at the reason first. Only for fastlane.bpf.c.
 *
 * Only names count in these structs: the loader finds each member in the running kernel's type information (CO-RE).
 */
#ifndef SV_DROPS_H
#define SV_DROPS_H

#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
};

struct qdisc_skb_cb {
	unsigned char data[20];
};

struct sk_buff {
	struct net_device *dev;
	char cb[48];
	unsigned int len;
	unsigned int data_len;
	unsigned char ip_summed : 2;
	unsigned int priority;
	unsigned int mark;
	unsigned short mac_header;
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
};

struct skb_shared_info {
	unsigned short gso_size;
};

#pragma clang attribute pop

/* Of include/linux/skbuff.h. */
#define CHECKSUM_PARTIAL 3

/* The agent's, of this kernel: numbers of reasons have no other meaning than their names in its type information. */
struct sv_fast_reasons {
	u64 queues[4]; /* bits of those for which queues drop */
	u32 shot[2];   /* those of packets that a tc program has dropped, on ingress and on egress */
	u32 netns;     /* the inode of the network namespace */
	u32 pad;
};

const volatile struct sv_fast_reasons sv_fast_reasons SEC(".rodata.reasons") = {0};

/* The longest headers that are looked at: of the tunnel, and the guest's own with IPv6 and TCP options, but without extension headers. */
#define DROP_HEADERS (SV_ENCAP_LEN6 + SV_SHIM_LEN + SV_ETH_LEN + 60 + 60)
/* What the parser can index, one header after the other: bytes behind those that are read are zero. */
#define DROP_BUFFER 2560

struct dropping {
	struct sv_fast_drop drop;
	struct sv_packet packet;
	struct sv_outer outer;
	u8 head[DROP_BUFFER];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct dropping);
} fast_dropping SEC(".maps");

/* Parse the frame that begins at `off` of the headers. `len`: bytes of it. */
static __noinline int parse_head(struct dropping *at, u32 off, u32 len)
{
	struct sv_packet *p;
	u8 *data, *end;

	if (!at || len < SV_ETH_LEN)
		return SV_PARSE_SHORT;
	p = &at->packet;
	data = at->head + sv_mask(off, 127);
	end = at->head + sizeof(at->head);
	__builtin_memset(p, 0, sizeof(*p));
	for (int i = 0; i < SV_ETH_LEN; i++)
		at->drop.ethernet[i] = data[i];
	if (sv_get16(data + 12) == SV_ETHERTYPE_IPV4)
		return sv_parse_ipv4(data + SV_ETH_LEN, end, len - SV_ETH_LEN, p);
	/* Behind extension headers nothing is looked for. */
	if (sv_get16(data + 12) == SV_ETHERTYPE_IPV6 && data[SV_ETH_LEN + 6] == SV_PROTO_TCP)
		return sv_parse_ipv6(data + SV_ETH_LEN, end, len - SV_ETH_LEN, p);
	return SV_PARSE_NOT_IP;
}

static __noinline int read_tunnel(struct dropping *at, u32 udp_port)
{
	if (!at)
		return 0;
	return sv_encap_read(at->head, at->head + sizeof(at->head), (u16)udp_port, &at->outer);
}

/* The port at which the source of the packet is, in that network; 0: it is at none of this host. */
static __always_inline u32 port_of_source(const struct sv_packet *p, u32 vni)
{
	const struct sv_route *route = find_route(vni, p->saddr);

	return route && route->kind == SV_ROUTE_LOCAL ? route->target : 0;
}

/* Has the edge itself written the outer headers? A guest's packet may have any bytes, and look like one in the tunnel. */
static __noinline int is_ours(const struct sv_outer *o)
{
	const struct sv_peer *peer;
	u32 id, differs = 0;

	if (!o)
		return 0;
	id = peer_of(o->daddr);
	peer = id ? bpf_map_lookup_elem(&peers, &id) : 0;
	if (!peer)
		return 0;
	for (int i = 0; i < 4; i++)
		differs |= peer->tunnel.local[i] ^ o->saddr[i];
	return !differs;
}

/* A segment costs the agent as much as so many bytes do, and each of its packets, which takes a place in `fast_copies`, as so many. */
#define LEAST_COST 2048
#define PACKET_COST 1024

/* May the agent be told of so many bytes of the guest in so many packets now? CPUs may count at the same time: then it is a little more. */
static __always_inline int may_tell(u32 port, u32 bytes, u32 packets, u64 now)
{
	u32 zero = 0;
	const struct sv_fast_conf *conf = bpf_map_lookup_elem(&fast_conf, &zero);
	struct sv_fast_guest *guest, fresh = { .since = now };

	if (!conf)
		return 0;
	guest = bpf_map_lookup_elem(&fast_guests, &port);
	if (!guest) {
		bpf_map_update_elem(&fast_guests, &port, &fresh, BPF_NOEXIST);
		guest = bpf_map_lookup_elem(&fast_guests, &port);
		if (!guest)
			return 0;
	}
	if (now - guest->since >= SV_FAST_INTERVAL_NS) {
		guest->since = now;
		guest->bytes = 0;
	}
	/* One segment goes in any case, or a low rate would never let a whole one pass. */
	bytes = sv_max32(sv_max32(bytes, packets * PACKET_COST), LEAST_COST);
	if (guest->bytes && guest->bytes + bytes > conf->bytes)
		return 0;
	guest->bytes += bytes;
	return 1;
}

/*
 * It came from a guest elsewhere, whose edge is to hear of it: one that speaks version 2. Found as at->drop, by the direction in which the
 * guest here sends. `port`: whose queue dropped it.
 */
static __noinline int of_peer(struct dropping *at, u32 vni, u32 port)
{
	const struct sv_route *route;
	const struct sv_peer *peer;
	const struct sv_heard *h;
	u32 id;

	if (!at)
		return 0;
	route = find_route(vni, at->packet.saddr);
	if (!route || route->kind != SV_ROUTE_PEER)
		return 0;
	id = route->target;
	peer = bpf_map_lookup_elem(&peers, &id);
	h = bpf_map_lookup_elem(&heard, &id);
	if (!peer || !h || sv_heard_version(h, peer->tunnel.version, bpf_ktime_get_ns()) != SV_ENCAP_V2)
		return 0;
	fast_key(&at->drop.key, &at->packet, port, 0);
	at->drop.where = SV_FAST_OF_PEER;
	at->drop.peer = id;
	at->drop.at = SV_ETH_LEN;
	return 1;
}

/* Without a tunnel the Ethernet header is the host's by now: the guest's own address comes back into it. Returns 0 if nobody knows that. */
static __noinline int own_mac(struct dropping *at, u32 sender)
{
	const struct sv_port *port = bpf_map_lookup_elem(&ports, &sender);
	u32 any = 0;

	if (!at || !port)
		return 0;
	for (int i = 0; i < 6; i++) {
		at->drop.ethernet[6 + i] = port->mac[i];
		any |= port->mac[i];
	}
	return !!any;
}

/*
 * Where the guest's frame begins among the headers, whose it is and how it went: at->drop. `origin`: the port at which it came in, if the
 * edge says so. Returns 0 if it is no TCP of a guest.
 */
static __noinline int find_guest(struct dropping *at, u32 device, u32 mark, u32 origin, u32 len)
{
	const struct sv_port *port, *marked;
	const struct sv_config *conf;
	u32 zero = 0, off = 0, vni, sender, where;

	if (!at)
		return 0;
	conf = bpf_map_lookup_elem(&config, &zero);
	port = bpf_map_lookup_elem(&ports, &device);
	marked = mark ? bpf_map_lookup_elem(&ports, &mark) : 0;
	if (!conf)
		return 0;
	if (origin) {
		port = bpf_map_lookup_elem(&ports, &origin);
		if (!port)
			return 0;
		vni = port->vni;
		where = SV_FAST_EDGE;
	} else if (port && !(port->flags & SV_PORT_LIMITER)) {
		vni = port->vni;
		where = SV_FAST_PORT;
	} else if (marked && marked->flags & SV_PORT_LIMITED) {
		/* Before all else: here the frame is a guest's to the last byte. */
		vni = marked->vni;
		origin = mark;
		where = SV_FAST_LIMITER;
	} else if (conf->udp_port) {
		if (!read_tunnel(at, conf->udp_port) || !is_ours(&at->outer))
			return 0;
		vni = at->outer.encap.vni;
		off = at->outer.add_len;
		where = SV_FAST_UNDERLAY;
	} else {
		vni = 0;
		where = SV_FAST_PLAIN;
	}
	if (off > SV_ENCAP_LEN6 + SV_SHIM_LEN || off > len)
		return 0;
	if (parse_head(at, off, len - off) != SV_PARSE_OK || at->packet.proto != SV_PROTO_TCP)
		return 0;
	sender = port_of_source(&at->packet, vni);
	if (!sender && where == SV_FAST_PORT && of_peer(at, vni, device))
		return 1;
	if (!sender || (origin && sender != origin)) {
		fast_count(SV_FAST_COUNT_FOREIGN, 1);
		return 0;
	}
	if (where == SV_FAST_PLAIN && !own_mac(at, sender))
		return 0;
	fast_key(&at->drop.key, &at->packet, sender, 1);
	at->drop.where = (u8)where;
	at->drop.spoken = where == SV_FAST_PLAIN || (where == SV_FAST_UNDERLAY && at->outer.encap.version == SV_ENCAP_V1);
	at->drop.at = off + SV_ETH_LEN;
	return 1;
}

static __always_inline int tells(u32 reason)
{
	return reason < 256 && sv_fast_reasons.queues[reason / 64 & 3] >> (reason & 63) & 1;
}

static __always_inline int is_shot(u32 reason)
{
	return reason && (reason == sv_fast_reasons.shot[0] || reason == sv_fast_reasons.shot[1]);
}

SEC("tp_btf/kfree_skb")
int selvedge_fast_dropped(u64 *ctx)
{
	struct sk_buff *skb = (struct sk_buff *)ctx[0];
	u32 reason = (u32)ctx[2], zero = 0, device, len, headers, origin = 0, offset;
	struct net_device *dev;
	struct dropping *at;
	struct sv_fast_drop *d;
	struct sv_packet *p;
	u16 gso = 0;
	u64 now, back;
	u8 *mac;

	if (!tells(reason)) {
		u32 said[2];

		if (!is_shot(reason))
			return 0;
		offset = bpf_core_field_offset(struct qdisc_skb_cb, data);
		if (bpf_probe_read_kernel(said, sizeof(said), (u8 *)skb + bpf_core_field_offset(struct sk_buff, cb) + offset))
			return 0;
		if (said[0] == SV_DROPPED_OVER_RATE)
			origin = said[1];
		/* A guest's own frames have the words that it likes, but come in. */
		if (!origin && (said[0] != SV_DROPPED_AT_PORT || reason != sv_fast_reasons.shot[1]))
			return 0;
	}
	dev = skb->dev;
	if (!dev || dev->nd_net.net->ns.inum != sv_fast_reasons.netns)
		return 0;
	at = bpf_map_lookup_elem(&fast_dropping, &zero);
	if (!at)
		return 0;
	d = &at->drop;
	p = &at->packet;
	__builtin_memset(d, 0, sizeof(*d));
	/* At ingress the data begins behind the Ethernet header. */
	mac = skb->head + skb->mac_header;
	back = skb->data - mac;
	if (back > SV_ETH_LEN)
		return 0;
	len = skb->len;
	if (bpf_probe_read_kernel(at->head, DROP_HEADERS, mac))
		return 0;
	device = (u32)dev->ifindex;
	if (!find_guest(at, device, skb->mark, origin, len + (u32)back))
		return 0;
	headers = d->at + p->ip_header_len + p->l4_header_len;
	if (headers > DROP_HEADERS || headers - (u32)back > len - skb->data_len || p->truncated)
		return 0;
	if (!bpf_map_lookup_elem(&fast, &d->key)) {
		fast_count(SV_FAST_COUNT_FOREIGN, 1);
		return 0;
	}
	/* A pure ACK needs no copy: the next one says the same. */
	if (!p->payload && !(p->tcp_flags & (SV_TCP_SYN | SV_TCP_FIN)))
		return 0;
	if (len > SV_FAST_MAX_FRAME) {
		fast_count(SV_FAST_COUNT_LARGE, 1);
		return 0;
	}
	bpf_probe_read_kernel(&gso, sizeof(gso), skb->head + skb->end + bpf_core_field_offset(struct skb_shared_info, gso_size));
	now = bpf_ktime_get_ns();
	if (!may_tell(d->key.port, len, gso ? len / gso + 1 : 1, now)) {
		fast_count(SV_FAST_COUNT_WITHHELD, 1);
		return 0;
	}
	d->time = now;
	d->seq = p->seq;
	d->ack = p->ack;
	/* Of a segment that the kernel will cut, its own headers say nothing. */
	d->payload = gso ? len + (u32)back - headers : p->payload;
	d->len = len;
	d->at -= (u32)back;
	d->device = device;
	d->mark = skb->mark;
	d->priority = skb->priority;
	d->segment_size = gso && gso < d->payload ? gso : 0;
	d->tcp_flags = p->tcp_flags;
	d->family = p->family;
	d->ip_header_len = p->ip_header_len;
	d->l4_header_len = p->l4_header_len;
	d->unfinished = BPF_CORE_READ_BITFIELD(skb, ip_summed) == CHECKSUM_PARTIAL;
	d->reason = (u8)reason;
	if (bpf_skb_output(skb, &fast_drops, (u64)len << 32 | BPF_F_CURRENT_CPU, d, sizeof(*d))) {
		fast_count(SV_FAST_COUNT_LOST, 1);
		return 0;
	}
	fast_count(SV_FAST_COUNT_TOLD, 1);
	fast_count(SV_FAST_COUNT_BYTES, len);
	return 0;
}

#endif
