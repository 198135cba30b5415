/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The paths to one destination, and what a flow keeps of its choice among them under any scheme of balance.h. */
#ifndef SV_PATHS_H
#define SV_PATHS_H

#include "arith.h"
#include "packet.h"

/* Labels in a schedule. Weights are expressed by repeating labels. */
#define SV_MAX_LABELS 256

/* What is known of one path, by its index in the schedule. All zero: nothing yet. */
struct sv_path {
	u16 congestion; /* 1/65536 */
	u16 weight;	/* 1/65536 of the traffic; 0: as much as any other */
	u32 heard;	/* when the last feedback came, ticks of SV_PATH_SHIFT */
};

SV_ASSERT_SIZE(struct sv_path, 8);

/* A tick is 1,024 ns: 32 bits of them last 73 minutes. */
#define SV_PATH_SHIFT 10

/* What a scheme sees of a destination. */
struct sv_paths {
	const u16 *labels;    /* the schedule, immutable, with room for SV_MAX_LABELS or at least n */
	u32 n;
	struct sv_path *path; /* SV_MAX_LABELS of them; NULL where no scheme asks for them */
};

/* What a peer said of a path that our segments take: the feedback of docs/wire.md. */
struct sv_path_news {
	u8 kind; /* SV_FEEDBACK_* of encap.h; 0: nothing was said */
	u8 path; /* index in the schedule */
	u8 value;
};

/* Per flow direction, under any scheme. */
struct sv_choice {
	u32 cell;   /* number of the current flowcell or flowlet */
	u16 index;  /* place of its label in the schedule it was taken from */
	u16 label;  /* label in force for the whole cell; 0: send unmodified */
	u8 started;
	u8 scheme;  /* whose state stands beside this: SV_BALANCE_* */
	u8 pad[2];
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
