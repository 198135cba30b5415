/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the kernel edge and its agent share: the values of the maps. The agent's mirror asserts the same sizes. A change
 * of any of them, or of a map's name or meaning, needs a new SV_STATE_VERSION.
 */
#ifndef SV_STATE_H
#define SV_STATE_H

#include "../edge.h"
#include "../encap.h"
#include "../divert.h"
#include "../relay.h"
#include "quota.h"

#define SV_STATE_VERSION 39

/* sv_config.flags */
#define SV_CONFIG_ANY_PEER 0x1 /* deliver what unknown hosts send, without their metadata; else it is dropped */
#define SV_CONFIG_CONGESTION 0x2 /* virtual congestion control, as `congestion` says */
#define SV_CONFIG_DISCOVERS 0x8 /* the agent wants to hear of replies to probes */
#define SV_CONFIG_NOTIFIED 0x10 /* switches notify of what they drop in the tunnel */
#define SV_CONFIG_REORDER 0x4	 /* what overtook an earlier flowcell goes through the agent, as `receiver` says */

struct sv_config {
	struct sv_conf conf;
	u64 seed;      /* of the flow hash */
	u16 udp_port;  /* on which encapsulated frames arrive; 0: none are taken */
	u16 flags;     /* SV_CONFIG_* */
	u8 mac[6];     /* answers address resolution for guests elsewhere whose own is not known; all zero: no answer */
	u8 pad[2];
	u32 epoch;     /* another one after every change of ports, routes and remotes; 0: flows do not keep what was found there */
	u32 cutter;    /* ifindex of a device that cuts segments, which come back from its other end; 0: there is none */
	u32 test_now;  /* of programs loaded for tests of time: the clock, us */
};

SV_ASSERT_SIZE(struct sv_config, 80);

/* sv_port.flags */
#define SV_PORT_PEER 0x1   /* deliver straight to the other end of the veth pair, which is in another namespace */
#define SV_PORT_LEARN 0x2  /* tell the agent of source addresses that have no route to this port */
#define SV_PORT_STRICT 0x4 /* drop what comes from them, what is tagged, and what does not parse */
#define SV_PORT_LIMITER 0x8 /* no guest's: what comes out of the limiter; skb->mark is the ifindex of the guest's port */
#define SV_PORT_LIMITED 0x10 /* limits.bpf.c watches what the guest sends: what has the port's number as its mark was here before */
#define SV_PORT_CUTTER 0x80 /* with SV_PORT_LIMITER: what comes out of the cutter, as what comes out of the limiter, or with CUT_IN_TUNNEL as its mark */
#define SV_PORT_INSIDE 0x200 /* of a number in the queue (SV_RETURN): what has it goes into the guest */
#define SV_PORT_CLOSED 0x1000000 /* a port's vni: between two networks */
#define SV_PORT_SHARED 0x100 /* with SV_PORT_LIMITER: a device of the host's own, where all is another's that has no number of ours */

#define SV_PORT_OWN_MAC 0x20 /* of a strict port: and what comes from another MAC address than `mac` */
#define SV_PORT_ISOLATED 0x40 /* nothing of it reaches the host's stack */

/*
 * What a port without a network sends passes its queue and comes in at the port again, with the mark and the priority that it had.
 * Through the queue tc_index names the port: SV_RETURN and the number are a key of `ports`. At the port only the time stamp tells it
 * from what the guest sends now; like the mark and unlike tc_index, a stamp cannot come from another namespace. On a device of the host's
 * own a mark may be the host's: there tc_index names ports with a network, too, whose row has SV_PORT_LIMITED.
 */
#define SV_RETURN 0x80000000u	      /* no ifindex is that large; sv_port.vni is the port's ifindex */
#define SV_RETURN_NUMBER 0x7fffu      /* of tc_index; 0: none */
#define SV_RETURN_PRIORITY 0x8000u    /* of tc_index: skb->hash is the priority, which devices do not keep */
#define SV_RETURNED 0x5356524554000000ULL /* skb->tstamp */
#define SV_RETURNED_PRIORITY (SV_RETURNED + 1)

