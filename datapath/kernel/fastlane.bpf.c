/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * FastLane on a real host: what this host drops of its guests' TCP is known here, with all its bytes. Two programs on both sides of a port
 * follow its guest's connections (../fastlane.h), as those of limits do and only where it is switched on. One hears of each packet that
 * the kernel drops, and hands those of guests to the agent, which asks selvedge_fast_decide what to do about each and sends again.
 *
 * selvedge_fast_guest is in front of all other programs of the port: what it follows is what the guest sends. What the agent sends again
 * comes in behind it. selvedge_fast_port is behind them: what it sees is what the guest gets, and of two windows the smaller one wins.
 */
#include "program.h"

#include "../encap.h"
#include "../mss.h"
#include "fastlane.h"
#include "quota.h"
#include "state.h"

#include "skb.h"
#include "tables.h"

/* The agent sizes it before it loads this. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct sv_fast_key);
	__type(value, struct sv_fast);
} fast SEC(".maps");

/*
 * Of packets that were dropped. The oldest go where there is no more room: then one that is dropped anew counts as dropped for the first
 * time. An entry may become another's while it is used, hence the checks of its numbers.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct sv_fast_copy_key);
	__type(value, struct sv_fastlane_copy);
} fast_copies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sv_fast_conf);
} fast_conf SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u32); /* ifindex of its port */
	__type(value, struct sv_fast_guest);
} fast_guests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sv_fast_counts);
} fast_counts SEC(".maps");

/* Dropped segments, to the agent. Each load of the programs has its own. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
} fast_drops SEC(".maps");

static const struct sv_fast empty_fast;

static __always_inline void fast_count(u32 index, u64 n)
{
	u32 zero = 0;
	struct sv_fast_counts *counts = bpf_map_lookup_elem(&fast_counts, &zero);

	/* Drops are told of in any context, also in the middle of another count. */
	if (counts && index < SV_FAST_COUNTERS)
		__sync_fetch_and_add(&counts->n[index], n);
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sv_packet);
} fast_scratch SEC(".maps");

static __always_inline struct sv_packet *new_packet(void)
{
	u32 zero = 0;
	struct sv_packet *p = bpf_map_lookup_elem(&fast_scratch, &zero);

	if (p)
		__builtin_memset(p, 0, sizeof(*p));
	return p;
}

static __always_inline u64 idle_ns(void)
{
	u32 zero = 0;
	const struct sv_config *conf = bpf_map_lookup_elem(&config, &zero);

	return conf ? conf->conf.idle : 0;
}

/* `out`: from the guest. */
static __always_inline void fast_key(struct sv_fast_key *key, const struct sv_packet *p, u32 port, u32 out)
{
	if (out)
		sv_flow_key(p, &key->key);
	else
		sv_flow_key_reverse(p, &key->key);
	key->port = port;
}

/* The connection's state, made if it is new; 0: there is no room for it, or it is no connection between guests. */
static __noinline struct sv_fast *find_fast(const struct sv_packet *p, u32 ifindex, u32 out)
{
	const struct sv_port *port = bpf_map_lookup_elem(&ports, &ifindex);
	struct sv_fast_key key = {0};
	struct sv_fast *found;
	u32 began, vni, charged;

	if (!p || !port)
		return 0;
	fast_key(&key, p, ifindex, out);
	found = bpf_map_lookup_elem(&fast, &key);
	if (found || p->tcp_flags & SV_TCP_RST)
		return found;
	vni = port->vni;
	if (!find_route(vni, out ? p->daddr : p->saddr))
		return 0;
	began = sv_quota_began(p, (int)out);
	if (may_begin(SV_TABLE_FASTLANE, ifindex, vni, began)) {
		fast_count(SV_FAST_COUNT_FULL, 1);
		return 0;
	}
	if (bpf_map_update_elem(&fast, &key, &empty_fast, BPF_NOEXIST))
		return bpf_map_lookup_elem(&fast, &key); /* another CPU was first, or it is full */
	charged = charged_as(vni, began);
	charge_slot(SV_TABLE_FASTLANE, ifindex, charged);
	found = bpf_map_lookup_elem(&fast, &key);
	if (found)
		found->charged = charged;
	return found;
}

