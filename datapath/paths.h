/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The paths to one destination, and what a flow keeps of its choice among them under any scheme of balance.h. */
#ifndef SV_PATHS_H
#define SV_PATHS_H

#include "arith.h"
#include "packet.h"

/* Labels in a schedule. Weights are expressed by repeating labels. */
#define SV_MAX_LABELS 256

/*
 * A label, which is the outer source port, names its path: two bits say so, six are free, so that a path can be looked for among 64
 * ports, and eight are the path's index. Flows that no stage labels use other ports (encap.h).
 */
#define SV_LABEL_PATH 0xc000u

SV_FN u16 sv_label(u8 index, u8 free)
{
	return (u16)(SV_LABEL_PATH | (free & 0x3fu) << 8 | index);
}

/* The index of the path that a label names, or -1. */
SV_FN int sv_label_index(u16 label)
{
	return (label & SV_LABEL_PATH) == SV_LABEL_PATH ? label & 0xff : -1;
}

/* A tick is 1,024 ns: 32 bits of them last 73 minutes. */
#define SV_PATH_SHIFT 10

SV_FN u32 sv_path_tick(u64 now)
{
	return (u32)(now >> SV_PATH_SHIFT);
}

/* Readings of two CPUs' clocks may be in the wrong order by less than this, ticks. */
#define SV_PATH_SKEW 1024

/*
 * Ticks since `then`, mod 2^32. What lies less than SV_PATH_SKEW ahead is now: a packet reads the clock before it has the lock, and meanwhile
 * another CPU may have written a later time.
 */
SV_FN u32 sv_path_since(u32 then, u32 tick)
{
	u32 since = tick - then;

	return sv_select32(sv_is_above(since, 0u - SV_PATH_SKEW), 0, since);
}

/* What is known of one path, by its place in the schedule. All zero: nothing yet. */
struct sv_path {
	u32 weight;	/* share of the new flowlets, 1/65536; 0: none was given yet */
	union {		/* of the scheme: none has both */
		s32 turn;  /* its place in the rotation, 1/65536 of a flowlet */
		u32 taken; /* when a flowlet last took it, by the scheme's own clock */
	};
	u32 heard;	/* when the last feedback that counts came, ticks */
	u32 bound;	/* when the index in its label came to name it, and no other path, ticks */
	u16 congestion; /* 1/65536 */
	u16 quiet;	/* so long after `bound`, ticks, feedback may be about the path before; 0: it is not */
	u32 marks;	/* for people: marks that counted, mod 2^32 */
	u32 eased;	/* when a mark last took of the weight, or time gave to it, ticks */
	u32 told;	/* when `late` was told, ticks; 0: never */
	u16 late;	/* how much later its packets arrive than others did, ticks: oneway.h */
	u8 epoch;	/* of `late`: 0 or 1; only those of one are comparable */
	u8 pad;
};

SV_ASSERT_SIZE(struct sv_path, 36);

/* The index of this path named another one until now: what is under way is of that. `rtt` in ns; more than 33 ms counts as that. */
SV_FN void sv_path_bind(struct sv_path *path, u64 rtt, u64 now)
{
	u64 quiet = (rtt * 2 >> SV_PATH_SHIFT) + 1;

	path->bound = sv_path_tick(now);
	path->quiet = quiet > 0xffff ? 0xffff : (u16)quiet;
}

/* ns since the last feedback that counts, of a path that had any. For people. */
SV_FN u64 sv_path_age(const struct sv_path *path, u64 now)
{
	return (u64)sv_path_since(path->heard, sv_path_tick(now)) << SV_PATH_SHIFT;
}

/* Is feedback on this path's index about the path that it names now? Under the paths' lock. */
SV_FN int sv_path_listens(struct sv_path *path, u64 now)
{
	if (!path->quiet)
		return 1;
	if (sv_path_since(path->bound, sv_path_tick(now)) < path->quiet)
		return 0;
	path->quiet = 0;
	return 1;
}

/* sv_paths.offer: the pause was too short for another path. */
#define SV_OFFER_STAY 0xffffu

/* What a scheme sees of a destination. */
struct sv_paths {
	const u16 *labels;    /* the schedule, immutable, with room for SV_MAX_LABELS or at least n */
	u32 n;
	u16 prompt;	      /* 1: flows leave a label at once that is no more where they took it from: its path may be dead */
	u16 offer;	      /* index + 1 of the path that was found for a new flowlet, or SV_OFFER_STAY; 0: none was looked for */
	struct sv_path *path; /* SV_MAX_LABELS of them; NULL where no scheme asks for them */
};

