/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which received segments of a flow may go straight on, and which must take the way through whoever can hold them (He et
 * al., SIGCOMM 2015, section 3.2): a kernel program cannot hold packets. This file holds none either, and decides nothing
 * about when: it recognises the one case of Algorithm 2 in which a segment may have to wait, which is a gap in front of a
 * newer flowcell, and sees to it that the two ways do not overtake one another.
 *
 * Once a segment is diverted, all of the flow's go that way, those that fill the gap too, each with the next number. The
 * holder says up to which number all have come back, after they were handed on: when that is the last number given, the
 * flow returns to the direct way. Numbers that got lost are covered by any later one that came back, and a holder that
 * says nothing for a while, or is not there, is not waited for.
 */
#ifndef SV_DIVERT_H
#define SV_DIVERT_H

#include "arith.h"
#include "packet.h"

/* Times are in units of 2^20 ns, about a millisecond, mod 2^32. */
#define SV_DIVERT_CLOCK(ns) ((u32)((ns) >> 20))

/* So long, about 268 ms, a diverted flow waits for a word of the holder. */
#define SV_DIVERT_PATIENCE 256

/* Segments on the long way at once: with more, something is wrong, and further ones go straight on. */
#define SV_DIVERT_MAX 1024

/* sv_divert.flags */
#define SV_DIVERT_STARTED 0x1 /* exp and cell mean something */

/* Of a flow's incoming direction. */
struct sv_divert {
	u32 exp;     /* the next sequence number */
	u32 cell;    /* the newest flowcell of which anything came, except ahead of its turn */
	u32 since;   /* when the holder was last heard of, or the diversion began */
	u16 bounced; /* number of the segment diverted last, mod 2^16 */
	u16 drained; /* number up to which all are back; the same as `bounced`: the flow is not diverted */
	u8 flags;
	u8 pad[3];
};

SV_ASSERT_SIZE(struct sv_divert, 20);

/* What the holder is told with a segment. */
struct sv_place {
	u32 exp;    /* of the flow, before this segment */
	u32 cell;
	u16 number;
	u16 pad;
};

SV_ASSERT_SIZE(struct sv_place, 12);

/* Result bits */
#define SV_DIVERT_ASIDE 0x1
#define SV_DIVERT_FIRST 0x2 /* with it a diversion begins: the holder starts with `place` */
#define SV_DIVERT_AHEAD 0x4 /* it goes straight on although it may be ahead of its turn */

/* A late copy of the SYN belongs to the connection's beginning; another's is most likely further away, bytes. */
#define SV_DIVERT_SYN_WINDOW (1u << 24)

SV_FN u32 sv_divert_outstanding(const struct sv_divert *r)
{
	return (u16)(r->bounced - r->drained);
}

/* Another connection begins, or order is not followed from here on. What is diverted still may come late. */
SV_FN void sv_divert_restart(struct sv_divert *r)
{
	r->flags = 0;
	r->drained = r->bounced;
}

SV_FN void sv_divert_start(struct sv_divert *r, u32 exp, u32 cell)
{
	r->exp = exp;
	r->cell = cell;
	r->flags = SV_DIVERT_STARTED;
}

/* The flow has got as far as this. */
SV_FN void sv_divert_advance(struct sv_divert *r, const struct sv_packet *p, u32 end)
{
	if (p->has_cell && sv_seq_after(p->cell, r->cell))
		r->cell = p->cell;
	if (sv_seq_after(end, r->exp))
		r->exp = end;
}

SV_FN void sv_divert_syn(struct sv_divert *r, const struct sv_packet *p)
{
	u32 exp = p->seq + 1 + p->payload;

	if (r->flags & SV_DIVERT_STARTED && r->exp - exp < SV_DIVERT_SYN_WINDOW)
		return;
	sv_divert_restart(r);
	if (p->has_cell)
		sv_divert_start(r, exp, p->cell);
}

/*
 * A segment of the flow. `ready`: somebody holds what is diverted. Pure ACKs, SYNs and RSTs go straight on, as they do
 * past the holder. Returns SV_DIVERT_*, and with SV_DIVERT_ASIDE fills `place`. The caller holds the flow's lock.
 */
SV_FN u32 sv_divert_segment(struct sv_divert *r, const struct sv_packet *p, u32 now, int ready, struct sv_place *place)
{
	u8 urgent = p->tcp_flags & (SV_TCP_FIN | SV_TCP_URG);
	u32 end = p->seq + p->payload + !!(p->tcp_flags & SV_TCP_FIN), result = 0;
	u32 diverted = sv_divert_outstanding(r);
	s32 gap, newer;
	int ahead;

	if (p->proto != SV_PROTO_TCP)
		return 0;
	if (p->tcp_flags & SV_TCP_SYN) {
		sv_divert_syn(r, p);
		return 0;
	}
	if (end == p->seq || p->tcp_flags & SV_TCP_RST || p->truncated)
		return 0;
	if (diverted && (!ready || now - r->since > SV_DIVERT_PATIENCE)) {
		r->drained = r->bounced;
		diverted = 0;
	}
	if (!diverted && !p->has_cell) {
		r->flags = 0; /* nobody tells in which order they were sent */
		return 0;
	}
	if (!(r->flags & SV_DIVERT_STARTED))
		sv_divert_start(r, p->seq, p->cell);
	gap = sv_seq_diff(p->seq, r->exp);
	newer = p->has_cell ? sv_seq_diff(p->cell, r->cell) : 0;
	/* The holder lets FIN and URG pass: for their sake alone nothing is diverted. */
	ahead = gap > 0 && newer > 0 && !urgent;
	if ((diverted || (ahead && ready)) && diverted < SV_DIVERT_MAX) {
		place->exp = r->exp;
		place->cell = r->cell;
		r->bounced++;
		place->number = r->bounced;
		result = SV_DIVERT_ASIDE;
		if (!diverted) {
			r->since = now;
			result |= SV_DIVERT_FIRST;
		}
		sv_divert_advance(r, p, end);
		return result;
	}
	/* Within a flowcell, which took one path, a gap is loss. Beyond one, only what is not older tells what is to come. */
	if (ahead || gap <= 0 || newer == 0)
		sv_divert_advance(r, p, end);
	return ahead ? SV_DIVERT_AHEAD : 0;
}

/*
 * The holder says that all segments up to `number` are back; the same number again: that it is at work. Numbers that
 * were not given since the flow last went straight on are ignored. The caller holds the flow's lock.
 */
SV_FN void sv_divert_drained(struct sv_divert *r, u16 number, u32 now)
{
	if ((u16)(number - r->drained) > sv_divert_outstanding(r))
		return;
	r->drained = number;
	r->since = now;
}

#endif
