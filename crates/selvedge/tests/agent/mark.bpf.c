/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A switch that marks: CE on one of eight ECN-capable IPv4 packets, whatever its queue; and one that loses all of them. On clsact
 * egress.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define IP 14

SEC("tc")
int mark(struct __sk_buff *skb)
{
	__u8 head[2] __attribute__((aligned(2))), marked[2] __attribute__((aligned(2)));

	if (skb->protocol != bpf_htons(0x0800) || bpf_get_prandom_u32() & 7 || bpf_skb_load_bytes(skb, IP, head, 2))
		return TC_ACT_OK;
	if (!(head[1] & 3))
		return TC_ACT_OK;
	marked[0] = head[0];
	marked[1] = head[1] | 3;
	bpf_l3_csum_replace(skb, IP + 10, *(__u16 *)head, *(__u16 *)marked, 2);
	bpf_skb_store_bytes(skb, IP, marked, 2, 0);
	return TC_ACT_OK;
}

SEC("lose")
int lose_all(struct __sk_buff *skb)
{
	return skb->protocol == bpf_htons(0x0800) ? TC_ACT_SHOT : TC_ACT_OK;
}

char LICENSE[] SEC("license") = "GPL";
