/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The shim of version 2 (docs/wire.md): eight bytes between the VXLAN header and the inner frame, where the header announces them. Only
 * packets without payload carry one, so that it keeps no two segments from merging. A type, and six bytes that mean what it says.
 */
#ifndef SV_SHIM_H
#define SV_SHIM_H

#include "packet.h"

#define SV_SHIM_LEN 8

/* sv_shim.type. What is not known is skipped. */
#define SV_SHIM_NONE 0
#define SV_SHIM_REPORT 1 /* of virtual congestion control: bytes that came, 24 bits, and those marked, 24 bits */
#define SV_SHIM_DROP 2	 /* packets were dropped, dropped.h: payload bytes of each, 16 bits; of all, 32 bits; SV_SHIM_DROP_* */
#define SV_SHIM_PROBE 3	 /* to be answered: identifier, 16 bits; sender's time, 32 bits */
#define SV_SHIM_REPLY 4	 /* the answer, with identifier and time of the probe */
#define SV_SHIM_DELAY 5	 /* of the path with this index, 16 bits, one way: 32 bits */
#define SV_SHIM_AGAIN 6	 /* dropped packets are to be sent again, dropped.h: their payload bytes, 32 bits; SV_SHIM_STAMPED */

/* Times are in units of 64 ns, mod 2^32: 275 s. So are delays. */
#define SV_SHIM_TIME(ns) ((u32)((ns) >> 6))

/* sv_shim.detail of SV_SHIM_DROP: where it was dropped. */
#define SV_SHIM_DROP_QUEUE 1 /* no room in a queue */

/* The same of SV_SHIM_AGAIN: TCP's ACK field is a timestamp, which packets get that have an older one. */
#define SV_SHIM_STAMPED 1

struct sv_shim {
	u32 value;  /* bytes that came, mod 2^24; payload bytes; time; delay */
	u32 marked; /* of SV_SHIM_REPORT: mod 2^24 */
	u16 id;	    /* of a probe and its reply; index of a path; payload bytes of each packet */
	u8 type;    /* SV_SHIM_* */
	u8 detail;
};

SV_ASSERT_SIZE(struct sv_shim, 12);

/* Returns 0, and SV_SHIM_NONE, if the type is not known. */
SV_FN int sv_shim_read(const u8 *b, struct sv_shim *s)
{
	struct sv_shim none = {0};

	*s = none;
	switch (b[0]) {
	case SV_SHIM_REPORT:
		s->value = (u32)b[2] << 16 | (u32)b[3] << 8 | b[4];
		s->marked = (u32)b[5] << 16 | (u32)b[6] << 8 | b[7];
		break;
	case SV_SHIM_DROP:
	case SV_SHIM_PROBE:
	case SV_SHIM_REPLY:
	case SV_SHIM_DELAY:
	case SV_SHIM_AGAIN:
		s->id = (u16)((u32)b[2] << 8 | b[3]);
		s->value = (u32)b[4] << 24 | (u32)b[5] << 16 | (u32)b[6] << 8 | b[7];
		break;
	default:
		return 0;
	}
	s->type = b[0];
	s->detail = b[1];
	return 1;
}

SV_FN void sv_shim_write(u8 *b, const struct sv_shim *s)
{
	b[0] = s->type;
	b[1] = s->detail;
	if (s->type == SV_SHIM_REPORT) {
		for (int i = 0; i < 3; i++) {
			b[2 + i] = (u8)(s->value >> (16 - 8 * i));
			b[5 + i] = (u8)(s->marked >> (16 - 8 * i));
		}
		return;
	}
	b[2] = (u8)(s->id >> 8);
	b[3] = (u8)s->id;
	for (int i = 0; i < 4; i++)
		b[4 + i] = (u8)(s->value >> (24 - 8 * i));
}

/* A report in the shim of a packet that has none in its TCP header. */
SV_FN void sv_shim_take_report(const u8 *b, struct sv_packet *p)
{
	if (b[0] != SV_SHIM_REPORT || p->proto != SV_PROTO_TCP || p->payload || p->pack != SV_PACK_NONE ||
	    !(p->tcp_reserved & SV_RESERVED_EDGE))
		return;
	p->pack = SV_PACK_SHIM;
	for (int i = 0; i < 3; i++) {
		p->pack_total[i] = b[2 + i];
		p->pack_ce[i] = b[5 + i];
	}
}

SV_FN void sv_shim_put_report(u8 *b, const struct sv_packet *p)
{
	b[0] = SV_SHIM_REPORT;
	b[1] = 0;
	for (int i = 0; i < 3; i++) {
		b[2 + i] = p->pack_total[i];
		b[5 + i] = p->pack_ce[i];
	}
}

#endif
