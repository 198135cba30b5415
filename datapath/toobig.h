/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The answer to a packet that is larger than the way allows: ICMP "fragmentation needed" with the next hop's MTU (RFC 792,
 * RFC 1191 section 4) or ICMPv6 "packet too big" (RFC 4443 section 3.2). It comes from the address that the packet was sent
 * to: the overlay is no hop, and has no address of its own.
 *
 * Quoted are the packet's first SV_TOOBIG_QUOTE bytes: more than the 8 bytes behind the IP header that RFC 792 asks for, and
 * less than RFC 1812 section 4.3.2.3 and RFC 4443 would have, so that the work is small and constant.
 */
#ifndef SV_TOOBIG_H
#define SV_TOOBIG_H

#include "arith.h"
#include "packet.h"
#include "parse.h"

#define SV_PROTO_ICMP 1

#define SV_TOOBIG_QUOTE 128
#define SV_TOOBIG_ADD4 (20 + 8) /* bytes between the Ethernet header and the quoted packet */
#define SV_TOOBIG_ADD6 (40 + 8)
#define SV_TOOBIG_MAX (SV_ETH_LEN + SV_TOOBIG_ADD6 + SV_TOOBIG_QUOTE)

/* IPv6 links carry that much (RFC 8200 section 5). IPv4: whatever is quoted must be there. */
#define SV_TOOBIG_MIN4 SV_TOOBIG_QUOTE
#define SV_TOOBIG_MIN6 1280

/* The size that is enforced where a port says `mtu`. */
SV_FN u32 sv_toobig_limit(u8 family, u32 mtu)
{
	return sv_max32(mtu, family == 4 ? SV_TOOBIG_MIN4 : SV_TOOBIG_MIN6);
}

/* Does the packet fit in `mtu` bytes? `ip_len`: of the whole segment, IP header included. */
SV_FN int sv_toobig_fits(const struct sv_packet *p, u32 ip_len, u32 mtu)
{
	if (p->segment_size)
		ip_len = (u32)p->ip_header_len + p->l4_header_len + p->segment_size;
	return ip_len <= sv_toobig_limit(p->family, mtu);
}

/*
 * May the packet whose first bytes are at `ip` be answered? Not if it is itself an ICMP error or a later fragment (RFC 1122
 * section 3.2.2, RFC 4443 section 2.4). IPv4 packets without DF are answered too: they cannot pass, we do not fragment, and
 * senders heed it.
 */
SV_FN int sv_toobig_answerable(const u8 *ip, const struct sv_packet *p)
{
	u8 type;

	if (p->family == 4) {
		if (sv_get16(ip + 6) & 0x1fff || !(p->saddr[3] >> 24) || p->saddr[3] >> 28 >= 14)
			return 0;
		if (p->proto != SV_PROTO_ICMP)
			return 1;
		if (p->ip_header_len != 20)
			return 0;
		type = ip[20];
		return type == 8 || type == 0; /* echo, and its reply */
	}
	if (!(p->saddr[0] | p->saddr[1] | p->saddr[2] | p->saddr[3]) || p->saddr[0] >> 24 == 0xff)
		return 0;
	return p->proto != 58 || p->ip_header_len != 40 || ip[40] >= 128;
}

/* Ones' complement sum of the pseudo header that TCP and UDP add, folded; `len`: of TCP or UDP, header included. */
SV_FN u16 sv_toobig_pseudo(const struct sv_packet *p, u32 len)
{
	u64 sum = (u64)p->proto + len;

	for (int i = p->family == 4 ? 3 : 0; i < 4; i++)
		sum += (u64)p->saddr[i] + p->daddr[i];
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)((sum & 0xffff) + (sum >> 16));
}

/*
 * Has offload left the quoted checksum `check` for later? Then it holds the sum of the pseudo header, and whoever completes
 * it will change bytes that the ICMP checksum covers. A complete one looks so once in 65,536.
 */
SV_FN int sv_toobig_unfinished(const struct sv_packet *p, u16 check)
{
	return (p->proto == SV_PROTO_TCP || p->proto == SV_PROTO_UDP) && p->l4_header_len &&
	       check == sv_toobig_pseudo(p, p->payload + p->l4_header_len);
}

/*
 * Sum of what is quoted. Once it is complete, an unfinished checksum makes the sum from its transport header on, however
 * much of it is quoted, the complement of what it holds now.
 */
