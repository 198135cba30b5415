/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A switch that marks a quarter of what is ECN-capable: so much that not only the last segments are. On clsact egress. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int mark(struct __sk_buff *skb)
{
	if (!(bpf_get_prandom_u32() & 3))
		bpf_skb_ecn_set_ce(skb);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
