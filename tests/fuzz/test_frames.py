"""A moment of fuzzing; `python -m tests.fuzz.frames` goes on for as long as one likes."""

import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import frames
from tests.storage.samples import flipped


@pytest.mark.parametrize("part", range(4))
def test_mutated_logs_are_read_alike_by_all_readers(part: int) -> None:
    assert frames.run(secrets.randbits(32) + part, count=150) == 150


def test_every_seed_input_is_read_alike() -> None:
    for content in frames.seeds():
        frames.fuzz_one(content)


@given(st.binary(max_size=500))
def test_arbitrary_bytes_are_read_alike(content: bytes) -> None:
    frames.fuzz_one(content)
    frames.fuzz_one(b"GQ\x01" + content)


def test_equal_seeds_make_equal_inputs() -> None:
    one, other = frames.inputs(7), frames.inputs(7)
    assert [next(one) for _ in range(20)] == [next(other) for _ in range(20)]


def test_a_failure_names_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(content: bytes) -> None:
        raise AssertionError(flipped(content + b"x", 0))

    monkeypatch.setattr(frames, "fuzz_one", broken)
    with pytest.raises(AssertionError) as failed:
        frames.run(42, count=1)
    assert failed.value.__notes__ == ["repeat with: python -m tests.fuzz.frames --seed 42 --count 1"]
