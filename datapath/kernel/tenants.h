/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Guests' shares of the uplink (../hygenicc.h): maps, and what the programs do with them. Also for packets that no stage sees, because
 * shares are of all that guests send. One lock guards all of it. Functions are global: the verifier proves each once. Only for
 * edge.bpf.c.
 */
#ifndef SV_TENANTS_H
#define SV_TENANTS_H

#include "../hygenicc_plain.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sv_tenants);
} tenants SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sv_sharing);
} sharing SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SV_MAX_SHARES + 1);
	__type(key, u32);
	__type(value, struct sv_share);
} shares SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct sv_pair_key);
	__type(value, struct sv_pair_slot);
} pairs SEC(".maps");

/* Kept where admission is asked for only. What is pushed out of it begins anew: then nobody is refused for a while. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct sv_destination_key);
	__type(value, struct sv_destination);
} destinations SEC(".maps");

static const struct sv_pair_slot empty_pair;
static const struct sv_destination empty_destination;

/* What a function needs of it. */
struct sv_own_share {
	struct sv_tenants *tenants;
	struct sv_sharing *all;
	struct sv_share *share;
};

/* Read anew wherever it is asked for: what is known to be the same in two places, the verifier follows through all in between. */
static __always_inline u32 share_of(const struct sv_port *port)
{
	return *(const volatile u32 *)&port->share;
}

static __always_inline u64 shares_now(void)
{
	u32 zero = 0;
	struct sv_config *conf = bpf_map_lookup_elem(&config, &zero);

	return conf ? stages_now(conf, 1) : 0;
}

/* Returns 0 if nobody is held. */
static __always_inline int find_share(struct sv_own_share *o, u32 share)
{
	u32 zero = 0, number = share & SV_SHARE_NUMBER;

	o->tenants = bpf_map_lookup_elem(&tenants, &zero);
	o->all = bpf_map_lookup_elem(&sharing, &zero);
	o->share = bpf_map_lookup_elem(&shares, &number);
	return o->tenants && o->all && o->share && o->tenants->conf.interval;
}

/* The word with the bit of row `number`, and the bit. */
static __always_inline u64 *word_of(struct sv_sharing *all, u32 number)
{
	return &all->active[sv_mask((number - 1) >> 6, SV_SHARE_WORDS - 1)];
}

static __always_inline u64 bit_of(u32 number)
{
	return 1ULL << ((number - 1) & 63);
}

/* Under the lock: the row is this guest's from now on, and has its weight. */
static __always_inline void own_share(struct sv_own_share *o, u32 share, u32 ifindex)
{
	struct sv_share *s = o->share;

	if (s->ifindex != ifindex) {
		__builtin_memset(s, 0, sizeof(*s));
		s->ifindex = ifindex;
	}
	s->bucket.weight = share >> SV_SHARE_WEIGHT;
	if (!s->bucket.active)
		*word_of(o->all, share & SV_SHARE_NUMBER) |= bit_of(share & SV_SHARE_NUMBER);
}

/*
 * Under the lock: when a segment may leave. None overtakes another: if the rate has grown, what comes later leaves with the last one, and
 * no more of it than the backlog, or it would fill the uplink's queue. Returns 0 if it is dropped.
 */
static __always_inline int schedule_guest(struct sv_share *s, const struct sv_hyg_conf *c, u64 backlog, u64 bytes, u64 now, u64 *at)
{
	if (s->last <= now)
		s->behind = 0;
	if (s->behind && s->behind + bytes > backlog)
		return 0;
	if (!sv_hyg_schedule(&s->bucket, c, backlog, bytes, now, at))
		return 0;
	if (*at < s->last) {
		*at = s->last;
		s->behind = (u32)(s->behind + bytes);
	} else {
		s->last = *at;
		s->behind = 0;
	}
	return 1;
}

/*
 * sv_hold, of a segment of `bytes` on the wire, headers of the tunnel included. Returns 0 if it must be dropped, and is counted. Where segments
 * wait, it has its departure time afterwards.
 */
