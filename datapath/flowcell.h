/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Presto's flowcells (He et al., SIGCOMM 2015, section 3.1 and Algorithm 1): the sender cuts a flow into cells of about
 * 64 KB of payload and sends successive cells over successive paths. Segments are never split.
 *
 * Where the paper is silent: the size of a segment is its payload; the first path of a flow is random, or every mouse
 * would take the first; cell numbers are 32 bits and wrap; a new schedule takes effect together with a new cell only,
 * because the receiver relies on "one cell, one path".
 */
#ifndef SV_FLOWCELL_H
#define SV_FLOWCELL_H

#include "arith.h"
#include "packet.h"

/* Labels in a schedule. Weights are expressed by repeating labels. */
#define SV_MAX_LABELS 256

/* Per flow direction. */
struct sv_flowcell {
	u32 bytes;  /* payload in the current cell; flowlet.h: when the last segment left */
	u32 cell;   /* number of the current cell */
	u16 index;  /* place of its label in the schedule it was taken from */
	u16 label;  /* label in force for the whole cell; 0: send unmodified */
	u8 started;
	u8 pad[3];
};

SV_ASSERT_SIZE(struct sv_flowcell, 16);

/* Enter the schedule at `index`, however long it is by now. `labels` has room for SV_MAX_LABELS or at least n. */
SV_FN void sv_flowcell_enter(struct sv_flowcell *f, const u16 *labels, u32 n, u32 index)
{
	if (n > SV_MAX_LABELS)
		n = SV_MAX_LABELS;
	if (!n) {
		f->index = 0;
		f->label = 0;
		return;
	}
	index %= n;
	f->index = (u16)index;
	f->label = labels[sv_mask(index, SV_MAX_LABELS - 1)];
}

/* Write the cell and the label in force into a segment. */
SV_FN void sv_flowcell_stamp(const struct sv_flowcell *f, struct sv_packet *p)
{
	if (!f->label)
		return;
	p->label = f->label;
	p->cell = f->cell;
	p->has_cell = 1;
	p->dirty |= SV_DIRTY_LABEL;
}

/*
 * Account for a segment, and give it its cell and label. `threshold` in bytes; `start` is where in the schedule this
 * flow begins, usually its hash. Returns 1 when the segment opens a cell. The caller holds the flow's lock throughout,
 * so that a cell and its label change together; the schedule is immutable and needs none.
 */
SV_FN int sv_flowcell_assign(struct sv_flowcell *f, u32 threshold, const u16 *labels, u32 n, u32 start,
			     struct sv_packet *p)
{
	u32 bytes = sv_add_sat32(f->bytes, p->payload);
	int opens = 0;

	if (!f->started) {
		f->started = 1;
		sv_flowcell_enter(f, labels, n, start);
		opens = 1;
	}
	if (bytes > threshold) {
		/* As printed: a first segment above the threshold opens cell 1, and cell 0 stays empty. */
		f->bytes = p->payload;
		f->cell++;
		sv_flowcell_enter(f, labels, n, (u32)f->index + 1);
		opens = 1;
	} else {
		f->bytes = bytes;
	}
	sv_flowcell_stamp(f, p);
	return opens;
}

#endif
