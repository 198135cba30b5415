/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * New Reno's window law (RFC 5681, RFC 6582): growth that DCTCP shares, and halving. Byte counting as in RFC 3465: `rest`
 * keeps what did not make a whole byte.
 */
#ifndef SV_RENO_H
#define SV_RENO_H

#include "arith.h"

/* The most that a window can be: TCP's largest, RFC 7323 section 2.3. */
#define SV_CWND_MAX (1u << 30)

/* Slow start: by what was acknowledged, but not beyond ssthresh. Returns how much of `acked` is left for the rest. */
SV_FN u32 sv_reno_slow_start(u32 *cwnd, u32 ssthresh, u32 acked)
{
	u32 limit = sv_min32(ssthresh, SV_CWND_MAX), step;

	if (*cwnd >= limit)
		return acked;
	step = sv_min32(acked, limit - *cwnd);
	*cwnd += step;
	return acked - step;
}

/* Congestion avoidance: one `mss` per window. */
SV_FN void sv_reno_avoid(u32 *cwnd, u32 *rest, u32 mss, u32 acked)
{
	u64 sum;

	if (!*cwnd)
		*cwnd = 1;
	sum = (u64)mss * sv_min32(acked, SV_CWND_MAX) + *rest;
	*rest = (u32)(sum % *cwnd);
	*cwnd = (u32)(*cwnd + sum / *cwnd > SV_CWND_MAX ? SV_CWND_MAX : *cwnd + sum / *cwnd);
}

SV_FN u32 sv_reno_cut(u32 cwnd)
{
	return cwnd / 2;
}

#endif
