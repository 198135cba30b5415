/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * DCTCP (RFC 8257) as a congestion control of the Linux kernel, in BPF (struct_ops, Linux 6.10), for guests where the
 * kernel has none: it is what AC/DC is compared with. Sections below are the RFC's.
 *
 * The window is kept here and written to the socket on every ACK. The kernel asks a congestion control for a threshold
 * (->ssthresh) when it starts a reduction of its own and then shrinks the window towards it; a program that relies on
 * that answer now and then sees its window explode. With ->cong_control the kernel leaves the window alone, and what
 * ->ssthresh and ->undo_cwnd return lasts until the next ACK at most.
 *
 * Deviations: no fall-back to Reno where ECN was not negotiated, as without marks DCTCP is Reno; the window is not
 * reduced after idleness (the kernel leaves that out with ->cong_control); in recovery the number of packets in flight
 * grows by one per ACK at most, which is the slow start bound of RFC 6937 without the rest of it.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "tcp_types.h"

typedef __u8 u8;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;

#define ALPHA_ONE 1024	  /* alpha is in 1/1024 */
#define GAIN_SHIFT 4	  /* g = 1/16 (section 4.2) */
#define MIN_CWND 2	  /* packets */
#define NO_SSTHRESH 0x7fffffff

/* Windows in packets. */
struct dctcp {
	u32 cwnd;
	u32 ssthresh;
	u32 credit;	    /* packets acknowledged in congestion avoidance and not yet turned into window */
	u32 alpha;	    /* estimate of the marked fraction */
	u32 window_end;	    /* the observation window ends when this is acknowledged */
	u32 reduction_end;  /* a reduction lasts until this is acknowledged */
	u32 delivered;	    /* counters of the socket when the observation window began */
	u32 delivered_ce;
	u32 seen_ce;	    /* delivered_ce at the last ACK */
	u32 prior_cwnd;	    /* before the last loss */
	u32 prior_ssthresh;
	u32 prior_rcv_nxt;  /* receiver: what had arrived before the last packet */
	u8 ce_state;	    /* receiver: DCTCP.CE (section 3.2) */
	u8 reducing;
};

_Static_assert(sizeof(struct dctcp) <= 104, "icsk_ca_priv has no more");

/* Over all sockets, per CPU; read by kernel::dctcp. */
struct dctcp_stats {
	u64 windows;	/* observation windows ended */
	u64 alpha_sum;	/* of alpha at their ends, in 1/1024 */
	u64 reductions; /* on ECN echoes */
	u64 losses;	/* recoveries entered */
	u64 timeouts;
	u64 early_acks; /* sent because CE changed while an ACK was delayed */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct dctcp_stats);
} dctcp_stats SEC(".maps");

static __always_inline struct dctcp_stats *stats(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&dctcp_stats, &zero);
}