/*
 * Others of these stamps, where a guest's own end of its veth pair has a program (inside.bpf.c): some networks put packets straight into the
 * guest, past its port. All that gets there turns back, enters the port as if the guest had sent it, passes its queue, and is put straight
 * into the guest again. Nobody else's program sees it in between.
 */
#define SV_TURNED (SV_RETURNED + 2) /* it turned back */
#define SV_THROUGH (SV_RETURNED + 3) /* it has been through the port's queue */

/* SV_EVENT_GUEST is sent at most once in this time per port and cause, a "too big" at most once in the other. */
#define SV_LEARN_INTERVAL_NS 10000000ULL
#define SV_TOOBIG_INTERVAL_NS 1000000ULL

/*
 * A guest's interface, by ifindex. A guest that is told the edge's MAC address for another's is reached only if the other's
 * own is written on the way: by `mac` here, or by that of the peer's route.
 */
struct sv_port {
	u32 vni;       /* the guest's network, 24 bits */
	u32 flags;     /* SV_PORT_* */
	u8 mac[6];     /* the guest's; written as destination of what it gets; all zero: left as it is */
	u16 mtu;       /* largest IP packet that it may send to peers, bytes, and the bound of MSSs; 0: no bound */
	u64 learnt_at; /* the data path's: when it last sent SV_EVENT_GUEST, ns */
	u64 toobig_at; /* the data path's: when it last answered a packet larger than `mtu`, ns */
	u64 heard_at;  /* the data path's: when it last told of an answer of the guest's to the agent, ns */
	u64 mac_at;    /* the data path's: when it last sent SV_EVENT_MAC, ns */
	u32 share;     /* of the host's uplink: number of its row in `shares`, above it the guest's weight; 0: no guest's is held */
	u32 pad;
};

SV_ASSERT_SIZE(struct sv_port, 56);

#define SV_SHARE_NUMBER 0xffffu
#define SV_SHARE_WEIGHT 16 /* bits above it */
#define SV_MAX_SHARES 4096
#define SV_SHARE_WORDS (SV_MAX_SHARES / 64) /* row n is bit n - 1 */

/* Shares of the uplink (hygenicc.h). The one row of `tenants`, the agent's. */
struct sv_tenants {
	struct sv_hyg_conf conf; /* interval 0: nobody is held, and rates stay as they are */
	u64 backlog;		 /* bytes of a guest that may wait; 0: what exceeds the rate is dropped */
	u32 numbers;		 /* rows of `shares` in use: 1 to this */
	u32 pad;
};

SV_ASSERT_SIZE(struct sv_tenants, 96);

/* The one row of `sharing`, the data path's. */
struct sv_sharing {
#ifdef __bpf__
	struct bpf_spin_lock lock; /* guards uplink, all of `shares` and all of `pairs` */
#else
	u32 lock;
#endif
	u32 tick; /* the interval in which rates were set last */
	struct sv_hyg_uplink uplink;
	u64 ticks; /* how often rates were set */
	u64 late;  /* ns that these were late, in all */
	u64 active[SV_SHARE_WORDS]; /* bits of the rows of `shares` whose guests have a share: others cost nothing when rates are set */
};

SV_ASSERT_SIZE(struct sv_sharing, 544);

/* Of one guest: a row of `shares`, the data path's. */
struct sv_share {
	struct sv_hyg_bucket bucket;
	u64 last;    /* where segments wait: when the last one leaves, ns */
	u64 sent;    /* segments */
	u64 bytes;   /* on the wire */
	u64 dropped; /* segments that exceeded the rate */
	u64 delayed; /* segments that had to wait */
	u64 marks;   /* that were heard of */
	u64 refused; /* segments of new pairs */
	u32 ifindex; /* of the guest's port: of another, the row is begun anew */
	u32 behind;  /* bytes that would leave before `last`, and wait for it */
};

SV_ASSERT_SIZE(struct sv_share, 144);

/* A guest elsewhere, for admission. */
struct sv_destination_key {
	u32 vni;
	u32 addr[4];
};

SV_ASSERT_SIZE(struct sv_destination_key, 20);

/* All that goes to it. */
struct sv_destination {
	struct sv_hyg_part part;
	u32 refusing; /* bit 0: new pairs with it are refused; bit 1: the agent was told so */
};

SV_ASSERT_SIZE(struct sv_destination, 20);

