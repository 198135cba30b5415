/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * CUBIC's window law (RFC 9438) in integers: windows in bytes, time in 1/1024 s, C = 0.4 segments per s^3, multiplicative
 * decrease to 717/1024 = 0.7.
 */
#ifndef SV_CUBIC_H
#define SV_CUBIC_H

#include "arith.h"
#include "reno.h"

#define SV_CUBIC_BETA 717u	/* 0.7 */
#define SV_CUBIC_FRIENDLY 542u	/* 3 * (1 - 0.7) / (1 + 0.7), RFC 9438 section 4.3 */
#define SV_CUBIC_MAX_T (1u << 16) /* 64 s: by then every window is at its bound */

struct sv_cubic {
	u64 epoch;   /* ns: the first growth after the last cut; 0: none yet */
	u64 est;     /* bytes * 1024: what Reno would have by now */
	u32 w_max;   /* bytes: where the last cut began */
	u32 k;	     /* 1/1024 s from the epoch until w_max is reached again */
};

SV_ASSERT_SIZE(struct sv_cubic, 24);

/*
 * The cube root, rounded down, of a number below 2^63. Without branches: the BPF verifier would follow each of the 2^21
 * ways through them.
 */
SV_FN u32 sv_cube_root(u64 x)
{
	u64 root = 0;

	for (int bit = 20; bit >= 0; bit--) {
		u64 next = root | 1ULL << bit;
		u64 too_much = sv_opaque((x - next * next * next) >> 63); /* the sign: 0 or 1 */

		root |= (too_much ^ 1) << bit;
	}
	return (u32)root;
}

/* RFC 9438 sections 4.6 and 4.7 (fast convergence). */
SV_FN u32 sv_cubic_cut(struct sv_cubic *c, u32 cwnd)
{
	c->w_max = cwnd < c->w_max ? sv_mul_div32(cwnd, 1024 + SV_CUBIC_BETA, 2048) : cwnd;
	c->epoch = 0;
	return sv_mul_div32(cwnd, SV_CUBIC_BETA, 1024);
}

/* Where the curve stands `t` after the epoch, in bytes (section 4.2). */
SV_FN u32 sv_cubic_window(const struct sv_cubic *c, u32 mss, u32 t)
{
	u32 d = t > c->k ? t - c->k : c->k - t;
	u64 cube, change;

	d = sv_min32(d, SV_CUBIC_MAX_T);
	cube = (u64)d * d * d; /* at most 2^48 */
	change = ((cube * (mss & 0x3fff)) >> 30) * 2 / 5;
	if (t < c->k)
		return change < c->w_max ? c->w_max - (u32)change : 0;
	return change > SV_CWND_MAX ? SV_CWND_MAX : sv_min32(c->w_max + (u32)change, SV_CWND_MAX);
}

/* Congestion avoidance. `rtt` and `now` in ns; `rest` as in reno.h. */
SV_FN void sv_cubic_avoid(struct sv_cubic *c, u32 *cwnd, u32 *rest, u32 mss, u32 acked, u32 rtt, u64 now)
{
	u32 target, t;
	u64 elapsed, sum;

	if (!*cwnd)
		*cwnd = 1;
	if (!mss)
		mss = 1;
	acked = sv_min32(acked, SV_CWND_MAX);
	if (!c->epoch) {
		u64 gap = *cwnd < c->w_max ? c->w_max - *cwnd : 0;

		c->epoch = now ? now : 1;
		c->est = (u64)*cwnd << 10;
		c->k = sv_cube_root(((gap * 5 << 14) / (2 * (u64)mss)) << 16);
		if (!gap)
			c->w_max = *cwnd;
		*rest = 0;
	}
	elapsed = (now > c->epoch ? now - c->epoch : 0) + rtt;
	elapsed = elapsed / 1000 * 1024 / 1000000;
	t = elapsed > SV_CUBIC_MAX_T ? SV_CUBIC_MAX_T : (u32)elapsed;
	target = sv_cubic_window(c, mss, t);
	/* Section 4.2: the target lies between cwnd and half as much again. */
	target = sv_max32(sv_min32(target, *cwnd + *cwnd / 2), *cwnd);
	sum = (u64)(target - *cwnd) * acked + *rest;
	*rest = (u32)(sum % *cwnd);
	c->est += (u64)mss * sv_min32(acked, *cwnd) * (*cwnd < c->w_max ? SV_CUBIC_FRIENDLY : 1024) / *cwnd;
	if (c->est > (u64)SV_CWND_MAX << 10)
		c->est = (u64)SV_CWND_MAX << 10;
	sum = *cwnd + sum / *cwnd;
	if (sum < c->est >> 10)
		sum = c->est >> 10;
	*cwnd = sum > SV_CWND_MAX ? SV_CWND_MAX : (u32)sum;
}

#endif
