/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * When a guest last sent parts of its stream again. It does so in goes: segments in order, with what has arrived between them, within about a
 * round trip. Whoever tells of a drop may be later than the guest: what has left again since is under way.
 *
 * One go is not enough: a guest that recovers for several round trips begins a new one in each, and the word of a drop may take as long.
 */
#ifndef SV_RETRANS_H
#define SV_RETRANS_H

#include "arith.h"

#define SV_RETRANS_GOES 4

struct sv_retrans_go {
	u64 at;	  /* ns: when it began to leave; 0: there is none */
	u32 from; /* numbers: its first, */
	u32 end;  /* and that after its last; equal: nothing of it left */
};

/* Zero is a valid start. What is left of older connections does no harm: nothing of this one was dropped before it began. */
struct sv_retrans {
	struct sv_retrans_go go[SV_RETRANS_GOES]; /* the newest first */
};

SV_ASSERT_SIZE(struct sv_retrans, 64);

/* Makes room for a go; the oldest is forgotten. */
SV_FN void sv_retrans_shift(struct sv_retrans *r)
{
	for (int i = SV_RETRANS_GOES - 1; i > 0; i--)
		r->go[i] = r->go[i - 1];
}

/* The guest sends these numbers again. `anew`: of what it has sent again before nothing is outstanding. */
SV_FN void sv_retrans_note(struct sv_retrans *r, u32 seq, u32 end, u32 anew, u64 round_trip, u64 now)
{
	struct sv_retrans_go *newest = &r->go[0];

	if (!anew && newest->at && !sv_seq_after(newest->end, seq) && now - newest->at <= round_trip) {
		newest->end = end;
		return;
	}
	if (newest->end != newest->from)
		sv_retrans_shift(r);
	newest->at = now;
	newest->from = seq;
	newest->end = end;
}

/* Of the newest go this number and all after it were held back, and have not left. What follows is of another go, which would take them in. */
SV_FN void sv_retrans_forget(struct sv_retrans *r, u32 seq)
{
	struct sv_retrans_go *newest = &r->go[0];

	if (!sv_seq_after(newest->end, seq))
		return;
	newest->end = sv_seq_after(newest->from, seq) ? newest->from : seq;
	if (newest->end != newest->from)
		sv_retrans_shift(r);
	newest->at = 0;
	newest->end = newest->from;
}

/* So many times all of it has left again since `dropped` ns; 0: nobody knows when that was. */
SV_FN u32 sv_retrans_since(const struct sv_retrans *r, u32 seq, u32 end, u64 dropped)
{
	u32 times = 0;

	for (int i = 0; i < SV_RETRANS_GOES; i++) {
		const struct sv_retrans_go *go = &r->go[i];

		times += dropped && dropped < go->at && !sv_seq_after(go->from, seq) && !sv_seq_after(end, go->end);
	}
	return times;
}

#endif
