/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Flows: their key, and the life of one connection. State is kept once per connection, under the key of its outgoing
 * direction, so that what is learnt from one direction can be applied to the other.
 */
#ifndef SV_FLOW_H
#define SV_FLOW_H

#include "arith.h"
#include "packet.h"

struct sv_flow_key {
	u32 saddr[4];
	u32 daddr[4];
	u16 sport;
	u16 dport;
	u8 proto;
	u8 pad[3]; /* zero: maps compare whole keys */
};

SV_ASSERT_SIZE(struct sv_flow_key, 40);

SV_FN void sv_flow_key(const struct sv_packet *p, struct sv_flow_key *k)
{
	struct sv_flow_key key = {
		.saddr = { p->saddr[0], p->saddr[1], p->saddr[2], p->saddr[3] },
		.daddr = { p->daddr[0], p->daddr[1], p->daddr[2], p->daddr[3] },
		.sport = p->sport,
		.dport = p->dport,
		.proto = p->proto,
	};

	*k = key;
}

SV_FN void sv_flow_key_reverse(const struct sv_packet *p, struct sv_flow_key *k)
{
	struct sv_flow_key key = {
		.saddr = { p->daddr[0], p->daddr[1], p->daddr[2], p->daddr[3] },
		.daddr = { p->saddr[0], p->saddr[1], p->saddr[2], p->saddr[3] },
		.sport = p->dport,
		.dport = p->sport,
		.proto = p->proto,
	};

	*k = key;
}

/* One step of the hash: fold a word in, then the 64-bit finaliser of MurmurHash3 (public domain). */
SV_FN u64 sv_hash_step(u64 h, u64 word)
{
	h ^= word;
	h ^= h >> 33;
	h *= 0xff51afd7ed558ccdULL;
	h ^= h >> 33;
	h *= 0xc4ceb9fe1a85ec53ULL;
	h ^= h >> 33;
	return h;
}

/* The hash that spreads flows over paths; not for hash tables that strangers can fill. */
SV_FN u32 sv_flow_hash(const struct sv_flow_key *k, u64 seed)
{
	/* A step of its own: a seed that were only folded into the first address word would just rename addresses. */
	u64 h = sv_hash_step(0x9e3779b97f4a7c15ULL, seed);

	for (int i = 0; i < 4; i += 2)
		h = sv_hash_step(h, (u64)k->saddr[i] << 32 | k->saddr[i + 1]);
	for (int i = 0; i < 4; i += 2)
		h = sv_hash_step(h, (u64)k->daddr[i] << 32 | k->daddr[i + 1]);
	h = sv_hash_step(h, (u64)k->proto << 32 | (u32)k->sport << 16 | k->dport);
	return (u32)(h >> 32);
}

/* Phases of a flow. */
#define SV_FLOW_NEW 0	  /* no packet yet; the zero state */
#define SV_FLOW_OPEN 1
#define SV_FLOW_CLOSING 2 /* a FIN or RST was seen in either direction */

/* A closing flow lingers for retransmitted FINs: one initial retransmission timeout (RFC 6298 section 2). */
#define SV_FLOW_LINGER_NS 1000000000ULL

/*
 * A flow is settled once the side that began it has sent again after an answer, as the third packet of TCP's handshake does.
 * Anybody can begin flows that never get so far: they are forgotten after this idleness.
 */
#define SV_FLOW_UNSETTLED_NS 10000000000ULL

/* sv_flow.seen */
#define SV_FLOW_OUT 0x1	    /* packets of the guest */
#define SV_FLOW_IN 0x2	    /* packets to it */
#define SV_FLOW_IN_FIRST 0x4 /* it was begun from outside */
#define SV_FLOW_SETTLED 0x8

struct sv_flow {
	u64 last_seen;	/* ns: the latest packet in either direction */
	u32 in_cell;	/* the newest flowcell received, if has_in_cell */
	u8 phase;	/* SV_FLOW_NEW, SV_FLOW_OPEN or SV_FLOW_CLOSING */
	u8 has_in_cell;
	u8 seen;	/* SV_FLOW_* */
	u8 codepoint;	/* SV_ECN_* that the guest saw last without a mark: hygenicc_plain.h */
};

SV_ASSERT_SIZE(struct sv_flow, 16);

/* What passed of a flow, for people. */
struct sv_flow_counts {
	u64 out_segments;
	u64 out_bytes; /* payload */
	u64 in_segments;
	u64 in_bytes;
};

SV_ASSERT_SIZE(struct sv_flow_counts, 32);

/* Has a flow that was idle since `last_seen` reached its end? `idle` in ns. A new flow has not begun to age. */
SV_FN int sv_flow_expired(const struct sv_flow *f, u64 idle, u64 now)
{
	u64 limit = idle;

	if (f->phase == SV_FLOW_CLOSING && limit > SV_FLOW_LINGER_NS)
		limit = SV_FLOW_LINGER_NS;
	if (!(f->seen & SV_FLOW_SETTLED) && limit > SV_FLOW_UNSETTLED_NS)
		limit = SV_FLOW_UNSETTLED_NS;
	return f->phase != SV_FLOW_NEW && now > f->last_seen && now - f->last_seen > limit;
}

/* What is known of a flow after one more packet, of which `egress` says the direction; `seen` is 0 before the first. */
SV_FN u8 sv_flow_saw(u8 seen, int egress)
{
	u8 both = SV_FLOW_OUT | SV_FLOW_IN;

	if (!(seen & both))
		return egress ? SV_FLOW_OUT : SV_FLOW_IN | SV_FLOW_IN_FIRST;
	if ((seen & both) == both && !egress == !!(seen & SV_FLOW_IN_FIRST))
		return seen | SV_FLOW_SETTLED;
	return seen | (egress ? SV_FLOW_OUT : SV_FLOW_IN);
}

/*
 * A packet of the flow passed, `egress` if it is the guest's. Returns 1 when it starts a connection: the first packet, the first
 * after expiry, or a SYN once the previous connection with this key was closing. Other state of the flow must then
 * start from zero too.
 */
SV_FN int sv_flow_track(struct sv_flow *f, const struct sv_packet *p, int egress, u64 idle, u64 now)
{
	u8 flags = p->proto == SV_PROTO_TCP ? p->tcp_flags : 0;
	int begins = f->phase == SV_FLOW_NEW || sv_flow_expired(f, idle, now) ||
		     (f->phase == SV_FLOW_CLOSING && (flags & (SV_TCP_SYN | SV_TCP_ACK)) == SV_TCP_SYN);

	if (begins) {
		f->phase = SV_FLOW_OPEN;
		f->in_cell = 0;
		f->has_in_cell = 0;
		f->seen = 0;
		f->codepoint = 0;
	}
	f->seen = sv_flow_saw(f->seen, egress);
	if (flags & (SV_TCP_FIN | SV_TCP_RST))
		f->phase = SV_FLOW_CLOSING;
	f->last_seen = now;
	return begins;
}

/* Note the flowcell of an incoming packet. Returns 1 when a newer flowcell came before it: paths differ in delay. */
SV_FN int sv_flow_note_cell(struct sv_flow *f, const struct sv_packet *p)
{
	if (!p->has_cell)
		return 0;
	if (f->has_in_cell && sv_seq_after(f->in_cell, p->cell))
		return 1;
	f->in_cell = p->cell;
	f->has_in_cell = 1;
	return 0;
}

#endif
