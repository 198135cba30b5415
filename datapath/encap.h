/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Encapsulation between edges: Ethernet in UDP in the format of VXLAN (RFC 7348). The outer UDP source port is the path
 * label; the header's reserved bits carry the edge's metadata. docs/wire.md draws the layout; its numbers stand here and in
 * shim.h.
 *
 * All bits of the two header words are equal in all packets that the NIC cuts from one segment, and the kernel's tunnel
 * GRO compares the words whole: it merges just what belongs together.
 */
#ifndef SV_ENCAP_H
#define SV_ENCAP_H

#include "flow.h"
#include "packet.h"
#include "parse.h"
#include "shim.h"

#define SV_VXLAN_PORT 4789 /* RFC 7348 section 5 */

/* First word, in host order. */
#define SV_VXLAN_FLAGS_MASK 0xff000000u
#define SV_VXLAN_FLAG_VNI 0x08000000u /* "I", always set; all other flags are zero */
#define SV_ENCAP_VERSION_SHIFT 20
#define SV_ENCAP_VERSION_MASK 0xf
#define SV_ENCAP_HAS_CELL 0x00080000u
/* Version 1: the sender's edge speaks version 2, too; edges that do not ignore it. Version 2: a shim follows. */
#define SV_ENCAP_EXTRA 0x00040000u
#define SV_ENCAP_FEEDBACK_SHIFT 16
#define SV_ENCAP_FEEDBACK_MASK 0x3
#define SV_ENCAP_PATH_SHIFT 8
#define SV_ENCAP_VALUE_SHIFT 0

/* Second word, in host order. */
#define SV_ENCAP_VNI_SHIFT 8
#define SV_ENCAP_VNI_MASK 0xffffffu
#define SV_ENCAP_CELL_SHIFT 0

/* sv_encap.version */
#define SV_ENCAP_PLAIN 0 /* plain VXLAN: every other reserved bit is zero when sent, ignored when received */
#define SV_ENCAP_V1 1
#define SV_ENCAP_V2 2	 /* the same fields; beside them a shim, marks' counts, and the outer ECN field (ecn.h) */

/* Ports of flows without a label: below those that name a path (SV_LABEL_PATH). A power of two of them. */
#define SV_ENCAP_PORT_MIN 0x8000
#define SV_ENCAP_PORT_COUNT 0x4000

#define SV_UDP_LEN 8
#define SV_VXLAN_LEN 8
#define SV_ENCAP_LEN4 (20 + SV_UDP_LEN + SV_VXLAN_LEN + SV_ETH_LEN) /* what an IPv4 tunnel adds to a frame: 50 */
#define SV_ENCAP_LEN6 (40 + SV_UDP_LEN + SV_VXLAN_LEN + SV_ETH_LEN) /* 70 */
#define SV_ENCAP_TTL 64

/* The metadata of one encapsulated frame. */
struct sv_encap {
	u32 vni;     /* 24 bits */
	u8 version;  /* SV_ENCAP_PLAIN, SV_ENCAP_V1, SV_ENCAP_V2 or unknown */
	u8 has_cell; /* 1: `cell` means something */
	u8 cell;     /* flowcell or flowlet number, mod 256 */
	u8 feedback; /* SV_FEEDBACK_* */
	u8 path;     /* without feedback, of version 2: path and value are a stamp, 16 bits; 0: none */
	u8 value;
	u8 speaks2;  /* 1: of version 1: the sender understands version 2 */
	u8 shim;     /* 1: of version 2: a shim follows the header */
};

SV_ASSERT_SIZE(struct sv_encap, 12);

/* The way to one peer. */
struct sv_tunnel {
	u32 local[4]; /* outer addresses as in sv_packet */
	u32 remote[4];
	u8 dmac[6];   /* next hop; all zero: the kernel resolves it */
	u8 smac[6];
	u16 port;     /* UDP destination port */
	u8 family;    /* 4 or 6, of the outer addresses */
	u8 version;   /* the highest that we speak to it: SV_ENCAP_* */
};

SV_ASSERT_SIZE(struct sv_tunnel, 48);

/*
 * What a peer was heard to understand. Whoever can send under the peer's address can claim something else: that lasts until the
 * peer is heard again, or for SV_HEARD_TICKS.
 */
struct sv_heard {
	u32 at;	    /* ticks of 2^SV_HEARD_SHIFT ns; 0 with version 0: never */
	u8 version; /* SV_ENCAP_V1 or SV_ENCAP_V2; 0: nothing was heard */
	u8 plain;   /* 1: the last frame had no metadata, as those of no edge have */
	u16 sent;   /* the tick, modulo 2^16, of what was sent to it last; 0: nothing was */
};

