/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The backlog of a class of the kernel's HTB and its debt, read where they are: from the packet's device over that of the limiter
 * to the class's own queue. Only for limits.bpf.c.
 *
 * Only names count in these structs: the loader finds each member in the running kernel's type information (CO-RE). HTB may
 * be a module, whose types cannot be named to the verifier; so everything is read as plain memory, which
 * cannot fault. Another CPU may free a class meanwhile: what is read then is nonsense for a moment, hence the checks.
 */
#ifndef SV_HTB_H
#define SV_HTB_H

#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct net {
	struct hlist_head *dev_index_head; /* devices by number */
};

typedef struct {
	struct net *net;
} possible_net_t;

struct gnet_stats_queue {
	__u32 backlog;
};

struct Qdisc {
	__u32 parent;
	struct gnet_stats_queue qstats;
	long privdata[];
};

struct net_device {
	int ifindex;
	struct Qdisc *qdisc; /* root */
	struct hlist_node index_hlist;
	possible_net_t nd_net;
};

struct sk_buff {
	struct net_device *dev;
};

struct Qdisc_class_common {
	__u32 classid;
	struct hlist_node hnode;
};

struct Qdisc_class_hash {
	struct hlist_head *hash;
	unsigned int hashmask;
};

struct htb_sched {
	struct Qdisc_class_hash clhash;
};

struct htb_class_leaf {
	struct Qdisc *q;
};

struct psched_ratecfg {
	__u64 rate_bytes_ps;
};

struct htb_class {
	struct Qdisc_class_common common;
	struct psched_ratecfg ceil;
	struct htb_class_leaf leaf; /* in a union */
	__s64 ctokens;		    /* ns that it may still send at its ceiling; below 0: for which it must not */
	__s64 t_c;		    /* when they were counted, ns */
};

#pragma clang attribute pop

/* Linux 6.2. The agent says whether it is there (see crates/kernel/src/loaded/limits.rs); then a read costs no call. */
extern void *bpf_rdonly_cast(const void *, __u32) __ksym __weak;
const volatile u32 sv_has_cast SEC(".rodata.casts") = 0;

/* Where the address of the packet at hand is noted. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} limit_context SEC(".maps");

/* Of the kernel's table of devices by number; and how far its chains and those of classes are followed. */
#define DEVICE_BUCKETS 256
#define MAX_CHAIN 32

#define UNKNOWN_BACKLOG 0xffffffffu

/* As the kernel hashes class numbers: qdisc_class_hash. */
static __always_inline u32 class_bucket(u32 id, u32 mask)
{
	id ^= id >> 8;
	id ^= id >> 4;
	return id & mask;
}

static __always_inline void *read_pointer(const void *at)
{
	void *found = 0;

	return bpf_probe_read_kernel(&found, sizeof(found), at) ? 0 : found;
}

/*
 * The device of the packet. The kernel hands its own packet to a tc program, and the verifier a view of it; what was written
 * to a map and read again is an address like any other.
 */
static __always_inline struct net_device *device_of(struct __sk_buff *ctx)
{
	u32 zero = 0;
	volatile u64 *noted = bpf_map_lookup_elem(&limit_context, &zero);
	struct sk_buff *skb;

	if (!noted)
		return 0;
	*noted = (u64)ctx;
	skb = (void *)*noted;
	return read_pointer(&skb->dev);
}

static __always_inline struct net_device *find_device(struct net_device *near, u32 ifindex)
{
	struct net *net = read_pointer(&near->nd_net.net);
	struct hlist_head *head = net ? read_pointer(&net->dev_index_head) : 0;
	void *node = head ? read_pointer((void *)head + (ifindex & (DEVICE_BUCKETS - 1)) * sizeof(void *)) : 0;

	for (int i = 0; i < MAX_CHAIN && node; i++) {
		struct net_device *dev = node - bpf_core_field_offset(struct net_device, index_hlist);
		int number = 0;

		if (bpf_probe_read_kernel(&number, sizeof(number), &dev->ifindex))
			return 0;
		if ((u32)number == ifindex)
			return dev;
		node = read_pointer(node);
	}
	return 0;
}