#define COUNT(field, n)                                                                                                \
	do {                                                                                                           \
		struct dctcp_stats *s_ = stats();                                                                      \
		if (s_)                                                                                                \
			s_->field += (n);                                                                              \
	} while (0)

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct inet_connection_sock *icsk(struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

static __always_inline struct dctcp *state(struct sock *sk)
{
	return (struct dctcp *)icsk(sk)->icsk_ca_priv;
}

static __always_inline u32 min_u32(u32 a, u32 b)
{
	return a < b ? a : b;
}

static __always_inline u32 max_u32(u32 a, u32 b)
{
	return a > b ? a : b;
}

static __always_inline int before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static __always_inline void begin_window(struct dctcp *ca, struct tcp_sock *tp)
{
	ca->window_end = tp->snd_nxt;
	ca->delivered = tp->delivered;
	ca->delivered_ce = tp->delivered_ce;
}

/* Section 3.3, steps 4 to 8. Subtracts at least 1, or alpha would come to rest at 15. */
static __always_inline void update_alpha(struct dctcp *ca, struct tcp_sock *tp)
{
	u32 delivered = tp->delivered - ca->delivered;
	u32 marked = tp->delivered_ce - ca->delivered_ce;
	u32 alpha = ca->alpha;

	if (delivered) {
		alpha -= max_u32(alpha >> GAIN_SHIFT, alpha != 0);
		alpha += (u32)(((u64)min_u32(marked, delivered) << (10 - GAIN_SHIFT)) / delivered);
		ca->alpha = min_u32(alpha, ALPHA_ONE);
		COUNT(windows, 1);
		COUNT(alpha_sum, ca->alpha);
	}
	begin_window(ca, tp);
}

/* One reduction a window, for marks and losses alike: up to the data sent when it began. */
static __always_inline void reduce(struct dctcp *ca, struct tcp_sock *tp, u32 cwnd)
{
	ca->cwnd = max_u32(cwnd, MIN_CWND);
	ca->ssthresh = ca->cwnd;
	ca->credit = 0;
	ca->reducing = 1;
	ca->reduction_end = tp->snd_nxt;
}

static __always_inline void remember(struct dctcp *ca)
{
	ca->prior_cwnd = ca->cwnd;
	ca->prior_ssthresh = ca->ssthresh;
}

static __always_inline void grow(struct dctcp *ca, u32 acked)
{
	if (ca->cwnd < ca->ssthresh) {
		u32 growth = min_u32(acked, ca->ssthresh - ca->cwnd);

		ca->cwnd += growth;
		acked -= growth;
	}
	ca->credit += acked;
	if (ca->credit >= ca->cwnd) {
		ca->credit = min_u32(ca->credit - ca->cwnd, ca->cwnd);
		ca->cwnd++;
	}
}

/* The window was the limit in the last round trip; in slow start half of it is enough. */
static __always_inline int is_cwnd_limited(struct dctcp *ca, struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return ca->cwnd < ca->ssthresh && ca->cwnd < 2 * tp->max_packets_out;
}

/* What the kernel would set without ->cong_control: it sizes TSO segments by this. */
static __always_inline void set_pacing_rate(struct sock *sk, struct dctcp *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 rate = (u64)tp->mss_cache * ca->cwnd * 8000000;
	u32 srtt = tp->srtt_us;

	if (!srtt)
		return;
	rate = ca->cwnd < ca->ssthresh / 2 ? rate / srtt * 2 : rate / srtt * 6 / 5;
	if (rate > sk->sk_max_pacing_rate)
		rate = sk->sk_max_pacing_rate;
	sk->sk_pacing_rate = rate;
}

SEC("struct_ops/dctcp_init")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = state(sk);

	ca->cwnd = max_u32(tp->snd_cwnd, MIN_CWND);
	ca->ssthresh = tp->snd_ssthresh;
	ca->credit = 0;
	ca->alpha = ALPHA_ONE; /* section 4.2: the first mark halves the window */
	ca->seen_ce = tp->delivered_ce;
	ca->prior_cwnd = 0;
	ca->prior_ssthresh = 0;
	ca->prior_rcv_nxt = tp->rcv_nxt;
	ca->ce_state = 0;
	ca->reducing = 0;
	ca->reduction_end = tp->snd_una;
	begin_window(ca, tp);
}

SEC("struct_ops/dctcp_ssthresh")
__u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	return state(sk)->ssthresh;
}

/* The last reduction for loss was spurious. */
SEC("struct_ops/dctcp_undo_cwnd")
__u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk)
{
	struct dctcp *ca = state(sk);

	ca->cwnd = max_u32(ca->cwnd, ca->prior_cwnd);
	ca->ssthresh = max_u32(ca->ssthresh, ca->prior_ssthresh);
	return ca->cwnd;
}

