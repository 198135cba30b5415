/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What an edge has yet to tell one peer of the paths that the peer's packets took. A packet to the peer carries one feedback:
 * the path that has waited longest, of those that were not told of lately. A path is named by the low byte of its label. Zeroed
 * state has nothing to tell.
 *
 * For path delays (oneway.h) it also keeps which packets to the peer carry a stamp, the time at which they leave, in the place for
 * feedback: one packet of a path now and then. And what stamps that came say of the peer's paths: their lateness is feedback like a
 * utilisation, which a peer that stamps does not ask for.
 */
#ifndef SV_RELAY_H
#define SV_RELAY_H

#include "arith.h"
#include "ecn.h"
#include "encap.h"
#include "oneway.h"
#include "paths.h"

/* Waiting paths that one packet looks at; the others have their turn with the next ones. */
#define SV_RELAY_LOOKS 8

struct sv_relay {
	u32 told[SV_MAX_LABELS]; /* when it was told of last, ticks of SV_PATH_SHIFT; 0: never */
	u32 stamped[SV_MAX_LABELS]; /* when a packet on this path to the peer was last stamped, ticks without the lowest bit; 0: never. SV_RELAY_PASSED */
	u16 stamp[SV_MAX_LABELS];   /* the last one that came on this path from the peer; 0: none */
	struct sv_oneway oneway;
	u8 kind[SV_MAX_LABELS];	 /* SV_FEEDBACK_*, by path; none: the path does not wait */
	u8 value[SV_MAX_LABELS];
	u8 queue[SV_MAX_LABELS]; /* paths that wait, a ring from `head` */
	u16 n;
	u8 head;
	u8 counted; /* 1: the last feedback was not of a path (owed.h) */
};

SV_ASSERT_SIZE(struct sv_relay, 3344);

/* Of sv_relay.stamped: since then a packet of the path was due for a stamp, and had feedback. */
#define SV_RELAY_PASSED 1u

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

/* A packet that arrived from the peer with this label, and was marked on its path or not. */
SV_FN void sv_relay_harvest(struct sv_relay *r, const struct sv_packet *p, u16 label)
{
	struct sv_path_news news = { .kind = SV_FEEDBACK_CE, .path = (u8)label };

	if (label && sv_ecn_path_marked(p))
		sv_relay_note(r, &news);
}

/*
 * A packet that left the peer at `stamp` arrived with this label. All packets of a segment have the stamp of the first: the others say
 * nothing.
 */
SV_FN void sv_relay_arrived(struct sv_relay *r, u16 label, u16 stamp, u32 tick)
{
	struct sv_path_news news = { .kind = SV_FEEDBACK_UTILISATION, .path = (u8)label };
	u32 late;

	if (!label || !stamp || r->stamp[news.path] == stamp)
		return;
	r->stamp[news.path] = stamp;
	late = sv_oneway_arrived(&r->oneway, stamp, tick);
	news.value = sv_oneway_code(late, r->oneway.epoch);
	sv_relay_note(r, &news);
}

/* Is a packet to the peer with this label to be stamped, if `least` ticks lie between two on a path? 0: none is. */
SV_FN int sv_relay_stamps(const struct sv_relay *r, u16 label, u32 least, u32 tick)
{
	u32 last = r->stamped[label & 0xff] & ~SV_RELAY_PASSED;

	return label && least && (!last || sv_path_since(last, tick) >= least);
}

/* Did the last packet that was due for a stamp go without? Then this one does not. */
SV_FN int sv_relay_passed(const struct sv_relay *r, u16 label)
{
	return r->stamped[label & 0xff] & SV_RELAY_PASSED;
}

SV_FN void sv_relay_pass(struct sv_relay *r, u16 label)
{
	r->stamped[label & 0xff] |= SV_RELAY_PASSED;
}

SV_FN void sv_relay_stamp(struct sv_relay *r, struct sv_packet *p, u32 tick)
{
	u16 stamp = sv_oneway_stamp(tick);

	r->stamped[p->label & 0xff] = sv_max32(tick & ~SV_RELAY_PASSED, 2);
	p->feedback = SV_FEEDBACK_NONE;
	p->feedback_path = (u8)(stamp >> 8);
	p->feedback_value = (u8)stamp;
}

/*
 * The feedback for a packet to the peer. `least`: ticks between two on one path; what comes between is told after. Returns 0 if there
 * is none.
 */
SV_FN int sv_relay_take(struct sv_relay *r, u32 least, u32 tick, struct sv_path_news *news)
{
	u32 waiting = r->n;

	for (u32 i = 0; i < SV_RELAY_LOOKS && i < waiting; i++) {
		u8 path = r->queue[r->head];

		r->head++;
		if (r->told[path] && sv_path_since(r->told[path], tick) < least) {
			r->queue[(u8)(r->head + waiting - 1)] = path;
			continue;
		}
		r->n--;
		news->kind = r->kind[path];
		news->path = path;
		news->value = r->value[path];
		r->kind[path] = SV_FEEDBACK_NONE;
		r->told[path] = tick ? tick : 1;
		return 1;
	}
	return 0;
}

/* The packet with that feedback of a path did not leave: the next one may have it at once. Newer news of the path stand. */
SV_FN void sv_relay_return(struct sv_relay *r, const struct sv_path_news *news)
{
	if (!news->kind || news->kind == SV_FEEDBACK_MARKS)
		return;
	r->told[news->path] = 0;
	if (!r->kind[news->path] || news->kind == SV_FEEDBACK_CE)
		sv_relay_note(r, news);
}

#endif
