/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The stages' clock, and what tests change. Only for edge.bpf.c. */
#ifndef SV_CLOCK_H
#define SV_CLOCK_H

/*
 * For tests only, set before loading: what every segment gets rewritten after the stages, so that writing back is seen to
 * work, and whose clock is read. The verifier knows that it is 0 otherwise, and removes what depends on it.
 */
#define SV_REWRITE_WINDOW 0x1 /* the lowest bit becomes 1 */
#define SV_REWRITE_ECN 0x2    /* not-ECT becomes ECT(0) */
const volatile struct {
	u32 rewrite; /* SV_REWRITE_* */
	u32 clock;   /* not 0: the stages' clock stands where sv_config.test_now says */
} sv_test = {0};

/* The time that the stages see. `exact`: not that of the last timer interrupt, which costs less to read. */
static __always_inline u64 stages_now(const struct sv_config *conf, int exact)
{
	if (sv_test.clock)
		return conf->test_now * 1000ULL;
	return exact ? bpf_ktime_get_ns() : bpf_ktime_get_coarse_ns();
}

#endif
