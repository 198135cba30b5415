/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A scheme for tests, with all hooks of balance.h: every segment takes the path whose busiest link is least utilised. Time
 * halves what is known. Included before edge.h, which then has it as scheme SV_BALANCE_TEST.
 */
#ifndef SV_TOY_H
#define SV_TOY_H

#include "paths.h"

static int sv_test_egress(struct sv_choice *c, const struct sv_paths *paths)
{
	u32 best = 0;

	for (u32 i = 1; paths->path && i < paths->n; i++)
		best = paths->path[i].congestion < paths->path[best].congestion ? i : best;
	sv_choice_enter(c, paths, best);
	return 1;
}

static void sv_test_ingress(const struct sv_paths *paths, const struct sv_path_news *news, u64 now)
{
	paths->path[news->path].congestion = (u16)(news->value << 8);
	paths->path[news->path].heard = (u32)(now >> SV_PATH_SHIFT);
}

static void sv_test_tick(const struct sv_paths *paths, u64 now)
{
	(void)now;
	for (u32 i = 0; i < paths->n; i++)
		paths->path[i].congestion /= 2;
}

/* A flow chooses by itself. */
#define sv_test_wants() ((struct sv_balance_wants){0})
#define sv_test_offer(paths) ((u16)0)

#endif
