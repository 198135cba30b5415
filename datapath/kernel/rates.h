/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The ends of intervals, at which guests' rates are set (../hygenicc_rate.h), and of pairs that say nothing. Only for edge.bpf.c. */
#ifndef SV_RATES_H
#define SV_RATES_H

/* Rates are set by a timer of the data path's own: it keeps the interval whatever else the host does, also while no agent runs. */
struct sv_ticker {
	struct bpf_timer timer;
	u64 now;  /* when this interval's end began, ns; while `from` is not 0 */
	u32 from; /* the first word of guests whose rates it has yet to set; 0: it is over */
	u32 pad;
};

/* Words of guests whose rates one run sets, of 64 each, and ns until the next one: meanwhile its CPU handles packets. */
#define RATES_WORDS 32
#define RATES_PAUSE 20000

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sv_ticker);
} ticker SEC(".maps");

struct sv_tick_sum {
	u64 now;
	u64 weights;
	u64 word; /* of rows whose guests have a share */
	u32 base; /* its first row, less 1 */
	u32 sets; /* 0: weights are summed up; 1: rates are set */
	u64 from; /* the first word */
};

/* Rows that one hold of the lock sees to: the lock takes several times as long as a row. */
#define RATES_ROWS 4

/* Under the lock: the row's part of an interval's end. */
static __always_inline void tick_share(struct sv_own_share *o, u32 number, struct sv_share *s, struct sv_tick_sum *sum)
{
	if (!number)
		return;
	if (sum->sets) {
		sv_hyg_set_rate(&s->bucket, &o->all->uplink, &o->tenants->conf, sum->now);
		return;
	}
	sum->weights += sv_hyg_weigh(&s->bucket, &o->tenants->conf, sum->now);
	if (!s->bucket.active)
		*word_of(o->all, number) &= ~bit_of(number);
}

/* Is the row as the interval's end would leave it, but for its weight? Then it takes no lock. */
static __always_inline int tick_spares(const struct sv_own_share *o, const struct sv_share *s, const struct sv_tick_sum *sum)
{
	/* A mark that is told meanwhile counts at the next interval's end. */
	if (sum->sets)
		return !s->bucket.active || sv_hyg_rests(&s->bucket, &o->all->uplink, &o->tenants->conf);
	/* A guest whose row begins anew meanwhile may be missing in the sum for an interval. */
	return sv_hyg_stays(&s->bucket, &o->tenants->conf, sum->now);
}

static int tick_shares(u32 i, struct sv_tick_sum *sum)
{
	u32 first = sum->base + i * RATES_ROWS + 1, bits = (u32)(sum->word >> (i * RATES_ROWS & 63)), numbers[RATES_ROWS];
	struct sv_share *rows[RATES_ROWS];
	struct sv_own_share o;
	int spares = 1;

	if (!(bits & ((1u << RATES_ROWS) - 1)) || !find_share(&o, first))
		return 0;
	_Pragma("unroll")
	for (u32 k = 0; k < RATES_ROWS; k++) {
		/* Row 0 is nobody's. */
		numbers[k] = bits >> k & 1 ? first + k : 0;
		rows[k] = bpf_map_lookup_elem(&shares, &numbers[k]);
		if (!rows[k])
			return 0;
		spares &= !numbers[k] || tick_spares(&o, rows[k], sum);
	}
	if (spares) {
		_Pragma("unroll")
		for (u32 k = 0; k < RATES_ROWS && !sum->sets; k++)
			sum->weights += rows[k]->bucket.active ? rows[k]->bucket.weight & 0xffff : 0;
		return 0;
	}
	bpf_spin_lock(&o.all->lock);
	_Pragma("unroll")
	for (u32 k = 0; k < RATES_ROWS; k++)
		tick_share(&o, numbers[k], rows[k], sum);
	bpf_spin_unlock(&o.all->lock);
	return 0;
}

static int tick_word(u32 i, struct sv_tick_sum *sum)
{
	struct sv_sharing *all;
	u32 zero = 0;

	all = bpf_map_lookup_elem(&sharing, &zero);
	if (!all)
		return 1;
	i = sv_mask(sum->from + i, SV_SHARE_WORDS - 1);
	sum->word = all->active[i];
	sum->base = i * 64;
	if (sum->word)
		bpf_loop(64 / RATES_ROWS, tick_shares, sum, 0);
	return 0;
}

/* ns until the next interval's end; 0: there is none. */
__noinline u64 until_next(u64 now)
{
	u32 zero = 0;
	const struct sv_tenants *conf = bpf_map_lookup_elem(&tenants, &zero);
	u64 interval = conf ? conf->conf.interval : 0;

	return interval ? interval - now % interval : 0;
}

/*
 * sv_hyg_tick, of the guests from the word `from` on, and no more than RATES_WORDS. A guest that begins meanwhile is in the sum from the
 * next one on. Returns the word from which on rates are yet to be set; 0: all are.
 */
