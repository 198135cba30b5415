/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The stages of the edge, and their order: it stands here and nowhere else.
 *
 * The caller looks the state up and passes pointers; nothing is kept. Each state is guarded by its own lock, one at a
 * time, never nested. In BPF the includer defines sv_lock, SV_LOCK and SV_UNLOCK as bpf_spin_lock before including this
 * file; natively an edge is owned by one thread and they are nothing.
 */
#ifndef SV_EDGE_H
#define SV_EDGE_H

#include "arith.h"
#include "balance.h"
#include "ecn.h"
#include "flow.h"
#include "hygenicc.h"
#include "limiter.h"
#include "packet.h"
#include "result.h"
#include "vcc.h"

#ifndef SV_LOCK
#define SV_LOCK(lock) ((void)(lock))
#define SV_UNLOCK(lock) ((void)(lock))
typedef int sv_lock;
#endif

struct sv_conf {
	u64 idle; /* ns without a packet after which a flow is forgotten */
	struct sv_balance_conf balance;
};

SV_ASSERT_SIZE(struct sv_conf, 48);

/* What one call may use. */
struct sv_ctx {
	const struct sv_conf *conf;
	struct sv_flow *flow;	      /* NULL: the flow table is full */
	struct sv_balance *balance;   /* NULL exactly when flow is */
	struct sv_vcc *vcc;	      /* NULL: no virtual congestion control, or no flow */
	const struct sv_vcc_conf *vcc_conf; /* NULL: no virtual congestion control */
	struct sv_conn *conn;	      /* where vcc is NULL, of a connection that is followed for a limiter alone; else NULL */
	struct sv_bound *bound;	      /* beside conn */
	u32 tenant;		      /* for the choice of the law; 0: none */
	u32 peer;		      /* for the includer: the host there; 0: it needs none */
	const struct sv_limit *limit; /* that the guest's segments of this flow go through; NULL: none */
	struct sv_limit_queue *queue; /* its memory; NULL: none is needed */
	sv_lock *queue_lock;	      /* guards that */
	struct sv_flow_counts *counts; /* NULL: not wanted */
	sv_lock *flow_lock;	      /* guards flow, balance, vcc and counts */
	struct sv_paths paths;	      /* to the destination; on ingress, to the sender */
	sv_lock *paths_lock;	      /* guards paths.path; NULL where that is */
	u32 from;		      /* place + 1 of the path that the flow is about to leave; 0: it may leave it */
	u32 pause;		      /* how long it has sent nothing, ticks */
	struct sv_path_news news;     /* that the packet brought of them: news.path is the low byte of a label */
	struct sv_hyg *hyg;	      /* guests' shares of the uplink; NULL: guests send as they like */
	sv_lock *hyg_lock;	      /* guards all that it points to; NULL where that is */
	u32 hash;		      /* of the flow, sv_flow_hash */
	u64 now;		      /* ns, never decreasing */
};

/*
 * The class of a flow that virtual congestion control does not know yet. Looked up before the lock: it takes a while. The
 * includer may have the rules walked elsewhere, so that the BPF verifier proves the loop once.
 */
#ifndef SV_CLASS_OF
SV_FN u8 sv_class_of(const struct sv_ctx *c, const struct sv_packet *p, int egress)
{
	struct sv_flow_key key;

	if (egress)
		sv_flow_key(p, &key);
	else
		sv_flow_key_reverse(p, &key);
	return sv_policy_find(c->vcc_conf->rule, c->vcc_conf->n_rules, &key, c->tenant);
}
#define SV_CLASS_OF(c, p, egress) sv_class_of(c, p, egress)
#endif

/* Follow the flow's life, under its lock. `class` is for a connection that begins. Returns SV_BEGAN. */
SV_FN u32 sv_track(const struct sv_ctx *c, const struct sv_packet *p, u8 class, int egress)
{
	int begins, anew = 0;

	if (c->vcc && p->proto == SV_PROTO_TCP)
		begins = sv_conn_track(&c->vcc->conn, c->flow, p, egress, c->conf->idle, c->now, &anew);
	else if (c->conn && p->proto == SV_PROTO_TCP)
		begins = sv_limit_track(c->flow, c->conn, c->bound, p, egress, c->conf->idle, c->now);
	else
		begins = sv_flow_track(c->flow, p, egress, c->conf->idle, c->now);
	if (anew)
		sv_vcc_begin(c->vcc, class);
	if (c->counts && egress) {
		c->counts->out_segments++;
		c->counts->out_bytes += p->payload;
	} else if (c->counts) {
		c->counts->in_segments++;
		c->counts->in_bytes += p->payload;
	}
	if (begins) {
		struct sv_balance zero = {0};

		*c->balance = zero;
	}
	return begins ? SV_BEGAN : 0;
}

