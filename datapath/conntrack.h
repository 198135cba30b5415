/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Connection tracking (He 2017, section 3.3.1): what the edge infers of a TCP connection of its guest by watching both
 * directions. It decides nothing: laws and bounds, which do, read it. vcc.h says where the text is silent.
 *
 * "out" and "snd" are the guest's side, "in" and "rcv" its peer's. The caller holds the flow's lock.
 */
#ifndef SV_CONNTRACK_H
#define SV_CONNTRACK_H

#include "arith.h"
#include "flow.h"
#include "packet.h"

#define SV_CONN_DUPACKS 3		 /* RFC 5681 section 3.2 */
#define SV_CONN_INITIAL_SEGMENTS 10	 /* RFC 6928; He 2017, section 3.3.1 */
#define SV_CONN_DEFAULT_MSS 536		 /* RFC 9293 section 3.7.1 */
#define SV_CONN_MAX_FLIGHT (1u << 30)	 /* no TCP window is larger */
#define SV_CONN_DELAYED_ACK_NS 40000000ULL
#define SV_CONN_MAX_BACKOFF 6

/* sv_conn.flags */
#define SV_CONN_BEGUN 0x0001	  /* zero state has none of these */
#define SV_CONN_SND 0x0002	  /* snd_una, snd_nxt mean something */
#define SV_CONN_RCV 0x0004	  /* rcv_nxt means something */
#define SV_CONN_OUT_SYN 0x0008	  /* the guest's SYN was seen: iss */
#define SV_CONN_IN_SYN 0x0010	  /* the peer's: irs */
#define SV_CONN_OUT_SCALE 0x0020  /* they had a window scale option */
#define SV_CONN_IN_SCALE 0x0040
#define SV_CONN_RTT 0x0080	  /* rtt_seq is being timed */
#define SV_CONN_TIMESTAMPS 0x0100
#define SV_CONN_SENT 0x0200	  /* data was sent */
#define SV_CONN_GRANTED 0x0400	  /* granted means something */
#define SV_CONN_ECT 0x0800	  /* the guest has sent an ECN-capable packet */
#define SV_CONN_NEW_SYN 0x1000	  /* new_seq, new_mss, new_scale: a SYN under the same key that nobody answered yet */
#define SV_CONN_NEW_OUT 0x2000	  /* it was the guest's */
#define SV_CONN_FIRST 0x4000	  /* the guest's last segment went past the limiter's queue (sparse.h) */
#define SV_CONN_ASKED 0x8000	  /* its handshake was kept, or recalled if it could be */

/* sv_conn.life: whose end of the connection has ended; how many rounds it is yet since it was followed from its middle on; whose SYN was signed. */
#define SV_CONN_FIN_OUT 0x01
#define SV_CONN_FIN_IN 0x02
#define SV_CONN_FIN_BOTH 0x03
#define SV_CONN_JOINED 0x1c
#define SV_CONN_JOINED_ONE 0x04
#define SV_CONN_SIGNED_OUT 0x20
#define SV_CONN_SIGNED_IN 0x40
#define SV_CONN_SIGNED 0x60

struct sv_conn {
	u64 progress;	 /* ns: when snd_una advanced last, or data became outstanding */
	u64 rtt_start;	 /* ns */
	u32 srtt;	 /* ns, at most 4.29 s; 0: no sample */
	u32 rtt_seq;
	/* What the guest sends. */
	u32 iss;
	u32 snd_una;
	u32 snd_nxt;
	u32 granted;	 /* the highest ACK plus window that the guest was given */
	u32 round_end;	 /* a round trip ends when this is acknowledged */
	u32 flight;	 /* the most that was outstanding in this round, and in the one before; bytes */
	u32 last_flight;
	/* What it receives. */
	u32 irs;
	u32 rcv_nxt;	 /* the end of the newest segment */
	u32 new_seq;
	u16 new_mss;
	u16 mss;	 /* payload bytes of a full packet */
	u16 window_in;	 /* the peer's last, as it came, scaled */
	u16 window_out;	 /* the same, as delivered */
	u16 flags;	 /* SV_CONN_* */
	u8 new_scale;	 /* as in sv_packet */
	u8 in_scale;	 /* shift of the peer's windows */
	u8 out_scale;
	u8 dupacks;
	u8 backoff;	 /* timeouts in a row */
	u8 life;	 /* SV_CONN_FIN_*, SV_CONN_JOINED, SV_CONN_SIGNED_* */
};