SV_ASSERT_SIZE(struct sv_heard, 8);

#define SV_HEARD_SHIFT 30 /* a tick is 1.07 s */
#define SV_HEARD_TICKS 60

SV_FN u32 sv_heard_tick(u64 now)
{
	return (u32)(now >> SV_HEARD_SHIFT);
}

/* What a frame of a peer says of the sender. */
SV_FN u8 sv_encap_claim(const struct sv_encap *e)
{
	return e->version == SV_ENCAP_V2 || (e->version == SV_ENCAP_V1 && e->speaks2) ? SV_ENCAP_V2 : SV_ENCAP_V1;
}

/* `claim`: sv_encap_claim. `plain`: the frame had no metadata. Writes only what is new. */
SV_FN void sv_heard_note(struct sv_heard *h, u8 claim, u8 plain, u64 now)
{
	u32 tick = sv_heard_tick(now);

	if (h->at != tick)
		h->at = tick;
	if (h->version != claim)
		h->version = claim;
	if (h->plain != plain)
		h->plain = plain;
}

/* A frame is sent to the peer. Writes only what is new. */
SV_FN void sv_heard_sent(struct sv_heard *h, u64 now)
{
	u16 tick = (u16)sv_heard_tick(now);

	if (!tick)
		tick = 1;
	if (h->sent != tick)
		h->sent = tick;
}

/* The version to speak to a peer to whom we may speak up to `most`: of what it was not heard to understand, it would lose the rest. */
SV_FN u8 sv_heard_version(const struct sv_heard *h, u8 most, u64 now)
{
	if (most < SV_ENCAP_V2)
		return most;
	return h->version == SV_ENCAP_V2 && sv_heard_tick(now) - h->at <= SV_HEARD_TICKS ? SV_ENCAP_V2 : SV_ENCAP_V1;
}

/* Metadata of which version a peer's frame may bring, if we speak up to `most` to it; beyond that is an unknown one. */
SV_FN u8 sv_heard_most(u8 most)
{
	return most < SV_ENCAP_V1 ? SV_ENCAP_V1 : most;
}

/* What the outer headers of a received frame say. */
struct sv_outer {
	u32 saddr[4];
	u32 daddr[4];
	struct sv_encap encap;
	u16 sport;   /* path label */
	u8 ecn;
	u8 add_len;  /* bytes that decapsulation removes: SV_ENCAP_LEN4 or SV_ENCAP_LEN6, and the shim */
	u32 frame_len; /* bytes of the whole frame, as both IP and UDP say; 0: they contradict each other */
	u8 shim[SV_SHIM_LEN]; /* if encap.shim */
};

SV_ASSERT_SIZE(struct sv_outer, 60);

/* Of the outer addresses. */
SV_FN u8 sv_outer_family(const struct sv_outer *o)
{
	return o->add_len < SV_ENCAP_LEN6 ? 4 : 6;
}

/* The header's two words, in host order. */
SV_FN void sv_encap_pack(const struct sv_encap *e, u32 *first, u32 *second)
{
	*first = SV_VXLAN_FLAG_VNI;
	*second = (e->vni & SV_ENCAP_VNI_MASK) << SV_ENCAP_VNI_SHIFT;
	if (e->version == SV_ENCAP_PLAIN)
		return;
	*first |= (u32)(e->version & SV_ENCAP_VERSION_MASK) << SV_ENCAP_VERSION_SHIFT;
	if (e->version == SV_ENCAP_V1 ? e->speaks2 : e->shim)
		*first |= SV_ENCAP_EXTRA;
	if (e->has_cell) {
		*first |= SV_ENCAP_HAS_CELL;
		*second |= (u32)e->cell << SV_ENCAP_CELL_SHIFT;
	}
	if (e->version != SV_ENCAP_V1 || (e->feedback && e->feedback != SV_FEEDBACK_MARKS)) {
		*first |= (u32)(e->feedback & SV_ENCAP_FEEDBACK_MASK) << SV_ENCAP_FEEDBACK_SHIFT;
		*first |= (u32)e->path << SV_ENCAP_PATH_SHIFT | (u32)e->value << SV_ENCAP_VALUE_SHIFT;
	}
}

/*
 * Returns 0 if this is not our format: no VNI, or flags of some extension of VXLAN, which may change what follows. The
 * metadata of an unknown version is left zero; VNI and version are always filled, for they never move.
 */
