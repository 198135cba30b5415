/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * FastLane for guests that know nothing of it (Zats et al. 2013): what the edge does about the notification of a packet that a switch
 * has dropped. The caller keeps copies of what its guests have outstanding and looks them up; this file decides.
 *
 *  - A notification must name outstanding bytes of a followed connection, and its ACK must be one that the guest may have sent.
 *  - The edge counts the copies of a packet that have left, its own and the guest's. This count is the packet's epoch: a notification
 *    tells of the oldest copy not yet reported. As long as a later copy may arrive, nothing is resent.
 *  - The edge resends a packet once. It resends it again only if that copy was reported too, and n round trips after its n-th copy left:
 *    as the paper's senders, it goes the slower the more often the network refuses.
 *  - Where the guest repairs the loss by itself, as after three duplicate ACKs, the edge does nothing. Where a guest without SACK has
 *    got one duplicate ACK or two, it gets three more: the receiver holds something above the hole, so they are true. A guest with SACK
 *    gets none: it counts blocks, and the edge knows of no block that the guest does not know.
 *  - A drop counts as a loss: the guest's window is bounded to half of what was outstanding, once a window. The bound grows by a
 *    segment a round trip and ends where it was before.
 *  - A guest's retransmission of what the edge has just resent goes no further.
 *
 * The state is that of one connection. It comes after all stages of edge.h, and needs none of them.
 */
#ifndef SV_FASTLANE_H
#define SV_FASTLANE_H

#include "arith.h"
#include "bound.h"
#include "conntrack.h"
#include "reno.h"

#define SV_FASTLANE_RTT_NS 1000000u	 /* while no round trip was measured */
#ifndef SV_FASTLANE_LEAST_RTT_NS	 /* who sends later than that may say so before */
#define SV_FASTLANE_LEAST_RTT_NS 10000u
#endif
#define SV_FASTLANE_MAX_BEHIND (1u << 24) /* bytes: a dropped packet's ACK is no older */
#define SV_FASTLANE_ASK_RTTS 4		 /* a reported packet is asked about again for so many round trips, */
#define SV_FASTLANE_ASK_NS 10000000u	 /* at least so long: who asks may wait for a processor; */
#define SV_FASTLANE_ASK_EVERY_NS 500000u /* no oftener */
#define SV_FASTLANE_TELLS 4		 /* segments outstanding for which duplicate ACKs do (RFC 5681 section 3.2) */

/* What to do about a notification. */
#define SV_FASTLANE_RESEND 1	/* send the packet again, now */
#define SV_FASTLANE_TELL 2	/* give the guest SV_CONN_DUPACKS copies of sv_fastlane_ack */
#define SV_FASTLANE_LEAVE 3	/* the guest repairs it */
#define SV_FASTLANE_LATER 4	/* call sv_fastlane_due at sv_fastlane_due_at */
/* Nothing, because */
#define SV_FASTLANE_UNTRACKED 5 /* the connection's numbers are unknown */
#define SV_FASTLANE_EMPTY 6	/* the packet has neither data nor SYN nor FIN */
#define SV_FASTLANE_ACKED 7	/* the bytes have arrived */
#define SV_FASTLANE_OUTSIDE 8	/* no packet of the connection is like this */
#define SV_FASTLANE_STALE 9	/* a later copy is under way */
#define SV_FASTLANE_REPEATED 10 /* all copies were reported before */
#define SV_FASTLANE_UNKEPT 11	/* the edge has no copy */

/* sv_fastlane.flags */
#define SV_FASTLANE_CUT 0x1  /* cut_end means something */
#define SV_FASTLANE_SACK 0x2 /* a duplicate ACK had a block */
#define SV_FASTLANE_TOLD 0x4 /* duplicate ACKs were made for the present snd_una */

struct sv_fastlane {
	struct sv_conn conn;
	struct sv_bound bound; /* its window: in `spring` */
	u32 cut_end;	       /* no cut before more than this is acknowledged */
	u32 before;	       /* bytes: the window before the cut */
	u32 rest;	       /* of reno.h */
	u32 flags;	       /* SV_FASTLANE_* */
};

SV_ASSERT_SIZE(struct sv_fastlane, 104);

/* sv_fastlane_copy.waits */
#define SV_FASTLANE_WAITS_TIME 1 /* sv_fastlane_due is to be called */
#define SV_FASTLANE_WAITS_ACK 2	 /* sv_fastlane_reported is to be called again */

