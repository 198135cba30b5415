/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Virtual congestion control: AC/DC TCP (He 2017, chapter 3). The edge follows each TCP connection of its guests,
 * computes a window by the administrator's law, and holds the guest to it by lowering the receive window of the ACKs that
 * it gets. ECN is between edges only: guests see what they would see on a network without it.
 *
 * One struct serves both roles of a connection: what our guest sends ("snd": law, enforcement, policing), and what it
 * receives ("rcv": bytes counted and reported). The caller holds the flow's lock; nothing here calls out.
 *
 * Where the text is silent:
 *  - A segment's end counts, not its beginning; SYN and FIN take a number each. ACKs of what was never sent are ignored.
 *  - A duplicate ACK is one by RFC 5681's definition.
 *  - The window grows only while the guest fills it but for what offload puts off, or an idle guest would earn a window
 *    that it never tried.
 *  - No second cut until more is acknowledged than was out at the first: the ACK that completes that reports older marks.
 *  - A timeout is inferred after max(rto_min, 4 smoothed RTT), doubled with each in a row. While no more than one
 *    segment is out, the receiver may delay its ACK, so 40 ms are added (as RFC 8985 section 7.2 does).
 *  - What arrives from a peer without AC/DC is left alone; laws that need its feedback have no effect.
 *  - A connection first seen under way is tracked and marked, but its windows, whose scale is unknown, are not changed.
 *  - Data segments never carry the option, whatever their size: it would keep them from merging in GRO. They are
 *    preceded by a FACK instead, if marks or two segments of data are to be reported.
 *
 * The window of a rate limiter (limiter.h) is enforced here too: the smaller one wins. Where a limiter acts on ACKs, flows that
 * are none of our business otherwise are followed for its sake, and nothing but their window is changed.
 */
#ifndef SV_VCC_H
#define SV_VCC_H

#include "arith.h"
#include "conntrack.h"
#include "cubic.h"
#include "dctcp.h"
#include "feedback.h"
#include "limiter.h"
#include "reno.h"

/* Results of the functions below, which are also those of the stages. */
#define SV_POLICED 0x08	 /* drop it: it exceeds the window */
#define SV_CONSUMED 0x10 /* it was for the edge */

/* An includer that has one class only may say so: what its law does not need is then left out. */
#ifndef SV_CLASS_INDEX
#define SV_CLASS_INDEX(v) sv_mask((v)->class, SV_MAX_CLASSES - 1)
#endif

SV_FN u32 sv_vcc_floor(const struct sv_vcc *v, const struct sv_vcc_class *class)
{
	return class->floor ? class->floor : v->mss;
}

/* The window that the law and the clamp allow, bytes; all ones: any. */
SV_FN u32 sv_vcc_window(const struct sv_vcc *v, const struct sv_vcc_class *class)
{
	u32 w = 0xffffffffu;

	if (class->law == SV_LAW_RENO || class->law == SV_LAW_CUBIC ||
	    (class->law == SV_LAW_DCTCP && v->flags & SV_VCC_AWARE))
		w = v->cwnd;
	if (class->clamp)
		w = sv_min32(w, class->clamp);
	return w;
}

/* The window that is enforced, bytes; all ones: any. */
SV_FN u32 sv_vcc_allowed(const struct sv_vcc *v, const struct sv_vcc_class *class)
{
	u32 w = class->flags & (SV_CLASS_OBSERVE | SV_CLASS_OFF) ? 0xffffffffu : sv_vcc_window(v, class);

	return v->limit_rwnd ? sv_min32(w, v->limit_rwnd) : w;
}

/* Reduce the window as the law says. */
SV_FN void sv_vcc_cut(struct sv_vcc *v, const struct sv_vcc_class *class)
{
	u32 cwnd = v->cwnd;

	if (class->law == SV_LAW_DCTCP)
		cwnd = sv_dctcp_cut(cwnd, v->alpha, class->beta);
	else if (class->law == SV_LAW_RENO)
		cwnd = sv_reno_cut(cwnd);
	else if (class->law == SV_LAW_CUBIC)
		cwnd = sv_cubic_cut(&v->cubic, cwnd);
	v->cwnd = sv_max32(cwnd, sv_vcc_floor(v, class));
	v->ssthresh = v->cwnd;
	v->rest = 0;
}

