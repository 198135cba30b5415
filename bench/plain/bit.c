/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* For bench/plain/run: every EVERYth packet of some size gets the reserved bit of its IPv4 header; what arrives is counted. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define SMALL 500 /* bytes: acknowledgements are left alone */
#define WORD (ETH_HLEN + 6)
#define CHECK (ETH_HLEN + 10)

/* Segments, and packets in them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} arrived SEC(".maps");

SEC("tc")
int set_bit(struct __sk_buff *skb)
{
#if EVERY
	__u16 was, is;

	if (skb->protocol != bpf_htons(ETH_P_IP) || skb->len < SMALL || bpf_get_prandom_u32() % EVERY)
		return TC_ACT_UNSPEC;
	if (bpf_skb_load_bytes(skb, WORD, &was, sizeof(was)))
		return TC_ACT_UNSPEC;
	is = was | bpf_htons(0x8000);
	bpf_l3_csum_replace(skb, CHECK, was, is, sizeof(is));
	bpf_skb_store_bytes(skb, WORD, &is, sizeof(is), 0);
#endif
	return TC_ACT_UNSPEC;
}

SEC("tc")
int count(struct __sk_buff *skb)
{
	__u32 segments = 0, packets = 1;
	__u64 *s = bpf_map_lookup_elem(&arrived, &segments), *p = bpf_map_lookup_elem(&arrived, &packets);

	if (!s || !p || skb->len < SMALL)
		return TC_ACT_UNSPEC;
	__sync_fetch_and_add(s, 1);
	__sync_fetch_and_add(p, skb->gso_segs ? skb->gso_segs : 1);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
