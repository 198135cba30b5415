/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The receive window that a guest is told: several bounds compete for it, and the smallest wins. Only this file lowers
 * windows; nothing raises them. Virtual congestion control brings its bound along each time (law.h), the others stand here.
 */
#ifndef SV_BOUND_H
#define SV_BOUND_H

#include "conntrack.h"

/* No bound at all, bytes. */
#define SV_BOUND_NONE 0xffffffffu

struct sv_bound {
	u32 spring;	     /* bytes: the rate limiter's (limiter.h); 0: none is in force */
	u16 spring_since;    /* 2^14 ns: when a SYN or SYN-ACK passed whose answer is timed; 0: none is */
	u16 spring_path;     /* 2^14 ns: round trip of the path, as far as the handshake has shown it; 0: not known */
};

SV_ASSERT_SIZE(struct sv_bound, 8);

/* The smallest bound, bytes. `law`: what virtual congestion control allows. */
SV_FN u32 sv_bound_least(const struct sv_bound *b, u32 law)
{
	return b->spring ? sv_min32(law, b->spring) : law;
}

/*
 * Lower the window of an ACK to `w`, but never below what lets one segment out: with less, guests wait for their persist timer.
 * And one unit more where exactly one segment would fit, because its receiver would delay the ACK in wait for a second one, which a
 * few bytes replace. A `floor` below a segment, for studies, does without both. Never upwards.
 */
SV_FN u16 sv_bound_field(const struct sv_conn *t, u32 w, u32 floor, u16 field)
{
	u32 scale = sv_conn_scale(t);
	u32 least = (sv_min32(floor, t->mss) + (1u << scale) - 1) >> scale;

	if (w >= (u32)field << scale)
		return field;
	w = sv_max32(w >> scale, least ? least : 1);
	if (w << scale == t->mss && floor >= t->mss)
		w++;
	return (u16)sv_min32(field, w);
}

/*
 * `w`, but two segments at least, as the field can say it: a receiver delays the ACK of a single one until its timer fires. The few bytes
 * above come only from senders that split segments late (TSO), and from those only if nothing is on its way.
 */
SV_FN u32 sv_bound_two(const struct sv_conn *t, u32 w)
{
	return sv_max32(w, 2u * t->mss + (1u << sv_conn_scale(t)) - 1);
}

/* A held edge moves by this or by half of the window, bytes. */
#define SV_BOUND_STEP 65536u
/* The window of a SYN, which nothing lowers, leads at most so far. */
#define SV_BOUND_UNSCALED 65536u

/*
 * The field of an ACK whose window was to be lowered to `field`, where edges are held: a receiver's way to avoid silly windows (RFC
 * 9293 section 3.8.6.2.2). What the guest may send up to moves by half of the window or SV_BOUND_STEP at once, or not at all, so that it
 * sends fewer and larger segments; and it never moves back, but from where a SYN put it, unless the receiver's own does.
 * Held is only while two segments are under way: these a receiver acknowledges at once, so that the next ACK is sure to come.
 */
SV_FN u16 sv_bound_hold(const struct sv_conn *t, const struct sv_packet *p, u16 field)
{
	u32 scale = sv_conn_scale(t), window = (u32)field << scale, least = sv_min32(window / 2, SV_BOUND_STEP);
	s32 left = sv_seq_diff(t->granted, p->ack), out = sv_seq_diff(t->snd_nxt, p->ack);
	u64 held;

	if (field == p->window || !(t->flags & SV_CONN_GRANTED) || left <= 0 || out < 0)
		return field;
	if (window > (u32)left && (window - (u32)left >= least || (u32)out < 2u * t->mss))
		return field;
	if (window <= (u32)left && t->granted - t->iss <= SV_BOUND_UNSCALED)
		return field;
	held = ((u64)left + (1u << scale) - 1) >> scale;
	return held < p->window ? (u16)held : p->window;
}

/*
 * The ACK is for the guest: lower its window. A duplicate repeats the last one while a limiter changes windows with every
 * ACK: stacks do not count duplicates whose windows differ. `law` and `floor` as above, bytes. `hold`: hold the edge.
 */
SV_FN void sv_bound_enforce(const struct sv_bound *b, struct sv_conn *t, u32 law, u32 floor, int duplicate, int hold, struct sv_packet *p)
{
	u16 field = p->window;

	if (duplicate && b->spring && t->window_out) {
		field = (u16)sv_min32(field, t->window_out);
	} else if (!(p->tcp_flags & SV_TCP_SYN)) {
		field = sv_bound_field(t, sv_bound_least(b, law), floor, field);
		if (hold)
			field = sv_bound_hold(t, p, field);
	}
	if (field != p->window)
		p->dirty |= SV_DIRTY_WINDOW;
	p->window = field;
	sv_conn_grant(t, p);
	t->window_out = sv_conn_window_units(t, p);
}

/* Was this ACK one more duplicate, if there were `before`? */
SV_FN int sv_bound_repeats(const struct sv_conn *t, u8 before)
{
	return t->dupacks && (t->dupacks != before || before == 255);
}

#endif