/* A guest here and one elsewhere. */
struct sv_pair_key {
	u32 ifindex; /* of the port here */
	u32 own;     /* hash of the guest's address, by the seed: of several, each has its own marks */
	u32 other[4];
};

SV_ASSERT_SIZE(struct sv_pair_key, 24);

/* With its key 64 bytes. */
struct sv_pair_slot {
	struct sv_hyg_pair pair;
	u32 used;  /* when, units of 2^20 ns */
	u32 flags; /* SV_CHARGED_*, which leave room for SV_PAIR_* */
};

SV_ASSERT_SIZE(struct sv_pair_slot, 40);

/* sv_pair_slot.flags */
#define SV_PAIR_SAW 24		   /* SV_FLOW_* from this bit on, 4 bits */
#define SV_PAIR_YIELDS 0x10000000u /* the last packet in which both wanted a place had feedback on a path */

/* A pair without a packet for so long is forgotten: units of 2^20 ns, 60 s; and of one that is not settled, as of flows, 10 s. */
#define SV_PAIR_IDLE 57220u
#define SV_PAIR_UNSETTLED ((u32)(SV_FLOW_UNSETTLED_NS >> 20))

/* The peer of such a pair is to be told of its marks. */
struct sv_pair_told {
	struct sv_pair_key key;
	u32 own[4]; /* the guest's address, of which the key has a hash only */
};

SV_ASSERT_SIZE(struct sv_pair_told, 40);

/*
 * Where a program of the edge drops a segment for a rate, it says so in the packet's control block, of which the kernel leaves these words
 * alone until the packet is freed (drops.h). What else has such words there gains nothing: a segment counts only for the port at which its
 * source is, or between a guest of the port that has dropped it and a peer's.
 */
#define SV_DROPPED_OVER_RATE 0x53564452u /* skb->cb[0]: of a guest; skb->cb[1] is its port */
#define SV_DROPPED_AT_PORT 0x53564450u /* skb->cb[0]: on its way to a guest, beyond the horizon of the limit of what that gets */

/* Longest-prefix match over the network and an inner address. Both in network byte order: the trie compares bytes. */
struct sv_route_key {
	u32 prefix_len; /* bits, the network's 32 included */
	u32 vni;
	u32 addr[4];    /* as in sv_packet */
};

SV_ASSERT_SIZE(struct sv_route_key, 24);

/* sv_route.kind */
#define SV_ROUTE_LOCAL 1 /* `target` is the ifindex of a port */
#define SV_ROUTE_PEER 2	 /* `target` is a peer's number */

struct sv_route {
	u32 kind;
	u32 target;
	u8 mac[6];  /* of the guest there; written as inner destination towards a peer; all zero: left as it is */
	u8 pad[2];
};

SV_ASSERT_SIZE(struct sv_route, 16);

/* Another host, by the agent's number for it. Never changed in place: the agent replaces the whole value. */
struct sv_peer {
	struct sv_tunnel tunnel;
	u32 ifindex;   /* uplink towards it */
	u16 flags;     /* SV_PEER_*, the agent's own */
	u16 mtu;       /* largest IP packet of a guest that the path carries, bytes; 0: not known, as much as the uplink carries */
	u32 schedule;  /* tells this schedule from others: what is known of paths is of the one with the same number */
	u32 n_labels;
	u16 labels[SV_MAX_LABELS]; /* the schedule: in the order in which flowcells take them */
};

SV_ASSERT_SIZE(struct sv_peer, 576);

/* sv_peer.flags */
#define SV_PEER_DISCOVERED 0x1 /* its labels are those of paths that were discovered */

/* Their numbers are at most this. */
#define SV_MAX_PEERS 4096

/*
 * What is known of the paths to a peer, by place in its schedule, and what the peer is still to be told: for schemes that keep states of
 * paths. The agent makes both rows, zeroed, and moves states where places change.
 */
struct sv_peer_paths {
#ifdef __bpf__
	struct bpf_spin_lock lock; /* guards the rest */
#else
	u32 lock;
#endif
	u32 schedule; /* that `path` is of: sv_peer.schedule, but for the moment between two writes of the agent */
	struct sv_path path[SV_MAX_LABELS];
};

