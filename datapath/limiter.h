/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Rate limiters without a standing queue (He 2017, chapter 4). Something below the edge holds the guest to a rate and queues what
 * exceeds it; these laws keep that queue short by its backlog, which the driver knows and gives for each packet:
 *  - ECN (section 4.3.2, the strawman): outgoing segments are marked;
 *  - DEM (section 4.4.1): the ACKs that come back get ECE, for guests that run DCTCP;
 *  - SPRING (section 4.4.2): the ACKs that come back get a smaller receive window. Any guest will do.
 *
 * SPRING's window is one more bound of bound.h: the smallest wins, and there is one place that rewrites. DEM and SPRING need
 * connections tracked (conntrack.h), and nothing else of virtual congestion control.
 *
 * Where the text is silent:
 *  - The backlog does not count the segment at hand. Comparisons are strict: a backlog of exactly K does nothing.
 *  - The backlog counts what has left before its time, too. A token bucket lets a whole segment go and then holds the next
 *    until this one is paid for: that long, and no shorter, whoever comes now has to wait. Without the debt, the ACK of a large
 *    segment finds the queue shorter by just this segment while those of other flows find it in the queue, and a flow of
 *    large segments keeps all others at a packet each for ever.
 *  - The window is at least two segments, not one. The ACK of a lone one is delayed unless a few bytes follow it, which then
 *    are a packet of their own, and flows that came down to it seldom grew again: of 8 flows at 1 Gb/s Jain's index was 0.71.
 *  - The window begins at 10 segments, and never exceeds what the peer announces nor twice what the guest had outstanding
 *    lately: one MSS per ACK is added without end otherwise, and a guest could spend it all at once.
 *  - Where some go past the queue (sparse.h), none is cut below its share of K2, and below that it grows. New flows, whose
 *    first segments are not in the queue, do not press upon the window of a large one, which would then keep all others at
 *    the least: of 8 flows at 300 Mb/s Jain's index was 0.27 to 0.8.
 *    Nor does their wait matter then: thresholds grow with their number, so that each may send segments of many packets.
 *  - There a connection has three shares, K2 at most, until what the rate brings in 4 ms is acknowledged, 160 to 512 KB, unless the queue is
 *    long. With one share, beside flows that keep more, a request of 100 KB took 1.1 to 3 times as long as with fq_codel. With three until a
 *    MB, one beside a request of that size took 1.4 times as long at 20 Mb/s, and at 2 Gb/s flows that began were uneven for half a
 *    second. With three until 160 KB, one of a MB took 1.1 times as long at 1 Gb/s.
 *  - There paths may be long: a window that covers no more than the queue leaves the limit idle for most of the round trip, and what a burst
 *    makes wait cuts it again before it can grow (at 1 Gb/s and 20 ms, as printed: 4% of the rate). So each flow may also have its share of
 *    what the path itself holds: the rate times the round trip, as the handshake showed it. Of paths up to SV_LIMIT_NEAR_NS, K1 covers it.
 *    That share is not bounded by what was outstanding: of a sender beyond the limit, what is under way on the far side is not seen.
 *  - The gradient is rounded down to whole bytes, so that a rise is forgotten once the queue stands still.
 *  - ssthresh is computed as printed, and read by nobody.
 */
#ifndef SV_LIMITER_H
#define SV_LIMITER_H

#include "arith.h"
#include "bound.h"
#include "conntrack.h"
#include "ecn.h"
#include "packet.h"
#include "reno.h"
#include "result.h"

/* sv_limit.law */
#define SV_LIMIT_NONE 0
#define SV_LIMIT_ECN 1
#define SV_LIMIT_DEM 2
#define SV_LIMIT_SPRING 3

/* sv_limit.flags */
#define SV_LIMIT_FIRST 0x1u /* the segment at hand goes past the queue (sparse.h) */
#define SV_LIMIT_HOLD 0x2u  /* SPRING: what a guest may send up to moves in large steps (bound.h) */

/* 1.0 of alpha and beta. */
#define SV_LIMIT_ONE 1024u

/* More counts as this: no queue that makes sense is longer. */
#define SV_LIMIT_MAX_BACKLOG (1u << 30)

/* The limiter that a flow of the guest goes through, and how its class stands when a packet of either direction passes. */
struct sv_limit {
	u32 backlog; /* bytes of segments that wait in the class, or have left and are not paid for */
	u32 k1;	     /* bytes: K1 of SPRING, K of ECN and DEM */
	u32 k2;	     /* bytes, above k1; SPRING only */
	u16 alpha;   /* of SPRING, 1/1024: share of the newest change in the gradient */
	u16 beta;    /* of SPRING, 1/1024: strength of cuts */
	u8 law;	     /* SV_LIMIT_* */
	u8 flags;    /* SV_LIMIT_FIRST, SV_LIMIT_HOLD */
	u16 flows;   /* that sent through the queue lately, where some go past it; else 0 */
	u32 rate;    /* bytes per millisecond, where some go past the queue; else 0 */
};

