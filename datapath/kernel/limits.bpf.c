/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Rate limits of ports: two more programs on both sides of a limited port, which are there only where there is a limit.
 *
 * What a guest sends goes through a device of the agent's own, on which each limited port has a class of HTB, wherever it is going:
 * one queue for the uplink and for other guests of this host. The segment enters it here, named by its tc_index (SV_RETURN), or, of a port with
 * a network on the agent's own device, by its mark, and comes out at the pair's other end, where selvedge_guest takes it as if it came from
 * the port. What a guest gets is limited by an HTB on the port itself. Where limits are schedules (sv_pacer), segments get departure
 * times here and wait in a qdisc that keeps to them, on the same devices, or, if there is none, nowhere.
 *
 * The laws of limiter.h look at each segment of both directions, after everything else that the edge does to what the guest
 * gets, so that of two windows the smaller one wins. They need the class's backlog, and with it the kernel's type
 * information; limits_plain.bpf.c does without, and without the laws.
 */
#include "program.h"

#include "../encap.h"
#include "../mss.h"
#include "limits.h"
#include "quota.h"
#include "state.h"

#include "htb.h"
#include "kept.h"
#include "ports.h"
#include "queue.h"
#include "skb.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* most hosts have few limits, and many CPUs */
	__uint(max_entries, 8192);
	__type(key, struct sv_limiter_key);
	__type(value, struct sv_limiter_counts);
} limiter_counts SEC(".maps");

/* The agent sizes it before it loads this. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct sv_limited_key);
	__type(value, struct sv_limited);
} limited SEC(".maps");

/* Of those limiters in which some goes first. The agent adds and removes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, struct sv_limiter_key);
	__type(value, struct sv_limiter_flows);
} limiter_flows SEC(".maps");

static const u8 empty_flow[sizeof(struct sv_limited)];
static const struct sv_limiter_counts no_counts;

/* The segment at hand, and of the limiter that it passes: how the queue stands, the limit as it is now, the way to the queue. */
struct passing {
	u64 now; /* when it came, ns */
	struct sv_packet p;
	struct standing queue;
	struct sv_limit limit;
	struct way way;
	u32 first; /* 1: it goes past the queue */
	u32 parsed; /* 1 + SV_PARSE_*; 0 as long as nobody has looked */
};

/* What lies in a map the verifier need not follow byte by byte, unlike the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct passing);
} limit_scratch SEC(".maps");

static __always_inline struct passing *this_passing(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&limit_scratch, &zero);
}

static __always_inline struct passing *new_passing(void)
{
	struct passing *at = this_passing();

	if (at) {
		__builtin_memset(at, 0, sizeof(*at));
		at->now = bpf_ktime_get_ns();
	}
	return at;
}

static __always_inline struct sv_limiter_counts *find_counts(const struct sv_limiter_key *key)
{
	struct sv_limiter_counts *counts = bpf_map_lookup_elem(&limiter_counts, key);

	if (counts)
		return counts;
	bpf_map_update_elem(&limiter_counts, key, &no_counts, BPF_NOEXIST);
	return bpf_map_lookup_elem(&limiter_counts, key);
}

/*
 * A segment is about to wait so long. A function of its own, global, with nothing but numbers: the verifier proves it once, and follows
 * nothing of it at the call.
 */
__noinline int note_delay(u32 ifindex, u32 direction, u64 ns)
{
	struct sv_limiter_key key = { .ifindex = ifindex, .direction = direction };
	struct sv_limiter_counts *counts = find_counts(&key);

	if (counts)
		sv_delay_count(&counts->delays, ns);
	return 0;
}

/* Write what the laws change: the window, ECE, the number of a pure ACK, and the mark of the IP header. */
static __noinline int write_limited(struct __sk_buff *skb, const struct sv_packet *p)
{
	u32 l4;

	if (!p)
		return 0;
	l4 = SV_ETH_LEN + p->ip_header_len;
	if (p->dirty & SV_DIRTY_WINDOW && replace_tcp(skb, l4, 14, p->window))
		return -1;
	if (p->dirty & SV_DIRTY_SEQ && replace_seq(skb, l4, p->seq))
		return -1;
	if (p->dirty & SV_DIRTY_FLAGS) {
		u8 old[2];

		if (bpf_skb_load_bytes(skb, l4 + 12, old, 2) ||
		    replace_tcp(skb, l4, 12, (u16)((sv_get16(old) & 0xff00) | p->tcp_flags)))
			return -1;
	}
	if (p->dirty & SV_DIRTY_ECN)
		bpf_skb_ecn_set_ce(skb);
	return 0;
}

