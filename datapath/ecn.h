/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ECN across the tunnel: who marks, who counts, and what the guest sees. One rule for all.
 *
 * With version 1, and towards plain VXLAN, the outer codepoint is the inner one's (RFC 6040, normal mode). With version 2 the
 * inner codepoint is the guests' alone. A stage that answers to marks asks for ECT on the outer header where the guest did not; no
 * other packet gets it, or it would escape a queue's drops without anybody slowing down.
 *
 * On arrival a mark is harvested once, in p->marked, for every stage that counts marks. The guest sees a mark if its packet was
 * ECN-capable, unless virtual congestion control answers for it (vcc.h), or load balancing that answers to marks has another path
 * to take (sv_show_ecn of edge.h, which has all cases).
 */
#ifndef SV_ECN_H
#define SV_ECN_H

#include "packet.h"

/*
 * The inner codepoint that leaves a tunnel in normal mode (RFC 6040 section 4.2), or -1 where the packet must be dropped,
 * because its sender does not understand the mark that it got. On the way in, the codepoint is copied (section 4.1).
 */
SV_FN int sv_ecn_merge(u8 inner, u8 outer)
{
	if (outer == SV_ECN_CE)
		return inner == SV_ECN_NOT_ECT ? -1 : SV_ECN_CE;
	if (inner == SV_ECN_ECT0 && outer == SV_ECN_ECT1)
		return SV_ECN_ECT1;
	return inner;
}

/* The outer codepoint of a packet that enters the tunnel. */
SV_FN u8 sv_ecn_departs(const struct sv_packet *p)
{
	return p->wire == SV_WIRE_2 && p->ecn == SV_ECN_NOT_ECT ? p->outer_ecn : p->ecn;
}

/* A stage answers to the marks of this packet. */
SV_FN void sv_ecn_ask(struct sv_packet *p)
{
	p->outer_ecn = SV_ECN_ECT0;
}

/*
 * A packet leaves the tunnel; its outer codepoint was `outer`. `wire`: SV_WIRE_2 if its sender is a peer that may speak version 2,
 * and does. A mark over Not-ECT then is a stage's at the other end, which hears of it; otherwise it is nobody's, and the only way
 * to tell the sender is a loss. Returns 0 if the packet must be dropped.
 */
SV_FN int sv_ecn_arrives(struct sv_packet *p, u8 outer, u8 wire)
{
	int ecn = sv_ecn_merge(p->ecn, outer);

	p->wire = wire;
	p->sent_ecn = p->ecn;
	p->marked = outer == SV_ECN_CE || p->ecn == SV_ECN_CE;
	if (ecn < 0)
		return wire == SV_WIRE_2;
	if (ecn != p->ecn)
		p->dirty |= SV_DIRTY_ECN;
	p->ecn = (u8)ecn;
	return 1;
}

/* Was the packet marked on its path? A guest that sends CE itself says nothing of paths, and has no say. */
SV_FN int sv_ecn_path_marked(const struct sv_packet *p)
{
	return p->wire == SV_WIRE_2 && p->marked && p->sent_ecn != SV_ECN_CE;
}

/* The guest gets the codepoint that was sent to it, without the mark of the path. */
SV_FN void sv_ecn_mask(struct sv_packet *p)
{
	if (p->wire != SV_WIRE_2 || p->ecn != SV_ECN_CE || p->sent_ecn == SV_ECN_CE)
		return;
	p->ecn = p->sent_ecn;
	p->dirty |= SV_DIRTY_ECN;
}

/* The guest is told that what it sends meets congestion, by an ACK that it gets anyway. Whether it speaks ECN is the caller's business. */
SV_FN void sv_ecn_echo(struct sv_packet *p)
{
	if (p->proto != SV_PROTO_TCP || (p->tcp_flags & (SV_TCP_ACK | SV_TCP_SYN | SV_TCP_RST)) != SV_TCP_ACK ||
	    p->tcp_flags & SV_TCP_ECE)
		return;
	p->tcp_flags |= SV_TCP_ECE;
	p->dirty |= SV_DIRTY_FLAGS;
}

#endif
