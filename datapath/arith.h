/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Integer arithmetic of the data path: serial numbers, saturation, what the BPF verifier needs to see. */
#ifndef SV_ARITH_H
#define SV_ARITH_H

#include "packet.h"

/*
 * Serial number arithmetic mod 2^32 (RFC 1982), for TCP sequence numbers and flowcell numbers alike. Positive when a
 * is newer. Numbers exactly 2^31 apart are undefined in the RFC; here both compare as older.
 */
SV_FN s32 sv_seq_diff(u32 a, u32 b)
{
	return (s32)(a - b);
}

SV_FN int sv_seq_after(u32 a, u32 b)
{
	return sv_seq_diff(a, b) > 0;
}

SV_FN u32 sv_add_sat32(u32 a, u32 b)
{
	u32 sum = a + b;

	return sum < a ? 0xffffffffu : sum;
}

SV_FN u32 sv_min32(u32 a, u32 b)
{
	return a < b ? a : b;
}

SV_FN u32 sv_max32(u32 a, u32 b)
{
	return a > b ? a : b;
}

/* a * b / c, at most 2^32 - 1. `c` is not 0. */
SV_FN u32 sv_mul_div32(u32 a, u32 b, u32 c)
{
	u64 q = (u64)a * b / c;

	return q > 0xffffffffu ? 0xffffffffu : (u32)q;
}

/*
 * index & mask, as an instruction that the BPF verifier sees. Where clang can prove a mask redundant it drops it, but the
 * verifier does not follow such proofs through a remainder.
 */
SV_FN u32 sv_mask(u32 index, u32 mask)
{
#ifdef __bpf__
	__asm__ volatile("" : "+r"(index));
#endif
	return index & mask;
}

/* The same value, of which the compiler knows nothing: it will not turn arithmetic into branches. */
SV_FN u64 sv_opaque(u64 value)
{
#ifdef __bpf__
	__asm__ volatile("" : "+r"(value));
#endif
	return value;
}

/*
 * Conditions as numbers, and a choice by them, without branches: a count that grows by branches is another number on every way through a
 * loop, and the BPF verifier follows them all.
 */
SV_FN u32 sv_is_zero(u32 value)
{
	return (u32)((sv_opaque(value) - 1) >> 63);
}

SV_FN u32 sv_is_above(u32 a, u32 b)
{
	return (u32)((sv_opaque(b) - a) >> 63);
}

/* `a` if `which` is 1, `b` if it is 0. */
SV_FN u32 sv_select32(u32 which, u32 a, u32 b)
{
	return b ^ ((a ^ b) & (0u - which));
}

/*
 * What was read from memory is read anew from here on. The BPF verifier follows each combination of what earlier branches
 * said about a value for as long as that value lives: between the steps of a stage that is all of them multiplied.
 */
SV_FN void sv_forget(void)
{
#ifdef __bpf__
	asm volatile("" ::: "memory");
#endif
}

/*
 * The same for a number that is not in memory: the verifier knows nothing more of it. It follows what is spilled to the stack at
 * multiples of eight, hence the odd places; that all of `copy` is named keeps the compiler from putting the number elsewhere.
 */
SV_FN u32 sv_forget32(u32 value)
{
#ifdef __bpf__
	struct {
		u32 even, odd;
	} __attribute__((aligned(8))) copy;

	copy.odd = value;
	asm volatile("" : "+m"(copy));
	return copy.odd;
#else
	return value;
#endif
}

/*
 * The same value, at most 255, of which the BPF verifier knows nothing more: it then need not follow a loop anew for each
 * value that the cursor could have had.
 */
SV_FN u32 sv_forget8(u32 value)
{
#ifdef __bpf__
	struct {
		u8 even, odd, rest[6];
	} __attribute__((aligned(8))) copy;

	copy.odd = (u8)value;
	asm volatile("" : "+m"(copy));
	return copy.odd;
#else
	return value;
#endif
}

/* The same value apart from the original: what the BPF verifier learns of the one, by branches, it does not hold of the other. */
SV_FN u64 sv_apart64(u64 value)
{
#ifdef __bpf__
	asm volatile("%0 ^= 0" : "+r"(value));
#endif
	return value;
}

#endif
