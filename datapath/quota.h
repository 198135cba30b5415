/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Who may have how many of a table's slots. Guests and strangers can begin flows at will, so that nobody may fill the table
 * for the others:
 *  - A port may hold no more slots than are free, as in buffers with dynamic thresholds (Choudhury and Hahne, 1998): one port
 *    alone gets half of the table, n greedy ones leave 1/(n + 1) of it. A network may hold twice what is free, and a port in it
 *    no more than what this leaves: greedy ports do not use up what their network may hold.
 *  - Flows that began from outside and are not settled (flow.h) get a quarter of what their port may hold, all that began
 *    from outside three quarters: the guest's own connections always find room.
 * The bounds of the configuration come on top.
 */
#ifndef SV_QUOTA_H
#define SV_QUOTA_H

#include "arith.h"
#include "packet.h"

/* Everybody may have so many, as long as there is room: the last slots of a table are not to be kept from those with few. */
#define SV_QUOTA_FLOOR 16

/* Of one table; zero state: no quotas. */
struct sv_bounds {
	u32 table;   /* slots; 0: no quotas */
	u32 port;    /* slots of one port at most */
	u32 network; /* slots of one network at most */
	u32 pad;
};

SV_ASSERT_SIZE(struct sv_bounds, 16);

/* What a table, a port or a network holds. Signed: those who count at the same time may be ahead of one another. */
struct sv_tally {
	s32 flows;
	s32 unsettled; /* of these, began from outside and not settled */
};

SV_ASSERT_SIZE(struct sv_tally, 8);

/* Why there is no room. */
#define SV_QUOTA_ADMITTED 0
#define SV_QUOTA_PORT 1
#define SV_QUOTA_NETWORK 2
#define SV_QUOTA_OUTSIDE 3 /* for what begins from outside */

/* Did somebody else than the guest begin this flow, as far as its first packet tells? `egress`: it is the guest's. */
SV_FN int sv_quota_outside(const struct sv_packet *p, int egress)
{
	u8 answer = SV_TCP_SYN | SV_TCP_ACK;

	return !egress || (p->proto == SV_PROTO_TCP && (p->tcp_flags & answer) == answer);
}

SV_FN u32 sv_quota_held(s32 n)
{
	return n > 0 ? (u32)n : 0;
}

/* May one more flow be remembered? `network` may be missing. */
SV_FN u32 sv_quota_admit(const struct sv_bounds *b, const struct sv_tally *table, const struct sv_tally *port,
			 const struct sv_tally *network, int outside)
{
	u32 used = sv_quota_held(table->flows), held = sv_quota_held(port->flows), left = SV_QUOTA_FLOOR, most, share, all;

	if (!b->table)
		return SV_QUOTA_ADMITTED;
	if (b->table > used)
		left = sv_max32(b->table - used, SV_QUOTA_FLOOR);
	most = sv_min32(left, b->port);
	share = (most + 3) / 4;
	if (held >= most)
		return SV_QUOTA_PORT;
	if (outside && (sv_quota_held(port->unsettled) >= share || held >= most - most / 4))
		return SV_QUOTA_OUTSIDE;
	if (!network)
		return SV_QUOTA_ADMITTED;
	all = sv_min32(2 * left, b->network);
	used = sv_quota_held(network->flows);
	return used >= all || held >= sv_max32(all - used, SV_QUOTA_FLOOR) ? SV_QUOTA_NETWORK : SV_QUOTA_ADMITTED;
}

#endif
