"""The partition of a key: the same wherever it is computed."""

from collections.abc import Callable
from typing import Literal

import mmh3

from goqueue.errors import OperatorError

Hash = Callable[[bytes], int]
Partitioner = Literal["murmur3", "murmur2"]

_POSITIVE = 0x7FFFFFFF
_WORD = 0xFFFFFFFF
_M = 0x5BD1E995
_SEED = 0x9747B28C


def murmur3(key: bytes) -> int:
    """The default: MurmurHash3, x86, 32 bits, seed 0."""
    return mmh3.hash(key, 0, False)


def murmur2(key: bytes) -> int:
    """MurmurHash2 as Kafka's clients compute it, for topics that must agree with them."""
    length = len(key)
    state = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _M & _WORD
        word = (word ^ word >> 24) * _M & _WORD
        state = state * _M & _WORD ^ word
    if whole < length:
        state = (state ^ int.from_bytes(key[whole:], "little")) * _M & _WORD
    state = (state ^ state >> 13) * _M & _WORD
    return state ^ state >> 15


HASHES: dict[str, Hash] = {"murmur3": murmur3, "murmur2": murmur2}


def partition_of(key: bytes, partitions: int, hash_key: Hash = murmur3) -> int:
    return (hash_key(key) & _POSITIVE) % partitions


def hash_function(name: str) -> Hash:
    """Return the hash function of a partitioner. An unknown one is an error: keys would go to other partitions."""
    try:
        return HASHES[name]
    except KeyError:
        known = ", ".join(HASHES)
        raise OperatorError(f"the partitioner {name!r} is not known here", hint=f"known are {known}") from None
