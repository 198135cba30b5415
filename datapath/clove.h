/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Clove (Katta et al. 2017, section 3.2): which path to a destination a new flowlet takes, by what its edge says of them.
 *
 * Clove-ECN: each path has a share of the flowlets. A path that is marked loses a third of its share to those that are not
 * congested; where all are, shares stay. Shares are 1/65536 and their sum is that of all paths, whatever is heard. Paths are taken
 * in turn by smooth weighted round robin.
 *
 * Clove-INT: the path whose busiest link is least utilised; among equals the one that was taken longest ago.
 *
 * Where the paper is silent:
 *  - A path is free again when no mark came for a while; nothing gives it its share back but marks on other paths, or, where
 *    sv_clove_conf.recover says so, time.
 *  - No path loses more than leaves it 1/100, or nothing would tell that it is free.
 *  - A path that is new gets the mean share of the others; what a path had that is gone is spread in proportion.
 *  - What is known of a path's utilisation halves as it ages, or a path that nobody takes would stay busy for ever.
 */
#ifndef SV_CLOVE_H
#define SV_CLOVE_H

#include "arith.h"
#include "flowlet.h"
#include "oneway.h"
#include "paths.h"

#define SV_CLOVE_ONE 65536u
#define SV_CLOVE_PATHS 64   /* the first of a schedule; further ones are not taken */
#define SV_CLOVE_FLOOR 655u /* 1/100. SV_CLOVE_PATHS of them are less than one. */

/* sv_clove_conf.masks */
#define SV_CLOVE_MASKS_GUESTS 0 /* virtual congestion control counts every mark */
#define SV_CLOVE_MASKS_ALL 1	/* it counts none that was reported while a path is free */

/* sv_clove_conf.signal: what counts as a mark */
#define SV_CLOVE_SIGNAL_ECN 0
#define SV_CLOVE_SIGNAL_DELAY 1 /* a path's lateness: no switch needs to mark */

/* i from 0 to n - 1, n at most SV_CLOVE_PATHS. The BPF verifier would else know n behind each loop, and follow the next one for every n. */
#define SV_CLOVE_EACH(i, n) for (u32 i = 0, end_ = sv_forget8(n); i < SV_CLOVE_PATHS && i < end_; i++)

struct sv_clove_conf {
	u32 gap;   /* ns: a pause that ends a flowlet */
	u32 relay; /* ns: least time between two feedbacks on one path */
	u32 clear; /* ns. Clove-ECN: without a mark for so long a path is free. Clove-INT: what is known of utilisation halves in it */
	u32 masks; /* Clove-ECN: SV_CLOVE_MASKS_* */
	u32 recover; /* ns. Clove-ECN: after so long without a mark a path gets back of its share; 0: never */
	u32 signal;  /* Clove-ECN: SV_CLOVE_SIGNAL_* */
	u32 late;    /* ns. With SV_CLOVE_SIGNAL_DELAY: a path that is later than another by more is congested */
	u32 most;    /* ns. Clove-ECN: as in sv_flowlet_conf */
};

/* Ticks without a mark after which a path gets back of its share, at least those after which it is free; 0: never. */
SV_FN u32 sv_clove_after(const struct sv_clove_conf *conf)
{
	return conf->recover ? sv_max32(sv_max32(conf->recover, conf->clear) >> SV_PATH_SHIFT, 1) : 0;
}

SV_FN u32 sv_clove_count(const struct sv_paths *paths)
{
	return sv_min32(paths->n, SV_CLOVE_PATHS);
}

/* Marked, and not for longer than `clear` ticks. */
SV_FN int sv_clove_congested(const struct sv_path *path, u32 clear, u32 tick)
{
	return (int)((1 - sv_is_zero(path->congestion)) & (1 - sv_is_above(sv_path_since(path->heard, tick), clear)));
}

/* Are all of them? n is at most SV_CLOVE_PATHS. Where there is none, none is congested. */
SV_FN int sv_clove_all_congested(const struct sv_path *path, u32 n, u32 clear, u32 tick)
{
	u32 congested = 0;

	SV_CLOVE_EACH(i, n)
		congested += (u32)sv_clove_congested(&path[i], clear, tick);
	return n && congested == n;
}

/* Do shares have the right sum, and does every path have one? They do until paths come or go. */
SV_FN int sv_clove_settled(const struct sv_path *path, u32 n)
{
	u32 sum = 0, without = 0;

	SV_CLOVE_EACH(i, n) {
		sum += path[i].weight;
		without += sv_is_zero(path[i].weight);
	}
	return sum == SV_CLOVE_ONE && !without;
}

