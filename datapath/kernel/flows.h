/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Slots of the flow table: who gets one, who pays for it, and which the timer laws must look at. Only for edge.bpf.c. */
#ifndef SV_FLOWS_H
#define SV_FLOWS_H

/* A new flow's state: as bytes, because a lock may not lie outside maps. */
static const u8 empty_slot[sizeof(struct sv_flow_slot)];

#define OUT 0
#define IN 1

/* Of the guest's direction. `how`: OUT or IN, for segments of the guest and to it. */
static __always_inline void key_of(struct sv_flow_slot_key *key, const struct sv_packet *p, u32 vni, u32 how)
{
	if (how == IN)
		sv_flow_key_reverse(p, &key->key);
	else
		sv_flow_key(p, &key->key);
	key->vni = vni;
}

/* The flow's state, if it has one. */
static __noinline struct sv_flow_slot *find_flow(const struct sv_packet *p, u32 vni, u32 how)
{
	struct sv_flow_slot_key key = {0};

	if (!p)
		return 0;
	key_of(&key, p, vni, how);
	return bpf_map_lookup_elem(&flows, &key);
}

/*
 * Flows without TCP that began from outside and found no room, lately: an answer to them is not the guest's own beginning.
 * What a flood pushes out of here before the guest answers is SV_BEGAN_UNSURE.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct sv_flow_slot_key);
	__type(value, u8);
} refused SEC(".maps");

static const u8 noted = 1;

/* Counts and tells why a flow of the guest on port `ifindex` is not remembered. */
static __always_inline void refuse(const struct sv_packet *p, u32 ifindex, u32 why)
{
	struct sv_counters *counters = find_counters();

	if (counters && why == SV_QUOTA_PORT)
		count(counters, SV_COUNT_FULL_PORT, 1);
	if (counters && why == SV_QUOTA_NETWORK)
		count(counters, SV_COUNT_FULL_NETWORK, 1);
	if (counters && why == SV_QUOTA_OUTSIDE)
		count(counters, SV_COUNT_FULL_OUTSIDE, 1);
	send_notice(SV_EVENT_TABLE_FULL, ifindex, p->daddr, why);
}

/* The same, made if it is new, for the guest on port `ifindex`. 0: there is no room for it. */
static __noinline struct sv_flow_slot *make_flow(const struct sv_packet *p, u32 vni, u32 how, u32 ifindex)
{
	struct sv_flow_slot_key key = {0};
	struct sv_flow_slot *slot;
	u32 why, began;
	int outside;

	if (!p)
		return 0;
	key_of(&key, p, vni, how);
	slot = bpf_map_lookup_elem(&flows, &key);
	if (slot)
		return slot;
	began = sv_quota_began(p, how == OUT);
	if (began == SV_BEGAN_UNSURE && bpf_map_lookup_elem(&refused, &key))
		began = SV_BEGAN_OUTSIDE;
	outside = began == SV_BEGAN_OUTSIDE;
	why = may_begin(SV_TABLE_FLOWS, ifindex, vni, began);
	if (why) {
		if (how == IN && p->proto != SV_PROTO_TCP)
			bpf_map_update_elem(&refused, &key, &noted, BPF_ANY);
		refuse(p, ifindex, why);
		return 0;
	}
	if (bpf_map_update_elem(&flows, &key, empty_slot, BPF_NOEXIST)) {
		slot = bpf_map_lookup_elem(&flows, &key); /* another CPU was first */
		if (!slot)
			refuse(p, ifindex, SV_QUOTA_ADMITTED); /* full */
		return slot;
	}
	charge(SV_TABLE_FLOWS, ifindex, vni, 1, outside);
	slot = bpf_map_lookup_elem(&flows, &key);
	if (slot) {
		slot->port = ifindex;
		slot->outside = (u8)outside;
	}
	return slot;
}

/* It need not count as unsettled any more. */
static __noinline int settle(struct sv_flow_slot *slot)
{
	int was;

	if (!slot)
		return 0;
	bpf_spin_lock(&slot->lock);
	was = slot->outside;
	slot->outside = 0;
	bpf_spin_unlock(&slot->lock);
	if (was)
		charge(SV_TABLE_FLOWS, slot->port, NO_NETWORK, 0, -1);
	return 0;
}

static __always_inline void settle_if_due(struct sv_flow_slot *slot)
{
	if (slot && slot->outside && slot->flow.seen & SV_FLOW_SETTLED)
		settle(slot);
}