/* The copies of one packet of the guest that have left. */
struct sv_fastlane_copy {
	u64 sent;    /* ns: when the edge sent the latest of its own */
	u32 seq;
	u32 end;     /* the number after it */
	u16 copies;  /* all that have left */
	u16 dropped; /* those that were reported */
	u16 own;     /* those of the edge; `sent` means something unless it is 0 */
	u16 waits;   /* SV_FASTLANE_WAITS_* */
};

SV_ASSERT_SIZE(struct sv_fastlane_copy, 24);

/* What following a segment found; bits. */
#define SV_FASTLANE_ANEW 0x1	/* another connection under the same key: no copy means anything */
#define SV_FASTLANE_BEYOND 0x2	/* the guest's segment has numbers that were not sent before */

/* The round trip in which a packet is resent once, ns. */
SV_FN u64 sv_fastlane_rtt(const struct sv_fastlane *f)
{
	return f->conn.srtt ? sv_max32(f->conn.srtt, SV_FASTLANE_LEAST_RTT_NS) : SV_FASTLANE_RTT_NS;
}

/* From when on the edge may send a packet again that it has sent before, ns. */
SV_FN u64 sv_fastlane_due_at(const struct sv_fastlane *f, const struct sv_fastlane_copy *c)
{
	return c->sent + sv_fastlane_rtt(f) * c->own;
}

SV_FN void sv_fastlane_clear(struct sv_fastlane *f)
{
	struct sv_bound none = {0};

	f->bound = none;
	f->cut_end = 0;
	f->before = 0;
	f->rest = 0;
	f->flags = 0;
}

/* Follow a segment from the guest. Returns what was found. */
SV_FN u32 sv_fastlane_out(struct sv_fastlane *f, struct sv_packet *p, u64 now)
{
	struct sv_conn *t = &f->conn;
	u32 before, found = 0;
	int fresh;

	if (!(t->flags & SV_CONN_BEGUN)) {
		sv_conn_begin(t);
		sv_fastlane_clear(f);
	}
	fresh = !(t->flags & SV_CONN_SND);
	before = t->snd_nxt;
	if (sv_conn_out(t, 0, p, now) & SV_CONN_ANEW) {
		sv_fastlane_clear(f);
		found = SV_FASTLANE_ANEW;
	}
	if (fresh || found || sv_seq_after(t->snd_nxt, before))
		found |= SV_FASTLANE_BEYOND;
	sv_conn_renumber(t, p);
	/* The handshake tells the round trip before any data does. */
	if (p->tcp_flags & SV_TCP_SYN && p->seq == t->iss) {
		t->flags = (u16)(found ? t->flags | SV_CONN_RTT : t->flags & ~SV_CONN_RTT);
		t->rtt_seq = t->iss + 1;
		t->rtt_start = now;
	}
	return found;
}

/* Does an ACK's header have a SACK block? Besides timestamps there is no other option on the ACKs of an established connection. */
SV_FN int sv_fastlane_has_block(const struct sv_conn *t, const struct sv_packet *p)
{
	return p->l4_header_len >= (t->flags & SV_CONN_TIMESTAMPS ? 44 : 32);
}

/* The bound grows with what is acknowledged. */
SV_FN void sv_fastlane_grow(struct sv_fastlane *f, u32 acked)
{
	if (!f->bound.spring || !acked)
		return;
	sv_reno_avoid(&f->bound.spring, &f->rest, f->conn.mss, acked);
	if (f->bound.spring >= f->before)
		f->bound.spring = 0;
}

/* Follow a segment for the guest, and lower its window. Returns what was found. */
SV_FN u32 sv_fastlane_in(struct sv_fastlane *f, struct sv_packet *p, u64 now)
{
	struct sv_conn *t = &f->conn;
	u32 acked, found = 0, changed = 0;
	u8 duplicates = t->dupacks;
	int lost = 0;

	if (!(t->flags & SV_CONN_BEGUN)) {
		sv_conn_begin(t);
		sv_fastlane_clear(f);
	}
	if (sv_conn_in(t, p, now) & SV_CONN_ANEW) {
		sv_fastlane_clear(f);
		found = SV_FASTLANE_ANEW;
	}
	if (!(p->tcp_flags & SV_TCP_ACK) || p->tcp_flags & SV_TCP_RST)
		return found;
	acked = sv_conn_ack(t, p, now, &changed, &lost);
	sv_conn_round(t);
	if (acked)
		f->flags &= ~(u32)SV_FASTLANE_TOLD;
	if (sv_bound_repeats(t, duplicates) && sv_fastlane_has_block(t, p))
		f->flags |= SV_FASTLANE_SACK;
	sv_fastlane_grow(f, acked);
	if (sv_conn_knows_scale(t))
		sv_bound_enforce(&f->bound, t, SV_BOUND_NONE, 2u * t->mss, sv_bound_repeats(t, duplicates), 0, p);
	return found;
}

