/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The counts behind quotas (../quota.h), for the programs of both objects, which share these maps. Whoever makes a slot
 * charges for it, and whoever deletes it refunds: both in the data path, so that no count is ever read, changed and written
 * back. The agent sets the bounds, and mends counts that drifted.
 */
#ifndef SV_KERNEL_QUOTA_H
#define SV_KERNEL_QUOTA_H

#include "../quota.h"

/* sv_tally_key.table, and the index into `bounds` */
#define SV_TABLE_FLOWS 0
#define SV_TABLE_LIMITED 1
#define SV_TABLE_PAIRS 2
#define SV_TABLE_FASTLANE 3
#define SV_TABLES 4

/* sv_tally_key.kind */
#define SV_TALLY_TABLE 0
#define SV_TALLY_PORT 1	   /* id: ifindex */
#define SV_TALLY_NETWORK 2 /* id: VNI */

struct sv_tally_key {
	u16 table; /* SV_TABLE_* */
	u16 kind;  /* SV_TALLY_* */
	u32 id;
};

SV_ASSERT_SIZE(struct sv_tally_key, 8);

/*
 * What a slot was charged as, where the table's key names no network: in the slot, so that what is given back is what was taken, also when
 * the port is in another network by then. 0: nobody was charged.
 */
#define SV_CHARGED 0x80000000u	       /* the port was */
#define SV_CHARGED_NETWORK 0x40000000u /* its network was, too */
#define SV_CHARGED_OUTSIDE 0x20000000u /* as begun from outside and not settled */
#define SV_CHARGED_VNI 0x00ffffffu     /* the network's */

#ifdef __bpf__

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SV_TABLES);
	__type(key, u32);
	__type(value, struct sv_bounds);
} bounds SEC(".maps");

/* Room for all ports and networks in all tables, and for nearly as many that are gone until the agent has swept. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct sv_tally_key);
	__type(value, struct sv_tally);
} tallies SEC(".maps");

static const struct sv_tally no_tally;

static __noinline struct sv_tally *tally_of(u32 table, u32 kind, u32 id)
{
	struct sv_tally_key key = { .table = (u16)table, .kind = (u16)kind, .id = id };
	struct sv_tally *found = bpf_map_lookup_elem(&tallies, &key);

	if (found)
		return found;
	bpf_map_update_elem(&tallies, &key, &no_tally, BPF_NOEXIST); /* another CPU may have been first */
	return bpf_map_lookup_elem(&tallies, &key);
}

/*
 * SV_QUOTA_*. `vni`: NO_NETWORK where the port has none. `began`: SV_BEGAN_*. Global, as `charge` is: the verifier proves
 * each once, not with every state that a caller could be in.
 */
#define NO_NETWORK 0xffffffffu
__noinline u32 may_begin(u32 table, u32 port, u32 vni, u32 began)
{
	struct sv_bounds *b = bpf_map_lookup_elem(&bounds, &table);
	struct sv_tally *all, *of_port, *of_network = 0;

	if (!b || !b->table)
		return SV_QUOTA_ADMITTED;
	all = tally_of(table, SV_TALLY_TABLE, 0);
	of_port = tally_of(table, SV_TALLY_PORT, port);
	if (vni != NO_NETWORK)
		of_network = tally_of(table, SV_TALLY_NETWORK, vni);
	if (!all || !of_port || (vni != NO_NETWORK && !of_network))
		return SV_QUOTA_PORT; /* no room to count it */
	return sv_quota_admit(b, all, of_port, of_network, began);
}

static __always_inline void add_to(u32 table, u32 kind, u32 id, s32 flows, s32 unsettled)
{
	struct sv_tally *t = tally_of(table, kind, id);

	if (!t)
		return;
	if (flows)
		__sync_fetch_and_add(&t->flows, flows);
	if (unsettled)
		__sync_fetch_and_add(&t->unsettled, unsettled);
}

__noinline int charge(u32 table, u32 port, u32 vni, s32 flows, s32 unsettled)
{
	add_to(table, SV_TALLY_PORT, port, flows, unsettled);
	if (!flows)
		return 0;
	add_to(table, SV_TALLY_TABLE, 0, flows, 0);
	if (vni != NO_NETWORK)
		add_to(table, SV_TALLY_NETWORK, vni, flows, 0);
	return 0;
}

/* What a slot is charged as; the network may be missing. */
static __always_inline u32 charged_as(u32 vni, u32 began)
{
	u32 outside = began == SV_BEGAN_OUTSIDE ? SV_CHARGED_OUTSIDE : 0;

	return SV_CHARGED | outside | (vni == NO_NETWORK ? 0 : SV_CHARGED_NETWORK | (vni & SV_CHARGED_VNI));
}

/* So many slots more that are charged so. */
static __always_inline int charge_slots(u32 table, u32 port, u32 charged, s32 slots)
{
	u32 vni = charged & SV_CHARGED_NETWORK ? charged & SV_CHARGED_VNI : NO_NETWORK;

	return charge(table, port, vni, slots, charged & SV_CHARGED_OUTSIDE ? slots : 0);
}

static __always_inline void charge_slot(u32 table, u32 port, u32 charged)
{
	charge_slots(table, port, charged, 1);
}

/* Such a slot is gone. */
static __always_inline void refund(u32 table, u32 port, u32 charged)
{
	if (charged & SV_CHARGED)
		charge_slots(table, port, charged, -1);
}

/* It need not count as unsettled any more. `lock` guards `charged`, which is the slot's. */
static __always_inline int settle_slot(sv_lock *lock, u32 *charged, u32 table, u32 port)
{
	u32 was;

	SV_LOCK(lock);
	was = *charged;
	*charged = was & ~SV_CHARGED_OUTSIDE;
	SV_UNLOCK(lock);
	if (was & SV_CHARGED_OUTSIDE)
		charge(table, port, NO_NETWORK, 0, -1);
	return 0;
}

#endif
#endif