static __always_inline struct sv_limited *find_limited(const struct sv_packet *p, const struct sv_limiter_key *limiter,
						       u32 limited_way)
{
	struct sv_limited_key key = {0};
	struct sv_limited *found;
	u32 began, charged;

	if (limited_way)
		sv_flow_key(p, &key.key);
	else
		sv_flow_key_reverse(p, &key.key);
	key.limiter = *limiter;
	found = bpf_map_lookup_elem(&limited, &key);
	if (found || p->proto != SV_PROTO_TCP)
		return found;
	began = sv_quota_began(p, !!limited_way == (limiter->direction == SV_LIMITER_OUT));
	charged = may_charge(SV_TABLE_LIMITED, limiter->ifindex, began);
	if (!charged)
		return 0;
	if (bpf_map_update_elem(&limited, &key, empty_flow, BPF_NOEXIST))
		return bpf_map_lookup_elem(&limited, &key); /* another CPU was first, or it is full */
	charge_slot(SV_TABLE_LIMITED, limiter->ifindex, charged);
	found = bpf_map_lookup_elem(&limited, &key);
	if (found)
		found->charged = charged;
	return found;
}

/* It need not count as unsettled any more. */
static __noinline int settle(struct sv_limited *flow, u32 ifindex)
{
	return flow ? settle_slot(&flow->lock, &flow->charged, SV_TABLE_LIMITED, ifindex) : 0;
}

/* The queue as this segment finds it. Returns its gradient. */
static __always_inline s32 sample(struct sv_limiter *l, const struct sv_limit *limit)
{
	s32 gradient;

	if (limit->law != SV_LIMIT_SPRING)
		return 0;
	SV_LOCK(&l->lock);
	gradient = sv_limit_sample(&l->queue, limit);
	SV_UNLOCK(&l->lock);
	return gradient;
}

/* Of a connection whose handshake was just seen, or was not: another edge may have seen it, or come to need it. */
static __noinline int recall(struct sv_limited *flow, const struct sv_packet *p, u32 ifindex, u32 limited_way)
{
	struct sv_kept_key key = { .scope = SV_KEPT_LIMIT | ifindex };
	struct sv_handshake *kept, h = {0};

	if (!flow || !p)
		return 0;
	if (limited_way)
		sv_flow_key(p, &key.key);
	else
		sv_flow_key_reverse(p, &key.key);
	kept = keep_or_find(&key, &flow->conn);
	if (kept)
		h = *kept;
	SV_LOCK(&flow->lock);
	sv_conn_recall(&flow->conn, kept ? &h : 0);
	SV_UNLOCK(&flow->lock);
	return 0;
}

/*
 * A TCP segment that is about to be queued, and one on the way back to its sender. Functions of their own: the verifier proves
 * each once per program. Both return result bits.
 */
static __noinline u32 before_queue(struct sv_limiter *l, struct sv_limited *flow, const struct sv_limit *limit,
				   struct sv_packet *p, u64 now)
{
	if (!l || !flow || !limit || !p)
		return SV_NO_ROOM;
	if (!(limit->flags & SV_LIMIT_FIRST))
		sample(l, limit);
	SV_LOCK(&flow->lock);
	sv_limit_track(&flow->flow, &flow->conn, &flow->bound, p, 1, l->idle, now);
	sv_limit_out(limit, &flow->conn, &flow->bound, p, now);
	SV_UNLOCK(&flow->lock);
	return 0;
}

static __noinline u32 on_the_way_back(struct sv_limiter *l, struct sv_limited *flow, const struct sv_limit *limit,
				      struct sv_packet *p, u64 now)
{
	s32 gradient;
	u32 result;

