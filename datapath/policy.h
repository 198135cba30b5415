/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which congestion control a flow gets (He 2017, section 3.3.4): the first rule that matches names a class. */
#ifndef SV_POLICY_H
#define SV_POLICY_H

#include "arith.h"
#include "flow.h"

#define SV_MAX_CLASSES 16
#define SV_MAX_RULES 32

/* sv_vcc_class.law */
#define SV_LAW_NONE 0	/* no window but the clamp */
#define SV_LAW_DCTCP 1	/* dctcp.h; has no effect towards a peer that sends no feedback */
#define SV_LAW_RENO 2
#define SV_LAW_CUBIC 3

/* sv_vcc_class.flags */
#define SV_CLASS_POLICE 0x01  /* drop what a guest sends beyond the window that it was granted */
#define SV_CLASS_OBSERVE 0x02 /* compute and feed back, but leave windows and ECN as they are */
#define SV_CLASS_OFF 0x04     /* these flows are none of our business */

struct sv_vcc_class {
	u32 clamp; /* bytes: the window is never larger; 0: no clamp */
	u32 floor; /* bytes: nor smaller; 0: one MSS */
	u16 beta;  /* priority in 1/1024, DCTCP only */
	u8 law;	   /* SV_LAW_* */
	u8 flags;  /* SV_CLASS_* */
};

SV_ASSERT_SIZE(struct sv_vcc_class, 12);

struct sv_policy_rule {
	u32 local[4];	/* address of the guest, as in sv_packet, where the mask has ones */
	u32 local_mask[4];
	u32 remote[4];
	u32 remote_mask[4];
	u32 tenant;	/* 0: any */
	u16 port_first; /* a range that either port must lie in; 0 to 65535: any */
	u16 port_last;
	u8 class;
	u8 pad[3];
};

SV_ASSERT_SIZE(struct sv_policy_rule, 76);

SV_FN int sv_policy_matches(const struct sv_policy_rule *r, const struct sv_flow_key *k, u32 tenant)
{
	u32 other = 0;

	for (int i = 0; i < 4; i++)
		other |= ((k->saddr[i] ^ r->local[i]) & r->local_mask[i]) |
			 ((k->daddr[i] ^ r->remote[i]) & r->remote_mask[i]);
	if (other || (r->tenant && r->tenant != tenant))
		return 0;
	return (k->sport >= r->port_first && k->sport <= r->port_last) ||
	       (k->dport >= r->port_first && k->dport <= r->port_last);
}

/* The class of a flow, whose key is that of its outgoing direction. 0 is everybody else's. */
SV_FN u8 sv_policy_find(const struct sv_policy_rule *rules, u32 n, const struct sv_flow_key *k, u32 tenant)
{
	for (u32 i = 0; i < SV_MAX_RULES; i++) {
		const struct sv_policy_rule *r = &rules[sv_mask(i, SV_MAX_RULES - 1)];

		if (i >= n)
			break;
		if (sv_policy_matches(r, k, tenant))
			return r->class & (SV_MAX_CLASSES - 1);
	}
	return 0;
}

#endif
