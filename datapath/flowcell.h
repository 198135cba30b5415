/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Presto's flowcells (He et al., SIGCOMM 2015, section 3.1 and Algorithm 1): the sender cuts a flow into cells of about
 * 64 KB of payload and sends successive cells over successive paths. Segments are never split.
 *
 * Where the paper is silent: the size of a segment is its payload; the first path of a flow is random, or every mouse
 * would take the first; cell numbers are 32 bits and wrap; a new schedule takes effect together with a new cell only,
 * because the receiver relies on "one cell, one path"; a flow may be told to begin one for it (sv_choice_renew).
 */
#ifndef SV_FLOWCELL_H
#define SV_FLOWCELL_H

#include "paths.h"

struct sv_flowcell {
	u32 bytes; /* payload in the current cell */
};

/* Account for a segment. `threshold` in bytes; `start`: see sv_choice_begin. Returns 1 when the segment opens a cell. */
SV_FN int sv_flowcell_egress(struct sv_flowcell *f, struct sv_choice *c, u32 threshold, const struct sv_paths *paths,
			     u32 start, const struct sv_packet *p)
{
	u32 bytes = sv_add_sat32(f->bytes, p->payload);
	int opens = sv_choice_begin(c, paths, start);

	if (bytes > threshold) {
		/* As printed: a first segment above the threshold opens cell 1, and cell 0 stays empty. */
		bytes = p->payload;
		sv_choice_next(c, paths);
		opens = 1;
	}
	f->bytes = bytes;
	return opens;
}

/* A segment does not leave after all: what it is cut into will be counted. */
SV_FN void sv_flowcell_uncount(struct sv_flowcell *f, const struct sv_packet *p)
{
	if (f->bytes >= p->payload)
		f->bytes -= p->payload;
}

#endif
