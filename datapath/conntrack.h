/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Connection tracking for virtual congestion control (He 2017, section 3.3.1): what the edge infers of a TCP connection
 * of its guest by watching both directions. vcc.h says what is done with it, and where the text is silent.
 */
#ifndef SV_CONNTRACK_H
#define SV_CONNTRACK_H

#include "arith.h"
#include "cubic.h"
#include "dctcp.h"
#include "packet.h"
#include "policy.h"

#define SV_VCC_DUPACKS 3	      /* RFC 5681 section 3.2 */
#define SV_VCC_INITIAL_SEGMENTS 10    /* RFC 6928; He 2017, section 3.3.1 */
#define SV_VCC_DEFAULT_MSS 536	      /* RFC 9293 section 3.7.1 */
#define SV_VCC_PACK_LEN 8	      /* bytes of the option */
#define SV_VCC_MAX_HEADER 60	      /* bytes that a TCP header can have */
#define SV_VCC_MAX_FLIGHT (1u << 30)  /* no TCP window is larger */
#define SV_VCC_DELAYED_ACK_NS 40000000ULL
#define SV_VCC_MAX_BACKOFF 6
#define SV_VCC_STALE_LIMIT 16	      /* reports in a row that contradict the last one: the peer began anew */

struct sv_vcc_conf {
	u64 rto_min;   /* ns: the least time without progress that counts as a timeout */
	u32 n_rules;
	u32 flags;     /* SV_VCC_CONF_* */
	struct sv_vcc_class class[SV_MAX_CLASSES];
	struct sv_policy_rule rule[SV_MAX_RULES];
};

SV_ASSERT_SIZE(struct sv_vcc_conf, 2640);

/* sv_vcc_conf.flags */
#define SV_VCC_CONF_DUPACKS 0x1 /* on a timeout, make the guest retransmit by duplicate ACKs */

/* sv_vcc.flags */
#define SV_VCC_BEGUN 0x0001	 /* zero state has none of these */
#define SV_VCC_SND 0x0002	 /* snd_una, snd_nxt mean something */
#define SV_VCC_RCV 0x0004	 /* rcv_nxt means something */
#define SV_VCC_OUT_SYN 0x0008	 /* the guest's SYN was seen: iss */
#define SV_VCC_IN_SYN 0x0010	 /* the peer's: irs */
#define SV_VCC_OUT_SCALE 0x0020	 /* they had a window scale option */
#define SV_VCC_IN_SCALE 0x0040
#define SV_VCC_AWARE 0x0080	 /* the peer's edge does AC/DC */
#define SV_VCC_PLAIN 0x0100	 /* it does not; neither: not known yet */
#define SV_VCC_RTT 0x0200	 /* rtt_seq is being timed */
#define SV_VCC_FED 0x0400	 /* fb_total, fb_ce: from here on differences count */
#define SV_VCC_GRANTED 0x0800	 /* granted means something */
#define SV_VCC_ACKED 0x1000	 /* data was acknowledged: cwnd is no longer the initial one */
#define SV_VCC_TIMESTAMPS 0x2000
#define SV_VCC_SENT 0x4000	 /* data was sent */
#define SV_VCC_NEW_SYN 0x8000	 /* new_seq, new_mss, new_scale: a SYN under the same key that nobody answered yet */

/* sv_vcc.fins: whose end of the connection has ended. */
#define SV_VCC_FIN_OUT 0x1
#define SV_VCC_FIN_IN 0x2
#define SV_VCC_FIN_BOTH 0x3

