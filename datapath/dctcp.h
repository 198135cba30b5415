/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * DCTCP's window law (RFC 8257; He 2017, section 3.3.2) with the priority beta of He 2017, equation 3.2. Fixed point:
 * alpha and beta in 1/1024.
 */
#ifndef SV_DCTCP_H
#define SV_DCTCP_H

#include "arith.h"

#define SV_DCTCP_ONE 1024u
#define SV_DCTCP_G 4 /* g = 1/16, RFC 8257 section 4.2 */

/*
 * The moving average of the marked share, after a window in which `total` bytes arrived, `marked` of them marked. At
 * least 1 is taken away, or alpha would stay at 15 for ever. Without news alpha stays.
 */
SV_FN u16 sv_dctcp_alpha(u16 alpha, u32 total, u32 marked)
{
	u32 old = sv_min32(alpha, SV_DCTCP_ONE), step = old >> SV_DCTCP_G, next;

	if (!total)
		return (u16)old;
	if (!step && old)
		step = 1;
	next = old - step + (sv_mul_div32(sv_min32(marked, total), SV_DCTCP_ONE, total) >> SV_DCTCP_G);
	return (u16)sv_min32(next, SV_DCTCP_ONE);
}

/* cwnd * (1 - (alpha - alpha * beta / 2)); with beta = 1 DCTCP's own cut, with beta = 0 the whole of alpha. Bytes. */
SV_FN u32 sv_dctcp_cut(u32 cwnd, u16 alpha, u16 beta)
{
	u64 share = (u64)sv_min32(alpha, SV_DCTCP_ONE) * (2 * SV_DCTCP_ONE - sv_min32(beta, SV_DCTCP_ONE));

	return cwnd - (u32)((cwnd * share) >> 21);
}

#endif