/* Loss halves the window, as in any TCP (section 3.4), unless it is being reduced already. */
SEC("struct_ops/dctcp_set_state")
void BPF_PROG(dctcp_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = state(sk);

	if (new_state != TCP_CA_RECOVERY || BPF_CORE_READ_BITFIELD(icsk(sk), icsk_ca_state) == TCP_CA_RECOVERY)
		return;
	COUNT(losses, 1);
	if (ca->reducing && before(tp->snd_una, ca->reduction_end))
		return;
	remember(ca);
	reduce(ca, tp, ca->cwnd / 2);
}

SEC("struct_ops/dctcp_cong_control")
void BPF_PROG(dctcp_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = state(sk);
	u32 marked = tp->delivered_ce - ca->seen_ce;
	u32 cwnd;

	ca->seen_ce = tp->delivered_ce;
	if (!before(tp->snd_una, ca->window_end))
		update_alpha(ca, tp);
	if (ca->reducing && !before(tp->snd_una, ca->reduction_end))
		ca->reducing = 0;
	if (!ca->reducing && marked) {
		COUNT(reductions, 1);
		/* Section 3.3, step 9. */
		reduce(ca, tp, ca->cwnd - (u32)(((u64)ca->cwnd * ca->alpha) >> 11));
	} else if (!ca->reducing && is_cwnd_limited(ca, tp)) {
		grow(ca, rs->acked_sacked);
	} else if (ca->reducing && ca->cwnd < ca->ssthresh) {
		/* After a timeout the window starts anew. */
		grow(ca, rs->acked_sacked);
	}
	ca->cwnd = min_u32(ca->cwnd, tp->snd_cwnd_clamp);
	cwnd = ca->cwnd;
	if (BPF_CORE_READ_BITFIELD(icsk(sk), icsk_ca_state) == TCP_CA_RECOVERY) {
		u32 gone = tp->sacked_out + tp->lost_out;
		u32 sent = tp->packets_out + tp->retrans_out;
		u32 in_flight = sent > gone ? sent - gone : 0;

		cwnd = min_u32(cwnd, in_flight + rs->acked_sacked + 1);
	}
	tp->snd_cwnd = max_u32(cwnd, 1);
	tp->snd_ssthresh = ca->ssthresh;
	set_pacing_rate(sk, ca);
}

static __always_inline void echo(struct tcp_sock *tp, u8 ce)
{
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

/*
 * Section 3.2: ACKs echo the marks of exactly the packets that they acknowledge. When the mark changes while an ACK is
 * delayed, that ACK goes out at once with the old echo, for what came before this packet.
 */
static __always_inline void on_packet(struct sock *sk, u8 ce)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = state(sk);

	if (ca->ce_state != ce) {
		if (icsk(sk)->icsk_ack.pending & ICSK_ACK_TIMER) {
			echo(tp, ca->ce_state);
			bpf_tcp_send_ack(tp, ca->prior_rcv_nxt);
			COUNT(early_acks, 1);
		}
		icsk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	ca->prior_rcv_nxt = tp->rcv_nxt;
	ca->ce_state = ce;
	echo(tp, ce);
}

SEC("struct_ops/dctcp_cwnd_event")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = state(sk);

	if (event == CA_EVENT_ECN_IS_CE) {
		on_packet(sk, 1);
	} else if (event == CA_EVENT_ECN_NO_CE) {
		on_packet(sk, 0);
	} else if (event == CA_EVENT_LOSS) {
		COUNT(timeouts, 1);
		remember(ca);
		reduce(ca, tp, ca->cwnd / 2);
		ca->cwnd = 1;
	}
}

SEC(".struct_ops.link")
struct tcp_congestion_ops selvedge_dctcp = {
	.name = "selvedge_dctcp",
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.init = (void *)dctcp_init,
	.ssthresh = (void *)dctcp_ssthresh,
	.set_state = (void *)dctcp_set_state,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.cong_control = (void *)dctcp_cong_control,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
};

/* The kernel accepts struct_ops only under the GPL. */
char LICENSE[] SEC("license") = "GPL";