__noinline int hold_guest(struct __sk_buff *skb, u32 ifindex, u32 share, u64 bytes, u64 now)
{
	struct sv_counters *counters = find_counters();
	u64 at = now, takes;
	struct sv_own_share o;
	struct sv_hyg h = {0};
	int may;

	if (!counters || !find_share(&o, share))
		return 1;
	h.conf = &o.tenants->conf;
	h.uplink = &o.all->uplink;
	h.bucket = &o.share->bucket;
	bpf_spin_lock(&o.all->lock);
	own_share(&o, share, ifindex);
	sv_hyg_touch(h.bucket, h.uplink, h.conf, now);
	/* Or a segment that is larger than the bucket would never leave. */
	takes = sv_hyg_holds(h.bucket, h.conf, bytes);
	if (o.tenants->backlog)
		may = schedule_guest(o.share, h.conf, o.tenants->backlog, takes, now, &at);
	else
		may = sv_hyg_hold(&h, takes, now);
	if (may) {
		sv_hyg_owe(h.bucket, bytes - takes);
		o.share->sent++;
		o.share->bytes += bytes;
		o.share->delayed += at > now;
	} else {
		o.share->dropped++;
	}
	bpf_spin_unlock(&o.all->lock);
	if (!may) {
		count(counters, SV_COUNT_DROP_OVER_RATE, 1);
		return 0;
	}
	if (at > now) {
		/* The kernel stamps nothing but IP, and nothing else comes here. */
		bpf_skb_set_tstamp(skb, at, BPF_SKB_TSTAMP_DELIVERY_MONO);
		count(counters, SV_COUNT_DELAYED, 1);
	} else if (o.tenants->backlog && skb->tstamp) {
		/* A guest's own departure time would let it wait in the uplink's queue for as long as it likes, at others' expense. */
		bpf_skb_set_tstamp(skb, 0, BPF_SKB_TSTAMP_UNSPEC);
	}
	return 1;
}

static __always_inline void pair_of(struct sv_pair_key *k, u32 ifindex, const struct sv_packet *p, int egress)
{
	u32 zero = 0;
	struct sv_config *conf = bpf_map_lookup_elem(&config, &zero);

	k->ifindex = ifindex;
	k->own = sv_hyg_own(conf ? conf->seed : 0, egress ? p->saddr : p->daddr);
	for (int i = 0; i < 4; i++)
		k->other[i] = egress ? p->daddr[i] : p->saddr[i];
}

/* The pair, made if it is new. 0: there is no room. */
static __noinline struct sv_pair_slot *make_pair(const struct sv_pair_key *k, const struct sv_packet *p, u32 egress)
{
	struct sv_pair_slot *slot;
	struct sv_sharing *all;
	u32 charged, zero = 0;

	if (!k || !p)
		return 0;
	slot = bpf_map_lookup_elem(&pairs, k);
	if (slot)
		return slot;
	charged = may_charge(SV_TABLE_PAIRS, k->ifindex, sv_quota_began(p, (int)egress));
	if (!charged)
		return 0;
	if (bpf_map_update_elem(&pairs, k, &empty_pair, BPF_NOEXIST))
		return bpf_map_lookup_elem(&pairs, k); /* another CPU was first, or it is full */
	charge_slot(SV_TABLE_PAIRS, k->ifindex, charged);
	all = bpf_map_lookup_elem(&sharing, &zero);
	slot = bpf_map_lookup_elem(&pairs, k);
	if (!all || !slot)
		return slot;
	/* Another CPU may have had a packet of it already. */
	bpf_spin_lock(&all->lock);
	slot->flags |= charged;
	bpf_spin_unlock(&all->lock);
	return slot;
}

static __always_inline void destination_key(struct sv_destination_key *k, u32 vni, const u32 *addr)
{
	k->vni = vni;
	for (int i = 0; i < 4; i++)
		k->addr[i] = addr[i];
}

/* For the log: new pairs with that guest are refused from now on, or not any more. Returns 0 if it must be told later. */
static __noinline int tell_admission(u32 ifindex, const u32 *addr, u32 refuses, u64 now)
{
	u32 place = SV_EVENT_MARKS;
	u64 *last = bpf_map_lookup_elem(&event_times, &place);
	struct sv_event *event;

	if (!addr || !last || (*last && now - *last < SV_EVENT_INTERVAL_NS))
		return 0;
	event = begin_event(SV_EVENT_ADMISSION, ifindex, addr, refuses, now);
	if (!event)
		return 0;
	*last = now;
	bpf_ringbuf_submit(event, 0);
	return 1;
}

/*
 * Before the guest is held: may it send to somebody with whom it is no pair yet? Returns 0 if the segment must be dropped, and is
 * counted. Without admission there are no destinations.
 */
