/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * On the guest's own end of its veth pair, where a port without a network has limits: whatever gets there goes back to the port, whose program
 * (limits.bpf.c) has it wait there and puts it into the guest. So limits hold for what a network of others has put straight into the guest
 * (bpf_redirect_peer), past the port's queue and programs.
 */
#include "program.h"

#include "state.h"

SEC("tc")
int selvedge_limit_inside(struct __sk_buff *skb)
{
	if (skb->tstamp == SV_THROUGH) {
		skb->tstamp = 0;
		return TC_ACT_UNSPEC;
	}
	if (skb->pkt_type == 3 /* PACKET_OTHERHOST */)
		return TC_ACT_UNSPEC; /* a bridge has flooded it: the guest drops it */
	skb->tstamp = SV_TURNED;
	return bpf_redirect_peer(skb->ifindex, 0);
}

char LICENSE[] SEC("license") = "GPL";
