"""Bytes that were written once are written and read the same by every later version of the code."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from goqueue.limits import HEADERS_BYTES_MAX, INDEX_BLOCK_BYTES, KEY_BYTES_MAX, VALUE_BYTES_MAX
from goqueue.storage import frame
from goqueue.storage.index import load
from goqueue.testing.disk import FaultyDisk
from tests.storage.golden.files import (
    FRAMES,
    HOME,
    SEGMENT_FILES,
    described,
    described_epoch,
    described_segment,
    expected_files,
    found_files,
)
from tests.storage.samples import flipped
from tests.storage.stores import DATA, open_store, values


def test_current_code_writes_the_golden_files() -> None:
    assert found_files() == expected_files()


@pytest.mark.parametrize("name", FRAMES)
def test_golden_frame_matches_its_description(name: str) -> None:
    whole = (HOME / f"frame-{name}.bin").read_bytes()
    assert frame.verify(whole) == len(whole)
    assert described(frame.decode(whole)) == described_in(f"frame-{name}.json")


def test_golden_epoch_frame_matches_its_description() -> None:
    whole = (HOME / "epoch.bin").read_bytes()
    assert frame.verify(whole) == len(whole)
    assert described_epoch(whole) == described_in("epoch.json")


def described_in(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((HOME / name).read_text(encoding="utf-8"))
    return content


def test_golden_segment_matches_its_description() -> None:
    files = {kind: (HOME / f"segment.{kind}.bin").read_bytes() for kind in SEGMENT_FILES}
    described_as = described_in("segment.json")
    assert described_segment(files) == described_as
    index = load(files["index"], files["timeindex"], 0, len(files["log"]))
    assert index is not None
    assert [list(one) for one in zip(index.offsets, index.positions, strict=True)] == described_as["index"]
    assert [list(one) for one in zip(index.times, index.offsets, strict=True)] == described_as["timeindex"]
    assert index.marked == tuple(described_as["mark"])


def test_store_opens_the_golden_segment(disk: FaultyDisk) -> None:
    for kind in SEGMENT_FILES:
        disk.write_file(f"{DATA}/logs/golden/{0:020d}.{kind}", (HOME / f"segment.{kind}.bin").read_bytes())
    disk.write_file(f"{DATA}/FORMAT", b"goqueue 1\n")
    store = open_store(disk)
    log = store.log("golden")
    messages = described_in("segment.json")["messages"]
    assert [len(value) for value in values(log)] == [length for *_, length in messages]
    assert (log.next_offset, log.last_time) == (messages[-1][0] + 1, messages[-1][1])
    found = store.recovered["golden"]
    assert (found.damages, found.cut) == ([], None)


# --- the page that describes them ---

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def dumped(block: str) -> bytes:
    """The bytes of a hex dump whose lines begin with their position."""
    rows = [line.split() for line in block.splitlines()]
    content = bytearray()
    for position, *row in rows:
        assert int(position, 16) == len(content)
        content += bytes.fromhex("".join(row))
    return bytes(content)


def test_documented_example_is_the_golden_frame() -> None:
    whole = dumped(blocks("hex")[0])
    assert whole == (HOME / "frame-example.bin").read_bytes()
    assert f"`{crc32c(whole[:4] + bytes(4) + whole[8:]):08x}`" in PAGE
    assert f"all {len(whole)} bytes" in PAGE


def test_documented_mark_is_that_of_the_golden_segment() -> None:
    assert (HOME / "segment.index.bin").read_bytes().endswith(dumped(blocks("hex")[1]))


def test_documented_epoch_frame_is_the_golden_one() -> None:
    assert dumped(blocks("hex")[2]) == (HOME / "epoch.bin").read_bytes()


def test_documented_reader_reads_the_golden_segment() -> None:
    (program,) = blocks("python")
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - what the page shows is run as it stands
    assert names["crc32c"](b"123456789") == 0xE3069283
    log = (HOME / "segment.log.bin").read_bytes()
    read = [[offset, time, key.decode(), len(value)] for offset, time, key, value in names["messages"](log)]
    assert read == described_in("segment.json")["messages"]
    for wrong in (log[:-1], log + bytes(100), flipped(log, 5000)):
        with pytest.raises(ValueError, match=r"frame|damage"):
            list(names["messages"](wrong))


def test_documented_limits_match_the_code() -> None:
    assert f"{VALUE_BYTES_MAX:,} (16 MiB)" in PAGE
    assert f"34 + {KEY_BYTES_MAX:,} + {VALUE_BYTES_MAX:,} + {HEADERS_BYTES_MAX:,} bytes" in PAGE
    assert f"each block of {INDEX_BLOCK_BYTES:,} bytes" in PAGE
    for flag in (
        frame.COMPRESSED,
        frame.HAS_HEADERS,
        frame.TOMBSTONE,
        frame.CONTROL,
        frame.COMMIT,
        frame.TRANSACTIONAL,
    ):
        assert f"| `0x{flag:02x}` |" in PAGE
    for number, name in enumerate(frame.PRIORITIES):
        assert f"{number} {name}" in PAGE
