/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * HyGenICC's rates: the bucket of a guest on its host's uplink, what is fair, and both laws of what marks do to the rate. See
 * hygenicc.h for how marks get here.
 */
#ifndef SV_HYGENICC_RATE_H
#define SV_HYGENICC_RATE_H

#include "arith.h"
#include "packet.h"

#define SV_HYG_FAST 100u  /* of the uplink, by which a rate grows after a quiet time: 1/100 */
#define SV_HYG_SLOW 1000u /* by which it grows otherwise, and by which each mark lowers it: 1/1000 */

#define SV_HYG_SECOND 1000000000ull /* ns */
#define SV_HYG_NEVER (~0ull)
#define SV_HYG_ONE 65536u	    /* 1.0 of alpha and of the thresholds of admission */
#define SV_HYG_FRAMING 38u	    /* bytes of a packet on the wire beyond its IP packet: header, FCS, preamble, gap */
#define SV_HYG_MAX_BYTES (1ull << 31) /* depth of a bucket */
#define SV_HYG_MAX_BURST 2000000ull   /* bytes of a bucket, where several intervals hold more: so much another guest may have to wait for */
#define SV_HYG_MAX_WAIT 100000000ull  /* ns that a segment waits at most: half of TCP's least timeout in Linux */
#define SV_HYG_MAX_GAIN 4u	    /* alpha stops fading below 2^gain / SV_HYG_ONE */
#define SV_HYG_MAX_IDLE 96u	    /* intervals without a packet after which nothing is left of alpha */
#define SV_HYG_BEHIND 65536u	    /* intervals by which one CPU's time may be behind another's that was first */

/* sv_hyg_conf.law */
#define SV_HYG_AIAD 1 /* section 4.1, Algorithm 1 */
#define SV_HYG_ALPHA 2 /* section 7, Listings 2 and 3 */

/* sv_hyg_conf.flags */
#define SV_HYG_CARRY 0x1 /* without a tunnel: ECT(1) stands for the guest's Not-ECT, see hygenicc_plain.h */
#define SV_HYG_KEEP_MARKS 0x2 /* marks beyond what an interval sent count in later ones: sv_hyg_beyond */

/* Of one host. */
struct sv_hyg_conf {
	u64 interval; /* ns between changes of rates, above 0 */
	u64 inactive; /* ns without a packet after which a guest has no share, at least the interval */
	u64 quiet;    /* ns without feedback after which a rate grows fast: Congestion_Timeout */
	u64 patience; /* ns that marks wait for a packet to go with: Feedback_Timeout */
	u64 uplink;   /* bytes per second */
	u64 least;    /* bytes per second: no rate is below, unless the fair rate is */
	u64 depth;    /* bytes: no bucket is smaller */
	u32 bursts;   /* intervals at the fair rate that a bucket holds */
	u32 law;      /* SV_HYG_* */
	u32 gain;     /* of alpha: 1 / 2^gain, 0 to SV_HYG_MAX_GAIN */
	u32 refuse;   /* alpha of a destination from which new pairs are refused; 0: never */
	u32 admit;    /* alpha below which they are admitted again */
	u32 flags;    /* SV_HYG_* */
};

SV_ASSERT_SIZE(struct sv_hyg_conf, 80);

/* What is shared, under the lock of the host's buckets. Zero is a valid start. */
struct sv_hyg_uplink {
	u64 weights; /* of active guests, sum */
};

SV_ASSERT_SIZE(struct sv_hyg_uplink, 8);

/* A guest on the uplink. Zero, but for the weight, is a valid start. */
struct sv_hyg_bucket {
	u64 level;     /* bytes * 10^9 that may be sent */
	u64 filled;    /* ns: when that was so */
	u64 last;      /* ns: last packet of the guest */
	u64 heard;     /* ns: last feedback */
	u64 rate;      /* bytes per second */
	u64 fair;      /* bytes per second: the most that it may be */
	u64 alpha_sum; /* of the pairs that sent in this interval */
	u32 alphas;    /* how many */
	u32 alpha;     /* their mean in the last interval, 1/SV_HYG_ONE */
	u32 marks;     /* heard of in this interval */
	u32 weight;    /* 1 to 65535 */
	u32 active;
	u32 debt;      /* bytes that left, or will, before there were tokens for them: what comes in pays for them first */
};