/* Of its share, what is above the floor, at least 1. */
SV_FN u32 sv_clove_above(const struct sv_path *path)
{
	return sv_select32(sv_is_above(path->weight, SV_CLOVE_FLOOR + 1), path->weight, SV_CLOVE_FLOOR + 1) - SV_CLOVE_FLOOR;
}

/*
 * Shares for n paths, of which some may have one. What is above the floor is scaled; the first paths get what division leaves.
 * The rotation begins anew.
 */
SV_FN void sv_clove_settle(struct sv_path *path, u32 n)
{
	u32 sum = 0, with = 0, above = 0, room, rest, mean;

	if (!n || n > SV_CLOVE_PATHS)
		return;
	SV_CLOVE_EACH(i, n) {
		sum += path[i].weight;
		with += 1 - sv_is_zero(path[i].weight);
	}
	mean = with ? sum / with : SV_CLOVE_ONE / n;
	SV_CLOVE_EACH(i, n) {
		path[i].weight = sv_select32(sv_is_zero(path[i].weight), mean, path[i].weight);
		above += sv_clove_above(&path[i]);
	}
	room = rest = SV_CLOVE_ONE - n * SV_CLOVE_FLOOR;
	SV_CLOVE_EACH(i, n) {
		u32 share = (u32)((u64)sv_clove_above(&path[i]) * room / above);

		path[i].weight = SV_CLOVE_FLOOR + share;
		path[i].turn = 0;
		rest -= share;
	}
	SV_CLOVE_EACH(i, n) {
		u32 more = 1 - sv_is_zero(rest);

		path[i].weight += more;
		rest -= more;
	}
}

/* A path without a mark for longer than `clear` ticks is free. Returns how many of n are. */
SV_FN u32 sv_clove_clear(struct sv_path *path, u32 n, u32 clear, u32 tick)
{
	u32 free = 0;

	SV_CLOVE_EACH(i, n) {
		u32 congested = (u32)sv_clove_congested(&path[i], clear, tick);

		path[i].congestion &= (u16)(0u - congested);
		free += 1 - congested;
	}
	return free;
}

/*
 * A mark on path `at`: it is congested, and a third of its share goes to the paths that are not, in equal parts; the first of
 * these get what division leaves. A mark that comes within `deaf` ticks of the last one on this path is the same: a segment's
 * packets all carry its feedback, and a peer that says more than it should moves no more. All times in ticks.
 */
SV_FN void sv_clove_mark(struct sv_path *path, u32 n, u32 at, u32 deaf, u32 clear, u32 tick)
{
	struct sv_path *marked = &path[at & (SV_CLOVE_PATHS - 1)];
	u32 free, cut, share, rest;

	if (at >= n || n > SV_CLOVE_PATHS || (marked->congestion && sv_path_since(marked->heard, tick) < deaf))
		return;
	if (!sv_clove_settled(path, n))
		sv_clove_settle(path, n);
	marked->congestion = 0xffff;
	marked->heard = marked->eased = tick;
	marked->marks++;
	free = sv_clove_clear(path, n, clear, tick);
	if (!free)
		return;
	cut = sv_min32(marked->weight / 3, marked->weight - SV_CLOVE_FLOOR);
	marked->weight -= cut;
	share = cut / free;
	rest = cut % free;
	SV_CLOVE_EACH(i, n) {
		u32 gets = sv_is_zero(path[i].congestion), more = gets & (1 - sv_is_zero(rest));

		path[i].weight += (share & (0u - gets)) + more;
		rest -= more;
	}
}

/*
 * What path `at` gets back now of what it lacks to `mean`: an eighth for each time `after` since it last lost or got something, rounded
 * up, so that all comes back in the end.
 */
SV_FN u32 sv_clove_due(const struct sv_path *path, u32 mean, u32 after, u32 tick)
{
	u32 times = sv_path_since(path->eased, tick) / after;
	u32 lacks = mean - sv_select32(sv_is_above(mean, path->weight), path->weight, mean);

	times = sv_select32(sv_is_above(times, 8), 8, times);
	return (lacks * times + 7) / 8;
}

/* Of its share, what is above `mean`. */
SV_FN u32 sv_clove_excess(const struct sv_path *path, u32 mean)
{
	return sv_select32(sv_is_above(path->weight, mean), path->weight, mean) - mean;
}

/*
 * Shares drift back to equal ones: paths that were not marked for `after` ticks get of what they lack, from those that have more than
 * the mean, in proportion; the first of these give what division leaves. No path that gives ends below the mean, none that gets above
 * it. `after` 0: nothing moves.
 */