SV_ASSERT_SIZE(struct sv_conn, 80);

/* What following a segment changed, for those who build on it; bits. */
#define SV_CONN_ANEW 0x1   /* another connection took the old one's place: what else is known of that means nothing */
#define SV_CONN_PLACED 0x2 /* snd_una was set, not advanced */
#define SV_CONN_SIZED 0x4  /* so was the MSS */
#define SV_CONN_REFUSED 0x8 /* the segment exceeds what was granted, and was not noted */

/* The number after the segment. */
SV_FN u32 sv_conn_end(const struct sv_packet *p)
{
	return p->seq + p->payload + !!(p->tcp_flags & SV_TCP_SYN) + !!(p->tcp_flags & SV_TCP_FIN);
}

/* Both scales count, or none does (RFC 7323 section 2.2). Windows in SYNs are unscaled. */
SV_FN u32 sv_conn_scale(const struct sv_conn *t)
{
	u16 both = SV_CONN_IN_SCALE | SV_CONN_OUT_SCALE;

	return (t->flags & both) == both ? t->in_scale & 15 : 0;
}

/* A window as later ones are written: in SYNs they are unscaled. Not closed unless it was. */
SV_FN u16 sv_conn_window_units(const struct sv_conn *t, const struct sv_packet *p)
{
	u16 units = (u16)(p->window >> sv_conn_scale(t));

	if (!(p->tcp_flags & SV_TCP_SYN))
		return p->window;
	return p->window && !units ? 1 : units;
}

/* Do signatures cover the connection's headers, so that who changes them ends it? Both ends must say so, or one would decide for the other. */
SV_FN int sv_conn_signed(const struct sv_conn *t)
{
	return (t->life & SV_CONN_SIGNED) == SV_CONN_SIGNED;
}

/* Was the whole handshake seen, so that windows can be read, and may they be changed? */
SV_FN int sv_conn_knows_scale(const struct sv_conn *t)
{
	u16 both = SV_CONN_IN_SYN | SV_CONN_OUT_SYN;

	return (t->flags & both) == both && !sv_conn_signed(t);
}

/*
 * What only the handshake tells of a connection, for those who keep it where it outlives a sv_conn. Neither size nor meaning may
 * ever change: edges of different versions read it.
 */
struct sv_handshake {
	u16 mss;       /* payload bytes of a full packet, before options */
	u8 out_scale;  /* the guest's: shift + 1; 0: it had none */
	u8 in_scale;   /* the peer's */
};

SV_ASSERT_SIZE(struct sv_handshake, 4);

/*
 * After a segment was followed: is its connection's handshake to be kept now, or else recalled? Once in a connection's life. Between its
 * SYNs neither: what is kept then is another connection's.
 */
SV_FN int sv_conn_recalls(const struct sv_conn *t, const struct sv_packet *p)
{
	int begins = p->tcp_flags & SV_TCP_SYN || t->flags & (SV_CONN_OUT_SYN | SV_CONN_IN_SYN);

	return !(t->flags & SV_CONN_ASKED) && (sv_conn_knows_scale(t) || !begins);
}

/* What to keep of the handshake. Call where sv_conn_knows_scale. */
SV_FN struct sv_handshake sv_conn_handshake(const struct sv_conn *t)
{
	struct sv_handshake h = {
		.mss = t->mss,
		.out_scale = (u8)(t->flags & SV_CONN_OUT_SCALE ? t->out_scale + 1 : 0),
		.in_scale = (u8)(t->flags & SV_CONN_IN_SCALE ? t->in_scale + 1 : 0),
	};

	return h;
}