struct sv_vcc {
	u64 progress;	 /* ns: when snd_una advanced last, or data became outstanding */
	u64 rtt_start;	 /* ns */
	struct sv_cubic cubic;
	u32 srtt;	 /* ns, at most 4.29 s; 0: no sample */
	u32 rtt_seq;
	/* What the guest sends. */
	u32 iss;
	u32 snd_una;
	u32 snd_nxt;
	u32 granted;	 /* the highest ACK plus window that the guest was given */
	u32 next_seq;	 /* alpha's window ends when this is acknowledged */
	u32 cut_end;	 /* no cut before more than this is acknowledged */
	u32 flight;	 /* the most that was outstanding in this window, and in the one before; bytes */
	u32 last_flight;
	u32 cwnd;	 /* bytes */
	u32 ssthresh;	 /* bytes */
	u32 rest;	 /* of reno.h, cubic.h */
	u32 sum_total;	 /* bytes reported since alpha was computed last */
	u32 sum_ce;
	u32 fb_total;	 /* last report, mod 2^24 */
	u32 fb_ce;
	/* What it receives. */
	u32 irs;
	u32 rcv_nxt;	 /* the end of the newest segment */
	u32 rcv_total;	 /* payload bytes, mod 2^32 */
	u32 rcv_ce;
	u32 told_total;	 /* as last reported */
	u32 told_ce;
	u32 new_seq;
	u16 new_mss;
	u8 new_scale;	 /* as in sv_packet */
	u8 new_out;	 /* 1: it was the guest's */
	u16 alpha;	 /* 1/1024 */
	u16 mss;	 /* payload bytes of a full packet */
	u16 window_in;	 /* the peer's last, as it came, scaled */
	u16 window_out;	 /* the same, as delivered */
	u16 flags;	 /* SV_VCC_* */
	u8 class;
	u8 dupacks;
	u8 in_scale;	 /* shift of the peer's windows */
	u8 out_scale;
	u8 backoff;
	u8 stale;
	/* For people. */
	u32 marked;	 /* payload bytes that the peer reported as marked, mod 2^32 */
	u32 policed;	 /* segments dropped */
	/* Of limiter.h. */
	u32 limit_rwnd;	 /* bytes: SPRING's window; 0: none is in force */
	u32 limit_ssthresh;
	u8 ect;		 /* 1: the guest has sent an ECN-capable packet */
	u8 fins;	 /* SV_VCC_FIN_* */
	u8 pad[6];
};

SV_ASSERT_SIZE(struct sv_vcc, 184);

/* The number after the segment. */
SV_FN u32 sv_vcc_end(const struct sv_packet *p)
{
	return p->seq + p->payload + !!(p->tcp_flags & SV_TCP_SYN) + !!(p->tcp_flags & SV_TCP_FIN);
}

/* Both scales count, or none does (RFC 7323 section 2.2). Windows in SYNs are unscaled. */
SV_FN u32 sv_vcc_scale(const struct sv_vcc *v)
{
	u16 both = SV_VCC_IN_SCALE | SV_VCC_OUT_SCALE;

	return (v->flags & both) == both ? v->in_scale & 15 : 0;
}

/* A window as later ones are written: in SYNs they are unscaled. Not closed unless it was. */
SV_FN u16 sv_vcc_window_units(const struct sv_vcc *v, const struct sv_packet *p)
{
	u16 units = (u16)(p->window >> sv_vcc_scale(v));

	if (!(p->tcp_flags & SV_TCP_SYN))
		return p->window;
	return p->window && !units ? 1 : units;
}

/* Was the whole handshake seen, so that windows can be read? */
SV_FN int sv_vcc_knows_scale(const struct sv_vcc *v)
{
	u16 both = SV_VCC_IN_SYN | SV_VCC_OUT_SYN;

	return (v->flags & both) == both;
}

SV_FN void sv_vcc_begin(struct sv_vcc *v, u8 class)
{
	struct sv_vcc zero = {0};

	*v = zero;
	v->flags = SV_VCC_BEGUN;
	v->class = class;
	v->alpha = SV_DCTCP_ONE;
	v->ssthresh = 0xffffffffu;
	v->mss = SV_VCC_DEFAULT_MSS;
	v->cwnd = SV_VCC_INITIAL_SEGMENTS * SV_VCC_DEFAULT_MSS;
}

/* Until data was acknowledged, the initial window follows what is learnt of the MSS. */
SV_FN void sv_vcc_set_mss(struct sv_vcc *v, u32 mss)
{
	v->mss = (u16)sv_max32(sv_min32(mss, 0x3fff), 64);
	if (!(v->flags & SV_VCC_ACKED))
		v->cwnd = SV_VCC_INITIAL_SEGMENTS * v->mss;
}

