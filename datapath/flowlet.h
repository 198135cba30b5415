/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Flowlet switching at the edge (Kandula et al. 2007): a flow takes another path once it has sent nothing for a while, so
 * that what went before has left the network. Which path is a choice: the next one (the comparison of Presto, SIGCOMM 2015,
 * section 5), one by hash of flow and flowlet (Edge-Flowlet as it was measured: Katta et al. 2017, section 5), or a random
 * one (Edge-Flowlet as it was described, section 3.2).
 */
#ifndef SV_FLOWLET_H
#define SV_FLOWLET_H

#include "flow.h"
#include "paths.h"

/* Which path a flowlet takes; the numbers are places in a table of crates/edge/src/balance/table.rs. */
#define SV_FLOWLET_ROUND_ROBIN 0
#define SV_FLOWLET_HASH 1
#define SV_FLOWLET_RANDOM 2

struct sv_flowlet_conf {
	u32 gap;    /* ns: a pause that ends a flowlet */
	u32 choice; /* SV_FLOWLET_* */
	u32 most;   /* ns: the gap is between both, as oneway.h says; 0: it is always `gap` */
};

struct sv_flowlet {
	u32 last_tick; /* when the flow's last segment left, in the ticks of paths; 73 minutes later it may seem to be just now */
};

/* Has the flow paused for more than `gap` ns, or not begun? */
SV_FN int sv_flowlet_ended(const struct sv_flowlet *f, const struct sv_choice *c, u32 gap, u64 now)
{
	return !c->started || sv_path_since(f->last_tick, sv_path_tick(now)) > gap >> SV_PATH_SHIFT;
}

/* Note a segment. Returns 1 when it opens a flowlet, which then has its number, and still needs a path. */
SV_FN int sv_flowlet_opens(struct sv_flowlet *f, struct sv_choice *c, u32 gap, u64 now)
{
	int opens = sv_flowlet_ended(f, c, gap, now);

	f->last_tick = sv_path_tick(now);
	if (opens)
		c->cell += c->started;
	c->started = 1;
	return opens;
}

/*
 * Note a segment. `gap` in ns; `choice`: SV_FLOWLET_*; `start`: see sv_choice_begin. A random path depends on the time: guests can
 * predict the other two. Returns 1 when the segment opens a flowlet.
 */
SV_FN int sv_flowlet_egress(struct sv_flowlet *f, struct sv_choice *c, u32 gap, u32 choice, const struct sv_paths *paths, u32 start,
			    u64 now)
{
	int first = !c->started;
	u64 hash;

	if (!sv_flowlet_opens(f, c, gap, now))
		return 0;
	if (first) {
		sv_choice_enter(c, paths, start);
	} else if (choice == SV_FLOWLET_ROUND_ROBIN) {
		sv_choice_enter(c, paths, (u32)c->index + 1);
	} else {
		hash = sv_hash_step(start, c->cell);
		if (choice == SV_FLOWLET_RANDOM)
			hash = sv_hash_step(hash, now);
		sv_choice_enter(c, paths, (u32)hash);
	}
	return 1;
}

#endif
