/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The hidden overlay (Clove, section 7): no encapsulation. The source edge gives a TCP packet the five-tuple that the outer header of a
 * tunnel would have (addresses of the two edges, the path's source port, a fixed destination port) and hides the guests' own in a TCP
 * option. The destination edge puts it back before the guest sees the packet. docs/wire.md draws the option.
 *
 * The option is the first one of the header, so that it is found without a walk through other options, whose bytes may look like
 * anything. All packets that a NIC cuts from one segment carry the same.
 *
 * A packet without room for the option leaves as it is: its own five-tuple says its path.
 *
 * Where the paper is silent:
 *  - Its five-tuple has a protocol; here it stays TCP, or there would be no option.
 *  - ECN has one field, which belongs to the edges here: the option keeps the guest's.
 */
#ifndef SV_HIDDEN_H
#define SV_HIDDEN_H

#include "encap.h"
#include "mss.h"
#include "packet.h"
#include "parse.h"
#include "paths.h"

#define SV_HIDDEN_KIND 254  /* RFC 4727 */
#define SV_HIDDEN_LEN 20    /* bytes of the option, a multiple of 4 */
#define SV_HIDDEN_PORT 7471 /* destination port between edges: that of STT, which also looks like TCP */
#define SV_HIDDEN_MAX_HEADER 60 /* bytes that a TCP header can have */

/* Third byte of the option: fields as in the VXLAN header's second byte (encap.h). */
#define SV_HIDDEN_VERSION_SHIFT 4
#define SV_HIDDEN_HAS_CELL 0x08
#define SV_HIDDEN_UNUSED 0x04
#define SV_HIDDEN_FEEDBACK_MASK 0x03

/* What the option says. */
struct sv_hidden {
	u32 saddr;   /* of the guests, IPv4 */
	u32 daddr;
	u16 sport;
	u16 dport;
	u8 version;  /* SV_ENCAP_V1: the ECN field is the guest's. SV_ENCAP_V2: it is the edges' */
	u8 has_cell; /* 1: `cell` means something */
	u8 cell;     /* flowcell or flowlet number, mod 256 */
	u8 feedback; /* SV_FEEDBACK_* but SV_FEEDBACK_MARKS */
	u8 path;     /* without feedback, of version 2: path and value are a stamp, 16 bits; 0: none */
	u8 value;
	u8 ecn;	     /* of version 2: the guest's codepoint */
	u8 pad;
};

SV_ASSERT_SIZE(struct sv_hidden, 20);

/* `b` has SV_HIDDEN_LEN bytes. Returns 0 unless an edge can have written them, each bit of them. */
SV_FN int sv_hidden_read(const u8 *b, struct sv_hidden *h)
{
	struct sv_hidden zero = {0};

	*h = zero;
	if (b[0] != SV_HIDDEN_KIND || b[1] != SV_HIDDEN_LEN || b[2] & SV_HIDDEN_UNUSED || b[18] > SV_ECN_CE || b[19])
		return 0;
	h->version = b[2] >> SV_HIDDEN_VERSION_SHIFT;
	h->has_cell = b[2] & SV_HIDDEN_HAS_CELL ? 1 : 0;
	h->feedback = b[2] & SV_HIDDEN_FEEDBACK_MASK;
	h->cell = b[3];
	h->path = b[4];
	h->value = b[5];
	h->sport = sv_get16(b + 6);
	h->dport = sv_get16(b + 8);
	h->saddr = sv_get32(b + 10);
	h->daddr = sv_get32(b + 14);
	h->ecn = b[18];
	if (h->version != SV_ENCAP_V1 && h->version != SV_ENCAP_V2)
		return 0;
	if (h->version == SV_ENCAP_V1 && (h->ecn || (!h->feedback && (h->path || h->value))))
		return 0;
	return h->feedback != SV_FEEDBACK_MARKS && (h->has_cell || !h->cell);
}

SV_FN void sv_hidden_write(u8 *b, const struct sv_hidden *h)
{
	b[0] = SV_HIDDEN_KIND;
	b[1] = SV_HIDDEN_LEN;
	b[2] = (u8)(h->version << SV_HIDDEN_VERSION_SHIFT | (h->has_cell ? SV_HIDDEN_HAS_CELL : 0) |
		    (h->feedback & SV_HIDDEN_FEEDBACK_MASK));
	b[3] = h->cell;
	b[4] = h->path;
	b[5] = h->value;
	sv_put16(b + 6, h->sport);
	sv_put16(b + 8, h->dport);
	sv_put32(b + 10, h->saddr);
	sv_put32(b + 14, h->daddr);
	b[18] = h->ecn;
	b[19] = 0;
}

/* Is it TCP over IPv4, whole, with room for the option in its header, in packets of `mtu` bytes and in what IP's length can say? */
SV_FN int sv_hidden_fits(const struct sv_packet *p, u32 mtu)
{
	u32 headers = (u32)p->ip_header_len + p->l4_header_len + SV_HIDDEN_LEN;
	u32 each = p->segment_size && p->segment_size < p->payload ? p->segment_size : p->payload;

	return p->family == 4 && p->proto == SV_PROTO_TCP && !p->truncated && p->ip_header_len >= 20 && p->l4_header_len >= 20 &&
	       p->l4_header_len + SV_HIDDEN_LEN <= SV_HIDDEN_MAX_HEADER && headers + each <= mtu && headers + p->payload <= 0xffff;
}

/* The largest MSS of guests for packets of `mtu` bytes; 0: no limit. */
SV_FN u16 sv_hidden_mss(u32 mtu)
{
	return sv_mss_limit(4, mtu < SV_HIDDEN_LEN ? 0 : mtu - SV_HIDDEN_LEN);
}

/*
 * A packet that fits leaves between the edges `local` and `remote`. `hash`: of its flow, sv_flow_hash. Its feedback is what p says. The ECN
 * field of IP from here on is p->outer_ecn, with SV_WIRE_2.
 */
SV_FN void sv_hidden_swap(struct sv_packet *p, u32 local, u32 remote, u32 hash, struct sv_hidden *h)
{
	struct sv_hidden hidden = {
		.saddr = p->saddr[3],
		.daddr = p->daddr[3],
		.sport = p->sport,
		.dport = p->dport,
		.version = p->wire == SV_WIRE_2 ? SV_ENCAP_V2 : SV_ENCAP_V1,
		.has_cell = p->has_cell,
		.cell = p->has_cell ? (u8)p->cell : 0,
		.ecn = p->wire == SV_WIRE_2 ? p->ecn & 3 : 0,
	};

	if (p->feedback != SV_FEEDBACK_MARKS && (p->feedback || p->wire == SV_WIRE_2)) {
		hidden.feedback = p->feedback & SV_HIDDEN_FEEDBACK_MASK;
		hidden.path = p->feedback_path;
		hidden.value = p->feedback_value;
	}
	*h = hidden;
	p->saddr[3] = local;
	p->daddr[3] = remote;
	p->sport = sv_encap_port(p->label, hash);
	p->dport = SV_HIDDEN_PORT;
	p->l4_header_len += SV_HIDDEN_LEN;
}

/* Did an edge send this to the edge at `local`? */
SV_FN int sv_hidden_is(const struct sv_packet *p, u32 local)
{
	return p->family == 4 && p->proto == SV_PROTO_TCP && p->l4_header_len && p->daddr[3] == local && p->dport == SV_HIDDEN_PORT;
}

/*
 * May the edge at `from` say that this is a packet of its guest for one of ours? `source` and `destination`: the edges whose guests have
 * these addresses; 0: nobody's are.
 */
SV_FN int sv_hidden_may(u32 from, u32 source, u32 here, u32 destination)
{
	return source && source == from && destination == here;
}

/* The packet as the guest sent it; `ecn`: IP's field as it came. Only the low byte of p->cell came: sv_encap_cell. */
SV_FN void sv_hidden_restore(struct sv_packet *p, u8 ecn, const struct sv_hidden *h)
{
	p->label = sv_label_index(p->sport) < 0 ? 0 : p->sport;
	p->saddr[3] = h->saddr;
	p->daddr[3] = h->daddr;
	p->sport = h->sport;
	p->dport = h->dport;
	p->l4_header_len -= SV_HIDDEN_LEN;
	p->wire = h->version == SV_ENCAP_V2 ? SV_WIRE_2 : SV_WIRE_1;
	p->outer_ecn = ecn;
	p->ecn = h->version == SV_ENCAP_V2 ? h->ecn : ecn;
	p->has_cell = h->has_cell;
	p->cell = h->cell;
	p->feedback = h->feedback;
	p->feedback_path = h->path;
	p->feedback_value = h->value;
}

/*
 * A word of what a checksum covers has changed. `undone`: offload left TCP's checksum unfinished, so that it is the sum of the pseudo
 * header alone, and not complemented.
 */
SV_FN void sv_hidden_repair(u8 *check, u16 old, u16 new, int undone)
{
	u16 sum = sv_get16(check);

	if (undone)
		sv_put16(check, (u16)~sv_csum_update((u16)~sum, old, new));
	else
		sv_put16(check, sv_csum_update(sum, old, new));
}

SV_FN void sv_hidden_word(u8 *at, u16 new, u8 *check)
{
	u16 old = sv_get16(at);

	sv_put16(at, new);
	if (check)
		sv_hidden_repair(check, old, new, 0);
}

/*
 * Make the IPv4 packet in [ip, end) what `p` says after sv_hidden_swap or sv_hidden_restore: addresses, ports, lengths, `ecn`, and
 * `option` in the SV_HIDDEN_LEN bytes behind TCP's first 20; all repaired that sums cover. Going in, the caller has made room there
 * with zeros; going out, `option` is zeros, and the caller cuts them out. Returns 0, and nothing is written, if the bytes are not there.
 */
SV_FN int sv_hidden_rewrite(u8 *ip, u8 *end, const struct sv_packet *p, u8 ecn, const u8 *option, int undone)
{
	u8 *tcp = ip + p->ip_header_len, *pseudo = tcp + 16, *whole = undone ? 0 : pseudo;
	u32 len, before;

	if (!SV_FITS(ip, 20, end) || ip[0] >> 4 != 4 || p->ip_header_len < 20 || !SV_FITS(tcp, 20 + SV_HIDDEN_LEN, end))
		return 0;
	before = (u32)(tcp[12] >> 4) * 4;
	if (before + SV_HIDDEN_LEN != p->l4_header_len && before != (u32)p->l4_header_len + SV_HIDDEN_LEN)
		return 0;
	len = (u32)sv_get16(ip + 2) + p->l4_header_len - before;
	if (len > 0xffff)
		return 0;
	sv_hidden_repair(pseudo, sv_get16(ip + 2), (u16)len, undone);
	sv_hidden_word(ip + 2, (u16)len, ip + 10);
	sv_hidden_word(ip, (u16)((sv_get16(ip) & ~3u) | (ecn & 3)), ip + 10);
	for (int i = 0; i < 4; i++) {
		u32 address = i < 2 ? p->saddr[3] : p->daddr[3];
		u16 new = (u16)(i & 1 ? address : address >> 16);

		sv_hidden_repair(pseudo, sv_get16(ip + 12 + 2 * i), new, undone);
		sv_hidden_word(ip + 12 + 2 * i, new, ip + 10);
	}
	sv_hidden_word(tcp, p->sport, whole);
	sv_hidden_word(tcp + 2, p->dport, whole);
	sv_hidden_word(tcp + 12, (u16)((sv_get16(tcp + 12) & 0x0fffu) | (u32)p->l4_header_len / 4 << 12), whole);
	for (int i = 0; i < SV_HIDDEN_LEN; i += 2)
		sv_hidden_word(tcp + 20 + i, sv_get16(option + i), whole);
	return 1;
}

#endif
