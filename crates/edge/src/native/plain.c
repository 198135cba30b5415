/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Symbols for the tests of hygenicc_plain.h, and of what edge.h shows on a network without a tunnel. */
#ifdef SV_BALANCE_TEST
#include "toy.h"
#endif
#include "edge.h"
#include "hygenicc_plain.h"

int sv_edge_plain_egress(struct sv_hyg *h, struct sv_packet *p, u64 now);
void sv_edge_plain_ingress(struct sv_hyg *h, const struct sv_packet *p, u64 now);
void sv_edge_plain_hear(struct sv_hyg *h, u32 marks, u64 now);
u16 sv_edge_plain_asks(struct sv_hyg_pair *q, u64 now);
void sv_edge_plain_return(struct sv_hyg_pair *q, u32 marks);
void sv_edge_show_plain_ecn(const struct sv_hyg_conf *c, struct sv_flow *f, u8 was, struct sv_packet *p);
u16 sv_edge_plain_word(u16 word, int bit);

int sv_edge_plain_egress(struct sv_hyg *h, struct sv_packet *p, u64 now)
{
	return sv_plain_egress(h, p, now);
}

void sv_edge_plain_ingress(struct sv_hyg *h, const struct sv_packet *p, u64 now)
{
	sv_plain_ingress(h, p, now);
}

void sv_edge_plain_hear(struct sv_hyg *h, u32 marks, u64 now)
{
	sv_plain_hear(h, marks, now);
}

u16 sv_edge_plain_asks(struct sv_hyg_pair *q, u64 now)
{
	return sv_plain_asks(q, now);
}

void sv_edge_plain_return(struct sv_hyg_pair *q, u32 marks)
{
	sv_plain_return(q, marks);
}

void sv_edge_show_plain_ecn(const struct sv_hyg_conf *c, struct sv_flow *f, u8 was, struct sv_packet *p)
{
	sv_show_plain_ecn(c, f, was, p);
}

u16 sv_edge_plain_word(u16 word, int bit)
{
	return sv_plain_word(word, bit);
}