	if (!l || !flow || !limit || !p)
		return SV_NO_ROOM;
	gradient = flow->conn.flags & SV_CONN_FIRST ? 0 : sample(l, limit);
	SV_LOCK(&flow->lock);
	sv_limit_track(&flow->flow, &flow->conn, &flow->bound, p, 0, l->idle, now);
	result = sv_limit_in(limit, gradient, &flow->conn, &flow->bound, p, now);
	SV_UNLOCK(&flow->lock);
	return sv_forget8(result);
}

/* How far the schedule is ahead of the clock, bytes. It is one word, which needs no lock to be read. */
static __always_inline u32 scheduled(const struct sv_limiter *l, u64 now)
{
	struct sv_pacer at = { .next = *(const volatile u64 *)&l->pacer.next };

	return sv_pacer_backlog(&at, l->rate, now);
}

/*
 * One of the port's limiters and one segment, which `p` describes: before it is queued (`limited_way`), or on its way back to
 * the one who is limited. Returns 0, or -1 if the kernel refused to change it.
 */
static __noinline int apply_law(struct __sk_buff *skb, struct sv_limiter *l, const struct sv_limiter_key *key,
				struct passing *at, u32 limited_way)
{
	struct sv_limiter_counts *counts;
	struct sv_limited *flow;
	struct sv_limit *limit;
	struct sv_packet *p;
	u32 result = 0, unread;
	u64 now;

	if (!l || !key || !at)
		return 0;
	now = at->now;
	p = &at->p;
	limit = &at->limit;
	*limit = l->limit;
	unread = at->queue.queued == UNKNOWN_BACKLOG;
	limit->backlog = unread ? 0 : sv_min32(at->queue.queued + at->queue.unpaid, SV_LIMIT_MAX_BACKLOG);
	limit->flags = (u8)((limit->flags & SV_LIMIT_HOLD) | (at->first ? SV_LIMIT_FIRST : 0));
	limit->flows = l->share ? (u16)l->flows : 0;
	if (l->share)
		sv_limit_widen(limit, l->share);
	sv_forget();
	p->dirty = 0;
	if (unread) {
		;
	} else if (limit->law == SV_LIMIT_ECN) {
		if (limited_way)
			result = sv_limit_mark(limit, p);
	} else if (p->proto == SV_PROTO_TCP) {
		flow = find_limited(p, key, limited_way);
		if (!flow)
			result = SV_NO_ROOM;
		else if (limited_way)
			result = before_queue(l, flow, limit, p, now);
		else
			result = on_the_way_back(l, flow, limit, p, now);
		if (flow && flow->charged & SV_CHARGED_OUTSIDE && flow->flow.seen & SV_FLOW_SETTLED)
			settle(flow, key->ifindex);
		if (flow && sv_limit_follows(limit) && sv_conn_recalls(&flow->conn, p))
			recall(flow, p, key->ifindex, limited_way);
	}
	/* What goes out and needs nothing is most of it, and pays for no counting. */
	if (!limited_way || unread || result & (SV_NO_ROOM | SV_LIMITED)) {
		counts = find_counts(key);
		if (counts) {
			counts->unread += unread;
			counts->untracked += !!(result & SV_NO_ROOM);
			counts->acks += !limited_way && !unread;
			counts->lowered += !!(p->dirty & SV_DIRTY_WINDOW);
			if (result & SV_LIMITED) {
				counts->cuts += limit->law == SV_LIMIT_SPRING;
				counts->marked += limit->law != SV_LIMIT_SPRING;
			}
		}
	}
	return p->dirty ? write_limited(skb, p) : 0;
}