SV_FN void sv_clove_recover(struct sv_path *path, u32 n, u32 after, u32 tick)
{
	u32 mean, gets = 0, excess = 0, rest;

	if (!after || !n || n > SV_CLOVE_PATHS)
		return;
	if (!sv_clove_settled(path, n))
		sv_clove_settle(path, n);
	mean = SV_CLOVE_ONE / n;
	SV_CLOVE_EACH(i, n) {
		gets += sv_clove_due(&path[i], mean, after, tick);
		excess += sv_clove_excess(&path[i], mean);
	}
	/* All that is lacking is at most all that is above the mean, since the shares' sum is at least n times the mean. */
	if (!gets || gets > excess)
		return;
	rest = gets;
	SV_CLOVE_EACH(i, n)
		rest -= (u32)((u64)sv_clove_excess(&path[i], mean) * gets / excess);
	SV_CLOVE_EACH(i, n) {
		u32 has = sv_clove_excess(&path[i], mean), due = sv_clove_due(&path[i], mean, after, tick);
		u32 gives = (u32)((u64)has * gets / excess), more = sv_is_above(has, gives) & (1 - sv_is_zero(rest));

		path[i].eased = sv_select32(sv_is_zero(due), path[i].eased, tick);
		path[i].weight += due - gives - more;
		rest -= more;
	}
}

/* The path of the next flowlet, by shares. */
SV_FN u32 sv_clove_next(struct sv_path *path, u32 n)
{
	u32 best = sv_forget8(0);

	if (!sv_clove_settled(path, n))
		sv_clove_settle(path, n);
	SV_CLOVE_EACH(i, n) {
		path[i].turn += (s32)path[i].weight;
		if (path[i].turn > path[best & (SV_CLOVE_PATHS - 1)].turn)
			best = sv_forget8(i);
	}
	path[best & (SV_CLOVE_PATHS - 1)].turn -= (s32)SV_CLOVE_ONE;
	return best;
}

/*
 * The lateness of path `at` was told. By more than `late` ticks behind another path, of which that is known from not more than `clear`
 * ticks ago, is a mark.
 */
SV_FN void sv_clove_told(struct sv_path *path, u32 n, u32 at, u32 late, u32 deaf, u32 clear, u32 tick)
{
	if (at >= n || n > SV_CLOVE_PATHS)
		return;
	if (sv_oneway_behind(path, n, at, path[at & (SV_CLOVE_PATHS - 1)].late, clear, SV_ONEWAY_MOST, tick) > late)
		sv_clove_mark(path, n, at, deaf, clear, tick);
}

/* A path's busiest link is utilised so much, in 1/255. */
SV_FN void sv_clove_utilised(struct sv_path *path, u8 value, u32 tick)
{
	path->congestion = (u16)(value * 257u);
	path->heard = tick;
}

/* The path of the next flowlet, by utilisation; what is known halves every `age` ticks, which is not 0. */
SV_FN u32 sv_clove_least(struct sv_path *path, u32 n, u32 age, u32 tick)
{
	u32 best = 0, least = 0xffffffff, oldest = 0, newest = path[0].taken;

	SV_CLOVE_EACH(i, n) {
		u32 halvings = sv_path_since(path[i].heard, tick) / age, taken = path[i].taken, known, better, newer;

		known = (u32)path[i].congestion >> sv_select32(sv_is_above(halvings, 16), 16, halvings);
		better = sv_is_above(least, known) | (sv_is_zero(known ^ least) & (taken - oldest) >> 31);
		best = sv_select32(better, i, best);
		least = sv_select32(better, known, least);
		oldest = sv_select32(better, taken, oldest);
		newer = sv_is_above(0x80000000u, taken - newest); /* or the same */
		newest = sv_select32(newer, taken, newest);
	}
	path[best & (SV_CLOVE_PATHS - 1)].taken = newest + 1;
	return best;
}

/* Note a segment. Its flowlet takes the path that was found for it, or else the next one. Returns 1 when the segment opens one. */
SV_FN int sv_clove_egress(struct sv_flowlet *f, struct sv_choice *c, u32 gap, const struct sv_paths *paths, u32 start, u64 now)
{
	int first = !c->started;

	if (!sv_flowlet_opens(f, c, gap, now))
		return 0;
	if (paths->offer)
		sv_choice_enter(c, paths, paths->offer - 1);
	else
		sv_choice_enter(c, paths, first ? start : (u32)c->index + 1);
	return 1;
}

#endif