/* What a SYN says: the smaller of both MSS options counts. */
SV_FN void sv_vcc_note_syn(struct sv_vcc *v, int out, u32 seq, u32 mss, u8 wscale)
{
	u8 shift = wscale ? (u8)sv_min32(wscale - 1u, 14) : 0;

	if (!mss)
		mss = SV_VCC_DEFAULT_MSS;
	sv_vcc_set_mss(v, v->flags & (SV_VCC_IN_SYN | SV_VCC_OUT_SYN) ? sv_min32(v->mss, mss) : mss);
	if (out) {
		v->flags |= SV_VCC_OUT_SYN | SV_VCC_SND | (wscale ? SV_VCC_OUT_SCALE : 0);
		v->out_scale = shift;
		v->iss = seq;
		v->snd_una = v->next_seq = v->cut_end = seq;
		v->snd_nxt = seq + 1;
	} else {
		v->flags |= SV_VCC_IN_SYN | SV_VCC_RCV | (wscale ? SV_VCC_IN_SCALE : 0);
		v->in_scale = shift;
		v->irs = seq;
		v->rcv_nxt = seq + 1;
	}
}

/* The first data segment tells what is left of the MSS: timestamps take 12 bytes; a split segment says it outright. */
SV_FN void sv_vcc_note_data_mss(struct sv_vcc *v, const struct sv_packet *p)
{
	if (!(v->flags & SV_VCC_SENT)) {
		v->flags |= SV_VCC_SENT;
		if (p->l4_header_len >= 32) {
			v->flags |= SV_VCC_TIMESTAMPS;
			sv_vcc_set_mss(v, v->mss > 12 ? v->mss - 12u : v->mss);
		}
	}
	if (!p->segment_size || p->segment_size == v->mss)
		return;
	if (p->segment_size < v->mss || !sv_vcc_knows_scale(v))
		sv_vcc_set_mss(v, p->segment_size);
}

/*
 * A SYN, `out` if the guest's. A SYN that contradicts what is known counts only once the other side has answered it:
 * otherwise one stray SYN would end our knowledge of a connection, and with it the window's enforcement.
 */
SV_FN void sv_vcc_syn(struct sv_vcc *v, const struct sv_packet *p, int out, u64 now)
{
	u16 own = out ? SV_VCC_OUT_SYN : SV_VCC_IN_SYN, other = out ? SV_VCC_IN_SYN : SV_VCC_OUT_SYN;
	int fresh = !(v->flags & (SV_VCC_OUT_SYN | SV_VCC_IN_SYN | SV_VCC_SND | SV_VCC_RCV));
	u32 answered = p->ack - 1;

	if (v->flags & own && p->seq == (out ? v->iss : v->irs))
		return; /* again */
	if (!(p->tcp_flags & SV_TCP_ACK) && !fresh) {
		v->flags |= SV_VCC_NEW_SYN;
		v->new_seq = p->seq;
		v->new_mss = p->mss;
		v->new_scale = p->wscale;
		v->new_out = !!out;
		return;
	}
	if (p->tcp_flags & SV_TCP_ACK) {
		u32 first = out ? v->irs : v->iss, last = out ? v->rcv_nxt : v->snd_nxt;
		int answers = v->flags & other && !(v->flags & own) && answered - first < last - first;

		if (!answers && v->flags & SV_VCC_NEW_SYN && v->new_out == !out && answered == v->new_seq) {
			u16 mss = v->new_mss;
			u8 scale = v->new_scale;

			sv_vcc_begin(v, v->class);
			sv_vcc_note_syn(v, !out, answered, mss, scale);
		} else if (!answers && !fresh) {
			return;
		}
	}
	sv_forget();
	sv_vcc_note_syn(v, out, p->seq, p->mss, p->wscale);
	/* With TCP Fast Open (RFC 7413) a SYN has data. */
	if (out)
		v->snd_nxt = sv_vcc_end(p);
	else
		v->rcv_nxt = sv_vcc_end(p);
	v->progress = now;
}