SV_FN void sv_conn_begin(struct sv_conn *t)
{
	struct sv_conn zero = {0};

	*t = zero;
	t->flags = SV_CONN_BEGUN;
	t->mss = SV_CONN_DEFAULT_MSS;
}

SV_FN void sv_conn_set_mss(struct sv_conn *t, u32 mss)
{
	t->mss = (u16)sv_max32(sv_min32(mss, 0x3fff), 64);
}

/* What a SYN says: the smaller of both MSS options counts. Returns SV_CONN_* changes. */
SV_FN u32 sv_conn_note_syn(struct sv_conn *t, int out, u32 seq, u32 mss, u8 wscale)
{
	u8 is_signed = wscale == SV_WSCALE_SIGNED ? (out ? SV_CONN_SIGNED_OUT : SV_CONN_SIGNED_IN) : 0;
	u8 shift = wscale ? (u8)sv_min32(wscale - 1u, 14) : 0;

	t->life = (u8)((t->life & ~(out ? SV_CONN_SIGNED_OUT : SV_CONN_SIGNED_IN)) | is_signed);
	t->flags &= (u16)~SV_CONN_ASKED; /* there will be a handshake to keep */
	if (!mss)
		mss = SV_CONN_DEFAULT_MSS;
	sv_conn_set_mss(t, t->flags & (SV_CONN_IN_SYN | SV_CONN_OUT_SYN) ? sv_min32(t->mss, mss) : mss);
	if (out) {
		t->flags |= SV_CONN_OUT_SYN | SV_CONN_SND | (wscale ? SV_CONN_OUT_SCALE : 0);
		t->out_scale = shift;
		t->iss = seq;
		t->snd_una = t->round_end = seq;
		t->snd_nxt = seq + 1;
		return SV_CONN_SIZED | SV_CONN_PLACED;
	}
	t->flags |= SV_CONN_IN_SYN | SV_CONN_RCV | (wscale ? SV_CONN_IN_SCALE : 0);
	t->in_scale = shift;
	t->irs = seq;
	t->rcv_nxt = seq + 1;
	return SV_CONN_SIZED;
}

/*
 * A connection that is followed from its middle on learns of its handshake what was kept: `h`, 0 if that is nothing. Returns SV_CONN_*
 * changes.
 */
SV_FN u32 sv_conn_recall(struct sv_conn *t, const struct sv_handshake *h)
{
	t->flags |= SV_CONN_ASKED;
	if (!h || t->flags & (SV_CONN_OUT_SYN | SV_CONN_IN_SYN))
		return 0;
	t->flags |= SV_CONN_OUT_SYN | SV_CONN_IN_SYN | (h->out_scale ? SV_CONN_OUT_SCALE : 0) | (h->in_scale ? SV_CONN_IN_SCALE : 0);
	t->out_scale = (u8)(h->out_scale ? sv_min32(h->out_scale - 1u, 14) : 0);
	t->in_scale = (u8)(h->in_scale ? sv_min32(h->in_scale - 1u, 14) : 0);
	sv_conn_set_mss(t, t->flags & SV_CONN_TIMESTAMPS && h->mss > 12 ? h->mss - 12u : h->mss);
	t->life |= SV_CONN_JOINED;
	/* No sequence number is known to be a SYN's. */
	t->iss = t->snd_una - 1;
	t->irs = t->rcv_nxt - SV_CONN_MAX_FLIGHT;
	return SV_CONN_SIZED;
}

/* The first data segment tells what is left of the MSS: timestamps take 12 bytes; a split segment says it outright. */
SV_FN u32 sv_conn_note_data_mss(struct sv_conn *t, const struct sv_packet *p)
{
	u32 changed = 0;

	if (!(t->flags & SV_CONN_SENT)) {
		t->flags |= SV_CONN_SENT;
		if (p->l4_header_len >= 32) {
			t->flags |= SV_CONN_TIMESTAMPS;
			sv_conn_set_mss(t, t->mss > 12 ? t->mss - 12u : t->mss);
			changed = SV_CONN_SIZED;
		}
	}
	if (!p->segment_size || p->segment_size == t->mss)
		return changed;
	if (p->segment_size < t->mss || !sv_conn_knows_scale(t)) {
		sv_conn_set_mss(t, p->segment_size);
		changed = SV_CONN_SIZED;
	}
	return changed;
}

