/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef SELVEDGE_TCP_TYPES_H
#define SELVEDGE_TCP_TYPES_H

/*
 * What a congestion control in BPF touches of the kernel's own structures. Only names count: the loader finds each
 * member in the running kernel's type information (CO-RE) and corrects its offset.
 */

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock {
	unsigned long sk_pacing_rate;	  /* bytes per second */
	unsigned long sk_max_pacing_rate; /* SO_MAX_PACING_RATE */
};

struct inet_connection_sock {
	__u8 icsk_ca_state : 5;
	struct {
		__u8 pending;
	} icsk_ack;
	__u64 icsk_ca_priv[13]; /* the congestion control's own */
};

struct tcp_sock {
	__u32 mss_cache;
	__u32 snd_cwnd;	    /* packets */
	__u32 snd_ssthresh; /* packets */
	__u32 snd_cwnd_clamp;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 rcv_nxt;
	__u32 srtt_us; /* eight times the smoothed RTT */
	__u32 packets_out;
	__u32 retrans_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 max_packets_out;
	__u32 delivered;    /* packets */
	__u32 delivered_ce; /* of them by ACKs that echo congestion */
	__u8 ecn_flags;
	__u8 is_cwnd_limited : 1;
};

struct rate_sample {
	__u32 acked_sacked; /* packets that this ACK newly acknowledged or SACKed */
};

enum tcp_ca_event {
	CA_EVENT_TX_START = 0,
	CA_EVENT_CWND_RESTART = 1,
	CA_EVENT_COMPLETE_CWR = 2,
	CA_EVENT_LOSS = 3,
	CA_EVENT_ECN_NO_CE = 4,
	CA_EVENT_ECN_IS_CE = 5,
};

/* The name stands first, so that a loader can change it without knowing the rest. */
struct tcp_congestion_ops {
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	__u32 (*undo_cwnd)(struct sock *sk);
};

#pragma clang attribute pop

enum {
	/* flags above */
	TCP_CONG_NON_RESTRICTED = 1 << 0,
	TCP_CONG_NEEDS_ECN = 1 << 1,
	/* icsk_ca_state */
	TCP_CA_RECOVERY = 3,
	TCP_CA_LOSS = 4,
	/* icsk_ack.pending */
	ICSK_ACK_TIMER = 2,
	ICSK_ACK_NOW = 16,
	/* ecn_flags */
	TCP_ECN_DEMAND_CWR = 4,
};

#endif