/* The limiter's queue as this packet finds it. Returns its gradient. */
SV_FN s32 sv_sample(const struct sv_ctx *c)
{
	s32 gradient;

	if (!c->limit || !c->queue || c->limit->law != SV_LIMIT_SPRING)
		return 0;
	SV_LOCK(c->queue_lock);
	gradient = sv_limit_sample(c->queue, c->limit);
	SV_UNLOCK(c->queue_lock);
	return gradient;
}

/*
 * Before all stages, and before the caller makes state for a packet from the guest: holds it to the guest's rate; `bytes` as of
 * sv_hyg_bytes. Returns 0, or SV_OVER_RATE: if it is dropped, no stage must see it. A caller that can hold packets lets it pass the stages
 * and wait until this returns 0. Under `lock`, which guards all that `h` points to.
 *
 * A limiter's queue is in front of this in the kernel, where it is a device of its own, and behind all stages in simulator and lab: there a
 * guest's share is what the limiter gets, here the other way round (docs/tenants.md). The least of both rates holds either way.
 */
SV_FN u32 sv_hold(struct sv_hyg *h, sv_lock *lock, u64 bytes, u64 now)
{
	int may;

	SV_LOCK(lock);
	may = sv_hyg_hold(h, bytes, now);
	SV_UNLOCK(lock);
	return may ? 0 : SV_OVER_RATE;
}

/* HyGenICC's count of a packet that leaves. */
SV_FN void sv_depart(const struct sv_ctx *c, struct sv_packet *p)
{
	if (!c->hyg)
		return;
	SV_LOCK(c->hyg_lock);
	sv_hyg_egress(c->hyg, p, c->now);
	SV_UNLOCK(c->hyg_lock);
}

/* The same for a packet that arrived. Returns 1 if that is all. */
SV_FN int sv_harvest(const struct sv_ctx *c, const struct sv_packet *p)
{
	int consumed;

	if (!c->hyg)
		return 0;
	SV_LOCK(c->hyg_lock);
	consumed = sv_hyg_ingress(c->hyg, p, c->now);
	SV_UNLOCK(c->hyg_lock);
	return consumed;
}

/* The includer may have both done elsewhere, also for packets that no stage sees. */
#ifndef SV_DEPART
#define SV_DEPART(c, p) sv_depart(c, p)
#define SV_HARVEST(c, p) sv_harvest(c, p)
#endif

/*
 * Is what is known of paths still that of the schedule in which a place was looked up? Under the paths' lock. Where both cannot change in
 * between, it is.
 */
#ifndef SV_SAME_SCHEDULE
#define SV_SAME_SCHEDULE(c) 1
#endif

/* What the packet says of the paths to its sender. News of an unknown path is dropped. */
SV_FN void sv_hear(const struct sv_ctx *c)
{
	struct sv_path_news news = c->news;
	u32 place;

	if (!c->paths.path || !news.kind || news.kind == SV_FEEDBACK_MARKS)
		return;
	place = sv_paths_place(&c->paths, news.path);
	if (place >= c->paths.n)
		return;
	news.path = (u8)place;
	SV_LOCK(c->paths_lock);
	if (SV_SAME_SCHEDULE(c) && sv_path_listens(&c->paths.path[news.path], c->now))
		sv_balance_ingress(&c->conf->balance, &c->paths, &news, c->now);
	SV_UNLOCK(c->paths_lock);
}

/* Are all paths to the packet's sender congested? Where there are any. */
SV_FN int sv_all_congested(const struct sv_ctx *c)
{
	return sv_balance_congested(&c->conf->balance, &c->paths, c->now);
}

/* The path of the next flowlet: sv_paths.offer. Where there are any. */
SV_FN u16 sv_next_path(const struct sv_ctx *c)
{
	u16 offer;

	SV_LOCK(c->paths_lock);
	offer = sv_balance_offer(&c->conf->balance, &c->paths, c->from, c->pause, c->now);
	SV_UNLOCK(c->paths_lock);
	return offer;
}

/*
 * These three walk over all paths. The includer may have that done elsewhere, by c->peer, so that the BPF verifier proves each walk
 * once.
 */
#ifndef SV_HEAR
#define SV_HEAR(c) sv_hear(c)
#define SV_ALL_CONGESTED(c) sv_all_congested(c)
#define SV_NEXT_PATH(c) sv_next_path(c)
#endif

/* Is load balancing to answer to marks, here and at the sender? */
SV_FN int sv_answers(const struct sv_ctx *c)
{
	return c->paths.path && sv_balance_answers(&c->conf->balance);
}

