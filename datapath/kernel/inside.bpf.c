/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * On the guest's own end of its veth pair, where a port without a network has limits: what a network of others has put straight into the
 * guest (bpf_redirect_peer), past the port's queue and programs, goes back to the port, whose program (limits.bpf.c) sends it out again.
 */
#include "program.h"

#include "state.h"

/* So many packets turned back, and none of them came out of the port again: something takes the bit off on the way. */
#define LOST (1u << 18)
#define OPEN_NS 1000000000ULL

/* Of a guest, found by the end of its MAC address. Guests that share one share this: a guest of them that has lost packets may then go on. */
#define GUESTS 4096u

struct sv_inside {
	u64 open;   /* ns: all pass until then; 0: not so */
	u32 turned; /* since one last came out of a port */
	u32 opened; /* how often too many had */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GUESTS);
	__type(key, u32);
	__type(value, struct sv_inside);
} inside SEC(".maps");

/* Else packets would go round between the ends of a pair for ever. */
static __always_inline int is_lost(struct sv_inside *of)
{
	if (of->open) {
		if (bpf_ktime_get_ns() < of->open)
			return 1;
		of->open = 0;
		of->turned = 0;
	}
	if (__sync_fetch_and_add(&of->turned, 1) < LOST)
		return 0;
	of->open = bpf_ktime_get_ns() + OPEN_NS;
	of->opened++;
	return 1;
}

SEC("tc")
int selvedge_limit_inside(struct __sk_buff *skb)
{
	struct sv_inside *of;
	u16 end = 0;
	u32 guest;

	bpf_skb_load_bytes(skb, 4, &end, sizeof(end));
	guest = bpf_ntohs(end) & (GUESTS - 1);
	of = bpf_map_lookup_elem(&inside, &guest);
	if (!of)
		return TC_ACT_UNSPEC;
	if (skb->tc_index & SV_THROUGH) {
		skb->tc_index &= ~SV_THROUGH;
		if (of->turned)
			of->turned = 0;
		return TC_ACT_UNSPEC;
	}
	if (is_lost(of))
		return TC_ACT_UNSPEC;
	skb->tc_index |= SV_TURN;
	return bpf_redirect_peer(skb->ifindex, 0);
}

char LICENSE[] SEC("license") = "GPL";