__noinline int admit_guest(u32 ifindex, u32 share, u32 vni, const struct sv_packet *p, u64 now)
{
	struct sv_counters *counters = find_counters();
	struct sv_destination_key to = {0};
	struct sv_destination *d;
	struct sv_pair_key key = {0};
	struct sv_own_share o;
	u32 refuses, told;

	if (!p || !counters || !find_share(&o, share) || !o.tenants->conf.refuse)
		return 1;
	destination_key(&to, vni, p->daddr);
	d = bpf_map_lookup_elem(&destinations, &to);
	if (!d)
		return 1;
	pair_of(&key, ifindex, p, 1);
	if (bpf_map_lookup_elem(&pairs, &key))
		return 1;
	bpf_spin_lock(&o.all->lock);
	refuses = (u32)sv_hyg_refuses(&d->part, &o.tenants->conf, (int)(d->refusing & 1), now) & 1;
	told = d->refusing >> 1 & 1;
	d->refusing = told << 1 | refuses;
	o.share->refused += refuses;
	bpf_spin_unlock(&o.all->lock);
	if (told != refuses && tell_admission(ifindex, p->daddr, refuses, now))
		d->refusing = refuses << 1 | refuses;
	count(counters, SV_COUNT_REFUSED, refuses);
	return !refuses;
}

/* All that goes to the packet's destination; 0: nobody wants to know. */
static __noinline struct sv_destination *find_destination(const struct sv_hyg_conf *c, u32 vni, const u32 *addr)
{
	struct sv_destination_key to = {0};
	struct sv_destination *d;

	if (!c || !addr || !c->refuse)
		return 0;
	destination_key(&to, vni, addr);
	d = bpf_map_lookup_elem(&destinations, &to);
	if (d)
		return d;
	bpf_map_update_elem(&destinations, &to, &empty_destination, BPF_NOEXIST);
	return bpf_map_lookup_elem(&destinations, &to);
}

/* Under the lock: a packet of the pair passes. Returns 1 if it need not count as unsettled any more. */
static __always_inline int note_pair(struct sv_pair_slot *slot, int egress, u64 now)
{
	u32 flags = slot->flags, saw = sv_flow_saw(flags >> SV_PAIR_SAW & 0xf, egress);
	int settles = flags & SV_CHARGED_OUTSIDE && saw & SV_FLOW_SETTLED;

	slot->used = (u32)(now >> 20);
	flags = (flags & ~(0xfu << SV_PAIR_SAW)) | saw << SV_PAIR_SAW;
	slot->flags = settles ? flags & ~SV_CHARGED_OUTSIDE : flags;
	return settles;
}

/*
 * Under the lock: the pair's count of marks for the peer, where the packet has room for it. Where it has feedback on a path already, they take
 * turns (../owed.h). Returns the feedback that must wait.
 */
static __always_inline u32 pay_pair(struct sv_pair_slot *slot, struct sv_packet *p)
{
	u32 news = 0;

	if (p->feedback) {
		if (slot->pair.owed.count == slot->pair.owed.told || p->wire != SV_WIRE_2)
			return 0;
		slot->flags ^= SV_PAIR_YIELDS;
		if (slot->flags & SV_PAIR_YIELDS)
			return 0;
		news = news_of(p);
		p->feedback = SV_FEEDBACK_NONE;
	}
	sv_hyg_pay(0, &slot->pair, 0, 0, 0, p);
	return news;
}

/*
 * sv_depart, and what the peer with the number `id` is to be told of the pair. `plain`: without a tunnel. Returns 1 if the packet then has
 * the bit of hygenicc_plain.h.
 */
static __always_inline int depart(u32 ifindex, u32 share, struct sv_packet *p, u64 whose, u64 now, const int plain)
{
	u32 id = (u32)whose, vni = (u32)(whose >> 32);
	struct sv_destination *d;
	struct sv_counters *counters = find_counters();
	struct sv_pair_key key = {0};
	struct sv_pair_slot *slot;
	struct sv_own_share o;
	struct sv_hyg h = {0};
	int settled = 0, bit = 0;
	u32 news = 0;

	if (!p || !counters || !find_share(&o, share))
		return 0;
	pair_of(&key, ifindex, p, 1);
	slot = make_pair(&key, p, 1);
	if (!slot)
		count(counters, SV_COUNT_PAIRS_FULL, 1);
	h.conf = &o.tenants->conf;
	h.bucket = &o.share->bucket;
	if (slot)
		h.pair = &slot->pair;
	d = slot ? find_destination(h.conf, vni, p->daddr) : 0;
	if (d)
		h.to = &d->part;
	bpf_spin_lock(&o.all->lock);
	if (plain)
		bit = sv_plain_egress(&h, p, now);
	else
		sv_hyg_egress(&h, p, now);
	if (slot) {
		settled = note_pair(slot, 1, now);
		/* A guest's own packet of that protocol would be taken for nothing but feedback. */
		if (!plain && p->proto != SV_HYG_PROTO)
			news = pay_pair(slot, p);
	}
	bpf_spin_unlock(&o.all->lock);
	if (news)
		untell_path(id, news);
	if (settled)
		charge(SV_TABLE_PAIRS, ifindex, NO_NETWORK, 0, -1);
	return bit;
}