/*
 * Does the guest want more than this window? What is left of it means nothing if less than a segment, than the unit of the
 * window field, or, where the guest is held to it, than the third that Linux leaves unused while it waits to send a larger
 * segment at once (tcp_tso_win_divisor). So a guest with little to send gets no more than half again what it uses.
 */
SV_FN int sv_vcc_fills(const struct sv_vcc *v, const struct sv_vcc_class *class, u32 flight)
{
	u32 deferred = class->flags & SV_CLASS_OBSERVE ? 0 : v->cwnd / 3;

	return flight + sv_max32(v->mss, deferred) + (1u << sv_vcc_scale(v)) > v->cwnd;
}

SV_FN void sv_vcc_grow(struct sv_vcc *v, const struct sv_vcc_class *class, u32 acked, u64 now)
{
	u32 flight = sv_max32(v->flight, v->last_flight);

	v->flags |= SV_VCC_ACKED;
	if (v->cwnd < v->ssthresh) {
		/* As Linux does: a slow start may double what the guest really used. */
		if (v->cwnd / 2 >= flight)
			return;
		acked = sv_reno_slow_start(&v->cwnd, v->ssthresh, acked);
		if (!acked)
			return;
	}
	if (!sv_vcc_fills(v, class, flight))
		return;
	sv_forget();
	if (class->law == SV_LAW_CUBIC)
		sv_cubic_avoid(&v->cubic, &v->cwnd, &v->rest, v->mss, acked, v->srtt, now);
	else
		sv_reno_avoid(&v->cwnd, &v->rest, v->mss, acked);
}

/* Steps 3 to 5 of the law: alpha once per window, then a cut or growth. `marked`: bytes newly reported. */
SV_FN void sv_vcc_react(struct sv_vcc *v, const struct sv_vcc_class *class, u32 acked, u32 marked, int lost, u64 now)
{
	if (!sv_seq_after(v->next_seq, v->snd_una)) {
		v->alpha = sv_dctcp_alpha(v->alpha, v->sum_total, v->sum_ce);
		v->sum_total = 0;
		v->sum_ce = 0;
		v->next_seq = v->snd_nxt;
		v->last_flight = v->flight;
		v->flight = v->snd_nxt - v->snd_una;
	}
	sv_forget();
	if (marked || lost) {
		if (sv_seq_after(v->snd_una, v->cut_end)) {
			sv_vcc_cut(v, class);
			v->cut_end = v->snd_nxt;
		}
		if (acked)
			v->flags |= SV_VCC_ACKED;
	} else if (acked) {
		sv_vcc_grow(v, class, acked, now);
	}
}

/*
 * Lower the window of an ACK to what law and limiter allow, but never below what lets one segment out: with less, guests wait
 * for their persist timer. And one unit more where exactly one segment would fit, because its receiver would delay the ACK
 * in wait for a second one, which a few bytes replace. A floor below a segment, for studies, does without both. Never upwards.
 */
SV_FN u16 sv_vcc_field(const struct sv_vcc *v, const struct sv_vcc_class *class, u16 field)
{
	u32 scale = sv_vcc_scale(v), floor = sv_vcc_floor(v, class), w = sv_vcc_allowed(v, class);
	u32 least = (sv_min32(floor, v->mss) + (1u << scale) - 1) >> scale;

	if (w >= (u32)field << scale)
		return field;
	w = sv_max32(w >> scale, least ? least : 1);
	if (w << scale == v->mss && floor >= v->mss)
		w++;
	return (u16)sv_min32(field, w);
}

/* What the guest may send up to, after an ACK with this window was delivered. It never moves back. */
SV_FN void sv_vcc_grant(struct sv_vcc *v, const struct sv_packet *p)
{
	u32 edge = p->ack + ((u32)p->window << (p->tcp_flags & SV_TCP_SYN ? 0 : sv_vcc_scale(v)));

	/* A SYN's window is unscaled and not lowered: it counts in the handshake only. */
	if (sv_seq_after(p->ack, v->snd_nxt) || (p->tcp_flags & SV_TCP_SYN && v->flags & SV_VCC_SENT))
		return;
	if (!(v->flags & SV_VCC_GRANTED) || sv_seq_after(edge, v->granted))
		v->granted = edge;
	v->flags |= SV_VCC_GRANTED;
}

