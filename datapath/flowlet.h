/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Flowlet switching at the edge (Kandula et al. 2007; the comparison of Presto, SIGCOMM 2015, section 5): a flow takes
 * the next path once it has sent nothing for a while, so that what went before has left the network. Paths are taken in
 * turn, as Presto's comparison does.
 */
#ifndef SV_FLOWLET_H
#define SV_FLOWLET_H

#include "paths.h"

/* A tick is 1,024 ns: 32 bits of them last 73 minutes. After a pause of just that time a flow may keep its path once more. */
#define SV_FLOWLET_SHIFT 10

struct sv_flowlet {
	u32 last_tick; /* when the flow's last segment left */
};

/* Note a segment. `gap` in ns; `start`: see sv_choice_begin. Returns 1 when the segment opens a flowlet. */
SV_FN int sv_flowlet_egress(struct sv_flowlet *f, struct sv_choice *c, u32 gap, const struct sv_paths *paths, u32 start,
			    u64 now)
{
	u32 tick = (u32)(now >> SV_FLOWLET_SHIFT);
	int opens = sv_choice_begin(c, paths, start);

	if (!opens && tick - f->last_tick > gap >> SV_FLOWLET_SHIFT) {
		sv_choice_next(c, paths);
		opens = 1;
	}
	f->last_tick = tick;
	return opens;
}

#endif
