/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How much later packets arrive on one path to a destination than on another, without a clock that both ends share. A packet brings the
 * time at which it left, its stamp. The receiver subtracts it from its own time, and from the difference the least one that it has seen
 * of the peer lately: what remains is the path's lateness. Which time the clocks are apart is in all differences alike, and so in none of
 * what remains. The sender compares the latenesses of paths with one another: whatever all packets wait for, such as a last link, or a
 * clock that drifts, is in none of that. When the least difference changes, so does the meaning of a lateness: it then has another epoch,
 * of which there are two, and the sender does not compare it with those of the one before.
 *
 * Two answers follow. A flow that moves from a path to another reorders no packets if it paused for longer than the first one is later
 * than the second (sv_oneway_gap). And a path that is later than another by more than a bound is congested, without a switch that says so
 * (clove.h).
 *
 * Stamps and latenesses count ticks of paths.h. A stamp has 16 bits, so a lateness must be less than 33 ms, half of what they last.
 */
#ifndef SV_ONEWAY_H
#define SV_ONEWAY_H

#include "arith.h"
#include "delay.h"
#include "paths.h"

/* The least difference is that of one to two times so many ticks, 1.07 s: a clock that drifts by 100 us/s moves it by 0.2 ms. */
#define SV_ONEWAY_WINDOW (1u << 20)

/* Longer latenesses count as this, ticks. */
#define SV_ONEWAY_MOST 0x7fffu

/* A lateness is known for so many times the longest gap. */
#define SV_ONEWAY_FRESH 4u

/* The paths of a schedule that are compared, at most; of further ones no lateness is known. */
#define SV_ONEWAY_PATHS 64u

/* What a receiver keeps of one peer. Zeroed state has seen nothing. */
struct sv_oneway {
	u32 began;  /* when this window did, ticks */
	u16 least;  /* difference in it */
	u16 before; /* and in the one before */
	u8 known;   /* 0: none; 1: the least one; 3: both */
	u8 epoch;   /* 0 or 1: another one after every change of the lesser of both */
	u8 pad[2];
};

SV_ASSERT_SIZE(struct sv_oneway, 12);

/* The time at which a packet leaves. 0 is none. */
SV_FN u16 sv_oneway_stamp(u32 tick)
{
	return sv_max32(tick & 0xffff, 1) & 0xffff;
}

/* The least difference of both windows. */
SV_FN u16 sv_oneway_base(const struct sv_oneway *o)
{
	return o->known & 2 && (u16)(o->before - o->least) >> 15 ? o->before : o->least;
}

/* A packet arrived now that had left at `stamp`. Returns its lateness, ticks. */
SV_FN u32 sv_oneway_arrived(struct sv_oneway *o, u16 stamp, u32 tick)
{
	u16 took = (u16)(tick - stamp), was = sv_oneway_base(o), base;
	u32 age = sv_path_since(o->began, tick);

	if (!o->known || age >= 2 * SV_ONEWAY_WINDOW) {
		o->known = 1;
		o->began = tick;
		o->least = took;
	} else if (age >= SV_ONEWAY_WINDOW) {
		o->known = 3;
		o->began = tick;
		o->before = o->least;
		o->least = took;
	} else if ((u16)(took - o->least) >> 15) {
		o->least = took;
	}
	base = sv_oneway_base(o);
	o->epoch ^= base != was;
	return sv_min32((u16)(took - base), SV_ONEWAY_MOST);
}

/* A lateness in 7 bits, rounded down: below 8 exactly, above by less than an eighth of what is left. Above them its epoch. */
SV_FN u8 sv_oneway_code(u32 late, u8 epoch)
{
	u32 bits, shift;

	late = sv_min32(late, SV_ONEWAY_MOST);
	bits = sv_delay_bits(late);
	if (bits < 4)
		return (u8)(late | (epoch & 1u) << 7);
	shift = (bits - 4) & 15;
	return (u8)((shift + 1) << 3 | ((late >> shift) & 7) | (epoch & 1u) << 7);
}

