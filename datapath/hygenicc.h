/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * HyGenICC (Abdelmoniem and Bensaou, HKUST-CS15-03): fair shares among guests by feedback between edges, whatever their transport.
 * Each guest has a bucket on its host's uplink. The marks that its packets meet are counted by the receiver's edge for the pair of
 * guests, come back as a count (owed.h), and set the rate of the bucket. Nothing here reads a transport header.
 *
 * Where the text is silent or wrong:
 *  - The bucket is refilled once for each segment, whichever pair it is of: Algorithm 1 adds tokens per flow.
 *  - Feedback is summed up for the bucket and begins anew with each interval; Algorithm 1 resets it in a branch that is never taken.
 *  - Rates stay between a minimum and the fair rate: at 0 a guest would never hear again.
 *  - A guest that begins has its fair rate at once, not after the next interval.
 *  - The mean of alpha is over the pairs that sent in the interval, each as of its last one.
 *  - Sizes are those of Ethernet frames with preamble and gap, so that fair rates add up to the link.
 */
#ifndef SV_HYGENICC_H
#define SV_HYGENICC_H

#include "arith.h"
#include "ecn.h"
#include "flow.h"
#include "hygenicc_rate.h"
#include "owed.h"
#include "packet.h"

#define SV_HYG_PROTO 253	    /* of a packet that is nothing but feedback (RFC 3692) */

/* A guest of this host and one elsewhere. With its key of two addresses it has 64 bytes. Zero is a valid start. */
struct sv_hyg_pair {
	struct sv_hyg_part part;
	struct sv_owed_marks owed; /* of what came */
	struct sv_told told;	   /* of what was sent */
	u16 credit;		   /* packets that were sent and not reported as marked, at most SV_HYG_MAX_CREDIT */
	u8 introduced;		   /* the peer was told where the count of `owed` begins */
	u8 asked;		   /* somebody was asked to tell the count, so often, and nothing was counted since */
	u32 since;		   /* when marks were owed first that are not told yet, units of 1024 ns */
};

SV_ASSERT_SIZE(struct sv_hyg_pair, 32);

#define SV_HYG_MAX_CREDIT 8192u /* well within SV_OWED_MOST: more at once is a restart */
#define SV_HYG_MAX_ASKS 3u	/* times that the count of a pair is asked for in which nothing is counted any more */
#define SV_HYG_MAX_DEBT 4096u	/* marks that wait for no packet to go with: the peer still has credit for as many again */

/* What the stages may use for one packet. */
struct sv_hyg {
	const struct sv_hyg_conf *conf;
	struct sv_hyg_uplink *uplink;
	struct sv_hyg_bucket *bucket; /* NULL: the host has no such guest */
	struct sv_hyg_pair *pair;     /* NULL: there was no room */
	struct sv_hyg_part *to;	      /* all that goes to that guest; NULL: not wanted */
	u64 at;			      /* out, sv_hyg_hold: when the segment may leave, ns */
};

/*
 * What stands for a guest's own address in the key of its pairs. With a seed, or a guest could choose addresses that share their counts, and
 * hide the marks of one behind those of the other.
 */
SV_FN u32 sv_hyg_own(u64 seed, const u32 *own)
{
	u64 hash = sv_hash_step(0x9e3779b97f4a7c15ULL, seed);

	hash = sv_hash_step(hash, (u64)own[0] << 32 | own[1]);
	hash = sv_hash_step(hash, (u64)own[2] << 32 | own[3]);
	return (u32)(hash >> 32);
}

/* Packets that a segment becomes. */
SV_FN u32 sv_hyg_packets(const struct sv_packet *p)
{
	return p->segment_size && p->payload > p->segment_size ? (p->payload - 1) / p->segment_size + 1 : 1;
}

/* Bytes that they take on the wire. */
SV_FN u64 sv_hyg_bytes(const struct sv_packet *p)
{
	return p->payload + (u64)sv_hyg_packets(p) * (SV_HYG_FRAMING + p->ip_header_len + p->l4_header_len);
}

/* A packet that is nothing but feedback: no guest gets it, and none has sent it. */
SV_FN int sv_hyg_is_feedback(const struct sv_packet *p)
{
	return p->proto == SV_HYG_PROTO && !p->payload && p->feedback == SV_FEEDBACK_MARKS;
}

/*
 * Section 3.1: holds what the guest sends to its rate. Returns 0 if a segment of so many bytes on the wire must be dropped, as in the
 * text, or wait until h->at and be tried again, for all rates may change. Then what is owed stays owed.
 */
SV_FN int sv_hyg_hold(struct sv_hyg *h, u64 bytes, u64 now)
{
	h->at = now;
	if (!h->bucket)
		return 1;
	sv_hyg_touch(h->bucket, h->uplink, h->conf, now);
	return sv_hyg_take(h->bucket, h->conf, bytes, now, &h->at);
}

/* Counts a segment that leaves. Asks for ECT where marks will be heard of. */
SV_FN void sv_hyg_egress(struct sv_hyg *h, struct sv_packet *p, u64 now)
{
	u32 tick = sv_hyg_interval(h->conf, now), n = sv_hyg_packets(p);

	if (h->to)
		sv_hyg_sends(h->to, h->conf, tick, n);
	if (!h->pair)
		return;
	if (sv_hyg_sends(&h->pair->part, h->conf, tick, n) && h->bucket) {
		h->bucket->alpha_sum += h->pair->part.alpha;
		h->bucket->alphas++;
	}
	h->pair->credit = (u16)sv_min32(sv_add_sat32(h->pair->credit, n), SV_HYG_MAX_CREDIT);
	if (p->wire == SV_WIRE_2)
		sv_ecn_ask(p);
}

