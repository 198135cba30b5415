/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Marks that were counted for a pair of guests, and who gets the one place for feedback in an outgoing header. Feedback on paths
 * (relay.h) leaves with any packet to the peer, the path that has waited longest first. The count of a pair leaves with a packet of the
 * pair, whose addresses say which pair it is. A stamp (relay.h) leaves with a packet of its path. Where both of these
 * wait they take turns, and so does a stamp with them on its path: none starves the others.
 *
 * A count says how many marks there were in all, so losing some feedback loses none of them. Counts are 16 bits: half of that range is
 * ahead of what the peer knows, half behind.
 */
#ifndef SV_OWED_H
#define SV_OWED_H

#include "arith.h"
#include "packet.h"
#include "relay.h"

/* Marks that arrived for one pair of guests, and what of them its peer was told. Zero is a valid start. */
struct sv_owed_marks {
	u16 count; /* mod 2^16 */
	u16 told;
};

SV_ASSERT_SIZE(struct sv_owed_marks, 4);

/* The most that may be untold. Beyond, a count would look older than the last one. */
#define SV_OWED_MOST 0x7fffu

/* So many packets of the pair arrived marked. What would exceed the range of untold marks is not counted. */
SV_FN void sv_owed_count(struct sv_owed_marks *m, u32 marked)
{
	u32 untold = (u16)(m->count - m->told), room = untold < SV_OWED_MOST ? SV_OWED_MOST - untold : 0;

	m->count = (u16)(m->count + sv_min32(marked, room));
}

/*
 * The arbiter: fills the place of `p`, a packet to the peer and of the pair. Either may be missing. Only a packet that speaks version 2
 * can carry a count, or a stamp. `least` and `tick`: see sv_relay_take. `stamps`: ticks between two stamps on one path, 0: none are wanted.
 */
SV_FN void sv_owed_pay(struct sv_relay *r, struct sv_owed_marks *m, u32 least, u32 stamps, u32 tick, struct sv_packet *p)
{
	int counts = m && m->count != m->told && p->wire == SV_WIRE_2, paid = 0;
	int stamp = r && p->wire == SV_WIRE_2 && sv_relay_stamps(r, p->label, stamps, tick);
	struct sv_path_news news = {0};

	if (stamp && sv_relay_passed(r, p->label)) {
		/* The last packet of this path had something else. */
	} else if (r && !(counts && !r->counted) && sv_relay_take(r, least, tick, &news)) {
		paid = 1;
		r->counted = 0;
		p->feedback = news.kind;
		p->feedback_path = news.path;
		p->feedback_value = news.value;
	} else if (counts) {
		paid = 1;
		if (r)
			r->counted = 1;
		p->feedback = SV_FEEDBACK_MARKS;
		p->feedback_path = (u8)(m->count >> 8);
		p->feedback_value = (u8)m->count;
		m->told = m->count;
	}
	if (stamp && paid)
		sv_relay_pass(r, p->label);
	else if (stamp)
		sv_relay_stamp(r, p, tick);
}

/* The packet with the count does not leave: the next one has it. */
SV_FN void sv_owed_return(struct sv_owed_marks *m)
{
	if (m->count == m->told)
		m->told = (u16)(m->count - 1);
}

/* The last count that a peer has told of a pair. Zero is a valid start. */
struct sv_told {
	u16 count;
	u16 heard; /* when, units of 2^20 ns, bit 0 set; 0: never */
};

SV_ASSERT_SIZE(struct sv_told, 4);

/* A count that is behind the last one was overtaken on its way, unless the last one is older than this: units of 2^20 ns, 67 ms. */
#define SV_TOLD_OVERTAKEN 64

/*
 * A peer tells the count of a pair's marks. Returns how many are new. The first count is where it begins. One that was overtaken says
 * nothing. Any other that is behind, or further ahead than the packets `sent` to the peer and not reported yet, is a restart: the counts
 * are in step again, and none of these are marks. So a forged count costs the pair at most what it has sent. `now` in ns.
 */
SV_FN u32 sv_told_new(struct sv_told *t, u16 count, u32 sent, u64 now)
{
	u32 fresh = (u16)(count - t->count);
	u16 heard = (u16)(now >> 20) | 1;

	/* On another CPU it may have been heard at a later time than this one, whose processing took longer. */
	if (t->heard && fresh > SV_OWED_MOST && (u16)(heard - t->heard + SV_TOLD_OVERTAKEN) < 2 * SV_TOLD_OVERTAKEN)
		return 0;
	if (!t->heard || fresh > SV_OWED_MOST || fresh > sent)
		fresh = 0;
	t->heard = heard;
	t->count = count;
	return fresh;
}

#endif
