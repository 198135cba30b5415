/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Flowlet switching at the edge (Kandula et al. 2007; the comparison of Presto, SIGCOMM 2015, section 5): a flow takes
 * the next path once it has sent nothing for a while, so that what went before has left the network. Paths are taken in
 * turn, as Presto's comparison does. The state is a flowcell's, its bytes taken for a clock.
 */
#ifndef SV_FLOWLET_H
#define SV_FLOWLET_H

#include "flowcell.h"

/* A tick is 1,024 ns: 32 bits of them last 73 minutes, longer than any flow is remembered without a packet. */
#define SV_FLOWLET_SHIFT 10

/*
 * Give a segment its flowlet and label. `gap` in ns; flowlets are counted in f->cell. Returns 1 when the segment opens a
 * flowlet. The rest is as with sv_flowcell_assign.
 */
SV_FN int sv_flowlet_assign(struct sv_flowcell *f, u32 gap, const u16 *labels, u32 n, u32 start, u64 now,
			    struct sv_packet *p)
{
	u32 tick = (u32)(now >> SV_FLOWLET_SHIFT);
	int opens = 0;

	if (!f->started) {
		f->started = 1;
		sv_flowcell_enter(f, labels, n, start);
		opens = 1;
	} else if (tick - f->bytes > gap >> SV_FLOWLET_SHIFT) {
		f->cell++;
		sv_flowcell_enter(f, labels, n, (u32)f->index + 1);
		opens = 1;
	}
	f->bytes = tick;
	sv_flowcell_stamp(f, p);
	return opens;
}

#endif
