/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The backlog of a class of the kernel's HTB and its debt, read where they are: from the packet's device over that of the limiter
 * to the class's own queue. Only for limits.bpf.c.
 *
 * Only names count in these structs: the loader finds each member in the running kernel's type information (CO-RE). HTB may
 * be a module, whose types cannot be named to the verifier; so from the qdisc on everything is read as plain memory, which
 * cannot fault. Another CPU may free a class meanwhile: what is read then is nonsense once, hence the checks.
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

extern void *bpf_cast_to_kern_ctx(void *) __ksym;

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

static __always_inline struct net_device *find_device(struct net_device *near, u32 ifindex)
{
	struct hlist_head *head = near->nd_net.net->dev_index_head;
	void *node = read_pointer((void *)head + (ifindex & (DEVICE_BUCKETS - 1)) * sizeof(void *));

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

/* Bytes that the class has sent before their time. HTB counts in nanoseconds, and for every class against its ceiling. */
static __always_inline u32 unpaid(const struct htb_class *cl)
{
	__s64 tokens = 0, counted = 0, owed;
	__u64 rate = 0;

	if (bpf_probe_read_kernel(&tokens, sizeof(tokens), &cl->ctokens) ||
	    bpf_probe_read_kernel(&counted, sizeof(counted), &cl->t_c) ||
	    bpf_probe_read_kernel(&rate, sizeof(rate), &cl->ceil.rate_bytes_ps))
		return 0;
	owed = -tokens - ((__s64)bpf_ktime_get_ns() - counted);
	if (owed <= 0 || owed > 1000000000 || rate > 20000000000ULL)
		return 0;
	owed = (__s64)((__u64)owed * rate / 1000000000);
	return owed > SV_LIMIT_MAX_BACKLOG ? SV_LIMIT_MAX_BACKLOG : (u32)owed;
}

/* Bytes that wait in class `id` of device `ifindex` or are not paid for yet, or UNKNOWN_BACKLOG. */
static __noinline u32 backlog_of(struct __sk_buff *ctx, u32 ifindex, u32 id)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	struct net_device *dev = skb->dev;
	u32 backlog = UNKNOWN_BACKLOG, mask = 0;
	struct htb_sched *htb;
	void *node, *buckets;
	struct Qdisc *q;

	if ((u32)dev->ifindex != ifindex)
		dev = find_device(dev, ifindex);
	if (!dev)
		return UNKNOWN_BACKLOG;
	q = read_pointer(&dev->qdisc);
	if (!q)
		return UNKNOWN_BACKLOG;
	htb = (void *)q + bpf_core_field_offset(struct Qdisc, privdata);
	buckets = read_pointer(&htb->clhash.hash);
	if (!buckets || bpf_probe_read_kernel(&mask, sizeof(mask), &htb->clhash.hashmask))
		return UNKNOWN_BACKLOG;
	node = read_pointer(buckets + class_bucket(id, mask) * sizeof(void *));
	for (int i = 0; i < MAX_CHAIN && node; i++) {
		struct htb_class *cl = node - bpf_core_field_offset(struct htb_class, common.hnode);
		u32 classid = 0;

		if (bpf_probe_read_kernel(&classid, sizeof(classid), &cl->common.classid))
			return UNKNOWN_BACKLOG;
		if (classid == id) {
			q = read_pointer(&cl->leaf.q);
			if (!q || bpf_probe_read_kernel(&backlog, sizeof(backlog), &q->qstats.backlog))
				return UNKNOWN_BACKLOG;
			if (backlog > SV_LIMIT_MAX_BACKLOG)
				return UNKNOWN_BACKLOG;
			return sv_min32(backlog + unpaid(cl), SV_LIMIT_MAX_BACKLOG);
		}
		node = read_pointer(node);
	}
	return UNKNOWN_BACKLOG;
}

#endif
