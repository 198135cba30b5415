/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Bytes -> struct sv_packet, and the dirty fields back into the bytes.
 *
 * Ethernet with at most two VLAN tags, IPv4 with options, IPv6 with a few extension headers, TCP and UDP. Every access
 * is preceded by a comparison with the end of the bytes in the form that the BPF verifier follows. Checksums are not
 * verified: the NIC or the guest does that, and with offloads they are not even complete yet.
 */
#ifndef SV_PARSE_H
#define SV_PARSE_H

#include "arith.h"
#include "packet.h"

#define SV_PARSE_OK 0
#define SV_PARSE_NOT_IP 1	 /* neither IPv4 nor IPv6 */
#define SV_PARSE_NOT_TRANSPORT 2 /* IP, but not TCP or UDP within reach: addresses and proto are filled */
#define SV_PARSE_FRAGMENT 3	 /* an IP fragment: not to be touched */
#define SV_PARSE_MALFORMED 4	 /* lengths or versions contradict each other */
#define SV_PARSE_SHORT 5	 /* the bytes end within a header */

#define SV_ETH_LEN 14
#define SV_VLAN_LEN 4
#define SV_MAX_VLAN 2
#define SV_MAX_EXTENSION 4
#define SV_TCP_MAX_OPTIONS 40

#define SV_ETHERTYPE_IPV4 0x0800
#define SV_ETHERTYPE_IPV6 0x86dd
#define SV_ETHERTYPE_VLAN 0x8100
#define SV_ETHERTYPE_QINQ 0x88a8

/*
 * Are there n bytes at cur? The verifier wants one pointer comparison; natively cur + n must not be formed when there are not,
 * and cur itself may lie beyond the end, after a length that the frame only claims.
 */
#ifdef __bpf__
#define SV_FITS(cur, n, end) ((cur) + (n) <= (end))
#else
#define SV_FITS(cur, n, end) ((cur) <= (end) && (u64)((end) - (cur)) >= (u64)(n))
#endif

SV_FN u16 sv_get16(const u8 *b)
{
	return (u16)((u32)b[0] << 8 | b[1]);
}

SV_FN u32 sv_get32(const u8 *b)
{
	return (u32)b[0] << 24 | (u32)b[1] << 16 | (u32)b[2] << 8 | b[3];
}

SV_FN void sv_put16(u8 *b, u16 v)
{
	b[0] = (u8)(v >> 8);
	b[1] = (u8)v;
}

SV_FN void sv_put32(u8 *b, u32 v)
{
	sv_put16(b, (u16)(v >> 16));
	sv_put16(b + 2, (u16)v);
}

/*
 * The same of headers that stand in a packet. There, and not on its stack, the BPF verifier lets programs read and write words wherever
 * they begin; from bytes clang makes none.
 */
#if defined(__bpf__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
SV_FN u16 sv_word16(const u8 *b)
{
	return __builtin_bswap16(*(const u16 *)b);
}

SV_FN u32 sv_word32(const u8 *b)
{
	return __builtin_bswap32(*(const u32 *)b);
}

SV_FN void sv_set16(u8 *b, u16 v)
{
	*(u16 *)b = __builtin_bswap16(v);
}

SV_FN void sv_set32(u8 *b, u32 v)
{
	*(u32 *)b = __builtin_bswap32(v);
}
#else
SV_FN u16 sv_word16(const u8 *b)
{
	return sv_get16(b);
}

SV_FN u32 sv_word32(const u8 *b)
{
	return sv_get32(b);
}

SV_FN void sv_set16(u8 *b, u16 v)
{
	sv_put16(b, v);
}

SV_FN void sv_set32(u8 *b, u32 v)
{
	sv_put32(b, v);
}
#endif

/* RFC 1624 equation 3: the checksum after one 16-bit word changed. */
SV_FN u16 sv_csum_update(u16 check, u16 old, u16 new)
{
	u32 sum = (u32)(u16)~check + (u16)~old + new;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~sum;
}

/* Length of the Ethernet header with its VLAN tags, 0 if the bytes end within it. */
SV_FN u32 sv_ethernet_len(const u8 *data, const u8 *end, u16 *ethertype)
{
	u32 len = SV_ETH_LEN;
	u16 type;

	if (!SV_FITS(data, SV_ETH_LEN, end))
		return 0;
	type = sv_get16(data + 12);
	for (int i = 0; i < SV_MAX_VLAN; i++) {
		if (type != SV_ETHERTYPE_VLAN && type != SV_ETHERTYPE_QINQ)
			break;
		if (!SV_FITS(data, len + SV_VLAN_LEN, end))
			return 0;
		type = sv_get16(data + len + 2);
		len += SV_VLAN_LEN;
	}
	*ethertype = type;
	return len;
}

/*
 * MSS (RFC 9293 section 3.7.1) and window scale (RFC 7323 section 2) of a SYN, or that it is signed (RFC 2385 section 3.0, RFC
 * 5925 section 2.2); `cur` is at the first option byte.
 * Includers that define SV_SYN_OPTIONS_APART call it themselves: the verifier would follow this loop anew on every way
 * through the headers.
 */
