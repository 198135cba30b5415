/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Small requests pass the bulk within one rate limit: which segments go first, past the queue of all others. As fq_codel's new flows
 * (RFC 8290, section 4.1), a flow goes first until it has had a quantum, and again once nothing of it waits and it has paid for that.
 *
 *  - A flow's level grows with what it sends and sinks at three quarters of a fair share of the rate, of as many flows as sent
 *    lately. Above the quantum it is bulk, until it has paid for all, at a tenth of that. Without this delay bulk flows with
 *    small windows go first by turns, and those with large windows keep the rest: of 8 flows at 300 Mb/s Jain's index was 0.69.
 *    After a pause of a second it owes nothing: it is a new request, or a new connection with the ports of an old one.
 *  - A flow of small segments only pays at a quarter of the rate, if that is more, and is bulk only while above the quantum.
 *  - What went first all together is a bucket of its own, at half the rate: many short flows get no more, and the bulk at least the other
 *    half. Within it nothing waits, so the first need no queue. Flows that begin with many segments leave room in it for those of a few.
 *  - A flow with segments in the bulk's queue stays behind them: none overtakes another of its flow. The queue is first come, first
 *    served, so what it has sent tells how far it is. Where it drops, that count is ahead of it; so it is also given the time that
 *    it takes at half the rate, of which it is sure.
 *  - Where nothing waits, all go the same way, and nobody is favoured.
 *
 * A flow has a place in the set of its hash, with a tag to tell it from others there. It takes one whose flow owes nothing and has
 * nothing in the queue; else that of a flow that has nothing in the queue and has sent nothing for the longest time, as connections that are
 * over have not; if there is none, two count as one, which costs the sparse one its advantage. A stranger who fills all places takes the
 * advantage from the limited guest's own flows, and nothing else.
 */
#ifndef SV_SPARSE_H
#define SV_SPARSE_H

#include "arith.h"

/* Places, and those of a set; powers of two. */
#define SV_SPARSE_FLOWS 512u
#define SV_SPARSE_WAYS 8u
/* Bytes that a flow sends first at least: ten segments, with which TCP begins, and their headers. Half of the burst below, where that is more. */
#define SV_SPARSE_QUANTUM 16384u
/* A flow that has had no more finds twice the burst, bytes. */
#define SV_SPARSE_FEW 2048u
/* A small segment has at most so many bytes on the wire. */
#define SV_SPARSE_SMALL 256u
/* At least so much of all flows goes first at once, bytes; and what the rate brings in SV_SPARSE_BURST_NS. */
#define SV_SPARSE_BURST 32768u
#define SV_SPARSE_BURST_NS 1000000ULL
/* Flows are counted anew each such time, ns. */
#define SV_SPARSE_EPOCH_NS 100000000ULL
/* A flow may lose its place that has sent nothing for so long, ns. */
#define SV_SPARSE_IDLE_NS 10000000ULL
/* A flow owes nothing after a pause as long as this, ns, with nothing in the queue. No time between segments matters beyond it. */
#define SV_SPARSE_LONG_NS 1000000000ULL
/* Rates above this, bytes per second, are taken for it: products fit. */
#define SV_SPARSE_MAX_RATE 15000000000ULL

/* sv_sparse_flow.flags */
#define SV_SPARSE_LARGE 0x1u  /* not all of it is small */
#define SV_SPARSE_BULK 0x2u   /* more than a quantum, large ones among it */
#define SV_SPARSE_SHARED 0x4u /* what waits may be another flow's, too */

/* Of what a flow pays, that of bulk. */
#define SV_SPARSE_RETURN 10u

/* One flow, or those that share its place. Zero is one that is free. */
struct sv_sparse_flow {
	u64 at;	      /* ns: its last segment */
	u32 level;    /* bytes it has had and not paid for, then */
	u32 waits_us; /* from then on, that the bulk's queue may take; 0: it has nothing there */
	u32 place;    /* where the last of it is in the bulk: sv_sparse.bulk once it was in */
	u16 tag;      /* of its hash */
	u8 flags;     /* SV_SPARSE_*; all but the last since its level was 0 */
	u8 epoch;     /* in which it last was among the bulk */
};

SV_ASSERT_SIZE(struct sv_sparse_flow, 24);

/* How many flows: those of the epoch that is over, and those of this one. */
struct sv_sparse_count {
	u16 before;
	u16 now;
};