/*
 * Flows with data outstanding, for the timer laws. Each has a place: in `timers` the time when the laws are to look at it, which
 * every segment of the flow sets anew, and which the agent maps into its memory; in `timed` whose place it is. So a tick costs a
 * walk over the times, and looks at what is due only. A flow gets a place when its guest sends and it has none, and gives it
 * back when it is at rest for a while. What finds no place is seen at the agent's next sweep.
 *
 * A place is the flow's whose slot names it, which the flow's lock guards. 0 in `timers`: it is free. Only selvedge_tick, which
 * does not run twice at a time, frees places. The first place is nobody's: its bits say which parts of the others may be in use,
 * and the agent clears them.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SV_TIMERS);
	__type(key, u32);
	__type(value, u64);
} timers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SV_TIMERS);
	__type(key, u32);
	__type(value, struct sv_flow_slot_key);
} timed SEC(".maps");

/* So many places are tried before a flow does without: the first ones among few, so that ticks walk over few. */
#define TIMER_TRIES 16
#define TIMER_MASK(i) (((i) < 2 ? SV_TIMERS / 16 : (i) < 10 ? SV_TIMERS / 4 : (i) < 13 ? SV_TIMERS / 2 : SV_TIMERS) - 1)
/* A flow at rest keeps its place so long, ns: most go on soon. */
#define TIMER_LINGER_NS (1ULL << 28)
/* In `timers`: somebody's, who has not said yet when. */
#define TIMER_TAKEN (~0ULL)

static __always_inline int is_outstanding(const struct sv_conn *t)
{
	return t->flags & SV_CONN_SND && sv_seq_after(t->snd_nxt, t->snd_una);
}

/* When the laws are to look at it; `rest` if it is at rest. */
static __always_inline u64 timer_of(const struct sv_flow_slot *slot, const struct sv_vcc_conf *conf, u64 rest)
{
	u64 next = sv_vcc_next(&slot->vcc, conf);

	return next ? next : rest;
}

/* Under the flow's lock, if `timer` is its place. */
static __always_inline void set_timer(const struct sv_flow_slot *slot, const struct sv_vcc_conf *conf, u64 rest, u64 *at)
{
	u64 next = timer_of(slot, conf, rest);

	if (*at != next)
		*at = next;
}

/* After a segment of a flow that has a place. */
static __noinline int note_timer(struct sv_flow_slot *slot, u64 now)
{
	u64 rest = now + TIMER_LINGER_NS, *at;
	struct sv_vcc_conf *conf;
	u32 timer, zero = 0;

	if (!slot)
		return 0;
	timer = slot->timer;
	if (!timer) /* the tick has freed it meanwhile; 0 is no place but the mask of parts */
		return 0;
	at = bpf_map_lookup_elem(&timers, &timer);
	conf = bpf_map_lookup_elem(&congestion, &zero);
	if (!at || !conf)
		return 0;
	/* Without the lock: who changes what this follows from comes here afterwards. */
	if (*at == timer_of(slot, conf, rest))
		return 0;
	sv_forget();
	bpf_spin_lock(&slot->lock);
	if (slot->timer == timer)
		set_timer(slot, conf, rest, at);
	bpf_spin_unlock(&slot->lock);
	return 0;
}

/* A place for a flow whose guest has sent. */
static __noinline int find_timer(struct sv_flow_slot *slot, const struct sv_packet *p, u32 vni, u64 now)
{
	struct sv_flow_slot_key *whose;
	u32 timer = 0, hash, zero = 0;
	u64 *parts = bpf_map_lookup_elem(&timers, &zero), *at = 0, part;

	if (!slot || !p || !parts)
		return 0;
	hash = slot->hash;
	for (u32 i = 0; i < TIMER_TRIES; i++) {
		timer = (hash + i * 0x9e3779b1) >> 16 & TIMER_MASK(i);
		at = timer ? bpf_map_lookup_elem(&timers, &timer) : 0;
		if (at && !*at && !__sync_val_compare_and_swap(at, 0, TIMER_TAKEN))
			break;
		at = 0;
	}
	whose = bpf_map_lookup_elem(&timed, &timer);
	if (!at || !whose)
		return 0;
	/* The place was taken before: whoever clears the bit looks again. */
	part = 1ULL << timer / (SV_TIMERS / SV_TIMER_PARTS);
	__sync_fetch_and_or(parts, part);
	key_of(whose, p, vni, OUT);
	bpf_spin_lock(&slot->lock);
	if (slot->timer)
		timer = 0; /* another CPU was first */
	else
		slot->timer = (u16)timer;
	bpf_spin_unlock(&slot->lock);
	if (timer)
		note_timer(slot, now);
	else
		*at = 0;
	return 0;
}

#endif