/* Can a packet of this connection be meant, and is it outstanding? Returns 0, or SV_FASTLANE_*. */
SV_FN u32 sv_fastlane_refuses(const struct sv_fastlane *f, const struct sv_packet *p)
{
	const struct sv_conn *t = &f->conn;
	u32 end = sv_conn_end(p), behind = t->rcv_nxt - p->ack;

	if (!(t->flags & SV_CONN_SND))
		return SV_FASTLANE_UNTRACKED;
	if (end == p->seq || p->tcp_flags & SV_TCP_RST)
		return SV_FASTLANE_EMPTY;
	if (p->payload > 0xffff || sv_seq_diff(t->snd_una, p->seq) > (s32)SV_CONN_MAX_FLIGHT)
		return SV_FASTLANE_OUTSIDE;
	if (sv_seq_diff(p->seq, t->snd_una) < 0)
		return SV_FASTLANE_ACKED;
	if (sv_seq_after(end, t->snd_nxt))
		return SV_FASTLANE_OUTSIDE;
	if (p->tcp_flags & SV_TCP_ACK && t->flags & SV_CONN_RCV && behind > SV_FASTLANE_MAX_BEHIND)
		return SV_FASTLANE_OUTSIDE;
	return 0;
}

/* The loss halves the window, once in each. */
SV_FN void sv_fastlane_cut(struct sv_fastlane *f)
{
	struct sv_conn *t = &f->conn;
	u32 window = sv_max32(sv_conn_used(t), t->snd_nxt - t->snd_una);

	if (f->flags & SV_FASTLANE_CUT && !sv_seq_after(t->snd_una, f->cut_end))
		return;
	if (f->bound.spring)
		window = sv_min32(window, f->bound.spring);
	else
		f->before = window;
	f->bound.spring = sv_max32(sv_reno_cut(window), 2u * t->mss); /* RFC 5681, equation 4 */
	f->rest = 0;
	f->cut_end = t->snd_nxt;
	f->flags |= SV_FASTLANE_CUT;
}

SV_FN u32 sv_fastlane_resend(struct sv_fastlane_copy *c, u64 now)
{
	c->copies++;
	c->own++;
	c->waits = 0;
	c->sent = now;
	return SV_FASTLANE_RESEND;
}

/* Does the guest repair it, by itself or if it is told? SV_FASTLANE_*, or 0. It is told of the first hole only: it has no word for others. */
SV_FN u32 sv_fastlane_repairs(struct sv_fastlane *f, const struct sv_fastlane_copy *c)
{
	struct sv_conn *t = &f->conn;

	if (c->seq != t->snd_una || c->copies != 1 || !sv_conn_knows_scale(t))
		return 0;
	if (t->dupacks >= SV_CONN_DUPACKS || f->flags & SV_FASTLANE_TOLD)
		return SV_FASTLANE_LEAVE;
	if (!t->dupacks || f->flags & SV_FASTLANE_SACK || t->snd_nxt - t->snd_una < SV_FASTLANE_TELLS * (u32)t->mss)
		return 0;
	f->flags |= SV_FASTLANE_TOLD;
	return SV_FASTLANE_TELL;
}

SV_FN u32 sv_fastlane_act(struct sv_fastlane *f, struct sv_fastlane_copy *c, u64 now)
{
	u32 repairs = sv_fastlane_repairs(f, c);

	return repairs ? repairs : sv_fastlane_resend(c, now);
}

/* What was dropped at `dropped` ns is not the newest copy: that has left later. */
SV_FN int sv_fastlane_precedes(const struct sv_fastlane_copy *c, u64 dropped)
{
	return c->own && dropped && dropped < c->sent;
}

/*
 * A notification of the packet of which `c` tells; NULL: the edge has no copy. `p` has the dropped packet's own numbers and flags.
 * `dropped`: when it was, ns; 0: nobody knows. Returns SV_FASTLANE_*.
 */
SV_FN u32 sv_fastlane_notified(struct sv_fastlane *f, struct sv_fastlane_copy *c, const struct sv_packet *p, u64 dropped, u64 now)
{
	u32 refused = sv_fastlane_refuses(f, p);

	if (refused)
		return refused;
	if (!c)
		return SV_FASTLANE_UNKEPT;
	if (c->dropped >= c->copies || (c->dropped + 1 == c->copies && sv_fastlane_precedes(c, dropped)))
		return SV_FASTLANE_REPEATED;
	c->dropped++;
	if (c->dropped < c->copies || c->copies == 0xffff)
		return SV_FASTLANE_STALE;
	if (p->payload)
		sv_fastlane_cut(f);
	if (c->own && now < sv_fastlane_due_at(f, c)) {
		c->waits = SV_FASTLANE_WAITS_TIME;
		return SV_FASTLANE_LATER;
	}
	return sv_fastlane_act(f, c, now);
}

