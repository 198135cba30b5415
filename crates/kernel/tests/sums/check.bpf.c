/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * On a guest's clsact ingress: does the kernel have a sum of the whole packet (CHECKSUM_COMPLETE), and is it that of its bytes behind the
 * Ethernet header?
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#define ETH 14
/* Longer ones are merged ones, which have no such sum. */
#define LONGEST 1500

enum { SUMMED, WRONG, COUNTS };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

static void count(__u32 what)
{
	__u64 *value = bpf_map_lookup_elem(&counts, &what);

	if (value)
		__sync_fetch_and_add(value, 1);
}

static __u32 fold(__u64 sum)
{
	for (int i = 0; i < 4; i++)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff ? 0 : sum;
}

SEC("tc")
int check(struct __sk_buff *skb)
{
	__s64 known = bpf_csum_update(skb, 0); /* changes nothing; an error unless there is a sum */
	__u64 sum = 0;
	__u16 *at;
	void *end;

	if (known < 0 || skb->len > ETH + LONGEST || bpf_skb_pull_data(skb, skb->len))
		return TC_ACT_UNSPEC;
	at = (void *)(long)skb->data + ETH;
	end = (void *)(long)skb->data_end;
	for (int i = 0; i < LONGEST / 2; i++) {
		if ((void *)(at + 1) > end)
			break;
		sum += *at++;
	}
	if ((void *)at + 1 <= end)
		sum += *(__u8 *)at;
	count(SUMMED);
	if (fold(sum) != fold(known))
		count(WRONG);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
