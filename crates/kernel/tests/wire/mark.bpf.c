/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A switch that marks every sixteenth packet or segment that is ECN-capable. On clsact egress. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int mark(struct __sk_buff *skb)
{
	if (!(bpf_get_prandom_u32() & 15))
		bpf_skb_ecn_set_ce(skb);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