/* How long a packet that was reported is asked about. */
SV_FN u64 sv_fastlane_ask_ns(const struct sv_fastlane *f)
{
	u64 rtts = sv_fastlane_rtt(f) * SV_FASTLANE_ASK_RTTS;

	return rtts > SV_FASTLANE_ASK_NS ? rtts : SV_FASTLANE_ASK_NS;
}

/* May the guest repair it yet, once an ACK comes that is under way? */
SV_FN int sv_fastlane_may_repair(const struct sv_fastlane *f, const struct sv_fastlane_copy *c)
{
	const struct sv_conn *t = &f->conn;

	if (c->copies != 1 || !sv_conn_knows_scale(t) || f->flags & SV_FASTLANE_SACK)
		return 0;
	return c->seq != t->snd_una || !t->dupacks;
}

/*
 * The same of a packet whose copies are counted, but of which nobody has the bytes: the guest can be told, and no more. A switch tells of a
 * drop before the duplicate ACK comes without which the guest cannot be told: so the answer may be SV_FASTLANE_LATER, for
 * sv_fastlane_ask_ns at most. Then the caller asks again at sv_fastlane_ask_at. The window is left alone: whoever repairs the
 * loss is the guest, which lowers its own.
 */
SV_FN u32 sv_fastlane_reported(struct sv_fastlane *f, struct sv_fastlane_copy *c, const struct sv_packet *p, u64 now)
{
	u32 verdict = sv_fastlane_refuses(f, p), asked = c->waits == SV_FASTLANE_WAITS_ACK;

	if (verdict)
		return verdict;
	if (!asked && c->dropped >= c->copies)
		return SV_FASTLANE_REPEATED;
	if (!asked)
		c->dropped++;
	c->waits = 0;
	if (c->dropped < c->copies || c->copies == 0xffff)
		return SV_FASTLANE_STALE;
	if (!asked && !c->own)
		c->sent = now;
	verdict = sv_fastlane_repairs(f, c);
	if (verdict)
		return verdict;
	if (!sv_fastlane_may_repair(f, c) || now >= c->sent + sv_fastlane_ask_ns(f))
		return SV_FASTLANE_UNKEPT;
	c->waits = SV_FASTLANE_WAITS_ACK;
	return SV_FASTLANE_LATER;
}

/* When a packet that was reported is asked about again, ns. */
SV_FN u64 sv_fastlane_ask_at(const struct sv_fastlane *f, u64 now)
{
	u64 half = sv_fastlane_rtt(f) / 2;

	return now + (half > SV_FASTLANE_ASK_EVERY_NS ? half : SV_FASTLANE_ASK_EVERY_NS);
}

/* The time of a packet that waits has come. Returns SV_FASTLANE_RESEND, or SV_FASTLANE_STALE: there is nothing to do any more. */
SV_FN u32 sv_fastlane_due(struct sv_fastlane *f, struct sv_fastlane_copy *c, u64 now)
{
	int waits = c->waits == SV_FASTLANE_WAITS_TIME;

	c->waits = 0;
	if (!waits || c->dropped < c->copies || sv_seq_diff(c->seq, f->conn.snd_una) < 0)
		return SV_FASTLANE_STALE;
	return sv_fastlane_resend(c, now);
}

/* Is the edge's own copy under way, of which one hears within `round_trip` ns? */
SV_FN int sv_fastlane_under_way(const struct sv_fastlane_copy *c, u64 round_trip, u64 now)
{
	return c->own && c->dropped < c->copies && now < c->sent + round_trip;
}

/* The guest sends a packet again. Returns 1 if the edge's own copy of it is under way, and this one need not leave. */
SV_FN int sv_fastlane_again(const struct sv_fastlane *f, struct sv_fastlane_copy *c, u64 now)
{
	if (sv_fastlane_under_way(c, sv_fastlane_rtt(f), now))
		return 1;
	if (c->copies < 0xffff)
		c->copies++;
	return 0;
}

/* The ACK of which a guest that is told gets SV_CONN_DUPACKS copies. `k` is the key of the guest's direction. */
SV_FN void sv_fastlane_ack(const struct sv_fastlane *f, const struct sv_flow_key *k, struct sv_packet *p)
{
	sv_conn_make_ack(&f->conn, k, p);
}

#endif
