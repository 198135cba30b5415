/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The one view of a packet that every stage of the edge reads and writes: parsed headers in host byte order, metadata
 * of the edge itself, and what the stages want changed or sent. The simulator's packets contain this struct; real
 * frames are parsed into it and only the fields marked dirty are written back.
 */
#ifndef SV_PACKET_H
#define SV_PACKET_H

#ifdef __bpf__
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
#define SV_FN static inline __attribute__((always_inline))
#else
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
#define SV_FN static inline
#endif

/* The Rust mirror of each struct asserts the same number. */
#define SV_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " differs from its mirror")

/* IP protocol numbers. */
#define SV_PROTO_TCP 6
#define SV_PROTO_UDP 17

/* TCP flags, as on the wire (RFC 9293 section 3.1, RFC 3168). */
#define SV_TCP_FIN 0x01
#define SV_TCP_SYN 0x02
#define SV_TCP_RST 0x04
#define SV_TCP_PSH 0x08
#define SV_TCP_ACK 0x10
#define SV_TCP_URG 0x20
#define SV_TCP_ECE 0x40
#define SV_TCP_CWR 0x80

/* ECN codepoints (RFC 3168 section 5). */
#define SV_ECN_NOT_ECT 0
#define SV_ECN_ECT1 1
#define SV_ECN_ECT0 2
#define SV_ECN_CE 3

/* sv_packet.dirty: fields that a stage changed. The label is metadata: the driver carries it, sv_write_back does not. */
#define SV_DIRTY_WINDOW 0x0001
#define SV_DIRTY_ECN 0x0002
#define SV_DIRTY_LABEL 0x0004
#define SV_DIRTY_FLAGS 0x0008  /* TCP flags and reserved bits */
#define SV_DIRTY_OPTION 0x0010 /* the feedback option came, went or changed: see `pack` */
#define SV_DIRTY_AE 0x0020     /* with SV_DIRTY_FLAGS: the bit by which a SYN offers accurate ECN is to be 0 */
#define SV_DIRTY_SEQ 0x0040

/*
 * TCP's reserved bits, by which edges speak to one another on every packet (byte 12 of the header; the lowest bit of its
 * four is RFC 9768's AE). No guest sees them, and none can set them.
 */
#define SV_RESERVED_MASK 0x0e
#define SV_TCP_AE 0x01
#define SV_RESERVED_EDGE 0x08 /* the sender's edge does virtual congestion control */
#define SV_RESERVED_ECT 0x04  /* the guest itself had sent this packet as ECN-capable */
#define SV_RESERVED_PACK 0x02 /* the last option is the feedback of option.h; without TCP's ACK flag it is all there is */

/* sv_packet.pack: the report of feedback.h, in the option of option.h or in the shim of shim.h. */
#define SV_PACK_NONE 0
#define SV_PACK_OK 1
#define SV_PACK_MALFORMED 2 /* announced, and not there */
#define SV_PACK_SHIM 3	    /* in the shim, so that the TCP header has no option */

/* sv_packet.wire: how edges speak to one another on the packet's way. */
#define SV_WIRE_1 0 /* reports stand in TCP's header, the outer ECN field is the inner one's; also without any tunnel */
#define SV_WIRE_PLAIN 1 /* without any tunnel, between edges that know of one another: as SV_WIRE_1 */
#define SV_WIRE_2 2 /* version 2 of docs/wire.md: reports stand in a shim, the outer ECN field is the edges' */

/* sv_packet.wscale of a SYN that is signed (RFC 2385, RFC 5925), whatever its own: signatures cover the window. */
#define SV_WSCALE_SIGNED 0xff

/* sv_packet.emit: packets that a stage wants sent besides this one. */
#define SV_EMIT_FACK 0x01   /* to the fabric, before this packet: sv_vcc_fack */
#define SV_EMIT_WINDOW 0x02 /* to the guest: sv_vcc_ack, once */
#define SV_EMIT_DUPACK 0x04 /* to the guest: sv_vcc_ack, SV_VCC_DUPACKS times */

/* sv_packet.feedback, sv_encap.feedback: what the value means for the path with index `path` of the receiver's schedule. */
#define SV_FEEDBACK_NONE 0
#define SV_FEEDBACK_CE 1	  /* congestion experienced; value 0 */
#define SV_FEEDBACK_UTILISATION 2 /* of the busiest link: value / 255 of its capacity */
#define SV_FEEDBACK_MARKS 3	  /* marks of a pair of guests counted so far, 16 bits in path and value; version 2 only */

struct sv_packet {
	u32 saddr[4];	   /* most significant word first; IPv4 as ::ffff:a.b.c.d */
	u32 daddr[4];
	u32 seq;
	u32 ack;
	u32 payload;	   /* transport payload of the whole segment, bytes */
	u32 cell;	   /* flowcell number, mod 2^32 */
	u16 sport;
	u16 dport;
	u16 segment_size;  /* payload bytes per packet once the NIC has split; 0: it fits in one */
	u16 window;	   /* TCP's field as on the wire, unscaled */
	u16 label;	   /* path label, 0: none */
	u16 mss;	   /* MSS option of a SYN, bytes; 0: none */
	u16 dirty;	   /* SV_DIRTY_* */
	u8 proto;	   /* SV_PROTO_* */
	u8 family;	   /* 4 or 6 */
	u8 tcp_flags;	   /* SV_TCP_* */
	u8 ecn;		   /* SV_ECN_* */
	u8 wscale;	   /* window scale option of a SYN: shift + 1; 0: none; SV_WSCALE_SIGNED */
	u8 emit;	   /* SV_EMIT_* */
	u8 truncated;	   /* 1: the IP length exceeds the bytes that are there */
	u8 ip_header_len;  /* bytes, extension headers included */
	u8 l4_header_len;  /* bytes */
	u8 has_cell;	   /* 1: `cell` means something */
	u8 tcp_reserved;   /* SV_RESERVED_* */
	u8 pack;	   /* SV_PACK_* */
	u8 pack_total[3];  /* of the feedback option, as on the wire: payload bytes received, mod 2^24 */
	u8 pack_ce[3];	   /* those that came in marked packets, mod 2^24 */
	u8 wire;	   /* SV_WIRE_* */
	u8 outer_ecn;	   /* egress, SV_WIRE_2: of the outer header, if the inner one is not ECN-capable; see ecn.h */
	u8 sent_ecn;	   /* ingress, SV_WIRE_2: inner codepoint as it came */
	u8 marked;	   /* ingress: 1: CE was met on the way */
	u8 feedback;	   /* to the peer, or from it: SV_FEEDBACK_* */
	u8 feedback_path;  /* and what it says: see encap.h. Without feedback, of version 2, a stamp: relay.h */
	u8 feedback_value;
	u8 masked;	   /* ingress: 1: marks that it reports do not count: load balancing answers to them */
};

SV_ASSERT_SIZE(struct sv_packet, 88);

#endif