/*
 * The guest's side of ECN is set aside: everything travels as ECT(0), and a reserved bit remembers. A connection that was
 * first seen under way is announced even if its peer's edge is silent, or two edges that began with it one after the other
 * would each wait for the other for ever. Accurate ECN (RFC 9768) would count in flags that are taken away: guests are
 * made to agree on the classic one.
 */
SV_FN void sv_vcc_mark_ect(struct sv_vcc *v, const struct sv_vcc_class *class, struct sv_packet *p)
{
	u32 plain = v->flags & SV_VCC_PLAIN, observe = class->flags & SV_CLASS_OBSERVE;
	u8 reserved = 0;

	if (!plain || !(v->flags & (SV_VCC_OUT_SYN | SV_VCC_IN_SYN))) {
		reserved = SV_RESERVED_EDGE;
		if (p->ecn != SV_ECN_NOT_ECT)
			reserved |= SV_RESERVED_ECT;
	}
	if (!plain && p->ecn != SV_ECN_ECT0 && !observe) {
		p->ecn = SV_ECN_ECT0;
		p->dirty |= SV_DIRTY_ECN;
	}
	if (!plain && p->tcp_flags & SV_TCP_SYN && !observe)
		p->dirty |= SV_DIRTY_FLAGS | SV_DIRTY_AE;
	if (reserved != p->tcp_reserved)
		p->dirty |= SV_DIRTY_FLAGS;
	p->tcp_reserved = reserved;
}

/* Give the guest back what it would see without us. Marks were counted before. */
SV_FN void sv_vcc_hide_ecn(struct sv_packet *p)
{
	u8 reserved = p->tcp_reserved, ecn = SV_ECN_NOT_ECT, flags = p->tcp_flags;

	if (!(flags & SV_TCP_SYN)) {
		/* Linux refuses ECN when a SYN is ECT, and ECE and CWR negotiate it there. */
		flags &= (u8)~SV_TCP_ECE;
		if (reserved & SV_RESERVED_ECT)
			ecn = SV_ECN_ECT0;
		else
			flags &= (u8)~SV_TCP_CWR;
	}
	if (ecn != p->ecn)
		p->dirty |= SV_DIRTY_ECN;
	if (flags != p->tcp_flags)
		p->dirty |= SV_DIRTY_FLAGS;
	p->ecn = ecn;
	p->tcp_flags = flags;
}

/* A TCP segment from the guest, of a flow that has begun. `limited`: a limiter wants it followed. Returns SV_POLICED. */
SV_FN u32 sv_vcc_egress(struct sv_vcc *v, const struct sv_vcc_conf *conf, int limited, struct sv_packet *p, u64 now)
{
	const struct sv_vcc_class *class = &conf->class[SV_CLASS_INDEX(v)];

	sv_vcc_take_option(p); /* the guest's own would be read as ours */
	if (class->flags & SV_CLASS_OFF && !limited)
		sv_vcc_begin(v, v->class); /* what is not followed must not be believed, should the class change */
	else if (!sv_vcc_track_out(v, class, p, now)) {
		v->policed++;
		return SV_POLICED;
	}
	if (p->ecn != SV_ECN_NOT_ECT)
		v->ect = 1;
	if (class->flags & SV_CLASS_OFF) {
		if (p->tcp_reserved)
			p->dirty |= SV_DIRTY_FLAGS;
		p->tcp_reserved = 0;
		return 0;
	}
	sv_vcc_mark_ect(v, class, p);
	sv_vcc_report(v, p);
	return 0;
}

/*
 * The ACK is for the guest: lower its window. A duplicate repeats the last one while a limiter changes windows with every
 * ACK: stacks do not count duplicates whose windows differ.
 */