SV_ASSERT_SIZE(struct sv_limit, 24);

/*
 * Of the queue of flows that others pass: bytes for each, at higher rates what the rate brings in SV_LIMIT_FLOW_US, up to one large
 * segment: small ones cost a processor that requests need, too. And for all of them.
 */
#define SV_LIMIT_FLOW 16384u
#define SV_LIMIT_FLOW_US 256u
#define SV_LIMIT_FLOWS 131072u
/* Half of the largest queue that a limit gets. */
#define SV_LIMIT_FLOWS_MAX (8u << 20)

/* One large segment. A queue is not long that has K2 and as much. */
#define SV_SPRING_SEGMENT 65536u

/* Of SPRING's window. */
#define SV_SPRING_LEAST_SEGMENTS 2u

/*
 * Where some go past the queue, a connection has so many shares until what the rate brings in so many ms is acknowledged, bytes between
 * these two.
 */
#define SV_SPRING_YOUNG_SHARES 3u
#define SV_SPRING_YOUNG_MS 4u
#define SV_SPRING_YOUNG_LEAST (5u << 15)
#define SV_SPRING_YOUNG_MOST (1u << 19)

/* A path whose round trip takes no longer than this, ns, needs no more than K1. */
#define SV_LIMIT_NEAR_NS 250000u
/* Round trips are kept in units of 2^14 ns, up to a second. */
#define SV_LIMIT_TICK_SHIFT 14

/* What SPRING remembers of a class, under a lock of its own. Zero is a valid start. */
struct sv_limit_queue {
	u32 prev;     /* bytes that waited when the last packet passed */
	s32 gradient; /* smoothed change of that from packet to packet, bytes */
	u32 begun;    /* 1: they mean something */
};

SV_ASSERT_SIZE(struct sv_limit_queue, 12);

/*
 * The rate, and room for the flows that sent through the queue lately, where some go past it: 50 ms at the rate, bytes per second, at
 * most, and SV_LIMIT_FLOWS_MAX, which is half of what the queue takes.
 */
SV_FN void sv_limit_widen(struct sv_limit *l, u64 rate)
{
	u64 bytes_per_ms = rate / 1000;
	u64 most = rate / 20 < SV_LIMIT_FLOWS ? SV_LIMIT_FLOWS : rate / 20 > SV_LIMIT_FLOWS_MAX ? SV_LIMIT_FLOWS_MAX : rate / 20;
	u64 brings = bytes_per_ms < SV_SPRING_SEGMENT * 4u ? bytes_per_ms * SV_LIMIT_FLOW_US / 1000 : SV_SPRING_SEGMENT;
	u64 all = l->flows * (brings < SV_LIMIT_FLOW ? (u64)SV_LIMIT_FLOW : sv_min32((u32)brings, SV_SPRING_SEGMENT));
	u32 least = (u32)(all < most ? all : most);

	l->rate = bytes_per_ms > 0xffffffffU ? 0xffffffffu : (u32)bytes_per_ms;
	if (l->k1 >= least)
		return;
	l->k2 += l->k2 ? least - l->k1 : 0;
	l->k1 = least;
}

/* Does SPRING hold the edges of windows? `l` may be missing. */
SV_FN int sv_limit_holds(const struct sv_limit *l)
{
	return l && l->law == SV_LIMIT_SPRING && l->flags & SV_LIMIT_HOLD;
}

/* Does the limit act on ACKs, so that connections must be followed? */
SV_FN int sv_limit_follows(const struct sv_limit *l)
{
	return l && (l->law == SV_LIMIT_DEM || l->law == SV_LIMIT_SPRING);
}

/* Algorithm 4, lines 3 to 6, for every packet of either direction. Returns the gradient. */
SV_FN s32 sv_limit_sample(struct sv_limit_queue *q, const struct sv_limit *l)
{
	s64 alpha = sv_min32(l->alpha, SV_LIMIT_ONE);
	u32 backlog = sv_min32(l->backlog, SV_LIMIT_MAX_BACKLOG);
	s64 change = (s64)backlog - q->prev;

	q->prev = backlog;
	if (!q->begun) {
		q->begun = 1;
		q->gradient = 0;
		return 0;
	}
	q->gradient = (s32)((((s64)SV_LIMIT_ONE - alpha) * q->gradient + alpha * change) >> 10);
	return q->gradient;
}