/* `whose`: the peer's number, and above it the network. */
__noinline int depart_guest(u32 ifindex, u32 share, struct sv_packet *p, u64 whose, u64 now)
{
	return depart(ifindex, share, p, whose, now, 0);
}

__noinline int depart_plain(u32 ifindex, u32 share, struct sv_packet *p)
{
	return depart(ifindex, share, p, 0, shares_now(), 1);
}

/* The packet with the count does not leave; `marks`: nor do so many without a tunnel. */
static __noinline int unpay(u32 ifindex, const struct sv_packet *p, u32 marks)
{
	struct sv_pair_key key = {0};
	struct sv_pair_slot *slot;
	struct sv_sharing *all;
	u32 zero = 0;

	all = bpf_map_lookup_elem(&sharing, &zero);
	if (!p || !all)
		return 0;
	pair_of(&key, ifindex, p, 1);
	slot = bpf_map_lookup_elem(&pairs, &key);
	if (!slot)
		return 0;
	bpf_spin_lock(&all->lock);
	if (marks)
		sv_plain_return(&slot->pair, marks);
	else
		sv_owed_return(&slot->pair.owed);
	bpf_spin_unlock(&all->lock);
	return 0;
}

__noinline int unpay_guest(u32 ifindex, const struct sv_packet *p)
{
	return unpay(ifindex, p, 0);
}

/* The segment goes through the cutter: what comes of it counts. */
__noinline int uncount_guest(u32 ifindex, u32 share, u32 vni, const struct sv_packet *p)
{
	struct sv_destination_key to = {0};
	struct sv_pair_key key = {0};
	struct sv_destination *d;
	struct sv_pair_slot *slot;
	struct sv_own_share o;
	struct sv_hyg h = {0};

	if (!p || !find_share(&o, share))
		return 0;
	h.bucket = &o.share->bucket;
	pair_of(&key, ifindex, p, 1);
	destination_key(&to, vni, p->daddr);
	slot = bpf_map_lookup_elem(&pairs, &key);
	d = bpf_map_lookup_elem(&destinations, &to);
	if (slot)
		h.pair = &slot->pair;
	if (d)
		h.to = &d->part;
	bpf_spin_lock(&o.all->lock);
	sv_hyg_uncount(&h, p);
	bpf_spin_unlock(&o.all->lock);
	return 0;
}

__noinline int unpay_plain(u32 ifindex, const struct sv_packet *p, u32 marks)
{
	return unpay(ifindex, p, marks);
}

/* Beside a count that the peer must be told of: it must be told first where it begins. */
#define TELL_BEGIN 0x10000u

/* Asks the agent for a packet back to the peer's guest. Returns 0 if it is not told. */
static __noinline int send_marks(u32 ifindex, const struct sv_packet *p, u32 tell, u64 now)
{
	struct sv_event *event;

	if (!p)
		return 0;
	event = begin_event(SV_EVENT_MARKS, ifindex, p->saddr, tell, now);
	if (!event)
		return 0; /* the next count says the same */
	event->packet.family = p->family;
	event->packet.proto = SV_HYG_PROTO;
	event->packet.wire = p->wire;
	for (int i = 0; i < 4; i++) {
		event->packet.saddr[i] = p->daddr[i];
		event->packet.daddr[i] = p->saddr[i];
	}
	bpf_ringbuf_submit(event, 0);
	return 1;
}

