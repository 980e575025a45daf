"""Where a key belongs: the same wherever it is worked out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import OperatorError
from goqueue.partitioner import hash_function, murmur2, murmur3, partition_of


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_what_kafka_computes(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"", 0), (b"hello", 0x248BFA47), (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723)],
)
def test_murmur3_is_the_published_one(key: bytes, expected: int) -> None:
    assert murmur3(key) == expected


@given(st.binary(min_size=1, max_size=40), st.integers(1, 1000), st.sampled_from([murmur2, murmur3]))
def test_every_key_has_a_partition_that_is_there(key: bytes, partitions: int, hash_key: object) -> None:
    assert callable(hash_key)
    assert 0 <= partition_of(key, partitions, hash_key) < partitions


def test_a_partitioner_that_is_not_known_is_named() -> None:
    with pytest.raises(OperatorError, match="crc16"):
        hash_function("crc16")