/*
 * What the guest sees of ECN: one rule. Where virtual congestion control answers for it, nothing: SV_ANSWERED in `result`. Where HyGenICC
 * does, none of the network's marks. Where load balancing answers to marks, none of those on its way; and an echo of what its own
 * packets meet once all paths are congested, if it speaks ECN. Otherwise the network's marks. Under the flow's lock, if there is one.
 *
 * The same of a packet that no stage can read, such as a fragment, is sv_show_unread_ecn; on a network without a tunnel, where marks lie
 * in the guest's own header, sv_show_plain_ecn.
 */
SV_FN void sv_show_ecn(const struct sv_ctx *c, struct sv_packet *p, u32 result, int congested)
{
	if (result & SV_ANSWERED)
		return;
	if ((c->hyg && c->hyg->bucket) || sv_answers(c))
		sv_ecn_mask(p);
	if (!sv_answers(c))
		return;
	if (congested && c->balance && c->balance->choice.ect)
		sv_ecn_echo(p);
}

/* `share`: of the guest's, in HyGenICC; 0: it has none. */
SV_FN void sv_show_unread_ecn(struct sv_packet *p, u32 share)
{
	if (share)
		sv_ecn_mask(p);
}

/*
 * After the stages: the guest sees nothing of marks. `was`: the codepoint as it arrived. `f`: the packet's flow, or NULL; under its lock.
 * Not for what virtual congestion control has answered for. What has no flow, as fragments have none, looks like its unmarked neighbours:
 * a guest throws a datagram away whose fragments are in part Not-ECT and in part ECT (RFC 3168, section 5.3).
 */
SV_FN void sv_show_plain_ecn(const struct sv_hyg_conf *c, struct sv_flow *f, u8 was, struct sv_packet *p)
{
	u8 carries = c->flags & SV_HYG_CARRY, ecn = was;

	if (carries && was == SV_ECN_ECT1)
		ecn = SV_ECN_NOT_ECT;
	if (was == SV_ECN_CE)
		ecn = f ? (carries ? f->codepoint : SV_ECN_NOT_ECT) : (carries ? SV_ECN_NOT_ECT : SV_ECN_ECT0);
	else if (f)
		f->codepoint = ecn;
	if (ecn != p->ecn) {
		p->ecn = ecn;
		p->dirty |= SV_DIRTY_ECN;
	}
}

/* A path for the flowlet that the packet may open. */
SV_FN void sv_offer(struct sv_ctx *c, const struct sv_packet *p)
{
	u32 offer = 0;

	if (c->paths.path && c->paths.n && sv_balance_asks(&c->conf->balance, c->balance, p, c->now)) {
		if (sv_balance_most(&c->conf->balance) && sv_balance_paused(&c->conf->balance, c->balance, p)) {
			c->from = (u32)c->balance->choice.index + 1;
			c->pause = sv_path_since(sv_balance_last(c->balance), sv_path_tick(c->now));
		}
		offer = SV_NEXT_PATH(c);
	}
	c->paths.offer = (u16)sv_forget32(offer);
}

/*
 * From the guest to the fabric, after sv_hold: sample the limiter's queue, track the flow, police and mark, label, count for the pair of
 * guests. Returns SV_BEGAN, SV_CELL_OPENED, SV_POLICED, SV_LIMITED. Sets p->emit.
 */
SV_FN u32 sv_egress(struct sv_ctx *c, struct sv_packet *p)
{
	u32 result = 0;
	u8 class = 0;

	if (!c->flow || !c->balance) {
		if (c->vcc_conf && p->proto == SV_PROTO_TCP)
			sv_vcc_stateless(p, 1);
		sv_balance_stateless(&c->conf->balance, &c->paths, c->hash, p);
		SV_DEPART(c, p);
		return sv_limit_mark(c->limit, p);
	}
	sv_sample(c);
	sv_offer(c, p);
	if (c->vcc && !(sv_vcc_begun(c->vcc) && c->flow->phase == SV_FLOW_OPEN))
		class = SV_CLASS_OF(c, p, 1);
	class = (u8)sv_forget8(class);
	SV_LOCK(c->flow_lock);
	result = sv_forget32(sv_track(c, p, class, 1));
	sv_forget();
	if (c->vcc && p->proto == SV_PROTO_TCP) {
		result |= sv_vcc_egress(c->vcc, c->vcc_conf, sv_limit_follows(c->limit), p, c->now);
		sv_limit_note_first(c->limit, &c->vcc->conn, p);
		sv_limit_handshake(c->limit, &c->vcc->bound, p, c->now);
	} else if (c->conn && p->proto == SV_PROTO_TCP) {
		sv_limit_out(c->limit, c->conn, c->bound, p, c->now);
	}
	result = sv_forget32(result);
	sv_forget();
	/* Cell and label are read and committed under this one hold, or two CPUs could mix two cells' labels. */
	if (!(result & SV_POLICED) && sv_balance_egress(&c->conf->balance, c->balance, &c->paths, c->hash, c->now, p))
		result |= SV_CELL_OPENED;
	SV_UNLOCK(c->flow_lock);
	if (result & SV_POLICED)
		return result;
	SV_DEPART(c, p);
	return result | sv_limit_mark(c->limit, p);
}

