/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* From the kernel's packet to struct sv_packet, and the changed fields back. Only for edge.bpf.c. */
#ifndef SV_SKB_H
#define SV_SKB_H

/*
 * Let it pass: to the next program of whomever, then to filters, and if there are none, as if there were no program at all.
 * TC_ACT_OK would end the chain.
 */
#define NEXT TC_ACT_UNSPEC

/* The longest headers that the parser follows: Ethernet, IPv6 with extensions, TCP with options. */
#define MAX_HEADERS (SV_ETH_LEN + 255 + 60)

/* What the TCP option parsers can index at most. */
#define OPTION_BYTES (64 + 4)

static __always_inline void *data_of(const struct __sk_buff *skb)
{
	return (void *)(long)skb->data;
}

static __always_inline void *end_of(const struct __sk_buff *skb)
{
	return (void *)(long)skb->data_end;
}

/* linux/if_packet.h, whose other names collide with ours. */
#define OF_THE_HOST_ITSELF 5 /* PACKET_LOOPBACK */

/*
 * What the host sends to many on a port comes in there again, for its own sockets. It is not the guest's, and has no MAC header. No
 * frame that came from a device is of this type.
 */
static __always_inline int is_hosts_own(const struct __sk_buff *skb)
{
	return skb->pkt_type == OF_THE_HOST_ITSELF;
}

static __always_inline int any_mac(const u8 *mac)
{
	return mac[0] | mac[1] | mac[2] | mac[3] | mac[4] | mac[5];
}

/* An Ethernet header, word by word as it stands in the packet: registers and not the stack, for the packet moves under it. */
struct sv_ethernet {
	u32 dst;
	u16 dst_end;
	u64 rest; /* source and type */
} __attribute__((aligned(8)));

static __always_inline void read_ethernet(struct sv_ethernet *e, const u8 *at)
{
	e->dst = *(const u32 *)at;
	e->dst_end = *(const u16 *)(at + 4);
	e->rest = *(const u64 *)(at + 6);
}

static __always_inline void write_ethernet(u8 *at, const struct sv_ethernet *e)
{
	*(u32 *)at = e->dst;
	*(u16 *)(at + 4) = e->dst_end;
	*(u64 *)(at + 6) = e->rest;
}

/* Its destination becomes `mac`, which stands in a map, unless that is all zero. */
static __always_inline void to_mac(struct sv_ethernet *e, const u8 *mac)
{
	u32 first = *(const u32 *)mac;
	u16 end = *(const u16 *)(mac + 4);

	if (!(first | end))
		return;
	e->dst = first;
	e->dst_end = end;
}

/*
 * The same length, of which every verifier sees that it is 1 to 64. A comparison does not say so: clang may make it on
 * another register than the one that it passes on.
 */
static __always_inline u32 options_len(u32 len)
{
	return sv_mask(len - 1, 63) + 1;
}

/* The options of a SYN, which start at `off`. A copy is read: the loop is then proven only once. */
__noinline int parse_syn_options(struct __sk_buff *skb, u32 off, u32 len, struct sv_packet *p)
{
	u8 options[OPTION_BYTES] = {0};

	if (!p || !len || len > SV_TCP_MAX_OPTIONS || bpf_skb_load_bytes(skb, off, options, options_len(len)))
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

	if (!p || off > SV_ENCAP_LEN6 + SV_SHIM_LEN)
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
	/* The kernel will cut all that there is, and write new lengths: what a virtual machine's headers say of them is nothing. */
	if (skb->gso_size && parsed == SV_PARSE_OK) {
		u32 headers = off + SV_ETH_LEN + p->ip_header_len + p->l4_header_len;

		if (skb->len > headers)
			p->payload = skb->len - headers;
	}
	/* A virtual machine's tap says how large packets shall be, but not how many there are. */
	if (skb->gso_size && skb->gso_size < p->payload)
		p->segment_size = skb->gso_size;
	if (parsed == SV_PARSE_OK && p->tcp_flags & SV_TCP_SYN && p->l4_header_len > 20)
		parse_syn_options(skb, off + SV_ETH_LEN + p->ip_header_len + 20, p->l4_header_len - 20, p);
	return parsed;
}

