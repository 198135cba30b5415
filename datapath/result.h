/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the stages of edge.h say of a packet, as bits that add up; and what a tick says of a flow. */
#ifndef SV_RESULT_H
#define SV_RESULT_H

/* Of sv_hold, sv_egress and sv_ingress. */
#define SV_BEGAN 0x01	    /* a connection began with this packet: state beyond the context must start anew too */
#define SV_CELL_OPENED 0x02 /* the packet opens a flowcell or flowlet */
#define SV_CELL_LATE 0x04   /* a newer flowcell was seen before */
#define SV_POLICED 0x08	    /* drop it: it exceeds the window */
#define SV_CONSUMED 0x10    /* it was for the edge, and goes nowhere */
#define SV_LIMITED 0x20	    /* the limiter marked it, or made the flow's window smaller */
#define SV_REPORTED 0x40    /* it brought a report of virtual congestion control; from who runs the stages, as the next */
#define SV_NO_ROOM 0x80	    /* for the flow's state */
#define SV_ANSWERED 0x100   /* virtual congestion control answers for the guest's ECN, which sees none of the network's */
#define SV_OVER_RATE 0x200  /* drop or hold it: it exceeds the rate of its guest; from sv_hold alone */

/* Of sv_tick. */
#define SV_EXPIRED 0x1 /* the flow's state is to be freed */
#define SV_TICK_EMIT(result) ((unsigned char)((result) >> 8)) /* SV_EMIT_WINDOW, SV_EMIT_DUPACK: packets to make by sv_vcc_ack */

#endif
