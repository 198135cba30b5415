/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Clove's weights (Katta et al. 2017, section 3.2): each path to a destination has a share of the new flowlets. A path that is
 * marked loses a third of its share to those that are not congested; where all are, shares stay. Shares are 1/65536 and their
 * sum is that of all paths, whatever is heard. Paths are taken in turn by smooth weighted round robin.
 */
#ifndef SV_CLOVE_H
#define SV_CLOVE_H

#include "arith.h"

#define SV_CLOVE_ONE 65536u
#define SV_CLOVE_PATHS 64   /* at most so many to one destination */
#define SV_CLOVE_FLOOR 655u /* 1/100: no path loses more, or nothing would tell that it is free again */

/* One path. All zero: nothing was heard, and no share was given yet. */
struct sv_clove_path {
	u32 weight;   /* 1/65536 */
	s32 turn;     /* account of the round robin, 1/65536 */
	u32 marked;   /* when it was marked last, ticks of SV_PATH_SHIFT */
	u8 congested; /* 1: marked, and not free since */
	u8 pad[3];
};

SV_ASSERT_SIZE(struct sv_clove_path, 16);

/* Equal shares for n paths, 1 to SV_CLOVE_PATHS; the first ones get what division leaves. */
SV_FN void sv_clove_begin(struct sv_clove_path *path, u32 n)
{
	u32 share, rest;

	if (!n || n > SV_CLOVE_PATHS)
		return;
	share = SV_CLOVE_ONE / n;
	rest = SV_CLOVE_ONE % n;
	for (u32 i = 0; i < SV_CLOVE_PATHS && i < n; i++) {
		struct sv_clove_path fresh = { .weight = share + (i < rest) };

		path[i] = fresh;
	}
}

/* Paths without a mark for `clear` ticks are free again. Returns how many are congested. */
SV_FN u32 sv_clove_clear(struct sv_clove_path *path, u32 n, u32 clear, u32 tick)
{
	u32 congested = 0;

	for (u32 i = 0; i < SV_CLOVE_PATHS && i < n; i++) {
		if (path[i].congested && tick - path[i].marked > clear)
			path[i].congested = 0;
		congested += path[i].congested;
	}
	return congested;
}

/*
 * A mark on path `at`: it is congested, and a third of its share goes to the paths that are not, in equal parts; the first of
 * these get what division leaves. Returns how many paths are congested now.
 */
SV_FN u32 sv_clove_mark(struct sv_clove_path *path, u32 n, u32 at, u32 clear, u32 tick)
{
	u32 congested, cut, share, rest, floor = sv_min32(SV_CLOVE_FLOOR, SV_CLOVE_ONE / (n ? n : 1));

	if (at >= n || n > SV_CLOVE_PATHS)
		return 0;
	path[at & (SV_CLOVE_PATHS - 1)].congested = 1;
	path[at & (SV_CLOVE_PATHS - 1)].marked = tick;
	congested = sv_clove_clear(path, n, clear, tick);
	if (congested >= n)
		return congested;
	cut = path[at & (SV_CLOVE_PATHS - 1)].weight;
	cut = cut > floor ? sv_min32(cut / 3, cut - floor) : 0;
	path[at & (SV_CLOVE_PATHS - 1)].weight -= cut;
	share = cut / (n - congested);
	rest = cut % (n - congested);
	for (u32 i = 0; i < SV_CLOVE_PATHS && i < n; i++) {
		if (path[i].congested)
			continue;
		path[i].weight += share + !!rest;
		rest -= !!rest;
	}
	return congested;
}

/* The path of the next flowlet. */
SV_FN u32 sv_clove_next(struct sv_clove_path *path, u32 n)
{
	u32 best = 0;

	for (u32 i = 0; i < SV_CLOVE_PATHS && i < n; i++) {
		path[i].turn += (s32)path[i].weight;
		if (path[i].turn > path[best & (SV_CLOVE_PATHS - 1)].turn)
			best = i;
	}
	path[best & (SV_CLOVE_PATHS - 1)].turn -= (s32)SV_CLOVE_ONE;
	return best;
}

#endif