/* Where the limiter's class is, and its queue, noted in it. Returns 0 if they are not found. */
static __noinline int find_class(struct __sk_buff *ctx, struct sv_limiter *l)
{
	struct net_device *dev = device_of(ctx);
	struct htb_sched *htb;
	void *node, *buckets;
	struct Qdisc *q;
	u32 mask = 0;
	int number;

	if (!l)
		return 0;
	l->leaf = 0;
	if (!dev || bpf_probe_read_kernel(&number, sizeof(number), &dev->ifindex))
		return 0;
	if ((u32)number != l->device)
		dev = find_device(dev, l->device);
	if (!dev)
		return 0;
	q = read_pointer(&dev->qdisc);
	if (!q)
		return 0;
	htb = (void *)q + bpf_core_field_offset(struct Qdisc, privdata);
	buckets = read_pointer(&htb->clhash.hash);
	if (!buckets || bpf_probe_read_kernel(&mask, sizeof(mask), &htb->clhash.hashmask))
		return 0;
	node = read_pointer(buckets + class_bucket(l->class, mask) * sizeof(void *));
	for (int i = 0; i < MAX_CHAIN && node; i++) {
		struct htb_class *cl = node - bpf_core_field_offset(struct htb_class, common.hnode);
		u64 ceil = 0;
		u32 id = 0;

		if (bpf_probe_read_kernel(&id, sizeof(id), &cl->common.classid))
			return 0;
		if (id == l->class) {
			if (bpf_probe_read_kernel(&ceil, sizeof(ceil), &cl->ceil.rate_bytes_ps))
				return 0;
			l->tokens = (u64)&cl->ctokens;
			l->ceil = ceil;
			l->leaf = (u64)read_pointer(&cl->leaf.q);
			return !!l->leaf;
		}
		node = read_pointer(node);
	}
	return 0;
}

/* Bytes that the class has sent before their time. HTB counts in nanoseconds, and for every class against its ceiling. */
static __always_inline u32 unpaid(const struct sv_limiter *l, u64 now)
{
	const u32 apart = bpf_core_field_offset(struct htb_class, t_c) - bpf_core_field_offset(struct htb_class, ctokens);
	struct {
		__s64 tokens, counted;
	} at = {0};
	__s64 owed;

	if (apart == sizeof(at.tokens)) {
		if (bpf_probe_read_kernel(&at, sizeof(at), (void *)l->tokens))
			return 0;
	} else if (bpf_probe_read_kernel(&at.tokens, sizeof(at.tokens), (void *)l->tokens) ||
		   bpf_probe_read_kernel(&at.counted, sizeof(at.counted), (void *)l->tokens + (s32)apart)) {
		return 0;
	}
	owed = -at.tokens - ((__s64)now - at.counted);
	/* HTB lets nobody owe more than a minute: anything else was no class. The product fits at every rate. */
	if (owed <= 0 || owed > 60000000000LL || l->ceil > 20000000000ULL)
		return 0;
	if (owed < 900000000)
		owed = (__s64)((__u64)owed * l->ceil / 1000000000);
	else
		owed = (__s64)((__u64)owed / 1000 * l->ceil / 1000000);
	return owed > SV_LIMIT_MAX_BACKLOG ? SV_LIMIT_MAX_BACKLOG : (u32)owed;
}

/* How the queue of a limiter stands, bytes. */
struct standing {
	u32 queued; /* they wait, or UNKNOWN_BACKLOG */
	u32 unpaid; /* they left before their time */
};

/* What was found, if it is still the queue of this class. Memory that is no queue any more does not fault. */
static __always_inline int read_backlog(const struct sv_limiter *l, u64 now, struct standing *at)
{
	struct Qdisc *q = (void *)l->leaf;
	u32 parent, backlog;

	at->queued = UNKNOWN_BACKLOG;
	if (sv_has_cast) {
		q = bpf_rdonly_cast(q, bpf_core_type_id_kernel(struct Qdisc));
		parent = q->parent;
		backlog = q->qstats.backlog;
	} else if (bpf_probe_read_kernel(&parent, sizeof(parent), &q->parent) ||
		   bpf_probe_read_kernel(&backlog, sizeof(backlog), &q->qstats.backlog)) {
		return 0;
	}
	if (parent != l->class || backlog > SV_LIMIT_MAX_BACKLOG)
		return 0;
	at->queued = backlog;
	at->unpaid = unpaid(l, now);
	return 1;
}

/* For so long a class is believed to be where it was found: the way there costs more than all else that a law does. */
#define FOUND_NS 20000000ULL

static __always_inline void backlog_of(struct __sk_buff *skb, struct sv_limiter *l, u64 now, struct standing *at)
{
	if (l->leaf && now - l->found_at < FOUND_NS && read_backlog(l, now, at))
		return;
	at->queued = UNKNOWN_BACKLOG;
	l->found_at = now;
	if (find_class(skb, l))
		read_backlog(l, now, at);
}

#endif
