/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Load balancing: which path a flow's segments take. A scheme has a header of its own, a number here, a member in each
 * of the two unions, a case in sv_balance_egress, and one in each of the other hooks that it needs. What it wants beside that it says
 * in sv_balance_wants. Its name, parameters and their ranges stand in crates/edge/src/balance/table.rs, from where everything else takes
 * them.
 *
 * edge.h calls the hooks: sv_balance_egress under the flow's lock, which guards struct sv_balance; offer, ingress and tick under the
 * paths' own, which guards struct sv_path. Locks are never nested, so a scheme whose choice changes what is known of paths has
 * it made before, by sv_balance_offer, when sv_balance_asks says that a flowlet is about to begin. Egress may read paths, a word at a
 * time, without their lock: not in the kernel, where it has none of them; offer has.
 */
#ifndef SV_BALANCE_H
#define SV_BALANCE_H

#include "clove.h"
#include "ecn.h"
#include "flowcell.h"
#include "flowlet.h"
#include "paths.h"

/* sv_balance_conf.scheme */
#define SV_BALANCE_ECMP 0	 /* label 0: the fabric hashes the five-tuple */
#define SV_BALANCE_RANDOM_PATH 1 /* one label per flow, drawn by its hash */
#define SV_BALANCE_FLOWCELL 2
#define SV_BALANCE_FLOWLET 3
#define SV_BALANCE_CLOVE 4     /* Clove-ECN */
#define SV_BALANCE_CLOVE_INT 5

/* sv_balance_conf.flags */
#define SV_BALANCE_TCP_ONLY 0x1 /* flows of other protocols keep the label that their hash picks: nobody restores their order */

/* A scheme's parameters are the words of its union member, in the order of the table. */
struct sv_balance_conf {
	u8 scheme; /* SV_BALANCE_* */
	u8 flags;
	u8 pad[6];
	union {
		struct {
			u32 bytes; /* payload of a cell */
		} flowcell;
		struct sv_flowlet_conf flowlet;
		struct sv_clove_conf clove;
	};
};

SV_ASSERT_SIZE(struct sv_balance_conf, 40);

/* Per flow direction; zeroed state is a flow that has sent nothing. */
struct sv_balance {
	struct sv_choice choice;
	union { /* of choice.scheme */
		struct sv_flowcell flowcell;
		struct sv_flowlet flowlet; /* of Clove, too */
	};
};

SV_ASSERT_SIZE(struct sv_balance, 16);

/* Of which flowlets sv_balance_offer finds the path: of none, of all but a flow's first, of all. */
#define SV_OFFERS_NONE 0
#define SV_OFFERS_LATER 1
#define SV_OFFERS_ALL 2

/* What a scheme wants beside its label. Zero is the default of each, and suits a scheme without states of paths. */
struct sv_balance_wants {
	u32 gap;    /* a pause that ends a flowlet, ns: it needs a clock that measures that; 0: it has no flowlets */
	u32 most;   /* the longest gap, where it follows the delays of paths, ns; 0: it does not */
	u32 relay;  /* least time between two feedbacks to a peer on one path, and between two stamps, ticks */
	u32 takes;  /* paths of a schedule: nothing is known of further ones; 0: all */
	u8 keeps;   /* states of paths, which hooks change: it needs the exact time of what is heard, too */
	u8 offers;  /* SV_OFFERS_* */
	u8 stamps;  /* packets are stamped for the delay of their path */
	u8 answers; /* to marks on the outer header, by taking other paths: guests need not */
	u8 hides;   /* where it answers: such marks from virtual congestion control, too, while a path is free */
};

/* A scheme has a case here if it wants anything. */
SV_FN struct sv_balance_wants sv_balance_wants(const struct sv_balance_conf *conf)
{
	struct sv_balance_wants w = {0};

	switch (conf->scheme) {
#ifdef SV_BALANCE_TEST
	case SV_BALANCE_TEST:
		w = sv_test_wants();
		break;
#endif
	case SV_BALANCE_FLOWLET:
		w.gap = conf->flowlet.gap;
		w.most = conf->flowlet.most;
		w.relay = w.most >> (SV_PATH_SHIFT + 2);
		w.keeps = w.stamps = w.most != 0;
		w.offers = w.most ? SV_OFFERS_LATER : SV_OFFERS_NONE;
		break;
	case SV_BALANCE_CLOVE:
	case SV_BALANCE_CLOVE_INT:
		w.gap = conf->clove.gap;
		w.relay = conf->clove.relay >> SV_PATH_SHIFT;
		w.takes = SV_CLOVE_PATHS;
		w.keeps = 1;
		w.offers = SV_OFFERS_ALL;
		if (conf->scheme == SV_BALANCE_CLOVE_INT)
			break;
		w.most = conf->clove.most;
		w.stamps = w.most || conf->clove.signal == SV_CLOVE_SIGNAL_DELAY;
		w.answers = conf->clove.signal == SV_CLOVE_SIGNAL_ECN;
		w.hides = conf->clove.masks == SV_CLOVE_MASKS_ALL;
		break;
	}
	return w;
}

