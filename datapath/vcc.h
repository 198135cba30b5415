/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Virtual congestion control: AC/DC TCP (He 2017, chapter 3). The edge follows each TCP connection of its guests,
 * computes a window by the administrator's law, and holds the guest to it by lowering the receive window of the ACKs that
 * it gets. ECN is between edges only: guests see what they would see on a network without it.
 *
 * A connection is tracked (conntrack.h); what its guest receives is counted and reported (feedback.h); its window follows a law
 * (law.h) and is told where other bounds allow it (bound.h). This file puts the four together. The caller holds the flow's lock;
 * nothing here calls out.
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
 *  - Nor are those of a connection whose ends both sign their headers (RFC 2385, RFC 5925). To the edge it is as datagrams are.
 *  - Beside shares (hygenicc.h) marks are frequent and windows near the least one, which is two segments there: of one, the guest would
 *    wait for the receiver's timer, and what it leaves goes to guests that do not.
 *  - Data segments never carry the option, whatever their size: it would keep them from merging in GRO. They are
 *    preceded by a FACK instead, if marks or two segments of data are to be reported.
 *
 * Where a limiter acts on ACKs (limiter.h), flows that are none of our business otherwise are followed for its sake, and nothing
 * but their window is changed.
 */
#ifndef SV_VCC_H
#define SV_VCC_H

#include "arith.h"
#include "bound.h"
#include "conntrack.h"
#include "ecn.h"
#include "feedback.h"
#include "law.h"
#include "limiter.h"
#include "result.h"

struct sv_vcc_conf {
	u64 rto_min;   /* ns: the least time without progress that counts as a timeout */
	u32 n_rules;
	u32 flags;     /* SV_VCC_CONF_* */
	struct sv_vcc_class class[SV_MAX_CLASSES];
	struct sv_policy_rule rule[SV_MAX_RULES];
};

SV_ASSERT_SIZE(struct sv_vcc_conf, 2640);

/* sv_vcc_conf.flags */
#define SV_VCC_CONF_DUPACKS 0x1 /* on a timeout, make the guest retransmit by duplicate ACKs */
#define SV_VCC_CONF_TWO 0x2	/* no window is below two segments: sv_bound_two */

struct sv_vcc {
	struct sv_conn conn;
	struct sv_law law;
	struct sv_report report;
	struct sv_bound bound;
};

SV_ASSERT_SIZE(struct sv_vcc, 176);

SV_FN const struct sv_vcc_class *sv_vcc_class_of(const struct sv_vcc *v, const struct sv_vcc_conf *conf)
{
	return &conf->class[sv_mask(v->law.class, SV_MAX_CLASSES - 1)];
}

SV_FN int sv_vcc_begun(const struct sv_vcc *v)
{
	return !!(v->conn.flags & SV_CONN_BEGUN);
}

/* All but the connection itself. */
SV_FN void sv_vcc_clear(struct sv_vcc *v, u8 class)
{
	struct sv_report nothing = {0};
	struct sv_bound none = {0};

	sv_law_begin(&v->law, class);
	v->report = nothing;
	v->bound = none;
}

SV_FN void sv_vcc_begin(struct sv_vcc *v, u8 class)
{
	sv_conn_begin(&v->conn);
	sv_vcc_clear(v, class);
}

/* Tracking has changed what the rest builds on. */
SV_FN void sv_vcc_follow(struct sv_vcc *v, u32 changed)
{
	if (changed & SV_CONN_ANEW)
		sv_vcc_clear(v, v->law.class);
	sv_law_follow(&v->law, &v->conn, changed);
}

/* What virtual congestion control allows, bytes; SV_BOUND_NONE: anything. */
SV_FN u32 sv_vcc_bound(const struct sv_vcc *v, const struct sv_vcc_conf *conf)
{
	u32 w = sv_law_bound(&v->law, sv_vcc_class_of(v, conf), v->report.flags & SV_REPORT_AWARE);

	return conf->flags & SV_VCC_CONF_TWO ? sv_bound_two(&v->conn, w) : w;
}

/*
 * Everything travels as ECT(0). Where the outer ECN field is not the edges', the guest's side of ECN is set aside, and a reserved bit
 * remembers. A connection that was
 * first seen under way is announced even if its peer's edge is silent, or two edges that began with it one after the other
 * would each wait for the other for ever. Accurate ECN (RFC 9768) would count in flags that are taken away: guests are
 * made to agree on the classic one.
 */
