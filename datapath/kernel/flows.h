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
 * Flows with data outstanding, for the timer laws: a flow enters when its guest sends and is not there yet, and leaves when
 * selvedge_tick finds nothing outstanding. So a tick looks at these flows only. What finds no room is seen at the agent's
 * next sweep. The agent sizes this.
 */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 65536);
	__type(value, struct sv_timed);
} timed SEC(".maps");

static __always_inline int is_outstanding(const struct sv_vcc *v)
{
	return v->flags & SV_VCC_SND && sv_seq_after(v->snd_nxt, v->snd_una);
}

static __noinline int enter_timed(struct sv_flow_slot *slot, const struct sv_packet *p, u32 vni)
{
	struct sv_timed timed_flow = {0};
	u8 was;

	if (!slot || !p)
		return 0;
	key_of(&timed_flow.key, p, vni, OUT);
	bpf_spin_lock(&slot->lock);
	was = slot->timed;
	slot->timed = 1;
	bpf_spin_unlock(&slot->lock);
	if (!was && bpf_map_push_elem(&timed, &timed_flow, 0))
		slot->timed = 0;
	return 0;
}

#endif