/* What a peer said of a path that our segments take: the feedback of docs/wire.md. */
struct sv_path_news {
	u8 kind; /* SV_FEEDBACK_* of encap.h; 0: nothing was said */
	u8 path; /* low byte of its label; for schemes its place in the schedule */
	u8 value;
};

/* The place of the path that feedback names by its index, the low byte of a label; n: there is none. Of several the first. */
SV_FN u32 sv_paths_place(const struct sv_paths *paths, u8 index)
{
	u32 n = paths->n > SV_MAX_LABELS ? SV_MAX_LABELS : paths->n, place = n;

	/* The bound is read anew each time, or clang makes it i != n, from which verifiers conclude nothing. */
	for (u32 i = 0; n && i < SV_MAX_LABELS && i <= sv_forget8(n - 1); i++) {
		if ((u8)paths->labels[i] == index) {
			place = sv_forget8(i);
			break;
		}
	}
	return place;
}

/* Per flow direction, under any scheme. */
struct sv_choice {
	u32 cell;   /* number of the current flowcell or flowlet */
	u16 index;  /* place of its label in the schedule it was taken from */
	u16 label;  /* label in force for the whole cell; 0: send unmodified */
	u8 started;
	u8 scheme;  /* whose state stands beside this: SV_BALANCE_* */
	u8 ect;	    /* 1: the guest has sent packets that are ECN-capable, where the scheme asks for that */
	u8 pad;
};

SV_ASSERT_SIZE(struct sv_choice, 12);

/* Enter the schedule at `index`, however long it is by now. */
SV_FN void sv_choice_enter(struct sv_choice *c, const struct sv_paths *paths, u32 index)
{
	u32 n = paths->n > SV_MAX_LABELS ? SV_MAX_LABELS : paths->n;

	if (!n) {
		c->index = 0;
		c->label = 0;
		return;
	}
	index %= n;
	c->index = (u16)index;
	c->label = paths->labels[sv_mask(index, SV_MAX_LABELS - 1)];
}

/* Cell 0, for a flow that has none yet; `start` is where in the schedule it begins, usually its hash. Returns 1 for such a flow. */
SV_FN int sv_choice_begin(struct sv_choice *c, const struct sv_paths *paths, u32 start)
{
	if (c->started)
		return 0;
	c->started = 1;
	sv_choice_enter(c, paths, start);
	return 1;
}

/* The next cell takes the next path. */
SV_FN void sv_choice_next(struct sv_choice *c, const struct sv_paths *paths)
{
	c->cell++;
	sv_choice_enter(c, paths, (u32)c->index + 1);
}

/*
 * The schedule has another label where the one in force was taken from: a new cell begins, for the receiver relies on one label a
 * cell. A path that keeps its place and gets another port is kept so. Returns 1 then.
 */
SV_FN int sv_choice_renew(struct sv_choice *c, const struct sv_paths *paths)
{
	u32 n = paths->n > SV_MAX_LABELS ? SV_MAX_LABELS : paths->n;
	u16 label = c->index < n ? paths->labels[sv_mask(c->index, SV_MAX_LABELS - 1)] : 0;

	if (label == c->label)
		return 0;
	c->cell++;
	sv_choice_enter(c, paths, c->index);
	return 1;
}

/* Write the cell and the label in force into a segment. */
SV_FN void sv_choice_stamp(const struct sv_choice *c, struct sv_packet *p)
{
	if (!c->label)
		return;
	p->label = c->label;
	p->cell = c->cell;
	p->has_cell = 1;
	p->dirty |= SV_DIRTY_LABEL;
}

/* Without state a flow keeps one path; without cells, because nothing could number them. */
SV_FN void sv_paths_by_hash(const struct sv_paths *paths, u32 hash, struct sv_packet *p)
{
	u32 n = paths->n > SV_MAX_LABELS ? SV_MAX_LABELS : paths->n;

	if (!n)
		return;
	p->label = paths->labels[sv_mask(hash % n, SV_MAX_LABELS - 1)];
	p->dirty |= SV_DIRTY_LABEL;
}

#endif