SV_FN void sv_vcc_enforce(struct sv_vcc *v, const struct sv_vcc_class *class, int duplicate, struct sv_packet *p)
{
	u16 field = p->window;

	if (duplicate && v->limit_rwnd && v->window_out)
		field = (u16)sv_min32(field, v->window_out);
	else if (!(p->tcp_flags & SV_TCP_SYN))
		field = sv_vcc_field(v, class, field);
	if (field != p->window)
		p->dirty |= SV_DIRTY_WINDOW;
	p->window = field;
	sv_vcc_grant(v, p);
	v->window_out = sv_vcc_window_units(v, p);
}

/*
 * A TCP segment for the guest, of a flow that has begun. `limit` may be missing; `gradient` is that of its queue. Returns
 * SV_CONSUMED, SV_LIMITED.
 */
SV_FN u32 sv_vcc_ingress(struct sv_vcc *v, const struct sv_vcc_conf *conf, const struct sv_limit *limit, s32 gradient,
			 struct sv_packet *p, u64 now)
{
	const struct sv_vcc_class *class = &conf->class[SV_CLASS_INDEX(v)];
	int aware = p->tcp_reserved & SV_RESERVED_EDGE, fack = sv_vcc_is_fack(p), lost = 0, limited = sv_limit_follows(limit);
	u32 marked = 0, acked = 0, result = 0;
	u8 duplicates = v->dupacks;

	v->flags &= (u16) ~(SV_VCC_AWARE | SV_VCC_PLAIN);
	v->flags |= aware ? SV_VCC_AWARE : SV_VCC_PLAIN;
	if (aware && p->pack == SV_PACK_OK && !(p->tcp_flags & SV_TCP_SYN))
		marked = sv_vcc_absorb(v, p);
	marked = sv_forget32(marked);
	sv_forget();
	if (fack) {
		sv_vcc_react(v, class, 0, marked, 0, now);
		return SV_CONSUMED;
	}
	sv_vcc_take_option(p);
	sv_vcc_track_in(v, p, now);
	sv_forget();
	if (p->tcp_flags & SV_TCP_ACK && !(p->tcp_flags & SV_TCP_RST)) {
		acked = sv_forget32(sv_vcc_track_ack(v, p, now, &lost));
		lost = (int)sv_forget32((u32)lost);
		sv_forget();
		sv_vcc_react(v, class, acked, marked, lost, now);
	}
	sv_forget();
	if (!limited || limit->law != SV_LIMIT_SPRING)
		v->limit_rwnd = 0;
	if (class->flags & SV_CLASS_OFF && !limited)
		return 0;
	if (p->tcp_flags & SV_TCP_ACK && !(p->tcp_flags & SV_TCP_RST) && sv_vcc_knows_scale(v)) {
		if (limited && limit->law == SV_LIMIT_SPRING && !(p->tcp_flags & SV_TCP_SYN))
			result |= sv_spring_ack(v, limit, gradient, p);
		sv_vcc_enforce(v, class, v->dupacks && (v->dupacks != duplicates || duplicates == 255), p);
	}
	sv_forget();
	/* Read again, for the verifier's sake: nothing above has changed it. */
	if (p->tcp_reserved & SV_RESERVED_EDGE && !(class->flags & SV_CLASS_OFF)) {
		if (!(class->flags & SV_CLASS_OBSERVE))
			sv_vcc_hide_ecn(p);
		p->tcp_reserved = 0;
		p->dirty |= SV_DIRTY_FLAGS;
	}
	if (limited && limit->law == SV_LIMIT_DEM)
		result |= sv_dem_ack(limit, v->ect, p);
	return result;
}

/* What guests must neither send nor see, where there is no room to remember the flow. Returns SV_CONSUMED. */
SV_FN u32 sv_vcc_stateless(struct sv_packet *p, int egress)
{
	u32 fack = !egress && sv_vcc_is_fack(p);

	if (!egress && p->tcp_reserved & SV_RESERVED_EDGE)
		sv_vcc_hide_ecn(p);
	sv_vcc_take_option(p);
	if (p->tcp_reserved)
		p->dirty |= SV_DIRTY_FLAGS;
	p->tcp_reserved = 0;
	return fack ? SV_CONSUMED : 0;
}

/*
 * The inferred timeout, if it is due: the window falls to a segment, and the guest may be made to retransmit. Returns
 * SV_EMIT_* bits.
 */
