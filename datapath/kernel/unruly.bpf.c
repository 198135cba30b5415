/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A guest that ignores its receive window, for trials of policing: on the ingress of the guest's own interface every ACK is
 * made to offer the largest window that its field can say. What a receiver closed stays closed.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define IP 14
#define PROTOCOL 9	/* in the IPv4 header */
#define FLAGS 13	/* in the TCP header */
#define WINDOW 14
#define CHECKSUM 16
#define SYN 0x02
#define ACK 0x10

SEC("tc")
int selvedge_unruly(struct __sk_buff *skb)
{
	__u8 first, protocol, flags;
	__u16 window, widest = 0xffff;
	__u32 tcp;

	if (skb->protocol != bpf_htons(ETH_P_IP) || bpf_skb_load_bytes(skb, IP, &first, 1) ||
	    bpf_skb_load_bytes(skb, IP + PROTOCOL, &protocol, 1) || protocol != IPPROTO_TCP)
		return TC_ACT_OK;
	tcp = IP + (first & 15) * 4;
	if (bpf_skb_load_bytes(skb, tcp + FLAGS, &flags, 1) || bpf_skb_load_bytes(skb, tcp + WINDOW, &window, 2))
		return TC_ACT_OK;
	if ((flags & (SYN | ACK)) != ACK || !window || window == widest)
		return TC_ACT_OK;
	if (!bpf_l4_csum_replace(skb, tcp + CHECKSUM, window, widest, 2))
		bpf_skb_store_bytes(skb, tcp + WINDOW, &widest, 2, 0);
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