/* Does the scheme measure times that a clock of a few milliseconds cannot? */
SV_FN int sv_balance_measures_time(const struct sv_balance_conf *conf)
{
	return sv_balance_wants(conf).gap != 0;
}

/* Does it answer to marks on the outer header by taking other paths? Then guests need not. */
SV_FN int sv_balance_answers(const struct sv_balance_conf *conf)
{
	return sv_balance_wants(conf).answers;
}

/* Where sv_balance_answers: 0 if marks are kept from virtual congestion control, too, while a path is free; else 1. */
SV_FN u32 sv_balance_shows_law(const struct sv_balance_conf *conf)
{
	return 1u ^ sv_balance_wants(conf).hides;
}

/* When the flow last had a segment, ticks: of schemes with flowlets. */
SV_FN u32 sv_balance_last(const struct sv_balance *b)
{
	return b->flowlet.last_tick;
}

/* The longest gap of flowlets, where the gap follows the delays of paths, ns; 0: it does not. */
SV_FN u32 sv_balance_most(const struct sv_balance_conf *conf)
{
	return sv_balance_wants(conf).most;
}

/* Does it keep states of paths, which hooks change? Then it needs the exact time of what is heard, too. */
SV_FN int sv_balance_keeps(const struct sv_balance_conf *conf)
{
	return sv_balance_wants(conf).keeps;
}

/* Least time between two feedbacks to a peer on one path, ticks. */
SV_FN u32 sv_balance_relay(const struct sv_balance_conf *conf)
{
	return sv_balance_wants(conf).relay;
}

/* Ticks between two packets on one path that are stamped for its delay; 0: none is. */
SV_FN u32 sv_balance_stamps(const struct sv_balance_conf *conf)
{
	struct sv_balance_wants w = sv_balance_wants(conf);

	return w.stamps ? sv_max32(w.relay, 1) : 0;
}

/* How many paths of a schedule it takes; what is known of further ones is nothing. */
SV_FN u32 sv_balance_takes(const struct sv_balance_conf *conf)
{
	u32 takes = sv_balance_wants(conf).takes;

	return takes ? takes : SV_MAX_LABELS;
}

/* The gap of a flowlet that now has a segment, ns: sv_balance_offer has found that the pause was long enough, or was not asked. */
SV_FN u32 sv_balance_gap(const struct sv_balance_conf *conf, u32 gap, const struct sv_paths *paths)
{
	u32 most = sv_balance_most(conf);

	if (!most)
		return gap;
	if (paths->offer == SV_OFFER_STAY)
		return 0xffffffff;
	return paths->offer ? gap : sv_max32(gap, most);
}

/* Another scheme than before: the flow keeps its number and label until this one takes the next. */
SV_FN void sv_balance_change(struct sv_balance *b, u8 scheme)
{
	struct sv_balance fresh = {0};

	fresh.choice = b->choice;
	fresh.choice.scheme = scheme;
	*b = fresh;
}

/* Does the segment belong to a flowlet of this scheme, so that a path can be left? Without the flow's lock. */
SV_FN int sv_balance_paused(const struct sv_balance_conf *conf, const struct sv_balance *b, const struct sv_packet *p)
{
	return b->choice.started && b->choice.scheme == conf->scheme && !(p->proto == SV_PROTO_TCP && p->tcp_flags & SV_TCP_SYN);
}

/*
 * Will this segment open a flowlet whose path sv_balance_offer is to find? Without the flow's lock: where the answer is wrong, egress
 * takes a path without an offer, or leaves one unused.
 */
SV_FN int sv_balance_asks(const struct sv_balance_conf *conf, const struct sv_balance *b, const struct sv_packet *p, u64 now)
{
	struct sv_balance_wants w = sv_balance_wants(conf);

	if (conf->flags & SV_BALANCE_TCP_ONLY && p->proto != SV_PROTO_TCP)
		return 0;
	if (!w.offers)
		return 0;
	if (!sv_balance_paused(conf, b, p))
		return w.offers == SV_OFFERS_ALL;
	return sv_flowlet_ended(&b->flowlet, &b->choice, w.gap, now);
}