/* How the limiter's queue stands, and, on the way there, whether the segment goes past it. */
static __noinline int look(struct __sk_buff *skb, struct sv_limiter *l, const struct sv_limiter_key *key, struct passing *at,
			   u32 limited_way)
{
	struct sv_limiter_flows *flows;
	struct sv_flow_key of = {0};
	u32 bytes, bulk, hash;
	u64 now;

	if (!l || !key || !at)
		return 0;
	now = at->now;
	at->first = 0;
	at->queue.unpaid = 0;
	if (l->rate)
		at->queue.queued = scheduled(l, now);
	else
		backlog_of(skb, l, now, &at->queue);
	if (!limited_way || !l->share || at->queue.queued == UNKNOWN_BACKLOG)
		return 0;
	flows = bpf_map_lookup_elem(&limiter_flows, key);
	if (!flows)
		return 0;
	bytes = sv_limit_bytes(&at->p, skb->len);
	sv_flow_key(&at->p, &of);
	hash = sv_flow_hash(&of, 0);
	SV_LOCK(&flows->lock);
	at->first = (u32)sv_sparse_goes_first(&flows->all, &flows->flow[sv_sparse_set(hash)], hash, l->share, at->queue.queued,
					      at->queue.unpaid, bytes, now);
	sv_forget();
	bulk = sv_sparse_count(&flows->all.in_bulk);
	SV_UNLOCK(&flows->lock);
	l->flows = sv_max32(bulk, 1);
	return 0;
}

/*
 * How long the segment will wait, as far as it can be told before it does: what is ahead of it, at the most that the limit lets pass.
 * What goes first waits for nobody.
 */
static __always_inline void estimate(const struct sv_limiter *l, const struct sv_limiter_key *key, const struct passing *at)
{
	u64 rate = l->rate ? l->rate : l->ceil;

	if (at->queue.queued == UNKNOWN_BACKLOG || !rate)
		return;
	note_delay(key->ifindex, key->direction, at->first ? 0 : sv_delay_ns((u64)at->queue.queued + at->queue.unpaid, rate));
}

/* Gives the segment its departure time, whatever the guest has given it. Returns 0, or -1 if it is to be dropped. */
static __noinline int schedule(struct __sk_buff *skb, struct sv_limiter *l, const struct passing *passing)
{
	u64 now = bpf_ktime_get_ns(), at = 0;
	u32 bytes;
	int fits;

	if (!l || !passing)
		return -1;
	bytes = sv_limit_bytes(&passing->p, skb->len);
	SV_LOCK(&l->lock);
	fits = sv_pacer_admit(&l->pacer, l->rate, l->horizon, bytes, now, &at);
	if (fits)
		l->sent += bytes;
	else
		l->dropped++;
	SV_UNLOCK(&l->lock);
	if (!fits)
		return -1;
	if (passing->first)
		at = now; /* and all others later */
	/* The kernel stamps nothing but IP; what else there is leaves at once, but has been counted. */
	bpf_skb_set_tstamp(skb, at, BPF_SKB_TSTAMP_DELIVERY_MONO);
	return 0;
}

/* Of the limiter that a segment came to. */
#define PASSED 0x1u	/* there is one */
#define PASSED_BOTH 0x2u /* the port has one of the other direction, too */
#define REFUSED 0x4u	/* the segment is to be dropped */

/*
 * One of the port's limiters, if it has it: before its queue (`limited_way`), or on the way back to the one who is limited. A function of its own,
 * global, with nothing but numbers: the verifier proves it once, and not for each call and for all that may have been before it.
 */
__noinline u32 pass(struct __sk_buff *skb, u32 direction, u32 limited_way)
{
	struct sv_limiter_key key = {0};
	struct sv_limiter *l = find_limiter(skb->ifindex, direction, &key);
	struct passing *at = this_passing();
	u32 passed, paced;

	if (!l || !at)
		return 0;
	passed = PASSED | (l->flags & SV_LIMITER_BOTH ? PASSED_BOTH : 0);
	paced = limited_way && l->rate;
	if (l->limit.law == SV_LIMIT_NONE && !limited_way)
		return passed;
	if (!at->parsed && (l->limit.law != SV_LIMIT_NONE || paced || l->share))
		at->parsed = 1 + (u32)parse_at(skb, 0, &at->p);
	look(skb, l, &key, at, limited_way);
	if (l->limit.law != SV_LIMIT_NONE && at->parsed == 1 + SV_PARSE_OK && !skb->vlan_present &&
	    apply_law(skb, l, &key, at, limited_way))
		return passed | REFUSED;
	if (paced && schedule(skb, l, at))
		return passed | REFUSED;
	if (!limited_way)
		return passed;
	estimate(l, &key, at);
	note_way(&at->way, l, at->first);
	/* A guest's own our HTB on the port would take for the number of a class, and that of the qdisc itself for none. */
	if (l->device == skb->ifindex)
		skb->priority = at->first ? l->first : 0;
	return passed;
}