SV_FN void sv_parse_syn_options(const u8 *cur, const u8 *end, u32 len, struct sv_packet *p)
{
	u32 off = 0;

	for (int i = 0; i < SV_TCP_MAX_OPTIONS; i++) {
		const u8 *opt = cur + (off & 63);
		u32 size;

		if (off >= len || !SV_FITS(opt, 1, end) || opt[0] == 0)
			return;
		if (opt[0] == 1) {
			off = sv_forget8(off + 1);
			continue;
		}
		if (off + 2 > len || !SV_FITS(opt, 2, end))
			return;
		size = opt[1];
		if (size < 2 || off + size > len)
			return;
		if (opt[0] == 2 && size == 4 && SV_FITS(opt, 4, end))
			p->mss = sv_get16(opt + 2);
		if (opt[0] == 19 || opt[0] == 29)
			p->wscale = SV_WSCALE_SIGNED;
		if (opt[0] == 3 && size == 3 && p->wscale != SV_WSCALE_SIGNED && SV_FITS(opt, 3, end))
			p->wscale = (opt[2] > 14 ? 14 : opt[2]) + 1; /* RFC 7323 section 2.3: larger means 14 */
		off = sv_forget8(off + size); /* at most `len` */
	}
}

/* `ip_payload`: bytes that the IP header claims behind itself. */
SV_FN int sv_parse_transport(const u8 *cur, const u8 *end, u32 ip_payload, struct sv_packet *p)
{
	u32 len = 8;

	if (p->proto == SV_PROTO_UDP) {
		if (ip_payload < len)
			return SV_PARSE_MALFORMED;
		if (!SV_FITS(cur, 8, end))
			return SV_PARSE_SHORT;
		if (sv_word16(cur + 4) < len || sv_word16(cur + 4) > ip_payload)
			return SV_PARSE_MALFORMED;
		ip_payload = sv_word16(cur + 4);
	} else if (p->proto == SV_PROTO_TCP) {
		if (ip_payload < 20)
			return SV_PARSE_MALFORMED;
		if (!SV_FITS(cur, 20, end))
			return SV_PARSE_SHORT;
		len = (u32)(cur[12] >> 4) * 4;
		if (len < 20 || len > ip_payload)
			return SV_PARSE_MALFORMED;
		if (!SV_FITS(cur, len, end))
			return SV_PARSE_SHORT;
		p->seq = sv_word32(cur + 4);
		p->ack = sv_word32(cur + 8);
		p->tcp_flags = cur[13];
		p->window = sv_word16(cur + 14);
#ifndef SV_SYN_OPTIONS_APART
		if (p->tcp_flags & SV_TCP_SYN)
			sv_parse_syn_options(cur + 20, end, len - 20, p);
#endif
	} else {
		return SV_PARSE_NOT_TRANSPORT;
	}
	p->sport = sv_word16(cur);
	p->dport = sv_word16(cur + 2);
	p->l4_header_len = (u8)len;
	p->payload = ip_payload - len;
	return SV_PARSE_OK;
}

/*
 * `room`: bytes of the frame from `cur` on, whether or not they lie before `end`. What is longer than the header's field can say has
 * zero there: segments of Linux's BIG TCP, which no link has seen.
 */
SV_FN int sv_parse_ipv4(const u8 *cur, const u8 *end, u32 room, struct sv_packet *p)
{
	u32 header, total;

	if (!SV_FITS(cur, 20, end))
		return SV_PARSE_SHORT;
	header = (u32)(cur[0] & 15) * 4;
	total = sv_word16(cur + 2);
	if (!total && room > 65535)
		total = room;
	if (cur[0] >> 4 != 4 || header < 20 || total < header)
		return SV_PARSE_MALFORMED;
	if (!SV_FITS(cur, header, end))
		return SV_PARSE_SHORT;
	p->family = 4;
	p->ecn = cur[1] & 3;
	p->proto = cur[9];
	p->saddr[2] = 0xffff;
	p->saddr[3] = sv_word32(cur + 12);
	p->daddr[2] = 0xffff;
	p->daddr[3] = sv_word32(cur + 16);
	p->ip_header_len = (u8)header;
	p->truncated = total > room;
	if (sv_word16(cur + 6) & 0x3fff) /* more fragments, or an offset */
		return SV_PARSE_FRAGMENT;
	return sv_parse_transport(cur + header, end, total - header, p);
}

SV_FN int sv_is_extension(u8 proto)
{
	return proto == 0 || proto == 43 || proto == 60; /* hop-by-hop, routing, destination options */
}

/* Of a packet that is SV_PARSE_NOT_TRANSPORT: there is more behind IPv6 extension headers than was followed. */
SV_FN int sv_hides_transport(const struct sv_packet *p)
{
	return p->family == 6 && (!p->ip_header_len || sv_is_extension(p->proto));
}

