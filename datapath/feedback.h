/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Feedback of virtual congestion control (He 2017, section 3.3.2): the receiver's edge reports how many bytes came, and
 * how many of them marked, in an option of 8 bytes on pure ACKs (PACK) or in a packet of its own (FACK). Both counters are
 * cumulative, so that losing or reordering reports loses nothing.
 */
#ifndef SV_FEEDBACK_H
#define SV_FEEDBACK_H

#include "conntrack.h"

SV_FN u32 sv_vcc_get24(const u8 *b)
{
	return (u32)b[0] << 16 | (u32)b[1] << 8 | b[2];
}

SV_FN void sv_vcc_put24(u8 *b, u32 v)
{
	b[0] = (u8)(v >> 16);
	b[1] = (u8)(v >> 8);
	b[2] = (u8)v;
}

/*
 * Take in a report of the peer. Reports are cumulative, so losing some loses nothing; one that goes back by less than
 * half the range came late. Returns the bytes newly reported as marked. No report makes more marks than bytes.
 */
SV_FN u32 sv_vcc_absorb(struct sv_vcc *v, const struct sv_packet *p)
{
	u32 total = sv_vcc_get24(p->pack_total), ce = sv_vcc_get24(p->pack_ce);
	u32 new_total = (total - v->fb_total) & 0xffffff, new_ce = (ce - v->fb_ce) & 0xffffff;

	if (!(v->flags & SV_VCC_FED) || v->stale >= SV_VCC_STALE_LIMIT) {
		/* The counters of a connection seen from its beginning start at zero with it. */
		int from_zero = !(v->flags & SV_VCC_FED) && sv_vcc_knows_scale(v);

		v->flags |= SV_VCC_FED;
		v->stale = 0;
		if (!from_zero) {
			v->fb_total = total;
			v->fb_ce = ce;
			return 0;
		}
	}
	if (new_total >= 1u << 23 || new_ce > new_total) {
		v->stale++;
		return 0;
	}
	v->stale = 0;
	v->fb_total = total;
	v->fb_ce = ce;
	v->sum_total = sv_add_sat32(v->sum_total, new_total);
	v->sum_ce = sv_add_sat32(v->sum_ce, new_ce);
	v->marked += new_ce;
	return new_ce;
}

/* Take the option out of the packet. What was announced and is not there stays: it may be anything. */
SV_FN void sv_vcc_take_option(struct sv_packet *p)
{
	if (p->pack == SV_PACK_OK && p->l4_header_len >= SV_VCC_PACK_LEN) {
		p->l4_header_len -= SV_VCC_PACK_LEN;
		p->dirty |= SV_DIRTY_OPTION;
	}
	p->pack = SV_PACK_NONE;
}

/* Is this nothing but a report? */
SV_FN int sv_vcc_is_fack(const struct sv_packet *p)
{
	u8 both = SV_RESERVED_EDGE | SV_RESERVED_PACK;

	return (p->tcp_reserved & both) == both && !(p->tcp_flags & (SV_TCP_ACK | SV_TCP_SYN | SV_TCP_FIN | SV_TCP_RST));
}

/* Add what was received to an outgoing ACK, or ask for a packet of its own. */
SV_FN void sv_vcc_report(struct sv_vcc *v, struct sv_packet *p)
{
	u32 total = v->rcv_total - v->told_total, ce = v->rcv_ce - v->told_ce;
	int pure = !p->payload;

	if (!(v->flags & SV_VCC_AWARE) || !total || !(p->tcp_flags & SV_TCP_ACK) ||
	    p->tcp_flags & (SV_TCP_SYN | SV_TCP_RST))
		return;
	if (!pure && !ce && total < 2u * v->mss)
		return;
	sv_vcc_put24(p->pack_total, v->rcv_total);
	sv_vcc_put24(p->pack_ce, v->rcv_ce);
	v->told_total = v->rcv_total;
	v->told_ce = v->rcv_ce;
	if (pure && p->l4_header_len + SV_VCC_PACK_LEN <= SV_VCC_MAX_HEADER) {
		p->pack = SV_PACK_OK;
		p->tcp_reserved |= SV_RESERVED_PACK;
		p->l4_header_len += SV_VCC_PACK_LEN;
		p->dirty |= SV_DIRTY_OPTION | SV_DIRTY_FLAGS;
	} else {
		p->emit |= SV_EMIT_FACK;
	}
}

/* The feedback packet that goes out before `p`, whose option did not fit. */
SV_FN void sv_vcc_fack(const struct sv_packet *p, struct sv_packet *fack)
{
	*fack = *p;
	fack->payload = 0;
	fack->segment_size = 0;
	fack->emit = 0;
	fack->dirty = 0;
	fack->tcp_flags = 0; /* no TCP would take it, should it ever get past the edge */
	fack->tcp_reserved |= SV_RESERVED_EDGE | SV_RESERVED_PACK;
	fack->pack = SV_PACK_OK;
	fack->l4_header_len = 20 + SV_VCC_PACK_LEN;
}

#endif