SV_ASSERT_SIZE(struct sv_peer_paths, 9224);

struct sv_peer_relay {
#ifdef __bpf__
	struct bpf_spin_lock lock; /* guards relay */
#else
	u32 lock;
#endif
	struct sv_relay relay;
};

SV_ASSERT_SIZE(struct sv_peer_relay, 3348);

struct sv_flow_slot_key {
	struct sv_flow_key key;
	u32 vni; /* networks may use the same addresses */
};

SV_ASSERT_SIZE(struct sv_flow_slot_key, 44);

/* What was found for a flow in `ports`, `routes` and `remotes`; it holds as long as sv_config.epoch is the same. */
struct sv_found {
	u32 out_epoch;
	u32 out_port; /* ifindex of the guest's port, from where its segments may come */
	u32 out_peer;
	u8 out_mac[6]; /* inner destination, as in sv_route */
	u8 out_turn;   /* counts how often something was put here */
	u8 in_turn;
	u32 in_epoch;
	u32 in_port; /* ifindex of the port to which its segments go */
	u32 in_from[4]; /* outer address of the peer that sends them */
	u32 in_peer;	/* its number */
	u8 in_most;	/* the highest version that we speak to it */
	u8 pad;
	u16 in_to; /* whom they are for: of the guest's inner address, fold */
};

SV_ASSERT_SIZE(struct sv_found, 52);

/* sv_flow_slot.cut: a flow's segments go through the cutter, */
#define SV_CUT_OUT 0x1 /* before they are encapsulated */
#define SV_CUT_IN 0x2  /* before they leave the tunnel */

struct sv_flow_slot {
#ifdef __bpf__
	struct bpf_spin_lock lock; /* guards flow, balance, counts, divert and vcc */
#else
	u32 lock;
#endif
	u32 hash; /* of the key, sv_flow_hash; 0: not computed yet */
	u32 port; /* ifindex of the port that is charged for it; 0: none is */
	u8 outside; /* charged as begun from outside and not settled */
	u8 cut;	    /* SV_CUT_* */
	u16 timer;  /* its place in `timers`; 0: it has none */
	struct sv_flow flow;
	struct sv_balance balance;
	struct sv_flow_counts counts;
	struct sv_found found;
	struct sv_divert divert;
	struct sv_vcc vcc; /* zero without virtual congestion control */
};

SV_ASSERT_SIZE(struct sv_flow_slot, 328); /* AC/DC keeps 320 per direction */

/* The one entry of `receiver`: a sign of life of the agent's thread that holds segments (divert.h). Without one nothing is diverted. */
struct sv_reorder_alive {
	u64 alive;  /* when it last said so, ns, CLOCK_MONOTONIC */
	u64 secret; /* which it writes into what it sends */
};

SV_ASSERT_SIZE(struct sv_reorder_alive, 16);

/* So long its word holds, ns. If it ends, its device does, and nothing is diverted any more at once. */
#define SV_RECEIVER_ALIVE_NS 100000000ULL

/* In front of a frame that is diverted to the thread's device. */
struct sv_bounce {
	u64 secret;
	u32 port;    /* ifindex of the guest's, where it is to go */
	u32 vni;
	u32 cell;    /* its flowcell; 0 where it has none */
	u32 payload; /* bytes; the kernel may cut the segment on its way, and copies this to each part */
	struct sv_place place;
	u8 first;    /* a diversion begins */
	u8 has_cell;
	u8 pad[2];
};

SV_ASSERT_SIZE(struct sv_bounce, 40);

/* Behind the Ethernet header of a frame that the thread gives back, which then goes to the guest as it was. */
struct sv_return {
	u64 secret;
	u32 port;
	u32 vni;
	u8 ethernet[14]; /* its own header */
	u8 pad[2];
};

SV_ASSERT_SIZE(struct sv_return, 32);

/* What the thread says of a flow, in a frame of type SV_ETHERTYPE_MARK that nobody gets: sv_divert_drained. */
struct sv_mark {
	u64 secret;
	struct sv_flow_slot_key key;
	u16 number;
	u8 pad[2];
};

SV_ASSERT_SIZE(struct sv_mark, 56);

/* Nobody's (IEEE 802, local experiments). */
#define SV_ETHERTYPE_MARK 0x88b5

