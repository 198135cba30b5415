/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A switch that marks: CE on packets that find more than MARK_AT bytes in the interface's queue. On clsact egress. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#define MARK_AT 60000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct gnet_stats_queue {
	__u32 backlog;
};
struct Qdisc {
	struct gnet_stats_queue qstats;
};
struct net_device {
	struct Qdisc *qdisc;
};
struct sk_buff {
	struct net_device *dev;
};
#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *) __attribute__((section(".ksyms")));

SEC("tc")
int mark(struct __sk_buff *ctx)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);

	if (skb->dev->qdisc->qstats.backlog > MARK_AT)
		bpf_skb_ecn_set_ce(ctx);
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "GPL";
