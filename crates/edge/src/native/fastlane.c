/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Symbols of fastlane.h. */
#include "fastlane.h"

u32 sv_edge_fastlane_out(struct sv_fastlane *f, struct sv_packet *p, u64 now);
u32 sv_edge_fastlane_in(struct sv_fastlane *f, struct sv_packet *p, u64 now);
u32 sv_edge_fastlane_notified(struct sv_fastlane *f, struct sv_fastlane_copy *c, const struct sv_packet *p, u64 dropped, u64 now);
u32 sv_edge_fastlane_reported(struct sv_fastlane *f, struct sv_fastlane_copy *c, const struct sv_packet *p, u64 now);
u64 sv_edge_fastlane_due_at(const struct sv_fastlane *f, const struct sv_fastlane_copy *c);
u32 sv_edge_fastlane_due(struct sv_fastlane *f, struct sv_fastlane_copy *c, u64 now);
int sv_edge_fastlane_again(const struct sv_fastlane *f, struct sv_fastlane_copy *c, u64 now);
void sv_edge_fastlane_ack(const struct sv_fastlane *f, const struct sv_flow_key *k, struct sv_packet *p);

u32 sv_edge_fastlane_out(struct sv_fastlane *f, struct sv_packet *p, u64 now)
{
	return sv_fastlane_out(f, p, now);
}

u32 sv_edge_fastlane_in(struct sv_fastlane *f, struct sv_packet *p, u64 now)
{
	return sv_fastlane_in(f, p, now);
}

u32 sv_edge_fastlane_notified(struct sv_fastlane *f, struct sv_fastlane_copy *c, const struct sv_packet *p, u64 dropped, u64 now)
{
	return sv_fastlane_notified(f, c, p, dropped, now);
}

u32 sv_edge_fastlane_reported(struct sv_fastlane *f, struct sv_fastlane_copy *c, const struct sv_packet *p, u64 now)
{
	return sv_fastlane_reported(f, c, p, now);
}

u64 sv_edge_fastlane_due_at(const struct sv_fastlane *f, const struct sv_fastlane_copy *c)
{
	return sv_fastlane_due_at(f, c);
}

u32 sv_edge_fastlane_due(struct sv_fastlane *f, struct sv_fastlane_copy *c, u64 now)
{
	return sv_fastlane_due(f, c, now);
}

int sv_edge_fastlane_again(const struct sv_fastlane *f, struct sv_fastlane_copy *c, u64 now)
{
	return sv_fastlane_again(f, c, now);
}

void sv_edge_fastlane_ack(const struct sv_fastlane *f, const struct sv_flow_key *k, struct sv_packet *p)
{
	sv_fastlane_ack(f, k, p);
}