/*
 * Which path the next flowlet takes: its index + 1; or SV_OFFER_STAY: none begins. `from`: index + 1 of the path that the flow is on, 0 if
 * on none; `pause`: since its last segment, ticks. Only where there are paths: paths->path is not NULL, and n not 0.
 */
SV_FN u16 sv_balance_offer(const struct sv_balance_conf *conf, const struct sv_paths *paths, u32 from, u32 pause, u64 now)
{
	struct sv_balance_wants w = sv_balance_wants(conf);
	u32 most = w.most >> SV_PATH_SHIFT, tick = sv_path_tick(now);

	if (most && from && pause <= sv_oneway_gap(paths->path, paths->n, from - 1, w.gap >> SV_PATH_SHIFT, most, tick))
		return SV_OFFER_STAY;
	switch (conf->scheme) {
#ifdef SV_BALANCE_TEST
	case SV_BALANCE_TEST:
		return sv_test_offer(paths);
#endif
	case SV_BALANCE_CLOVE:
		sv_clove_recover(paths->path, sv_clove_count(paths), sv_clove_after(&conf->clove), tick);
		return (u16)(sv_clove_next(paths->path, sv_clove_count(paths)) + 1);
	case SV_BALANCE_CLOVE_INT:
		return (u16)(sv_clove_least(paths->path, sv_clove_count(paths), sv_max32(conf->clove.clear >> SV_PATH_SHIFT, 1), tick) + 1);
	}
	return 1; /* which path it is says the flow */
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
		opens = sv_flowlet_egress(&b->flowlet, &b->choice, sv_balance_gap(conf, conf->flowlet.gap, paths), conf->flowlet.choice,
					  paths, hash, now);
		break;
	case SV_BALANCE_CLOVE:
	case SV_BALANCE_CLOVE_INT:
		opens = sv_clove_egress(&b->flowlet, &b->choice, sv_balance_gap(conf, conf->clove.gap, paths), paths, hash, now);
		b->choice.ect |= p->ecn != SV_ECN_NOT_ECT;
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
	if (sv_balance_answers(conf) && paths->path && b->choice.label)
		sv_ecn_ask(p);
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
	u32 deaf, clear, tick = sv_path_tick(now);

	if (news->kind == SV_FEEDBACK_UTILISATION && sv_balance_stamps(conf))
		sv_oneway_told(paths->path, paths->n, news->path, news->value, tick);
	switch (conf->scheme) {
	case SV_BALANCE_CLOVE:
		deaf = conf->clove.relay >> (SV_PATH_SHIFT + 1);
		clear = conf->clove.clear >> SV_PATH_SHIFT;
		if (news->kind == SV_FEEDBACK_CE && conf->clove.signal == SV_CLOVE_SIGNAL_ECN)
			sv_clove_mark(paths->path, sv_clove_count(paths), news->path, deaf, clear, tick);
		if (news->kind == SV_FEEDBACK_UTILISATION && conf->clove.signal == SV_CLOVE_SIGNAL_DELAY)
			sv_clove_told(paths->path, sv_clove_count(paths), news->path, conf->clove.late >> SV_PATH_SHIFT, deaf, clear, tick);
		break;
	case SV_BALANCE_CLOVE_INT:
		if (news->kind == SV_FEEDBACK_UTILISATION)
			sv_clove_utilised(&paths->path[news->path], news->value, tick);
		break;
#ifdef SV_BALANCE_TEST
	case SV_BALANCE_TEST:
		sv_test_ingress(paths, news, now);
		break;
#endif
	}
}

/* Is this path congested? For people. */
SV_FN int sv_balance_path_congested(const struct sv_balance_conf *conf, const struct sv_path *path, u64 now)
{
	return conf->scheme == SV_BALANCE_CLOVE &&
	       sv_clove_congested(path, conf->clove.clear >> SV_PATH_SHIFT, sv_path_tick(now));
}

/*
 * Are all paths to a peer congested, so that load balancing cannot help? Only where sv_balance_answers, and without the paths' lock,
 * a word at a time.
 */
SV_FN int sv_balance_congested(const struct sv_balance_conf *conf, const struct sv_paths *paths, u64 now)
{
	switch (conf->scheme) {
	case SV_BALANCE_CLOVE:
		return sv_clove_all_congested(paths->path, sv_clove_count(paths), conf->clove.clear >> SV_PATH_SHIFT, sv_path_tick(now));
	}
	return 0; /* no other scheme says of a path that it is */
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
	default: /* no scheme of the table needs time to pass */
		(void)paths;
		(void)now;
	}
}

#endif