/* Algorithm 4, lines 10 to 21: the window after an ACK, at least `mss`. */
SV_FN u32 sv_spring_window(const struct sv_limit *l, s32 gradient, u32 mss, u32 window, u32 *ssthresh)
{
	u32 backlog = sv_min32(l->backlog, SV_LIMIT_MAX_BACKLOG), cut;
	u32 beta = sv_min32(l->beta, SV_LIMIT_ONE);

	window = sv_min32(window, SV_CWND_MAX);
	if (backlog < l->k1 || (backlog <= l->k2 && gradient <= 0))
		return window + mss;
	if (backlog > l->k2) {
		*ssthresh = window;
		cut = (u32)((u64)sv_mul_div32(window, backlog - l->k2, sv_max32(backlog, 1)) * beta / SV_LIMIT_ONE);
	} else {
		/* At most 2^30 of window and 2^31 of gradient: the product fits, and a cut of more than all is one of all. */
		cut = sv_mul_div32(window, (u32)gradient, sv_max32(l->k1, 1));
		cut = (u32)((u64)cut * beta / SV_LIMIT_ONE);
	}
	window = cut < window ? window - cut : 0;
	return sv_max32(window, mss);
}

/* How many bytes a connection of which `had` are acknowledged may have under way beside others, where some go past the queue; else 0. */
SV_FN u32 sv_spring_share(const struct sv_limit *l, u32 had)
{
	u32 share = l->flows ? l->k2 / l->flows : 0;
	u32 until = SV_SPRING_YOUNG_MS * sv_min32(l->rate, SV_SPRING_YOUNG_MOST / SV_SPRING_YOUNG_MS);
	int young = had < sv_max32(until, SV_SPRING_YOUNG_LEAST) && l->backlog < l->k2 + sv_max32(l->k2 / 2, SV_SPRING_SEGMENT);

	return young ? SV_SPRING_YOUNG_SHARES * sv_min32(share, l->k2 / SV_SPRING_YOUNG_SHARES) : share;
}

/*
 * Where flows have a `share`, not 0: a window below it grows, and one of more than four thirds of it shrinks unless the queue is short.
 * Else `after`, what the law made of `before`.
 */
SV_FN u32 sv_spring_even(const struct sv_limit *l, u32 mss, u32 share, u32 before, u32 after)
{
	if (!share)
		return after;
	if (before < share)
		return sv_max32(after, sv_min32(before + mss, share));
	if (before - before / 4 > share && l->backlog > l->k1 / 2 && after + mss > before)
		return sv_max32(before > mss ? before - mss : 0, share);
	return sv_max32(after, share);
}

/*
 * A connection's segment, either way. From the SYN to the SYN-ACK, and from there to the next ACK, the path's whole round trip is seen, on
 * both sides of the limit, and neither waits in the queue that others pass. Of `spring_since` and `spring_path` none is set before the SYN,
 * the first after it, both after the SYN-ACK, the second from then on. What takes longer than 2^16 units of 2^14 ns counts modulo that.
 */
SV_FN void sv_limit_handshake(const struct sv_limit *l, struct sv_bound *b, const struct sv_packet *p, u64 now)
{
	u16 at = (u16)(now >> SV_LIMIT_TICK_SHIFT), took = (u16)(at - b->spring_since);
	u32 syn = p->tcp_flags & SV_TCP_SYN, ack = p->tcp_flags & SV_TCP_ACK, both = (u32)b->spring_path + took;

	if (!l || !l->rate || p->tcp_flags & SV_TCP_RST || (!b->spring_since && (b->spring_path || !syn)))
		return;
	if (syn && ack && b->spring_since && !b->spring_path)
		b->spring_path = took ? took : 1;
	if (!syn && ack && b->spring_path)
		b->spring_path = (u16)sv_min32(both, 0xffff);
	b->spring_since = syn ? (at ? at : 1) : (ack ? 0 : b->spring_since);
}

/*
 * The flow's share of what its path holds, bytes, and of one large segment, which guests send at once: nothing of a near one, all of one
 * that is twice as long.
 */
