/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the programs of rate limits and the agent share: the values of their maps. As with state.h, of whose version they
 * are part.
 */
#ifndef SV_LIMITS_H
#define SV_LIMITS_H

#include "../delay.h"
#include "../edge.h"
#include "../sparse.h"

/* sv_limiter_key.direction, as the guest sees it */
#define SV_LIMITER_OUT 0 /* what it sends: the queue is on the limiter's device */
#define SV_LIMITER_IN 1	 /* what it gets: the queue is on its port */

struct sv_limiter_key {
	u32 ifindex;   /* of the port */
	u32 direction; /* SV_LIMITER_* */
};

SV_ASSERT_SIZE(struct sv_limiter_key, 8);

/* sv_limiter.flags */
#define SV_LIMITER_BOTH 0x1 /* the port has a limit of the other direction, too */
#define SV_LIMITER_BARE 0x2 /* of what a guest sends: segments come without an Ethernet header */
#define SV_LIMITER_MARKED 0x4 /* of what a guest sends: the port's number is its mark in the queue, whatever else names the port */
#define SV_LIMITER_NUMBER 16 /* from this bit on: the number that names the port in the queue (SV_RETURN_NUMBER) */

/*
 * The queue is a class of HTB, or, with a `rate`, a schedule: segments get the times at which they may leave, for a qdisc that
 * keeps to these.
 */
struct sv_limiter {
#ifdef __bpf__
	struct bpf_spin_lock lock; /* guards queue, pacer, sent and dropped */
#else
	u32 lock;
#endif
	u32 device;		/* ifindex of the device on which the queue is; 0: what is scheduled goes straight on */
	u32 class;		/* of that device's HTB, major and minor number */
	struct sv_limit limit;	/* as configured; the backlog is 0 */
	struct sv_limit_queue queue; /* the data path's */
	u32 flags;		/* SV_LIMITER_* */
	u32 pad;
	u64 idle;		/* ns without a packet after which a connection is forgotten */
	u64 rate;		/* of the schedule, bytes per second; 0: HTB holds the segments */
	u64 horizon;		/* of the schedule, ns: what would wait longer is dropped */
	/* The rest is the data path's. */
	struct sv_pacer pacer;
	u64 sent;		/* bytes scheduled */
	u64 dropped;		/* segments beyond the horizon */
	u64 leaf;		/* where the class's own queue is in the kernel's memory; 0: to be looked for */
	u64 tokens;		/* where what it may still send at its ceiling is */
	u64 ceil;		/* its ceiling, bytes per second */
	u64 found_at;		/* ns: when this was looked up */
	u64 share;		/* as configured, bytes per second: of what goes first and the bulk each has half; 0: nothing goes first */
	u32 first;		/* as configured: the class of what goes first; 0 where segments are scheduled */
	u32 flows;		/* the data path's: sv_limit.flows */
};

SV_ASSERT_SIZE(struct sv_limiter, 152);

/* What goes first in one limiter. The agent makes it zero. */
struct sv_limiter_flows {
#ifdef __bpf__
	struct bpf_spin_lock lock; /* guards the rest */
#else
	u32 lock;
#endif
	u32 pad;
	struct sv_sparse all;
	struct sv_sparse_flow flow[SV_SPARSE_FLOWS]; /* by sv_flow_hash */
};

SV_ASSERT_SIZE(struct sv_limiter_flows, 56 + 24 * SV_SPARSE_FLOWS);

/* Per CPU. */
struct sv_limiter_counts {
	u64 marked;   /* segments marked, or ACKs that got ECE */
	u64 cuts;     /* ACKs with which SPRING's window shrank */
	u64 lowered;  /* ACKs whose receive window was lowered */
	u64 acks;     /* segments back to the sender that the law looked at */
	u64 unread;   /* segments for which the backlog could not be read */
	u64 untracked; /* segments without room for their connection's state */
	struct sv_delays delays; /* of segments on their way to the queue, as they find it */
};

SV_ASSERT_SIZE(struct sv_limiter_counts, 176);

/* A connection through a limiter, seen from the sender that is limited. */
struct sv_limited_key {
	struct sv_flow_key key; /* of the limited direction */
	struct sv_limiter_key limiter;
};

SV_ASSERT_SIZE(struct sv_limited_key, 48);

struct sv_limited {
#ifdef __bpf__
	struct bpf_spin_lock lock; /* guards the rest */
#else
	u32 lock;
#endif
	u32 charged; /* SV_CHARGED_* */
	struct sv_flow flow;
	struct sv_conn conn;
	struct sv_bound bound;
};

SV_ASSERT_SIZE(struct sv_limited, 112);

#endif