/*
 * A SYN, `out` if the guest's. A SYN that contradicts what is known counts only once the other side has answered it:
 * otherwise one stray SYN would end our knowledge of a connection, and with it the window's enforcement. Returns what it
 * changed.
 */
SV_FN u32 sv_conn_syn(struct sv_conn *t, const struct sv_packet *p, int out, u64 now)
{
	u16 own = out ? SV_CONN_OUT_SYN : SV_CONN_IN_SYN, other = out ? SV_CONN_IN_SYN : SV_CONN_OUT_SYN;
	int fresh = !(t->flags & (SV_CONN_OUT_SYN | SV_CONN_IN_SYN | SV_CONN_SND | SV_CONN_RCV));
	u32 answered = p->ack - 1, changed = 0;

	if (t->flags & own && p->seq == (out ? t->iss : t->irs))
		return 0; /* again */
	if (!(p->tcp_flags & SV_TCP_ACK) && !fresh) {
		t->flags = (u16)((t->flags & ~SV_CONN_NEW_OUT) | SV_CONN_NEW_SYN | (out ? SV_CONN_NEW_OUT : 0));
		t->new_seq = p->seq;
		t->new_mss = p->mss;
		t->new_scale = p->wscale;
		return 0;
	}
	if (p->tcp_flags & SV_TCP_ACK) {
		u32 first = out ? t->irs : t->iss, last = out ? t->rcv_nxt : t->snd_nxt;
		int answers = t->flags & other && !(t->flags & own) && answered - first < last - first;
		u16 waiting = t->flags & (SV_CONN_NEW_SYN | SV_CONN_NEW_OUT);

		if (!answers && waiting == (out ? SV_CONN_NEW_SYN : SV_CONN_NEW_SYN | SV_CONN_NEW_OUT) &&
		    answered == t->new_seq) {
			u16 mss = t->new_mss;
			u8 scale = t->new_scale;

			sv_conn_begin(t);
			changed = SV_CONN_ANEW | sv_conn_note_syn(t, !out, answered, mss, scale);
		} else if (!answers && !fresh) {
			return 0;
		}
	}
	sv_forget();
	changed |= sv_conn_note_syn(t, out, p->seq, p->mss, p->wscale);
	/* With TCP Fast Open (RFC 7413) a SYN has data. */
	if (out)
		t->snd_nxt = sv_conn_end(p);
	else
		t->rcv_nxt = sv_conn_end(p);
	if (out && p->payload)
		t->flight = sv_max32(t->flight, t->snd_nxt - t->snd_una);
	t->progress = now;
	return changed;
}

/*
 * What the guest may send up to, as far as it can know. While it may not have heard of the first window that was lowered, that is what its
 * peer has announced: a guest takes a while to read what it was told, a virtual machine longer. Only where SV_CONN_GRANTED.
 */
SV_FN u32 sv_conn_may(const struct sv_conn *t)
{
	u32 announced = t->snd_una + ((u32)t->window_in << sv_conn_scale(t));

	return t->life & SV_CONN_JOINED && sv_seq_after(announced, t->granted) ? announced : t->granted;
}

/*
 * Is this RST one that its receiver believes? Anything else must not end our knowledge of the flow. RFC 5961 asks for the
 * exact number; a window's width is granted here, because the newest number that we saw may lie ahead of the receiver's.
 */
SV_FN int sv_conn_rst_in_window(const struct sv_conn *t, const struct sv_packet *p, int egress)
{
	u16 known = egress ? SV_CONN_SND : SV_CONN_RCV;
	u32 at = egress ? t->snd_nxt : t->rcv_nxt;

	if (!(t->flags & known))
		return 1;
	if (sv_seq_diff(at, p->seq) >= 0)
		return at - p->seq <= SV_CONN_MAX_FLIGHT >> 6;
	return p->seq - at <= 0xffffu;
}