SV_FN u32 sv_spring_path(const struct sv_limit *l, u16 path)
{
	u64 ns = (u64)path << SV_LIMIT_TICK_SHIFT, bytes;
	u64 segment = sv_min32(l->rate, SV_SPRING_SEGMENT);

	if (!l->flows || ns <= SV_LIMIT_NEAR_NS)
		return 0;
	if (ns < 2 * SV_LIMIT_NEAR_NS) {
		segment = segment * (ns - SV_LIMIT_NEAR_NS) / SV_LIMIT_NEAR_NS;
		ns = 2 * (ns - SV_LIMIT_NEAR_NS);
	}
	bytes = (ns * l->rate / 1000000 + segment) / l->flows;
	return bytes > SV_CWND_MAX ? SV_CWND_MAX : (u32)bytes;
}

/*
 * SPRING's part of an ACK for the guest, which sv_conn_ack has followed. Returns SV_LIMITED if it made the window smaller.
 */
SV_FN u32 sv_spring_ack(struct sv_bound *b, const struct sv_conn *t, const struct sv_limit *l, s32 gradient,
			const struct sv_packet *p)
{
	u32 least = SV_CONN_INITIAL_SEGMENTS * t->mss, before, after, ssthresh = 0;
	u32 path = sv_forget32(sv_spring_path(l, b->spring_path)), queue, share;

	queue = sv_forget32(sv_spring_share(l, t->snd_una - t->iss));
	share = queue + path;
	before = sv_forget32(b->spring ? b->spring : sv_max32(least, share));
	after = sv_forget32(sv_spring_window(l, gradient, t->mss, before, &ssthresh));
	/* Beyond its share of a long path a window grows by that of the queue a round trip at most: it hears of what it did so much later. */
	if (path && before > share && after > before)
		after = before + sv_mul_div32(t->mss, queue, before);
	after = sv_forget32(sv_spring_even(l, t->mss, share, before, sv_forget32(after)));
	after = sv_max32(sv_max32(after, path), SV_SPRING_LEAST_SEGMENTS * t->mss);
	if (after > before && before >= sv_max32(least, path ? share : 0) && before / 2 >= sv_conn_used(t))
		after = before;
	after = sv_forget32(after);
	b->spring = sv_max32(sv_min32(after, (u32)p->window << sv_conn_scale(t)), t->mss);
	return after < before ? SV_LIMITED : 0;
}

/* Can its receiver, of whose connection `flags` (SV_CONN_*) tell, hear of congestion by this one? */
SV_FN u32 sv_dem_ack(const struct sv_limit *l, u32 flags, struct sv_packet *p)
{
	if (l->backlog <= l->k1 || !(flags & SV_CONN_ECT) || flags & SV_CONN_FIRST || p->proto != SV_PROTO_TCP || !(p->tcp_flags & SV_TCP_ACK) ||
	    p->tcp_flags & (SV_TCP_SYN | SV_TCP_RST | SV_TCP_ECE))
		return 0;
	p->tcp_flags |= SV_TCP_ECE;
	p->dirty |= SV_DIRTY_FLAGS;
	return SV_LIMITED;
}

/* The strawman, for a segment that is about to be queued: the NIC gives its mark to all packets that it makes of it. */
SV_FN u32 sv_limit_mark(const struct sv_limit *l, struct sv_packet *p)
{
	if (!l || l->law != SV_LIMIT_ECN || l->backlog <= l->k1 || l->flags & SV_LIMIT_FIRST)
		return 0;
	if (p->ecn == SV_ECN_ECT0 || p->ecn == SV_ECN_ECT1) {
		p->ecn = SV_ECN_CE;
		p->dirty |= SV_DIRTY_ECN;
	} else if (sv_ecn_departs(p) == SV_ECN_ECT0) {
		p->outer_ecn = SV_ECN_CE;
	} else {
		return 0;
	}
	return SV_LIMITED;
}

/* A connection that is followed for a limiter alone begins, or what is known of it is not to be believed. */
SV_FN void sv_limit_begin(struct sv_conn *t, struct sv_bound *b)
{
	struct sv_bound none = {0};

	sv_conn_begin(t);
	*b = none;
}

/* The connection of a TCP segment is followed for a limiter alone: its life, as sv_conn_track. Returns 1 when it begins. */
SV_FN int sv_limit_track(struct sv_flow *f, struct sv_conn *t, struct sv_bound *b, const struct sv_packet *p, int egress, u64 idle,
			 u64 now)
{
	int anew = 0, begins = sv_conn_track(t, f, p, egress, idle, now, &anew);

	if (anew)
		sv_limit_begin(t, b);
	return begins;
}

/* A segment with bytes of the guest's: does the limiter's queue hold any of this connection? */
SV_FN void sv_limit_note_first(const struct sv_limit *l, struct sv_conn *t, const struct sv_packet *p)
{
	if (!l || !p->payload)
		return;
	t->flags = (u16)(l->flags & SV_LIMIT_FIRST ? t->flags | SV_CONN_FIRST : t->flags & ~SV_CONN_FIRST);
}

