/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Symbols for what the agent takes from the data path's headers; state.h asserts the sizes of the shared structs. */
#include "kernel/state.h"

int sv_live_flow_expired(const struct sv_flow *flow, u64 idle, u64 now);
u32 sv_live_state_version(void);
u32 sv_live_counters(void);

int sv_live_flow_expired(const struct sv_flow *flow, u64 idle, u64 now)
{
	return sv_flow_expired(flow, idle, now);
}

u32 sv_live_state_version(void)
{
	return SV_STATE_VERSION;
}

u32 sv_live_counters(void)
{
	return SV_COUNTERS;
}