SV_FN int sv_parse_ipv6(const u8 *cur, const u8 *end, u32 room, struct sv_packet *p)
{
	u32 total, header = 40;
	u8 proto;

	if (!SV_FITS(cur, 40, end))
		return SV_PARSE_SHORT;
	if (cur[0] >> 4 != 6)
		return SV_PARSE_MALFORMED;
	total = 40 + (u32)sv_word16(cur + 4);
	if (total == 40 && room > 40 + 65535)
		total = room;
	p->family = 6;
	p->ecn = cur[1] >> 4 & 3;
	for (int i = 0; i < 4; i++) {
		p->saddr[i] = sv_word32(cur + 8 + 4 * i);
		p->daddr[i] = sv_word32(cur + 24 + 4 * i);
	}
	p->truncated = total > room;
	proto = cur[6];
	for (int i = 0; i < SV_MAX_EXTENSION; i++) {
		const u8 *ext = cur + sv_mask(header, 255);

		if (!sv_is_extension(proto))
			break;
		if (!SV_FITS(ext, 8, end))
			return SV_PARSE_SHORT;
		proto = ext[0];
		header += ((u32)ext[1] + 1) * 8;
		if (header > total)
			return SV_PARSE_MALFORMED;
		if (header > 255) { /* no place for it in ip_header_len */
			p->proto = proto;
			return SV_PARSE_NOT_TRANSPORT;
		}
	}
	p->proto = proto;
	p->ip_header_len = (u8)header;
	if (proto == 44)
		return SV_PARSE_FRAGMENT;
	if (!SV_FITS(cur, header, end))
		return SV_PARSE_SHORT;
	return sv_parse_transport(cur + header, end, total - header, p);
}

/*
 * Parse the frame in [data, end). `frame_len` is its length on the wire, which in the kernel exceeds end - data when
 * part of it lies in page fragments; elsewhere the two are equal. Fields that a frame does not have are zero.
 */
SV_FN int sv_parse(const u8 *data, const u8 *end, u32 frame_len, struct sv_packet *p)
{
	struct sv_packet zero = {0};
	u16 ethertype = 0;
	u32 l2;

	*p = zero;
	l2 = sv_ethernet_len(data, end, &ethertype);
	if (!l2 || frame_len < l2)
		return SV_PARSE_SHORT;
	if (ethertype == SV_ETHERTYPE_IPV4)
		return sv_parse_ipv4(data + l2, end, frame_len - l2, p);
	if (ethertype == SV_ETHERTYPE_IPV6)
		return sv_parse_ipv6(data + l2, end, frame_len - l2, p);
	return SV_PARSE_NOT_IP;
}

/* Replace a 16-bit field of a TCP header, and its checksum. */
SV_FN void sv_replace16(u8 *tcp, u32 at, u16 value)
{
	sv_put16(tcp + 16, sv_csum_update(sv_get16(tcp + 16), sv_get16(tcp + at), value));
	sv_put16(tcp + at, value);
}

/*
 * Write the dirty fields of `p` into the frame it was parsed from, and repair the checksums incrementally. A TCP
 * checksum that offload left unfinished must be repaired by the kernel's own helper (bpf_l4_csum_replace) instead: only
 * it knows. SV_PARSE_MALFORMED, and nothing written, if `p` cannot have come from this frame.
 */
SV_FN int sv_write_back(const struct sv_packet *p, u8 *data, u8 *end)
{
	u16 ethertype = 0, word, changed;
	u32 l2 = sv_ethernet_len(data, end, &ethertype);
	u8 *ip, *tcp;

	if (!l2)
		return SV_PARSE_SHORT;
	if (ethertype != (p->family == 4 ? SV_ETHERTYPE_IPV4 : SV_ETHERTYPE_IPV6) || p->ip_header_len < 20)
		return SV_PARSE_MALFORMED;
	ip = data + l2;
	if (!SV_FITS(ip, 20, end))
		return SV_PARSE_SHORT;
	if (ip[0] >> 4 != p->family)
		return SV_PARSE_MALFORMED;
	if (p->dirty & (SV_DIRTY_WINDOW | SV_DIRTY_SEQ)) {
		tcp = ip + p->ip_header_len;
		if (p->proto != SV_PROTO_TCP)
			return SV_PARSE_MALFORMED;
		if (!SV_FITS(tcp, 20, end))
			return SV_PARSE_SHORT;
		if (p->dirty & SV_DIRTY_WINDOW)
			sv_replace16(tcp, 14, p->window);
		if (p->dirty & SV_DIRTY_SEQ) {
			sv_replace16(tcp, 4, (u16)(p->seq >> 16));
			sv_replace16(tcp, 6, (u16)p->seq);
		}
	}
	if (p->dirty & SV_DIRTY_ECN) {
		word = sv_get16(ip);
		if (p->family == 4) {
			changed = (word & ~3u) | (p->ecn & 3);
			sv_put16(ip + 10, sv_csum_update(sv_get16(ip + 10), word, changed));
		} else {
			changed = (word & ~0x30u) | (u32)(p->ecn & 3) << 4;
		}
		sv_put16(ip, changed);
	}
	return SV_PARSE_OK;
}

#endif