SV_ASSERT_SIZE(struct sv_hyg_bucket, 80);

/*
 * The marked part of what goes somewhere. Time passes lazily: nothing is done for what is idle. Feedback comes a round trip after the
 * packets, so an interval's marks are those that are heard of until the next packet of a later interval.
 */
struct sv_hyg_part {
	u32 tick;  /* the last interval with a packet */
	u32 sent;  /* packets in it */
	u32 marks; /* heard of since it began, and left from before */
	u32 alpha; /* smoothed, as it was when it began, 1/SV_HYG_ONE */
};

SV_ASSERT_SIZE(struct sv_hyg_part, 16);

SV_FN u32 sv_hyg_interval(const struct sv_hyg_conf *c, u64 now)
{
	return c->interval ? (u32)(now / c->interval) : 0;
}

/* Intervals between two in which rates were set. Very many are none: nobody was to set them, or an interval was another. */
SV_FN u32 sv_hyg_missed(u32 last, u32 tick)
{
	u32 missed = tick - last - 1;

	return missed < SV_HYG_BEHIND ? missed : 0;
}

/*
 * What an interval leaves of its marks to the next one. Feedback that comes in lumps tells at once of the packets of many intervals, and
 * each mark is of one of them: none is counted twice, whatever a peer says (hygenicc.h). At most for as long as alpha has a memory, at the
 * rate of this interval: a guest that slows down pays no longer for what it sent before.
 */
SV_FN u32 sv_hyg_beyond(const struct sv_hyg_part *s, const struct sv_hyg_conf *c, u32 gone)
{
	u32 beyond = s->marks > s->sent ? s->marks - s->sent : 0;

	if (!(c->flags & SV_HYG_KEEP_MARKS) || gone > SV_HYG_MAX_IDLE)
		return 0;
	return sv_min32(beyond, sv_min32(s->sent, SV_HYG_BEHIND) * SV_HYG_MAX_IDLE);
}

/*
 * Closes the last interval with a packet and brings alpha up to `tick`. Intervals without a packet count as free of marks. A packet whose
 * time another CPU has overtaken is of the interval that is open.
 */
SV_FN void sv_hyg_roll(struct sv_hyg_part *s, const struct sv_hyg_conf *c, u32 tick)
{
	u32 gone = tick - s->tick, share, gain = sv_min32(c->gain, SV_HYG_MAX_GAIN);

	if (!gone || 0u - gone < SV_HYG_BEHIND)
		return;
	share = s->sent ? sv_min32(sv_mul_div32(s->marks, SV_HYG_ONE, s->sent), SV_HYG_ONE) : 0;
	s->alpha = s->alpha - (s->alpha >> gain) + (share >> gain);
	for (u32 i = 0; i < SV_HYG_MAX_IDLE && i + 1 < gone; i++)
		s->alpha -= s->alpha >> gain;
	if (gone > SV_HYG_MAX_IDLE)
		s->alpha = 0;
	s->marks = sv_hyg_beyond(s, c, gone);
	s->sent = 0;
	s->tick = tick;
}

/* `n` packets leave. Returns 1 if they are the first of the interval. */
SV_FN int sv_hyg_sends(struct sv_hyg_part *s, const struct sv_hyg_conf *c, u32 tick, u32 n)
{
	int first;

	sv_hyg_roll(s, c, tick);
	first = !s->sent;
	s->sent = sv_add_sat32(s->sent, n);
	return first;
}

/* Bytes * 10^9 that a bucket holds. */
SV_FN u64 sv_hyg_full(const struct sv_hyg_bucket *b, const struct sv_hyg_conf *c)
{
	u64 ns = c->interval < SV_HYG_SECOND ? c->interval : SV_HYG_SECOND;
	u64 one = b->fair / 1000 * (ns / 1000) / 1000, bytes = one * c->bursts;

	if (bytes > one && bytes > SV_HYG_MAX_BURST)
		bytes = one > SV_HYG_MAX_BURST ? one : SV_HYG_MAX_BURST;
	if (bytes < c->depth)
		bytes = c->depth;
	return (bytes < SV_HYG_MAX_BYTES ? bytes : SV_HYG_MAX_BYTES) * SV_HYG_SECOND;
}

