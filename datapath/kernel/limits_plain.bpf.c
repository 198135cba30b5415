/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Rate limits without laws (limits.bpf.c has them), for kernels without type information or whose verifier refuses those: all that
 * a guest sends goes through its class of HTB. An object of its own, in which nothing is fitted to the kernel's types.
 */
#include "program.h"

#include "../encap.h"
#include "../mss.h"
#include "limits.h"
#include "state.h"

#include "queue.h"

/* What the guest sends. */
SEC("tc")
int selvedge_limit_plain(struct __sk_buff *skb)
{
	struct sv_limiter_key key = {0};
	struct sv_limiter *l;
	struct way way;

	if (is_hosts_own(skb) || came_out(skb))
		return NEXT;
	l = find_limiter(skb->ifindex, SV_LIMITER_OUT, &key);
	if (!l)
		return NEXT;
	note_way(&way, l, 0);
	return to_queue(skb, &way);
}

char LICENSE[] SEC("license") = "GPL";