/*
 * From the fabric to the guest: harvest marks, hear of paths, sample the limiter's queue, track the flow, note the flowcell, take in
 * reports, lower the window, show ECN. Holding and reordering come last and are the caller's: a kernel program cannot hold packets.
 * Returns SV_BEGAN, SV_CELL_LATE, SV_CONSUMED, SV_LIMITED, SV_ANSWERED.
 */
SV_FN u32 sv_ingress(struct sv_ctx *c, struct sv_packet *p)
{
	int congested = 0;
	u32 result = 0;
	s32 gradient;
	u8 class = 0;

	if (p->ecn == SV_ECN_CE)
		p->marked = 1; /* without a tunnel nobody has looked */
	if (SV_HARVEST(c, p))
		return SV_CONSUMED;
	SV_HEAR(c);
	/*
	 * Two need to know: a guest that speaks ECN, and virtual congestion control, if it is to be masked. Of peers that do not speak
	 * version 2 no path is ever marked, so nothing they say is masked.
	 */
	if (p->wire == SV_WIRE_2 && sv_answers(c) && ((c->balance && c->balance->choice.ect) || !sv_balance_shows_law(&c->conf->balance))) {
		congested = SV_ALL_CONGESTED(c);
		p->masked = (u8)(sv_is_zero((u32)congested) & sv_is_zero(sv_balance_shows_law(&c->conf->balance)));
	}
	congested = (int)sv_forget8((u32)congested);
	if (!c->flow || !c->balance) {
		sv_show_ecn(c, p, 0, 0);
		return c->vcc_conf && p->proto == SV_PROTO_TCP ? sv_vcc_stateless(p, 0) : 0;
	}
	if (c->vcc && !(sv_vcc_begun(c->vcc) && c->flow->phase == SV_FLOW_OPEN))
		class = SV_CLASS_OF(c, p, 0);
	class = (u8)sv_forget8(class);
	gradient = sv_sample(c);
	SV_LOCK(c->flow_lock);
	result = sv_forget32(sv_track(c, p, class, 0));
	sv_forget();
	if (sv_flow_note_cell(c->flow, p))
		result |= SV_CELL_LATE;
	if (c->vcc && p->proto == SV_PROTO_TCP)
		result |= sv_vcc_ingress(c->vcc, c->vcc_conf, c->limit, gradient, p, c->now);
	else if (c->conn && p->proto == SV_PROTO_TCP)
		result |= sv_limit_in(c->limit, gradient, c->conn, c->bound, p, c->now);
	sv_forget();
	sv_show_ecn(c, p, sv_forget32(result), congested);
	SV_UNLOCK(c->flow_lock);
	return result;
}

/* The rules changed: a flow under way gets the class that they name now. `k` is the key of the guest's direction. */
SV_FN void sv_reclassify(struct sv_ctx *c, const struct sv_flow_key *k)
{
	u8 class;

	if (!c->vcc || !c->vcc_conf)
		return;
	class = sv_policy_find(c->vcc_conf->rule, c->vcc_conf->n_rules, k, c->tenant);
	SV_LOCK(c->flow_lock);
	if (sv_vcc_begun(c->vcc))
		c->vcc->law.class = class;
	SV_UNLOCK(c->flow_lock);
}

/* The timer laws of one flow. */
SV_FN u32 sv_tick(struct sv_ctx *c)
{
	u32 result = 0;

	if (!c->flow)
		return 0;
	SV_LOCK(c->flow_lock);
	if (sv_flow_expired(c->flow, c->conf->idle, c->now)) {
		result = SV_EXPIRED;
	} else if (c->vcc && sv_vcc_begun(c->vcc)) {
		result = (u32)sv_vcc_timeout(c->vcc, c->vcc_conf, c->now) << 8;
		if (!result)
			result = (u32)sv_vcc_widened(c->vcc, c->vcc_conf) << 8;
	}
	SV_UNLOCK(c->flow_lock);
	return result;
}

/* Time passed for the paths to one destination. */
SV_FN void sv_tick_paths(struct sv_ctx *c)
{
	if (!c->paths.path)
		return;
	SV_LOCK(c->paths_lock);
	sv_balance_tick(&c->conf->balance, &c->paths, c->now);
	SV_UNLOCK(c->paths_lock);
}

#endif