/* Places for flows with data outstanding; the first is nobody's. And how many parts these are walked over in. */
#define SV_TIMERS 65536
#define SV_TIMER_PARTS 64

/*
 * One call of selvedge_tick, and of selvedge_limit_tick: where it stands in the frame after an Ethernet header. `count` keys
 * of flows follow, or for SV_TICK_TIMED places in `timers`, each in 4 bytes. Returns how many flows it did something to, and
 * SV_TICK_FULL.
 */
struct sv_tick_call {
	u64 now;   /* of SV_TICK_EXPIRE: ns, CLOCK_MONOTONIC; of SV_TICK_RATES: the first word of guests */
	u32 what;  /* SV_TICK_* */
	u32 count; /* at most SV_TICK_MAX */
};

SV_ASSERT_SIZE(struct sv_tick_call, 16);

/* Flows of one call: these take less than 100 us. */
#define SV_TICK_MAX 64

/* sv_tick_call.what */
#define SV_TICK_TIMED 0      /* the timer laws of flows with data outstanding, by their places */
#define SV_TICK_TIMERS 1     /* those of the flows named */
#define SV_TICK_RECLASSIFY 2 /* the rules changed */
#define SV_TICK_FORGET 3     /* congestion control begins: what it knew of old is not to be believed */
#define SV_TICK_EXPIRE 4     /* delete what has expired */
#define SV_TICK_BEGIN 5	     /* of selvedge_share_tick: set rates from now on, once an interval */
#define SV_TICK_RATES 6	     /* of the same: set them now, as many as at once, which is for measurements of what it takes */
#define SV_TICK_TELL 7	     /* of the same: ask for the marks of pairs that have fallen silent; struct sv_pair_told follow */
#define SV_TICK_TELL_PLAIN 8 /* the same without a tunnel */

/* Of what it returns. */
#define SV_TICK_FULL 0x20000 /* there is no room for events: call again when they have been read */

/* In so many ns a CPU asks the agent for this many packets at most. */
#define SV_EMIT_MAX 64
#define SV_EMIT_INTERVAL_NS 10000000ULL
/* Probes that it answers at most in that time, and replies that it tells the agent of; and those of one peer on all CPUs. */
#define SV_PROBE_MAX 256
#define SV_PROBE_PEER_MAX 128
#define SV_REPLY_MAX 128
#define SV_REPLY_PEER_MAX 64
/* And of what peers say of dropped packets: on each CPU, and of one peer on all. */
#define SV_TOLD_MAX 512
#define SV_TOLD_PEER_MAX 256

/* sv_event.kind */
#define SV_EVENT_TABLE_FULL 0	   /* addr: inner destination; value: SV_QUOTA_*, 0: the table is full */
#define SV_EVENT_UNKNOWN_PEER 1	   /* addr: outer source */
#define SV_EVENT_UNKNOWN_VERSION 2 /* addr: outer source; value: version */
#define SV_EVENT_EMIT 3		   /* a stage asks for a packet; value: which; packet: the one that caused it */
#define SV_EVENT_GUEST 4	   /* addr: a guest's, not routed to its port, or asked for; value: VNI; mac: the guest's */
#define SV_EVENT_FORGED 5	   /* addr: outer source; packet.saddr: inner source, which is not that peer's; value: VNI */
#define SV_EVENT_LENGTHS 6	   /* addr: outer source, whose lengths contradict the frame */
#define SV_EVENT_MAC 7		   /* a strict port's frame from another MAC address than the port's; addr: inner source */
#define SV_EVENT_TIMER 8	   /* packet: an ACK for the guest; value: SV_EMIT_* that ask for it; ifindex: no interface, the VNI */
#define SV_EVENT_TUNNEL 9	   /* a guest's segment to the tunnel's UDP port was dropped; addr: inner destination */
#define SV_EVENT_REPLY 10	   /* a probe's; addr: outer source; value: identifier << 16 | outer source port */
#define SV_EVENT_MARKS 11	   /* packet: to a peer's guest, with `value` marks and nothing else; ifindex: the guest's port here */
#define SV_EVENT_ADMISSION 12	   /* addr: a guest elsewhere; value: 1: new pairs with it are refused from now on, 0: they are not any more */
#define SV_EVENT_DROPPED 13	   /* packet: a guest's of this host, which a peer has dropped (dropped.h); ifindex: the guest's port */
#define SV_EVENT_AGAIN 14	   /* packet: a peer's guest's, which this host has dropped and is to send again; ifindex: the port it is for.
				      Of both: addr: outer source; value: the shim's detail << 16 | number of the peer */
