/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Feedback of virtual congestion control (He 2017, section 3.3.2): the receiver's edge reports how many bytes came, and
 * how many of them marked, on pure ACKs (PACK) or in a packet of its own (FACK): in an option of 8 bytes, or in the shim between edges
 * that speak version 2. Both counters are cumulative, so that losing or reordering reports loses nothing.
 */
#ifndef SV_FEEDBACK_H
#define SV_FEEDBACK_H

#include "conntrack.h"

#define SV_PACK_LEN 8		/* bytes of the option */
#define SV_TCP_MAX_HEADER 60	/* bytes that a TCP header can have */
#define SV_REPORT_STALE_LIMIT 16 /* reports in a row that contradict the last one: the peer began anew */

/* sv_report.flags */
#define SV_REPORT_AWARE 0x01 /* the peer's edge does AC/DC */
#define SV_REPORT_PLAIN 0x02 /* it does not; neither: not known yet */
#define SV_REPORT_FED 0x04   /* fb_total, fb_ce: from here on differences count */

/* What one connection received and owes a report of, and what its peer reported. */
struct sv_report {
	u32 rcv_total;	/* payload bytes, mod 2^32 */
	u32 rcv_ce;	/* those in marked packets */
	u32 told_total; /* as last reported */
	u32 told_ce;
	u32 fb_total;	/* the peer's last report, mod 2^24 */
	u32 fb_ce;
	u32 marked;	/* for people: payload bytes that the peer reported as marked, mod 2^32 */
	u8 flags;	/* SV_REPORT_* */
	u8 stale;
	u8 pad[2];
};

SV_ASSERT_SIZE(struct sv_report, 32);

/* Count what arrives for the guest. */
SV_FN void sv_report_received(struct sv_report *r, const struct sv_packet *p)
{
	if (p->tcp_flags & SV_TCP_RST)
		return;
	r->rcv_total += p->payload;
	if (p->marked)
		r->rcv_ce += p->payload;
}

SV_FN u32 sv_get24(const u8 *b)
{
	return (u32)b[0] << 16 | (u32)b[1] << 8 | b[2];
}

SV_FN void sv_put24(u8 *b, u32 v)
{
	b[0] = (u8)(v >> 16);
	b[1] = (u8)(v >> 8);
	b[2] = (u8)v;
}

/*
 * Take in a report of the peer. Reports are cumulative, so losing some loses nothing; one that goes back by less than
 * half the range came late. `from_zero`: the connection was seen from its beginning, with which the counters start. Returns the
 * bytes newly reported as marked, and in `total` all that were. No report makes more marks than bytes.
 */
SV_FN u32 sv_report_absorb(struct sv_report *r, int from_zero, const struct sv_packet *p, u32 *total)
{
	u32 sum = sv_get24(p->pack_total), ce = sv_get24(p->pack_ce);
	u32 new_total = (sum - r->fb_total) & 0xffffff, new_ce = (ce - r->fb_ce) & 0xffffff;

	if (!(r->flags & SV_REPORT_FED) || r->stale >= SV_REPORT_STALE_LIMIT) {
		from_zero = from_zero && !(r->flags & SV_REPORT_FED);
		r->flags |= SV_REPORT_FED;
		r->stale = 0;
		if (!from_zero) {
			r->fb_total = sum;
			r->fb_ce = ce;
			return 0;
		}
	}
	if (new_total >= 1u << 23 || new_ce > new_total) {
		r->stale++;
		return 0;
	}
	r->stale = 0;
	r->fb_total = sum;
	r->fb_ce = ce;
	r->marked += new_ce;
	*total = new_total;
	return new_ce;
}

/* Does it carry a report? */
SV_FN int sv_report_is_in(const struct sv_packet *p)
{
	return p->pack == SV_PACK_OK || p->pack == SV_PACK_SHIM;
}

/* Take the option out of the packet. What was announced and is not there stays: it may be anything. */
SV_FN void sv_report_take_option(struct sv_packet *p)
{
	if (p->pack == SV_PACK_OK && p->l4_header_len >= SV_PACK_LEN) {
		p->l4_header_len -= SV_PACK_LEN;
		p->dirty |= SV_DIRTY_OPTION;
	}
	p->pack = SV_PACK_NONE;
}

/* Is this nothing but a report? */
SV_FN int sv_report_is_fack(const struct sv_packet *p)
{
	int reports = p->tcp_reserved & SV_RESERVED_PACK || p->pack == SV_PACK_SHIM;

	return p->tcp_reserved & SV_RESERVED_EDGE && reports && !(p->tcp_flags & (SV_TCP_ACK | SV_TCP_SYN | SV_TCP_FIN | SV_TCP_RST));
}

/* Add what was received to an outgoing ACK, or ask for a packet of its own. `mss` in bytes. */
SV_FN void sv_report_send(struct sv_report *r, u32 mss, struct sv_packet *p)
{
	u32 total = r->rcv_total - r->told_total, ce = r->rcv_ce - r->told_ce;
	int pure = !p->payload;

	if (!(r->flags & SV_REPORT_AWARE) || !total || !(p->tcp_flags & SV_TCP_ACK) ||
	    p->tcp_flags & (SV_TCP_SYN | SV_TCP_RST))
		return;
	if (!pure && !ce && total < 2u * mss)
		return;
	sv_put24(p->pack_total, r->rcv_total);
	sv_put24(p->pack_ce, r->rcv_ce);
	r->told_total = r->rcv_total;
	r->told_ce = r->rcv_ce;
	if (pure && p->wire == SV_WIRE_2) {
		p->pack = SV_PACK_SHIM;
	} else if (pure && p->l4_header_len + SV_PACK_LEN <= SV_TCP_MAX_HEADER) {
		p->pack = SV_PACK_OK;
		p->tcp_reserved |= SV_RESERVED_PACK;
		p->l4_header_len += SV_PACK_LEN;
		p->dirty |= SV_DIRTY_OPTION | SV_DIRTY_FLAGS;
	} else {
		p->emit |= SV_EMIT_FACK;
	}
}

/* The feedback packet that goes out before `p`, whose option did not fit. */
SV_FN void sv_report_fack(const struct sv_packet *p, struct sv_packet *fack)
{
	*fack = *p;
	fack->payload = 0;
	fack->segment_size = 0;
	fack->emit = 0;
	fack->dirty = 0;
	fack->tcp_flags = 0; /* no TCP would take it, should it ever get past the edge */
	fack->tcp_reserved |= SV_RESERVED_EDGE;
	fack->pack = p->wire == SV_WIRE_2 ? SV_PACK_SHIM : SV_PACK_OK;
	fack->l4_header_len = 20;
	if (fack->pack == SV_PACK_OK) {
		fack->tcp_reserved |= SV_RESERVED_PACK;
		fack->l4_header_len += SV_PACK_LEN;
	}
}

#endif