__noinline u32 set_rates(u64 now, u32 from)
{
	struct sv_tick_sum sum = { .now = now };
	struct sv_own_share o;
	u32 words, tick, left;
	u64 interval;

	if (!find_share(&o, 1))
		return 0;
	interval = o.tenants->conf.interval;
	words = (o.tenants->numbers + 63) / 64;
	if (!interval || words > SV_SHARE_WORDS)
		return 0;
	if (!from) {
		tick = sv_hyg_interval(&o.tenants->conf, now);
		bpf_loop(words, tick_word, &sum, 0);
		bpf_spin_lock(&o.all->lock);
		o.all->uplink.weights = sum.weights;
		o.all->ticks++;
		o.all->late += now % interval + interval * sv_hyg_missed(o.all->tick, tick);
		o.all->tick = tick;
		bpf_spin_unlock(&o.all->lock);
	}
	if (from >= words)
		return 0;
	left = words - from;
	sum.sets = 1;
	sum.from = from;
	bpf_loop(sv_min32(left, RATES_WORDS), tick_word, &sum, 0);
	return left > RATES_WORDS ? from + RATES_WORDS : 0;
}

static int end_interval(void *map, u32 *key, struct sv_ticker *t)
{
	u64 next;

	if (!t->from)
		t->now = bpf_ktime_get_ns();
	t->from = set_rates(t->now, t->from);
	next = t->from ? RATES_PAUSE : until_next(bpf_ktime_get_ns());
	if (next)
		bpf_timer_start(&t->timer, next, 0);
	return 0;
}

static __always_inline int begin_ticks(void)
{
	struct sv_ticker *t;
	u32 zero = 0;

	t = bpf_map_lookup_elem(&ticker, &zero);
	if (!t)
		return 0;
	bpf_timer_init(&t->timer, &ticker, 1 /* CLOCK_MONOTONIC */); /* an earlier agent may have done it */
	if (bpf_timer_set_callback(&t->timer, end_interval) || bpf_timer_start(&t->timer, 0, 0))
		return 0;
	return 1;
}

__noinline int expire_pair(const struct sv_pair_key *which, u64 now)
{
	struct sv_pair_key key;
	struct sv_pair_slot *slot;
	u32 flags, idle;

	if (!which)
		return 0;
	key = *which;
	slot = bpf_map_lookup_elem(&pairs, &key);
	if (!slot)
		return 0;
	flags = slot->flags;
	idle = flags >> SV_PAIR_SAW & SV_FLOW_SETTLED ? SV_PAIR_IDLE : SV_PAIR_UNSETTLED;
	/* A packet may have passed since the agent took `now`. */
	if (sv_seq_diff((u32)(now >> 20), slot->used) < (s32)idle)
		return 0;
	if (bpf_map_delete_elem(&pairs, &key))
		return 0;
	refund(SV_TABLE_PAIRS, key.ifindex, flags);
	return 1;
}

/* Nothing has arrived of the pair for a while that could show that it is time, and nothing has left that could tell. */
static __always_inline int tell_pair(const struct sv_pair_told *which, const int plain)
{
	struct sv_packet p = {0}; /* as if it had arrived */
	struct sv_pair_slot *slot;
	u64 now = shares_now();
	struct sv_pair_key key;
	struct sv_own_share o;
	int due;

	if (!which || !find_share(&o, 1))
		return 0;
	key = which->key;
	slot = bpf_map_lookup_elem(&pairs, &key);
	if (!slot)
		return 0;
	for (int i = 0; i < 4; i++) {
		p.saddr[i] = key.other[i];
		p.daddr[i] = which->own[i];
	}
	p.family = !key.other[0] && !key.other[1] && key.other[2] == 0xffff ? 4 : 6;
	p.wire = plain ? SV_WIRE_PLAIN : SV_WIRE_2;
	bpf_spin_lock(&o.all->lock);
	due = sv_hyg_lapses(&slot->pair, &o.tenants->conf, now);
	bpf_spin_unlock(&o.all->lock);
	return due && ask_marks(&o, slot, key.ifindex, &p, now, plain);
}

__noinline int tell_tunnel(const struct sv_pair_told *which)
{
	return tell_pair(which, 0);
}

__noinline int tell_plain(const struct sv_pair_told *which)
{
	return tell_pair(which, 1);
}

static __always_inline int tell_pairs(struct __sk_buff *skb, const struct sv_tick_call *call)
{
	struct sv_pair_told which;
	int asked = 0;

	for (u32 i = 0; i < SV_TICK_MAX; i++) {
		if (i >= call->count || bpf_skb_load_bytes(skb, SV_ETH_LEN + sizeof(*call) + i * sizeof(which), &which, sizeof(which)))
			break;
		asked += call->what == SV_TICK_TELL_PLAIN ? tell_plain(&which) : tell_tunnel(&which);
	}
	return asked;
}

/*
 * For the agent, by BPF_PROG_TEST_RUN: begins to set rates, sets them now, forgets which of the pairs named were idle, or has the marks of
 * these told.
 */
SEC("tc")
int selvedge_share_tick(struct __sk_buff *skb)
{
	struct sv_tick_call call = {0};
	struct sv_pair_key key;
	int expired = 0;

	if (bpf_skb_load_bytes(skb, SV_ETH_LEN, &call, sizeof(call)))
		return 0;
	if (call.what == SV_TICK_BEGIN)
		return begin_ticks();
	if (call.what == SV_TICK_RATES)
		return (int)set_rates(shares_now(), (u32)call.now);
	if (call.what == SV_TICK_TELL || call.what == SV_TICK_TELL_PLAIN)
		return tell_pairs(skb, &call);
	if (call.what != SV_TICK_EXPIRE)
		return 0;
	for (u32 i = 0; i < SV_TICK_MAX; i++) {
		if (i >= call.count || bpf_skb_load_bytes(skb, SV_ETH_LEN + sizeof(call) + i * sizeof(key), &key, sizeof(key)))
			break;
		expired += expire_pair(&key, call.now);
	}
	return expired;
}

#endif