SV_FN u32 sv_toobig_sum(const u8 *quote, const struct sv_packet *p, int unfinished, u16 check)
{
	u32 upto = unfinished ? p->ip_header_len : SV_TOOBIG_QUOTE;
	u32 sum = unfinished ? (u16)~check : 0;

	for (u32 i = 0; i < SV_TOOBIG_QUOTE; i = sv_mask(i + 2, 255)) { /* the mask keeps clang from unrolling */
		/* All ones below `upto`, else 0, without a branch: the verifier would follow all ways through all rounds. */
		u64 below = sv_opaque((u64)i - upto);

		sum += sv_get16(quote + i) & (u32)sv_opaque((u64)((s64)below >> 63));
	}
	return sum;
}

SV_FN u16 sv_toobig_fold(u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~sum;
}

SV_FN void sv_toobig_ethernet(u8 *b)
{
	for (int i = 0; i < 6; i++) {
		u8 from = b[6 + i];

		b[6 + i] = b[i];
		b[i] = from;
	}
}

/*
 * `b`: the packet's Ethernet header, then SV_TOOBIG_ADD4 bytes, then the SV_TOOBIG_QUOTE bytes to quote. Fills what is
 * between, and turns the Ethernet header round. `check`: as sv_toobig_unfinished.
 */
SV_FN void sv_toobig_write4(u8 *b, const struct sv_packet *p, int unfinished, u16 check, u32 mtu)
{
	u8 *ip = b + SV_ETH_LEN, *icmp = ip + 20, *quote = icmp + 8;
	u32 sum = 0;

	sv_toobig_ethernet(b);
	sv_put16(ip, 0x4500);
	sv_put16(ip + 2, SV_TOOBIG_ADD4 + SV_TOOBIG_QUOTE);
	sv_put16(ip + 4, 0);
	sv_put16(ip + 6, 0x4000); /* atomic, as RFC 6864 section 4.1 has it */
	sv_put16(ip + 8, 64 << 8 | SV_PROTO_ICMP);
	sv_put16(ip + 10, 0);
	sv_put16(ip + 12, (u16)(p->daddr[3] >> 16));
	sv_put16(ip + 14, (u16)p->daddr[3]);
	sv_put16(ip + 16, (u16)(p->saddr[3] >> 16));
	sv_put16(ip + 18, (u16)p->saddr[3]);
	for (int i = 0; i < 20; i += 2)
		sum += sv_get16(ip + i);
	sv_put16(ip + 10, sv_toobig_fold(sum));
	sv_put16(icmp, 3 << 8 | 4); /* unreachable, fragmentation needed */
	sv_put16(icmp + 2, 0);
	sv_put16(icmp + 4, 0);
	sv_put16(icmp + 6, (u16)mtu);
	sum = sv_get16(icmp) + (mtu & 0xffff) + sv_toobig_sum(quote, p, unfinished, check);
	sv_put16(icmp + 2, sv_toobig_fold(sum));
}

/* As sv_toobig_write4, with SV_TOOBIG_ADD6. */
SV_FN void sv_toobig_write6(u8 *b, const struct sv_packet *p, int unfinished, u16 check, u32 mtu)
{
	u8 *ip = b + SV_ETH_LEN, *icmp = ip + 40, *quote = icmp + 8;
	u32 sum = 58 + 8 + SV_TOOBIG_QUOTE;

	sv_toobig_ethernet(b);
	sv_put16(ip, 0x6000);
	sv_put16(ip + 2, 0);
	sv_put16(ip + 4, 8 + SV_TOOBIG_QUOTE);
	sv_put16(ip + 6, 58 << 8 | 64);
	for (int i = 0; i < 4; i++) {
		sv_put16(ip + 8 + 4 * i, (u16)(p->daddr[i] >> 16));
		sv_put16(ip + 10 + 4 * i, (u16)p->daddr[i]);
		sv_put16(ip + 24 + 4 * i, (u16)(p->saddr[i] >> 16));
		sv_put16(ip + 26 + 4 * i, (u16)p->saddr[i]);
		sum += (p->daddr[i] >> 16) + (p->daddr[i] & 0xffff) + (p->saddr[i] >> 16) + (p->saddr[i] & 0xffff);
	}
	sv_put16(icmp, 2 << 8); /* packet too big */
	sv_put16(icmp + 2, 0);
	sv_put16(icmp + 4, (u16)(mtu >> 16));
	sv_put16(icmp + 6, (u16)mtu);
	sum += sv_get16(icmp) + (mtu >> 16) + (mtu & 0xffff) + sv_toobig_sum(quote, p, unfinished, check);
	sv_put16(icmp + 2, sv_toobig_fold(sum));
}

#endif