SV_FN int sv_encap_unpack(u32 first, u32 second, struct sv_encap *e)
{
	struct sv_encap zero = {0};

	*e = zero;
	if ((first & SV_VXLAN_FLAGS_MASK) != SV_VXLAN_FLAG_VNI)
		return 0;
	e->vni = second >> SV_ENCAP_VNI_SHIFT & SV_ENCAP_VNI_MASK;
	e->version = first >> SV_ENCAP_VERSION_SHIFT & SV_ENCAP_VERSION_MASK;
	if (e->version != SV_ENCAP_V1 && e->version != SV_ENCAP_V2)
		return 1;
	if (first & SV_ENCAP_EXTRA && e->version == SV_ENCAP_V1)
		e->speaks2 = 1;
	else if (first & SV_ENCAP_EXTRA)
		e->shim = 1;
	if (first & SV_ENCAP_HAS_CELL) {
		e->has_cell = 1;
		e->cell = (u8)(second >> SV_ENCAP_CELL_SHIFT);
	}
	e->feedback = first >> SV_ENCAP_FEEDBACK_SHIFT & SV_ENCAP_FEEDBACK_MASK;
	if (e->version == SV_ENCAP_V1 && e->feedback == SV_FEEDBACK_MARKS)
		e->feedback = SV_FEEDBACK_NONE;
	if (!e->feedback && e->version == SV_ENCAP_V1)
		return 1;
	e->path = (u8)(first >> SV_ENCAP_PATH_SHIFT);
	e->value = (u8)(first >> SV_ENCAP_VALUE_SHIFT);
	return 1;
}

/* The full number of a received cell: the one closest to the newest known. Right while fewer than 128 lie between. */
SV_FN u32 sv_encap_cell(u32 newest, u8 cell)
{
	u8 ahead = (u8)(cell - (u8)newest);

	return ahead < 128 ? newest + ahead : newest - (256u - ahead);
}

/* The source port of a packet that no stage labelled: the fabric's ECMP then spreads by inner flow. */
SV_FN u16 sv_encap_port(u16 label, u32 hash)
{
	return label ? label : (u16)(SV_ENCAP_PORT_MIN + (hash & (SV_ENCAP_PORT_COUNT - 1)));
}

/* What a host may keep as the hash of the outer headers: the label decides between two tunnel addresses, nothing inside. */
SV_FN u32 sv_encap_hash(const struct sv_tunnel *t, u16 sport)
{
	return (u32)sv_hash_step((u64)t->local[3] << 32 | t->remote[3], (u64)sport << 16 | t->port);
}

SV_FN void sv_encap_write_udp(u8 *b, const struct sv_tunnel *t, const struct sv_encap *e, u16 sport, u32 udp_len)
{
	u32 first, second;

	sv_encap_pack(e, &first, &second);
	sv_set16(b, sport);
	sv_set16(b + 2, t->port);
	sv_set16(b + 4, (u16)udp_len);
	sv_set16(b + 6, 0); /* no checksum: RFC 7348 section 5; RFC 6935 section 5 for IPv6 */
	sv_set32(b + 8, first);
	sv_set32(b + 12, second);
}

SV_FN void sv_encap_write_macs(u8 *b, const u8 *dmac, const u8 *smac)
{
	sv_set32(b, sv_word32(dmac));
	sv_set16(b + 4, sv_word16(dmac + 4));
	sv_set16(b + 6, sv_word16(smac));
	sv_set32(b + 8, sv_word32(smac + 2));
}

SV_FN u32 sv_encap_fold(u32 word)
{
	return (word >> 16) + (word & 0xffff);
}

/*
 * Write the outer headers of an IPv4 tunnel, from Ethernet's type to VXLAN, into the SV_ENCAP_LEN4 bytes of the packet at `b`. The MAC
 * addresses are for sv_encap_write_macs. `frame_len`: bytes of the inner frame, Ethernet header included. The caller has checked that the
 * sum fits 65535.
 */
SV_FN void sv_encap_write4(u8 *b, const struct sv_tunnel *t, const struct sv_encap *e, u16 sport, u8 ecn, u32 frame_len)
{
	u32 udp_len = frame_len + SV_UDP_LEN + SV_VXLAN_LEN, versions = 0x4500 | (ecn & 3), ttl = SV_ENCAP_TTL << 8 | SV_PROTO_UDP, sum;
	u8 *ip = b + SV_ETH_LEN;

	sum = versions + (20 + udp_len) + 0x4000 + ttl + sv_encap_fold(t->local[3]) + sv_encap_fold(t->remote[3]);
	sum = sv_encap_fold(sv_encap_fold(sum));
	sv_set16(b + 12, SV_ETHERTYPE_IPV4);
	sv_set32(ip, versions << 16 | (20 + udp_len));
	sv_set32(ip + 4, 0x4000); /* don't fragment, so the identification may stay zero (RFC 6864 section 4.1) */
	sv_set32(ip + 8, ttl << 16 | (u16)~sum);
	sv_set32(ip + 12, t->local[3]);
	sv_set32(ip + 16, t->remote[3]);
	sv_encap_write_udp(ip + 20, t, e, sport, udp_len);
}

