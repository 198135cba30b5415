/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Rate limits of ports: two more programs on both sides of a limited port, which are there only where there is a limit.
 *
 * What a guest sends goes through a device of the agent's own, on which each limited port has a class of HTB, wherever it is
 * going: one queue for the uplink and for other guests of this host. The segment enters it here, with the port's number as
 * its mark, and comes out at the pair's other end, where selvedge_guest takes it as if it came from the port. What a guest
 * gets is limited by an HTB on the port itself.
 *
 * The laws of limiter.h look at each segment of both directions, after everything else that the edge does to what the guest
 * gets, so that of two windows the smaller one wins. They need the class's backlog, and with it the kernel's type
 * information; the plain program does without, and without the laws.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

typedef struct bpf_spin_lock sv_lock;
#define SV_LOCK(lock) bpf_spin_lock(lock)
#define SV_UNLOCK(lock) bpf_spin_unlock(lock)
#define SV_SYN_OPTIONS_APART
#define SV_CLASS_OF(c, p, egress) 0
#define SV_CLASS_INDEX(v) 0

#include "../encap.h"
#include "../mss.h"
#include "limits.h"

#include "htb.h"
#include "skb.h"

/* Go on to the next program, and if there is none, as if there were no program at all. */
#define NEXT TC_ACT_UNSPEC

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct sv_limiter_key);
	__type(value, struct sv_limiter);
} limiters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
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

/* To the stages these connections are none of congestion control's business: only the limiter acts. */
static const struct sv_vcc_conf no_congestion = { .class = { { .flags = SV_CLASS_OFF } } };
static const u8 empty_flow[sizeof(struct sv_limited)];
static const struct sv_limiter_counts no_counts;

static __always_inline struct sv_limiter *find_limiter(u32 ifindex, u32 direction, struct sv_limiter_key *key)
{
	key->ifindex = ifindex;
	key->direction = direction;
	return bpf_map_lookup_elem(&limiters, key);
}

static __always_inline struct sv_limiter_counts *find_counts(const struct sv_limiter_key *key)
{
	struct sv_limiter_counts *counts = bpf_map_lookup_elem(&limiter_counts, key);

	if (counts)
		return counts;
	bpf_map_update_elem(&limiter_counts, key, &no_counts, BPF_NOEXIST);
	return bpf_map_lookup_elem(&limiter_counts, key);
}

/* Write what the laws change: the window, ECE, and the mark of the IP header. */
static __noinline int write_limited(struct __sk_buff *skb, const struct sv_packet *p)
{
	u32 l4;

	if (!p)
		return 0;
	l4 = SV_ETH_LEN + p->ip_header_len;
	if (p->dirty & SV_DIRTY_WINDOW && replace_tcp(skb, l4, 14, p->window))
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

	if (limited_way)
		sv_flow_key(p, &key.key);
	else
		sv_flow_key_reverse(p, &key.key);
	key.limiter = *limiter;
	found = bpf_map_lookup_elem(&limited, &key);
	if (found || p->proto != SV_PROTO_TCP)
		return found;
	bpf_map_update_elem(&limited, &key, empty_flow, BPF_NOEXIST); /* may fail: another CPU was first, or full */
	return bpf_map_lookup_elem(&limited, &key);
}

/* What the stages are called with. Returns 0 if there is no room for the connection's state. */
static __always_inline int prepare(struct sv_ctx *c, struct sv_conf *conf, const struct sv_limiter_key *key,
				   const struct sv_packet *p, u32 limited_way)
{
	struct sv_limiter *l = bpf_map_lookup_elem(&limiters, key);
	struct sv_limited *flow = find_limited(p, key, limited_way);

	if (!l || !flow)
		return 0;
	conf->balance = SV_BALANCE_ECMP;
	conf->idle = l->idle;
	c->conf = conf;
	c->flow = &flow->flow;
	c->flowcell = &flow->unused;
	c->vcc = &flow->vcc;
	c->flow_lock = &flow->lock;
	c->vcc_conf = &no_congestion;
	c->queue = &l->queue;
	c->queue_lock = &l->lock;
	c->now = bpf_ktime_get_ns();
	return 1;
}

#define NO_ROOM 0x80u

/* Functions of their own that look everything up: the verifier proves each once. Both return the stages' result. */
__noinline u32 before_queue(const struct sv_limiter_key *key, const struct sv_limit *limit, struct sv_packet *p)
{
	struct sv_conf conf = {0};
	struct sv_ctx c = {0};

	if (!key || !limit || !p || !prepare(&c, &conf, key, p, 1))
		return NO_ROOM;
	c.limit = limit;
	return sv_egress(&c, p);
}

