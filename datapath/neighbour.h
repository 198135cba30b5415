/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Address resolution: a guest's ARP request (RFC 826) or neighbour solicitation (RFC 4861) read, and turned into its
 * answer in place. Who is asked for, and under which MAC address, is the caller's.
 *
 * Not answered: an ARP probe or announcement (RFC 5227) and duplicate address detection (RFC 4862 section 5.4.2). They ask
 * about the asker's own address, and any answer would take it away.
 */
#ifndef SV_NEIGHBOUR_H
#define SV_NEIGHBOUR_H

#include "arith.h"
#include "packet.h"
#include "parse.h"

#define SV_ETHERTYPE_ARP 0x0806
#define SV_PROTO_ICMPV6 58

#define SV_ARP_LEN (SV_ETH_LEN + 28)
#define SV_ARP_REQUEST 1
#define SV_ARP_REPLY 2

#define SV_ND_SOLICITATION 135
#define SV_ND_ADVERTISEMENT 136
#define SV_ND_ICMP (SV_ETH_LEN + 40)
#define SV_ND_MIN (SV_ND_ICMP + 24) /* a solicitation without options */
#define SV_ND_LEN (SV_ND_MIN + 8)   /* an advertisement with the link-layer address */

/* Bytes that the functions below may touch. */
#define SV_NEIGHBOUR_MAX SV_ND_LEN

/* Who asks for whom: addresses as in sv_packet. */
struct sv_neighbour {
	u32 asked[4];
	u32 asker[4];
	u8 mac[6];   /* the asker's, as it says */
	u8 family;   /* 4: ARP, 6: neighbour discovery */
	u8 question; /* 0: an ARP reply or announcement, of interest for `asker` only */
};

SV_ASSERT_SIZE(struct sv_neighbour, 40);

SV_FN int sv_arp_read(const u8 *frame, struct sv_neighbour *q)
{
	const u8 *arp = frame + SV_ETH_LEN;
	u16 operation = sv_get16(arp + 6);
	u32 asker = sv_get32(arp + 14), asked = sv_get32(arp + 24);

	/* Ethernet (1), IPv4, and their lengths */
	if (sv_get16(arp) != 1 || sv_get16(arp + 2) != SV_ETHERTYPE_IPV4 || sv_get16(arp + 4) != 0x0604)
		return 0;
	if (operation != SV_ARP_REQUEST && operation != SV_ARP_REPLY)
		return 0;
	q->asker[2] = 0xffff;
	q->asker[3] = asker;
	q->asked[2] = 0xffff;
	q->asked[3] = asked;
	q->family = 4;
	q->question = operation == SV_ARP_REQUEST && asker && asker != asked;
	for (int i = 0; i < 6; i++)
		q->mac[i] = arp[8 + i];
	return 1;
}

/* What RFC 4861 section 7.1.1 demands is checked, but the checksum: only who sent it would be misled. */
SV_FN int sv_nd_read(const u8 *frame, u32 len, struct sv_neighbour *q)
{
	const u8 *ip = frame + SV_ETH_LEN, *icmp = frame + SV_ND_ICMP;
	u32 same = 1, specified = 0;

	if (len < SV_ND_MIN || ip[0] >> 4 != 6 || ip[6] != SV_PROTO_ICMPV6 || ip[7] != 255 || sv_get16(ip + 4) < 24)
		return 0;
	if (icmp[0] != SV_ND_SOLICITATION || icmp[1] || icmp[8] == 0xff)
		return 0;
	for (int i = 0; i < 4; i++) {
		q->asker[i] = sv_get32(ip + 8 + 4 * i);
		q->asked[i] = sv_get32(icmp + 8 + 4 * i);
		same &= q->asker[i] == q->asked[i];
		specified |= q->asker[i];
	}
	q->family = 6;
	q->question = specified && !same;
	for (int i = 0; i < 6; i++)
		q->mac[i] = frame[6 + i];
	return 1;
}

/*
 * Read the frame whose first bytes, at most SV_NEIGHBOUR_MAX, are in `frame`; `len` is how many are meant. 1 if it is
 * ARP or a neighbour solicitation, well formed; `q` is zero before.
 */
SV_FN int sv_neighbour_read(const u8 *frame, u32 len, struct sv_neighbour *q)
{
	u16 type = len < SV_ARP_LEN ? 0 : sv_get16(frame + 12);

	if (type == SV_ETHERTYPE_ARP)
		return sv_arp_read(frame, q);
	return type == SV_ETHERTYPE_IPV6 ? sv_nd_read(frame, len, q) : 0;
}

SV_FN u16 sv_nd_checksum(const u8 *frame)
{
	const u8 *icmp = frame + SV_ND_ICMP;
	u32 sum = SV_PROTO_ICMPV6 + (SV_ND_LEN - SV_ND_ICMP);

	/* Both addresses, and what follows them: 64 bytes in a row, of which the checksum counts as zero. */
	for (u32 i = 0; i < 64; i = sv_mask(i + 2, 127)) /* the mask keeps clang from unrolling */
		sum += sv_get16(icmp - 32 + i);
	sum -= sv_get16(icmp + 2);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~sum;
}

/*
 * Turn the question in `frame`, as read into `q`, into the answer "the address asked for is at `mac`". `frame` has
 * SV_NEIGHBOUR_MAX bytes. Returns the answer's length, which may differ from the question's.
 */
SV_FN u32 sv_neighbour_answer(u8 *frame, const struct sv_neighbour *q, const u8 *mac)
{
	u8 *body = frame + SV_ETH_LEN, *icmp = frame + SV_ND_ICMP;

	for (int i = 0; i < 6; i++) {
		frame[i] = frame[6 + i];
		frame[6 + i] = mac[i];
	}
	if (q->family == 4) {
		sv_put16(body + 6, SV_ARP_REPLY);
		for (int i = 0; i < 6; i++) {
			body[18 + i] = q->mac[i];
			body[8 + i] = mac[i];
		}
		sv_put16(body + 14, (u16)(q->asked[3] >> 16));
		sv_put16(body + 16, (u16)q->asked[3]);
		sv_put16(body + 24, (u16)(q->asker[3] >> 16));
		sv_put16(body + 26, (u16)q->asker[3]);
		return SV_ARP_LEN;
	}
	sv_put16(body + 4, SV_ND_LEN - SV_ND_ICMP);
	for (int i = 0; i < 4; i++) {
		sv_put16(body + 8 + 4 * i, (u16)(q->asked[i] >> 16));
		sv_put16(body + 10 + 4 * i, (u16)q->asked[i]);
		sv_put16(body + 24 + 4 * i, (u16)(q->asker[i] >> 16));
		sv_put16(body + 26 + 4 * i, (u16)q->asker[i]);
	}
	icmp[0] = SV_ND_ADVERTISEMENT;
	sv_put16(icmp + 4, 0x6000); /* solicited, override; a guest is no router (RFC 4861 section 4.4) */
	sv_put16(icmp + 6, 0);
	icmp[24] = 2; /* target link-layer address, in units of 8 bytes */
	icmp[25] = 1;
	for (int i = 0; i < 6; i++)
		icmp[26 + i] = mac[i];
	sv_put16(icmp + 2, sv_nd_checksum(frame));
	return SV_ND_LEN;
}

#endif