/*
 * Does this FIN or RST end the connection? A FIN ends one half of it: the other may go on for as long as it likes, and must
 * not be let go because it pauses. What the peer will not take, or has taken before, is no FIN. Where the handshake was not
 * seen nothing is enforced, and any FIN will do.
 */
SV_FN int sv_conn_ends(struct sv_conn *t, const struct sv_packet *p, int egress)
{
	u32 end = sv_conn_end(p);

	if (p->tcp_flags & SV_TCP_RST)
		return sv_conn_rst_in_window(t, p, egress);
	if (!sv_conn_knows_scale(t))
		return 1;
	if (!egress && sv_conn_rst_in_window(t, p, 0))
		t->life |= SV_CONN_FIN_IN;
	else if (egress && sv_seq_after(end, t->snd_nxt) &&
		 !(t->flags & SV_CONN_GRANTED && sv_seq_diff(end, sv_conn_may(t)) > (s32)t->mss))
		t->life |= SV_CONN_FIN_OUT;
	return (t->life & SV_CONN_FIN_BOTH) == SV_CONN_FIN_BOTH;
}

/* A segment of the peer that only a connection can send which its guest's RST has not ended. */
SV_FN int sv_conn_goes_on(const struct sv_conn *t, const struct sv_packet *p)
{
	return sv_conn_knows_scale(t) && (t->life & SV_CONN_FIN_BOTH) != SV_CONN_FIN_BOTH &&
	       (p->tcp_flags & (SV_TCP_ACK | SV_TCP_SYN | SV_TCP_FIN | SV_TCP_RST)) == SV_TCP_ACK;
}

/*
 * Follow the life of a flow whose connection is tracked, as sv_flow_track does. Tracking goes on through SYNs, FINs and RSTs that may
 * be forged; idleness ends it in any case. `anew` becomes 1 where the connection is not tracked yet: begin it.
 */
SV_FN int sv_conn_track(struct sv_conn *t, struct sv_flow *f, const struct sv_packet *p, int egress, u64 idle, u64 now, int *anew)
{
	u8 phase = f->phase;
	int fresh = phase == SV_FLOW_NEW || sv_flow_expired(f, idle, now);
	int begins = sv_flow_track(f, p, egress, idle, now);

	if (fresh || !(t->flags & SV_CONN_BEGUN))
		*anew = 1;
	else if (phase == SV_FLOW_OPEN && p->tcp_flags & (SV_TCP_RST | SV_TCP_FIN) && !sv_conn_ends(t, p, egress))
		f->phase = SV_FLOW_OPEN;
	else if (phase == SV_FLOW_CLOSING && !egress && sv_conn_goes_on(t, p))
		f->phase = SV_FLOW_OPEN;
	return begins;
}

/* The round-trip time, smoothed as in RFC 6298 section 2. */
SV_FN void sv_conn_note_rtt(struct sv_conn *t, u64 sample)
{
	u32 rtt = sample > 0xffffffffu ? 0xffffffffu : (u32)sample;

	if (!t->srtt)
		t->srtt = rtt ? rtt : 1;
	else
		t->srtt = t->srtt - t->srtt / 8 + rtt / 8;
}

/* Does a round trip end with what is acknowledged by now? Then the next one begins. */
SV_FN int sv_conn_round(struct sv_conn *t)
{
	if (sv_seq_after(t->round_end, t->snd_una))
		return 0;
	t->round_end = t->snd_nxt;
	t->last_flight = t->flight;
	t->flight = t->snd_nxt - t->snd_una;
	if (t->life & SV_CONN_JOINED)
		t->life -= SV_CONN_JOINED_ONE;
	return 1;
}

/* The most that was outstanding lately, bytes. */
SV_FN u32 sv_conn_used(const struct sv_conn *t)
{
	return sv_max32(t->flight, t->last_flight);
}