/* It need not count as unsettled any more. */
static __noinline int settle(struct sv_fast *f, u32 ifindex)
{
	return f ? settle_slot(&f->lock, &f->charged, SV_TABLE_FASTLANE, ifindex) : 0;
}

/* Under the lock. */
static __always_inline void track(struct sv_fast *f, const struct sv_packet *p, int out, u64 idle, u64 now)
{
	int anew = 0;

	sv_conn_track(&f->lane.conn, &f->flow, p, out, idle, now, &anew);
	if (!anew)
		return;
	sv_conn_begin(&f->lane.conn);
	sv_fastlane_clear(&f->lane);
	f->known = 0;
	f->stamp.known = 0;
	f->longest = 0;
	f->size = 0;
}

/* What follow_out found; bits. */
#define REPEATS 0x1 /* the guest sends it again */
#define COPIED 0x2  /* and packets of it may have entries in `fast_copies` */

/* A segment of the guest. */
static __noinline int follow_out(struct sv_fast *f, struct sv_packet *p, u64 now)
{
	u64 idle = idle_ns();
	u32 found, end, repeats = 0;

	if (!f || !p)
		return 0;
	end = sv_conn_end(p);
	bpf_spin_lock(&f->lock);
	track(f, p, 1, idle, now);
	found = sv_fastlane_out(&f->lane, p, now);
	if (found & SV_FASTLANE_ANEW) {
		f->known = 0;
		f->stamp.known = 0;
	}
	if (!(found & SV_FASTLANE_BEYOND) && end != p->seq) {
		sv_retrans_note(&f->again, p->seq, end, !(f->known & SV_FAST_AGAIN), sv_fastlane_rtt(&f->lane), now);
		if (!(f->known & SV_FAST_AGAIN) || sv_seq_after(end, f->again_end))
			f->again_end = end;
		f->known |= SV_FAST_AGAIN;
		repeats = REPEATS;
	}
	if (f->known & SV_FAST_COPIED && end != p->seq && sv_seq_after(f->copied_end, p->seq))
		repeats |= COPIED;
	bpf_spin_unlock(&f->lock);
	return (int)repeats;
}

/* No round trip in a datacenter takes longer. */
#define LONGEST_NS 100000000u

static __noinline int follow_in(struct sv_fast *f, struct sv_packet *p, u64 now)
{
	u64 idle = idle_ns(), start;
	u32 timed, una;

	if (!f || !p)
		return 0;
	bpf_spin_lock(&f->lock);
	track(f, p, 0, idle, now);
	timed = f->lane.conn.flags & SV_CONN_RTT;
	start = f->lane.conn.rtt_start;
	una = f->lane.conn.snd_una;
	if (sv_fastlane_in(&f->lane, p, now) & SV_FASTLANE_ANEW) {
		f->known = 0;
		f->stamp.known = 0;
	}
	if (timed && !(f->lane.conn.flags & SV_CONN_RTT) && f->lane.conn.snd_una != una)
		f->longest = sv_max32(now - start < LONGEST_NS ? (u32)(now - start) : LONGEST_NS, f->longest - f->longest / 8);
	if (!sv_seq_after(f->copied_end, f->lane.conn.snd_una))
		f->known &= (u8)~SV_FAST_COPIED;
	if (!sv_seq_after(f->again_end, f->lane.conn.snd_una))
		f->known &= (u8)~SV_FAST_AGAIN;
	sv_stamp_acked(&f->stamp, f->lane.conn.snd_una);
	bpf_spin_unlock(&f->lock);
	return 0;
}

#include "again.h"

/* What the guest sends: in front of all other programs of the port. */
SEC("tc")
int selvedge_fast_guest(struct __sk_buff *skb)
{
	struct sv_packet *p = new_packet();
	struct sv_fast *f;
	int found;

	/* With the port's number as its mark it was here before, and through the queue of its limit. */
	if (!p || is_hosts_own(skb) || skb->vlan_present || skb->mark == skb->ifindex)
		return NEXT;
	if (parse_at(skb, 0, p) != SV_PARSE_OK || p->proto != SV_PROTO_TCP || p->truncated)
		return NEXT;
	f = find_fast(p, skb->ifindex, 1);
	if (!f)
		return NEXT;
	p->dirty = 0;
	found = follow_out(f, p, bpf_ktime_get_ns());
	if (f->charged & SV_CHARGED_OUTSIDE && f->flow.seen & SV_FLOW_SETTLED)
		settle(f, skb->ifindex);
	if (found & COPIED) {
		if (packets_again(p, skb->ifindex, 0)) {
			forget_again(f, p->seq);
			fast_count(SV_FAST_COUNT_SUPPRESSED, 1);
			return TC_ACT_SHOT;
		}
		packets_again(p, skb->ifindex, 1);
	}
	if (found & REPEATS)
		note_stamp(skb, f, p);
	if (p->dirty & SV_DIRTY_SEQ && replace_seq(skb, SV_ETH_LEN + p->ip_header_len, p->seq))
		return TC_ACT_SHOT;
	return NEXT;
}