/* All flows of one limit. Zero is a valid start. */
struct sv_sparse {
	u64 begun; /* ns: this epoch */
	u64 at;	   /* ns: the last segment that went first */
	u64 first; /* bytes that have gone first */
	u32 level; /* bytes of them that are not paid for, then */
	u32 bulk;  /* bytes that went into the bulk's queue, mod 2^32 */
	struct sv_sparse_count all;
	struct sv_sparse_count in_bulk;
	u8 epoch; /* its number, never 0 */
	u8 pad[7];
};

SV_ASSERT_SIZE(struct sv_sparse, 48);

/* Bytes that `rate` brings in the time since `at`, no more than in SV_SPARSE_LONG_NS. */
SV_FN u32 sv_sparse_paid(u64 rate, u64 at, u64 now)
{
	u64 elapsed = now > at ? now - at : 0, bytes;

	if (elapsed > SV_SPARSE_LONG_NS)
		elapsed = SV_SPARSE_LONG_NS;
	bytes = elapsed * rate / 1000000000ULL;
	return bytes > 0xffffffffULL ? 0xffffffffu : (u32)bytes;
}

/* A new epoch, if it is time. */
SV_FN void sv_sparse_epoch(struct sv_sparse *s, u64 now)
{
	u64 since = now > s->begun ? now - s->begun : 0;
	int lately = since < 2 * SV_SPARSE_EPOCH_NS;

	if (s->epoch && since <= SV_SPARSE_EPOCH_NS && now >= s->begun)
		return;
	s->all.before = lately ? s->all.now : 0;
	s->in_bulk.before = lately ? s->in_bulk.now : 0;
	s->all.now = s->in_bulk.now = 0;
	s->begun = now;
	s->epoch = s->epoch == 0xff ? 1 : s->epoch + 1;
}

/* One more. New flows take places from one another, so that there may be any number. */
SV_FN void sv_sparse_count_one(struct sv_sparse_count *c)
{
	if (c->now != 0xffff)
		c->now++;
}

/* Flows that sent lately. */
SV_FN u32 sv_sparse_count(const struct sv_sparse_count *c)
{
	return sv_max32(c->before, c->now);
}

/* Has the flow something in the bulk's queue, in which `queued` bytes wait? Nothing takes four times as long as it may. */
SV_FN int sv_sparse_waits(const struct sv_sparse *s, const struct sv_sparse_flow *f, u32 queued, u64 now)
{
	u64 since = now > f->at ? now - f->at : 0, takes = f->waits_us * 1000ULL;

	return since < takes || (since < 4 * takes && sv_seq_after(f->place, s->bulk - queued));
}

/* What a flow that sends at `share` of the rate has not paid for by now, bytes. `small`: all of it was. */
SV_FN u32 sv_sparse_owes(const struct sv_sparse_flow *f, u64 rate, u64 share, int small, u64 now)
{
	u64 pays = small && share < rate / 4 ? rate / 4 : share;
	u32 paid = sv_sparse_paid(f->flags & SV_SPARSE_BULK ? pays / SV_SPARSE_RETURN : pays, f->at, now);
	int paused = now > f->at && now - f->at >= SV_SPARSE_LONG_NS + f->waits_us * 1000ULL;

	return f->level > paid && !paused ? f->level - paid : 0;
}

/* What all flows together send first at once, bytes; a flow sends half of it. */
SV_FN u32 sv_sparse_burst(u64 rate)
{
	return sv_max32(SV_SPARSE_BURST, (u32)(rate * SV_SPARSE_BURST_NS / 1000000000ULL));
}

/* What it has to pay for once this segment is sent. `most`: bytes that a flow sends first. */
SV_FN u32 sv_sparse_level(struct sv_sparse_flow *f, u64 rate, u64 share, u32 most, u32 bytes, u64 now)
{
	u32 owes = sv_forget32(sv_sparse_owes(f, rate, share, bytes <= SV_SPARSE_SMALL && !(f->flags & SV_SPARSE_LARGE), now));

	if (!owes)
		f->flags &= SV_SPARSE_SHARED;
	if (bytes > SV_SPARSE_SMALL)
		f->flags |= SV_SPARSE_LARGE;
	owes += sv_min32(bytes, most + 1);
	if (owes > most && f->flags & SV_SPARSE_LARGE)
		f->flags |= SV_SPARSE_BULK;
	return owes;
}

/* The first place of the set of a flow with this hash. */
SV_FN u32 sv_sparse_set(u32 hash)
{
	return sv_mask(hash, SV_SPARSE_FLOWS - 1) & ~(SV_SPARSE_WAYS - 1);
}

