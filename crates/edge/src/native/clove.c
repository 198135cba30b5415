/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Symbols for the tests of clove.h, which no scheme uses yet. */
#include "clove.h"

void sv_edge_clove_begin(struct sv_clove_path *path, u32 n);
u32 sv_edge_clove_mark(struct sv_clove_path *path, u32 n, u32 at, u32 clear, u32 tick);
u32 sv_edge_clove_clear(struct sv_clove_path *path, u32 n, u32 clear, u32 tick);
u32 sv_edge_clove_next(struct sv_clove_path *path, u32 n);

void sv_edge_clove_begin(struct sv_clove_path *path, u32 n)
{
	sv_clove_begin(path, n);
}

u32 sv_edge_clove_mark(struct sv_clove_path *path, u32 n, u32 at, u32 clear, u32 tick)
{
	return sv_clove_mark(path, n, at, clear, tick);
}

u32 sv_edge_clove_clear(struct sv_clove_path *path, u32 n, u32 clear, u32 tick)
{
	return sv_clove_clear(path, n, clear, tick);
}

u32 sv_edge_clove_next(struct sv_clove_path *path, u32 n)
{
	return sv_clove_next(path, n);
}