/* And back; at most SV_ONEWAY_MOST, whatever it is. */
SV_FN u32 sv_oneway_late(u8 code)
{
	u32 shift = code >> 3 & 15;

	if (!shift)
		return code & 7;
	return sv_min32((8u + (code & 7)) << (shift - 1), SV_ONEWAY_MOST);
}

/* sv_path.epoch of a lateness that is of an earlier one. */
#define SV_ONEWAY_STALE 2

/* A peer told of the lateness of path `at`, of n. */
SV_FN void sv_oneway_told(struct sv_path *path, u32 n, u32 at, u8 code, u32 tick)
{
	struct sv_path *told = &path[at & (SV_ONEWAY_PATHS - 1)];
	u8 epoch = code >> 7;

	if (at >= SV_ONEWAY_PATHS || at >= n)
		return;
	told->late = (u16)sv_oneway_late(code);
	told->told = sv_max32(tick, 1);
	told->epoch = epoch;
	for (u32 i = 0, end = sv_forget8(sv_min32(n, SV_ONEWAY_PATHS)); i < SV_ONEWAY_PATHS && i < end; i++)
		path[i].epoch = (u8)sv_select32(sv_is_zero(path[i].epoch ^ epoch), epoch, SV_ONEWAY_STALE);
}

/* Is it known, from not more than `fresh` ticks ago? */
SV_FN u32 sv_oneway_known(const struct sv_path *path, u32 fresh, u32 tick)
{
	return (1 - sv_is_zero(path->told)) & (1 - sv_is_above(sv_path_since(path->told, tick), fresh)) & sv_is_above(SV_ONEWAY_STALE, path->epoch);
}

/*
 * Did packets of all of these paths but the one at `at` lately arrive where the least difference is taken? Then none of them can be earlier
 * than that by much.
 */
SV_FN int sv_oneway_all_heard(const struct sv_path *path, u32 n, u32 at, u32 tick)
{
	u32 unheard = 0;

	for (u32 i = 0, end = sv_forget8(n); i < SV_ONEWAY_PATHS && i < end; i++) {
		u32 old = sv_is_zero(path[i].told) | sv_is_above(sv_path_since(path[i].told, tick), SV_ONEWAY_WINDOW);

		unheard += old & (1 - sv_is_zero(i ^ at));
	}
	return !unheard;
}

/*
 * By how much the path at `at`, which is `own` late, is later than the earliest of the others, ticks. One whose lateness is not known counts as `unknown`. n
 * is at most SV_ONEWAY_PATHS, and `at` less.
 */
SV_FN u32 sv_oneway_behind(const struct sv_path *path, u32 n, u32 at, u32 own, u32 fresh, u32 unknown, u32 tick)
{
	u32 least = SV_ONEWAY_MOST;

	for (u32 i = 0, end = sv_forget8(n); i < SV_ONEWAY_PATHS && i < end; i++) {
		u32 late = sv_select32(sv_oneway_known(&path[i], fresh, tick), path[i].late, unknown);

		late = sv_select32(sv_is_zero(i ^ at), SV_ONEWAY_MOST, late);
		least = sv_select32(sv_is_above(least, late), late, least);
	}
	return own - sv_select32(sv_is_above(least, own), own, least);
}

/*
 * How long a flow must pause on the path at `at` before it may take any other, ticks: `least`, and by how much it is behind. Where its
 * lateness is not known, or nothing was heard of another path lately, `most`. What is not known of others any more counts as none. Never
 * more than `most`.
 */
SV_FN u32 sv_oneway_gap(const struct sv_path *path, u32 n, u32 at, u32 least, u32 most, u32 tick)
{
	u32 fresh = most * SV_ONEWAY_FRESH, own, gap;

	if (at >= n || n > SV_ONEWAY_PATHS)
		return most;
	if (!sv_oneway_all_heard(path, n, at, tick) || !sv_oneway_known(&path[at & (SV_ONEWAY_PATHS - 1)], fresh, tick))
		return most;
	own = path[at & (SV_ONEWAY_PATHS - 1)].late;
	own += own >> 3; /* it was rounded down */
	gap = sv_oneway_behind(path, n, at, own, fresh, 0, tick);
	return sv_min32(least + gap, most);
}

#endif