/* The same of an IPv6 tunnel, SV_ENCAP_LEN6 bytes. */
SV_FN void sv_encap_write6(u8 *b, const struct sv_tunnel *t, const struct sv_encap *e, u16 sport, u8 ecn, u32 frame_len)
{
	u32 udp_len = frame_len + SV_UDP_LEN + SV_VXLAN_LEN;
	u8 *ip = b + SV_ETH_LEN;

	sv_set16(b + 12, SV_ETHERTYPE_IPV6);
	sv_set32(ip, 0x60000000u | (u32)(ecn & 3) << 20);
	sv_set32(ip + 4, udp_len << 16 | SV_PROTO_UDP << 8 | SV_ENCAP_TTL);
	for (int i = 0; i < 4; i++) {
		sv_set32(ip + 8 + 4 * i, t->local[i]);
		sv_set32(ip + 24 + 4 * i, t->remote[i]);
	}
	sv_encap_write_udp(ip + 40, t, e, sport, udp_len);
}

/* `udp`: at the UDP header, `ip_payload`: what IP says of its length. 0 unless it goes to `port` and our header follows. */
SV_FN int sv_encap_read_udp(const u8 *udp, const u8 *end, u16 port, u32 ip_payload, struct sv_outer *o)
{
	if (!SV_FITS(udp, SV_UDP_LEN + SV_VXLAN_LEN + SV_ETH_LEN, end))
		return 0;
	if (sv_word16(udp + 2) != port || sv_word16(udp + 4) < SV_UDP_LEN + SV_VXLAN_LEN + SV_ETH_LEN)
		return 0;
	o->sport = sv_word16(udp);
	o->frame_len = sv_word16(udp + 4) == ip_payload ? o->add_len - SV_UDP_LEN - SV_VXLAN_LEN + ip_payload : 0;
	if (!sv_encap_unpack(sv_word32(udp + 8), sv_word32(udp + 12), &o->encap))
		return 0;
	if (!o->encap.shim)
		return 1;
	udp += SV_UDP_LEN + SV_VXLAN_LEN;
	if (!SV_FITS(udp, SV_SHIM_LEN + SV_ETH_LEN, end))
		return 0;
	for (int i = 0; i < SV_SHIM_LEN; i++)
		o->shim[i] = udp[i];
	o->add_len += SV_SHIM_LEN;
	return ip_payload >= SV_UDP_LEN + SV_VXLAN_LEN + SV_SHIM_LEN + SV_ETH_LEN;
}

/*
 * Does a frame carry our encapsulation, to UDP port `port`? Without VLAN tag, IPv4 options, IPv6 extension headers and
 * fragmentation; anything else is not ours. UDP's checksum is not verified, as RFC 7348 section 5 allows: the inner
 * packet has its own. Whether the lengths are those of the frame is for the caller to see: o->frame_len.
 */
SV_FN int sv_encap_read(const u8 *data, const u8 *end, u16 port, struct sv_outer *o)
{
	struct sv_outer zero = {0};
	const u8 *ip;

	*o = zero;
	if (!SV_FITS(data, SV_ETH_LEN + 20, end))
		return 0;
	ip = data + SV_ETH_LEN;
	if (sv_word16(data + 12) == SV_ETHERTYPE_IPV4) {
		if (ip[0] != 0x45 || ip[9] != SV_PROTO_UDP || (sv_word16(ip + 6) & 0x3fff))
			return 0;
		o->saddr[2] = 0xffff;
		o->saddr[3] = sv_word32(ip + 12);
		o->daddr[2] = 0xffff;
		o->daddr[3] = sv_word32(ip + 16);
		o->ecn = ip[1] & 3;
		o->add_len = SV_ENCAP_LEN4;
		return sv_encap_read_udp(ip + 20, end, port, (u32)sv_word16(ip + 2) - 20, o);
	}
	if (sv_word16(data + 12) != SV_ETHERTYPE_IPV6 || !SV_FITS(ip, 40, end))
		return 0;
	if (ip[0] >> 4 != 6 || ip[6] != SV_PROTO_UDP)
		return 0;
	for (int i = 0; i < 4; i++) {
		o->saddr[i] = sv_word32(ip + 8 + 4 * i);
		o->daddr[i] = sv_word32(ip + 24 + 4 * i);
	}
	o->ecn = ip[1] >> 4 & 3;
	o->add_len = SV_ENCAP_LEN6;
	return sv_encap_read_udp(ip + 40, end, port, sv_word16(ip + 4), o);
}

#endif