__noinline u32 on_the_way_back(const struct sv_limiter_key *key, const struct sv_limit *limit, struct sv_packet *p)
{
	struct sv_conf conf = {0};
	struct sv_ctx c = {0};

	if (!key || !limit || !p || !prepare(&c, &conf, key, p, 0))
		return NO_ROOM;
	c.limit = limit;
	return sv_ingress(&c, p);
}

/*
 * One of the port's limiters and one segment, which `p` describes: before it is queued (`limited_way`), or on its way back to
 * the one who is limited. Returns 0, or -1 if the kernel refused to change it.
 */
__noinline int apply_law(struct __sk_buff *skb, const struct sv_limiter_key *limiter, struct sv_packet *p, u32 limited_way)
{
	struct sv_limiter_counts *counts;
	struct sv_limiter_key key;
	struct sv_limiter *l;
	struct sv_limit limit;
	u32 result = 0;

	if (!limiter || !p)
		return 0;
	key = *limiter;
	l = bpf_map_lookup_elem(&limiters, &key);
	if (!l)
		return 0;
	counts = find_counts(&key);
	if (!counts)
		return 0;
	limit = l->limit;
	limit.backlog = backlog_of(skb, l->device, l->class);
	if (limit.backlog == UNKNOWN_BACKLOG) {
		counts->unread++;
		return 0;
	}
	p->dirty = 0;
	if (limit.law == SV_LIMIT_ECN) {
		if (limited_way)
			result = sv_limit_mark(&limit, p);
	} else if (p->proto == SV_PROTO_TCP) {
		result = limited_way ? before_queue(&key, &limit, p) : on_the_way_back(&key, &limit, p);
	}
	if (result & NO_ROOM)
		counts->untracked++;
	counts->acks += !limited_way;
	counts->lowered += !!(p->dirty & SV_DIRTY_WINDOW);
	if (result & SV_LIMITED) {
		counts->cuts += limit.law == SV_LIMIT_SPRING;
		counts->marked += limit.law != SV_LIMIT_SPRING;
	}
	return p->dirty ? write_limited(skb, p) : 0;
}

/* Both of the port's limiters, as far as they have a law. `from_guest`: the segment's direction. */
static __always_inline int apply_laws(struct __sk_buff *skb, u32 from_guest)
{
	struct sv_limiter_key key = {0};
	struct sv_packet p = {0};
	struct sv_limiter *l;
	int parsed = -1;

	for (u32 direction = 0; direction < 2; direction++) {
		l = find_limiter(skb->ifindex, direction, &key);
		if (!l || l->limit.law == SV_LIMIT_NONE)
			continue;
		if (parsed < 0)
			parsed = parse_at(skb, 0, &p);
		if (parsed != SV_PARSE_OK || skb->vlan_present)
			break;
		if (apply_law(skb, &key, &p, (direction == SV_LIMITER_OUT) == from_guest))
			return -1;
	}
	return 0;
}

/* Towards the queue, unless it came out of it already and goes on to the host. */
static __always_inline int to_queue(struct __sk_buff *skb)
{
	struct sv_limiter_key key = {0};
	u32 ifindex = skb->ifindex;
	struct sv_limiter *l = find_limiter(ifindex, SV_LIMITER_OUT, &key);

	if (!l)
		return NEXT;
	skb->mark = ifindex;
	skb->priority = l->class;
	return bpf_redirect(l->device, 0);
}

static __always_inline int came_out(struct __sk_buff *skb)
{
	if (skb->mark != skb->ifindex)
		return 0;
	skb->mark = 0;
	return 1;
}

/* What the guest sends. */
SEC("tc")
int selvedge_limit_guest(struct __sk_buff *skb)
{
	if (came_out(skb))
		return TC_ACT_OK;
	if (apply_laws(skb, 1))
		return TC_ACT_SHOT;
	return to_queue(skb);
}

/* The same without laws. */
SEC("tc")
int selvedge_limit_plain(struct __sk_buff *skb)
{
	return came_out(skb) ? TC_ACT_OK : to_queue(skb);
}

/* What it gets. On the port's egress, before the queue. */
SEC("tc")
int selvedge_limit_port(struct __sk_buff *skb)
{
	return apply_laws(skb, 0) ? TC_ACT_SHOT : NEXT;
}

char LICENSE[] SEC("license") = "GPL";