SV_FN void sv_hyg_refill(struct sv_hyg_bucket *b, const struct sv_hyg_conf *c, u64 now)
{
	u64 full = sv_hyg_full(b, c) + b->debt * SV_HYG_SECOND, gone, pays;

	if (now <= b->filled)
		return;
	gone = now - b->filled;
	b->filled = now;
	if (b->level >= full || (b->rate && gone > (full - b->level) / b->rate))
		b->level = full;
	else
		b->level += gone * b->rate;
	if (!b->debt)
		return;
	pays = b->level / SV_HYG_SECOND < b->debt ? b->level / SV_HYG_SECOND : b->debt;
	b->debt -= (u32)pays;
	b->level -= pays * SV_HYG_SECOND;
}

/* The fair rate of a guest (section 2, with weights): its part of the uplink, never more. One that has just begun may not be in the sum yet. */
SV_FN u64 sv_hyg_fair(const struct sv_hyg_conf *c, u32 weight, u64 weights)
{
	weight &= 0xffff;
	return weights > weight ? c->uplink * weight / weights : c->uplink;
}

SV_FN void sv_hyg_clamp(struct sv_hyg_bucket *b, const struct sv_hyg_conf *c)
{
	if (b->rate < c->least)
		b->rate = c->least;
	if (b->rate > b->fair)
		b->rate = b->fair;
}

/* ns from `then` to `now`; 0 where another CPU was there first, at a later time. */
SV_FN u64 sv_hyg_since(u64 then, u64 now)
{
	return now > then ? now - then : 0;
}

/* The guest sends: it has a share from now on. */
SV_FN void sv_hyg_touch(struct sv_hyg_bucket *b, struct sv_hyg_uplink *u, const struct sv_hyg_conf *c, u64 now)
{
	b->last = now;
	if (b->active)
		return;
	b->active = 1;
	u->weights += b->weight & 0xffff;
	b->fair = sv_hyg_fair(c, b->weight, u->weights);
	b->rate = b->fair;
	/* What was heard of before it fell silent is of another time. */
	b->alpha = 0;
	b->alpha_sum = 0;
	b->alphas = 0;
	b->marks = 0;
	if (!b->filled)
		b->level = sv_hyg_full(b, c);
	sv_hyg_refill(b, c, now);
}

/*
 * Takes a segment's bytes out of the bucket. Returns 0 if it exceeds the rate: then nothing is taken, and `at` is when it will not, if
 * the rate stays; SV_HYG_NEVER where it is larger than the bucket.
 */
SV_FN int sv_hyg_take(struct sv_hyg_bucket *b, const struct sv_hyg_conf *c, u64 bytes, u64 now, u64 *at)
{
	u64 need = bytes * SV_HYG_SECOND;

	*at = SV_HYG_NEVER;
	sv_hyg_refill(b, c, now);
	if (bytes > SV_HYG_MAX_BYTES || need > sv_hyg_full(b, c) || !b->rate)
		return 0;
	*at = now;
	if (need <= b->level) {
		b->level -= need;
		return 1;
	}
	*at += (need - b->level + b->rate - 1) / b->rate;
	return 0;
}

/* What a bucket that is full holds of so many bytes: a caller that lets larger segments leave takes this much, and owes the rest. */
SV_FN u64 sv_hyg_holds(const struct sv_hyg_bucket *b, const struct sv_hyg_conf *c, u64 bytes)
{
	u64 most = sv_hyg_full(b, c) / SV_HYG_SECOND;

	return bytes < most ? bytes : most;
}

SV_FN void sv_hyg_owe(struct sv_hyg_bucket *b, u64 bytes)
{
	u64 debt = b->debt + bytes;

	b->debt = (u32)(debt < SV_HYG_MAX_BYTES ? debt : SV_HYG_MAX_BYTES);
}

/*
 * The same for a caller who can make a segment wait, but cannot come back to it: takes the bytes now, as a debt, and `at` is when it may
 * leave at the rate of this time. Later segments find what is left of the debt, whatever the rate was when it was made. Returns 0, and takes
 * nothing, if more than `backlog` bytes would wait, or the segment for longer than SV_HYG_MAX_WAIT, or it is larger than the bucket.
 */
