/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which TCP timestamp does a packet need that an edge sends again?
 *
 * What the guest sends again leaves with a newer timestamp. Receivers then drop what comes behind it with an older one (PAWS, RFC 7323
 * section 5). So a packet behind it that the edge sends again needs that one, too, until all is acknowledged that had left by then. A packet
 * in front of it must not have it: where the receiver's edge holds what overtook others, that has an older one, and would be dropped.
 */
#ifndef SV_STAMP_H
#define SV_STAMP_H

#include "arith.h"

/* sv_stamp.known: what means something. */
#define SV_STAMP_NEWEST 0x1
#define SV_STAMP_OLDER 0x2

/* Of one connection of a guest. Zero is a valid start. */
struct sv_stamp {
	u32 newest; /* the timestamp of what the guest last sent again */
	u32 older;  /* that of what it sent again before: for packets in front of `from` */
	u32 from;   /* nothing in front of this number was sent again with `newest` or shortly before */
	u32 end;    /* the next number when it last sent something again: what begins here left later */
	u32 known;  /* SV_STAMP_* */
};

SV_ASSERT_SIZE(struct sv_stamp, 20);

/* The guest sends `seq` again, with this timestamp; all in front of `una` is acknowledged, and `next` is what it sends next. */
SV_FN void sv_stamp_note(struct sv_stamp *s, u32 seq, u32 una, u32 next, u32 stamp)
{
	u32 passed = s->known & SV_STAMP_NEWEST && sv_seq_after(una, s->from);

	if (passed) {
		s->older = s->newest;
		s->known |= SV_STAMP_OLDER;
	}
	if (passed || !(s->known & SV_STAMP_NEWEST) || sv_seq_after(s->from, seq))
		s->from = seq;
	s->newest = stamp;
	s->end = next;
	s->known |= SV_STAMP_NEWEST;
}

/* All in front of `una` is acknowledged. Kept for half a round of the guest's clock, a timestamp would look later than all that comes. */
SV_FN void sv_stamp_acked(struct sv_stamp *s, u32 una)
{
	if (!sv_seq_after(s->end, una))
		s->known = 0;
}

/* Is the packet that begins with `seq` to have `stamp`, if that is later than its own? */
SV_FN u32 sv_stamp_needed(const struct sv_stamp *s, u32 seq, u32 *stamp)
{
	u32 behind = !sv_seq_after(s->from, seq);

	*stamp = behind ? s->newest : s->older;
	return !!(s->known & (behind ? SV_STAMP_NEWEST : SV_STAMP_OLDER));
}

#endif
