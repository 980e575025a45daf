"""Bytes that are not what they were: each healthy message is read, and each damage is told once, as `fsck` does."""

import shutil
import struct
import tempfile
import tracemalloc
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import RangeDamaged
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import DamagedBytes, Split, read_split
from goqueue.spark.reading.plan import EARLIEST, ReadBound, TopicSelection, make_plan
from goqueue.spark.reading.tasks import Extract
from goqueue.storage import check, frame
from tests.spark import naive
from tests.spark.stock import DISK, SHAPES, Sent, Stock, flip, logs_of, made, offsets, rows, splits, stocked


@dataclass(frozen=True)
class Harm:
    """Something that happens to the bytes of a sealed segment, given by fractions of its size."""

    kind: str
    segment: int
    at: float
    length: int

    def place(self, size: int) -> tuple[int, int]:
        """Which bytes are not what they were."""
        first = int(self.at * (size - 1))
        match self.kind:
            case "delete":
                return 0, size
            case "cut":
                return first, size
            case "zero":
                return first // 512 * 512, min(size, (first // 512 + 1) * 512)
            case "swap":
                return first, min(size, first + 2 * self.length)
            case _:
                return first, first + 1

    def apply(self, file: Path) -> None:
        if self.kind == "delete":
            file.unlink()
            return
        content = bytearray(file.read_bytes())
        first, end = self.place(len(content))
        match self.kind:
            case "cut":
                del content[first:]
            case "zero":
                content[first:end] = bytes(end - first)
            case "swap":
                middle = (first + end) // 2
                content[first:end] = content[middle:end] + content[first:middle]
            case _:
                content[first] ^= 1 << self.length % 8
        file.write_bytes(content)