/* A TCP segment from the guest, of such a connection. */
SV_FN void sv_limit_out(const struct sv_limit *l, struct sv_conn *t, struct sv_bound *b, struct sv_packet *p, u64 now)
{
	struct sv_bound none = {0};

	if (!sv_limit_follows(l))
		sv_limit_begin(t, b);
	else if (sv_conn_out(t, 0, p, now) & SV_CONN_ANEW)
		*b = none;
	sv_conn_renumber(t, p);
	sv_conn_note_ect(t, p);
	sv_limit_note_first(l, t, p);
	sv_limit_handshake(l, b, p, now);
}

/* A TCP segment for the guest, likewise; `gradient` is that of the limiter's queue. Returns SV_LIMITED. */
SV_FN u32 sv_limit_in(const struct sv_limit *l, s32 gradient, struct sv_conn *t, struct sv_bound *b, struct sv_packet *p, u64 now)
{
	struct sv_bound none = {0};
	u32 result = 0, changed = 0;
	u8 duplicates = t->dupacks;
	int lost = 0;

	if (!sv_limit_follows(l))
		return 0;
	if (sv_conn_in(t, p, now) & SV_CONN_ANEW)
		*b = none;
	sv_limit_handshake(l, b, p, now);
	sv_forget();
	if (p->tcp_flags & SV_TCP_ACK && !(p->tcp_flags & SV_TCP_RST)) {
		sv_conn_ack(t, p, now, &changed, &lost);
		sv_forget();
		sv_conn_round(t);
		sv_forget();
		if (l->law != SV_LIMIT_SPRING)
			b->spring = 0;
		if (sv_conn_knows_scale(t)) {
			if (l->law == SV_LIMIT_SPRING && !(p->tcp_flags & SV_TCP_SYN))
				result = sv_spring_ack(b, t, l, gradient, p);
			sv_bound_enforce(b, t, SV_BOUND_NONE, t->mss, sv_bound_repeats(t, duplicates), sv_limit_holds(l), p);
		}
	}
	sv_forget();
	if (l->law == SV_LIMIT_DEM && !sv_conn_signed(t))
		result |= sv_dem_ack(l, t->flags, p);
	return result;
}

/*
 * A limiter by departure times, for hosts whose qdisc keeps to them: segments leave at `rate`, and how far the schedule is
 * ahead of the clock is its queue. Zero state is an idle one.
 */
struct sv_pacer {
	u64 next; /* ns: when the segment after the last one may leave */
};

SV_ASSERT_SIZE(struct sv_pacer, 8);

#define SV_PACER_NS 1000000000ULL

/* Bytes that wait in the schedule. `rate` is in bytes per second, at most 1.8e10; more than a second's worth counts as one's. */
SV_FN u32 sv_pacer_backlog(const struct sv_pacer *s, u64 rate, u64 now)
{
	u64 ahead = s->next > now ? s->next - now : 0, bytes;

	bytes = (ahead < SV_PACER_NS ? ahead : SV_PACER_NS) * rate / SV_PACER_NS;
	return bytes > SV_LIMIT_MAX_BACKLOG ? SV_LIMIT_MAX_BACKLOG : (u32)bytes;
}

/* Schedule a segment that takes `bytes` on the wire. Returns when it may leave, ns. */
SV_FN u64 sv_pacer_take(struct sv_pacer *s, u64 rate, u32 bytes, u64 now)
{
	u64 at = s->next > now ? s->next : now;

	s->next = at + (rate ? bytes * SV_PACER_NS / rate : 0);
	return at;
}

/*
 * The same for a segment that comes from somebody who may not care: returns 0, and schedules nothing, if the schedule is
 * ahead of the clock by more than `horizon` ns. When the segment may leave goes to `at`.
 */
SV_FN int sv_pacer_admit(struct sv_pacer *s, u64 rate, u64 horizon, u32 bytes, u64 now, u64 *at)
{
	if (s->next > now && s->next - now > horizon)
		return 0;
	*at = sv_pacer_take(s, rate, bytes, now);
	return 1;
}

/* What Linux counts of a frame of `len` bytes that `p` describes: once split, each of its packets has headers of its own. */
SV_FN u32 sv_limit_bytes(const struct sv_packet *p, u32 len)
{
	u32 packets = p->segment_size && p->payload > p->segment_size ? (p->payload - 1) / p->segment_size : 0;

	return len + packets * (14u + p->ip_header_len + p->l4_header_len);
}

#endif
