"""Messages of transactions: aborted and open ones are hidden, however a log is cut."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import RangeDamaged, TransactionPending
from goqueue.spark.logs.directory import DirectoryLogs
from tests.spark import naive
from tests.spark.stock import Sent, Stock, flip, logs_of, rows, splits

# --- against the naive reading ---

steps = st.one_of(
    st.tuples(st.sampled_from(["plain", "first", "second", "third"]), st.integers(1, 40)),
    st.tuples(st.sampled_from(["commit", "abort"]), st.integers(0, 2)),
    st.tuples(st.sampled_from(["roll", "compact"]), st.just(0)),
)


class Played:
    """A log into which some producers write, each in one transaction after the other."""

    def __init__(self, path: Path, *, segment_bytes: int) -> None:
        self.stock = Stock(path, segment_bytes=segment_bytes).create("t")
        self.open: dict[str, list[range]] = {"first": [], "second": [], "third": []}
        self.aborted: list[tuple[int, int]] = []

    def play(self, step: str, number: int) -> None:
        match step:
            case "roll":
                self.stock.roll("t")
            case "compact":
                below = min((pieces[0].start for pieces in self.open.values() if pieces), default=None)
                self.stock.compact("t", below=below, aborted=self.aborted)
            case "commit" | "abort":
                name = list(self.open)[number]
                if pieces := self.open[name]:
                    self.stock.end("t", *pieces, is_commit=step == "commit", producer=number)
                    self.aborted += [(one.start, one.stop) for one in pieces if step == "abort"]
                    self.open[name] = []
            case name:
                messages = [Sent(b"%d of %s" % (one, name.encode()), b"%d" % (one % 30)) for one in range(number)]
                if name in self.open:
                    messages = [replace(one, is_transactional=True) for one in messages]
                appended = self.stock.append("t", *messages)
                if name in self.open:
                    self.open[name].append(appended)


@given(
    st.lists(steps, min_size=1, max_size=40),
    st.sampled_from([4096, 8192, 100_000]),
    st.none() | st.integers(1, 4000),
    st.booleans(),
)
def test_whatever_is_interleaved_what_was_committed_is_read(
    played: list[tuple[str, int]], segment_bytes: int, split_bytes: int | None, is_live: bool
) -> None:
    with tempfile.TemporaryDirectory() as place:
        log = Played(Path(place) / "d", segment_bytes=segment_bytes)
        with log.stock as stock:
            for one in played:
                log.play(*one)
            if not is_live:
                stock.close()
            logs = logs_of(stock)
            found = rows(logs, splits(logs, split_bytes=split_bytes), fails=False)
            assert found == [without(row) for row in naive.rows(stock.path, "t")]
            everything = replace(logs, isolation="read_uncommitted")
            wanted = naive.rows(stock.path, "t", shows_uncommitted=True)
            assert rows(everything, splits(everything, split_bytes=split_bytes)) == wanted


def without(row: naive.Row) -> naive.Row:
    """As it is read where nothing may fail."""
    return {name: value for name, value in row.items() if name != "crc_ok"}


# --- where the end of a transaction is ---


def offsets(logs: DirectoryLogs) -> list[int]:
    return [row["offset"] for row in rows(logs, splits(logs), fails=False)]


def test_a_marker_may_stand_segments_behind(tmp_path: Path) -> None:
    with Stock(tmp_path / "d") as stock:
        stock.create("t")
        kept = stock.append("t", Sent(b"kept", is_transactional=True))
        lost = stock.append("t", Sent(b"lost", is_transactional=True))
        for _ in range(5):
            stock.append("t", *[Sent(b"x" * 1500)] * 3)
        stock.end("t", lost, is_commit=False)
        stock.end("t", kept)
        assert len(stock.segments("t")) > 3
        assert offsets(logs_of(stock)) == [0, *range(2, 17)]


def test_what_is_open_is_hidden_until_it_is_committed(tmp_path: Path) -> None:
    with Stock(tmp_path / "d") as stock:
        stock.create("t")
        stock.append("t", Sent(b"plain"))
        opened = stock.append("t", *[Sent(b"open", is_transactional=True)] * 2)
        stock.append("t", Sent(b"behind"))
        logs = logs_of(stock)
        assert offsets(logs) == [0, 3]
        stock.end("t", opened)
        assert offsets(logs) == [0, 1, 2, 3]


def test_an_undecided_transaction_is_an_error_where_loss_is_refused(tmp_path: Path) -> None:
    """A broker at work knows what is open, and plans end before it: so a marker is missing."""
    with Stock(tmp_path / "d") as stock:
        stock.create("t")
        stock.append("t", Sent(b"plain"), Sent(b"lost", is_transactional=True))
        logs = logs_of(stock)
        with pytest.raises(TransactionPending, match="the transaction of offset 1 of t/0"):
            rows(logs, splits(logs))
    assert len(rows(logs, splits(logs))) == 1


def test_a_plan_is_read_the_same_each_time_though_transactions_end_meanwhile(tmp_path: Path) -> None:
    with Stock(tmp_path / "d") as stock:
        stock.create("t")
        opened = stock.append("t", Sent(b"open", is_transactional=True))
        logs = logs_of(stock)
        planned = splits(logs)
        before = rows(logs, planned, fails=False)
        stock.end("t", opened)
        assert rows(logs, planned, fails=False) == before == []
        assert len(rows(logs, splits(logs))) == 1


def test_markers_of_very_many_ranges_hold_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.storage.transaction_marker.MARKER_RANGES_MAX", 3)
    with Stock(tmp_path / "d", segment_bytes=1_000_000) as stock:
        stock.create("t")
        pieces: list[range] = []
        for number in range(20):
            pieces.append(stock.append("t", Sent(b"%d" % number, is_transactional=True)))
            stock.append("t", Sent(b"plain"))
        assert len(stock.end("t", *pieces[:10])) == 4
        stock.end("t", *pieces[10:], is_commit=False)
        assert offsets(logs_of(stock)) == [*range(20), *range(21, 40, 2)]


def test_damage_behind_a_transaction_ends_a_strict_read_and_hides_what_it_leaves_in_doubt(tmp_path: Path) -> None:
    with Stock(tmp_path / "d") as stock:
        stock.create("t")
        opened = stock.append("t", Sent(b"in doubt", is_transactional=True))
        stock.roll("t")
        stock.end("t", opened)
        stock.append("t", Sent(b"behind"))
    flip(stock.segments("t")[1], 20)
    logs = logs_of(stock)
    first = splits(logs, split_bytes=1)[0]
    with pytest.raises(RangeDamaged):
        rows(logs, [first])
    assert rows(logs, [first], fails=False) == []


def test_transactions_are_not_looked_up_where_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("the log has no transactions")

    monkeypatch.setattr(DirectoryLogs, "decided", asked)
    with Stock(tmp_path / "d") as stock:
        stock.create("t").fill("t", 60)
        assert rows(logs_of(stock), splits(logs_of(stock))) == naive.rows(stock.path, "t")