harms = st.builds(
    Harm,
    kind=st.sampled_from(["flip", "flip", "flip", "cut", "zero", "swap", "delete"]),
    segment=st.integers(0, 3),
    at=st.floats(0, 1),
    length=st.integers(0, 17),  # a whole frame that stands elsewhere would be found there
)
index_harms = st.sampled_from(["none", "none", "missing", "garbage", "short", "time missing", "shifted"])


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of six segments whose writer stopped cleanly."""
    return made(tmp_path_factory.mktemp("template") / "d", count=300, partitions=1, segment_bytes=8192).path


def harm_index(file: Path, kind: str) -> None:
    index, times = file.with_suffix(".index"), file.with_suffix(".timeindex")
    content = index.read_bytes()
    match kind:
        case "missing":
            index.unlink()
        case "time missing":
            times.unlink()
        case "garbage":
            index.write_bytes(b"\xa5" * len(content))
        case "short":
            index.write_bytes(content[: len(content) // 2])
        case "shifted":
            entries, mark = content[:-24], content[-24:]
            table = list(struct.iter_unpack(">qq", entries))
            index.write_bytes(b"".join(struct.pack(">qq", one, at + (at > 0) * 9) for one, at in table) + mark)


Told = tuple[str, int, int, int, int]


def told(logs: LogSource, planned: list[Split]) -> list[Told]:
    """All damage that splits tell of."""
    found = [piece for split in planned for piece in read_split(logs, split) if isinstance(piece, DamagedBytes)]
    return [
        (one.path, one.damage.position, one.damage.end, one.damage.first_offset, one.damage.next_offset)
        for one in found
    ]


def checked(path: Path) -> list[Told]:
    """Return the findings of fsck on the same files."""
    tasks, _ = check.plan_check(DISK, "orders/0", f"{path}/logs/orders/0")
    findings = [finding for task in tasks for finding in check.check_segment(DISK, task).findings]
    return [
        (one.path, one.position or 0, one.end or 0, one.first_offset or 0, one.next_offset or 0)
        for one in findings
        if one.code == "range_damaged"
    ]


@given(harms, index_harms, st.sampled_from([None, 1, 900, 2500, 9000]))
def test_every_healthy_message_is_there_and_each_damage_is_told_by_one_split_as_fsck_tells_it(
    template: Path, harm: Harm, index_harm: str, split_bytes: int | None
) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(shutil.copytree(template, Path(place) / "d"))
        whole = naive.frames(path, "orders")
        file = sorted((path / "logs/orders/0").glob("*.log"))[harm.segment]
        size, before = file.stat().st_size, file.read_bytes()
        harm_index(file, index_harm)
        harm.apply(file)
        after = file.read_bytes() if file.exists() else b""
        bad = [place for place in range(size) if place >= len(after) or before[place] != after[place]]
        starts = [position for segment, position, _ in whole if segment == int(file.stem)]
        hit = {bisect_right(starts, place) - 1 for place in bad}
        first = int(file.stem)
        healthy = [message.offset for _, _, message in whole if message.offset - first not in hit]
        logs = DirectoryLogs.at(str(path))
        planned = splits(logs, split_bytes=split_bytes)
        lost = sorted(set(range(300)) - set(healthy))
        damages = told(logs, planned)
        assert offsets(logs, planned) == [offset for offset in healthy if offset >= planned[0].first]
        assert [one for one in damages if one[1] < one[2]] == checked(path)
        covered = {offset for one in damages for offset in range(one[3], one[4])}
        if index_harm == "none" and planned[0].first == 0:
            assert covered == set(lost)


def test_a_read_that_begins_within_damage_tells_it(template: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(template, tmp_path / "d"))
    file = sorted((path / "logs/orders/0").glob("*.log"))[1]
    content = file.read_bytes()
    file.write_bytes(content[:1000] + bytes(3000) + content[4000:])
    logs = DirectoryLogs.at(str(path))
    ((_, position, end, first, after),) = told(logs, splits(logs))
    assert after - first > 5
    for start in (first, first + 3, after - 1):
        planned = make_plan(logs, TopicSelection(), ReadBound(start)).splits(logs, split_bytes=2000)
        assert [one[1:] for one in told(logs, planned)] == [(position, end, first, after)]
    behind = make_plan(logs, TopicSelection(), ReadBound(after)).splits(logs, split_bytes=2000)
    before = make_plan(logs, TopicSelection(), EARLIEST, ReadBound(first)).splits(logs, split_bytes=2000)
    assert told(logs, behind) == told(logs, before) == []


def test_what_is_lost_ends_a_strict_read_with_the_path_and_the_bytes(template: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(template, tmp_path / "d"))
    file = sorted((path / "logs/orders/0").glob("*.log"))[2]
    (_, first, _), (_, end, _) = [one for one in naive.frames(path, "orders") if one[0] == int(file.stem)][3:5]
    flip(file, first + 40)
    logs = DirectoryLogs.at(str(path))
    extract = Extract(logs, ("offset",))
    with pytest.raises(RangeDamaged, match=f"^{file} is damaged from byte {first} to {end}: the checksum is") as caught:
        [batch for split in splits(logs) for batch in extract.batches(split)]
    assert str(caught.value.hint).endswith("failOnDataLoss=false in a job) reads on behind it")


def test_segments_that_are_gone_are_a_loss_and_offsets_that_compaction_took_are_none(
    template: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copytree(template, tmp_path / "d"))
    files = sorted((path / "logs/orders/0").glob("*.log"))
    for file in files[2:4]:
        file.unlink()
    logs = DirectoryLogs.at(str(path))
    ((where, position, end, first, after),) = told(logs, splits(logs, split_bytes=900))
    assert (where, position, end) == (str(files[1]), files[1].stat().st_size, files[1].stat().st_size)
    assert (first, after) == (int(files[2].stem), int(files[4].stem))
    with stocked(tmp_path / "compacted", partitions=1) as stock:
        stock.compact("orders")
        logs = logs_of(stock)
        assert len(offsets(logs, splits(logs))) < 80
        assert told(logs, splits(logs)) == []


def test_frames_with_a_wrong_checksum_are_rows_where_crc_ok_is_asked_for(template: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(template, tmp_path / "d"))
    wanted = naive.rows(path, "orders")
    harmed = [wanted[number] for number in (3, 4, 30, 31, 32, 90, 200)]
    for row in harmed:
        flip(path / f"logs/orders/0/{row['segment']:020d}.log", row["position"] + 17)  # in the time
    logs = DirectoryLogs.at(str(path))
    for split_bytes in (None, 900):
        found = rows(logs, splits(logs, split_bytes=split_bytes))
        assert [row["offset"] for row in found] == [row["offset"] for row in wanted]
        assert [row["offset"] for row in found if not row["crc_ok"]] == [row["offset"] for row in harmed]
        assert [row["value"] for row in found] == [row["value"] for row in wanted]


def test_every_field_of_every_shape_may_be_wrong_where_crc_ok_is_asked_for(tmp_path: Path) -> None:
    stock = made(tmp_path / "d", count=len(SHAPES) + 2, partitions=1)
    (file,) = stock.segments("orders")
    content, logs = file.read_bytes(), logs_of(stock)
    for position in range(0, len(content), 7):
        file.write_bytes(content[:position] + bytes((content[position] ^ 0x41,)) + content[position + 1 :])
        found = rows(logs, splits(logs))
        assert [row["offset"] for row in found] == sorted({row["offset"] for row in found})
        assert sum(row["crc_ok"] for row in found) >= len(SHAPES)
        assert sum(not row["crc_ok"] for row in found) <= 1


def test_a_ruined_segment_of_many_megabytes_is_read_in_pieces(tmp_path: Path) -> None:
    stock = made(tmp_path / "d", count=30, partitions=1, segment_bytes=2_000)
    file, behind = stock.segments("orders")[:2]
    content, wanted = file.read_bytes(), naive.rows(stock.path, "orders")
    end, first = 150 << 20, int(behind.stem)
    with file.open("r+b") as opened:
        opened.truncate(end)  # a hole of zeros
    logs = logs_of(stock)
    planned = splits(logs)
    tracemalloc.start()
    assert rows(logs, planned) == wanted
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 120 << 20
    assert [one[1:] for one in told(logs, planned)] == [(len(content), end, first, first)]


def test_as_many_pieces_as_asked_for_are_never_more_than_there_are_places_to_cut(template: Path) -> None:
    logs = DirectoryLogs.at(str(template))
    assert len(splits(logs, least=10**12)) == len(splits(logs, split_bytes=1)) <= 15


def test_a_frame_inside_a_value_is_never_read_as_a_message(tmp_path: Path) -> None:
    with Stock(tmp_path / "d") as stock:
        stock.create("t").append("t", *[Sent(b"before")] * 3)
        forged = frame.encode(b"forged", b"k", offset=5, timestamp_ns=stock.clock.now_ns() + 2 * 10**9)
        stock.append("t", Sent(b"x" * 50 + forged + forged, b"k"), *[Sent(b"after")] * 4)
    whole = naive.frames(stock.path, "t")
    (file,), position, logs = stock.segments("t"), whole[3][1], logs_of(stock)
    content = file.read_bytes()
    for place in range(position, whole[4][1]):
        file.write_bytes(content[:place] + bytes((content[place] ^ 2,)) + content[place + 1 :])
        assert offsets(logs, splits(logs)) == [0, 1, 2, 4, 5, 6, 7]
        assert [one[1:] for one in told(logs, splits(logs))] == [(position, whole[4][1], 3, 4)]