SV_FN void sv_vcc_mark_ect(struct sv_vcc *v, const struct sv_vcc_class *class, struct sv_packet *p)
{
	u32 plain = v->report.flags & SV_REPORT_PLAIN, observe = class->flags & SV_CLASS_OBSERVE;
	u8 reserved = 0;

	if (!plain || !(v->conn.flags & (SV_CONN_OUT_SYN | SV_CONN_IN_SYN))) {
		reserved = SV_RESERVED_EDGE;
		if (p->ecn != SV_ECN_NOT_ECT && p->wire != SV_WIRE_2)
			reserved |= SV_RESERVED_ECT;
	}
	if (!plain && !observe && p->wire == SV_WIRE_2) {
		sv_ecn_ask(p);
	} else if (!plain && p->ecn != SV_ECN_ECT0 && !observe) {
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

	if (p->wire == SV_WIRE_2) {
		ecn = p->sent_ecn == SV_ECN_CE ? SV_ECN_ECT0 : p->sent_ecn;
		if (!(flags & SV_TCP_SYN))
			flags &= (u8)~SV_TCP_ECE;
	} else if (!(flags & SV_TCP_SYN)) {
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
	const struct sv_vcc_class *class = sv_vcc_class_of(v, conf);
	u32 changed;

	sv_report_take_option(p); /* the guest's own would be read as ours */
	if (class->flags & SV_CLASS_OFF && !limited) {
		sv_vcc_begin(v, v->law.class); /* what is not followed must not be believed, should the class change */
	} else {
		changed = sv_conn_out(&v->conn, class->flags & SV_CLASS_POLICE, p, now);
		sv_vcc_follow(v, changed);
		if (changed & SV_CONN_REFUSED) {
			v->law.policed++;
			return SV_POLICED;
		}
	}
	sv_conn_note_ect(&v->conn, p);
	if (!(class->flags & SV_CLASS_OBSERVE))
		sv_conn_renumber(&v->conn, p);
	if (class->flags & SV_CLASS_OFF) {
		if (p->tcp_reserved)
			p->dirty |= SV_DIRTY_FLAGS;
		p->tcp_reserved = 0;
		return 0;
	}
	if (p->wscale == SV_WSCALE_SIGNED || sv_conn_signed(&v->conn))
		return 0; /* nor are its flags changed */
	sv_vcc_mark_ect(v, class, p);
	sv_report_send(&v->report, v->conn.mss, p);
	return 0;
}

/* What the peer's edge has reported. Returns the bytes newly marked. */
SV_FN u32 sv_vcc_absorb(struct sv_vcc *v, const struct sv_packet *p)
{
	u32 total = 0, marked = sv_report_absorb(&v->report, sv_conn_knows_scale(&v->conn), p, &total);

	if (p->masked)
		marked = 0;
	sv_law_count(&v->law, total, marked);
	return marked;
}

/*
 * A TCP segment for the guest, of a flow that has begun. `limit` may be missing; `gradient` is that of its queue. Returns
 * SV_CONSUMED, SV_LIMITED, SV_ANSWERED.
 */
SV_FN u32 sv_vcc_ingress(struct sv_vcc *v, const struct sv_vcc_conf *conf, const struct sv_limit *limit, s32 gradient,
			 struct sv_packet *p, u64 now)
{
	const struct sv_vcc_class *class = sv_vcc_class_of(v, conf);
	int aware = p->tcp_reserved & SV_RESERVED_EDGE, fack = sv_report_is_fack(p), lost = 0, limited = sv_limit_follows(limit);
	u32 marked = 0, acked = 0, changed = 0, result = 0;
	u8 duplicates = v->conn.dupacks;

	v->report.flags &= (u8) ~(SV_REPORT_AWARE | SV_REPORT_PLAIN);
	v->report.flags |= aware ? SV_REPORT_AWARE : SV_REPORT_PLAIN;
	if (aware && sv_report_is_in(p) && !(p->tcp_flags & SV_TCP_SYN))
		marked = sv_vcc_absorb(v, p);
	marked = sv_forget32(marked);
	sv_forget();
	if (fack) {
		sv_law_react(&v->law, class, &v->conn, 0, marked, 0, now);
		return SV_CONSUMED;
	}
	sv_report_take_option(p);
	sv_vcc_follow(v, sv_conn_in(&v->conn, p, now));
	sv_limit_handshake(limit, &v->bound, p, now);
	sv_report_received(&v->report, p);
	sv_forget();
	if (p->tcp_flags & SV_TCP_ACK && !(p->tcp_flags & SV_TCP_RST)) {
		acked = sv_forget32(sv_conn_ack(&v->conn, p, now, &changed, &lost));
		lost = (int)sv_forget32((u32)lost);
		sv_vcc_follow(v, changed);
		sv_forget();
		sv_law_react(&v->law, class, &v->conn, acked, marked, lost, now);
	}
	sv_forget();
	if (!limited || limit->law != SV_LIMIT_SPRING)
		v->bound.spring = 0;
	if (class->flags & SV_CLASS_OFF && !limited)
		return 0;
	if (p->tcp_flags & SV_TCP_ACK && !(p->tcp_flags & SV_TCP_RST) && sv_conn_knows_scale(&v->conn)) {
		if (limited && limit->law == SV_LIMIT_SPRING && !(p->tcp_flags & SV_TCP_SYN))
			result |= sv_spring_ack(&v->bound, &v->conn, limit, gradient, p);
		sv_bound_enforce(&v->bound, &v->conn, sv_vcc_bound(v, conf), sv_law_floor(class, v->conn.mss),
				 sv_bound_repeats(&v->conn, duplicates), sv_limit_holds(limit), p);
	}
	sv_forget();
	/* Read again, for the verifier's sake: nothing above has changed it. */
	if (p->tcp_reserved & SV_RESERVED_EDGE && !(class->flags & SV_CLASS_OFF)) {
		if (!(class->flags & SV_CLASS_OBSERVE)) {
			sv_vcc_hide_ecn(p);
			result |= SV_ANSWERED;
		}
		p->tcp_reserved = 0;
		p->dirty |= SV_DIRTY_FLAGS;
	}
	if (limited && limit->law == SV_LIMIT_DEM && !sv_conn_signed(&v->conn))
		result |= sv_dem_ack(limit, v->conn.flags, p);
	return result;
}

/* What guests must neither send nor see, where there is no room to remember the flow. Returns SV_CONSUMED. */
SV_FN u32 sv_vcc_stateless(struct sv_packet *p, int egress)
{
	u32 fack = !egress && sv_report_is_fack(p);

	if (!egress && p->tcp_reserved & SV_RESERVED_EDGE)
		sv_vcc_hide_ecn(p);
	sv_report_take_option(p);
	if (p->tcp_reserved)
		p->dirty |= SV_DIRTY_FLAGS;
	p->tcp_reserved = 0;
	return fack ? SV_CONSUMED : 0;
}

/* When a timeout is to be inferred, ns; 0: nothing is outstanding. */
SV_FN u64 sv_vcc_deadline(const struct sv_vcc *v, const struct sv_vcc_conf *conf)
{
	return sv_conn_deadline(&v->conn, conf->rto_min);
}

/*
 * The inferred timeout, if it is due: the window falls to a segment, and the guest may be made to retransmit. Returns
 * SV_EMIT_* bits.
 */
SV_FN u8 sv_vcc_timeout(struct sv_vcc *v, const struct sv_vcc_conf *conf, u64 now)
{
	const struct sv_vcc_class *class = sv_vcc_class_of(v, conf);
	u64 due = sv_vcc_deadline(v, conf);

	if (!due || now < due || class->flags & SV_CLASS_OFF)
		return 0;
	sv_law_timeout(&v->law, class, &v->conn, v->conn.backoff);
	sv_conn_timed_out(&v->conn, now);
	if (!(conf->flags & SV_VCC_CONF_DUPACKS) || class->flags & SV_CLASS_OBSERVE || !(v->conn.flags & SV_CONN_RCV) ||
	    !sv_conn_knows_scale(&v->conn) || v->conn.snd_una == v->conn.iss)
		return 0;
	return SV_EMIT_DUPACK;
}

/* The window field that the guest would be told now, where its peer last announced `field`. */
SV_FN u16 sv_vcc_field(const struct sv_vcc *v, const struct sv_vcc_conf *conf, u16 field)
{
	const struct sv_vcc_class *class = sv_vcc_class_of(v, conf);
	u32 window = sv_bound_least(&v->bound, sv_vcc_bound(v, conf));

	return sv_bound_field(&v->conn, window, sv_law_floor(class, v->conn.mss), field);
}

/* The law allows more than the guest was last told, by a segment or more, and nothing is coming that could tell it. */
SV_FN u8 sv_vcc_widened(const struct sv_vcc *v, const struct sv_vcc_conf *conf)
{
	const struct sv_vcc_class *class = sv_vcc_class_of(v, conf);
	u16 need = SV_CONN_GRANTED | SV_CONN_RCV;
	const struct sv_conn *t = &v->conn;
	u32 told, now;

	if ((t->flags & need) != need || !sv_conn_knows_scale(t) || class->flags & (SV_CLASS_OBSERVE | SV_CLASS_OFF) ||
	    t->window_out == t->window_in)
		return 0;
	told = (u32)t->window_out << sv_conn_scale(t);
	now = (u32)sv_vcc_field(v, conf, t->window_in) << sv_conn_scale(t);
	return now >= told + t->mss ? SV_EMIT_WINDOW : 0;
}

/*
 * From when on the timer laws would do something, as things stand, ns; long ago if they would at once; 0: never. For callers
 * that must go a long way to apply them.
 */
SV_FN u64 sv_vcc_next(const struct sv_vcc *v, const struct sv_vcc_conf *conf)
{
	if (!sv_vcc_begun(v) || sv_vcc_class_of(v, conf)->flags & SV_CLASS_OFF)
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
	struct sv_conn *t = &v->conn;
	struct sv_packet ack;

	sv_conn_make_ack(t, k, &ack);
	if (update)
		t->window_out = sv_vcc_field(v, conf, t->window_in);
	ack.window = t->window_out;
	sv_conn_grant(t, &ack);
	*p = ack;
}

#endif