/* What it gets: behind all other programs of the port's egress. */
SEC("tc")
int selvedge_fast_port(struct __sk_buff *skb)
{
	struct sv_packet *p = new_packet();
	struct sv_fast *f;

	if (!p || skb->vlan_present || parse_at(skb, 0, p) != SV_PARSE_OK || p->proto != SV_PROTO_TCP || p->truncated)
		return NEXT;
	f = find_fast(p, skb->ifindex, 0);
	if (!f)
		return NEXT;
	p->dirty = 0;
	follow_in(f, p, bpf_ktime_get_ns());
	if (f->charged & SV_CHARGED_OUTSIDE && f->flow.seen & SV_FLOW_SETTLED)
		settle(f, skb->ifindex);
	if (p->dirty & SV_DIRTY_WINDOW) {
		fast_count(SV_FAST_COUNT_LOWERED, 1);
		if (replace_tcp(skb, SV_ETH_LEN + p->ip_header_len, 14, p->window))
			return TC_ACT_SHOT;
	}
	return NEXT;
}

struct deciding {
	struct sv_fast_call call;
	struct sv_packet packet;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct deciding);
} fast_deciding SEC(".maps");

static __always_inline int has_waited(u32 what)
{
	return what == SV_FAST_DUE || what == SV_FAST_GIVEN_UP;
}

static __always_inline int by_others(u32 what)
{
	return what == SV_FAST_REPORTED || what == SV_FAST_ELSEWHERE;
}

/* The entry of the packet, made if it is new. */
static __noinline struct sv_fastlane_copy *copy_of(const struct sv_fast_call *call, u32 end)
{
	struct sv_fast_copy_key key = {0};
	struct sv_fastlane_copy *found, fresh = {0};

	if (!call)
		return 0;
	key.of = call->key;
	key.seq = call->seq;
	found = bpf_map_lookup_elem(&fast_copies, &key);
	if (found && found->end == end)
		return found;
	/* What others say replaces nothing. */
	if (found && by_others(call->what))
		return 0;
	fresh.seq = call->seq;
	fresh.end = end;
	fresh.copies = 1;
	if (has_waited(call->what) || bpf_map_update_elem(&fast_copies, &key, &fresh, BPF_ANY))
		return 0;
	return bpf_map_lookup_elem(&fast_copies, &key);
}

/*
 * Of an entry with which nothing has been done yet: others have left, of which nobody knew that they would count. What was dropped is the
 * newest, unless the guest has sent it again since. Under the lock, as all that the guest sends: what it sends again at this moment is
 * either counted here, or held back.
 */
static __always_inline void count_copies(const struct sv_fast *f, struct sv_fastlane_copy *c, u64 dropped)
{
	u32 since;

	if (c->copies != 1 || c->dropped || !(f->known & SV_FAST_AGAIN) || !sv_seq_after(f->again_end, c->seq))
		return;
	since = sv_retrans_since(&f->again, c->seq, c->end, dropped);
	c->copies = (u16)(since ? 1 + since : 2);
	c->dropped = !since;
}

