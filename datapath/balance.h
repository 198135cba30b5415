/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Load balancing: which path a flow's segments take. A scheme has a header of its own, a number here, a member in each
 * of the two unions, and a case in each of the three hooks that it needs. Its name, parameters and their ranges stand in
 * crates/edge/src/balance/table.rs, from where everything else takes them.
 *
 * edge.h calls the hooks: sv_balance_egress under the flow's lock, which guards struct sv_balance; the other two under the
 * paths' own, which guards struct sv_path. Egress may read paths, a word at a time, without that lock.
 */
#ifndef SV_BALANCE_H
#define SV_BALANCE_H

#include "flowcell.h"
#include "flowlet.h"
#include "paths.h"

/* sv_balance_conf.scheme */
#define SV_BALANCE_ECMP 0	 /* label 0: the fabric hashes the five-tuple */
#define SV_BALANCE_RANDOM_PATH 1 /* one label per flow, drawn by its hash */
#define SV_BALANCE_FLOWCELL 2
#define SV_BALANCE_FLOWLET 3

/* sv_balance_conf.flags */
#define SV_BALANCE_TCP_ONLY 0x1 /* flows of other protocols keep the label that their hash picks: nobody restores their order */

/* A scheme's parameters are the words of its union member, in the order of the table. */
struct sv_balance_conf {
	u8 scheme; /* SV_BALANCE_* */
	u8 flags;
	u8 pad[2];
	union {
		struct {
			u32 bytes; /* payload of a cell */
		} flowcell;
		struct {
			u32 gap; /* ns */
		} flowlet;
	};
};

SV_ASSERT_SIZE(struct sv_balance_conf, 8);

/* Per flow direction; zeroed state is a flow that has sent nothing. */
struct sv_balance {
	struct sv_choice choice;
	union { /* of choice.scheme */
		struct sv_flowcell flowcell;
		struct sv_flowlet flowlet;
	};
};

SV_ASSERT_SIZE(struct sv_balance, 16);

/* Does the scheme measure times that a clock of a few milliseconds cannot? */
SV_FN int sv_balance_measures_time(const struct sv_balance_conf *conf)
{
	return conf->scheme == SV_BALANCE_FLOWLET;
}

/* Another scheme than before: the flow keeps its number and label until this one takes the next. */
SV_FN void sv_balance_change(struct sv_balance *b, u8 scheme)
{
	struct sv_balance fresh = {0};

	fresh.choice = b->choice;
	fresh.choice.scheme = scheme;
	*b = fresh;
}

/* Give a segment its label and cell. `hash` is the flow's. Returns 1 when the segment opens a flowcell or flowlet. */
SV_FN int sv_balance_egress(const struct sv_balance_conf *conf, struct sv_balance *b, const struct sv_paths *paths, u32 hash,
			    u64 now, struct sv_packet *p)
{
	u8 scheme = conf->scheme;
	int opens = 0;

	if (scheme == SV_BALANCE_ECMP)
		return 0;
	if (conf->flags & SV_BALANCE_TCP_ONLY && p->proto != SV_PROTO_TCP) {
		sv_paths_by_hash(paths, hash, p);
		return 0;
	}
	if (b->choice.scheme != scheme)
		sv_balance_change(b, scheme);
	switch (scheme) {
	case SV_BALANCE_RANDOM_PATH:
		opens = sv_choice_begin(&b->choice, paths, hash);
		break;
	case SV_BALANCE_FLOWCELL:
		opens = sv_flowcell_egress(&b->flowcell, &b->choice, conf->flowcell.bytes, paths, hash, p);
		break;
	case SV_BALANCE_FLOWLET:
		opens = sv_flowlet_egress(&b->flowlet, &b->choice, conf->flowlet.gap, paths, hash, now);
		break;
#ifdef SV_BALANCE_TEST /* a scheme with all hooks, for the tests of edge.h: crates/edge/src/native/hooks.c */
	case SV_BALANCE_TEST:
		opens = sv_test_egress(&b->choice, paths);
		break;
#endif
	}
	if (paths->prompt && sv_choice_renew(&b->choice, paths))
		opens = 1;
	sv_choice_stamp(&b->choice, p);
	return opens;
}

/* A segment that has its label does not leave after all, and comes back in pieces. Under the flow's lock. */
SV_FN void sv_balance_uncount(struct sv_balance *b, const struct sv_packet *p)
{
	if (b->choice.scheme == SV_BALANCE_FLOWCELL)
		sv_flowcell_uncount(&b->flowcell, p);
}

/* As sv_balance_egress, for a flow without state. */
SV_FN void sv_balance_stateless(const struct sv_balance_conf *conf, const struct sv_paths *paths, u32 hash, struct sv_packet *p)
{
	if (conf->scheme != SV_BALANCE_ECMP)
		sv_paths_by_hash(paths, hash, p);
}

/* A peer said something of one of the paths. Only where there are any: paths->path is not NULL. */
SV_FN void sv_balance_ingress(const struct sv_balance_conf *conf, const struct sv_paths *paths, const struct sv_path_news *news,
			      u64 now)
{
	switch (conf->scheme) {
#ifdef SV_BALANCE_TEST
	case SV_BALANCE_TEST:
		sv_test_ingress(paths, news, now);
		break;
#endif
	default: /* no scheme hears of paths yet */
		(void)paths;
		(void)news;
		(void)now;
	}
}

/* Time passed for the paths to one destination. As above. */
SV_FN void sv_balance_tick(const struct sv_balance_conf *conf, const struct sv_paths *paths, u64 now)
{
	switch (conf->scheme) {
#ifdef SV_BALANCE_TEST
	case SV_BALANCE_TEST:
		sv_test_tick(paths, now);
		break;
#endif
	default:
		(void)paths;
		(void)now;
	}
}

#endif
