/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The window law of virtual congestion control (He 2017, sections 3.3.2 and 3.4): how marks, losses and ACKs move the
 * congestion window of one connection under the law of its class. vcc.h says where the text is silent.
 */
#ifndef SV_LAW_H
#define SV_LAW_H

#include "bound.h"
#include "conntrack.h"
#include "cubic.h"
#include "dctcp.h"
#include "policy.h"
#include "reno.h"

/* sv_law.flags */
#define SV_LAW_ACKED 0x01 /* data was acknowledged: cwnd is no longer the initial one */

struct sv_law {
	struct sv_cubic cubic;
	u32 cut_end;	 /* no cut before more than this is acknowledged */
	u32 cwnd;	 /* bytes */
	u32 ssthresh;	 /* bytes */
	u32 rest;	 /* of reno.h, cubic.h */
	u32 sum_total;	 /* bytes reported since alpha was computed last */
	u32 sum_ce;
	u32 policed;	 /* for people: segments dropped */
	u16 alpha;	 /* 1/1024 */
	u8 class;
	u8 flags;	 /* SV_LAW_* */
};

SV_ASSERT_SIZE(struct sv_law, 56);

SV_FN void sv_law_begin(struct sv_law *l, u8 class)
{
	struct sv_law zero = {0};

	*l = zero;
	l->class = class;
	l->alpha = SV_DCTCP_ONE;
	l->ssthresh = 0xffffffffu;
	l->cwnd = SV_CONN_INITIAL_SEGMENTS * SV_CONN_DEFAULT_MSS;
}

/* What tracking changed. Until data was acknowledged, the initial window follows what is learnt of the MSS. */
SV_FN void sv_law_follow(struct sv_law *l, const struct sv_conn *t, u32 changed)
{
	if (changed & SV_CONN_SIZED && !(l->flags & SV_LAW_ACKED))
		l->cwnd = SV_CONN_INITIAL_SEGMENTS * t->mss;
	if (changed & SV_CONN_PLACED)
		l->cut_end = t->snd_una - !(t->flags & SV_CONN_OUT_SYN);
}

/* Bytes. */
SV_FN u32 sv_law_floor(const struct sv_vcc_class *class, u32 mss)
{
	return class->floor ? class->floor : mss;
}

/* The window that the law and the clamp allow, bytes; SV_BOUND_NONE: any. `aware`: the peer's edge reports marks. */
SV_FN u32 sv_law_window(const struct sv_law *l, const struct sv_vcc_class *class, int aware)
{
	u32 w = SV_BOUND_NONE;

	if (class->law == SV_LAW_RENO || class->law == SV_LAW_CUBIC || (class->law == SV_LAW_DCTCP && aware))
		w = l->cwnd;
	if (class->clamp)
		w = sv_min32(w, class->clamp);
	return w;
}

/* The window to enforce: none where the class says to leave windows alone. */
SV_FN u32 sv_law_bound(const struct sv_law *l, const struct sv_vcc_class *class, int aware)
{
	return class->flags & (SV_CLASS_OBSERVE | SV_CLASS_OFF) ? SV_BOUND_NONE : sv_law_window(l, class, aware);
}

/* Reduce the window as the law says. */
SV_FN void sv_law_cut(struct sv_law *l, const struct sv_vcc_class *class, u32 mss)
{
	u32 cwnd = l->cwnd;

	if (class->law == SV_LAW_DCTCP)
		cwnd = sv_dctcp_cut(cwnd, l->alpha, class->beta);
	else if (class->law == SV_LAW_RENO)
		cwnd = sv_reno_cut(cwnd);
	else if (class->law == SV_LAW_CUBIC)
		cwnd = sv_cubic_cut(&l->cubic, cwnd);
	l->cwnd = sv_max32(cwnd, sv_law_floor(class, mss));
	l->ssthresh = l->cwnd;
	l->rest = 0;
}

/*
 * Does the guest want more than this window? What is left of it means nothing if less than a segment, than the unit of the
 * window field, or, where the guest is held to it, than the third that Linux leaves unused while it waits to send a larger
 * segment at once (tcp_tso_win_divisor). So a guest with little to send gets no more than half again what it uses.
 */
SV_FN int sv_law_fills(const struct sv_law *l, const struct sv_vcc_class *class, const struct sv_conn *t, u32 flight)
{
	u32 deferred = class->flags & SV_CLASS_OBSERVE ? 0 : l->cwnd / 3;

	return flight + sv_max32(t->mss, deferred) + (1u << sv_conn_scale(t)) > l->cwnd;
}

SV_FN void sv_law_grow(struct sv_law *l, const struct sv_vcc_class *class, const struct sv_conn *t, u32 acked, u64 now)
{
	u32 flight = sv_conn_used(t);

	l->flags |= SV_LAW_ACKED;
	if (l->cwnd < l->ssthresh) {
		/* As Linux does: a slow start may double what the guest really used. */
		if (l->cwnd / 2 >= flight)
			return;
		acked = sv_reno_slow_start(&l->cwnd, l->ssthresh, acked);
		if (!acked)
			return;
	}
	if (!sv_law_fills(l, class, t, flight))
		return;
	sv_forget();
	if (class->law == SV_LAW_CUBIC)
		sv_cubic_avoid(&l->cubic, &l->cwnd, &l->rest, t->mss, acked, t->srtt, now);
	else
		sv_reno_avoid(&l->cwnd, &l->rest, t->mss, acked);
}

/* The peer has reported bytes. */
SV_FN void sv_law_count(struct sv_law *l, u32 total, u32 marked)
{
	l->sum_total = sv_add_sat32(l->sum_total, total);
	l->sum_ce = sv_add_sat32(l->sum_ce, marked);
}

/* Steps 3 to 5 of the law: alpha once per round, then a cut or growth. `marked`: bytes newly reported. */
SV_FN void sv_law_react(struct sv_law *l, const struct sv_vcc_class *class, struct sv_conn *t, u32 acked, u32 marked, int lost,
			u64 now)
{
	if (sv_conn_round(t)) {
		l->alpha = sv_dctcp_alpha(l->alpha, l->sum_total, l->sum_ce);
		l->sum_total = 0;
		l->sum_ce = 0;
	}
	sv_forget();
	if (marked || lost) {
		if (sv_seq_after(t->snd_una, l->cut_end)) {
			sv_law_cut(l, class, t->mss);
			l->cut_end = t->snd_nxt;
		}
		if (acked)
			l->flags |= SV_LAW_ACKED;
	} else if (acked) {
		sv_law_grow(l, class, t, acked, now);
	}
}

/* A timeout was inferred, the first since there was progress unless `again`: the window falls to a segment. */
SV_FN void sv_law_timeout(struct sv_law *l, const struct sv_vcc_class *class, const struct sv_conn *t, int again)
{
	if (!again)
		sv_law_cut(l, class, t->mss);
	l->cwnd = sv_max32(t->mss, class->floor);
	l->cut_end = t->snd_nxt;
}

#endif