#define SV_EVENT_NOTIFIED 15	   /* packet: a guest's of this host, which a switch has dropped; addr: outer source; value: VNI; ifindex: the guest's port */
#define SV_EVENT_KINDS 12	   /* that have a time of their own: ADMISSION has the one that MARKS needs not */

/*
 * All but EMIT, GUEST, TIMER, REPLY, MARKS, DROPPED, AGAIN and NOTIFIED are for a log, and strangers can cause them: they are sent at most once in this time per kind. MAC
 * is sent so per port, because the agent looks that port up.
 */
#define SV_EVENT_INTERVAL_NS 1000000000ULL

struct sv_event {
	u64 time;    /* ns, CLOCK_MONOTONIC */
	u32 kind;
	u32 ifindex;
	u32 addr[4];
	u32 value;
	u8 mac[6];
	u8 pad[6];
	struct sv_packet packet;
};

SV_ASSERT_SIZE(struct sv_event, 48 + sizeof(struct sv_packet));

/* Indices into the per-CPU counters. Bytes are whole frames, without the encapsulation. */
enum sv_counter {
	SV_COUNT_OUT_SEGMENTS,	   /* of guests, sent to peers */
	SV_COUNT_OUT_BYTES,
	SV_COUNT_IN_SEGMENTS,	   /* of peers, delivered to guests */
	SV_COUNT_IN_BYTES,
	SV_COUNT_LOCAL_SEGMENTS,   /* between guests of this host */
	SV_COUNT_UNTRACKED,	   /* carried without flow state: neither TCP nor UDP, or a fragment; both directions */
	SV_COUNT_PASSED,	   /* from guests, left to the host's stack: not IP, or without route; tagged, malformed */
	SV_COUNT_FLOWS_BEGUN,
	SV_COUNT_FLOW_TABLE_FULL,  /* segments handled without state because there was no room */
	SV_COUNT_FLOWCELLS,
	SV_COUNT_IN_LATE,	   /* segments of an older flowcell than the newest seen */
	SV_COUNT_IN_CE,		   /* segments marked on their way */
	SV_COUNT_IN_NO_GUEST,	   /* encapsulated, but for nobody here: left to the host's stack */
	SV_COUNT_UNKNOWN_PEER,	   /* encapsulated segments from hosts that are no peers */
	SV_COUNT_UNKNOWN_VERSION,  /* metadata ignored, payload delivered */
	SV_COUNT_FEEDBACK,	   /* feedback received from peers */
	SV_COUNT_FEEDBACK_IGNORED, /* feedback from hosts that are no peers */
	SV_COUNT_DROP_ECN,	   /* marked on their way although not ECN-capable (RFC 6040) */
	SV_COUNT_DROP_TOO_LARGE,   /* longer with the outer headers than IP can say */
	SV_COUNT_DROP_ERROR,	   /* the kernel refused to change the packet */
	SV_COUNT_ANSWERED,	   /* ARP requests and neighbour solicitations */
	SV_COUNT_MSS_CLAMPED,	   /* SYNs whose MSS was lowered, both directions */
	SV_COUNT_OVERSIZE_ANSWERED, /* ICMP "fragmentation needed" and "packet too big" sent to guests */
	SV_COUNT_DROP_OVERSIZE,	   /* of guests, larger than their port's MTU */
	SV_COUNT_DROP_SPOOFED,	   /* of guests, from addresses that are not routed to their port */
	SV_COUNT_DROP_POLICED,	   /* of guests, beyond the window that they were granted */
	SV_COUNT_WINDOWS_LOWERED,  /* ACKs delivered with a smaller window */
	SV_COUNT_PACKS_SENT,	   /* reports of bytes and marks, in ACKs of guests */
	SV_COUNT_FACKS_ASKED,	   /* the same in packets of their own, which the agent sends */
	SV_COUNT_REPORTS_RECEIVED, /* of either kind */
	SV_COUNT_FACKS_CONSUMED,   /* of these, in packets of their own */
	SV_COUNT_DIVERSIONS,	   /* flows that began to go through the agent */
	SV_COUNT_BOUNCED,	   /* segments on that way */
	SV_COUNT_DRAINED,	   /* segments that came back */
	SV_COUNT_IN_AHEAD,	   /* segments handed on although they may be ahead of their turn: no agent held them */
	SV_COUNT_DROP_FOREIGN,	   /* from the agent's device, but not the agent's, or for nobody any more */
	SV_COUNT_UNTRACKED_FRAGMENTS, /* of SV_COUNT_UNTRACKED: fragments */
	SV_COUNT_UNTRACKED_HEADERS, /* of SV_COUNT_UNTRACKED: behind more IPv6 extension headers than are followed */
	SV_COUNT_DROP_TAGGED,	   /* of guests on strict ports, with a VLAN tag */
	SV_COUNT_DROP_MALFORMED,   /* of guests on strict ports, neither ARP nor an IP packet that parses */
	SV_COUNT_DROP_TUNNEL,	   /* of guests, to the tunnel's UDP port of no guest */
	SV_COUNT_DROP_HOST,	   /* of guests on isolated ports, for the host */
	SV_COUNT_DROP_LENGTHS,	   /* encapsulated, but the outer lengths are not the frame's */
	SV_COUNT_DROP_FORGED,	   /* of peers, from an inner source that is not routed to them */
	SV_COUNT_FULL_PORT,	   /* of FLOW_TABLE_FULL: the port held as many flows as it may */
	SV_COUNT_FULL_NETWORK,	   /* the network did */
	SV_COUNT_FULL_OUTSIDE,	   /* the port held as many that began from outside as it may */
	SV_COUNT_FACKS_WITHHELD,   /* of FACKS_ASKED: more than the agent is asked for in a while; a later report says the same */
	SV_COUNT_CUT,		   /* that the kernel was asked to cut: guests', and peers' datagrams in the tunnel */
	SV_COUNT_PROBES_ANSWERED,  /* of peers, sent back as replies */
	SV_COUNT_PROBE_REPLIES,	   /* of peers, that the agent was told of */
	SV_COUNT_PROBES_WITHHELD,  /* of either kind: more than are answered, or told of, in a while */
	SV_COUNT_FEEDBACK_SENT,	   /* feedback sent to peers */
	SV_COUNT_DROP_OVER_RATE,   /* of guests, beyond their share of the uplink */
	SV_COUNT_DELAYED,	   /* of guests, that had to wait for their turn */
	SV_COUNT_MARKS_COUNTED,	   /* packets of pairs of guests that arrived marked */
	SV_COUNT_MARKS_HEARD,	   /* that peers told of */
	SV_COUNT_MARKS_ASKED,	   /* counts of marks in packets of their own, which the agent sends */
	SV_COUNT_MARKS_WITHHELD,   /* more of these than the agent is asked for in a while; a later one says the same */
	SV_COUNT_MARKS_CONSUMED,   /* counts of peers, in packets of their own */
	SV_COUNT_PAIRS_FULL,	   /* segments of pairs that there was no room for */
	SV_COUNT_REFUSED,	   /* of guests, of new pairs with destinations whose packets are marked too often */
	SV_COUNT_DROPS_TOLD,	   /* what peers said of dropped packets, passed to the agent */
	SV_COUNT_DROPS_TOLD_MALFORMED, /* the same, which contradicts itself or is of no peer */
	SV_COUNT_DROPS_TOLD_WITHHELD, /* the same, more than the agent is told of in a while */
	SV_COUNT_NOTIFIED,	   /* notifications of switches, passed to the agent */
	SV_COUNT_NOTIFIED_MALFORMED, /* the same, of no TCP packet of a guest of this host to a guest of who it names as its sender */
	SV_COUNT_NOTIFIED_WITHHELD, /* the same, more than the agent is told of in a while, or has room for */
	SV_COUNTERS
};

/* The value of the one entry of `counters`, per CPU. */
struct sv_counters {
	u64 n[SV_COUNTERS];
};

#endif