/* Which of its set's places a flow has, or gets. */
SV_FN u32 sv_sparse_find(const struct sv_sparse *s, struct sv_sparse_flow *set, u16 tag, u64 rate, u64 share, u32 queued, u64 now)
{
	u32 i, home = tag & (SV_SPARSE_WAYS - 1), oldest = sv_forget8(SV_SPARSE_WAYS);
	u64 since = now > SV_SPARSE_IDLE_NS ? now - SV_SPARSE_IDLE_NS : 0;
	struct sv_sparse_flow none = { .tag = tag };

	for (i = 0; i < SV_SPARSE_WAYS; i++) {
		if (set[i].tag == tag)
			return i;
	}
	sv_forget();
	/* Where it found none free before, some of it may wait. */
	if (set[home].flags & SV_SPARSE_SHARED && sv_sparse_waits(s, &set[home], queued, now))
		return home;
	for (i = 0; i < SV_SPARSE_WAYS; i++) {
		struct sv_sparse_flow *f = &set[i];
		u64 then = sv_apart64(now);

		if (sv_forget8((u32)sv_sparse_waits(s, f, queued, then)))
			continue;
		if (!sv_forget32(sv_sparse_owes(f, sv_apart64(rate), sv_apart64(share), !(f->flags & SV_SPARSE_LARGE), then))) {
			*f = none;
			return i;
		}
		if (f->at < since) {
			since = f->at;
			oldest = sv_forget8(i);
		}
	}
	sv_forget();
	if (oldest == SV_SPARSE_WAYS)
		return home;
	set[sv_mask(oldest, SV_SPARSE_WAYS - 1)] = none;
	return oldest;
}

/* How long `ahead` bytes in the bulk's queue take at most, us, while a burst and then half the rate pass them. */
SV_FN u32 sv_sparse_wait_us(u64 ahead, u32 burst, u64 rate)
{
	u64 us = ahead ? 2 * (ahead + burst) * 1000000ULL / (rate ? rate : 1) + 1 : 0;

	return us < 60000000 ? (u32)us : 60000000u;
}

/*
 * Does a segment of `bytes` go first? `set`: the places of its flow's set, of which `hash` is the hash. `rate`: that the limit
 * guarantees, bytes per second, not 0. `queued`: bytes in the bulk's queue; `unpaid`: those that have left before their time. The caller
 * does as this says, and tells it of every segment.
 */
SV_FN int sv_sparse_goes_first(struct sv_sparse *s, struct sv_sparse_flow *set, u32 hash, u64 rate, u32 queued, u32 unpaid,
			       u32 bytes, u64 now)
{
	u32 had, all, paid, burst, most;
	struct sv_sparse_flow *f;
	int first, waits;
	u64 share;

	sv_sparse_epoch(s, now);
	rate = rate > SV_SPARSE_MAX_RATE ? SV_SPARSE_MAX_RATE : rate;
	share = rate * 3 / 4 / sv_max32(sv_sparse_count(&s->all), 1);
	f = &set[sv_mask(sv_forget8(sv_sparse_find(s, set, (u16)(hash >> 16), rate, share, queued, now)), SV_SPARSE_WAYS - 1)];
	sv_forget();
	if (f->at < s->begun || !s->all.now) {
		sv_sparse_count_one(&s->all);
		share = rate * 3 / 4 / sv_sparse_count(&s->all);
	}
	waits = (int)sv_forget8((u32)sv_sparse_waits(s, f, queued, now));
	if (!waits)
		f->flags &= (u8)~SV_SPARSE_SHARED;
	if (f->tag != (u16)(hash >> 16))
		f->flags |= SV_SPARSE_SHARED;
	burst = sv_forget32(sv_sparse_burst(rate));
	most = burst / 2;
	had = sv_forget32(sv_sparse_level(f, rate, share, most, bytes, now));
	sv_forget();
	paid = sv_forget32(sv_sparse_paid(rate / 2, s->at, now));
	all = sv_forget32((s->level > paid ? s->level - paid : 0) + sv_min32(bytes, most + 1));

	first = (queued || unpaid) && !waits && !(f->flags & SV_SPARSE_BULK) && had <= most &&
		all <= (had <= SV_SPARSE_FEW ? 2 * burst : burst);
	first = (int)sv_forget8((u32)first);
	if (first) {
		s->at = now;
		s->level = all;
		s->first += bytes;
		f->waits_us = 0;
	} else {
		if (f->epoch != s->epoch)
			sv_sparse_count_one(&s->in_bulk);
		f->epoch = s->epoch;
		s->bulk += bytes;
		f->place = s->bulk;
		f->waits_us = sv_sparse_wait_us((u64)queued + unpaid, 2 * burst, rate);
	}
	f->level = sv_min32(had, 2 * most);
	f->at = now;
	return first;
}

#endif
