"""CRC-32C of many frames at once, by linearity.

A CRC is linear over GF(2), which gives two identities (A, B are byte strings, | joins them):

    crc(A | B)      = shift(crc(A), len(B)) ^ crc(B)
    crc(A) ^ crc(C) = lin(A ^ C)                        for A and C of one length

`shift(c, n)` is what n more zero bytes do to a register, and `lin` is the CRC without its
initial and final inversion. So one hardware call over a whole chunk is compared with the stored
checksums of its frames, combined in a tree; and a changed offset needs the few changed bytes
only, not the frame. `shift` is applied digit by digit (base 256) of n, each digit a table look-up.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

U32 = NDArray[np.uint32]
Lengths = NDArray[np.int64]
Differences = NDArray[np.uint64]

_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected
_DIRECT_PIECES = 1024


def _byte_table() -> U32:
    """lin of each single byte."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ np.where(table & np.uint32(1), np.uint32(_POLYNOMIAL), np.uint32(0))
    return table


_BYTES = _byte_table()


def _apply(tables: U32, registers: U32) -> U32:
    """A linear map, given as four tables of 256, one for each byte of the register."""
    result: U32 = tables[0][registers & 255]
    for byte in (1, 2, 3):
        result = result ^ tables[byte][(registers >> np.uint32(8 * byte)) & 255]
    return result


_REGISTERS = np.stack([np.arange(256, dtype=np.uint32) << np.uint32(8 * byte) for byte in range(4)])


@cache
def _digit_tables(place: int) -> U32:
    """(256, 4, 256): the maps that shift by 0, 1, ... 255 times 256**place bytes."""
    if place == 0:
        step = (_REGISTERS >> np.uint32(8)) ^ _BYTES[_REGISTERS & 255]
    else:
        below = _digit_tables(place - 1)
        step = _apply(below[255], below[1])
    tables = np.empty((256, 4, 256), np.uint32)
    tables[0] = _REGISTERS
    for digit in range(1, 256):
        tables[digit] = _apply(step, tables[digit - 1])
    return tables


def shift(registers: U32, lengths: Lengths) -> U32:
    """Append `lengths` zero bytes to each register."""
    longest = int(lengths.max(initial=0))
    uniform = int(lengths.min(initial=longest)) == longest
    place = 0
    while longest >> (8 * place):
        tables = _digit_tables(place)
        if uniform:
            registers = _apply(tables[(longest >> (8 * place)) & 255], registers)
        else:
            registers = _apply_chosen(tables, (lengths >> (8 * place)) & 255, registers)
        place += 1
    return registers


def _apply_chosen(tables: U32, digits: Lengths, registers: U32) -> U32:
    """`_apply`, with its own map for each register."""
    flat = tables.reshape(-1)
    base = digits << 10
    result = flat[base + (registers & 255)]
    for byte in (1, 2, 3):
        base += 256
        result ^= flat[base + ((registers >> np.uint32(8 * byte)) & 255)]
    return result


def combine(checksums: U32, lengths: Lengths) -> int:
    """The checksum of the concatenation of pieces, from the checksums and lengths of the pieces.

    Neighbours are joined in a tree while there are many; the rest is shifted to the end in one step,
    which takes more work for each and far fewer steps.
    """
    while len(checksums) > _DIRECT_PIECES:
        if len(checksums) % 2:  # a piece of no bytes in front changes nothing
            checksums = np.concatenate((np.zeros(1, np.uint32), checksums))
            lengths = np.concatenate((np.zeros(1, np.int64), lengths))
        checksums = shift(checksums[0::2], lengths[1::2]) ^ checksums[1::2]
        lengths = lengths[0::2] + lengths[1::2]
    behind = lengths.sum() - lengths.cumsum()
    return int(np.bitwise_xor.reduce(shift(checksums, behind), initial=0))


@cache
def _byte_effects() -> U32:
    """(16, 256): lin of each byte with 0, 1, ... 15 zero bytes behind it."""
    return np.stack([shift(_BYTES, np.full(1, place)) for place in range(16)])


def change(first: Differences, second: Differences, bytes_behind: Lengths) -> U32:
    """Return how checksums change when two adjacent big-endian u64 fields are XORed with these numbers."""
    if len(second) and int(second.max()) == int(second.min()):  # one time for a whole batch
        second = second[:1]
    return shift(_field_effect(first, 8) ^ _field_effect(second, 0), bytes_behind)


def _field_effect(differences: Differences, bytes_behind: int) -> U32:
    """lin of eight bytes; bytes that no difference touches are not looked up."""
    effects = _byte_effects()
    total = np.zeros(len(differences), np.uint32)
    used = int(np.bitwise_or.reduce(differences, initial=0))
    for place in range(8):
        if (used >> (8 * place)) & 255:
            total ^= effects[place + bytes_behind][(differences >> np.uint64(8 * place)) & np.uint64(255)]
    return total


def is_one_bit_off(difference: int, length: int) -> bool:
    """Return whether two checksums differ as if one bit of the checksum, or of `length` bytes, were flipped."""
    if difference & (difference - 1) == 0:
        return difference != 0
    table = _BYTES.tolist()
    by_first_byte = {entry >> 24: number for number, entry in enumerate(table)}
    single_bits = {table[1 << bit] for bit in range(8)}
    register = difference
    for _ in range(length):  # undo one zero byte after another: how far the bit was from the end
        if register in single_bits:
            return True
        number = by_first_byte[register >> 24]
        register = ((register ^ table[number]) << 8 | number) & 0xFFFFFFFF
    return False
