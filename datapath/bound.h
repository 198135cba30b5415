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
	u32 spring_ssthresh; /* its threshold, as printed; read by nobody */
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
 * The ACK is for the guest: lower its window. A duplicate repeats the last one while a limiter changes windows with every
 * ACK: stacks do not count duplicates whose windows differ. `law` and `floor` as above, bytes.
 */
SV_FN void sv_bound_enforce(const struct sv_bound *b, struct sv_conn *t, u32 law, u32 floor, int duplicate, struct sv_packet *p)
{
	u16 field = p->window;

	if (duplicate && b->spring && t->window_out)
		field = (u16)sv_min32(field, t->window_out);
	else if (!(p->tcp_flags & SV_TCP_SYN))
		field = sv_bound_field(t, sv_bound_least(b, law), floor, field);
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
