/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Symbols of retrans.h and stamp.h. */
#include "retrans.h"
#include "stamp.h"

void sv_edge_retrans_note(struct sv_retrans *r, u32 seq, u32 end, u32 anew, u64 round_trip, u64 now);
void sv_edge_retrans_forget(struct sv_retrans *r, u32 seq);
u32 sv_edge_retrans_since(const struct sv_retrans *r, u32 seq, u32 end, u64 dropped);
void sv_edge_stamp_note(struct sv_stamp *s, u32 seq, u32 una, u32 next, u32 stamp);
void sv_edge_stamp_acked(struct sv_stamp *s, u32 una);
u32 sv_edge_stamp_needed(const struct sv_stamp *s, u32 seq, u32 *stamp);

void sv_edge_retrans_note(struct sv_retrans *r, u32 seq, u32 end, u32 anew, u64 round_trip, u64 now)
{
	sv_retrans_note(r, seq, end, anew, round_trip, now);
}

void sv_edge_retrans_forget(struct sv_retrans *r, u32 seq)
{
	sv_retrans_forget(r, seq);
}

u32 sv_edge_retrans_since(const struct sv_retrans *r, u32 seq, u32 end, u64 dropped)
{
	return sv_retrans_since(r, seq, end, dropped);
}

void sv_edge_stamp_note(struct sv_stamp *s, u32 seq, u32 una, u32 next, u32 stamp)
{
	sv_stamp_note(s, seq, una, next, stamp);
}

void sv_edge_stamp_acked(struct sv_stamp *s, u32 una)
{
	sv_stamp_acked(s, una);
}

u32 sv_edge_stamp_needed(const struct sv_stamp *s, u32 seq, u32 *stamp)
{
	return sv_stamp_needed(s, seq, stamp);
}