/* Follow an ACK. Returns the bytes that it newly acknowledges; *lost becomes 1 with the third duplicate. */
SV_FN u32 sv_conn_ack(struct sv_conn *t, const struct sv_packet *p, u64 now, u32 *changed, int *lost)
{
	u32 acked = 0;
	int pure = !p->payload && !(p->tcp_flags & (SV_TCP_SYN | SV_TCP_FIN | SV_TCP_RST));

	if (!(t->flags & SV_CONN_SND)) {
		t->flags |= SV_CONN_SND;
		t->snd_una = t->snd_nxt = t->round_end = p->ack;
		*changed |= SV_CONN_PLACED;
	} else if (sv_seq_after(p->ack, t->snd_una) && !sv_seq_after(p->ack, t->snd_nxt)) {
		acked = p->ack - t->snd_una;
		if (t->flags & SV_CONN_OUT_SYN && t->snd_una == t->iss)
			acked--; /* the SYN */
		t->snd_una = p->ack;
		t->dupacks = 0;
		t->backoff = 0;
		t->progress = now;
		if (t->flags & SV_CONN_RTT && !sv_seq_after(t->rtt_seq, p->ack)) {
			t->flags &= (u16)~SV_CONN_RTT;
			sv_conn_note_rtt(t, now > t->rtt_start ? now - t->rtt_start : 0);
		}
	} else if (p->ack == t->snd_una && pure && p->window == t->window_in && t->snd_nxt != t->snd_una) {
		if (t->dupacks < 255)
			t->dupacks++;
		*lost = t->dupacks == SV_CONN_DUPACKS;
	}
	sv_forget();
	t->window_in = sv_conn_window_units(t, p);
	return acked;
}

/* Note what the guest sends, unless it is more than it may and `police` says to drop that. Returns what changed. */
SV_FN u32 sv_conn_out(struct sv_conn *t, int police, const struct sv_packet *p, u64 now)
{
	u32 end = sv_conn_end(p), changed = 0;
	int beyond, overrun;

	if (p->tcp_flags & SV_TCP_SYN)
		return sv_conn_syn(t, p, 1, now);
	if (end == p->seq || p->tcp_flags & SV_TCP_RST)
		return 0;
	if (!(t->flags & SV_CONN_SND)) {
		t->flags |= SV_CONN_SND;
		t->snd_una = t->snd_nxt = t->round_end = p->seq;
		changed = SV_CONN_PLACED;
	}
	if (!sv_seq_after(end, t->snd_nxt)) {
		/* A retransmission: whose ACK is timed would be a guess (RFC 6298 section 3). */
		t->flags &= (u16)~SV_CONN_RTT;
		return changed;
	}
	beyond = t->flags & SV_CONN_GRANTED && sv_seq_diff(end, sv_conn_may(t)) > (s32)t->mss;
	overrun = beyond && p->payload && sv_conn_knows_scale(t);
	if (overrun && police && p->payload > 1)
		return changed | SV_CONN_REFUSED;
	/* What the receiver will not take must not count as sent: it would put off the next cut. */
	if ((beyond && p->payload <= 1) || end - t->snd_una > SV_CONN_MAX_FLIGHT)
		return changed;
	if (p->payload)
		changed |= sv_conn_note_data_mss(t, p);
	if (t->snd_nxt == t->snd_una)
		t->progress = now;
	t->snd_nxt = end;
	t->flight = sv_max32(t->flight, end - t->snd_una);
	if (!(t->flags & SV_CONN_RTT)) {
		t->flags |= SV_CONN_RTT;
		t->rtt_seq = end;
		t->rtt_start = now;
	}
	return changed;
}

/*
 * A guest whose window was lowered below what it has sent numbers its pure ACKs from the window's end on (Linux does). Its peer, which
 * has received more, drops these as old, with the ACK and the window that they bring; and where that befalls both ends, neither hears of
 * the other again. So a pure ACK gets the number that it would have without us, the next one (RFC 9293 section 3.10.4). The number just
 * in front of that is a probe's, which is to be old. Call after sv_conn_out.
 */