/* May the edge carry it, if perhaps without touching it? Addresses are known in all these cases. */
static __always_inline int carries(int parsed)
{
	return parsed == SV_PARSE_OK || parsed == SV_PARSE_NOT_TRANSPORT || parsed == SV_PARSE_FRAGMENT;
}

/*
 * Replace the 16-bit field at `at` of the TCP header that begins at `l4`. The kernel's helper knows the checksums that are
 * not complete yet. Fields at odd offsets are summed with their bytes exchanged.
 */
static __always_inline int replace_tcp(struct __sk_buff *skb, u32 l4, u32 at, u16 value)
{
	u8 old[2] __attribute__((aligned(2))), new[2] __attribute__((aligned(2)));
	u16 from, to;

	if (bpf_skb_load_bytes(skb, l4 + at, old, 2))
		return -1;
	sv_put16(new, value);
	from = *(u16 *)old;
	to = *(u16 *)new;
	if (at & 1) {
		from = (u16)(from << 8 | from >> 8);
		to = (u16)(to << 8 | to >> 8);
	}
	return bpf_l4_csum_replace(skb, l4 + 16, from, to, 2) || bpf_skb_store_bytes(skb, l4 + at, new, 2, 0);
}

/* The sequence number of the TCP header that begins at `l4`. Seldom needed, and so out of the way. */
static __noinline int replace_seq(struct __sk_buff *skb, u32 l4, u32 seq)
{
	u32 old, new = bpf_htonl(seq);

	if (bpf_skb_load_bytes(skb, l4 + 4, &old, 4))
		return -1;
	return bpf_l4_csum_replace(skb, l4 + 16, old, new, 4) || bpf_skb_store_bytes(skb, l4 + 4, &new, 4, 0);
}

/*
 * What a device has summed up of the packet (CHECKSUM_COMPLETE) must follow a change of the IPv6 header. IPv4's has a checksum of its
 * own, with which its sum stays the same.
 */
static __always_inline u64 sum_follows(u32 family)
{
	return family == 4 ? 0 : BPF_F_RECOMPUTE_CSUM;
}

/* Where the MSS stands in the SYN with `len` bytes of options at `off`: proven once, like parse_syn_options. */
__noinline int find_mss(struct __sk_buff *skb, u32 off, u32 len)
{
	u8 options[OPTION_BYTES] = {0};

	if (!len || len > SV_TCP_MAX_OPTIONS || bpf_skb_load_bytes(skb, off, options, options_len(len)))
		return 0;
	return (int)sv_mss_find(options, options + sizeof(options), len);
}

/* Lower the MSS of a SYN, in the frame and in `p`. `eth` is where its Ethernet header begins. Returns 1 if it did. */
static __noinline __attribute__((unused)) int clamp_mss(struct __sk_buff *skb, u32 eth, struct sv_packet *p, u32 mtu)
{
	u16 limit = p ? sv_mss_limit(p->family, mtu) : 0;
	u32 l4, at;

	if (!limit || p->mss <= limit)
		return 0;
	l4 = eth + SV_ETH_LEN + p->ip_header_len;
	at = find_mss(skb, l4 + 20, p->l4_header_len - 20);
	if (!at || at > SV_TCP_MAX_OPTIONS)
		return 0;
	if (replace_tcp(skb, l4, 20 + at, limit))
		return 0;
	p->mss = limit;
	return 1;
}

/* Straight into the guest of a port, whose own end has a program. */
static __always_inline int into_guest(struct __sk_buff *skb, u32 port)
{
	/* What came out of a queue is for another station, as its device sees it. */
	bpf_skb_change_type(skb, 0 /* PACKET_HOST */);
	skb->tstamp = SV_THROUGH;
	return bpf_redirect_peer(port, 0);
}

#endif
