/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* How long segments wait in a limiter's queue, as a histogram: buckets whose upper bounds double. */
#ifndef SV_DELAY_H
#define SV_DELAY_H

#include "arith.h"

/* The least bound, ns, and how many there are: 16 us, 32 us, ..., 131.072 ms, beyond which HTB's queue of 100 ms drops. */
#define SV_DELAY_LEAST_NS 16000ULL
#define SV_DELAY_BOUNDS 14u
/* And one bucket for all above. */
#define SV_DELAY_BUCKETS (SV_DELAY_BOUNDS + 1)
/* Longer delays count as this, ns. */
#define SV_DELAY_MOST_NS 60000000000ULL

/* Zero is a valid start. */
struct sv_delays {
	u64 sum; /* us: of ns, a busy limit would have too many within a month */
	u64 count[SV_DELAY_BUCKETS];
};

SV_ASSERT_SIZE(struct sv_delays, 128);

/* ns that `bytes`, at most 2^34, take at `rate`, bytes per second. Without a rate that is not known: 0. */
SV_FN u64 sv_delay_ns(u64 bytes, u64 rate)
{
	u64 ns = rate ? bytes * 1000000000ULL / rate : 0;

	return ns > SV_DELAY_MOST_NS ? SV_DELAY_MOST_NS : ns;
}

/* How many bits it takes to write `value`, below 2^16. Without branches, which the BPF verifier would follow. */
SV_FN u32 sv_delay_bits(u32 value)
{
	u32 bits = 0, step;

	step = sv_is_above(value, 0xff) << 3;
	value >>= step;
	bits += step;
	step = sv_is_above(value, 0xf) << 2;
	value >>= step;
	bits += step;
	step = sv_is_above(value, 0x3) << 1;
	value >>= step;
	bits += step;
	/* 0 to 3 are left: 0, 1, 2 and 2 bits. */
	return bits + value - (value == 3);
}

/* The bucket of a delay: the first whose bound, SV_DELAY_LEAST_NS << bucket, it does not exceed. */
SV_FN u32 sv_delay_bucket(u64 ns)
{
	u64 above = ns ? (ns - 1) / SV_DELAY_LEAST_NS : 0;

	return above >> SV_DELAY_BOUNDS ? SV_DELAY_BOUNDS : sv_delay_bits((u32)above);
}

/* A segment that waits so long is counted. */
SV_FN void sv_delay_count(struct sv_delays *d, u64 ns)
{
	u32 bucket = sv_delay_bucket(ns);

	d->sum += (ns + 500) / 1000;
	if (bucket < SV_DELAY_BUCKETS)
		d->count[bucket]++;
}

#endif
