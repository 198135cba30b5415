/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * HyGenICC on a network without a tunnel (section 3): a mark that is owed goes back as the reserved bit of an IPv4 header, or with others in
 * a packet of its own, as a count. Both are sums, not states: what the network loses of them is lost, and nothing more.
 *
 *  - TSO copies the bit into every packet of a segment. So a segment pays as many marks as it has packets, and has the bit only if so many
 *    are owed.
 *  - IPv6 has no such bit: its marks go back in packets of their own.
 *  - Feedback is authenticated by nothing. No more of it is believed than packets were sent that were not reported yet.
 *  - ECN has one field for guests and edges. As in the paper, everything that asks for marks leaves as ECT(0), and what arrives as CE is
 *    shown as Not-ECT. With SV_HYG_CARRY, ECT(1) stands for the guest's Not-ECT and ECT(0) for both of its others, and what arrives as CE is
 *    shown as the flow's last codepoint without a mark. A queue that takes ECT(1) for L4S must not be on the way then.
 */
#ifndef SV_HYGENICC_PLAIN_H
#define SV_HYGENICC_PLAIN_H

#include "flow.h"
#include "hygenicc.h"

/* The reserved bit, in the 16-bit word of an IPv4 header that has the fragment's offset, too. */
#define SV_PLAIN_BIT 0x8000u
#define SV_PLAIN_BIT_AT 6 /* where that word is */

/* Payload of a packet of feedback: a count of marks. With its Ethernet header such a packet has 36 bytes. */
#define SV_PLAIN_COUNT_LEN 2

/* The word of a header with or without the bit. */
SV_FN u16 sv_plain_word(u16 word, int bit)
{
	return (u16)((word & ~SV_PLAIN_BIT) | (bit ? SV_PLAIN_BIT : 0));
}

/* Marks that are owed. */
SV_FN u32 sv_plain_owes(const struct sv_hyg_pair *q)
{
	return (u16)(q->owed.count - q->owed.told);
}

/* A segment of so many packets leaves. Returns 1 if it has the bit, and so many marks are paid. */
SV_FN int sv_plain_pay(struct sv_hyg_pair *q, u32 packets, u64 now)
{
	if (!packets || sv_plain_owes(q) < packets)
		return 0;
	q->owed.told = (u16)(q->owed.told + packets);
	q->since = (u32)(now >> 10);
	return 1;
}

/* It did not leave, or the packet that was asked for cannot be: so many marks are owed again, as far as there is room. */
SV_FN void sv_plain_return(struct sv_hyg_pair *q, u32 marks)
{
	q->owed.told = (u16)(q->owed.told - sv_min32(marks, SV_OWED_MOST - sv_min32(sv_plain_owes(q), SV_OWED_MOST)));
}

/* All that is owed goes into a packet of its own. Returns how much that is. */
SV_FN u16 sv_plain_asks(struct sv_hyg_pair *q, u64 now)
{
	u16 owed = (u16)sv_plain_owes(q);

	q->owed.told = q->owed.count;
	q->since = (u32)(now >> 10);
	return owed;
}

/* What the network may do to the codepoint of a guest's packet that asks for marks. */
SV_FN u8 sv_plain_departs(const struct sv_hyg_conf *c, u8 ecn)
{
	if (ecn == SV_ECN_CE)
		return ecn; /* a router behind the guest: it counts, or the guest would be told nothing of it */
	return c->flags & SV_HYG_CARRY && ecn == SV_ECN_NOT_ECT ? SV_ECN_ECT1 : SV_ECN_ECT0;
}

/*
 * Counts a segment that leaves, which asks for marks if they will be heard of. Returns 1 if it has the bit.
 */
SV_FN int sv_plain_egress(struct sv_hyg *h, struct sv_packet *p, u64 now)
{
	u8 ecn;

	sv_hyg_egress(h, p, now);
	if (!h->pair)
		return 0;
	ecn = sv_plain_departs(h->conf, p->ecn);
	if (ecn != p->ecn) {
		p->ecn = ecn;
		p->dirty |= SV_DIRTY_ECN;
	}
	return p->family == 4 && sv_plain_pay(h->pair, sv_hyg_packets(p), now);
}

/* The peer tells of marks that are new. Forged ones cost at most what was sent. */
SV_FN void sv_plain_hear(struct sv_hyg *h, u32 marks, u64 now)
{
	if (h->pair)
		sv_hyg_learn(h, sv_min32(marks, h->pair->credit), now);
}

/* Does the packet that arrived count as marked? */
SV_FN int sv_plain_counts(const struct sv_packet *p)
{
	return p->ecn == SV_ECN_CE && p->proto != SV_HYG_PROTO;
}

/* Counts the marks of what arrives, before any stage takes them away. Every packet of a merged segment has the segment's codepoint. */
SV_FN void sv_plain_ingress(struct sv_hyg *h, const struct sv_packet *p, u64 now)
{
	if (h->pair && sv_plain_counts(p))
		sv_hyg_mark(h->pair, sv_hyg_packets(p), now);
}

#endif
