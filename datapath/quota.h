/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How many slots of a table everybody may hold. Guests and strangers begin flows at will: none of them may fill the table.
 *  - A port may hold no more slots than are free, as in buffers with dynamic thresholds (Choudhury and Hahne, 1998): one port
 *    alone gets half of the table, n greedy ones leave 1/(n + 1) of it. A network may hold twice what is free, and a port no
 *    more than its network still has room for: greedy ports leave room to others of their network, too.
 *  - Of what a port may hold, all that began from outside gets three quarters, and what is not settled (flow.h) one quarter.
 *    The last eighth is for connections that the guest surely began itself.
 * The bounds of the configuration come on top.
 */
#ifndef SV_QUOTA_H
#define SV_QUOTA_H

#include "arith.h"
#include "packet.h"

/* A port may hold so many as long as there is room: the last slots are not kept from those with few. */
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
	s32 unsettled; /* flows that began from outside, or may have, and are not settled */
};

SV_ASSERT_SIZE(struct sv_tally, 8);

/* Why there is no room. */
#define SV_QUOTA_ADMITTED 0
#define SV_QUOTA_PORT 1
#define SV_QUOTA_NETWORK 2
#define SV_QUOTA_OUTSIDE 3 /* for what begins from outside */

/* Who began a flow, as far as its first packet tells. */
#define SV_BEGAN_GUEST 0
#define SV_BEGAN_UNSURE 1  /* the guest, or it answers what was not remembered */
#define SV_BEGAN_SETTLED 2 /* somebody outside, or so it may be, and the flow is settled */
#define SV_BEGAN_OUTSIDE 3 /* the same, and it is not: only these count as unsettled */

/*
 * `egress`: the packet is the guest's. Strangers can make a guest send anything but a SYN of its own: a RST or a SYN with ACK to
 * spoofed sources, and an answer over UDP. It sends data over TCP only after a handshake.
 */
SV_FN u32 sv_quota_began(const struct sv_packet *p, int egress)
{
	if (!egress)
		return SV_BEGAN_OUTSIDE;
	if (p->proto != SV_PROTO_TCP)
		return SV_BEGAN_UNSURE;
	if (p->tcp_flags & SV_TCP_RST)
		return SV_BEGAN_OUTSIDE;
	if (p->tcp_flags & SV_TCP_SYN)
		return p->tcp_flags & SV_TCP_ACK ? SV_BEGAN_OUTSIDE : SV_BEGAN_GUEST;
	return p->payload ? SV_BEGAN_SETTLED : SV_BEGAN_OUTSIDE;
}

SV_FN u32 sv_quota_held(s32 n)
{
	return n > 0 ? (u32)n : 0;
}

/* `most` less what is held, or 0. */
SV_FN u32 sv_quota_left(u32 most, s32 held)
{
	u32 used = sv_quota_held(held);

	return most > used ? most - used : 0;
}

/* May one more flow be remembered? `network` may be missing. `began`: SV_BEGAN_*. */
SV_FN u32 sv_quota_admit(const struct sv_bounds *b, const struct sv_tally *table, const struct sv_tally *port,
			 const struct sv_tally *network, u32 began)
{
	u32 held = sv_quota_held(port->flows), why = SV_QUOTA_PORT, left, most;

	if (!b->table)
		return SV_QUOTA_ADMITTED;
	left = sv_quota_left(b->table, table->flows);
	if (network) {
		u32 of_network = sv_quota_left(sv_min32(2 * left, b->network), network->flows);

		if (!sv_quota_left(b->network, network->flows))
			return SV_QUOTA_NETWORK;
		if (of_network < sv_min32(left, b->port)) {
			left = of_network;
			why = SV_QUOTA_NETWORK;
		}
	}
	most = sv_min32(sv_max32(left, SV_QUOTA_FLOOR), b->port);
	if (held >= most)
		return why;
	if (began == SV_BEGAN_UNSURE && held >= most - most / 8)
		return why;
	if (began >= SV_BEGAN_SETTLED && held >= most - most / 4)
		return SV_QUOTA_OUTSIDE;
	if (began == SV_BEGAN_OUTSIDE && sv_quota_held(port->unsettled) >= (most + 3) / 4)
		return SV_QUOTA_OUTSIDE;
	return SV_QUOTA_ADMITTED;
}

#endif