/* On its way into the guest, whose own end has sent it back: through the port's queue, if it has one for that. */
static __noinline int turned(struct __sk_buff *skb)
{
	struct passing *at = new_passing();
	u32 in;

	if (!at)
		return TC_ACT_SHOT;
	skb->tstamp = 0;
	in = pass(skb, SV_LIMITER_IN, 1);
	if (in & REFUSED)
		return TC_ACT_SHOT;
	if ((!in || in & PASSED_BOTH) && pass(skb, SV_LIMITER_OUT, 0) & REFUSED)
		return TC_ACT_SHOT;
	/* A queue on the port would only have it turn back again. */
	if (in && at->way.device && at->way.device != skb->ifindex)
		return to_queue(skb, &at->way);
	return into_guest(skb, skb->ifindex);
}

/* What the guest sends. */
SEC("tc")
int selvedge_limit_guest(struct __sk_buff *skb)
{
	struct passing *at;
	u32 out;

	if (skb->tstamp == SV_TURNED)
		return turned(skb);
	if (is_hosts_own(skb) || came_out(skb))
		return NEXT;
	at = new_passing();
	if (!at)
		return TC_ACT_SHOT;
	out = pass(skb, SV_LIMITER_OUT, 1);
	if (out & REFUSED)
		return TC_ACT_SHOT;
	if ((!out || out & PASSED_BOTH) && pass(skb, SV_LIMITER_IN, 0) & REFUSED)
		return TC_ACT_SHOT;
	return out ? to_queue(skb, &at->way) : NEXT;
}

/* What it gets. On the port's egress, before the queue. */
SEC("tc")
int selvedge_limit_port(struct __sk_buff *skb)
{
	struct passing *at = new_passing();
	u32 out;

	if (!at)
		return TC_ACT_SHOT;
	out = pass(skb, SV_LIMITER_OUT, 0);
	if (out & REFUSED)
		return TC_ACT_SHOT;
	if (out && !(out & PASSED_BOTH))
		return NEXT;
	if (pass(skb, SV_LIMITER_IN, 1) & REFUSED) {
		skb->cb[0] = SV_DROPPED_AT_PORT;
		return TC_ACT_SHOT;
	}
	return NEXT;
}

/* A function of its own, global: the verifier proves it once, not for each round of the loop. */
__noinline int expire(const struct sv_limited_key *which, u64 now)
{
	struct sv_limited_key key;
	struct sv_limited *flow;
	struct sv_limiter *l;
	u32 charged;

	if (!which)
		return 0;
	key = *which;
	flow = bpf_map_lookup_elem(&limited, &key);
	if (!flow)
		return 0;
	l = bpf_map_lookup_elem(&limiters, &key.limiter);
	charged = flow->charged;
	if (!sv_flow_expired(&flow->flow, l ? l->idle : 0, now) || bpf_map_delete_elem(&limited, &key))
		return 0;
	refund(SV_TABLE_LIMITED, key.limiter.ifindex, charged);
	return 1;
}

/* For the agent, by BPF_PROG_TEST_RUN: forgets which of the connections named have expired. */
SEC("tc")
int selvedge_limit_tick(struct __sk_buff *skb)
{
	struct sv_tick_call call = {0};
	struct sv_limited_key key;
	int expired = 0;

	if (bpf_skb_load_bytes(skb, SV_ETH_LEN, &call, sizeof(call)) || call.what != SV_TICK_EXPIRE)
		return 0;
	for (u32 i = 0; i < SV_TICK_MAX; i++) {
		if (i >= call.count ||
		    bpf_skb_load_bytes(skb, SV_ETH_LEN + sizeof(call) + i * sizeof(key), &key, sizeof(key)))
			break;
		expired += expire(&key, call.now);
	}
	return expired;
}

char LICENSE[] SEC("license") = "GPL";