/* Returns SV_FASTLANE_*. */
static __noinline u32 decide(struct deciding *at)
{
	struct sv_fast_call *call = &at->call;
	u64 now = bpf_ktime_get_ns(), due = 0, dropped;
	struct sv_packet *p, answer = {0};
	struct sv_flow_key key;
	struct sv_fastlane_copy *c;
	struct sv_fast *f;
	u32 verdict, end, what, stamp = 0, stamped = 0;

	if (!at)
		return SV_FASTLANE_UNTRACKED;
	p = &at->packet;
	__builtin_memset(p, 0, sizeof(*p));
	p->proto = SV_PROTO_TCP;
	p->seq = call->seq;
	p->ack = call->ack;
	p->payload = call->payload;
	p->tcp_flags = call->tcp_flags;
	end = sv_conn_end(p);
	what = call->what;
	dropped = call->dropped;
	key = call->key.key;
	f = bpf_map_lookup_elem(&fast, &call->key);
	if (!f)
		return SV_FASTLANE_UNTRACKED;
	bpf_spin_lock(&f->lock);
	verdict = sv_fastlane_refuses(&f->lane, p);
	/* What the guest has sent less than a round trip ago, no peer can have told of, however soon it did. */
	if (what == SV_FAST_ELSEWHERE && !dropped)
		call->dropped = now - sv_fastlane_rtt(&f->lane);
	bpf_spin_unlock(&f->lock);
	if (verdict)
		return verdict;
	c = copy_of(call, end);
	if (!c)
		return has_waited(what) ? SV_FASTLANE_STALE : SV_FASTLANE_UNKEPT;
	bpf_spin_lock(&f->lock);
	if (c->seq != p->seq || c->end != end) {
		verdict = SV_FASTLANE_UNKEPT;
	} else if (what == SV_FAST_GIVEN_UP) {
		c->waits = 0;
		verdict = SV_FASTLANE_STALE;
	} else {
		count_copies(f, c, call->dropped);
		if (what == SV_FAST_DUE)
			verdict = sv_fastlane_due(&f->lane, c, now);
		else if (what == SV_FAST_REPORTED)
			verdict = sv_fastlane_reported(&f->lane, c, p, now);
		else
			verdict = sv_fastlane_notified(&f->lane, c, p, dropped, now);
		due = what == SV_FAST_REPORTED ? sv_fastlane_ask_at(&f->lane, now) : sv_fastlane_due_at(&f->lane, c);
		if (!(f->known & SV_FAST_COPIED) || sv_seq_after(end, f->copied_end))
			f->copied_end = end;
		f->known |= SV_FAST_COPIED;
		/* Not by what others say. */
		if (!by_others(what) && p->payload && p->payload >= f->lane.conn.mss) {
			f->place = p->seq;
			f->size = (u16)p->payload;
		}
		stamped = sv_stamp_needed(&f->stamp, p->seq, &stamp);
		if (verdict == SV_FASTLANE_TELL)
			sv_fastlane_ack(&f->lane, &key, &answer);
	}
	bpf_spin_unlock(&f->lock);
	call->stamp = stamped ? stamp : 0;
	call->stamped = (u8)stamped;
	call->due = due;
	call->answer = answer;
	return verdict;
}

/* For the agent, by BPF_PROG_TEST_RUN: what to do about a packet that was dropped. */
SEC("tc")
int selvedge_fast_decide(struct __sk_buff *skb)
{
	u32 zero = 0, verdict;
	struct deciding *at = bpf_map_lookup_elem(&fast_deciding, &zero);

	if (!at || bpf_skb_load_bytes(skb, SV_ETH_LEN, &at->call, sizeof(at->call)))
		return SV_FASTLANE_UNTRACKED;
	verdict = decide(at);
	bpf_skb_store_bytes(skb, SV_ETH_LEN, &at->call, sizeof(at->call), 0);
	return (int)verdict;
}

/* A function of its own, global: the verifier proves it once, not for each round of the loop. */
__noinline int expire(const struct sv_fast_key *which, u64 now)
{
	struct sv_fast_key key;
	struct sv_fast *f;
	u32 charged;

	if (!which)
		return 0;
	key = *which;
	f = bpf_map_lookup_elem(&fast, &key);
	if (!f)
		return 0;
	charged = f->charged;
	if (!sv_flow_expired(&f->flow, idle_ns(), now) || bpf_map_delete_elem(&fast, &key))
		return 0;
	refund(SV_TABLE_FASTLANE, key.port, charged);
	return 1;
}

/* For the agent, by BPF_PROG_TEST_RUN: forgets which of the connections named have expired. */
SEC("tc")
int selvedge_fast_tick(struct __sk_buff *skb)
{
	struct sv_tick_call call = {0};
	struct sv_fast_key key;
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

#include "drops.h"

char LICENSE[] SEC("license") = "GPL";