SV_FN u8 sv_vcc_timeout(struct sv_vcc *v, const struct sv_vcc_conf *conf, u64 now)
{
	const struct sv_vcc_class *class = &conf->class[SV_CLASS_INDEX(v)];
	u64 due = sv_vcc_deadline(v, conf);

	if (!due || now < due || class->flags & SV_CLASS_OFF)
		return 0;
	if (!v->backoff)
		sv_vcc_cut(v, class);
	v->cwnd = sv_max32(v->mss, class->floor);
	v->cut_end = v->snd_nxt;
	v->dupacks = 0;
	v->flags &= (u16)~SV_VCC_RTT;
	v->progress = now;
	if (v->backoff < SV_VCC_MAX_BACKOFF)
		v->backoff++;
	if (!(conf->flags & SV_VCC_CONF_DUPACKS) || class->flags & SV_CLASS_OBSERVE || !(v->flags & SV_VCC_RCV) ||
	    !sv_vcc_knows_scale(v) || v->snd_una == v->iss)
		return 0;
	return SV_EMIT_DUPACK;
}

/* The law allows more than the guest was last told, by a segment or more, and nothing is coming that could tell it. */
SV_FN u8 sv_vcc_widened(const struct sv_vcc *v, const struct sv_vcc_conf *conf)
{
	const struct sv_vcc_class *class = &conf->class[SV_CLASS_INDEX(v)];
	u16 need = SV_VCC_GRANTED | SV_VCC_RCV;
	u32 told, now;

	if ((v->flags & need) != need || !sv_vcc_knows_scale(v) || class->flags & (SV_CLASS_OBSERVE | SV_CLASS_OFF) ||
	    v->window_out == v->window_in)
		return 0;
	told = (u32)v->window_out << sv_vcc_scale(v);
	now = (u32)sv_vcc_field(v, class, v->window_in) << sv_vcc_scale(v);
	return now >= told + v->mss ? SV_EMIT_WINDOW : 0;
}

/*
 * From when on the timer laws would do something, as things stand, ns; long ago if they would at once; 0: never. For callers
 * that must go a long way to apply them.
 */
SV_FN u64 sv_vcc_next(const struct sv_vcc *v, const struct sv_vcc_conf *conf)
{
	if (!(v->flags & SV_VCC_BEGUN) || conf->class[SV_CLASS_INDEX(v)].flags & SV_CLASS_OFF)
		return 0;
	return sv_vcc_widened(v, conf) ? 1 : sv_vcc_deadline(v, conf);
}

SV_FN int sv_vcc_due(const struct sv_vcc *v, const struct sv_vcc_conf *conf, u64 now)
{
	u64 next = sv_vcc_next(v, conf);

	return next && now >= next;
}

/*
 * An ACK to the guest that the edge makes itself, with the number that the guest knows: with `update` it tells the
 * window in force, else it repeats the last one and is a duplicate. `k` is the key of the guest's direction.
 */
SV_FN void sv_vcc_ack(struct sv_vcc *v, const struct sv_vcc_conf *conf, const struct sv_flow_key *k, int update,
		      struct sv_packet *p)
{
	const struct sv_vcc_class *class = &conf->class[SV_CLASS_INDEX(v)];
	struct sv_packet ack = {
		.saddr = { k->daddr[0], k->daddr[1], k->daddr[2], k->daddr[3] },
		.daddr = { k->saddr[0], k->saddr[1], k->saddr[2], k->saddr[3] },
		.sport = k->dport,
		.dport = k->sport,
		.proto = SV_PROTO_TCP,
		.tcp_flags = SV_TCP_ACK,
		.seq = v->rcv_nxt,
		.ack = v->snd_una,
		.l4_header_len = 20,
	};

	ack.family = k->saddr[0] || k->saddr[1] || k->saddr[2] != 0xffff ? 6 : 4;
	ack.ip_header_len = ack.family == 4 ? 20 : 40;
	if (update)
		v->window_out = sv_vcc_field(v, class, v->window_in);
	ack.window = v->window_out;
	sv_vcc_grant(v, &ack);
	*p = ack;
}

#endif
