/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Symbols for what the loader takes from the data path's headers; state.h asserts the sizes of the shared structs. */
#include <stddef.h>

#include "hygenicc.h"
#include "kernel/limits.h"
#include "kernel/state.h"
#include "mss.h"
#include "neighbour.h"
#include "toobig.h"

int sv_kernel_flow_expired(const struct sv_flow *flow, u64 idle, u64 now);
u32 sv_kernel_state_version(void);
u32 sv_kernel_counters(void);
u32 sv_kernel_pacer_backlog(u64 next, u64 rate, u64 now);
u32 sv_kernel_pair_own(u64 seed, const u32 *own);

u32 sv_kernel_pair_own(u64 seed, const u32 *own)
{
	return sv_hyg_own(seed, own);
}

int sv_kernel_flow_expired(const struct sv_flow *flow, u64 idle, u64 now)
{
	return sv_flow_expired(flow, idle, now);
}

u32 sv_kernel_state_version(void)
{
	return SV_STATE_VERSION;
}

u32 sv_kernel_counters(void)
{
	return SV_COUNTERS;
}

u32 sv_kernel_pacer_backlog(u64 next, u64 rate, u64 now)
{
	struct sv_pacer pacer = { .next = next };

	return sv_pacer_backlog(&pacer, rate, now);
}

/* For the tests of what the kernel edge answers. Frames have room for SV_NEIGHBOUR_MAX or SV_TOOBIG_MAX bytes. */
u32 sv_kernel_neighbour(u8 *frame, u32 len, const u8 *mac, struct sv_neighbour *q);
int sv_kernel_mss_clamp(u8 *tcp, size_t len, u16 limit);
u16 sv_kernel_mss_limit(u8 family, u32 mtu);
int sv_kernel_toobig(u8 *b, const struct sv_packet *p, u16 check, u32 mtu);
int sv_kernel_toobig_fits(const struct sv_packet *p, u32 ip_len, u32 mtu);

/* Length of the answer; 0: none; 1: read, but no question. */
u32 sv_kernel_neighbour(u8 *frame, u32 len, const u8 *mac, struct sv_neighbour *q)
{
	if (!sv_neighbour_read(frame, len, q))
		return 0;
	return q->question ? sv_neighbour_answer(frame, q, mac) : 1;
}

int sv_kernel_mss_clamp(u8 *tcp, size_t len, u16 limit)
{
	return sv_mss_clamp(tcp, tcp + len, limit);
}

u16 sv_kernel_mss_limit(u8 family, u32 mtu)
{
	return sv_mss_limit(family, mtu);
}

/* 0: not to be answered; 1: answered; 2: answered, with the quoted checksum taken as unfinished. */
int sv_kernel_toobig(u8 *b, const struct sv_packet *p, u16 check, u32 mtu)
{
	int unfinished = sv_toobig_unfinished(p, check);

	if (!sv_toobig_answerable(b + SV_ETH_LEN + (p->family == 4 ? SV_TOOBIG_ADD4 : SV_TOOBIG_ADD6), p))
		return 0;
	if (p->family == 4)
		sv_toobig_write4(b, p, unfinished, check, mtu);
	else
		sv_toobig_write6(b, p, unfinished, check, mtu);
	return 1 + unfinished;
}

int sv_kernel_toobig_fits(const struct sv_packet *p, u32 ip_len, u32 mtu)
{
	return sv_toobig_fits(p, ip_len, mtu);
}
