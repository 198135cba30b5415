/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Symbols for the inline functions of parse.h. */
#include <stddef.h>

#include "parse.h"

int sv_wire_parse(const u8 *data, size_t len, struct sv_packet *p);
int sv_wire_write_back(const struct sv_packet *p, u8 *data, size_t len);

int sv_wire_parse(const u8 *data, size_t len, struct sv_packet *p)
{
	return sv_parse(data, data + len, len > 0xffffffffu ? 0xffffffffu : (u32)len, p);
}

int sv_wire_write_back(const struct sv_packet *p, u8 *data, size_t len)
{
	return sv_write_back(p, data, data + len);
}
