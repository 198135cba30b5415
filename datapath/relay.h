/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What an edge has yet to tell one peer of the paths that the peer's packets took. A packet to the peer carries one feedback:
 * the path that has waited longest. A path is named by the low byte of its label. Zeroed state has nothing to tell.
 */
#ifndef SV_RELAY_H
#define SV_RELAY_H

#include "arith.h"
#include "encap.h"
#include "paths.h"

struct sv_relay {
	u8 kind[SV_MAX_LABELS];	 /* SV_FEEDBACK_*, by path; none: the path does not wait */
	u8 value[SV_MAX_LABELS];
	u8 queue[SV_MAX_LABELS]; /* paths that wait, a ring from `head` */
	u16 n;
	u8 head;
	u8 counted; /* 1: the last feedback was not of a path (owed.h) */
};

SV_ASSERT_SIZE(struct sv_relay, 772);

/* A packet that took this path brought news. The newest value counts; a mark stays until it is told. */
SV_FN void sv_relay_note(struct sv_relay *r, const struct sv_path_news *news)
{
	u8 waiting = r->kind[news->path];

	if (!news->kind || (waiting == SV_FEEDBACK_CE && news->kind != SV_FEEDBACK_CE))
		return;
	r->kind[news->path] = news->kind;
	r->value[news->path] = news->value;
	if (waiting)
		return;
	r->queue[(u8)(r->head + r->n)] = news->path;
	r->n++;
}

/* The feedback for a packet to the peer. Returns 0 if there is none. */
SV_FN int sv_relay_take(struct sv_relay *r, struct sv_path_news *news)
{
	u8 path;

	if (!r->n)
		return 0;
	path = r->queue[r->head];
	r->head++;
	r->n--;
	news->kind = r->kind[path];
	news->path = path;
	news->value = r->value[path];
	r->kind[path] = SV_FEEDBACK_NONE;
	return 1;
}

#endif
