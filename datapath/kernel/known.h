/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is known of the paths to each peer, and what the peer is still to be told, for schemes that keep states of paths. The agent makes
 * the rows of both maps; without a row nothing is known. Functions here are global: the verifier proves each walk over paths once, and
 * not for every way that leads to it. Only for edge.bpf.c.
 */
#ifndef SV_KNOWN_H
#define SV_KNOWN_H

#include "../owed.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SV_MAX_PEERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* the agent's number */
	__type(value, struct sv_peer_paths);
} path_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SV_MAX_PEERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* the agent's number */
	__type(value, struct sv_peer_relay);
} relays SEC(".maps");

/*
 * For sv_paths.path where only the walks below look at states, which know by themselves whether there are any. Without a row a flow takes
 * its next path, and nothing is heard of it: for as long as the agent needs to make one.
 */
#define PATHS_ELSEWHERE ((struct sv_path *)1)

#define CONTAINER(pointer, type, member) ((const type *)(const void *)((const char *)(pointer) - __builtin_offsetof(type, member)))

/*
 * The agent writes states and schedule one after the other. What is heard in between names a path of the one by its place in the
 * other. Only where use_paths filled both in.
 */
static __always_inline int same_schedule(const struct sv_ctx *c)
{
	const volatile struct sv_peer_paths *known = CONTAINER(c->paths.path, struct sv_peer_paths, path);

	return known->schedule == CONTAINER(c->paths.labels, struct sv_peer, labels)->schedule;
}

/* Fills what the walks below need. Returns 0 if nothing is known of the schedule in force. */
static __always_inline int use_paths(struct sv_ctx *c, u32 id, u64 now)
{
	struct sv_peer_paths *known = bpf_map_lookup_elem(&path_states, &id);
	struct sv_peer *peer = bpf_map_lookup_elem(&peers, &id);
	u32 zero = 0;
	struct sv_config *conf = bpf_map_lookup_elem(&config, &zero);

	if (!known || !peer || !conf || known->schedule != peer->schedule)
		return 0;
	c->conf = &conf->conf;
	c->paths.labels = peer->labels;
	c->paths.n = peer->n_labels;
	c->paths.path = known->path;
	c->paths_lock = &known->lock;
	c->now = now;
	return 1;
}

/* sv_next_path, or 0: none was found. */
__noinline u32 next_path(u32 id, u32 from, u32 pause, u64 now)
{
	struct sv_ctx c = {0};

	if (!use_paths(&c, id, now) || !c.paths.n)
		return 0;
	c.from = from;
	c.pause = pause;
	return sv_next_path(&c);
}

/* sv_hear. `news`: kind, path and value, a byte each. */
__noinline int hear_of_path(u32 id, u32 news, u64 now)
{
	struct sv_ctx c = {0};

	if (!use_paths(&c, id, now))
		return 0;
	c.news.kind = (u8)(news >> 16);
	c.news.path = (u8)(news >> 8);
	c.news.value = (u8)news;
	sv_hear(&c);
	return 0;
}

/* sv_all_congested. */
__noinline int all_congested(u32 id, u64 now)
{
	struct sv_ctx c = {0};

	return use_paths(&c, id, now) && sv_all_congested(&c);
}

/* A packet of the peer with that number was marked on its path: the peer will hear of it. */
__noinline int note_mark(u32 id, const struct sv_packet *p)
{
	struct sv_peer_relay *r = bpf_map_lookup_elem(&relays, &id);
	struct sv_packet marked = {0};

	if (!r || !p)
		return 0;
	marked.wire = p->wire;
	marked.marked = p->marked;
	marked.sent_ecn = p->sent_ecn;
	bpf_spin_lock(&r->lock);
	sv_relay_harvest(&r->relay, &marked, p->label);
	bpf_spin_unlock(&r->lock);
	return 0;
}

/* A packet of the peer with that number brought a stamp: `label` is above it. The peer will hear how late its path is. */
__noinline int note_stamp(u32 id, u32 stamp, u64 now)
{
	struct sv_peer_relay *r = bpf_map_lookup_elem(&relays, &id);

	if (!r)
		return 0;
	bpf_spin_lock(&r->lock);
	sv_relay_arrived(&r->relay, (u16)(stamp >> 16), (u16)stamp, sv_path_tick(now));
	bpf_spin_unlock(&r->lock);
	return 0;
}

/* What the peer with that number is to be told goes with this packet, if anything waits, or the time at which it leaves. */
__noinline int tell_peer(u32 id, u64 now, struct sv_packet *p)
{
	struct sv_peer_relay *r = bpf_map_lookup_elem(&relays, &id);
	u32 zero = 0, stamps, tick = sv_path_tick(now);
	struct sv_config *conf = bpf_map_lookup_elem(&config, &zero);

	if (!r || !conf || !p)
		return 0;
	stamps = sv_balance_stamps(&conf->conf.balance);
	if (!r->relay.n && !(p->wire == SV_WIRE_2 && sv_relay_stamps(&r->relay, p->label, stamps, tick)))
		return 0;
	bpf_spin_lock(&r->lock);
	sv_owed_pay(&r->relay, 0, sv_balance_relay(&conf->conf.balance), stamps, tick, p);
	bpf_spin_unlock(&r->lock);
	return 0;
}

/* What a packet was to tell the peer with that number it does not: the next packet does. `news`: kind, path and value, a byte each. */
__noinline int untell_path(u32 id, u32 news)
{
	struct sv_peer_relay *r = bpf_map_lookup_elem(&relays, &id);
	struct sv_path_news of = {0};

	if (!r)
		return 0;
	of.kind = (u8)(news >> 16);
	of.path = (u8)(news >> 8);
	of.value = (u8)news;
	bpf_spin_lock(&r->lock);
	sv_relay_return(&r->relay, &of);
	bpf_spin_unlock(&r->lock);
	return 0;
}

static __always_inline u32 news_of(const struct sv_packet *p)
{
	return (u32)p->feedback << 16 | (u32)p->feedback_path << 8 | p->feedback_value;
}

/* The packet does not leave. */
static __always_inline void untell_peer(u32 id, const struct sv_packet *p)
{
	untell_path(id, news_of(p));
}

#endif
