/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the programs of FastLane and the agent share: the values of their maps and what they tell one another. As with state.h, of whose
 * version the maps are part.
 */
#ifndef SV_KERNEL_FASTLANE_H
#define SV_KERNEL_FASTLANE_H

/*
 * A process sends again, and the queue that dropped a segment is this host's own: it may be as long as a hundred round trips between two
 * hosts of one rack. Asked for room once in each, it drops more than is told of (drops.h), and the rest waits for the guest's timeout.
 */
#define SV_FASTLANE_LEAST_RTT_NS 1000000u
#include "../fastlane.h"
#include "../flow.h"
#include "../retrans.h"
#include "../stamp.h"

/* A connection of a guest, by the direction in which the guest sends. */
struct sv_fast_key {
	struct sv_flow_key key;
	u32 port; /* ifindex of the guest's */
};

SV_ASSERT_SIZE(struct sv_fast_key, 44);

struct sv_fast {
#ifdef __bpf__
	struct bpf_spin_lock lock; /* guards the rest, and the connection's entries of `fast_copies` */
#else
	u32 lock;
#endif
	u32 charged; /* SV_CHARGED_* */
	struct sv_flow flow;
	struct sv_fastlane lane;
	u32 copied_end; /* packets before this may have entries in `fast_copies` */
	u32 again_end;	/* what the guest sent more than once ends here */
	u32 longest;	/* ns: a round trip lately; queues in this host grow faster than an average follows */
	u32 place;	/* a packet that has an entry begins here, and those around it most likely at multiples of `size` from it */
	u16 size;	/* payload bytes; 0: none is known */
	u8 known;	/* SV_FAST_*: what of the rest means something */
	u8 pad;
	struct sv_stamp stamp;
	struct sv_retrans again; /* what the guest sent more than once, and when */
};

SV_ASSERT_SIZE(struct sv_fast, 232);

/* sv_fast.known */
#define SV_FAST_COPIED 0x1
#define SV_FAST_AGAIN 0x2

/* A packet of which more than one copy may have left: sv_fastlane_copy. */
struct sv_fast_copy_key {
	struct sv_fast_key of;
	u32 seq;
};

SV_ASSERT_SIZE(struct sv_fast_copy_key, 48);

/* The one row of `fast_conf`, the agent's. */
struct sv_fast_conf {
	u64 bytes; /* of what is dropped, the agent is told of so many of one guest in SV_FAST_INTERVAL_NS */
};

SV_ASSERT_SIZE(struct sv_fast_conf, 8);

#define SV_FAST_INTERVAL_NS 10000000ULL

/* A guest's row of `fast_guests`. */
struct sv_fast_guest {
	u64 since; /* when the interval began, ns */
	u64 bytes; /* that the agent was told of in it; segments of small packets count as more */
};

SV_ASSERT_SIZE(struct sv_fast_guest, 16);

/* sv_fast_drop.where */
#define SV_FAST_UNDERLAY 1 /* on its way to a peer, in the tunnel */
#define SV_FAST_PLAIN 2	   /* the same without a tunnel */
#define SV_FAST_PORT 3	   /* on its way to a guest of this host */
#define SV_FAST_LIMITER 4  /* in the queue of the limit of what its guest sends */
#define SV_FAST_EDGE 5	   /* by a program of the edge */
#define SV_FAST_OF_PEER 6  /* of a guest elsewhere, on its way to a guest of this host */

/* What the agent gets of a dropped segment; its bytes follow, from sv_fast_drop.len bytes. */
struct sv_fast_drop {
	u64 time;	   /* ns, CLOCK_MONOTONIC */
	struct sv_fast_key key; /* of the direction in which the guest here sends; of SV_FAST_OF_PEER the packet went the other way */
	u32 seq;
	u32 ack;
	u32 payload;	   /* bytes */
	u32 len;	   /* bytes that follow */
	u32 at;		   /* of these, where the guest's IP header begins */
	u32 device;	   /* ifindex of that whose queue dropped it */
	u32 mark;	   /* with which it was queued */
	u32 priority;
	u16 segment_size;  /* payload bytes of each packet; 0: it is one packet */
	u8 tcp_flags;
	u8 where;	   /* SV_FAST_* */
	u8 family;
	u8 ip_header_len;
	u8 l4_header_len;
	u8 unfinished;	   /* 1: of the transport checksum only the pseudo-header is summed up */
	u8 ethernet[14];   /* the guest's */
	u8 reason;	   /* the kernel's number of why it was dropped */
	u8 spoken;	   /* 1: edges speak in TCP's reserved bits, and have written the guest's ECN field: SV_WIRE_1, SV_WIRE_PLAIN */
	u32 peer;	   /* SV_FAST_OF_PEER: its number */
};

SV_ASSERT_SIZE(struct sv_fast_drop, 112);

/* The longest frame that fits a record of the kernel's, with what else is in it. */
#define SV_FAST_MAX_FRAME 65300

/* sv_fast_call.what */
#define SV_FAST_DROPPED 0  /* the agent has the packet's bytes */
#define SV_FAST_REPORTED 1 /* somebody says that it was dropped */
#define SV_FAST_DUE 2	   /* it has waited */
#define SV_FAST_GIVEN_UP 3 /* it was to wait, and nobody keeps it */
#define SV_FAST_ELSEWHERE 4 /* a peer has dropped it, and has its bytes */

/*
 * One call of selvedge_fast_decide: where it stands in the frame after an Ethernet header. The program returns SV_FASTLANE_*, and writes
 * `stamp`, `due` and `answer`.
 */
struct sv_fast_call {
	struct sv_fast_key key;
	u32 seq;
	u32 ack;
	u32 payload;
	u8 tcp_flags;
	u8 what; /* SV_FAST_* */
	u8 stamped; /* 1: the packet is to have `stamp`, if that is later than its own */
	u8 pad;
	u32 stamp;
	u64 due;		 /* SV_FASTLANE_LATER: when to call again, ns */
	struct sv_packet answer; /* SV_FASTLANE_TELL: of which the guest gets SV_CONN_DUPACKS */
	u64 dropped;		 /* SV_FAST_DROPPED, SV_FAST_ELSEWHERE: when it was, ns; 0: nobody knows */
};

SV_ASSERT_SIZE(struct sv_fast_call, 168);

/* Indices into the per-CPU counters. */
enum sv_fast_counter {
	SV_FAST_COUNT_TOLD,	  /* segments dropped by this host of which the agent was told */
	SV_FAST_COUNT_BYTES,	  /* their frames */
	SV_FAST_COUNT_FOREIGN,	  /* dropped TCP segments of no connection that is followed */
	SV_FAST_COUNT_WITHHELD,	  /* more of one guest than the agent is told of in a while */
	SV_FAST_COUNT_LARGE,	  /* longer than a record can be */
	SV_FAST_COUNT_LOST,	  /* for which the agent's buffer had no room */
	SV_FAST_COUNT_SUPPRESSED, /* segments of guests that did not leave: the edge's own copies are under way */
	SV_FAST_COUNT_LOWERED,	  /* ACKs whose window was lowered */
	SV_FAST_COUNT_FULL,	  /* segments without room for their connection's state */
	SV_FAST_COUNTERS
};

struct sv_fast_counts {
	u64 n[SV_FAST_COUNTERS];
};

#endif