/* Asks for what is owed to the sender of `p`, if there is room. Returns 1 if it was asked for. */
static __always_inline int ask_marks(struct sv_own_share *o, struct sv_pair_slot *slot, u32 ifindex, const struct sv_packet *p, u64 now,
				     const int plain)
{
	struct sv_counters *counters = find_counters();
	u32 tell = 0;

	if (!counters)
		return 0;
	if (!may_ask(ASKED_MARKS, SV_EMIT_MAX, now)) {
		count(counters, SV_COUNT_MARKS_WITHHELD, 1);
		return 0;
	}
	bpf_spin_lock(&o->all->lock);
	if (plain) {
		tell = sv_plain_asks(&slot->pair, now);
	} else {
		if (!slot->pair.introduced)
			tell = TELL_BEGIN;
		tell |= sv_hyg_asks(&slot->pair);
	}
	bpf_spin_unlock(&o->all->lock);
	count(counters, SV_COUNT_MARKS_ASKED, 1);
	if (!send_marks(ifindex, p, tell, now) && plain) {
		bpf_spin_lock(&o->all->lock);
		sv_plain_return(&slot->pair, tell);
		bpf_spin_unlock(&o->all->lock);
	}
	return 1;
}

#define NO_COUNT 0x10000u

/*
 * sv_harvest of a packet for the guest, and what it tells of the pair's marks: `told`, or NO_COUNT. `plain`: without a tunnel; `told` then
 * is how many are new.
 */
static __always_inline void harvest_guest(u32 ifindex, u32 share, const struct sv_packet *p, u32 told, u32 vni, const int plain)
{
	struct sv_destination_key from = {0};
	struct sv_destination *d;
	struct sv_counters *counters = find_counters();
	u32 before, counted, heard = 0;
	struct sv_pair_key key = {0};
	struct sv_pair_slot *slot;
	u64 now = shares_now();
	struct sv_own_share o;
	struct sv_hyg h = {0};
	int settled, due, counts = plain ? sv_plain_counts(p) : sv_hyg_counts(p);

	if (!counters || !find_share(&o, share))
		return;
	pair_of(&key, ifindex, p, 0);
	/* Who is answered is no new pair. */
	slot = counts || o.tenants->conf.refuse ? make_pair(&key, p, 0) : bpf_map_lookup_elem(&pairs, &key);
	if (!slot) {
		count(counters, SV_COUNT_PAIRS_FULL, (u64)counts);
		return;
	}
	h.conf = &o.tenants->conf;
	h.bucket = &o.share->bucket;
	h.pair = &slot->pair;
	if (told != NO_COUNT && o.tenants->conf.refuse) {
		destination_key(&from, vni, p->saddr);
		d = bpf_map_lookup_elem(&destinations, &from);
		if (d)
			h.to = &d->part;
	}
	bpf_spin_lock(&o.all->lock);
	settled = note_pair(slot, 0, now);
	if (told != NO_COUNT) {
		heard = slot->pair.credit;
		if (plain)
			sv_plain_hear(&h, told, now);
		else
			sv_hyg_hear(&h, (u16)told, now);
		heard -= slot->pair.credit;
		o.share->marks += heard;
	}
	before = slot->pair.owed.count;
	if (plain)
		sv_plain_ingress(&h, p, now);
	else
		sv_hyg_ingress(&h, p, now);
	counted = (u16)(slot->pair.owed.count - before);
	due = sv_hyg_overdue(&slot->pair, h.conf, now);
	bpf_spin_unlock(&o.all->lock);
	if (settled)
		charge(SV_TABLE_PAIRS, ifindex, NO_NETWORK, 0, -1);
	count(counters, SV_COUNT_MARKS_HEARD, heard);
	count(counters, SV_COUNT_MARKS_COUNTED, counted);
	if (due)
		ask_marks(&o, slot, ifindex, p, now, plain);
}

/*
 * Marks of a packet for the guest on port `ifindex`, and counts of marks. `share`: 0 where nobody holds it. Returns 1 if that is all: no
 * guest gets it.
 */
__noinline int take_marks(const struct sv_outer *o, u32 ifindex, u32 share, struct sv_packet *p)
{
	u32 told = NO_COUNT;
	int is_all;

	if (!o || !p)
		return 0;
	if (o->encap.feedback == SV_FEEDBACK_MARKS && o->encap.version == SV_ENCAP_V2) {
		p->feedback = SV_FEEDBACK_MARKS;
		told = (u32)o->encap.path << 8 | o->encap.value;
	}
	if (share)
		harvest_guest(ifindex, share, p, told, o->encap.vni, 0);
	is_all = sv_hyg_is_feedback(p);
	p->feedback = SV_FEEDBACK_NONE;
	return is_all;
}

/* The same without a tunnel: `told` marks are new to the guest's edge, or NO_COUNT. */
__noinline int take_plain_marks(u32 ifindex, u32 share, const struct sv_packet *p, u32 told)
{
	if (p)
		harvest_guest(ifindex, share, p, told, 0, 1);
	return 0;
}

#endif