/*
 * Is this RST one that its receiver believes? Anything else must not end our knowledge of the flow. RFC 5961 asks for the
 * exact number; a window's width is granted here, because the newest number that we saw may lie ahead of the receiver's.
 */
SV_FN int sv_vcc_rst_in_window(const struct sv_vcc *v, const struct sv_packet *p, int egress)
{
	u16 known = egress ? SV_VCC_SND : SV_VCC_RCV;
	u32 at = egress ? v->snd_nxt : v->rcv_nxt;

	if (!(v->flags & known))
		return 1;
	if (sv_seq_diff(at, p->seq) >= 0)
		return at - p->seq <= SV_VCC_MAX_FLIGHT >> 6;
	return p->seq - at <= 0xffffu;
}

/*
 * Does this FIN or RST end the connection? A FIN ends one half of it: the other may go on for as long as it likes, and must
 * not be let go because it pauses. What the peer will not take, or has taken before, is no FIN. Where the handshake was not
 * seen nothing is enforced, and any FIN will do.
 */
SV_FN int sv_vcc_ends(struct sv_vcc *v, const struct sv_packet *p, int egress)
{
	u32 end = sv_vcc_end(p);

	if (p->tcp_flags & SV_TCP_RST)
		return sv_vcc_rst_in_window(v, p, egress);
	if (!sv_vcc_knows_scale(v))
		return 1;
	if (!egress && sv_vcc_rst_in_window(v, p, 0))
		v->fins |= SV_VCC_FIN_IN;
	else if (egress && sv_seq_after(end, v->snd_nxt) &&
		 !(v->flags & SV_VCC_GRANTED && sv_seq_diff(end, v->granted) > (s32)v->mss))
		v->fins |= SV_VCC_FIN_OUT;
	return v->fins == SV_VCC_FIN_BOTH;
}

/* A segment of the peer that only a connection can send which its guest's RST has not ended. */
SV_FN int sv_vcc_goes_on(const struct sv_vcc *v, const struct sv_packet *p)
{
	return sv_vcc_knows_scale(v) && v->fins != SV_VCC_FIN_BOTH &&
	       (p->tcp_flags & (SV_TCP_ACK | SV_TCP_SYN | SV_TCP_FIN | SV_TCP_RST)) == SV_TCP_ACK;
}

/* The round-trip time, smoothed as in RFC 6298 section 2. */
SV_FN void sv_vcc_note_rtt(struct sv_vcc *v, u64 sample)
{
	u32 rtt = sample > 0xffffffffu ? 0xffffffffu : (u32)sample;

	if (!v->srtt)
		v->srtt = rtt ? rtt : 1;
	else
		v->srtt = v->srtt - v->srtt / 8 + rtt / 8;
}

/* Follow an ACK. Returns the bytes that it newly acknowledges; *lost becomes 1 with the third duplicate. */
SV_FN u32 sv_vcc_track_ack(struct sv_vcc *v, const struct sv_packet *p, u64 now, int *lost)
{
	u32 acked = 0;
	int pure = !p->payload && !(p->tcp_flags & (SV_TCP_SYN | SV_TCP_FIN | SV_TCP_RST));

	if (!(v->flags & SV_VCC_SND)) {
		v->flags |= SV_VCC_SND;
		v->snd_una = v->snd_nxt = v->next_seq = p->ack;
		v->cut_end = p->ack - 1;
	} else if (sv_seq_after(p->ack, v->snd_una) && !sv_seq_after(p->ack, v->snd_nxt)) {
		acked = p->ack - v->snd_una;
		if (v->flags & SV_VCC_OUT_SYN && v->snd_una == v->iss)
			acked--; /* the SYN */
		v->snd_una = p->ack;
		v->dupacks = 0;
		v->backoff = 0;
		v->progress = now;
		if (v->flags & SV_VCC_RTT && !sv_seq_after(v->rtt_seq, p->ack)) {
			v->flags &= (u16)~SV_VCC_RTT;
			sv_vcc_note_rtt(v, now > v->rtt_start ? now - v->rtt_start : 0);
		}
	} else if (p->ack == v->snd_una && pure && p->window == v->window_in && v->snd_nxt != v->snd_una) {
		if (v->dupacks < 255)
			v->dupacks++;
		*lost = v->dupacks == SV_VCC_DUPACKS;
	}
	sv_forget();
	v->window_in = sv_vcc_window_units(v, p);
	return acked;
}