/* A segment that was counted does not leave, but what becomes of it does, and is counted then. */
SV_FN void sv_hyg_uncount(struct sv_hyg *h, const struct sv_packet *p)
{
	u32 n = sv_hyg_packets(p);

	if (h->to)
		h->to->sent = sv_max32(h->to->sent, n) - n;
	if (!h->pair)
		return;
	h->pair->part.sent = sv_max32(h->pair->part.sent, n) - n;
	h->pair->credit = (u16)(sv_max32(h->pair->credit, n) - n);
	/* The next one is the first of the interval again. */
	if (!h->pair->part.sent && h->bucket && h->bucket->alphas && h->bucket->alpha_sum >= h->pair->part.alpha) {
		h->bucket->alphas--;
		h->bucket->alpha_sum -= h->pair->part.alpha;
	}
}

/* So many more packets of the pair were marked; at most its credit. */
SV_FN void sv_hyg_learn(struct sv_hyg *h, u32 fresh, u64 now)
{
	if (!fresh)
		return;
	h->pair->credit = (u16)(h->pair->credit - fresh);
	h->pair->part.marks = sv_add_sat32(h->pair->part.marks, fresh);
	if (h->to)
		h->to->marks = sv_add_sat32(h->to->marks, fresh);
	if (h->bucket) {
		h->bucket->marks = sv_add_sat32(h->bucket->marks, fresh);
		h->bucket->heard = now;
	}
}

/* The peer tells how many packets of the pair were marked so far. */
SV_FN void sv_hyg_hear(struct sv_hyg *h, u16 count, u64 now)
{
	u32 fresh;

	if (!h->pair)
		return;
	fresh = sv_told_new(&h->pair->told, count, h->pair->credit, now);
	sv_hyg_learn(h, fresh, now);
}

/* Does the packet that arrived count as marked? */
SV_FN int sv_hyg_counts(const struct sv_packet *p)
{
	return !sv_hyg_is_feedback(p) && sv_ecn_path_marked(p);
}

/* So many packets of the pair arrived marked. */
SV_FN void sv_hyg_mark(struct sv_hyg_pair *q, u32 packets, u64 now)
{
	if (q->owed.count == q->owed.told || q->asked)
		q->since = (u32)(now >> 10);
	q->asked = 0;
	sv_owed_count(&q->owed, packets);
}

/* Section 3.2: counts the marks of what arrives. Returns 1 if the packet was feedback and goes no further. */
SV_FN int sv_hyg_ingress(struct sv_hyg *h, const struct sv_packet *p, u64 now)
{
	if (sv_hyg_is_feedback(p))
		return 1;
	if (h->pair && sv_hyg_counts(p))
		sv_hyg_mark(h->pair, sv_hyg_packets(p), now);
	return 0;
}

/*
 * Fills the place for feedback of a packet of the pair, see sv_owed_pay. The first count that a peer hears of is where the count begins:
 * 0, so that it takes none of the marks for the beginning.
 */
SV_FN void sv_hyg_pay(struct sv_relay *r, struct sv_hyg_pair *q, u32 least, u32 stamps, u32 tick, struct sv_packet *p)
{
	struct sv_owed_marks begins = { .count = 0, .told = 1 };

	if (!q || q->introduced) {
		sv_owed_pay(r, q ? &q->owed : 0, least, stamps, tick, p);
		return;
	}
	sv_owed_pay(r, &begins, least, stamps, tick, p);
	q->introduced = begins.told == begins.count;
}

/* Have marks waited so long for a packet to go with, or are they so many, that they get one of their own? */
SV_FN int sv_hyg_overdue(const struct sv_hyg_pair *q, const struct sv_hyg_conf *c, u64 now)
{
	u32 debt = (u16)(q->owed.count - q->owed.told);

	return debt && !q->asked && (debt >= SV_HYG_MAX_DEBT || sv_seq_diff((u32)(now >> 10), q->since) >= (s32)(c->patience >> 10));
}

/*
 * The count that somebody is asked to tell in a packet of its own. Nobody may do so, or it may be lost: the next packet of the pair tells
 * the count, too.
 */
SV_FN u16 sv_hyg_asks(struct sv_hyg_pair *q)
{
	q->introduced = 1;
	q->asked++;
	q->owed.told = (u16)(q->owed.count - 1);
	return q->owed.count;
}

/*
 * The same of a pair that has fallen silent. What was asked for may not have been told: without a tunnel nobody would know, and with one it is
 * asked for a few times.
 */
SV_FN int sv_hyg_lapses(const struct sv_hyg_pair *q, const struct sv_hyg_conf *c, u64 now)
{
	return q->owed.count != q->owed.told && q->asked < SV_HYG_MAX_ASKS && sv_seq_diff((u32)(now >> 10), q->since) >= (s32)(c->patience >> 10);
}

/* Is a new pair with a destination refused (section 2)? `refusing` was said before: it goes on until the destination is well. */
SV_FN int sv_hyg_refuses(const struct sv_hyg_part *to, const struct sv_hyg_conf *c, int refusing, u64 now)
{
	struct sv_hyg_part today = *to;

	if (!c->refuse)
		return 0;
	sv_hyg_roll(&today, c, sv_hyg_interval(c, now));
	return today.alpha >= (refusing ? c->admit : c->refuse);
}

#endif
