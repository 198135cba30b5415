/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Symbols for the tests of clove.h and oneway.h. */
#include "clove.h"
#include "oneway.h"

void sv_edge_clove_mark(struct sv_path *path, u32 n, u32 at, u32 deaf, u32 clear, u32 tick);
int sv_edge_clove_all_congested(const struct sv_path *path, u32 n, u32 clear, u32 tick);
u32 sv_edge_clove_next(struct sv_path *path, u32 n);
void sv_edge_clove_recover(struct sv_path *path, u32 n, u32 after, u32 tick);
void sv_edge_clove_utilised(struct sv_path *path, u8 value, u32 tick);
u32 sv_edge_clove_least(struct sv_path *path, u32 n, u32 clear, u32 tick);
void sv_edge_clove_told(struct sv_path *path, u32 n, u32 at, u32 late, u32 deaf, u32 clear, u32 tick);
u32 sv_edge_oneway_arrived(struct sv_oneway *o, u16 stamp, u32 tick);
u8 sv_edge_oneway_code(u32 late, u8 epoch);
u32 sv_edge_oneway_late(u8 code);
void sv_edge_oneway_told(struct sv_path *path, u32 n, u32 at, u8 code, u32 tick);
u32 sv_edge_oneway_gap(const struct sv_path *path, u32 n, u32 at, u32 least, u32 most, u32 tick);

void sv_edge_clove_mark(struct sv_path *path, u32 n, u32 at, u32 deaf, u32 clear, u32 tick)
{
	sv_clove_mark(path, n, at, deaf, clear, tick);
}

int sv_edge_clove_all_congested(const struct sv_path *path, u32 n, u32 clear, u32 tick)
{
	return sv_clove_all_congested(path, n, clear, tick);
}

u32 sv_edge_clove_next(struct sv_path *path, u32 n)
{
	return sv_clove_next(path, n);
}

void sv_edge_clove_recover(struct sv_path *path, u32 n, u32 after, u32 tick)
{
	sv_clove_recover(path, n, after, tick);
}

void sv_edge_clove_utilised(struct sv_path *path, u8 value, u32 tick)
{
	sv_clove_utilised(path, value, tick);
}

u32 sv_edge_clove_least(struct sv_path *path, u32 n, u32 clear, u32 tick)
{
	return sv_clove_least(path, n, clear, tick);
}

void sv_edge_clove_told(struct sv_path *path, u32 n, u32 at, u32 late, u32 deaf, u32 clear, u32 tick)
{
	sv_clove_told(path, n, at, late, deaf, clear, tick);
}

u32 sv_edge_oneway_arrived(struct sv_oneway *o, u16 stamp, u32 tick)
{
	return sv_oneway_arrived(o, stamp, tick);
}

u8 sv_edge_oneway_code(u32 late, u8 epoch)
{
	return sv_oneway_code(late, epoch);
}

u32 sv_edge_oneway_late(u8 code)
{
	return sv_oneway_late(code);
}

void sv_edge_oneway_told(struct sv_path *path, u32 n, u32 at, u8 code, u32 tick)
{
	sv_oneway_told(path, n, at, code, tick);
}

u32 sv_edge_oneway_gap(const struct sv_path *path, u32 n, u32 at, u32 least, u32 most, u32 tick)
{
	return sv_oneway_gap(path, n, at, least, most, tick);
}