SV_FN int sv_hyg_schedule(struct sv_hyg_bucket *b, const struct sv_hyg_conf *c, u64 backlog, u64 bytes, u64 now, u64 *at)
{
	u64 need = bytes * SV_HYG_SECOND, debt, wait;

	sv_hyg_refill(b, c, now);
	if (!b->rate || bytes > SV_HYG_MAX_BYTES || backlog > SV_HYG_MAX_BYTES || need > sv_hyg_full(b, c))
		return 0;
	*at = now;
	if (need <= b->level) {
		b->level -= need;
		return 1;
	}
	debt = b->debt + (need - b->level + SV_HYG_SECOND - 1) / SV_HYG_SECOND;
	if (debt > backlog)
		return 0;
	wait = debt * SV_HYG_SECOND / b->rate;
	if (wait > SV_HYG_MAX_WAIT)
		return 0;
	b->debt = (u32)debt;
	b->level = 0;
	*at += wait;
	return 1;
}

/* Section 4.1, Algorithm 1 lines 29 to 39. */
SV_FN u64 sv_hyg_aiad(const struct sv_hyg_bucket *b, const struct sv_hyg_conf *c, u64 now)
{
	u64 cut = c->uplink / SV_HYG_SLOW * b->marks;

	if (b->marks)
		return b->rate > cut ? b->rate - cut : 0;
	return b->rate + c->uplink / (sv_hyg_since(b->heard, now) >= c->quiet ? SV_HYG_FAST : SV_HYG_SLOW);
}

/* Listing 2. */
SV_FN u64 sv_hyg_alpha(const struct sv_hyg_bucket *b)
{
	u64 cut = (b->fair >> 8) * sv_min32(b->alpha, SV_HYG_ONE) >> 8;

	return b->fair > cut ? b->fair - cut : 0;
}

/* The mean of the marked parts of the pairs that sent. Where none did, it fades. */
SV_FN void sv_hyg_average(struct sv_hyg_bucket *b, const struct sv_hyg_conf *c)
{
	if (b->alphas)
		b->alpha = (u32)(b->alpha_sum / b->alphas);
	else
		b->alpha -= b->alpha >> sv_min32(c->gain, SV_HYG_MAX_GAIN);
	b->alpha_sum = 0;
	b->alphas = 0;
}

/* The guest's part of a tick, once it is known who is active. */
SV_FN void sv_hyg_set_rate(struct sv_hyg_bucket *b, const struct sv_hyg_uplink *u, const struct sv_hyg_conf *c, u64 now)
{
	if (!b->active)
		return;
	sv_hyg_refill(b, c, now);
	b->fair = sv_hyg_fair(c, b->weight, u->weights);
	sv_hyg_average(b, c);
	b->rate = c->law == SV_HYG_ALPHA ? sv_hyg_alpha(b) : sv_hyg_aiad(b, c, now);
	b->marks = 0;
	sv_hyg_clamp(b, c);
}

/* Would sv_hyg_set_rate change nothing that the next packet would not? A guest that has all that it may and is told of no mark. */
SV_FN int sv_hyg_rests(const struct sv_hyg_bucket *b, const struct sv_hyg_uplink *u, const struct sv_hyg_conf *c)
{
	return b->active && !b->marks && !b->alphas && !b->alpha && b->rate == b->fair && b->fair == sv_hyg_fair(c, b->weight, u->weights);
}

/* Is the guest active still? */
SV_FN int sv_hyg_stays(const struct sv_hyg_bucket *b, const struct sv_hyg_conf *c, u64 now)
{
	return b->active && sv_hyg_since(b->last, now) < c->inactive;
}

/* The guest's weight, if it is active still. */
SV_FN u32 sv_hyg_weigh(struct sv_hyg_bucket *b, const struct sv_hyg_conf *c, u64 now)
{
	if (!sv_hyg_stays(b, c, now))
		b->active = 0;
	return b->active ? b->weight & 0xffff : 0;
}

/* An interval ends. `n` buckets of one uplink. Returns how many guests are active. */
SV_FN u32 sv_hyg_tick(struct sv_hyg_bucket *b, u32 n, struct sv_hyg_uplink *u, const struct sv_hyg_conf *c, u64 now)
{
	u32 active = 0;

	u->weights = 0;
	for (u32 i = 0; i < n; i++) {
		u->weights += sv_hyg_weigh(&b[i], c, now);
		active += b[i].active;
	}
	for (u32 i = 0; i < n; i++)
		sv_hyg_set_rate(&b[i], u, c, now);
	return active;
}

#endif
