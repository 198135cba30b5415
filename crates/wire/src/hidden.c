/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Symbols for the inline functions of hidden.h. */
#include <stddef.h>

#include "hidden.h"

int sv_wire_hidden_read(const u8 *option, struct sv_hidden *h);
void sv_wire_hidden_write(u8 *option, const struct sv_hidden *h);
int sv_wire_hidden_fits(const struct sv_packet *p, u32 mtu);
u16 sv_wire_hidden_mss(u32 mtu);
void sv_wire_hidden_swap(struct sv_packet *p, u32 local, u32 remote, u32 hash, struct sv_hidden *h);
int sv_wire_hidden_is(const struct sv_packet *p, u32 local);
int sv_wire_hidden_may(u32 from, u32 source, u32 here, u32 destination);
void sv_wire_hidden_restore(struct sv_packet *p, u8 ecn, const struct sv_hidden *h);
int sv_wire_hidden_rewrite(u8 *ip, size_t len, const struct sv_packet *p, u8 ecn, const u8 *option, int undone);
int sv_wire_hidden_clamp(u8 *tcp, size_t len, u16 limit, int undone);

int sv_wire_hidden_read(const u8 *option, struct sv_hidden *h)
{
	return sv_hidden_read(option, h);
}

void sv_wire_hidden_write(u8 *option, const struct sv_hidden *h)
{
	sv_hidden_write(option, h);
}

int sv_wire_hidden_fits(const struct sv_packet *p, u32 mtu)
{
	return sv_hidden_fits(p, mtu);
}

u16 sv_wire_hidden_mss(u32 mtu)
{
	return sv_hidden_mss(mtu);
}

void sv_wire_hidden_swap(struct sv_packet *p, u32 local, u32 remote, u32 hash, struct sv_hidden *h)
{
	sv_hidden_swap(p, local, remote, hash, h);
}

int sv_wire_hidden_is(const struct sv_packet *p, u32 local)
{
	return sv_hidden_is(p, local);
}

int sv_wire_hidden_may(u32 from, u32 source, u32 here, u32 destination)
{
	return sv_hidden_may(from, source, here, destination);
}

void sv_wire_hidden_restore(struct sv_packet *p, u8 ecn, const struct sv_hidden *h)
{
	sv_hidden_restore(p, ecn, h);
}

int sv_wire_hidden_rewrite(u8 *ip, size_t len, const struct sv_packet *p, u8 ecn, const u8 *option, int undone)
{
	return sv_hidden_rewrite(ip, ip + len, p, ecn, option, undone);
}

/* sv_mss_clamp repairs whole checksums; one that is undone does not cover the option. */
int sv_wire_hidden_clamp(u8 *tcp, size_t len, u16 limit, int undone)
{
	u16 sum;
	int lower;

	if (!SV_FITS(tcp, 20, tcp + len))
		return 0;
	sum = sv_get16(tcp + 16);
	lower = sv_mss_clamp(tcp, tcp + len, limit);
	if (undone)
		sv_put16(tcp + 16, sum);
	return lower;
}