SV_FN void sv_conn_renumber(const struct sv_conn *t, struct sv_packet *p)
{
	u32 behind = t->snd_nxt - p->seq;

	if (!(t->flags & SV_CONN_SND) || sv_conn_signed(t) || p->payload || behind < 2 || behind > SV_CONN_MAX_FLIGHT ||
	    (p->tcp_flags & (SV_TCP_ACK | SV_TCP_SYN | SV_TCP_FIN | SV_TCP_RST)) != SV_TCP_ACK)
		return;
	p->seq = t->snd_nxt;
	p->dirty |= SV_DIRTY_SEQ;
}

/* The guest's own codepoint, which stages may change after this. */
SV_FN void sv_conn_note_ect(struct sv_conn *t, const struct sv_packet *p)
{
	if (p->ecn != SV_ECN_NOT_ECT)
		t->flags |= SV_CONN_ECT;
}

/* Note what arrives for the guest. Returns what changed. */
SV_FN u32 sv_conn_in(struct sv_conn *t, const struct sv_packet *p, u64 now)
{
	u32 end = sv_conn_end(p);

	if (p->tcp_flags & SV_TCP_RST)
		return 0;
	if (p->tcp_flags & SV_TCP_SYN)
		return sv_conn_syn(t, p, 0, now);
	if (!(t->flags & SV_CONN_RCV) || sv_seq_after(end, t->rcv_nxt))
		t->rcv_nxt = end;
	t->flags |= SV_CONN_RCV;
	return 0;
}

/* What the guest may send up to, after an ACK with this window was delivered. It never moves back. */
SV_FN void sv_conn_grant(struct sv_conn *t, const struct sv_packet *p)
{
	u32 edge = p->ack + ((u32)p->window << (p->tcp_flags & SV_TCP_SYN ? 0 : sv_conn_scale(t)));

	/* A SYN's window is unscaled and not lowered: it counts in the handshake only. */
	if (sv_seq_after(p->ack, t->snd_nxt) || (p->tcp_flags & SV_TCP_SYN && t->flags & SV_CONN_SENT))
		return;
	if (!(t->flags & SV_CONN_GRANTED) || sv_seq_after(edge, t->granted))
		t->granted = edge;
	t->flags |= SV_CONN_GRANTED;
}

/* When a timeout is to be inferred, ns; 0: nothing is outstanding. `rto_min`: the least time without progress that is one, ns. */
SV_FN u64 sv_conn_deadline(const struct sv_conn *t, u64 rto_min)
{
	u64 wait = 4ULL * t->srtt;

	if (!(t->flags & SV_CONN_SND) || !sv_seq_after(t->snd_nxt, t->snd_una))
		return 0;
	if (wait < rto_min)
		wait = rto_min;
	if (t->snd_nxt - t->snd_una <= t->mss)
		wait += SV_CONN_DELAYED_ACK_NS;
	return t->progress + (wait << (t->backoff > SV_CONN_MAX_BACKOFF ? SV_CONN_MAX_BACKOFF : t->backoff));
}

/* One was inferred. */
SV_FN void sv_conn_timed_out(struct sv_conn *t, u64 now)
{
	t->dupacks = 0;
	t->flags &= (u16)~SV_CONN_RTT;
	t->progress = now;
	if (t->backoff < SV_CONN_MAX_BACKOFF)
		t->backoff++;
}

/* An ACK to the guest that repeats the last one. `k` is the key of the guest's direction. */
SV_FN void sv_conn_make_ack(const struct sv_conn *t, const struct sv_flow_key *k, struct sv_packet *p)
{
	struct sv_packet ack = {
		.saddr = { k->daddr[0], k->daddr[1], k->daddr[2], k->daddr[3] },
		.daddr = { k->saddr[0], k->saddr[1], k->saddr[2], k->saddr[3] },
		.sport = k->dport,
		.dport = k->sport,
		.proto = SV_PROTO_TCP,
		.tcp_flags = SV_TCP_ACK,
		.seq = t->rcv_nxt,
		.ack = t->snd_una,
		.window = t->window_out,
		.l4_header_len = 20,
	};

	ack.family = k->saddr[0] || k->saddr[1] || k->saddr[2] != 0xffff ? 6 : 4;
	ack.ip_header_len = ack.family == 4 ? 20 : 40;
	*p = ack;
}

#endif