/* Note what the guest sends. Returns 0 if it is more than it may, and that is policed. */
SV_FN int sv_vcc_track_out(struct sv_vcc *v, const struct sv_vcc_class *class, const struct sv_packet *p, u64 now)
{
	u32 end = sv_vcc_end(p);
	int beyond, overrun;

	if (p->tcp_flags & SV_TCP_SYN) {
		sv_vcc_syn(v, p, 1, now);
		return 1;
	}
	if (end == p->seq || p->tcp_flags & SV_TCP_RST)
		return 1;
	if (!(v->flags & SV_VCC_SND)) {
		v->flags |= SV_VCC_SND;
		v->snd_una = v->snd_nxt = v->next_seq = p->seq;
		v->cut_end = p->seq - 1;
	}
	if (!sv_seq_after(end, v->snd_nxt)) {
		/* A retransmission: whose ACK is timed would be a guess (RFC 6298 section 3). */
		v->flags &= (u16)~SV_VCC_RTT;
		return 1;
	}
	beyond = v->flags & SV_VCC_GRANTED && sv_seq_diff(end, v->granted) > (s32)v->mss;
	overrun = beyond && p->payload && sv_vcc_knows_scale(v);
	if (overrun && class->flags & SV_CLASS_POLICE && p->payload > 1)
		return 0;
	/* What the receiver will not take must not count as sent: it would put off the next cut. */
	if ((beyond && p->payload <= 1) || end - v->snd_una > SV_VCC_MAX_FLIGHT)
		return 1;
	if (p->payload)
		sv_vcc_note_data_mss(v, p);
	if (v->snd_nxt == v->snd_una)
		v->progress = now;
	v->snd_nxt = end;
	v->flight = sv_max32(v->flight, end - v->snd_una);
	if (!(v->flags & SV_VCC_RTT)) {
		v->flags |= SV_VCC_RTT;
		v->rtt_seq = end;
		v->rtt_start = now;
	}
	return 1;
}

/* Note what arrives for the guest, and count it. */
SV_FN void sv_vcc_track_in(struct sv_vcc *v, const struct sv_packet *p, u64 now)
{
	u32 end = sv_vcc_end(p);

	if (p->tcp_flags & SV_TCP_RST)
		return;
	if (p->tcp_flags & SV_TCP_SYN)
		sv_vcc_syn(v, p, 0, now);
	else if (!(v->flags & SV_VCC_RCV) || sv_seq_after(end, v->rcv_nxt))
		v->rcv_nxt = end;
	if (!(p->tcp_flags & SV_TCP_SYN))
		v->flags |= SV_VCC_RCV;
	v->rcv_total += p->payload;
	if (p->ecn == SV_ECN_CE)
		v->rcv_ce += p->payload;
}

/* When a timeout is to be inferred, ns; 0: nothing is outstanding. */
SV_FN u64 sv_vcc_deadline(const struct sv_vcc *v, const struct sv_vcc_conf *conf)
{
	u64 wait = 4ULL * v->srtt;

	if (!(v->flags & SV_VCC_SND) || !sv_seq_after(v->snd_nxt, v->snd_una))
		return 0;
	if (wait < conf->rto_min)
		wait = conf->rto_min;
	if (v->snd_nxt - v->snd_una <= v->mss)
		wait += SV_VCC_DELAYED_ACK_NS;
	return v->progress + (wait << (v->backoff > SV_VCC_MAX_BACKOFF ? SV_VCC_MAX_BACKOFF : v->backoff));
}

#endif
